"""The regeneration script of SpecForge and our phase 2 in the same harness.

`python benchmarks/specforge.py SCRIPT [--python PYTHON]`, with SCRIPT the path of
`scripts/regenerate_train_data.py` in a checkout of github.com/sgl-project/SpecForge and PYTHON an
interpreter that has `openai` and `tqdm`.

Two tables: prompts lost and doubled after ten kills (-9) of a run of 2,000 prompts, each resumed
the way the program offers; and requests per second, without kills, against a server that answers
at once. Both talk to the same server with the same latencies, the script in the words of the
OpenAI API, since it knows no other.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from harness import asked, make_run, serving, table

PLACES = 128


class Ours:
    """Our worker, as the supervisor starts it."""

    name = "eagle-tui"
    probes = 0

    def __init__(self, root: Path, url: str, prompts: int) -> None:
        self.root = root
        make_run(root, prompts, url, PLACES)

    def command(self) -> list[str]:
        return [sys.executable, "-m", "eagle_tui.pipeline.generate", str(self.root)]

    def ids(self) -> list[str]:
        """Ids of the stored rows."""
        lines = (self.root / "responses" / "b1.jsonl").read_bytes().splitlines()
        return [json.loads(line)["id"] for line in lines]


class Script:
    """SpecForge's script."""

    name = "SpecForge"
    probes = 1
    """Answers an attempt asks for to see whether the server is there."""

    def __init__(self, root: Path, url: str, prompts: int, python: str, script: Path) -> None:
        self.root, self._url, self._python, self._script = root, url, python, script
        root.mkdir()
        with (root / "in.jsonl").open("w") as file:
            for number in range(prompts):
                talk = [{"role": "user", "content": "word " * 1000}]
                row = {"id": f"{number:024x}", "conversations": talk}
                file.write(json.dumps(row) + "\n")

    def command(self) -> list[str]:
        return [
            self._python, str(self._script), "--model", "m", "--resume", "--reasoning", "save",
            "--input-file-path", str(self.root / "in.jsonl"),
            "--output-file-path", str(self.root / "out.jsonl"),
            "--concurrency", str(PLACES), "--max-tokens", "4096",
            "--server-address", self._url.removeprefix("http://"),
        ]  # fmt: skip

    def ids(self) -> list[str]:
        """Ids of the rows of success; a torn line holds none."""
        found = []
        for line in (self.root / "out.jsonl").read_bytes().splitlines():
            try:
                found.append(json.loads(line)["id"])
            except ValueError:
                continue
        return found


Maker = Callable[[Path, str, int], "Ours | Script"]


def killed(maker: Maker, base: Path, prompts: int, kills: int, mean_s: float) -> list[str]:
    """A run with kills; gives a row of the table."""
    rng = random.Random(1)
    with serving(mean_s, PLACES) as url:
        one = maker(base / "killed", url, prompts)
        log = (base / "log").open("wb")
        began = time.monotonic()
        for _ in range(kills):
            worker = subprocess.Popen(one.command(), stdout=log, stderr=log)
            # Each attempt gets about an equal share of the answers.
            target = asked(url, "/counts")[1] + prompts / (kills + 1) * rng.uniform(0.5, 1.3)
            while asked(url, "/counts")[1] < target and worker.poll() is None:
                time.sleep(0.02)
            worker.kill()
            worker.wait()
        subprocess.run(one.command(), stdout=log, stderr=log, check=True)
        seconds = time.monotonic() - began
        answered = asked(url, "/counts")[1] - one.probes * (kills + 1)
    log.close()
    rows = Counter(one.ids())
    return [
        one.name,
        f"{prompts - len(rows):,}",
        f"{sum(rows.values()) - len(rows):,}",
        f"{answered - len(rows):,}",
        f"{seconds:.0f}",
    ]


def speed(maker: Maker, base: Path, prompts: int) -> list[str]:
    """A run without kills against an instant server; gives a row of the table."""
    with serving(0.0, PLACES) as url:
        one = maker(base / "speed", url, prompts)
        began = time.monotonic()
        done = subprocess.run(one.command(), capture_output=True, check=False)
        seconds = time.monotonic() - began
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    assert len(one.ids()) == prompts
    return [one.name, f"{prompts / seconds:,.1f}", f"{seconds:.1f}"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("script", type=Path)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--prompts", type=int, default=2000)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--mean-s", type=float, default=2.0)
    parser.add_argument("--speed-prompts", type=int, default=1000)
    options = parser.parse_args()
    script = options.script.resolve()
    makers: list[Maker] = [
        Ours,
        lambda root, url, prompts: Script(root, url, prompts, options.python, script),
    ]
    ran, raced = [], []
    for maker in makers:
        with tempfile.TemporaryDirectory() as base:
            root = Path(base)
            ran.append(killed(maker, root, options.prompts, options.kills, options.mean_s))
            raced.append(speed(maker, root, options.speed_prompts))
    print(f"{options.prompts:,} prompts, {PLACES} in flight, {options.kills} kills (-9)")
    table(["", "lost", "doubled", "answers that came and were thrown away", "s"], ran)
    print(f"{options.speed_prompts:,} prompts against an instant server, start included")
    table(["", "requests/s", "s"], raced)
    return 0


if __name__ == "__main__":
    sys.exit(main())
