"""Which of the known formats a row is in, and its turns, system text and tools, still raw.

Looked at row by row, since files mix formats. Where a row could be read in two ways, the richer one
wins: `messages` over `prompt`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from .json_stream import parse


class Rejected(ValueError):
    """A row that is left out. `reason` is one of few, for counting; `detail` is about this row."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason
        self.detail = detail


@dataclass(frozen=True)
class Found:
    """A row's conversation before its turns are normalised."""

    turns: list[Any]
    system: str = ""
    tools: Any = field(default=None)


_LISTS = ("messages", "conversations", "conversation")
_QUESTIONS = ("prompt", "question", "problem", "query", "user", "input")
_ANSWERS = ("response", "answer", "completion", "output", "solution", "assistant", "chosen")
_SYSTEMS = ("system", "system_prompt")


def find(row: dict[str, Any]) -> Found:
    """The conversation in a row. Rejected when it is in no format that we know."""
    system = _system(row)
    tools = row.get("tools") or row.get("functions")
    for key in _LISTS:
        if row.get(key):
            return Found(_turns(row[key], key), system, tools)
    if isinstance(row.get("chat"), str):
        return _glaive(row["chat"], system, tools)
    for key in ("history", "trajectory"):  # SWE-agent; history holds what the model saw
        turns = row.get(key)
        if isinstance(turns, list) and turns and isinstance(turns[0], dict) and "role" in turns[0]:
            return Found(turns, system, tools)
    if isinstance(row.get("turns"), list):
        return Found(_mt_bench(row["turns"]), system, tools)
    if isinstance(row.get("data"), list):
        return Found(_alternating(row["data"]), system, tools)
    if isinstance(row.get("instruction"), str):
        return Found(_alpaca(row), system, tools)
    for key in _QUESTIONS:
        if row.get(key) is not None:
            return Found(_question(row, key), system, tools)
    if any(row.get(key) is not None for key in _LISTS):
        raise Rejected("empty", "no turns")
    raise Rejected("unknown format", f"keys: {', '.join(map(str, row))[:200]}")


def _system(row: dict[str, Any]) -> str:
    value = next((row[key] for key in _SYSTEMS if row.get(key)), "")
    if not isinstance(value, str):
        raise Rejected("not text", f"the system prompt is {type(value).__name__}")
    return value


def _text_of(row: dict[str, Any], keys: tuple[str, ...]) -> str:
    return next((row[key] for key in keys if isinstance(row.get(key), str)), "")


def _turns(value: Any, key: str) -> list[Any]:
    if isinstance(value, str):
        try:
            value = parse(value.encode("utf-8", "surrogatepass"))
        except ValueError:
            raise Rejected("unknown format", f"`{key}` is text that is not JSON") from None
    if isinstance(value, dict) and value and all(isinstance(v, list) for v in value.values()):
        # A column of structs that was stored field by field.
        if len({len(column) for column in value.values()}) != 1:
            raise Rejected("unknown format", f"the fields of `{key}` differ in length")
        columns = zip(*value.values(), strict=True)
        return [dict(zip(value, fields, strict=True)) for fields in columns]
    if not isinstance(value, list):
        raise Rejected("unknown format", f"`{key}` is {type(value).__name__}, not a list")
    if value and all(isinstance(turn, str) for turn in value):
        return _alternating(value)
    return value


def _turn(role: str, text: Any) -> dict[str, Any]:
    return {"role": role, "content": text}


def _alternating(texts: list[Any]) -> list[Any]:
    """Texts by turns of user and assistant (the first UltraChat)."""
    return [_turn(("user", "assistant")[i % 2], text) for i, text in enumerate(texts)]


def _mt_bench(turns: list[Any]) -> list[Any]:
    """User turns only. The second one speaks about an answer that the row does not hold, so the
    first is the prompt."""
    if turns and isinstance(turns[0], dict):
        return turns
    return [_turn("user", text) for text in turns[:1]]


def _alpaca(row: dict[str, Any]) -> list[Any]:
    text = row["instruction"]
    extra = row.get("input") or ""
    if not isinstance(extra, str):
        raise Rejected("not text", f"`input` is {type(extra).__name__}")
    if extra.strip():
        text = f"{text}\n\n{extra}" if text.strip() else extra
    return [_turn("user", text), *_answer(row)]


def _question(row: dict[str, Any], key: str) -> list[Any]:
    question = row[key]
    if isinstance(question, list):
        answers = [row[k] for k in _ANSWERS if isinstance(row.get(k), list)]
        return [*_turns(question, key), *(answers[0] if answers else [])]
    return [_turn("user", question), *_answer(row)]


def _answer(row: dict[str, Any]) -> list[Any]:
    answer = _text_of(row, _ANSWERS)
    return [_turn("assistant", answer)] if answer else []


# glaive-function-calling: a chat as one text

_GLAIVE_TURN = re.compile(r"^(USER|ASSISTANT|FUNCTION RESPONSE):[ \t]*", re.MULTILINE)
_GLAIVE_ROLES = {"USER": "user", "ASSISTANT": "assistant", "FUNCTION RESPONSE": "tool"}
_GLAIVE_CALL = "<functioncall>"
_GLAIVE_END = "<|endoftext|>"
_QUOTED_ARGUMENTS = re.compile(r"""("arguments"\s*:\s*)'(.*)'(\s*\})\s*$""", re.DOTALL)


def _glaive(chat: str, system: str, tools: Any) -> Found:
    marks = list(_GLAIVE_TURN.finditer(chat))
    turns: list[Any] = []
    for number, mark in enumerate(marks, 1):
        end = marks[number].start() if number < len(marks) else len(chat)
        text = chat[mark.end() : end].strip()
        text = text.removesuffix(_GLAIVE_END).rstrip()
        role = _GLAIVE_ROLES[mark.group(1)]
        said, called, call = text.partition(_GLAIVE_CALL)
        if role == "assistant" and called:
            turns.append({"role": role, "content": said.rstrip(), "tool_calls": [_call(call)]})
        else:
            turns.append(_turn(role, text))
    words, found = _glaive_system(system)
    return Found(turns, words, tools or found)


def _call(text: str) -> Any:
    """`{"name": …, "arguments": '{…}'}`: the arguments are JSON in single quotes, which is none."""
    text = text.strip()
    quoted = _QUOTED_ARGUMENTS.search(text)
    arguments = quoted.group(2) if quoted else None
    if quoted:
        text = f"{text[: quoted.start()]}{quoted.group(1)}null{quoted.group(3)}"
    try:
        call = parse(text.encode("utf-8", "surrogatepass"))
    except ValueError:
        raise Rejected("bad tool call", text[:120]) from None
    if not isinstance(call, dict) or not isinstance(call.get("name"), str):
        raise Rejected("bad tool call", text[:120])
    return {**call, "arguments": arguments} if quoted else call


def _glaive_system(text: str) -> tuple[str, list[Any]]:
    """`SYSTEM: words -` and then tool definitions, one JSON object after the other."""
    text = text.strip().removeprefix("SYSTEM:").strip()
    decoder = json.JSONDecoder()
    tools: list[Any] = []
    start = text.find("{")
    words = text if start < 0 else text[:start]
    while start >= 0:
        try:
            tool, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            return text, []  # braces that are no tools: all of it is words
        tools.append(tool)
        start = text.find("{", end)
    return words.strip().removesuffix("-").rstrip(), tools
