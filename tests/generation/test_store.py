"""What is on disk: rows, dead letters, journal, prompts, the writer, and their repair."""

from __future__ import annotations

import asyncio
import errno
import json
import os
from array import array
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagle_tui.pipeline.generation import writer as writer_module
from eagle_tui.pipeline.generation.partials import load, partial_row
from eagle_tui.pipeline.generation.prompts import PromptFile
from eagle_tui.pipeline.generation.responses import (
    Scan,
    dead_row,
    encode,
    given_up,
    read_head,
    response_row,
    scan,
)
from eagle_tui.pipeline.generation.writer import Writer
from eagle_tui.pipeline.worker import Failed, Refused
from eagle_tui.rundir import jsonl

from .fake_server import FakeServer
from .test_pause import mode, until
from .world import make_world


def row(id: str = "a", **changes: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "id": id, "dataset": "b1", "state": "complete", "finish_reason": "stop",
        "prompt_tokens": 3, "completion_tokens": 2, "reasoning_tokens": 1, "endpoint": "s",
        "attempt": 1, "pieces": 1, "at": 1.5, "flag": "", "prompt_ids": [1, 2, 3],
        "output_ids": [4, 2], "reasoning": "r", "content": "c", "conversation": [],
    }  # fmt: skip
    return response_row(**{**fields, **changes})


texts = st.text(st.characters(exclude_categories=()), max_size=30)


@given(texts, texts, st.sampled_from(["complete", "truncated", "loop", "no_answer"]))
def test_head_is_found_without_parsing_and_agrees_with_it(a: str, b: str, state: str) -> None:
    line = encode(row(reasoning=a, content=b, state=state, conversation=[{"x": a}]))
    assert line.count(b"\n") == 1 and line.decode()  # one line, valid UTF-8
    head = read_head(line[:-1])
    assert head is not None and (head.id, head.state) == ("a", state)
    # The same row as another program would write it: found by parsing.
    parsed = json.loads(line)
    foreign = json.dumps(dict(sorted(parsed.items()))).encode()
    assert read_head(foreign) == head


@pytest.mark.parametrize(
    "line",
    [
        b"", b"null", b"[]", b'{"id":"a"}', b'{"id":"a","usage":{}}', b"\xff\xfe",
        encode(row())[:-2], encode(row())[:-1].replace(b'"c"', b'"\0"'),
    ],
)  # fmt: skip
def test_a_broken_line_has_no_head(line: bytes) -> None:
    assert read_head(line) is None


@settings(max_examples=120, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["good", "again", "junk", "nuls"]),
            st.integers(0, 5),
            st.binary(max_size=9),
        ),
        max_size=12,
    ),
    st.binary(max_size=40).map(lambda b: b.replace(b"\n", b"")),
)
def test_scan_keeps_each_good_row_once_and_leaves_a_clean_file(
    tmp_path_factory: pytest.TempPathFactory,
    parts: list[tuple[str, int, bytes]],
    tail: bytes,
) -> None:
    path = tmp_path_factory.mktemp("s") / "b1.jsonl"
    data, good = b"", set()
    for number, (kind, which, junk) in enumerate(parts):
        if kind == "good":
            data += encode(row(f"n{number}"))
            good.add(f"n{number}")
        elif kind == "again":
            data += encode(row(f"r{which}"))
            good.add(f"r{which}")
        elif kind == "junk":
            data += junk.replace(b"\n", b"") + b"\n"
        else:
            data += b"\0" * (which + 1) + b"\n"
    path.write_bytes(data + tail)
    found = [head.id for head in scan(path, Scan())]
    assert len(found) == len(set(found)) and set(found) == good
    left = [r["id"] for r in jsonl.rows(path)]
    assert sorted(left) == sorted(good)
    seen = Scan()
    assert [head.id for head in scan(path, seen)] == left
    assert (seen.repair, seen.broken, seen.doubled) == (None, 0, 0)


def test_last_dead_letter_decides(tmp_path: Path) -> None:
    path = tmp_path / "b1.dead.jsonl"

    def letter(id: str, *, final: bool) -> bytes:
        return encode(
            dead_row(
                id=id, dataset="b1", state="failed", final=final, reason="r", endpoint="s",
                attempt=1, at=1.0, prompt_tokens=3,
            )
        )  # fmt: skip

    path.write_bytes(
        letter("a", final=True) + letter("b", final=False) + b"junk\n" + letter("c", final=True)
        + letter("c", final=False) + letter("d", final=False) + letter("d", final=True) + b'{"id'
    )  # fmt: skip
    assert given_up(path) == {"a": "failed", "d": "failed"}
    assert given_up(tmp_path / "missing.jsonl") == {}


