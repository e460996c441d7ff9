"""Splitting answers into reasoning and content, family by family."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle_tui.pipeline.families import FAMILIES, Family, UnknownFamilyError, find_family
from eagle_tui.pipeline.reasoning import Splitter, make_splitter

THINK_FAMILIES = [name for name, f in FAMILIES.items() if f.openers == ("<think>",)]


def tokens_of(family: Family) -> list[str]:
    """The model's own tokens: whole markers, or for markers with a name inside, their parts."""
    found: set[str] = {"<|im_end|>", "<|im_start|>"}
    for marker in (*family.openers, *family.closers, *family.tool_openers, *family.frames):
        if "<|" in marker and not marker.startswith("<ifm"):
            found.update(part + "|>" for part in _tags(marker))
            found.update(t for t in ("<|channel>", "<channel|>") if t in marker)
        else:
            found.add(marker)
    return sorted(found)


def _tags(marker: str) -> list[str]:
    return ["<|" + piece.split("|>")[0] for piece in marker.split("<|")[1:] if "|>" in piece]


@pytest.fixture
def splitter_of(make_tokenizer: Any) -> Any:
    def make(name: str, **options: Any) -> tuple[Splitter, Any]:
        family = FAMILIES[name]
        tokenizer = make_tokenizer(options.pop("added", tokens_of(family)), **options)
        return Splitter(tokenizer, family, [tokenizer.eos_token_id]), tokenizer

    return make


def ids(tokenizer: Any, text: str) -> list[int]:
    return list(tokenizer.encode(text, add_special_tokens=False))


@pytest.mark.parametrize("name", THINK_FAMILIES)
def test_think_families(name: str, splitter_of: Any) -> None:
    splitter, tokenizer = splitter_of(name)
    answer = ids(tokenizer, "two and two\n</think>\n\nfour<|im_end|>")
    found = splitter.split(answer, True)
    assert (found.reasoning, found.content) == ("two and two", "four")
    assert found.closed
    assert found.flag == ""
    assert found.end_id == tokenizer.eos_token_id
    assert found.reasoning_tokens == len("two and two\n")
    whole = splitter.split(ids(tokenizer, "<think>") + answer, False)
    assert (whole.reasoning, whole.content) == ("two and two", "four")


@pytest.mark.parametrize(
    ("name", "answer", "reasoning", "content"),
    [
        ("minimax-m3", "<mm:think>a</mm:think>b", "a", "b"),
        ("kimi", "◁think▷a◁/think▷b", "a", "b"),
        (
            "kimi_k3",
            "<|open|>think<|sep|>a<|close|>think<|sep|><|open|>response<|sep|>b"
            "<|close|>response<|sep|><|close|>message<|sep|>",
            "a",
            "b",
        ),
        ("mistral", "[THINK]a[/THINK]b", "a", "b"),
        (
            "gpt-oss",
            "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>b",
            "a",
            "b",
        ),
        ("gemma4", "<|channel>thought\na<channel|>b", "a", "b"),
        (
            "inkling",
            "<|message_model|><|content_thinking|>a<|end_message|>"
            "<|message_model|><|content_text|>b<|end_message|><|content_model_end_sampling|>",
            "a",
            "b",
        ),
        (
            "cohere_command4",
            "<|START_THINKING|>a<|END_THINKING|><|START_TEXT|>b<|END_TEXT|>",
            "a",
            "b",
        ),
        ("apertus2509", "<|inner_prefix|>a<|inner_suffix|>b", "a", "b"),
        ("k2_horizon", "<ifm|think>a</ifm|think>b", "a", "b"),
        ("k2_horizon", "<ifm|think_fast>a</ifm|think_fast>b", "a", "b"),
        ("muse", " to=self<|message|>a<|eom|><|start|>assistant to=user<|message|>b", "a", "b"),
    ],
)
def test_other_families(
    name: str, answer: str, reasoning: str, content: str, splitter_of: Any
) -> None:
    splitter, tokenizer = splitter_of(name)
    found = splitter.split(ids(tokenizer, answer + "<|im_end|>"), False)
    assert (found.reasoning, found.content) == (reasoning, content)
    assert (found.closed, found.flag) == (True, "")
    assert tokenizer.decode(list(found.content_ids)) == content


