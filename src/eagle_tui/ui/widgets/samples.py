"""The sample pane: what the target model wrote, reasoning and answer apart, never as markup."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.style import Style
from textual import events

from eagle_tui import fmt
from eagle_tui.client_api import SAMPLE_KINDS, SampleKind
from eagle_tui.protocol import Sample
from eagle_tui.ui.canvas import Canvas, Line, Pen, fit
from eagle_tui.ui.wrap import safe_line, wrap

TIGHT = 8
"""Below this height headings are left out."""
PROMPT_ROWS = 4
"""Rows of the prompt shown; it is there to recognise the sample by."""
ROOMY = 12
"""From this height on the reasoning is unfolded unless the operator folds it."""

BodyLine = tuple[str, str]
"""(part, text); the part is heading, prompt, reasoning, content or note."""


def body(
    sample: Sample, width: int, folded: bool, tight: bool, unfold_glyph: str
) -> list[BodyLine]:
    """All lines of a sample, wrapped to `width`; bounded as `wrap` is.

    `tight` is the form for a few rows: a row of prompt, a row for folded reasoning, the answer.
    """
    if tight:
        return _tight_body(sample, width, folded, unfold_glyph)
    lines: list[BodyLine] = [("heading", "prompt")]
    prompt = wrap(sample.prompt, width)
    lines += [("prompt", text) for text in prompt[:PROMPT_ROWS]]
    if len(prompt) > PROMPT_ROWS:
        lines.append(("note", f"{len(prompt) - PROMPT_ROWS} more lines of prompt"))
    if sample.reasoning:
        heading = f"reasoning  {fmt.exact(sample.reasoning_tokens)} tokens"
        if folded:
            lines.append(("reasoning heading", f"{unfold_glyph} {heading}  f unfolds"))
        else:
            lines.append(("reasoning heading", heading))
            lines += [("reasoning", text) for text in wrap(sample.reasoning, width)]
    if sample.content:
        tokens = max(sample.completion_tokens - sample.reasoning_tokens, 0)
        lines.append(("heading", f"answer  {fmt.exact(tokens)} tokens"))
        lines += [("content", text) for text in wrap(sample.content, width)]
    else:
        lines.append(("note", "no answer after the reasoning" if sample.reasoning else "empty"))
    return lines


def _tight_body(sample: Sample, width: int, folded: bool, unfold_glyph: str) -> list[BodyLine]:
    prompt = wrap(sample.prompt[: 4 * width], width)
    lines: list[BodyLine] = [("prompt", fit(safe_line(" ".join(prompt)), width).rstrip())]
    if sample.reasoning and folded:
        start = safe_line(sample.reasoning[: 2 * width])
        text = f"{unfold_glyph} reasoning {fmt.exact(sample.reasoning_tokens)} tokens: {start}"
        lines.append(("reasoning", fit(text, width).rstrip()))
    else:
        lines += [("reasoning", text) for text in wrap(sample.reasoning, width)]
    if sample.content:
        return lines + [("content", text) for text in wrap(sample.content, width)]
    return [*lines, ("note", "no answer after the reasoning" if sample.reasoning else "empty")]


class SamplePane(Canvas):
    """One stored response of the selected dataset, scrollable, with its figures above it.

    While it is read (another than the first is shown, or it is scrolled) newer samples wait; their
    number is shown. Otherwise the pane follows.
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.dataset: str | None = None
        self.kind: SampleKind = "newest"
        self._samples: Sequence[Sample] = ()
        self._waiting: Sequence[Sample] = ()
        self._index = 0
        self._top = 0
        self._fold: bool | None = None
        self._problem = ""
        self._asked = False
        self._cache: tuple[tuple[str, int, bool, bool], list[BodyLine]] | None = None

    @property
    def current(self) -> Sample | None:
        return self._samples[self._index] if self._index < len(self._samples) else None

    @property
    def newer(self) -> int:
        """How many samples came since the held list was taken."""
        if not self._samples:
            return 0
        first = self._samples[0].id
        ids = [sample.id for sample in self._waiting]
        return ids.index(first) if first in ids else len(ids)

    def aim(self, dataset: str | None, kind: SampleKind) -> None:
        """Show another dataset or kind; what was there goes away at once."""
        self.dataset, self.kind = dataset, kind
        self._samples = self._waiting = ()
        self._index = self._top = 0
        self._asked, self._problem = False, ""
        self.redraw()

    def next_kind(self) -> SampleKind:
        """The kind after the present one."""
        return SAMPLE_KINDS[(SAMPLE_KINDS.index(self.kind) + 1) % len(SAMPLE_KINDS)]

    def receive(self, samples: Sequence[Sample], problem: str = "") -> None:
        """What the client answered; kept waiting while the operator reads."""
        self._asked, self._problem = True, problem
        if not problem:
            self._waiting = samples
            if self._index == 0 and self._top == 0:
                self._samples = samples
        self.redraw()

    def step(self, by: int) -> bool:
        """Show the next older (+1) or newer (-1) sample; before the first the waiting ones are.

        False when there is none: the first or the last of those fetched is shown already.
        """
        before = (self._index, self.newer)
        if by < 0 and self._index == 0:
            self._samples = self._waiting
        else:
            self._index = min(max(self._index + by, 0), max(len(self._samples) - 1, 0))
        moved = (self._index, self.newer) != before
        if moved:
            self._top = 0
            self.redraw()
        return moved

    def fold(self) -> None:
        """Fold or unfold the reasoning."""
        self._fold = not self.folded
        self._top = 0
        self.redraw()

    @property
    def folded(self) -> bool:
        return self.size.height < ROOMY if self._fold is None else self._fold

    def scroll_rows(self, by: int) -> None:
        """Scroll by rows within the sample."""
        self._top = min(max(self._top + by, 0), self._last_top())
        self.redraw()

    def on_mouse_scroll_down(self, _event: events.MouseScrollDown) -> None:
        self.scroll_rows(2)

    def on_mouse_scroll_up(self, _event: events.MouseScrollUp) -> None:
        self.scroll_rows(-2)

    def draw(self, width: int, height: int) -> Iterable[Line]:
        sample = self.current
        yield self._head(sample, width)
        if sample is None:
            return
        self._top = min(self._top, self._last_top())
        lines = self._body(sample)
        for part, text in lines[self._top : self._top + height - 1]:
            yield self._line(part, text)

    def _last_top(self) -> int:
        sample = self.current
        return max(len(self._body(sample)) - (self.size.height - 1), 0) if sample else 0

    def _body(self, sample: Sample) -> list[BodyLine]:
        width = max(self.size.width - 4, 10)
        tight = self.size.height < TIGHT
        key = (sample.id, width, self.folded, tight)
        if self._cache is None or self._cache[0] != key:
            lines = body(sample, width, self.folded, tight, self.glyphs.folded)
            self._cache = (key, lines)
        return self._cache[1]

    def _head(self, sample: Sample | None, width: int) -> Line:
        look = self.palette
        pen = Pen().add(" ").add(safe_line(self.dataset or "all datasets"), look.strong)
        pen.add(f"  {self.kind}", look.accent)
        if sample is None:
            text = self._problem or ("none stored yet" if self._asked else "…")
            style = look.error if self._problem else look.muted
            return pen.add("  ").cell(text, max(width - pen.width - 2, 0), style).segments
        pen.add(f" {self._index + 1}/{len(self._samples)}", look.muted)
        state = "failed" if sample.state != "complete" else "done"
        style = look.ok if sample.state == "complete" else look.warn
        pen.add(f"  {self.glyphs.state(state)} {sample.state}", style)
        if sample.finish_reason:
            pen.add(f" ({sample.finish_reason})", look.muted)
        figures = [
            f"{fmt.exact(sample.prompt_tokens)} in",
            f"{fmt.exact(sample.completion_tokens)} out",
            f"{fmt.exact(sample.reasoning_tokens)} reasoning",
            fmt.clock(sample.at),
        ]
        newer = f"  {self.newer} newer ([)" if self.newer else ""
        for text in figures:
            if pen.width + len(text) + 2 + len(newer) <= width - 8:
                pen.add(f"  {text}", look.muted)
        pen.add(newer, look.accent)
        total = len(self._body(sample))
        last = min(self._top + self.size.height - 1, total)
        return pen.right(Pen().add(f"{last}/{total} ", look.muted), width).segments

    def _line(self, part: str, text: str) -> Line:
        look = self.palette
        gutter: Style = look.reasoning if part.startswith("reasoning") else look.track
        edge = "|" if self.glyphs.mode == "ascii" else "▎"
        pen = Pen()
        if part.endswith("heading"):
            style = look.reasoning if part.startswith("reasoning") else look.muted
            return pen.add(f" {edge} ", gutter).add(text, style + Style(bold=True)).segments
        styles = {"prompt": look.muted, "reasoning": look.reasoning, "content": look.text}
        return pen.add(f" {edge} ", gutter).add(text, styles.get(part, look.warn)).segments
