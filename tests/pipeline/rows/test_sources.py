"""Reading rows out of files: lines, arrays, objects, Parquet, directories."""

from __future__ import annotations

import gzip
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle_tui.config.model import DatasetSection
from eagle_tui.pipeline import json_stream
from eagle_tui.pipeline.sources import RawRow, open_source
from eagle_tui.pipeline.worker import Failed, Refused
from eagle_tui.rundir.manifest import file_fingerprint, source_path
from eagle_tui.rundir.paths import RunDir


def read(root: Path, source: str, **options: Any) -> list[RawRow]:
    return list(_open(root, source, **options).rows())


def _open(root: Path, source: str, **options: Any) -> Any:
    return open_source(RunDir.at(root), DatasetSection(name="d", source=source, **options))


def test_lines_split_at_newline_only_bom_and_cr_stripped(tmp_path: Path) -> None:
    first = '{"a":"x\u2028y\x85z"}'.encode()
    data = b"\xef\xbb\xbf" + first + b'\r\n\xef\xbb\xbf{"a":1}\r\n\n{"a":2}'
    (tmp_path / "a.jsonl").write_bytes(data)
    source = _open(tmp_path, "a.jsonl")
    rows = list(source.rows())
    assert [r.value for r in rows] == [{"a": "x\u2028y\x85z"}, {"a": 1}, {"a": 2}]
    assert [r.number for r in rows] == [1, 2, 3]
    assert data[rows[2].offset :] == b'{"a":2}'


def test_bad_lines_are_told_and_the_rest_goes_on(tmp_path: Path) -> None:
    deep = b"[" * 100_000
    (tmp_path / "a.jsonl").write_bytes(b'{"a":1}\n{"a":\n\xff\xfe\n' + deep + b'\n{"a":NaN}\n')
    rows = read(tmp_path, "a.jsonl")
    assert [bool(r.problem) for r in rows] == [False, True, True, True, False]
    assert rows[3].problem == "nested too deeply"
    assert rows[4].value == {"a": None}
    assert rows[1].excerpt() == '{"a":'


@pytest.mark.parametrize("indent", [None, 2])
def test_array(tmp_path: Path, indent: int | None) -> None:
    body = [{"a": 'quote " bracket ] brace } comma , \\'}, {"b": [1, [2, {}]]}, [], "s", 5]
    (tmp_path / "a.json").write_text(json.dumps(body, indent=indent))
    assert [r.value for r in read(tmp_path, "a.json")] == body


def test_array_over_chunks_and_its_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_stream, "CHUNK", 7)
    body = [{"text": "a,b]" * n, "n": n} for n in range(20)]
    data = json.dumps(body).encode()
    found = list(json_stream.read_array(io.BytesIO(b" \n" + data + b"\n ")))
    assert [json.loads(element) for _, element in found] == body
    assert all((b" \n" + data)[at:].lstrip().startswith(element) for at, element in found)
    with pytest.raises(json_stream.BrokenFileError, match="has no end"):
        list(json_stream.read_array(io.BytesIO(data[:-30])))
    with pytest.raises(json_stream.BrokenFileError, match="something follows"):
        list(json_stream.read_array(io.BytesIO(data + b"[1]")))


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(body=st.lists(_JSON), chunk=st.integers(1, 40), ascii_only=st.booleans())
def test_array_is_what_json_says(body: list[Any], chunk: int, ascii_only: bool) -> None:
    data = json.dumps(body, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_stream, "CHUNK", chunk)
        found = [element for _, element in json_stream.read_array(io.BytesIO(data))]
    assert [json.loads(element) for element in found] == body


