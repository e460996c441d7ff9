"""A sample as lines to read: prompt, reasoning and answer apart, each of them foldable. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from eagle_tui import fmt
from eagle_tui.protocol import Sample
from eagle_tui.ui.glyphs import Glyphs
from eagle_tui.ui.wrap import wrap

HEAD, TAIL = 200_000, 20_000
"""Characters of a longer text that are shown: a reader's limits are wider than a pane's."""
PROMPT_ROWS = 6

Part = Literal["prompt", "reasoning", "answer", "note"]


@dataclass(frozen=True)
class TextLine:
    """One line of the reader."""

    part: Part
    text: str
    heading: bool = False


@dataclass(frozen=True)
class Folds:
    """What is folded."""

    prompt: bool = True
    reasoning: bool = False
    answer: bool = False


def sample_lines(sample: Sample, width: int, folds: Folds, glyphs: Glyphs) -> list[TextLine]:
    """All lines of a sample, wrapped to `width`."""
    prompt = _wrap(sample.prompt, width)
    shown = prompt[:PROMPT_ROWS] if folds.prompt else prompt
    tokens = f"{fmt.exact(sample.prompt_tokens)} tokens with all that came before"
    lines = [TextLine("prompt", f"prompt  {tokens}", True)]
    lines += [TextLine("prompt", text) for text in shown]
    if len(prompt) > len(shown):
        lines.append(TextLine("note", f"{len(prompt) - len(shown):,} more lines, P shows them"))
    answer = max(sample.completion_tokens - sample.reasoning_tokens, 0)
    if sample.reasoning:
        lines += _part(
            "reasoning",
            "f",
            sample.reasoning,
            sample.reasoning_tokens,
            width,
            folds.reasoning,
            glyphs,
        )
    if sample.content:
        lines += _part("answer", "F", sample.content, answer, width, folds.answer, glyphs)
    else:
        empty = "no answer after the reasoning" if sample.reasoning else "the answer is empty"
        lines.append(TextLine("note", empty))
    return lines


def _part(
    part: Part, key: str, text: str, tokens: int, width: int, folded: bool, glyphs: Glyphs
) -> list[TextLine]:
    sign = glyphs.folded if folded else glyphs.unfolded
    head = f"{sign} {part}  {fmt.exact(tokens)} tokens"
    if folded:
        return [TextLine(part, f"{head}  {key} unfolds", True)]
    return [TextLine(part, head, True), *(TextLine(part, line) for line in _wrap(text, width))]


def _wrap(text: str, width: int) -> list[str]:
    return wrap(text, width, HEAD, TAIL)


def plain_text(sample: Sample) -> str:
    """All of a sample as text, for the clipboard and for a file."""
    head = (
        f"{sample.dataset} {sample.id} {sample.state} ({sample.finish_reason}), "
        f"{sample.prompt_tokens} in, {sample.completion_tokens} out, "
        f"{sample.reasoning_tokens} reasoning"
    )
    parts = [("prompt", sample.prompt), ("reasoning", sample.reasoning), ("answer", sample.content)]
    return "\n\n".join([head, *(f"## {name}\n\n{text}" for name, text in parts if text)]) + "\n"
