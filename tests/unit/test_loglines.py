"""Rows of logs by byte offset: the same from both sides, bounded, harmless."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle_tui import loglines
from eagle_tui.reader import logs
from eagle_tui.records import LogPage, LogQuery
from eagle_tui.rundir.paths import RunDir

PIECES = st.sampled_from(
    [b"\n", b"\r", b"\r\n", b"a", b"bc", b"0123456789", b"\xc3\xa4", b"\xe2\x82\xac", b"\xff", b" "]
)
CONTENT = st.lists(PIECES, max_size=120).map(b"".join)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks so small that a short text has many."""
    monkeypatch.setattr(loglines, "CUT", 8)
    monkeypatch.setattr(loglines, "BLOCK", 32)
    monkeypatch.setattr(loglines, "BEFORE", 32)
    monkeypatch.setattr(loglines, "AFTER", 72)
    monkeypatch.setattr(logs, "BLOCK", 32)


def reader(root: Path, content: bytes, name: str = "w-0001.log") -> logs.LogReader:
    (root / "logs").mkdir(exist_ok=True)
    (root / "logs" / name).write_bytes(content)
    return logs.LogReader(RunDir(root))


def forward(log: logs.LogReader, rows: int, **options: object) -> list[LogPage]:
    pages, at = [], 0
    while True:
        query = LogQuery.model_validate({"name": "w-0001.log", "at": at, "rows": rows, **options})
        page = log.page(query)
        pages.append(page)
        if page.done:
            return pages
        assert page.end > at
        at = page.end


def backward(log: logs.LogReader, rows: int, **options: object) -> list[LogPage]:
    pages: list[LogPage] = []
    at: int | None = None
    while True:
        query = {"name": "w-0001.log", "at": at, "backward": True, "rows": rows, **options}
        page = log.page(LogQuery.model_validate(query))
        pages.append(page)
        if page.done:
            return pages
        assert at is None or page.start < at
        at = page.start


@pytest.mark.usefixtures("small")
@given(content=CONTENT, rows=st.integers(1, 9))
def test_pages_from_both_ends_hold_the_same_rows(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, rows: int
) -> None:
    log = reader(tmp_path_factory.mktemp("l"), content)
    there = [line for page in forward(log, rows) for line in page.lines]
    back = [line for page in reversed(backward(log, rows)) for line in page.lines]
    assert [line.offset for line in there] == [line.offset for line in back]
    starts = [line.offset for line in there]
    # Every byte is in exactly one row, every newline ends one, and none is larger than two blocks.
    assert starts == sorted(set(starts)) and (not content or starts[0] == 0)
    for start, end in pairwise([*starts, len(content)]):
        assert 0 < end - start <= 2 * loglines.BLOCK + 4
        assert b"\n" not in content[start : end - 1]
        if b"\r" not in content[start:end]:
            assert end - start <= 2 * loglines.CUT + 4
    if not content.count(b"\xff"):
        assert not any("�" in line.text for line in there)


def test_a_megabyte_in_one_line_is_many_rows(tmp_path: Path) -> None:
    content = b"first\n" + b"x" * (1 << 20) + b"\nlast\n"
    log = reader(tmp_path, content)
    rows = [line for page in forward(log, 100) for line in page.lines]
    assert rows[0].text == "first" and rows[-1].text == "last"
    assert sum(len(line.text) for line in rows[1:-1]) == 1 << 20
    assert max(len(line.text) for line in rows) <= 2 * loglines.CUT
    last = log.page(LogQuery(name="w-0001.log", backward=True, rows=3))
    assert [line.text[:4] for line in last.lines] == ["xxxx", "xxxx", "last"]


def test_a_progress_bar_is_its_last_state(tmp_path: Path) -> None:
    bar = b"".join(b"%3d%%|####|\r" % n for n in range(101))
    log = reader(tmp_path, b"before\n" + bar * 400 + b"\nafter\n")
    rows = [line for page in forward(log, 50) for line in page.lines]
    assert len(rows) < 8, "one row for each quarter of a megabyte at most"
    assert rows[0].text == "before" and rows[-1].text == "after"
    assert rows[-2].text == "100%|####|" and rows[-2].updates > 100
    assert loglines.shown(b"a\r\n").text == "a"


