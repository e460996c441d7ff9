"""Rows of every format become messages; rows that cannot are rejected with a reason."""

from __future__ import annotations

import json
from typing import Any

import pytest

from eagle_tui.pipeline.conversations import ROLES, as_native, as_prompt, normalise
from eagle_tui.pipeline.formats import Rejected


def turns(row: Any, **options: Any) -> list[tuple[str, str]]:
    return [(m["role"], m["content"]) for m in normalise(row, **options).messages]


def prompt(row: Any) -> list[tuple[str, str]]:
    return [(m["role"], m["content"]) for m in as_prompt(normalise(row))]


def reason(row: Any) -> str:
    with pytest.raises(Rejected) as caught:
        as_prompt(normalise(row))
    return caught.value.reason


def sharegpt(*pairs: tuple[str, Any]) -> dict[str, Any]:
    return {"conversations": [{"from": who, "value": text} for who, text in pairs]}


U, A = ("user", "q"), ("assistant", "a")


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (sharegpt(("human", "q"), ("gpt", "a")), [U, A]),
        ({"messages": [{"role": "user", "content": "q"}]}, [U]),
        ({"conversation": [{"role": "user", "content": "q"}]}, [U]),
        ({"messages": json.dumps([{"role": "user", "content": "q"}])}, [U]),
        ({"messages": {"role": ["user", "assistant"], "content": ["q", "a"]}}, [U, A]),
        ([{"role": "user", "content": "q"}], [U]),
        ({"instruction": "q", "input": "", "output": "a"}, [U, A]),
        ({"instruction": "q", "input": "x", "output": "a"}, [("user", "q\n\nx"), A]),
        ({"instruction": "q", "response": "a"}, [U, A]),
        ({"prompt": "q"}, [U]),
        ({"question": "q", "answer": "a"}, [U, A]),
        ({"problem": "q", "solution": "a"}, [U, A]),
        ({"input": "q", "output": "a"}, [U, A]),
        ({"prompt": [{"role": "user", "content": "q"}], "completion": []}, [U]),
        (
            {
                "prompt": [{"role": "user", "content": "q"}],
                "completion": [{"role": "assistant", "content": "a"}],
            },
            [U, A],
        ),
        ({"turns": ["q", "then"], "category": "x"}, [U]),
        ({"data": ["q", "a", "q"]}, [U, A, U]),
        ({"system": "s", "conversations": [{"from": "user", "value": "q"}]}, [("system", "s"), U]),
        ({"history": [{"role": "user", "content": "q", "agent": "main"}]}, [U]),
        ({"trajectory": [{"role": "ai", "text": "a"}, {"role": "user", "text": "q"}]}, [U]),
    ],
)
def test_formats(row: Any, expected: list[tuple[str, str]]) -> None:
    assert turns(row) == expected


def test_messages_win_over_prompt_and_turns_are_counted() -> None:
    row = {"prompt": "p", "messages": [{"role": r, "content": c} for r, c in [U, A, U, A]]}
    found = normalise(row)
    assert found.turns_in == 4
    assert prompt(row) == [U, A, U]


def test_leading_answers_are_dropped_and_counted() -> None:
    found = normalise(sharegpt(("gpt", "hi"), ("human", "yo")))
    assert [(m["role"], m["content"]) for m in found.messages] == [("user", "yo")]
    assert found.dropped == 1
    assert turns(sharegpt(("system", "s"), ("gpt", "hi"), ("human", "q"))) == [("system", "s"), U]


@pytest.mark.parametrize("alias", sorted(ROLES))
def test_roles(alias: str) -> None:
    row = sharegpt(("human", "q"), (f" {alias.upper()} ", "x"))
    assert normalise(row).messages[1]["role"] == ROLES[alias]


@pytest.mark.parametrize("role", ["narrator", "", None, 3])
def test_unknown_role_never_becomes_assistant(role: Any) -> None:
    assert reason({"messages": [{"role": role, "content": "x"}]}) == "unknown role"