def test_journal_gives_the_last_tokens_of_those_that_wait(tmp_path: Path) -> None:
    path = tmp_path / "b1.partial.jsonl"

    def part(id: str, ids: list[int], made: str = "m") -> bytes:
        return partial_row(id, array("I", ids), 1, made)

    path.write_bytes(
        part("a", [1]) + part("a", [1, 2]) + part("b", [3]) + part("c", [4]) + part("c", [])
        + part("d", [5], "other") + b"junk\n" + part("e", [6]) + b'{"id":"e","pieces":1,"made'
    )  # fmt: skip
    found = {p.id: list(p.output_ids) for p in load(path, "m", {"a", "c", "d", "e"})}
    assert found == {"a": [1, 2], "e": [6]}
    assert [r["id"] for r in jsonl.rows(path)] == ["a", "e"], "what counts no more is gone"
    before = path.stat().st_mtime_ns
    load(path, "m", {"a", "c", "d", "e"})
    assert path.stat().st_mtime_ns == before, "nothing to rewrite"


def test_prompts_are_read_by_offset(tmp_path: Path) -> None:
    path = tmp_path / "b1.jsonl"
    rows = [
        {"id": f"p{n}", "dataset": "b1", "prompt_ids": list(range(n + 1)), "opened": n == 1}
        for n in range(3)
    ]
    other_order = json.dumps({"prompt_ids": [9], "id": 'p\u00e9"3'}).encode()
    path.write_bytes(
        b"\n" + jsonl.encode(rows[0]) + b"\n\n" + jsonl.encode(rows[1]) + jsonl.encode(rows[2])
        + other_order + b"\n"
    )  # fmt: skip
    prompts = PromptFile(path)
    assert len(prompts) == 4 and prompts.ids == ["p0", "p1", "p2", 'pé"3']
    assert [prompts.read(n).prompt_ids for n in range(4)] == [[0], [0, 1], [0, 1, 2], [9]]
    assert [prompts.read(n).opened for n in range(4)] == [False, True, False, False]
    prompts.close()


def test_a_broken_prompts_file_says_where(tmp_path: Path) -> None:
    path = tmp_path / "b1.jsonl"
    path.write_bytes(jsonl.encode({"id": "a"}) + b"{]\n")
    with pytest.raises(ValueError, match=r"b1.jsonl: byte 11: .*run prepare again"):
        PromptFile(path)


async def test_missing_prompts_are_refused(tmp_path: Path) -> None:
    world = make_world(tmp_path / "run")
    world.run.prompts("b1").unlink()
    with pytest.raises(Refused, match="run prepare first"):
        await world.generate()


