"""The tokenizer and the chat template of the tiny model."""

from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer

from eagle_tui.pipeline.tiny import FAMILIES, MODEL_DIR
from eagle_tui.pipeline.tiny import tokenizer as builder
from eagle_tui.pipeline.tiny.corpus import encode, render_prompt
from eagle_tui.pipeline.tiny.tasks import generate

OPENER = "<|im_start|>assistant\n<think>\n"
TOKENIZER = AutoTokenizer.from_pretrained(str(MODEL_DIR))


def render(messages: list[dict], **options) -> str:
    return TOKENIZER.apply_chat_template(messages, tokenize=False, **options)


@given(st.text())
def test_any_text_comes_back_unchanged(text: str) -> None:
    assert TOKENIZER.decode(TOKENIZER.encode(text)) == text


def test_the_shipped_files_are_what_the_builder_builds(tmp_path: Path) -> None:
    builder.save(tmp_path)
    for name in ("tokenizer_config.json", "chat_template.jinja"):
        assert (tmp_path / name).read_bytes() == (MODEL_DIR / name).read_bytes()
    built, shipped = builder.build(), TOKENIZER
    assert built.get_vocab() == shipped.get_vocab()
    text = 'Sort these numbers: 42, 17\n{"name": "get_weather"} über 漢字'
    assert built.encode(text).ids == shipped.encode(text)


def test_digits_are_tokens_of_their_own() -> None:
    assert TOKENIZER.convert_ids_to_tokens(TOKENIZER.encode("1234")) == ["1", "2", "3", "4"]
    digits = set("0123456789")
    assert all(len(token) == 1 for token in TOKENIZER.get_vocab() if digits & set(token))


def test_special_tokens_vanish_and_markers_stay_in_decoded_text() -> None:
    text = "<|im_start|>a<think>b</think><tool_call>{}</tool_call><|im_end|>"
    ids = TOKENIZER.encode(text)
    assert TOKENIZER.decode(ids, skip_special_tokens=True) == (
        "a<think>b</think><tool_call>{}</tool_call>"
    )
    for marker in builder.MARKERS:
        assert len(TOKENIZER.encode(marker)) == 1
    assert len(TOKENIZER) == builder.VOCAB_SIZE
    assert TOKENIZER.eos_token_id == builder.EOS_ID == TOKENIZER.encode("<|im_end|>")[0]
    assert TOKENIZER.bos_token_id is None


def test_the_prompt_ends_inside_the_open_thought() -> None:
    prompt = render([{"role": "user", "content": "hi"}], add_generation_prompt=True)
    assert prompt == "<|im_start|>user\nhi<|im_end|>\n" + OPENER
    # Serving engines recognise a forced thought by this text in the template's source.
    assert r"<|im_start|>assistant\n<think>\n" in TOKENIZER.chat_template


@pytest.mark.parametrize("family", FAMILIES)
def test_prompt_and_output_are_tokenized_apart_as_together(family: str) -> None:
    for instance in islice(generate(family, 21, "demo"), 40):
        answer = {
            "role": "assistant",
            "reasoning_content": instance.reasoning,
            "content": instance.content,
        }
        whole = render([*instance.conversation(), answer], tools=list(instance.tools) or None)
        assert whole == render_prompt(TOKENIZER, instance) + instance.output() + "<|im_end|>\n"
        newline = TOKENIZER.encode("\n")
        assert [*encode(TOKENIZER, [instance]).tokens, *newline] == TOKENIZER.encode(whole)


def test_reasoning_in_its_field_and_in_the_text_render_alike() -> None:
    asked = {"role": "user", "content": "1 + 1 = ?"}
    apart = {"role": "assistant", "reasoning_content": "1 + 1 = 2", "content": "It is 2."}
    inline = {"role": "assistant", "content": "<think>\n1 + 1 = 2\n</think>\n\nIt is 2."}
    assert render([asked, apart]) == render([asked, inline])


def test_tool_turns_and_tool_calls_render() -> None:
    function = {"name": "get_time", "arguments": {"city": "Rome"}}
    rendered = render(
        [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "What time is it?"}]},
            {"role": "assistant", "content": None, "tool_calls": [{"function": function}]},
            {"role": "tool", "content": '{"time": "10:00"}'},
            {"role": "tool", "content": "late"},
        ],
        tools=[{"type": "function", "function": {"name": "get_time"}}],
    )
    assert rendered == (
        "<|im_start|>system\nBe brief.\n\nTools:\n<tools>\n"
        '{"type": "function", "function": {"name": "get_time"}}\n</tools><|im_end|>\n'
        "<|im_start|>user\nWhat time is it?<|im_end|>\n"
        '<|im_start|>assistant\n<tool_call>\n{"name": "get_time", "arguments": {"city": "Rome"}}'
        "\n</tool_call><|im_end|>\n"
        '<|im_start|>user\n<tool_response>\n{"time": "10:00"}\n</tool_response>'
        "\n<tool_response>\nlate\n</tool_response><|im_end|>\n"
    )


def test_a_system_turn_later_on_is_kept() -> None:
    rendered = render([{"role": "user", "content": "a"}, {"role": "system", "content": "b"}])
    assert rendered == "<|im_start|>user\na<|im_end|>\n<|im_start|>system\nb<|im_end|>\n"
