"""Writes instances as the JSONL files that users bring, in their different formats."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final

from .base import Instance, Split
from .catalog import generate

_SHAREGPT_ROLES: Final = {
    "system": "system",
    "user": "human",
    "assistant": "gpt",
    "tool": "observation",
}


def write_dataset(
    path: Path,
    family: str,
    n: int,
    seed: int,
    fmt: str,
    *,
    split: Split = "demo",
    answers: bool = False,
) -> int:
    """Write ``n`` different instances of ``family`` to ``path`` as JSONL; returns the number of
    rows.

    ``fmt`` is one of ``FORMATS``. Rows are prompts only, unless ``answers`` asks for the reference
    answer too, its thought included (for sets that are used as they are). The file appears whole or
    not at all. ValueError for an unknown family or format, for a family that the format cannot hold
    (tools need "sharegpt" or "messages"), and when the family has no more different prompts.
    """
    if fmt not in _WRITERS:
        raise ValueError(
            f"There is no dataset format {fmt!r}. Choose one of: {', '.join(FORMATS)}."
        )
    rows = [
        _WRITERS[fmt](instance, answers)
        for instance in islice(_instances(family, seed, split, fmt), n)
    ]
    partial = path.with_name(path.name + ".partial")
    with partial.open("w", encoding="utf-8", newline="\n") as out:
        for row in rows:
            out.write(json.dumps(row, ensure_ascii=False) + "\n")
        out.flush()
        os.fsync(out.fileno())
    partial.replace(path)
    return len(rows)


def _instances(family: str, seed: int, split: Split, fmt: str) -> Iterator[Instance]:
    """Instances that the format can hold without losing a part of the prompt."""
    passed_over = 0
    for instance in generate(family, seed, split):
        if _fits(instance, fmt):
            passed_over = 0
            yield instance
        elif (passed_over := passed_over + 1) > _PATIENCE:
            raise ValueError(f"The format {fmt!r} cannot hold instances of the family {family!r}.")


def _fits(instance: Instance, fmt: str) -> bool:
    """Alpaca holds one turn and a system prompt, a bare prompt one turn; neither holds tools."""
    roles = [message.role for message in instance.messages]
    match fmt:
        case "alpaca":
            return not instance.tools and roles in (["user"], ["system", "user"])
        case "prompt":
            return not instance.tools and roles == ["user"]
    return True


def _sharegpt(instance: Instance, answers: bool) -> dict[str, Any]:
    turns = [{"from": _SHAREGPT_ROLES[m.role], "value": m.content} for m in instance.messages]
    if answers:
        turns.append({"from": "gpt", "value": f"<think>\n{instance.output()}"})
    return {"id": instance.key, "conversations": turns, **_sharegpt_tools(instance)}


def _sharegpt_tools(instance: Instance) -> dict[str, Any]:
    # ShareGPT sets carry their tools as JSON text, and only the functions themselves.
    if not instance.tools:
        return {}
    return {"tools": json.dumps([tool["function"] for tool in instance.tools], ensure_ascii=False)}


def _messages(instance: Instance, answers: bool) -> dict[str, Any]:
    messages: list[dict[str, Any]] = [dict(m) for m in instance.conversation()]
    if answers:
        answer = {
            "role": "assistant",
            "reasoning_content": instance.reasoning,
            "content": instance.content,
        }
        messages.append(answer)
    return {"messages": messages, **({"tools": list(instance.tools)} if instance.tools else {})}


def _alpaca(instance: Instance, answers: bool) -> dict[str, Any]:
    instruction, *question = _FINAL_QUESTION.split(instance.messages[-1].content)
    row = {"instruction": instruction, "input": "".join(question), "output": ""}
    if answers:
        row["output"] = f"<think>\n{instance.output()}"
    system = [m.content for m in instance.messages if m.role == "system"]
    return {**row, **({"system": system[0]} if system else {})}


def _prompt(instance: Instance, answers: bool) -> dict[str, Any]:
    row: dict[str, Any] = {"prompt": instance.messages[-1].content}
    if answers:
        row["response"] = f"<think>\n{instance.output()}"
    return row


_WRITERS: Final[dict[str, Callable[[Instance, bool], dict[str, Any]]]] = {
    "sharegpt": _sharegpt,
    "messages": _messages,
    "alpaca": _alpaca,
    "prompt": _prompt,
}
# Where Alpaca rows are cut: readers put a blank line between instruction and input, and the shipped
# model takes one before a final question, but not between a task and its list.
_FINAL_QUESTION: Final = re.compile(r"(?<=\.) (?=[A-Z][^.?]*\?$)")
_PATIENCE: Final = 1000  # instances in a row that do not fit before the format is given up

FORMATS: Final[tuple[str, ...]] = tuple(_WRITERS)
"""Names of the formats that ``write_dataset`` writes."""