def test_system_turn_stays_and_a_default_fills_in() -> None:
    row = sharegpt(("system", "s"), ("human", "q"), ("gpt", "a"))
    assert prompt(row) == [("system", "s"), U]
    assert turns(row, system_prompt="other") == [("system", "s"), U, A]
    assert turns({"prompt": "q"}, system_prompt="other") == [("system", "other"), U]


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"conversations": []}, "empty"),
        (sharegpt(("human", None)), "null turn"),
        (sharegpt(("human", 5)), "not text"),
        (sharegpt(("human", "  \n")), "empty"),
        (sharegpt(("gpt", "a")), "no user turn"),
        (sharegpt(("human", "q"), ("gpt", "a"), ("system", "s")), "no user turn"),
        ({"messages": "not json"}, "unknown format"),
        ({"messages": 4}, "unknown format"),
        ({"messages": [5]}, "unknown format"),
        ({"x": 1}, "unknown format"),
        ("text", "not an object"),
        (None, "not an object"),
        ({"prompt": "q", "tools": "{"}, "bad tools"),
        ({"prompt": "q", "tools": [{}]}, "bad tools"),
        ({"messages": [{"role": "user", "content": [{"type": "image"}]}]}, "unsupported part"),
        (
            {"messages": [{"role": "user", "content": [{"type": "reasoning", "value": "r"}]}]},
            "unsupported part",
        ),
    ],
)
def test_rejected(row: Any, why: str) -> None:
    assert reason(row) == why


def test_parts() -> None:
    parts = [{"type": "text", "text": "he"}, {"type": "text", "value": "llo"}]
    assert turns({"messages": [{"role": "user", "content": parts}]}) == [("user", "hello")]
    answer = [
        {"type": "reasoning", "value": "think"},
        {"type": "tool_call", "value": '{"name": "f", "arguments": {"x": 1}}'},
    ]
    row = {"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": answer}]}
    last = normalise(row).messages[1]
    assert last["reasoning_content"] == "think"
    assert last["tool_calls"] == [
        {"type": "function", "function": {"name": "f", "arguments": {"x": 1}}}
    ]


def test_function_call_and_observation() -> None:
    row = sharegpt(
        ("human", "q"),
        ("function_call", '{"name": "f", "arguments": {"x": 1}}'),
        ("observation", "42"),
        ("gpt", "a"),
    )
    found = as_prompt(normalise({**row, "tools": '[{"name": "f"}]'}))
    assert [m["role"] for m in found] == ["user", "assistant", "tool"]
    assert found[1]["content"] == ""
    assert found[1]["tool_calls"][0]["function"] == {"name": "f", "arguments": {"x": 1}}
    tools = normalise({**row, "tools": '[{"name": "f"}]'}).tools
    assert tools == ({"type": "function", "function": {"name": "f"}},)


def test_openai_tool_calls_with_null_content() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}}
    row = {
        "messages": [
            {"role": "user", "content": "q"},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "content": "42", "tool_call_id": "c1"},
        ]
    }
    found = as_prompt(normalise(row))
    assert found[1]["tool_calls"][0]["function"]["arguments"] == {"x": 1}
    assert found[2]["tool_call_id"] == "c1"


GLAIVE = {
    "system": 'SYSTEM: use -\n{"name":"f"}',
    "chat": 'USER: a\n\n\nASSISTANT: <functioncall> {"name":"f","arguments":\'{"x": "it\'s"}\'} '
    '<|endoftext|>\n\n\nFUNCTION RESPONSE: {"y":2}\n\n\nASSISTANT: ok USER: no <|endoftext|>',
}


def test_glaive() -> None:
    found = normalise(GLAIVE)
    assert [(m["role"], m["content"]) for m in found.messages] == [
        ("system", "use"),
        ("user", "a"),
        ("assistant", ""),
        ("tool", '{"y":2}'),
        ("assistant", "ok USER: no"),
    ]
    call = found.messages[2]["tool_calls"][0]["function"]
    assert call == {"name": "f", "arguments": {"x": "it's"}}
    assert found.tools == ({"type": "function", "function": {"name": "f"}},)