def test_every_family_is_tested() -> None:
    others = "minimax-m3 kimi kimi_k3 mistral gpt-oss gemma4 inkling cohere_command4 apertus2509"
    assert set(FAMILIES) == {*THINK_FAMILIES, *others.split(), "k2_horizon", "muse"}


def test_no_closer_is_all_reasoning(splitter_of: Any) -> None:
    splitter, tokenizer = splitter_of("qwen3")
    found = splitter.split(ids(tokenizer, "still thinking"), True)
    assert (found.reasoning, found.content, found.closed) == ("still thinking", "", False)
    assert found.flag == "unclosed"
    assert found.end_id is None


def test_no_thought_is_all_content(splitter_of: Any) -> None:
    splitter, tokenizer = splitter_of("qwen3")
    found = splitter.split(ids(tokenizer, "four<|im_end|>"), False)
    assert (found.reasoning, found.content, found.closed) == ("", "four", True)
    assert found.reasoning_tokens == 0


def test_first_closer_ends_and_later_markers_are_content(splitter_of: Any) -> None:
    splitter, tokenizer = splitter_of("qwen3")
    found = splitter.split(ids(tokenizer, "a<think>b</think>c<think>d</think>e"), True)
    assert found.reasoning == "a<think>b"
    assert found.content == "c<think>d</think>e"


def test_opener_after_text_is_content(splitter_of: Any) -> None:
    splitter, tokenizer = splitter_of("qwen3")
    found = splitter.split(ids(tokenizer, "the tag <think> opens, </think> closes"), False)
    assert found.reasoning == ""
    assert found.content == "the tag <think> opens, </think> closes"


def test_closer_without_opener_only_where_assumed(splitter_of: Any) -> None:
    splitter, tokenizer = splitter_of("deepseek-r1")
    found = splitter.split(ids(tokenizer, "a</think>b"), False)
    assert (found.reasoning, found.content, found.flag) == ("a", "b", "opener_missing")
    splitter, tokenizer = splitter_of("qwen3")
    assert splitter.split(ids(tokenizer, "a</think>b"), False).reasoning == ""


def test_tool_section_ends_a_kimi_thought(splitter_of: Any) -> None:
    splitter, tokenizer = splitter_of("kimi_k2")
    tool = "<|tool_calls_section_begin|>call"
    found = splitter.split(ids(tokenizer, f"look it up{tool}<|im_end|>"), True)
    assert (found.reasoning, found.content) == ("look it up", tool)
    assert (found.closed, found.flag) == (True, "tool_section")


def test_tool_opener_inside_a_closed_thought_stays_there(splitter_of: Any) -> None:
    splitter, tokenizer = splitter_of("qwen3")
    found = splitter.split(ids(tokenizer, "write <tool_call> first</think>ok"), True)
    assert (found.reasoning, found.content) == ("write <tool_call> first", "ok")


def test_opener_repeated_after_that_of_the_prompt(splitter_of: Any) -> None:
    splitter, tokenizer = splitter_of("qwen3")
    found = splitter.split(ids(tokenizer, "\n<think>\na</think>b"), True)
    assert (found.reasoning, found.content) == ("a", "b")


def test_harmony_interleaves_channels_and_keeps_tool_calls(splitter_of: Any) -> None:
    splitter, tokenizer = splitter_of("gpt-oss", added=[*tokens_of(FAMILIES["gpt-oss"])])
    found = splitter.split(
        ids(
            tokenizer,
            "<|channel|>analysis<|message|>a<|end|>"
            "<|start|>assistant<|channel|>commentary<|message|>say<|end|>"
            "<|start|>assistant<|channel|>analysis<|message|>b<|end|>"
            "<|start|>assistant<|channel|>final<|message|>c<|im_end|>",
        ),
        False,
    )
    assert found.reasoning == "ab"
    assert found.content == "<|start|>assistant<|channel|>commentary<|message|>sayc"
    assert found.closed


