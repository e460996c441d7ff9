"""`python -m eagle_tui.pipeline.demo DIRECTORY`: the datasets of the demo.

Each is written in one of the formats that people bring, so that the demo's prepare phase has real
work to do. The prompts are of the split that the tiny target was never trained on.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

from .tiny.tasks import write_dataset


@dataclass(frozen=True)
class DemoSet:
    """One file of the demo."""

    file: str
    family: str
    rows: int
    format: str
    answers: bool = False


SETS = (
    DemoSet("native", "chat", 60, "messages", answers=True),
    DemoSet("arith", "arith", 140, "messages"),
    DemoSet("count", "count", 150, "alpaca"),
    DemoSet("strings", "strings", 150, "prompt"),
    DemoSet("tools", "tools", 90, "sharegpt"),
    DemoSet("chat", "chat", 110, "sharegpt"),
    DemoSet("sort", "sort", 60, "messages"),
)
SEED = 20261130
NATIVE_SEED = SEED + 1


def main(argv: list[str] | None = None) -> int:
    """Write the files; gives the exit code."""
    parser = argparse.ArgumentParser(prog="python -m eagle_tui.pipeline.demo")
    parser.add_argument("directory", type=Path)
    directory: Path = parser.parse_args(argv).directory
    directory.mkdir(parents=True, exist_ok=True)
    for item in SETS:
        write_dataset(
            directory / f"{item.file}.jsonl",
            item.family,
            item.rows,
            NATIVE_SEED if item.answers else SEED,
            item.format,
            answers=item.answers,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
