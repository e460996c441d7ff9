"""Many prompts from few: each question of a jsonl file in several wordings.

python questions.py gsm8k_train.jsonl questions.jsonl [--rows 50000]
"""

from __future__ import annotations

import argparse
import json
from itertools import islice, product
from pathlib import Path

WORDINGS = (
    "{}",
    "Solve this step by step: {}",
    "{} Explain each step.",
    "A pupil asks: {}",
    "Answer briefly, then explain: {}",
    "{} Think carefully and check the result.",
    "Write a worked solution. {}",
)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=Path, help="rows with `question`")
    parser.add_argument("target", type=Path)
    parser.add_argument("--rows", type=int, default=50_000, help="at most")
    args = parser.parse_args()
    with args.source.open(encoding="utf-8") as file:
        questions = [json.loads(line)["question"] for line in file if line.strip()]
    args.target.parent.mkdir(parents=True, exist_ok=True)
    pairs = islice(product(WORDINGS, questions), args.rows)
    with args.target.open("w", encoding="utf-8") as file:
        for wording, question in pairs:
            file.write(json.dumps({"question": wording.format(question)}) + "\n")


if __name__ == "__main__":
    main()
