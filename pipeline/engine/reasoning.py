"""How many output tokens were thought: SGLang's ``reasoning_tokens``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..families import FAMILIES

Pattern = tuple[int, ...]


@dataclass(frozen=True)
class ReasoningMarkers:
    """Token ids that open and close a thought; any of them does."""

    openers: tuple[Pattern, ...]
    closers: tuple[Pattern, ...]

    @classmethod
    def of(cls, parser: str, encode: Callable[[str], list[int]]) -> ReasoningMarkers:
        """Markers of a ``--reasoning-parser`` name; raises ValueError for an unknown one."""
        family = FAMILIES.get(parser)
        if family is None:
            known = ", ".join(sorted(FAMILIES))
            raise ValueError(f"--reasoning-parser {parser}: not known; use one of {known}.")
        return cls(
            tuple(tuple(encode(text)) for text in family.openers),
            tuple(tuple(encode(text)) for text in family.closers),
        )


def _end_of(tokens: Sequence[int], pattern: Pattern) -> int | None:
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
    the output itself begins with an opener. Without a parser it is always 0.
    """
    if markers is None:
        return 0
    opened = any(tuple(output[: len(opener)]) == opener for opener in markers.openers)
    if not required and not opened:
        return 0
    ends = [end for closer in markers.closers if (end := _end_of(output, closer)) is not None]
    return min(ends, default=len(output))
