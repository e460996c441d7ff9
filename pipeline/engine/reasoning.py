"""How many output tokens were thought: SGLang's ``reasoning_tokens``.

Names, openers and closers are those of SGLang's ``--reasoning-parser``; tool and channel formats
that need more than a pair of markers are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

_THINK = ("<think>", "</think>")
#: Parser name to (opener, closer).
MARKERS: dict[str, tuple[str, str]] = {
    **dict.fromkeys(
        (
            "deepseek-r1", "deepseek-v3", "deepseek-v4", "glm45", "hunyuan", "interns1",
            "kimi_k2", "mimo", "minimax", "minimax-append-think", "nemotron_3", "qwen3",
            "qwen3-thinking", "step3", "step3p5",
        ),
        _THINK,
    ),
    "kimi": ("◁think▷", "◁/think▷"),
    "minimax-m3": ("<mm:think>", "</mm:think>"),
    "mistral": ("[THINK]", "[/THINK]"),
}  # fmt: skip


@dataclass(frozen=True)
class ReasoningMarkers:
    """Token ids that open and close a thought."""

    opener: tuple[int, ...]
    closer: tuple[int, ...]

    @classmethod
    def of(cls, parser: str, encode: Callable[[str], list[int]]) -> ReasoningMarkers:
        """Markers of a parser name; raises ValueError for a name that is not known."""
        if parser not in MARKERS:
            known = ", ".join(sorted(MARKERS))
            raise ValueError(f"--reasoning-parser {parser}: not known here; one of {known}.")
        opener, closer = MARKERS[parser]
        return cls(tuple(encode(opener)), tuple(encode(closer)))


def _end_of(tokens: Sequence[int], pattern: tuple[int, ...]) -> int | None:
    """Index after the first occurrence of ``pattern``."""
    start = 0
    while True:
        try:
            start = tokens.index(pattern[0], start)
        except ValueError:
            return None
        if tuple(tokens[start : start + len(pattern)]) == pattern:
            return start + len(pattern)
        start += 1


def reasoning_tokens(
    output: Sequence[int], markers: ReasoningMarkers | None, *, required: bool
) -> int:
    """Output tokens up to and with the closer; all of them while no closer came.

    Counted when the request says that its prompt ends inside a thought (``required``), or when
    the output itself begins with the opener. Without a parser it is always 0.
    """
    if markers is None:
        return 0
    if not required and tuple(output[: len(markers.opener)]) != markers.opener:
        return 0
    end = _end_of(output, markers.closer)
    return len(output) if end is None else end