def test_glaive_without_tools_and_with_a_broken_call() -> None:
    plain = {"system": "SYSTEM: no functions {really}", "chat": "USER: a\nASSISTANT: b"}
    assert turns(plain)[0] == ("system", "no functions {really}")
    assert reason({"chat": "USER: a\nASSISTANT: <functioncall> {oops"}) == "bad tool call"


def test_native_ends_with_an_answer() -> None:
    assert len(as_native(normalise(sharegpt(("human", "q"), ("gpt", "a"))))) == 2
    for row, why in (
        (sharegpt(("human", "q")), "no answer"),
        (sharegpt(("human", "q"), ("gpt", " ")), "empty"),
    ):
        with pytest.raises(Rejected) as caught:
            as_native(normalise(row))
        assert caught.value.reason == why


def test_surrogates_are_replaced_everywhere_and_counted() -> None:
    row = json.loads('{"prompt": "x \\ud83d y", "tools": [{"name": "\\udc00"}]}')
    found = normalise(row)
    assert found.messages[0]["content"] == "x \ufffd y"
    assert found.surrogates == 2
    assert found.key().encode()


def test_equal_conversations_have_equal_keys() -> None:
    assert normalise({"prompt": "q"}).key() == normalise(sharegpt(("human", "q"))).key()
    assert normalise({"prompt": "q"}).key() != normalise({"prompt": "r"}).key()


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize("levels", [100, 490, 900])
@pytest.mark.parametrize("place", ["tools", "arguments"])
def test_what_is_nested_too_deeply_is_rejected_and_raises_nothing_else(
    levels: int, place: str
) -> None:
    function = {"name": "f", "parameters": {"x": nested(levels)}}
    call = {"role": "assistant", "tool_calls": [{"function": function}]}
    question = {"role": "user", "content": "q"}
    row: dict[str, Any] = {"messages": [question], "tools": [function]}
    if place == "arguments":
        row = {"messages": [question, call, {"role": "tool", "content": "r"}]}
    assert reason(row) == "nested too deeply"


def test_a_glaive_system_that_is_nested_beyond_reading_is_words() -> None:
    system = 'SYSTEM: x {"a":' + "[" * 50_000
    assert turns({"system": system, "chat": "USER: q"})[0][0] == "system"


def test_numbers_that_json_has_not_become_null() -> None:
    arguments = '{"a": NaN, "b": -Infinity, "c": 1e999, "d": 1.5}'
    call = {"role": "assistant", "tool_calls": [{"name": "f", "arguments": arguments}]}
    row = {
        "messages": [{"role": "user", "content": "q"}, call],
        "tools": [{"name": "f", "parameters": {"max": float("inf"), "min": float("nan")}}],
    }
    made = normalise(row)
    found = made.messages[1]["tool_calls"][0]["function"]["arguments"]
    assert found == {"a": None, "b": None, "c": None, "d": 1.5}
    assert made.tools[0]["function"]["parameters"] == {"max": None, "min": None}


def test_an_empty_list_of_turns_gives_way_to_what_else_the_row_holds() -> None:
    assert turns({"messages": [], "conversations": [{"from": "human", "value": "q"}]}) == [U]
    assert turns({"messages": [], "prompt": "q"}) == [U]
    assert reason({"messages": [], "source": "x"}) == "empty"


@pytest.mark.parametrize("chat", ["hello", "", "USER: \n\n\nASSISTANT: ok"])
def test_a_glaive_chat_without_a_user_turn_is_rejected(chat: str) -> None:
    assert reason({"chat": chat}) == "empty"


def test_what_belongs_to_the_prompt_and_is_no_text_is_not_left_out_in_silence() -> None:
    assert reason({"system": ["s"], "messages": [{"role": "user", "content": "q"}]}) == "not text"
    assert reason({"instruction": "q", "input": {"a": 1}}) == "not text"
    assert turns({"system": None, "instruction": "q", "input": None}) == [U]
