"""The files of a run for the scenes: responses of every kind, logs of every kind, hostile ones too.

python tests/ui/scene_files.py RUN     for pictures, see tools/screenshot.py --run
"""

from __future__ import annotations

import json
import os
import sys
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from eagle_tui.config.target import model_location
from eagle_tui.rundir import flags
from eagle_tui.rundir.paths import RunDir

NOW = 1_800_000_000.0
HOSTILE = (
    "see [/path] and [b + [bold]x[/] \x1b[2J\x1b]52;c;QUJD\x07 \x9b31m \u202eabc\u202c \r\nnext"
)
WIDE = "漢字かな混じり 한국어 नमस्ते 👩‍👩‍👧 e\u0301e\u0301 שלום עולם مرحبا ﷽ \ufeff zero\u200bwidth"
DATASETS = ("b1_glaive", "b2_opencodeinstruct", "b3_magicoder", "b8_sweagent")
QUESTIONS = (
    "Write a Python function that merges overlapping or touching intervals.",
    "Explain why the sky is blue to a child of five.",
    "Given the table orders(id, customer, total), list the customers who spent the most.",
    "How do I count words in a file with awk?",
    "Prove that there are infinitely many primes.",
)
REASONING = (
    "The user wants a short answer. Sorting first is the usual step; then one pass is enough.\n\n"
    "Edge cases: an empty input, and input that must not be changed, so a copy is needed."
)
ANSWER = (
    "Sort by start, then walk once:\n\n```python\n"
    "def merge(spans: list[list[int]]) -> list[list[int]]:\n"
    "    merged: list[list[int]] = []\n    for start, end in sorted(spans):\n        ...\n"
    "    return merged\n```\n\n`merge([[1, 3], [2, 6]])` gives `[[1, 6]]`."
)
STATES = ("complete",) * 6 + ("truncated", "complete", "no_answer", "complete", "loop")


@cache
def tokenizer() -> Tokenizer:
    """The tiny model's."""
    return Tokenizer.from_file(model_location("builtin:tiny", Path()) + "/tokenizer.json")


@cache
def tokens_of(text: str) -> tuple[int, ...]:
    """Its ids of a text, with the end of a turn."""
    return (*tokenizer().encode(text).ids, tokenizer().token_to_id("<|im_end|>") or 0)


def response(dataset: str, number: int, at: float, **parts: Any) -> dict[str, Any]:
    """One stored response; `number` chooses what is in it."""
    state = STATES[number % len(STATES)]
    tokens = 200 + (number * 7919) % 5000 if state != "truncated" else 16_384
    content = {"no_answer": "", "loop": "again and " * 200}.get(state, ANSWER)
    prompt_ids, output_ids = tokens_of(QUESTIONS[number % len(QUESTIONS)]), tokens_of(ANSWER)
    body = {
        "id": f"{dataset[:2]}{number:06d}" + "0" * 24,
        "dataset": dataset,
        "state": state,
        "finish_reason": "length" if state == "truncated" else "stop",
        "usage": {
            "prompt_tokens": 31,
            "completion_tokens": tokens,
            "reasoning_tokens": tokens // 3,
        },
        "endpoint": "http://127.0.0.1:30000",
        "attempt": 1,
        "pieces": 1,
        "at": at,
        "flag": None,
        "prompt_ids": prompt_ids,
        "output_ids": output_ids,
        "reasoning": REASONING,
        "content": content,
        "conversation": [{"role": "user", "content": QUESTIONS[number % len(QUESTIONS)]}],
    }
    return body | parts


def append(run: RunDir, row: dict[str, Any]) -> None:
    """Add a row to its dataset's responses."""
    path = run.responses(row["dataset"])
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8", errors="surrogatepass") as file:
        file.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n")


def stamp(at: float) -> str:
    """A time as SGLang writes it, in UTC."""
    return datetime.fromtimestamp(at, UTC).strftime("[%Y-%m-%d %H:%M:%S TP0]")


def server_log() -> str:
    """A server that starts, serves, warns, and draws progress bars."""
    begin = NOW - 7200
    bar = "".join(
        f"\rLoading safetensors checkpoint shards: {n:3d}% |{'#' * (n // 4):<25}|"
        for n in range(101)
    )
    lines = [
        f"{stamp(begin)} server_args=ServerArgs(model_path='/models/kimi-k2.5', tp_size=8)",
        bar,
    ]
    for n in range(1200):
        at = begin + 60 + n * 5
        lines.append(
            f"{stamp(at)} Decode batch, #running-req: {47 + n % 6}, #token: {300_000 + n * 31}, "
            f"token usage: 0.{80 + n % 4}, gen throughput (token/s): {850 + n % 40}.{n % 100:02d}, "
            f"#queue-req: {n % 3}"
        )
        if n % 97 == 60:
            lines.append(
                f"{stamp(at)} WARNING: KV cache pool is full. Retract requests. #retracted_reqs: 2"
            )
    lines += [
        f"{stamp(NOW - 900)} Traceback (most recent call last):",
        '  File "/opt/sglang/srt/managers/scheduler.py", line 812, in event_loop',
        "    result = self.run_batch(batch)",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
        f"{stamp(NOW - 30)} {HOSTILE}",
        f"{stamp(NOW - 20)} {WIDE}",
    ]
    lines += [f"{stamp(NOW - 10 + n)} Decode batch, #running-req: 51" for n in range(10)]
    return "\n".join(lines) + "\n"


def build(root: Path) -> RunDir:
    """Everything, into `root`."""
    run = RunDir(root)
    run.logs.mkdir(parents=True)
    tables = "".join(
        f'[[dataset]]\nname = "{name}"\nsource = "{name}.jsonl"\n' for name in DATASETS
    )
    run.config.write_text(
        '[target]\nmodel = "builtin:tiny"\n[[server]]\nengine = "embedded"\n' + tables
    )
    for place, dataset in enumerate(DATASETS):
        for number in range(60):
            append(run, response(dataset, number + place, NOW - 4000 + number * 60 + place))
    hostile = {"conversation": [{"role": "user", "content": HOSTILE}], "reasoning": HOSTILE}
    append(run, response("b2_opencodeinstruct", 900, NOW - 90, content=HOSTILE + WIDE, **hostile))
    long = response("b3_magicoder", 901, NOW - 60, content="x" * (1 << 20))
    long["usage"]["completion_tokens"] = 262_144
    append(run, long)
    flags.put(run, flags.Flag(dataset="b1_glaive", id=response("b1_glaive", 3, 0)["id"], at=NOW))
    (run.logs / "server-kimi-0002.log").write_text(server_log(), encoding="utf-8")
    (run.logs / "generate-0001.log").write_text("")
    (run.logs / "supervisor-0001.log").write_bytes(b"y" * (1 << 20) + b"\nINFO: started\n")
    for name, age in (("server-kimi-0002", 5), ("supervisor-0001", 60), ("generate-0001", 90)):
        path = run.logs / f"{name}.log"
        times = (NOW - age, NOW - age)
        os.utime(path, times)
    return run


if __name__ == "__main__":
    build(Path(sys.argv[1]))
