"""Rendering, and where the answers of a conversation lie."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle_tui.pipeline import template as template_module
from eagle_tui.pipeline.formats import Rejected
from eagle_tui.pipeline.template import Renderer

USER = {"role": "user", "content": "q"}
ANSWER = {"role": "assistant", "content": "a"}
TALK = [USER, ANSWER, {"role": "user", "content": "r"}, {"role": "assistant", "content": "b"}]

THINKING = (  # as Qwen3 and others: only the last answer keeps its reasoning
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.role == 'assistant' and loop.last %}<think>\n{{ m.reasoning_content }}\n</think>\n\n"
    "{% endif %}{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}"
)
MARKED = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{% endgeneration %}"
    "{% else %}{{ m.content }}{% endif %}<|im_end|>\n{% endfor %}"
)
TEXT_ARGUMENTS = (
    "{% for m in messages %}{{ m.role + ':' + m.content }}"
    "{% for c in m.tool_calls or [] %}{{ '!' + c.function.arguments }}{% endfor %}|{% endfor %}"
)


@pytest.fixture
def renderer_of(make_tokenizer: Any) -> Any:
    def make(kwargs: dict[str, Any] | None = None, **options: Any) -> tuple[Renderer, Any]:
        tokenizer = make_tokenizer(**options)
        return Renderer(tokenizer, [tokenizer.eos_token_id], kwargs), tokenizer

    return make


def spans(renderer: Renderer, tokenizer: Any, messages: list[dict[str, Any]]) -> list[str]:
    found = renderer.native(messages)
    return [tokenizer.decode(found.ids[start:end]) for start, end in found.spans]


def test_ids_are_those_of_the_library(renderer_of: Any) -> None:
    renderer, tokenizer = renderer_of({"enable_thinking": True})
    text = renderer.text(TALK[:3], generation_prompt=True)
    assert text.endswith("<|im_start|>assistant\n<think>\n")
    theirs = tokenizer.apply_chat_template(
        TALK[:3], add_generation_prompt=True, enable_thinking=True, return_dict=False
    )
    assert renderer.encode([text, "x"]) == [theirs, tokenizer.encode("x")]


def test_every_answer_with_its_end_token(renderer_of: Any) -> None:
    assert spans(*renderer_of(), TALK) == ["a<|im_end|>", "b<|im_end|>"]


def test_a_template_that_drops_reasoning_gives_the_last_answer(renderer_of: Any) -> None:
    talk = [{**m, "reasoning_content": "r"} if m["role"] == "assistant" else m for m in TALK]
    assert spans(*renderer_of(template=THINKING), talk) == ["r\n</think>\n\nb<|im_end|>"]


def test_an_answer_that_is_not_as_the_prompt_begins_is_rejected(renderer_of: Any) -> None:
    renderer, _ = renderer_of({"enable_thinking": True})
    with pytest.raises(Rejected, match=r"goes on with '<think>\\n', the conversation with 'a"):
        renderer.native([USER, ANSWER])


def test_tokens_over_the_border_are_rejected(renderer_of: Any) -> None:
    """The prompt's last token and the answer's first one are one token in the whole."""
    template = (
        "{% for m in messages %}{{ m.role[0] }}{{ m.content }}"
        "{% if m.role == 'assistant' %}<|im_end|>{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}a{% endif %}"
    )
    renderer, _ = renderer_of(template=template, merges=[("a", "x")])
    with pytest.raises(Rejected, match="tokens run over the border"):
        renderer.native([USER, {"role": "assistant", "content": "x"}])
    assert renderer.native([USER, ANSWER]).spans


@given(
    texts=st.lists(st.text("abcx <", max_size=4), min_size=1, max_size=6),
    together=st.integers(1, 60),
    merges=st.lists(st.sampled_from([("a", "x"), ("x", "a"), ("a", "a"), ("x", "<")]), max_size=4),
)
def test_long_conversations_are_tokenised_bit_by_bit(
    make_tokenizer: Any, texts: list[str], together: int, merges: list[tuple[str, str]]
) -> None:
    """And come out as if the whole and all its beginnings were tokenised together."""
    template = (
        "{% for m in messages %}{{ m.content }}"
        "{% if m.role == 'assistant' %}<|im_end|>{% endif %}{% endfor %}"
        "{% if add_generation_prompt %}a{% endif %}"
    )
    tokenizer = make_tokenizer(template=template, merges=merges)
    renderer = Renderer(tokenizer, [tokenizer.eos_token_id])
    asked: list[int] = []

    def counting(batch: list[str], **options: Any) -> Any:
        asked.append(sum(map(len, batch[:-1])))
        return tokenizer(batch, **options)

    counting.apply_chat_template = tokenizer.apply_chat_template  # type: ignore[attr-defined]
    renderer._tokenizer = counting  # type: ignore[assignment]
    talk = [m for text in texts for m in (USER, {"role": "assistant", "content": "a" + text})]
    wanted = spans_at_once(tokenizer, renderer, talk)
    asked.clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(template_module, "_TOGETHER", together)
        if not wanted:
            with pytest.raises(Rejected, match="over the border"):
                renderer.native(talk)
            return
        assert renderer.native(talk).spans == wanted
    assert max(asked) < together, "no more at a time than one text above the limit"


def spans_at_once(tokenizer: Any, renderer: Renderer, talk: list[Any]) -> list[tuple[int, int]]:
    """What the spans are by their definition; every answer ends with its end token."""
    whole = tokenizer.encode(renderer.text(talk, generation_prompt=False))
    found = []
    for at in range(1, len(talk), 2):
        before = tokenizer.encode(renderer.text(talk[:at], generation_prompt=True))
        through = tokenizer.encode(renderer.text(talk[: at + 1], generation_prompt=False))
        if whole[: len(before)] == before and whole[: len(through)] == through:
            found.append((len(before), len(through)))
    return found


def test_generation_markers_are_used(renderer_of: Any) -> None:
    assert spans(*renderer_of(template=MARKED), TALK) == ["a<|im_end|>", "b<|im_end|>"]
    renderer, _ = renderer_of(template=MARKED)
    with pytest.raises(Rejected, match="marks no generated text"):
        renderer.native([USER])


def test_arguments_as_text_for_templates_that_want_them(renderer_of: Any) -> None:
    call = {"type": "function", "function": {"name": "f", "arguments": {"x": "é"}}}
    messages = [USER, {"role": "assistant", "content": "", "tool_calls": [call]}]
    renderer, _ = renderer_of(template=TEXT_ARGUMENTS)
    assert renderer.text(messages, generation_prompt=False) == 'user:q|assistant:!{"x": "é"}|'
    assert call["function"]["arguments"] == {"x": "é"}


def test_a_template_that_refuses_rejects_the_row(renderer_of: Any) -> None:
    renderer, _ = renderer_of(template="{{ raise_exception('roles must alternate') }}")
    with pytest.raises(Rejected, match="chat template: roles must alternate"):
        renderer.text([USER], generation_prompt=True)


def test_bos_twice(renderer_of: Any) -> None:
    renderer, tokenizer = renderer_of(
        added=["<s>", "<|im_end|>"], bos="<s>", template="<s>{{ messages[0].content }}"
    )
    once, twice = renderer.encode(["<s>q", "<s><s>q"])
    assert once[0] == tokenizer.bos_token_id != once[1]
    renderer.check_bos(once)
    with pytest.raises(Rejected, match="BOS twice"):
        renderer.check_bos(twice)


def test_end_of_turn(renderer_of: Any) -> None:
    renderer, tokenizer = renderer_of()
    assert renderer.end_of_turn() == tokenizer.eos_token_id
    renderer, _ = renderer_of(template="{% for m in messages %}{{ m.content }}{% endfor %}")
    assert renderer.end_of_turn() is None


@pytest.mark.parametrize(
    "template",
    [
        *("{{ 1 / 0 }}", "{{ 2.0 ** 9999 }}", "{{ nothing.at.all }}", "{% if %}", "{{ 'a' + 1 }}"),
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{{ raise_exception('roles must alternate') }}",
    ],
)
def test_a_template_that_fails_rejects_the_row(renderer_of: Any, template: str) -> None:
    renderer, _ = renderer_of(template=template)
    with pytest.raises(Rejected, match="chat template"):
        renderer.text([USER], generation_prompt=True)


def test_a_text_of_many_megabytes_is_not_tokenised_whole(renderer_of: Any) -> None:
    renderer, tokenizer = renderer_of()
    seen: list[int] = []

    def count(texts: list[str], **options: Any) -> Any:
        seen.append(len(texts[0]))
        return tokenizer(texts, **options)

    text = "word " * 1_000_000
    Renderer(tokenizer, []).check_length("word " * 10, 60)
    renderer._tokenizer = count  # type: ignore[assignment]
    with pytest.raises(Rejected, match=r"over context: 5,000,000 characters.* at most 100 tokens"):
        renderer.check_length(text, 100)
    assert seen == [800]


def test_a_long_text_of_few_tokens_is_not_rejected(renderer_of: Any) -> None:
    """How many characters a token has is not known: what may fit is looked at on."""
    renderer, _ = renderer_of()
    renderer.encode = lambda texts: [[0] * (len(texts[0]) // 100)]  # type: ignore[method-assign]
    renderer.check_length("x" * 9_000, 100)
    with pytest.raises(Rejected, match="over context"):
        renderer.check_length("x" * 200_000, 100)


@pytest.mark.parametrize(
    ("template", "lost"),
    [
        ("hello", "hello"),
        (
            "{% for m in messages %}<{% for p in m.content %}{{ p.text }}{% endfor %}>{% endfor %}",
            "<>",
        ),
        ("{% for m in messages %}{{ m.content | trim }}{% endfor %}", None),
        ("{{ raise_exception('a system turn is needed') }}", None),
    ],
)
def test_a_template_that_leaves_the_text_out_is_seen(
    renderer_of: Any, template: str, lost: str | None
) -> None:
    renderer, _ = renderer_of(template=template)
    assert renderer.left_out() == lost
