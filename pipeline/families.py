"""Reasoning families: with which markers a model opens and closes its thought.

The names are those of SGLang's `--reasoning-parser` (0.5.17 and 0.5.23), so that one word in
run.toml means the same to the server and to us.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection
from dataclasses import dataclass


class UnknownFamilyError(ValueError):
    """`target.reasoning` names no family; the message lists those that exist."""


@dataclass(frozen=True)
class Family:
    """Markers of one way of thinking aloud."""

    name: str
    openers: tuple[str, ...]
    closers: tuple[str, ...]
    assumed: bool = False
    """The model may think without an opener of its own or of the prompt: a closer is enough."""
    tool_openers: tuple[str, ...] = ()
    """A tool section that ends the thought when no closer comes. It belongs to the content."""
    frames: tuple[str, ...] = ()
    """Markers around the content that are neither reasoning nor content."""
    repeats: bool = False
    """The answer is a row of typed blocks: a thought may begin again after content."""
    signs: tuple[str, ...] = ()
    """Texts that must all stand in the chat template (or be added tokens) for `auto`; empty: the
    first opener."""


_THINK = (("<think>",), ("</think>",))
_TOOL_CALL = ("<tool_call>",)
_KIMI_TOOLS = ("<|tool_calls_section_begin|>",)


def _think(names: str, *, assumed: bool = False, tools: tuple[str, ...] = ()) -> list[Family]:
    return [Family(name, *_THINK, assumed=assumed, tool_openers=tools) for name in names.split()]


_ALL: list[Family] = [
    *_think("deepseek-r1 step3 step3p5 gigachat35 minimax-append-think", assumed=True),
    *_think("qwen3-thinking minimax", assumed=True, tools=_TOOL_CALL),
    *_think("qwen3 interns1 dots nanbeige deepseek-v3 deepseek-v4 deepseek-v41", tools=_TOOL_CALL),
    *_think(
        "glm45 ling3 nemotron_3 mimo poolside_v1 hunyuan granite_thinking_parser", tools=_TOOL_CALL
    ),
    *_think("kimi_k2", tools=_KIMI_TOOLS),
    Family("minimax-m3", ("<mm:think>",), ("</mm:think>",)),
    Family("kimi", ("◁think▷",), ("◁/think▷",)),
    Family(
        "kimi_k3",
        ("<|open|>think<|sep|>",),
        ("<|close|>think<|sep|>",),
        assumed=True,
        tool_openers=("<|open|>tools<|sep|>",),
        frames=(
            "<|open|>response<|sep|>",
            "<|close|>response<|sep|>",
            "<|close|>message<|sep|>",
        ),
        signs=("<|open|>", "<|close|>", "<|sep|>"),
    ),
    Family("mistral", ("[THINK]",), ("[/THINK]",)),
    Family(
        "gpt-oss",
        ("<|channel|>analysis<|message|>", "<|start|>assistant<|channel|>analysis<|message|>"),
        ("<|end|>",),
        frames=(
            "<|channel|>final<|message|>",
            "<|start|>assistant<|channel|>final<|message|>",
        ),
        repeats=True,
        signs=("<|channel|>", "<|message|>"),
    ),
    Family("gemma4", ("<|channel>", "<|channel>thought\n"), ("<channel|>",)),
    Family(
        "inkling",
        ("<|content_thinking|>", "<|message_model|><|content_thinking|>"),
        ("<|end_message|>",),
        frames=(
            "<|message_model|>",
            "<|content_text|>",
            "<|content_model_end_sampling|>",
        ),
        repeats=True,
    ),
    Family(
        "cohere_command4",
        ("<|START_THINKING|>",),
        ("<|END_THINKING|>",),
        assumed=True,
        frames=("<|START_TEXT|>", "<|END_TEXT|>"),
    ),
    Family("apertus2509", ("<|inner_prefix|>",), ("<|inner_suffix|>",)),
    Family(
        "k2_horizon",
        ("<ifm|think>", "<ifm|think_fast>", "<ifm|think_faster>"),
        ("</ifm|think>", "</ifm|think_fast>", "</ifm|think_faster>"),
        assumed=True,
    ),
    Family(
        "muse",
        (" to=self<|message|>",),
        ("<|eom|>",),
        frames=("<|start|>assistant to=user<|message|>", " to=user<|message|>"),
        signs=("to=self", "<|eom|>"),
    ),
]

FAMILIES: dict[str, Family] = {family.name: family for family in _ALL}
"""Every family by its name."""

# `<think>` is shared by two dozen families; only the tool section that ends a thought tells kimi_k2
# apart in a way that changes the split.
_AUTO: tuple[str, ...] = (
    "gpt-oss",
    "kimi_k3",
    "minimax-m3",
    "kimi",
    "inkling",
    "cohere_command4",
    "apertus2509",
    "k2_horizon",
    "muse",
    "gemma4",
    "mistral",
)


def find_family(
    configured: str, chat_template: str | None = None, added_tokens: Collection[str] = ()
) -> Family | None:
    """The family that `target.reasoning` names; None for `none`.

    `auto` looks for markers in the chat template and among the tokenizer's added tokens, and finds
    None where there are none. UnknownFamilyError: no such name.
    """
    if configured == "none":
        return None
    if configured != "auto":
        try:
            return FAMILIES[configured]
        except KeyError:
            near = difflib.get_close_matches(configured, FAMILIES, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(sorted(FAMILIES))}"
            raise UnknownFamilyError(
                f"target.reasoning: there is no reasoning family {configured!r}; {hint}."
                " `auto` looks at the chat template, `none` is for models that do not think."
            ) from None
    text = chat_template or ""

    def has(sign: str) -> bool:
        return sign in text or sign in added_tokens

    for name in _AUTO:
        family = FAMILIES[name]
        if all(has(sign) for sign in family.signs or family.openers[:1]):
            return family
    if has("<think>") or has("</think>"):
        return FAMILIES["kimi_k2" if has(_KIMI_TOOLS[0]) else "qwen3"]
    return None
