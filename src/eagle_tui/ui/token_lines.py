"""The tokens of a sample as lines: each piece of text over its id, predicted ones apart. Pure.

Told by a sign as well as by colour: a predicted token's id has a mark before it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from rich.cells import cell_len

from eagle_tui import fmt
from eagle_tui.records import TokenView
from eagle_tui.ui.canvas import fit
from eagle_tui.ui.wrap import safe

LONGEST_PIECE = 24
"""Cells of one token's text; the rest of a longer one (white space, mostly) is cut."""
NO_PIECE = "…"
"""A token that only begins a character."""

Kind = Literal["heading", "pieces", "ids", "note"]


@dataclass(frozen=True)
class Cell:
    """One token in a line."""

    text: str
    predicted: bool
    odd: bool
    """Every second one: neighbours are told apart by it."""


@dataclass(frozen=True)
class TokenLine:
    """A heading, the texts of some tokens, or their ids below."""

    kind: Kind
    text: str = ""
    cells: tuple[Cell, ...] = ()


def summary(view: TokenView) -> str:
    """How many tokens there are and how many training predicts, in words."""
    count = len(view.ids) + view.left_out
    if view.dropped:
        return f"{fmt.exact(count)} tokens; merge leaves the row out: {view.dropped}"
    if view.left_out:
        return f"{fmt.exact(count)} tokens, {fmt.exact(view.left_out)} in the middle not shown"
    return f"{fmt.exact(count)} tokens, {fmt.exact(sum(view.mask))} of them predicted in training"


def token_lines(view: TokenView, width: int, mark: str) -> list[TokenLine]:
    """All lines, for `width` cells; `mark` stands before the id of a predicted token."""
    lines = [TokenLine("note", view.note)] if view.note else []
    pieces = view.pieces or ("",) * len(view.ids)
    row: list[tuple[str, str, bool, bool]] = []
    used = 0

    def flush() -> None:
        nonlocal used
        if row:
            texts = tuple(Cell(text, predicted, odd) for text, _, predicted, odd in row)
            ids = tuple(Cell(id, predicted, odd) for _, id, predicted, odd in row)
            if view.pieces is not None:
                lines.append(TokenLine("pieces", cells=texts))
            lines.append(TokenLine("ids", cells=ids))
        row.clear()
        used = 0

    for index, (id, mask, piece) in enumerate(zip(view.ids, view.mask, pieces, strict=True)):
        if index == 0 and view.prompt:
            lines.append(TokenLine("heading", f"prompt  {fmt.exact(view.prompt)} tokens"))
        if index == view.prompt:
            flush()
            rest = len(view.ids) + view.left_out - view.prompt
            lines.append(TokenLine("heading", f"response  {fmt.exact(rest)} tokens"))
        if view.left_out and index == view.head:
            flush()
            lines.append(TokenLine("note", f"{fmt.exact(view.left_out)} tokens are not shown"))
        shown = _piece(piece) if view.pieces is not None else ""
        label = f"{mark if mask else ''}{id}"
        size = max(cell_len(shown), len(label)) + 1
        if used + size > width:
            flush()
        row.append((fit(shown, size), fit(label, size), bool(mask), index % 2 == 1))
        used += size
        if "\n" in piece:
            flush()
    flush()
    return lines


def _piece(piece: str) -> str:
    if not piece:
        return NO_PIECE
    text = safe(piece).replace("\n", "␊")
    # Blanks at the ends would not be seen.
    inner = text.strip(" ")
    before = len(text) - len(text.lstrip(" "))
    after = len(text) - before - len(inner)
    text = "·" * before + inner + "·" * after
    return text if cell_len(text) <= LONGEST_PIECE else fit(text, LONGEST_PIECE)
