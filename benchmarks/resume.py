"""How soon phase 2 is ready again with many stored responses.

`python benchmarks/resume.py` stores 1,000,000 short and 50,000 long ones, opens each dataset as a
worker does at its start, in a process of its own, and prints time and highest memory.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from harness import WORD, child, make_run, measured, table


def ready(root: Path) -> int:
    """Open a dataset as a worker does at its start."""
    from eagle_tui.config import load_config
    from eagle_tui.pipeline.generation.work import open_work
    from eagle_tui.rundir import desired
    from eagle_tui.rundir.paths import RunDir

    run = RunDir.at(root)
    config = load_config(run.config)
    limits = desired.limits(config, desired.Desired(), config.dataset[0])

    def work() -> int:
        return open_work(run, config.dataset[0], limits, "m").figures.rows

    measured(work)
    return 0


def resuming(base: Path, rows: int, tokens: int) -> list[str]:
    """Time and memory until stored responses are known again: a row of the table."""
    from eagle_tui.pipeline.generation.responses import encode, response_row
    from eagle_tui.rundir.paths import RunDir

    root = base / f"resume{tokens}"
    make_run(root, 0, "http://127.0.0.1:9")
    run = RunDir.at(root)
    run.phase("generate").mkdir()
    line = encode(
        response_row(
            id="@" * 24, dataset="b1", state="complete", finish_reason="stop",
            prompt_tokens=tokens, completion_tokens=tokens, reasoning_tokens=tokens // 2,
            endpoint="s", attempt=1, pieces=1, at=1.0, flag="", prompt_ids=[WORD] * tokens,
            output_ids=[WORD] * tokens, reasoning="word " * (tokens // 2),
            content="word " * (tokens // 2), conversation=[{"role": "user", "content": "word"}],
        )
    )  # fmt: skip
    with run.prompts("b1").open("wb") as prompts, run.responses("b1").open("wb") as responses:
        for number in range(rows):
            key = b"%024x" % number
            prompts.write(b'{"id":"%s","dataset":"b1","prompt_ids":[400]}\n' % key)
            responses.write(line.replace(b"@" * 24, key, 1))
    size = run.responses("b1").stat().st_size
    found = child(__file__, "ready", root)
    assert found["requests"] == rows
    run.responses("b1").unlink()
    speed = size / 1e6 / found["s"]
    return [
        f"{rows:,} of {tokens:,} tokens, {size / 1e9:.1f} GB",
        f"{found['s']:.1f} (aim <= 15)",
        f"{found['mb']:,.0f} (aim <= 1,000)",
        f"{speed:,.0f}",
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--child", choices=["ready"])
    parser.add_argument("root", nargs="?")
    options = parser.parse_args()
    if options.child:
        return ready(Path(options.root))
    with tempfile.TemporaryDirectory() as base:
        rows = [resuming(Path(base), 1_000_000, 100), resuming(Path(base), 50_000, 1416)]
    table(["stored responses", "ready, s", "peak MB", "MB/s"], rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
