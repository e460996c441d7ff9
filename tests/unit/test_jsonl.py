"""Append-only JSONL: whatever a crash leaves, every whole row stays and nothing is glued."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagle_tui.rundir import atomic, jsonl
from eagle_tui.rundir.jsonl import Appender, LockedError, Tail, repair

rows = st.lists(
    st.dictionaries(
        st.text(max_size=5), st.one_of(st.integers(), st.text(), st.none()), max_size=3
    ),
    max_size=8,
)


@settings(max_examples=150, deadline=None)
@given(rows=rows, cut=st.integers(0, 400), nuls=st.integers(0, 9))
def test_any_torn_tail_is_cut_and_the_next_row_is_intact(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, object]], cut: int, nuls: int
) -> None:
    path = tmp_path_factory.mktemp("j") / "a.jsonl"
    whole = [jsonl.encode(row) for row in rows]
    data = b"".join(whole)
    path.write_bytes(data[: max(0, len(data) - cut)] + b"\0" * nuls)
    with Appender(path) as out:
        out.append({"new": 1})
    read = list(jsonl.rows(path))
    kept, size = 0, max(0, len(data) - cut)
    for line in whole:
        if size < len(line):
            break
        size -= len(line)
        kept += 1
    assert read == [json.loads(line) for line in whole[:kept]] + [{"new": 1}]


def test_torn_tail_goes_to_quarantine(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"id":"a"}\n{"id":"a","te')
    found = repair(path)
    assert found is not None and found.cut == 13
    assert path.read_bytes() == b'{"id":"a"}\n'
    assert (tmp_path / "a.jsonl.torn").read_bytes() == b'{"id":"a","te\n'
    assert repair(path) is None
    assert repair(tmp_path / "missing") is None


def test_a_run_of_nuls_with_a_newline_behind_it_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"id":1}\n' + b"\0" * 4096 + b"\n")
    repair(path)
    assert path.read_bytes() == b'{"id":1}\n'


def test_second_writer_is_refused(tmp_path: Path) -> None:
    with Appender(tmp_path / "a"), pytest.raises(LockedError, match="another process"):
        Appender(tmp_path / "a")


def test_a_short_write_is_cut_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    out = Appender(path)
    out.append({"id": 1})
    real = os.pwrite
    calls = iter([lambda fd, v, o: real(fd, v[:10], o)])

    def full(fd: int, view: memoryview, offset: int) -> int:
        if (first := next(calls, None)) is not None:
            return int(first(fd, view, offset))
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(OSError, match="No space"):
        out.append({"id": 2, "text": "x" * 40})
    assert path.read_bytes() == b'{"id":1}\n'
    monkeypatch.setattr(os, "pwrite", real)
    out.append({"id": 2})
    out.close()
    assert list(jsonl.rows(path)) == [{"id": 1}, {"id": 2}]


def test_only_newline_bytes_split_lines(tmp_path: Path) -> None:
    path = tmp_path / "a"
    texts = ["a\u2028b", "c\x85d", "e\rf", "\ud83d lone"]
    with Appender(path) as out:
        for text in texts:
            out.append({"t": text})
    assert [r["t"] for r in jsonl.rows(path)] == [*texts[:3], "\ufffd lone"]


def test_lines_longer_than_the_buffer(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"x" * 1000 + b"\n" + b"y\n" + b"torn")
    assert [(o, len(b)) for o, b in jsonl.lines(path, buffer=7)] == [(0, 1000), (1001, 1)]


def test_tail_reads_a_half_written_line_later(tmp_path: Path) -> None:
    path = tmp_path / "a"
    tail = Tail(path)
    assert tail.read() == []
    path.write_bytes(b'{"a":1}\n{"a":')
    assert tail.read() == [{"a": 1}]
    with path.open("ab") as file:
        file.write(b"2}\n")
    assert tail.read() == [{"a": 2}]


def test_nan_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        jsonl.encode({"a": float("nan")})


def test_atomic_write_keeps_the_old_file_on_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.json"
    atomic.write_json(path, {"a": 1})

    def fail(fd: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space") as caught:
        atomic.write_json(path, {"a": 2})
    assert caught.value.filename == str(path)
    assert atomic.read_json(path) == {"a": 1}
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


def test_read_json_names_the_broken_file(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    assert atomic.read_json(path) is None
    path.write_text("{")
    with pytest.raises(ValueError, match=r"a\.json: not valid JSON"):
        atomic.read_json(path)
