"""What the screens that are read hold and draw, without a terminal."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len

from eagle_tui import place
from eagle_tui.protocol import CommandState, Sample
from eagle_tui.reader.logs import LogReader
from eagle_tui.records import SampleHead, SamplePage, TokenView
from eagle_tui.rundir.paths import RunDir
from eagle_tui.supervisor.past import FOR_EVER
from eagle_tui.supervisor.store import Store
from eagle_tui.ui import copying, journal_book, log_window, sample_book, themes
from eagle_tui.ui.glyphs import glyph_set
from eagle_tui.ui.journal import Entry, one_line
from eagle_tui.ui.journal_book import JournalBook
from eagle_tui.ui.log_window import LogWindow
from eagle_tui.ui.palette import palette
from eagle_tui.ui.sample_book import SampleBook
from eagle_tui.ui.sample_text import Folds, plain_text, sample_lines
from eagle_tui.ui.token_lines import summary, token_lines
from eagle_tui.ui.wrap import safe

GLYPHS = glyph_set("braille")


def head(id: str, at: float = 0.0, tokens: int = 1) -> SampleHead:
    return SampleHead(
        dataset="d", id=id, state="complete", at=at, completion_tokens=tokens,
        reasoning_tokens=0, offset=int(at), title=id,
    )  # fmt: skip


# The list of samples


def test_nothing_moves_while_somebody_reads() -> None:
    book = SampleBook()
    book.take_more(SamplePage(heads=(head("b", 2), head("a", 1)), ends={"d": 9}, done=True))
    assert book.news().floor == {"d": 9}
    book.move(1)
    page = SamplePage(heads=(head("d", 4), head("c", 3), head("b", 2)), ends={"d": 20}, done=True)
    book.take_news(page, reading=True)
    assert [h.id for h in book.heads] == ["b", "a"] and len(book.waiting) == 2
    assert book.current == head("a", 1) and book.news().floor == {"d": 20}
    book.take_news(page, reading=True)
    assert len(book.waiting) == 2, "nothing waits twice"
    book.catch_up()
    assert [h.id for h in book.heads] == ["d", "c", "b", "a"] and book.selected == 0
    book.take_news(SamplePage(heads=(head("e", 5),)), reading=False)
    assert book.heads[0].id == "e" and not book.waiting


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=40), st.integers(0, 9))
def test_the_longest_stay_in_order_and_the_selected_one_selected(
    found: list[tuple[int, int]], chosen: int
) -> None:
    book = SampleBook()
    book.order = "longest"
    heads = [head(str(n), at, tokens) for n, (at, tokens) in enumerate(found)]
    book.take_more(SamplePage(heads=tuple(heads[:10])))
    book.move(chosen)
    held = book.current
    book.take_more(SamplePage(heads=tuple(heads[5:]), done=True))
    sizes = [h.completion_tokens for h in book.heads]
    assert sizes == sorted(sizes, reverse=True) and len(book.heads) == len(heads)
    assert book.current == held or held is None
    assert not book.wants_more()


def test_a_list_has_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample_book, "KEPT", 5)
    book = SampleBook()
    book.take_more(SamplePage(heads=tuple(head(str(n), -n) for n in range(9))))
    assert [h.id for h in book.heads] == list("01234") and book.full and not book.wants_more()
    book.next_dataset(["x", "y"])
    assert (book.dataset, book.asked, book.heads) == ("x", False, [])
    book.next_dataset(["x", "y"])
    book.next_dataset(["x", "y"])
    assert book.dataset is None
    for wanted in ("longest", "truncated", "loop", "no_answer", "flagged", "newest"):
        book.next_order()
        assert book.order == wanted


# The reader


def sample(**parts: object) -> Sample:
    base = {
        "id": "i", "dataset": "d", "prompt": "p", "reasoning": "r", "content": "c",
        "state": "complete", "finish_reason": "stop", "prompt_tokens": 3,
        "completion_tokens": 9, "reasoning_tokens": 4, "endpoint": "e", "at": 0.0,
    }  # fmt: skip
    return Sample.model_validate(base | parts)


def test_parts_are_apart_and_fold() -> None:
    one = sample(prompt="q\n" * 20, reasoning="why\nso", content="thus")
    lines = sample_lines(one, 40, Folds(), GLYPHS)
    parts = [(line.part, line.heading) for line in lines]
    assert parts.count(("prompt", False)) == 6 and ("reasoning", True) in parts
    assert [line.text for line in lines if line.part == "answer"] == ["▾ answer  5 tokens", "thus"]
    folded = sample_lines(one, 40, Folds(prompt=False, reasoning=True, answer=True), GLYPHS)
    texts = [line.text for line in folded]
    assert texts[-2:] == ["▸ reasoning  4 tokens  f unfolds", "▸ answer  5 tokens  F unfolds"]
    assert sum(line.part == "prompt" for line in folded) == 22
    empty = sample_lines(sample(content="", reasoning=""), 40, Folds(), GLYPHS)
    assert empty[-1].text == "the answer is empty"


def test_a_megabyte_is_read_to_its_end() -> None:
    lines = sample_lines(sample(content="x" * (1 << 20)), 100, Folds(), GLYPHS)
    assert 2000 < len(lines) < 2400
    assert any("characters in the middle are not shown" in line.text for line in lines)


@given(st.text(max_size=300), st.integers(10, 80))
def test_no_line_of_a_sample_can_harm(text: str, width: int) -> None:
    for line in sample_lines(sample(prompt=text, content=text), width, Folds(), GLYPHS):
        assert safe(line.text) == line.text and "\n" not in line.text


# Tokens


PIECES = st.lists(st.text(max_size=6) | st.sampled_from(["", "\n", " ", "漢", "\x1b"]), max_size=30)


@given(PIECES, st.integers(0, 30), st.integers(30, 90))
def test_every_token_is_drawn_once_over_its_id(pieces: list[str], prompt: int, width: int) -> None:
    prompt = min(prompt, len(pieces))
    mask = [0] * prompt + [1] * (len(pieces) - prompt)
    view = TokenView(ids=tuple(range(len(pieces))), mask=tuple(mask), pieces=tuple(pieces),
                     prompt=prompt)  # fmt: skip
    lines = token_lines(view, width, "*")
    ids = [cell.text.strip() for line in lines if line.kind == "ids" for cell in line.cells]
    assert ids == [f"{'*' if m else ''}{n}" for n, m in enumerate(mask)]
    for above, below in pairwise(lines):
        if below.kind == "ids":
            assert above.kind == "pieces" and len(above.cells) == len(below.cells)
            assert not any("\x1b" in cell.text or "\n" in cell.text for cell in above.cells)


def test_what_is_not_shown_of_tokens_is_told() -> None:
    view = TokenView(
        ids=(1, 2, 3), mask=(0, 1, 1), prompt=1, head=2, left_out=1000, note="no tokenizer"
    )
    lines = token_lines(view, 40, "*")
    assert [line.text for line in lines if line.kind == "note"] == [
        "no tokenizer", "1,000 tokens are not shown",
    ]  # fmt: skip
    assert not any(line.kind == "pieces" for line in lines)
    assert summary(view) == "1,003 tokens, 1,000 in the middle not shown"
    dropped = view.model_copy(update={"left_out": 0, "dropped": "state loop"})
    assert summary(dropped) == "3 tokens; merge leaves the row out: state loop"


# Logs


class Driver:
    """A window over a real log: what is asked for is answered."""

    def __init__(self, root: Path, rows: int, height: int) -> None:
        (root / "logs").mkdir()
        self.path = root / "logs" / "a.log"
        self.path.write_text("".join(f"{n}\n" for n in range(rows)))
        self.reader, self.window, self.height = LogReader(RunDir(root)), LogWindow(), height
        self.window.begin("a.log")
        self.window.take_around(self.reader.page(self.window.around(None)), None)
        self.settle()

    def last_top(self) -> int:
        return max(len(self.window.lines) - self.height, 0)

    def settle(self) -> None:
        window = self.window
        window.top = self.last_top() if window.follow else min(window.top, self.last_top())
        while True:
            if (query := window.older()) is not None:
                window.take_older(self.reader.page(query))
            elif (query := window.newer(self.height)) is not None:
                window.take_newer(self.reader.page(query))
            else:
                break
            window.top = self.last_top() if window.follow else window.top

    def scroll(self, by: int) -> None:
        self.window.scroll(by, self.last_top())
        self.settle()

    def shown(self) -> list[str]:
        return [line.text for line in self.window.lines[self.window.top :][: self.height]]


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(-40, 40), max_size=30))
def test_scrolling_shows_every_row_in_its_place(
    tmp_path_factory: pytest.TempPathFactory, moves: list[int]
) -> None:
    rows, height = 400, 10
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_window, "KEPT", 60)
        patch.setattr(log_window, "FETCH", 15)
        patch.setattr(log_window, "NEAR", 12)
        driver = Driver(tmp_path_factory.mktemp("w"), rows, height)
        top = rows - height
        for by in moves:
            # A move is bounded by what is held, as a screen's is.
            before = driver.window.top
            driver.scroll(by)
            top = int(driver.shown()[0])
            assert driver.shown() == [str(n) for n in range(top, top + height)]
            assert len(driver.window.lines) <= 60 + 15
            assert driver.window.follow == (top == rows - height), (by, before)


def test_what_is_written_is_followed_and_a_cut_file_begins_anew(tmp_path: Path) -> None:
    driver = Driver(tmp_path, 50, 10)
    with driver.path.open("a") as file:
        file.write("half")
    driver.window.take_newer(driver.reader.page(driver.window.appended()))
    driver.settle()
    with driver.path.open("a") as file:
        file.write(" done\nlast\n")
    driver.window.take_newer(driver.reader.page(driver.window.appended()))
    driver.settle()
    assert driver.shown()[-3:] == ["49", "half done", "last"]
    driver.path.write_text("new\n")
    driver.window.take_newer(driver.reader.page(driver.window.appended()))
    assert not driver.window.asked and driver.window.follow


def test_a_search_goes_from_place_to_place(tmp_path: Path) -> None:
    driver = Driver(tmp_path, 3000, 10)
    window = driver.window
    window.text = "77"
    found = []
    for _ in range(3):
        page = driver.reader.page(window.search(backward=True))
        window.match = page.lines[0].offset
        found.append(page.lines[0].text)
    assert found == ["2977", "2877", "2779"]
    page = driver.reader.page(window.search(backward=False))
    assert page.lines[0].text == "2877"


def test_places() -> None:
    now = datetime(2026, 11, 30, 15, 0, 0, tzinfo=UTC).timestamp()  # a Monday

    def at(text: str) -> str:
        found = datetime.fromtimestamp(place.time_of(text, now, UTC), UTC)
        return found.strftime("%a %d %H:%M:%S")

    assert at("14:20") == "Mon 30 14:20:00"
    assert at("15:20:05") == "Sun 29 15:20:05", "a time of day lies in the past"
    assert at("Sat 9:05") == "Sat 28 09:05:00" and at("monday 15:01") == "Mon 23 15:01:00"
    assert at("2026-11-29 01:02:03") == "Sun 29 01:02:03" and at("2026-11-29") == "Sun 29 00:00:00"
    assert at("-30m") == "Mon 30 14:30:00" and at("-1.5h") == "Mon 30 13:30:00"
    assert place.share_of("50%") == 0.5 and place.share_of("14:20") is None
    for wrong in ("", "yesterday", "25:00", "2026-13-01", "xyz 10:00", "12"):
        with pytest.raises(ValueError, match="no place in time"):
            place.time_of(wrong, now, UTC)
    with pytest.raises(ValueError, match="more than the whole"):
        place.share_of("101%")


# The journal


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(-30, 30), max_size=40))
def test_the_journal_is_scrolled_through_all_of_it(moves: list[int]) -> None:
    store = Store(Path(":memory:"))
    for n in range(120):
        store.event(float(n), "info", "s", str(n))
    book = JournalBook()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(journal_book, "PAGE", 7)
        patch.setattr(journal_book, "PAGES", 4)
        patch.setattr(journal_book, "NEAR", 5)
        book.take_newest(store.journal(book.newest(), FOR_EVER))
        added = 120
        for by in moves:
            wanted = int(book.current.event.text) + by  # type: ignore[union-attr]
            step = max(-len(book.entries), min(by, len(book.entries)))
            book.move(step)
            while True:
                if (query := book.older()) is not None:
                    book.take_older(store.journal(query, FOR_EVER))
                elif not book.at_newest and (query := book.newer()) is not None:
                    book.take_newer(store.journal(query, FOR_EVER))
                else:
                    break
            if book.at_newest and by % 3 == 0:
                store.event(float(added), "info", "s", str(added))
                added += 1
                book.take_newer(store.journal(book.newer(), FOR_EVER))  # type: ignore[arg-type]
            numbers = [int(e.event.text) for e in book.entries if e.event]
            assert numbers == list(range(numbers[0], numbers[-1] + 1)), "no gap, nothing twice"
            assert len(numbers) <= 7 * 5
            assert wanted is not None
    store.close()


# Copies


def test_copies_are_harmless_and_only_the_owners(tmp_path: Path) -> None:
    text = plain_text(sample(content="a\x1b[2J\x07b"))
    path = copying.write_copy("../d/i\x1b", text, tmp_path / "c")
    assert path.parent == tmp_path / "c" and path.name == ".._d_i_.txt"
    assert path.stat().st_mode & 0o777 == 0o600
    assert "a␛[2J␇b" in path.read_text() and "\x1b" not in path.read_text()
    assert copying.for_clipboard("a\x1b") == "a␛"
    assert copying.for_clipboard("x" * 100_000) is None


@pytest.mark.parametrize("state", ["info", "accepted"])
def test_a_line_of_wide_characters_is_cut_at_the_cell(state: str) -> None:
    """Not in its middle: they are two cells each."""
    look = palette(themes.ThemeFiles(Path("/nonexistent")).themes.by_name["eagle-dark"])
    trail: tuple[CommandState, ...] = ("requested", "accepted") if state == "accepted" else ()
    entry = Entry(0.0, state, "operator", "数据集生成完成" * 3, trail)
    for width in (40, 60, 90):
        line = "".join(s.text for s in one_line(entry, 0.0, width, look, glyph_set("unicode")))
        assert cell_len(line) <= width
        assert entry.text in line or "…" in line
        assert entry.text in line or cell_len(line) >= width - 1
    assert entry.text in line
