"""Native answers that hold a thought, whatever the template makes of it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle_tui.pipeline.families import FAMILIES
from eagle_tui.pipeline.formats import Rejected
from eagle_tui.pipeline.template import Renderer
from eagle_tui.pipeline.thoughts import as_written, thought_of

QWEN, R1 = FAMILIES["qwen3"], FAMILIES["deepseek-r1"]
USER = {"role": "user", "content": "q"}
KEEPS = (  # content as it is, the thought opened in the prompt
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}"
)
DROPS = KEEPS.replace("{{ m.content }}", "{{ m.content.split('</think>')[-1] }}")
DROPS_UNOPENED = DROPS.replace("<think>\n{% endif %}", "{% endif %}")
MARKED = DROPS.replace(
    "{{ m.content.split('</think>')[-1] }}",
    "{% generation %}{{ m.content.split('</think>')[-1] }}{% endgeneration %}",
)


def answer(content: str, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content, **more}


def native(make_tokenizer: Any, template: str, *messages: dict[str, Any]) -> tuple[str, list[str]]:
    """The whole text, and the text of each answer."""
    tokenizer = make_tokenizer(template=template)
    found = Renderer(tokenizer, [tokenizer.eos_token_id], None, QWEN).native(messages)
    assert len(set(found.spans)) == len(found.spans)
    return tokenizer.decode(found.ids), [tokenizer.decode(found.ids[a:b]) for a, b in found.spans]


@pytest.mark.parametrize("template", [KEEPS, DROPS, MARKED], ids=["keeps", "drops", "marked"])
@pytest.mark.parametrize(
    ("message", "written"),
    [
        (answer("<think>plan</think>4"), "plan</think>4"),
        (answer("<think>\nplan\n</think>\n\n4"), "plan\n</think>\n\n4"),
        (answer(" \n<think>\nplan</think>4"), "plan</think>4"),
        (answer("plan</think>4"), "plan</think>4"),
        (answer("4", reasoning_content="plan"), "plan\n</think>\n\n4"),
    ],
)
def test_the_prompt_opens_the_thought(
    make_tokenizer: Any, template: str, message: dict[str, Any], written: str
) -> None:
    whole, answers = native(make_tokenizer, template, USER, message)
    assert answers == [f"{written}<|im_end|>"]
    assert whole.rstrip("\n") == (
        f"<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n<think>\n{written}<|im_end|>"
    )


def test_a_template_that_drops_the_thought_of_a_prompt_without_one(make_tokenizer: Any) -> None:
    for message, written in (
        (answer("<think>plan</think>4"), "<think>plan</think>4"),
        (answer("4", reasoning_content="plan"), "<think>\nplan\n</think>\n\n4"),
    ):
        _, answers = native(make_tokenizer, DROPS_UNOPENED, USER, message)
        assert answers == [f"{written}<|im_end|>"]


def test_only_the_last_answer_is_written_so(make_tokenizer: Any) -> None:
    """The history stays as the template shows it to the target."""
    talk = (USER, answer("<think>a</think>1"), USER, answer("<think>b</think>2"))
    whole, answers = native(make_tokenizer, DROPS_UNOPENED, *talk)
    assert answers == ["1<|im_end|>", "<think>b</think>2<|im_end|>"]
    assert "a</think>" not in whole
    whole, answers = native(make_tokenizer, DROPS, *talk)
    assert answers == ["b</think>2<|im_end|>"]


@pytest.mark.parametrize("content", ["4", "<think>never closed"])
def test_an_answer_without_a_whole_thought_is_rejected_as_before(
    make_tokenizer: Any, content: str
) -> None:
    """Where the prompt opens one: the target did not write this."""
    with pytest.raises(Rejected, match="answer not located"):
        native(make_tokenizer, DROPS, USER, answer(content))


def test_tool_calls_are_left_to_the_template(make_tokenizer: Any) -> None:
    call = {"type": "function", "function": {"name": "f", "arguments": {}}}
    with pytest.raises(Rejected, match="answer not located"):
        native(make_tokenizer, KEEPS, USER, answer("<think>p</think>", tool_calls=[call]))


def test_what_the_template_keeps_is_the_templates(make_tokenizer: Any) -> None:
    template = DROPS_UNOPENED.replace("{{ m.content.split('</think>')[-1] }}", "{{ m.content }}")
    _, answers = native(make_tokenizer, template, USER, answer("<think>plan</think>4"))
    assert answers == ["<think>plan</think>4<|im_end|>"]


TEXT = st.text(st.sampled_from("ab <\n/é"), max_size=12)


@given(TEXT.filter(str.strip), TEXT, st.booleans(), st.sampled_from([QWEN, R1, FAMILIES["kimi"]]))
def test_nothing_of_thought_and_answer_is_lost(
    thought: str, content: str, opened: bool, family: Any
) -> None:
    opener, closer = family.openers[0], family.closers[0]
    before = "prompt\n" + (f"{opener}\n" if opened else "")
    apart = answer(content, reasoning_content=thought)
    inline = answer(f"{opener}{thought}{closer}{content}")
    for message in (apart, inline):
        assert thought_of(message, family) == thought.strip()
        written = before + as_written(message, family, before)
        assert written.count(opener) == 1 and written.count(closer) == 1
        head, _, rest = written.partition(opener)[2].partition(closer)
        assert head.strip() == thought.strip() and rest.strip() == content.strip()
