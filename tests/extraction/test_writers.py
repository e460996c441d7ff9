"""Threads that write beside the computation: every row once, and no end without a word."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from eagle_tui.clock import SystemClock
from eagle_tui.config import load_config
from eagle_tui.pipeline.extraction import target, writer
from eagle_tui.pipeline.extraction.job import writers_for
from eagle_tui.pipeline.extraction.plan import RowRef, finished_shards
from eagle_tui.pipeline.extraction.states import States, nothing
from eagle_tui.pipeline.extraction.writer import AsyncWriter, Bad, HiddenWriter, Numbers, Quarantine
from eagle_tui.pipeline.hidden import open_hidden
from eagle_tui.pipeline.shards import TokenRow
from eagle_tui.pipeline.worker import Refused
from eagle_tui.rundir import jsonl
from eagle_tui.rundir.jsonl import Appender

from .world import make_world

METADATA = {"layers": "1,2,3", "norm": "post", "dtype": "float32"}


def batch(number: int, *, bad: bool = False) -> tuple[list[RowRef], list[TokenRow], States]:
    """Two rows of 3 tokens whose states are all the batch's number."""
    refs = [RowRef(f"{number}-{place}", "a", "train", 0, place, 3, 2) for place in range(2)]
    row = TokenRow(np.full(3, number, np.int32), np.array([0, 1, 1], np.uint8))
    aux, last = torch.full((6, 12), float(number)), torch.full((6, 4), float(number))
    marks = torch.zeros(6, dtype=torch.uint8)
    marks[0] = bad
    return refs, [row, row], States([3, 3], aux, last, None, None, marks, nothing)


def open_writers(directory: Path, appender: Appender, count: int) -> list[HiddenWriter]:
    numbers, quarantine = Numbers(5, 2), Quarantine(appender)
    return [
        HiddenWriter(
            directory,
            METADATA,
            shard_tokens=18,
            numbers=numbers,
            quarantine=quarantine,
            clock=SystemClock(),
            written=lambda _: None,
        )
        for _ in range(count)
    ]


def test_several_threads_store_every_row_once(tmp_path: Path) -> None:
    path = tmp_path / "quarantine-0000.jsonl"
    with Appender(path) as appender:
        told: list[tuple[int, int, list[Bad]]] = []
        behind = AsyncWriter(
            open_writers(tmp_path, appender, 3), SystemClock(), lambda *one: told.append(one)
        )
        for number in range(40):
            behind.put(*batch(number, bad=number % 4 == 0))
        behind.close()
    found: dict[str, float] = {}
    paths = finished_shards(tmp_path)
    for shard in map(open_hidden, paths):
        shard.verify()
        for entry, row in zip(shard.index(), shard.rows(), strict=True):
            assert entry["id"] not in found
            found[entry["id"]] = float(row.last.mean())
            assert int(row.ids[0]) == found[entry["id"]] == float(row.aux.mean())
    away = {row["id"] for row in jsonl.rows(path)}
    assert away == {f"{number}-0" for number in range(0, 40, 4)}
    wanted = {f"{number}-{place}" for number in range(40) for place in range(2)}
    assert set(found) == wanted - away
    assert [sum(column) for column in list(zip(*told, strict=True))[:2]] == [70, 240]
    assert {bad.id for _, _, put_away in told for bad in put_away} == away
    assert {int(p.name[6:11]) for p in paths} == set(range(5, 5 + 2 * len(paths), 2))


def test_a_full_disk_in_one_of_several_threads_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = writer.write_shard, []

    def full(*args: Any) -> int:
        calls.append(1)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        return real(*args)

    monkeypatch.setattr(writer, "write_shard", full)
    with Appender(tmp_path / "quarantine-0000.jsonl") as appender:
        behind = AsyncWriter(open_writers(tmp_path, appender, 3), SystemClock(), lambda *_: None)
        with pytest.raises(OSError, match="No space left"):
            for number in range(60):
                behind.put(*batch(number))
        with pytest.raises(OSError, match="No space left"):
            behind.close()
    for path in finished_shards(tmp_path):
        open_hidden(path).verify()


def test_copies_of_pinned_memory_are_equal_and_their_own() -> None:
    for dtype in (torch.bfloat16, torch.float8_e4m3fn, torch.uint8):
        tensor = torch.arange(12).view(3, 4).to(dtype)
        copied = writer.plain_copy(tensor)
        assert copied.dtype == dtype and copied.shape == tensor.shape
        assert torch.equal(copied.view(torch.uint8), tensor.view(torch.uint8))
        assert copied.data_ptr() != tensor.data_ptr()


def test_how_many_threads_write() -> None:
    cpu, gpu = torch.device("cpu"), torch.device("cuda", 0)
    assert writers_for(cpu, 64) == 1
    assert [writers_for(gpu, cores) for cores in (1, 4, 16, 64)] == [1, 2, 8, 8]


def test_a_target_larger_than_a_gpu_is_refused_where_it_cannot_be_spread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make_world(tmp_path / "run", 3)
    config = load_config(world.run.config)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (1000, 1000))
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(Refused, match="pip install accelerate"):
        target.load_target(config, world.run, torch.device("cuda", 0))
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "2")
    with pytest.raises(Refused, match="nproc to 1"):
        target.load_target(config, world.run, torch.device("cuda", 0))