def test_search_and_level_look_on_page_by_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = [f"[2026-11-30 14:{n // 60:02d}:{n % 60:02d}] line {n}" for n in range(3000)]
    lines[10] += " Needle"
    lines[2000] = "WARNING: look out"
    lines[2500:2503] = ["Traceback (most recent call last):", '  File "a.py"', "ValueError: b"]
    log = reader(tmp_path, ("\n".join(lines) + "\n").encode())
    found = forward(log, 5, text="NEEDLE")
    assert [line.text for page in found for line in page.lines] == [lines[10]]
    found = backward(log, 5, level="warning")
    texts = [line.text for page in reversed(found) for line in page.lines]
    assert texts == [lines[2000], *lines[2500:2503]]
    # A look is bounded: it says how far it came and that there is more.
    monkeypatch.setattr(logs, "BLOCK", loglines.BLOCK)
    monkeypatch.setattr(logs, "LOOK", 1)
    big = reader(tmp_path, (b"x" * 63 + b"\n") * 8192 + b"needle\n")
    page = big.page(LogQuery(name="w-0001.log", at=0, text="needle"))
    assert page.lines == () and not page.done and page.end == loglines.BLOCK
    assert [line.text for p in forward(big, 5, text="needle") for line in p.lines] == ["needle"]


@pytest.mark.parametrize("level", [None, "warning"])
def test_what_is_written_later_is_found_from_where_one_was(
    tmp_path: Path, level: str | None
) -> None:
    log = reader(tmp_path, b"WARNING: one\nplain\nWARN")
    query = LogQuery.model_validate({"name": "w-0001.log", "backward": True, "level": level})
    first = log.page(query)
    with (tmp_path / "logs" / "w-0001.log").open("ab") as file:
        file.write(b"ING: two\nWARNING: three\n")
    query = LogQuery.model_validate({"name": "w-0001.log", "at": first.end, "level": level})
    more = log.page(query)
    known = [line.text for line in first.lines if line.offset < first.end]
    found = known + [line.text for line in more.lines]
    assert found == ["WARNING: one", *(["plain"] if not level else []), "WARNING: two",
                     "WARNING: three"]  # fmt: skip
    assert more.done and more.end == more.size


def test_to_a_time(tmp_path: Path) -> None:
    stamp = "[2026-11-30 {:02d}:{:02d}:{:02d}] Decode batch, {}"
    rows = [stamp.format(n // 3600, n // 60 % 60, n % 60, "x" * 90) for n in range(0, 80_000, 5)]
    rows[7] = "no stamp here"
    from datetime import UTC, datetime

    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "w-0001.log").write_text("\n".join(rows))
    log = logs.LogReader(RunDir(tmp_path), zone=UTC)
    day = datetime(2026, 11, 30, tzinfo=UTC).timestamp()
    for second in (0, 3, 7000, 41_002, 79_990):
        offset = log.at_time("w-0001.log", day + second)
        page = log.page(LogQuery(name="w-0001.log", at=offset, rows=1))
        assert page.lines[0].at == day + -(-second // 5) * 5
    assert log.at_time("w-0001.log", day + 90_000) == (tmp_path / "logs/w-0001.log").stat().st_size
    (tmp_path / "logs" / "n-0001.log").write_text("nothing\n" * 100)
    assert log.at_time("n-0001.log", day) is None


def test_a_file_of_five_gigabytes_opens_at_once(tmp_path: Path) -> None:
    log = reader(tmp_path, b"first\n")
    path = tmp_path / "logs" / "w-0001.log"
    with path.open("r+b") as file:
        file.truncate(5 << 30)  # a hole of NULs: one line of five gigabytes
        file.seek(0, 2)
        file.write(b"\nlast\n")
    for query in (
        LogQuery(name="w-0001.log", backward=True, rows=50),
        LogQuery(name="w-0001.log", at=3 << 30, rows=50),
        LogQuery(name="w-0001.log", at=3 << 30, backward=True, rows=50),
    ):
        assert len(log.page(query).lines) == 50
    assert log.page(LogQuery(name="w-0001.log", backward=True, rows=1)).lines[0].text == "last"


def test_only_logs_of_the_run_are_read(tmp_path: Path) -> None:
    log = reader(tmp_path, b"x")
    (tmp_path / "secret.log").write_text("secret")
    for name in ("../secret.log", "/etc/passwd", "none.log", ""):
        with pytest.raises(logs.NoSuchLog):
            log.page(LogQuery(name=name))
    assert [file.name for file in log.files()] == ["w-0001.log"]


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("[2026-11-30 16:20:05 TP0] Decode batch. #running-req: 3", None),
        ('INFO:     127.0.0.1:52000 - "GET /error HTTP/1.1" 200 OK', "info"),
        ("[2026-11-30 16:20:05] WARNING server_args.py:1: x", "warning"),
        ("/a/b.py:3: UserWarning: x", "warning"),
        ("torch.OutOfMemoryError: CUDA out of memory.", "error"),
        ("Traceback (most recent call last):", "error"),
        ("DEBUG x", "debug"),
    ],
)
def test_levels(text: str, level: str | None) -> None:
    assert loglines.level_of(text) == level


@given(st.text(max_size=200))
def test_any_text_has_a_level_and_a_time_or_none(text: str) -> None:
    loglines.level_of(text)
    loglines.time_of(text)
    loglines.shown(text.encode("utf-8", "surrogatepass"))