def test_harmony_cut_in_analysis(splitter_of: Any) -> None:
    splitter, tokenizer = splitter_of("gpt-oss")
    found = splitter.split(ids(tokenizer, "<|channel|>analysis<|message|>hm"), False)
    assert (found.reasoning, found.content, found.closed) == ("hm", "", False)


def test_exactly_one_end_token_is_stripped(splitter_of: Any) -> None:
    splitter, tokenizer = splitter_of("qwen3")
    found = splitter.split(ids(tokenizer, "</think>x<|im_end|><|im_end|>"), True)
    assert found.content == "x<|im_end|>"


MERGES = [("<", "/"), ("</", "t"), (">", "Ċ"), (">Ċ", "Ċ"), ("t", "h"), ("th", "i"), ("n", "k")]


def test_closer_of_merged_ordinary_tokens_is_found_by_text(make_tokenizer: Any) -> None:
    tokenizer = make_tokenizer(["<|im_end|>"], merges=MERGES)
    splitter = Splitter(tokenizer, FAMILIES["qwen3"], [tokenizer.eos_token_id])
    answer = ids(tokenizer, "a\n</think>\n\nfour <think> é<|im_end|>")
    assert tokenizer.convert_tokens_to_ids(">ĊĊ") in answer
    found = splitter.split(answer, True)
    assert (found.reasoning, found.content) == ("a", "four <think> é")
    assert tokenizer.decode(list(found.reasoning_ids)) == "a\n"
    assert tokenizer.decode(list(found.content_ids)) == "four <think> é"


def test_marker_spelled_with_ordinary_tokens(make_tokenizer: Any) -> None:
    tokenizer = make_tokenizer()
    splitter = Splitter(tokenizer, FAMILIES["qwen3"], [tokenizer.eos_token_id])
    spelled = [t for char in "</think>" for t in ids(tokenizer, char)]
    marker = ids(tokenizer, "</think>")
    assert len(marker) == 1
    only = splitter.split([*ids(tokenizer, "a"), *spelled, *ids(tokenizer, "b")], True)
    assert (only.reasoning, only.content, only.flag) == ("a", "b", "by_text")
    both = splitter.split(
        [*ids(tokenizer, "a"), *spelled, *ids(tokenizer, "b"), *marker, *ids(tokenizer, "c")], True
    )
    assert (both.reasoning, both.content, both.flag) == ("a</think>b", "c", "")


@pytest.mark.parametrize(
    ("prompt", "opened"),
    [
        ("<|im_start|>assistant\n<think>\n", True),
        ("<|im_start|>assistant\n<think>", True),
        ("<|im_start|>assistant\n<think>\n\n</think>\n\n", False),
        ("<|im_start|>assistant\n", False),
        ("<|im_start|>user\nwhat is <think>?<|im_end|>\n<|im_start|>assistant\n", False),
        ("<|im_start|>user\n</think><|im_end|>\n<|im_start|>assistant\n<think>\n", True),
        ("<|im_start|>assistant\n<think>\nSo, prefilled", True),
    ],
)
def test_opens_in_prompt(prompt: str, opened: bool, make_tokenizer: Any) -> None:
    for options in ({}, {"added": ["<|im_start|>", "<|im_end|>"], "merges": MERGES}):
        tokenizer = make_tokenizer(**options)
        splitter = Splitter(tokenizer, FAMILIES["qwen3"], [tokenizer.eos_token_id])
        if options and "prefilled" in prompt:
            continue  # without marker tokens a prefilled thought cannot be told from quoted text
        assert splitter.opens_in_prompt(ids(tokenizer, prompt)) is opened


