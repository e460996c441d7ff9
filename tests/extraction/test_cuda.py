"""On a GPU: the same states as on the CPU, read only after they have come."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM

from eagle_tui.pipeline.extraction.target import Capture
from eagle_tui.pipeline.hidden import HiddenRow
from eagle_tui.pipeline.shards import TokenRow
from eagle_tui.pipeline.training.data import Table
from eagle_tui.pipeline.training.sources import Entry
from eagle_tui.pipeline.training.teacher import LiveTarget

from .test_extract import stored, worst
from .world import make_rows, make_target, make_world

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def test_states_come_to_pinned_memory_and_are_those_of_the_cpu(tmp_path: Path) -> None:
    place = make_target(tmp_path / "model")
    model = AutoModelForCausalLM.from_pretrained(place, dtype=torch.float32).eval()
    rows = list(make_rows(64, seed=1).values())
    wanted = [Capture(model, (2, 4, 5), "float32").states(rows[i : i + 16]) for i in (0, 16, 32)]
    capture = Capture(model.cuda(), (2, 4, 5), "float32")
    found = [capture.states(rows[i : i + 16]) for i in (0, 16, 32)]
    for one, other in zip(found, wanted, strict=True):
        one.ready()
        assert one.aux.is_pinned() and one.last.is_pinned() and one.lengths == other.lengths
        assert worst(one.aux, other.aux) < 1e-3 and worst(one.last, other.last) < 1e-3
        assert not one.bad.any()


def waits(work: Callable[[], object]) -> int:
    """How often a piece of work makes this thread wait for the GPU."""
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            work()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return sum("synchronizing" in str(one.message) for one in told)


@pytest.mark.parametrize("dtype", ["bfloat16", "float8"])
def test_capturing_waits_no_oftener_than_the_bare_forward(tmp_path: Path, dtype: str) -> None:
    """Else the GPU idles between two batches. (transformers itself looks at the positions.)"""
    model = AutoModelForCausalLM.from_pretrained(make_target(tmp_path / "model"), dtype="auto")
    model = model.eval().cuda()
    rows = list(make_rows(16, seed=1).values())
    capture = Capture(model, (2, 4, 5), dtype)
    capture.states(rows).ready()  # kernels, streams and pinned memory are there from now on
    ids = torch.zeros((16, max(len(row.ids) for row in rows)), dtype=torch.int64, device="cuda")
    with torch.inference_mode():
        bare = waits(lambda: model.base_model(input_ids=ids, use_cache=False))
    assert waits(lambda: capture.states(rows)) <= bare


def test_what_is_stored_from_a_gpu_is_what_is_stored_from_a_cpu(tmp_path: Path) -> None:
    small = {"batch_tokens": 300, "shard_tokens": 400, "dtype": "float32"}
    there = make_world(tmp_path / "cuda", 200, device="cuda", **small)
    here = make_world(tmp_path / "cpu", 200, device="cpu", **small)
    assert there.extract() == 0, there.end()
    assert not torch.backends.cuda.cudnn_sdp_enabled()
    assert here.extract() == 0, here.end()
    found, wanted = stored(there), stored(here)
    assert set(found) == set(wanted)
    for name, row in wanted.items():
        assert worst(found[name].aux, row.aux) < 1e-3, name
        assert worst(found[name].last, row.last) < 1e-3, name


def test_the_target_beside_the_training_gives_whole_states(tmp_path: Path) -> None:
    """On a stream of its own; they are there when they are handed over."""
    place = make_target(tmp_path / "model", hidden=256)
    model = AutoModelForCausalLM.from_pretrained(place, dtype=torch.float32).eval()
    rows = list(make_rows(32, seed=1).values())
    here = LiveTarget(model, (2, 4, 5), "float32", 300)
    with here.making():
        wanted = here.states(rows)
    there = LiveTarget(model.cuda(), (2, 4, 5), "float32", 300)
    for _ in range(20):
        with there.making():
            found = there.states(rows)
        for one, other in zip(found, wanted, strict=True):
            assert isinstance(one, HiddenRow) and isinstance(other, HiddenRow)
            assert one.aux.is_cuda and worst(one.aux.cpu(), other.aux) < 1e-3


class Live:
    """Rows to whose states the target is asked when a batch is made."""

    parallel = False

    def __init__(self, teacher: LiveTarget, rows: dict[str, TokenRow]) -> None:
        self._teacher, self._rows = teacher, list(rows.items())
        self.hidden_size, self.dtype = teacher.hidden_size, teacher.dtype
        self.making = teacher.making

    def entries(self) -> Iterator[Entry]:
        return (Entry(name, "a", "here") for name, _ in self._rows)

    def tokens(self, place: int) -> tuple[Tensor, Tensor]:
        row = self._rows[place][1]
        return torch.from_numpy(row.ids), torch.from_numpy(row.mask)

    def states(self, places: Sequence[int], limit: int) -> list[HiddenRow | None]:
        found = self._teacher.states([self._rows[place][1] for place in places])
        return [row if isinstance(row, HiddenRow) else None for row in found]


def test_a_batch_of_many_rows_waits_for_the_gpu_no_oftener_than_one_of_few(tmp_path: Path) -> None:
    """Who waits gets the interpreter back only when the thread that trains lets it go."""
    place = make_target(tmp_path / "model", hidden=256)
    model = AutoModelForCausalLM.from_pretrained(place, dtype=torch.float32).eval()
    rows = make_rows(64, seed=1)
    here = Table(Live(LiveTarget(model, (2, 4, 5), "float32", 1 << 20), rows), 4096, 3)
    wanted = here.batch(list(range(len(here))))
    there = Table(Live(LiveTarget(model.cuda(), (2, 4, 5), "float32", 1 << 20), rows), 4096, 3)
    many = list(range(len(there)))
    found = there.batch(many, pin=True)
    assert found.supervised == wanted.supervised and torch.equal(found.anchors, wanted.anchors)
    assert worst(found.last.cpu(), wanted.last) < 1e-3
    assert worst(found.rows.aux.cpu(), wanted.rows.aux) < 1e-3
    assert len(many) > 32
    few = waits(lambda: there.batch(many[:4], pin=True))
    assert waits(lambda: there.batch(many, pin=True)) <= few
