"""Rows of any known format as conversations: messages with one set of roles, text content.

A message is `{role: system|user|assistant|tool, content: str}`, an assistant's may also hold
`reasoning_content` (str) and `tool_calls`, a tool's `name` and `tool_call_id`.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

from eagle_tui.text import scrub

from .formats import Rejected, find
from .json_stream import parse

Message = dict[str, Any]

ROLES: dict[str, str] = {
    **dict.fromkeys(("user", "human", "prompter"), "user"),
    **dict.fromkeys(("assistant", "gpt", "chatgpt", "bing", "bard", "model", "ai"), "assistant"),
    **dict.fromkeys(("function_call", "tool_call"), "assistant"),
    **dict.fromkeys(("system", "developer"), "system"),
    **dict.fromkeys(
        ("tool", "observation", "function", "function_response", "tool_response", "ipython"),
        "tool",
    ),
}
"""The one table of roles. A role that is not in it rejects the row: it never becomes assistant."""

_CALL_ROLES = ("function_call", "tool_call")
_TEXT_KEYS = ("content", "value", "text", "system_prompt")
_REASONING_KEYS = ("reasoning_content", "reasoning", "thinking")
_MAX_DEPTH = 64
"""Levels of objects and lists in a message or tool: everything that walks a row later recurses."""


@dataclass(frozen=True)
class Conversation:
    """A row, normalised."""

    messages: tuple[Message, ...]
    tools: tuple[dict[str, Any], ...] = ()
    turns_in: int = 0
    """Turns that the row held."""
    dropped: int = 0
    """Assistant turns before the first user turn; they answer nothing and are left out."""
    surrogates: int = 0
    """Texts in which lone surrogates became U+FFFD."""

    def key(self) -> str:
        """The same for equal conversations: what a row is known by."""
        body = {"messages": self.messages, "tools": self.tools}
        return json.dumps(body, sort_keys=True, ensure_ascii=False, separators=(",", ":"))


def normalise(row: Any, *, system_prompt: str | None = None) -> Conversation:
    """The conversation in a row. `system_prompt` is set before one that brings none.

    Rejected, with a reason, when the row is in no known format or a turn cannot be used.
    """
    if isinstance(row, list):
        row = {"messages": row}
    if not isinstance(row, dict):
        raise Rejected("not an object", type(row).__name__)
    found = find(row)
    if not found.turns:
        raise Rejected("empty", "no turns")
    messages = [_message(turn) for turn in found.turns]
    tools = _tools(found.tools)
    if found.system and not any(m["role"] == "system" for m in messages):
        messages.insert(0, {"role": "system", "content": found.system})
    messages, dropped = _without_leading_answers(messages)
    if system_prompt and not any(m["role"] == "system" for m in messages):
        messages.insert(0, {"role": "system", "content": system_prompt})
    clean = _Scrubber()
    return Conversation(
        messages=tuple(clean(message) for message in messages),
        tools=tuple(clean(tool) for tool in tools),
        turns_in=len(found.turns),
        dropped=dropped,
        surrogates=clean.count,
    )


def as_prompt(conversation: Conversation) -> tuple[Message, ...]:
    """The messages up to the last one that a model answers: user or tool.

    Rejected: there is none, or it is empty.
    """
    end = len(conversation.messages)
    while end and conversation.messages[end - 1]["role"] == "assistant":
        end -= 1
    messages = conversation.messages[:end]
    if not messages or messages[-1]["role"] not in ("user", "tool"):
        raise Rejected("no user turn", "the prompt does not end with a user or tool turn")
    if messages[-1]["role"] == "user" and not messages[-1]["content"].strip():
        raise Rejected("empty", "the last user turn is empty")
    return messages


def as_native(conversation: Conversation) -> tuple[Message, ...]:
    """All messages, if the last one is an answer. Rejected when it is not, or is empty."""
    messages = conversation.messages
    if not messages or messages[-1]["role"] != "assistant":
        raise Rejected("no answer", "the conversation does not end with an assistant turn")
    last = messages[-1]
    if not last["content"].strip() and not last.get("tool_calls"):
        raise Rejected("empty", "the answer is empty")
    return messages


def _without_leading_answers(messages: list[Message]) -> tuple[list[Message], int]:
    first = next((i for i, m in enumerate(messages) if m["role"] != "system"), len(messages))
    end = first
    while end < len(messages) and messages[end]["role"] == "assistant":
        end += 1
    if end == len(messages):
        raise Rejected("no user turn", "only system and assistant turns")
    return messages[:first] + messages[end:], end - first


def _message(turn: Any) -> Message:
    if not isinstance(turn, dict):
        raise Rejected("unknown format", f"a turn is {type(turn).__name__}, not an object")
    name = turn.get("role") if turn.get("role") is not None else turn.get("from")
    label = name.strip().lower() if isinstance(name, str) else ""
    role = ROLES.get(label)
    if role is None:
        raise Rejected("unknown role", repr(name)[:80])
    value = next((turn[key] for key in _TEXT_KEYS if turn.get(key) is not None), None)
    reasoning = next((turn[k] for k in _REASONING_KEYS if isinstance(turn.get(k), str)), "")
    calls = _calls(turn.get("tool_calls") or turn.get("function_call"))
    if isinstance(value, dict):
        value = [value] if "type" in value else value
    if isinstance(value, list):
        text, part_reasoning, part_calls = _parts(value, role)
        reasoning, calls = reasoning or part_reasoning, calls + part_calls
    elif isinstance(value, str):
        text = value
    elif value is None and role == "assistant" and (calls or reasoning):
        text = ""
    elif value is None:
        raise Rejected("null turn", f"a {role} turn without text")
    else:
        raise Rejected("not text", f"the content of a {role} turn is {type(value).__name__}")
    if label in _CALL_ROLES:
        called = _calls(text)
        text, calls = ("" if called else text), calls + called
    message: Message = {"role": role, "content": text}
    if role == "assistant":
        if reasoning:
            message["reasoning_content"] = reasoning
        if calls:
            message["tool_calls"] = calls
    elif role == "tool":
        ids = turn.get("tool_call_ids")
        call_id = turn.get("tool_call_id") or (ids[0] if isinstance(ids, list) and ids else None)
        if isinstance(call_id, str):
            message["tool_call_id"] = call_id
        if isinstance(turn.get("name"), str):
            message["name"] = turn["name"]
    return message


def _parts(parts: list[Any], role: str) -> tuple[str, str, list[dict[str, Any]]]:
    """Text, reasoning and tool calls of content that is a list of parts."""
    texts: list[str] = []
    thoughts: list[str] = []
    calls: list[dict[str, Any]] = []
    for part in parts:
        if isinstance(part, str):
            texts.append(part)
            continue
        kind = part.get("type") if isinstance(part, dict) else type(part).__name__
        body = None
        if isinstance(part, dict):
            body = next((part[k] for k in ("text", "value", "thinking") if k in part), None)
        if kind == "text" and isinstance(body, str):
            texts.append(body)
        elif kind in ("reasoning", "thinking") and role == "assistant" and isinstance(body, str):
            thoughts.append(body)
        elif kind == "tool_call" and role == "assistant" and (called := _calls(body)):
            calls += called
        else:
            raise Rejected("unsupported part", f"a part of type {kind!r} in a {role} turn")
    return "".join(texts), "".join(thoughts), calls


def _calls(value: Any) -> list[dict[str, Any]]:
    """Tool calls in the form that chat templates know, arguments as an object where they are one.
    Empty when there are none that can be read."""
    if isinstance(value, str):
        try:
            value = parse(value.encode("utf-8", "surrogatepass"))
        except ValueError:
            return []
    calls: list[dict[str, Any]] = []
    for call in value if isinstance(value, list) else [value]:
        if not isinstance(call, dict):
            continue
        function = call.get("function") if isinstance(call.get("function"), dict) else call
        assert isinstance(function, dict)
        if not isinstance(function.get("name"), str):
            continue
        arguments = function.get("arguments", function.get("parameters", {}))
        if isinstance(arguments, str):
            try:
                read = parse(arguments.encode("utf-8", "surrogatepass"))
            except ValueError:
                read = None
            arguments = read if isinstance(read, dict) else arguments
        body: dict[str, Any] = {
            "type": "function",
            "function": {
                "name": function["name"],
                "arguments": {} if arguments is None else arguments,
            },
        }
        if isinstance(call.get("id"), str):
            body["id"] = call["id"]
        calls.append(body)
    return calls


def _tools(value: Any) -> list[dict[str, Any]]:
    """Tool definitions, each wrapped as `{type: function, function: {…}}`."""
    if isinstance(value, str):
        if not value.strip():
            return []
        try:
            value = parse(value.encode("utf-8", "surrogatepass"))
        except ValueError:
            raise Rejected("bad tools", "`tools` is not valid JSON") from None
    if not value:
        return []
    tools: list[dict[str, Any]] = []
    for tool in value if isinstance(value, list) else [value]:
        if isinstance(tool, str):
            tools += _tools(tool)
        elif isinstance(tool, dict) and isinstance(tool.get("function"), dict):
            tools.append({"type": "function", "function": tool["function"]})
        elif isinstance(tool, dict) and isinstance(tool.get("name"), str):
            tools.append({"type": "function", "function": tool})
        else:
            raise Rejected("bad tools", "a tool without a name")
    return tools


class _Scrubber:
    """Makes a value fit for JSON: texts become valid UTF-8, and those that were not are counted;
    NaN and infinities become null. Rejected when it is nested too deeply."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, value: dict[str, Any], depth: int = 0) -> dict[str, Any]:
        return {self._text(key): self._value(item, depth + 1) for key, item in value.items()}

    def _value(self, value: Any, depth: int) -> Any:
        if depth > _MAX_DEPTH:
            raise Rejected("nested too deeply", f"more than {_MAX_DEPTH} levels")
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, dict):
            return self(value, depth)
        if isinstance(value, (list, tuple)):
            return [self._value(item, depth + 1) for item in value]
        if isinstance(value, float) and not math.isfinite(value):
            return None
        if value is None or isinstance(value, (bool, int, float)):
            return value
        return str(value)  # dates and the like of Parquet: tool definitions must become JSON

    def _text(self, text: str) -> str:
        if text.isascii():
            return text
        clean = scrub(text)
        self.count += clean is not text and clean != text
        return clean