def test_a_long_string_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many chunks it takes, and also where a chunk ends within an escape."""
    looked = 0

    class Counting:
        def match(self, window: bytearray, at: int) -> re.Match[bytes] | None:
            nonlocal looked
            found = part.match(window, at)
            assert found is not None
            looked += found.end() - at
            return found

    part = json_stream._STRING_PART
    monkeypatch.setattr(json_stream, "_STRING_PART", Counting())
    monkeypatch.setattr(json_stream, "CHUNK", 101)
    for text in ("a" * 20_000, '\\"' * 10_000):
        looked = 0
        data = json.dumps([text, 1]).encode()
        found = [element for _, element in json_stream.read_array(io.BytesIO(data))]
        assert [json.loads(element) for element in found] == [text, 1]
        assert looked <= len(data)


@given(data=st.binary(max_size=60), chunk=st.integers(1, 9))
def test_lines_are_the_same_in_any_chunks(data: bytes, chunk: int) -> None:
    data = data.replace(b"a", b"\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_stream, "CHUNK", chunk)
        found = [line for _, line in json_stream.read_lines(io.BytesIO(data))]
    assert found == [
        json_stream._clean(line) for line in data.removesuffix(b"\n").split(b"\n") if data
    ]


def test_broken_element_of_an_array_is_one_row(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('[{"a":1}, {"a":oops}, {"a":2}]')
    rows = read(tmp_path, "a.json")
    assert [r.value for r in rows] == [{"a": 1}, None, {"a": 2}]
    assert rows[1].problem


def test_array_that_breaks_off_fails_with_the_place(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('[{"a":1}, {"a":')
    with pytest.raises(Failed, match="after row 1"):
        read(tmp_path, "a.json")


def test_memory_stays_with_the_rows_not_the_file(tmp_path: Path) -> None:
    import tracemalloc

    row = json.dumps({"text": "x" * 10_000})
    (tmp_path / "a.json").write_text("[" + ",".join([row] * 3000) + "]")
    source = _open(tmp_path, "a.json")
    tracemalloc.start()
    count = sum(1 for _ in source.rows())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 3000
    assert peak < 8 << 20  # of a file of 30 MB


def test_json_suffix_with_lines_and_jsonl_suffix_with_array(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"a":1}\n{"a":2}\n')
    (tmp_path / "b.jsonl").write_text('[\n{"a":1},\n{"a":2}\n]\n')
    assert [r.value for r in read(tmp_path, "a.json")] == [{"a": 1}, {"a": 2}]
    assert [r.value for r in read(tmp_path, "b.jsonl")] == [{"a": 1}, {"a": 2}]


def test_rows_that_are_lists(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('[{"role":"user"}]\n[{"role":"user"}]\n')
    assert [r.value for r in read(tmp_path, "a.jsonl")] == [[{"role": "user"}]] * 2


@pytest.mark.parametrize("indent", [None, 2])
def test_one_object_is_a_row_or_holds_rows(tmp_path: Path, indent: int | None) -> None:
    (tmp_path / "a.traj").write_text(json.dumps({"history": [{"role": "user"}]}, indent=indent))
    (tmp_path / "b.json").write_text(json.dumps({"v": 1, "data": [{"a": 1}, {"a": 2}]}))
    assert [r.value for r in read(tmp_path, "a.traj")] == [{"history": [{"role": "user"}]}]
    assert [r.value for r in read(tmp_path, "b.json")] == [{"a": 1}, {"a": 2}]
    (tmp_path / "t").mkdir()
    for name in "yx":
        (tmp_path / "t" / f"{name}.traj").write_text(json.dumps({"n": name}, indent=indent))
    assert [(r.number, r.value["n"]) for r in read(tmp_path, "t")] == [(1, "x"), (2, "y")]


def test_gzip(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(b'{"a":1}\n', mtime=0))
    assert [r.value for r in read(tmp_path, "a.jsonl.gz")] == [{"a": 1}]


def test_parquet(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    rows = [{"messages": [{"role": "user", "content": str(n)}]} for n in range(600)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    source = _open(tmp_path, "a.parquet")
    assert source.total == 600
    assert [r.value for r in source.rows()] == rows
    (tmp_path / "b.parquet").write_bytes(b"not parquet")
    with pytest.raises(Refused, match="no Parquet file"):
        _open(tmp_path, "b.parquet")


def test_directory_of_a_hub_dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    place = tmp_path / "hub"
    place.mkdir()
    (place / "train.jsonl").write_text('{"prompt":"one"}\n{"prompt":"two"}\n')
    (place / "test.jsonl").write_text('{"prompt":"three"}\n')
    assert [r.value["prompt"] for r in read(tmp_path, "./hub")] == ["one", "two"]
    assert [r.value["prompt"] for r in read(tmp_path, "./hub", split="test")] == ["three"]
    with pytest.raises(Failed, match=r"cannot be opened.*Check the id"):
        _open(tmp_path, "./hub", split="gone")


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("gone.jsonl", None, "there is no file"),
        ("a.jsonl", b"", "is empty"),
        ("a.jsonl", b"\xff\xfe{\x00", "UTF-16"),
    ],
)
def test_what_cannot_be_read_is_refused(
    tmp_path: Path, name: str, data: bytes | None, said: str
) -> None:
    if data is not None:
        (tmp_path / name).write_bytes(data)
    with pytest.raises(Refused, match=said):
        _open(tmp_path, name)


def test_gzip_is_seen_from_the_content_and_its_damage_is_told(tmp_path: Path) -> None:
    rows = b"".join(b'{"a":%d}\n' % n for n in range(9))
    packed = gzip.compress(rows, mtime=0)
    (tmp_path / "named-plain.jsonl").write_bytes(packed)
    (tmp_path / "plain.jsonl.gz").write_bytes(rows)
    for name in ("named-plain.jsonl", "plain.jsonl.gz"):
        assert [r.value for r in read(tmp_path, name)] == [{"a": n} for n in range(9)]
    bad_block = packed[:10] + b"\xff" * 12 + packed[22:]
    for name, data in (("cut", packed[:-9]), ("bits", bad_block), ("sum", packed[:-8] + b"x" * 8)):
        (tmp_path / f"{name}.jsonl.gz").write_bytes(data)
        with pytest.raises((Refused, Failed), match=rf"{name}\.jsonl\.gz.* cannot be read"):
            read(tmp_path, f"{name}.jsonl.gz")


@pytest.mark.parametrize(
    ("data", "what"),
    [
        (b"\x28\xb5\x2f\xfd0123", "zstd"),
        (b"PK\x03\x040123", "ZIP"),
        ('{"a":1}'.encode("utf-16"), "UTF-16"),
        (gzip.compress('{"a":1}'.encode("utf-16"), mtime=0), "UTF-16"),
    ],
)
def test_files_that_are_something_else_are_named(tmp_path: Path, data: bytes, what: str) -> None:
    (tmp_path / "a.jsonl").write_bytes(data)
    with pytest.raises(Refused, match=what):
        _open(tmp_path, "a.jsonl")


@pytest.mark.parametrize(
    "source",
    [
        "no.jsonl.gz",
        "Data/NO.JSONL",
        "file/x.jsonl",
        "loop.jsonl",
        "x" * 300 + ".json",
        "~nobody/x",
    ],
)
def test_a_source_that_cannot_be_there_is_no_hub_id(tmp_path: Path, source: str) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "loop.jsonl").symlink_to("loop.jsonl")
    with pytest.raises(Refused, match="there is no file"):
        _open(tmp_path, source)
    dataset = DatasetSection(name="d", source=source)
    path = source_path(RunDir.at(tmp_path), dataset)
    assert path is not None
    assert file_fingerprint(path) in ("missing", "unreadable")


def test_a_broken_first_line_is_one_row_and_not_the_whole_file(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'{"messages": [\n{"a":1}\n{"a":2}\n')
    rows = read(tmp_path, "a.jsonl")
    assert [bool(r.problem) for r in rows] == [True, False, False]
    (tmp_path / "b.json").write_bytes(b'{"data": [\n{"a":1}\n]}\n')
    assert [r.value for r in read(tmp_path, "b.json")] == [{"a": 1}]


@pytest.mark.parametrize("gap", ["\n", "\n\n", "\r\n \n"])
@pytest.mark.parametrize("count", [1, 2])
def test_lists_of_turns_by_lines(tmp_path: Path, gap: str, count: int) -> None:
    turns = [{"role": "user", "content": "x"}]
    (tmp_path / "a.jsonl").write_text(gap.join([json.dumps(turns)] * count) + gap)
    assert [r.value for r in read(tmp_path, "a.jsonl")] == [turns] * count


def test_half_a_trajectory_costs_no_other(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "1.traj").write_text('{"history": [{"role": "us')
    (tmp_path / "t" / "2.traj").write_text('{"n": 2}')
    (tmp_path / "t" / "3.traj").write_text("")
    found = read(tmp_path, "t")
    assert [row.value for row in found] == [None, {"n": 2}, None]
    assert "1.traj: not valid JSON" in found[0].problem and found[2].problem


def test_a_trajectory_that_is_no_object_is_a_row(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "1.traj").write_text("[1]")
    assert [r.value for r in read(tmp_path, "t")] == [[1]]