def test_none_is_all_content(make_tokenizer: Any) -> None:
    tokenizer = make_tokenizer()
    splitter = make_splitter("none", tokenizer, [tokenizer.eos_token_id])
    found = splitter.split(ids(tokenizer, "<think>a</think>b<|im_end|>"), True)
    assert found.content == "<think>a</think>b"
    assert not splitter.opens_in_prompt(ids(tokenizer, "<think>"))


@pytest.mark.parametrize(
    ("template", "added", "name"),
    [
        ("{{ x }}", (), None),
        ("{{ '<think>' }}", (), "qwen3"),
        ("{{ content.split('</think>') }}", (), "qwen3"),
        ("{{ '<think>' }}<|tool_calls_section_begin|>", (), "kimi_k2"),
        ("", ("<think>", "<|tool_calls_section_begin|>"), "kimi_k2"),
        ("<|channel|>analysis<|message|>", (), "gpt-oss"),
        ("<|channel>thought", (), "gemma4"),
        ("◁think▷", (), "kimi"),
        ("<mm:think>", (), "minimax-m3"),
        ("", ("[THINK]",), "mistral"),
    ],
)
def test_auto(template: str, added: tuple[str, ...], name: str | None) -> None:
    family = find_family("auto", template, added)
    assert (family.name if family else None) == name


def test_unknown_family_is_refused_with_a_hint() -> None:
    with pytest.raises(UnknownFamilyError, match="did you mean 'kimi_k2'"):
        find_family("kimi-k2")
    assert find_family("deepseek-r1") is FAMILIES["deepseek-r1"]


_PARTS = st.lists(
    st.sampled_from(["a", "\n", " ", "é", "<", "/think>", "<|im_end|>"])
    | st.sampled_from(
        sorted({m for f in FAMILIES.values() for m in (*f.openers, *f.closers, *f.tool_openers)})
    ),
    max_size=12,
)


@given(
    name=st.sampled_from(sorted(FAMILIES)), parts=_PARTS, opened=st.booleans(), own=st.booleans()
)
def test_nothing_is_lost(
    make_tokenizer: Any, name: str, parts: list[str], opened: bool, own: bool
) -> None:
    """Reasoning, content, markers and the end token join to the answer again, in order."""
    tokenizer = _cached(make_tokenizer, name, own)
    splitter = Splitter(tokenizer, FAMILIES[name], [tokenizer.eos_token_id])
    answer = ids(tokenizer, "".join(parts))
    found = splitter.split(answer, opened)
    body = answer if found.end_id is None else answer[:-1]
    assert len(found.kinds) == len(body)
    parts_again = {"reasoning": iter(found.reasoning_ids), "content": iter(found.content_ids)}
    for kind, token in zip(found.kinds, body, strict=True):
        assert kind == "marker" or next(parts_again[kind]) == token
    assert all(next(rest, None) is None for rest in parts_again.values())
    if not FAMILIES[name].repeats:
        # Blanks before the opener are content that nobody sees; nothing else comes before it.
        pairs = list(zip(found.kinds, body, strict=True))
        first = next((n for n, (kind, _) in enumerate(pairs) if kind == "reasoning"), 0)
        early = [token for kind, token in pairs[:first] if kind == "content"]
        assert not tokenizer.decode(early).strip()
        order = [kind for kind, _ in pairs[first:] if kind != "marker"]
        assert ("content", "reasoning") not in set(pairwise(order))
        assert found.closed or not found.content


_CACHE: dict[tuple[str, bool], Any] = {}


def _cached(make_tokenizer: Any, name: str, own: bool) -> Any:
    if (name, own) not in _CACHE:
        added = tokens_of(FAMILIES[name]) if own else ["<|im_end|>"]
        _CACHE[name, own] = make_tokenizer(added, merges=MERGES)
    return _CACHE[name, own]