async def test_writer_forces_to_disk_within_the_interval(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    real = os.fdatasync
    monkeypatch.setattr(os, "fdatasync", lambda fd: (synced.append(fd), real(fd))[1])
    writer = Writer(0.15, lambda: None)
    task = asyncio.create_task(writer.run())
    path = tmp_path / "x.jsonl"
    done: list[int] = []
    for number in range(50):
        writer.put(path, b"%d\n" % number, lambda n=number: done.append(n))
    await asyncio.sleep(0.05)
    assert done == list(range(50)) and path.read_bytes().count(b"\n") == 50
    assert not synced and writer.unsaved
    await asyncio.sleep(0.2)
    assert len(synced) == 1 and not writer.unsaved
    writer.put(path, b"x\n")
    assert await writer.flush(1.0) and len(synced) == 2
    task.cancel()
    writer.close()


async def test_failed_force_to_disk_stops_the_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(fd: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fdatasync", broken)
    writer = Writer(0.01, lambda: None)
    task = asyncio.create_task(writer.run())
    writer.put(tmp_path / "x.jsonl", b"1\n")
    with pytest.raises(Failed, match="could not be forced to disk"):
        await asyncio.wait_for(task, 2)


class Disk:
    """A disk that takes `room` more bytes of responses."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.room: int | None = None
        self._real = os.pwrite
        monkeypatch.setattr(os, "pwrite", self.pwrite)

    def pwrite(self, fd: int, data: Any, offset: int) -> int:
        where = Path(f"/proc/self/fd/{fd}").readlink()
        if self.room is None or where.parent.name != "responses":
            return self._real(fd, data, offset)
        if self.room == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        part = bytes(data)[: self.room]
        self.room -= len(part)
        return self._real(fd, part, offset)


async def test_full_disk_pauses_with_the_reason_and_goes_on_by_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer_module, "RETRY_S", 0.2)
    disk = Disk(monkeypatch)
    world = make_world(tmp_path / "run", {"b1": 60})
    async with FakeServer(token_s=0.001) as server:
        world.endpoint(server.url)
        disk.room = 3000
        run = world.start()
        await until(lambda: mode(world) == "paused")
        flow = world.events("flow")[-1]
        assert "no space is left on the disk" in flow["reason"] and "bytes free" in flow["reason"]
        data = world.run.responses("b1").read_bytes()
        assert data.endswith(b"\n") and len(data) <= 3000, "cut back to the last whole row"
        await until(lambda: not server.live)
        sent = len(server.rids)
        await asyncio.sleep(0.5)
        assert len(server.rids) == sent, "nothing is sent to a full disk"
        disk.room = None
        await run
    assert world.check() == {"complete": 60, "dead": 0}
    assert max(server.asked.values()) == 1, "what waited for the disk was not generated again"


async def test_stop_on_a_full_disk_says_what_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from eagle_tui.pipeline.worker import Stopped

    disk = Disk(monkeypatch)
    world = make_world(tmp_path / "run", {"b1": 30})
    async with FakeServer(token_s=0.001) as server:
        world.endpoint(server.url)
        disk.room = 3000
        worker = world.worker()
        run = world.start(worker)
        await until(lambda: mode(world) == "paused")
        worker.stop.set()
        with pytest.raises(Stopped):
            await run
        assert any("generated again" in e["text"] for e in world.events("note"))
        disk.room = None
        await world.generate()
    assert world.check() == {"complete": 30, "dead": 0}


async def test_resume_generates_exactly_what_is_missing(tmp_path: Path) -> None:
    """Three prompts, the third and the first were stored, in that order."""
    world = make_world(tmp_path / "run", {"b1": 3})
    async with FakeServer() as server:
        world.endpoint(server.url)
        await world.generate()
        path = world.run.responses("b1")
        rows = {r["id"]: jsonl.encode(r) for r in jsonl.rows(path)}
        path.write_bytes(rows["b1-00000002"] + rows["b1-00000000"] + rows["b1-00000001"][:25])
        server.asked.clear()
        await world.generate()
        assert list(server.asked) == [tuple(world.prompts["b1"]["b1-00000001"])]
    assert world.check() == {"complete": 3, "dead": 0}
    assert path.with_name("b1.jsonl.torn").read_bytes().startswith(b'{"id":"b1-00000001"')
    event = world.events("dataset")[0]
    assert event["states"] == {"complete": 2} and event["prompts"] == 3
    assert sum(event["lengths"].values()) == 2 and event["tokens"] > 0
    assert any("torn" in e["text"] for e in world.events("note"))


def test_what_a_killed_rewrite_left_is_gone_before_the_next_needs_the_room(tmp_path: Path) -> None:
    """What fills the disk is often what had it killed."""
    path = tmp_path / "b1.jsonl"
    path.write_bytes(b"broken\n" + encode(row("a")))
    other = tmp_path / ".b1.jsonl.more.jsonl.abc_1234.tmp"
    for left in (other, tmp_path / ".b1.jsonl.abc_1234.tmp", tmp_path / ".b1.jsonl.xyz_1234.tmp"):
        left.write_bytes(b"half")
    assert [head.id for head in scan(path, Scan())] == ["a"]
    assert list(tmp_path.glob(".*.tmp")) == [other], "of dataset b1.jsonl.more"


async def test_what_a_killed_worker_left_half_written_is_removed(tmp_path: Path) -> None:
    world = make_world(tmp_path / "run", {"b1": 1})
    responses = world.run.responses("b1").parent
    responses.mkdir()
    for name in ("b1.jsonl", "b1.dead.jsonl", "b1.partial.jsonl"):
        (responses / f".{name}.abc_1234.tmp").write_bytes(b"half")
    async with FakeServer() as server:
        world.endpoint(server.url)
        await world.generate()
    assert not list(responses.glob(".*"))


async def test_foreign_rows_are_kept_and_not_counted(tmp_path: Path) -> None:
    world = make_world(tmp_path / "run", {"b1": 3})
    world.run.responses("b1").parent.mkdir()
    world.run.responses("b1").write_bytes(encode(row("gone")))
    async with FakeServer() as server:
        world.endpoint(server.url)
        await world.generate()
    assert {r["id"] for r in world.rows()} == {"gone", *world.prompts["b1"]}
    assert world.counts()["b1"]["states"] == {"complete": 3}
