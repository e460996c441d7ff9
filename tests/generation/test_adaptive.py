"""What an endpoint may have in flight: the rules, a simulated server, and a run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from eagle_tui.pipeline.generation import pool
from eagle_tui.pipeline.generation.adaptive import REST_S, Governor, Load
from eagle_tui.pipeline.generation.client import load_of, metrics_load

from .fake_server import FakeServer
from .test_pause import until
from .world import make_world


def test_a_refusal_lowers_and_answers_raise_without_readings() -> None:
    governor = Governor(adaptive=False)
    governor.refused(100, 0.0)
    assert governor.limit == pytest.approx(70)
    governor.answered(70, 1.0)
    assert governor.limit == pytest.approx(70), "what is in flight has to leave first"
    governor.refused(70, REST_S)
    assert governor.limit == pytest.approx(49)
    for _ in range(49):
        governor.answered(49, 2 * REST_S)
    assert governor.limit == pytest.approx(49 * 1.1), "a tenth a round"
    for _ in range(200):
        governor.answered(1, 2 * REST_S)  # far from the limit, which is dropped
    assert governor.limit is None and not governor.full(10_000)


@pytest.mark.parametrize("adaptive", [False, True])
def test_a_burst_of_refusals_lowers_once(adaptive: bool) -> None:
    """All that was in flight is refused together: a router that starts anew, say."""
    governor = Governor(adaptive=adaptive)
    for in_flight in range(150, 0, -1):
        governor.refused(in_flight, 0.01 * (150 - in_flight))
    assert governor.limit == pytest.approx(105)


def test_after_a_burst_the_limit_is_out_of_the_way_within_some_rounds() -> None:
    governor = Governor(adaptive=False)
    governor.refused(150, 0.0)
    answers = 0
    while (limit := governor.limit) is not None and limit < 150:
        governor.answered(int(limit) - 1, REST_S)
        answers += 1
    assert answers < 5 * 150


def test_readings_do_nothing_unless_adaptive() -> None:
    governor = Governor(adaptive=False)
    governor.read(Load(1.0, 0.99, 50, 0, 0.0), 100, 0.0)
    governor.read(Load(1.0, 0.99, 50, 0, 9.0), 100, 5.0)
    assert governor.limit is None


def test_a_retraction_lowers_to_less_than_what_runs_and_then_rests() -> None:
    governor = Governor(adaptive=True)
    governor.read(Load(1.0, 0.9, 50, 100, 3.0), 150, 0.0)
    assert governor.limit is None, "the first reading says nothing about now"
    governor.read(Load(2.0, 0.99, 50, 100, 4.0), 150, 5.0)
    assert governor.limit == pytest.approx(40)
    governor.read(Load(3.0, 0.99, 45, 60, 9.0), 105, 10.0)
    assert governor.limit == pytest.approx(40), "what is in flight has to leave first"
    governor.read(Load(3.0, 0.99, 40, 0, 12.0), 40, 5.0 + REST_S)
    assert governor.limit == pytest.approx(32)


def test_it_rises_while_there_is_room_and_the_limit_is_reached() -> None:
    governor = Governor(adaptive=True)
    governor.limit = 40.0
    governor.read(Load(1.0, 0.9, 40, 0, 0.0), 40, 0.0)
    assert governor.limit == 40, "full"
    governor.read(Load(1.0, 0.5, 40, 7, 0.0), 40, 5.0)
    assert governor.limit == 40, "requests wait already"
    governor.read(Load(1.0, 0.5, 20, 0, 0.0), 20, 10.0)
    assert governor.limit == 40, "not reached"
    governor.read(Load(1.0, 0.5, 40, 0, 0.0), 40, 15.0)
    assert governor.limit == pytest.approx(44)
    governor.limit = 2.0
    governor.read(Load(1.0, 0.5, 2, 0, 0.0), 2, 20.0)
    assert governor.limit == 3


@dataclass
class Simulated:
    """A server whose KV cache takes so many requests; more are retracted."""

    capacity: float
    retractions: float = 0.0

    def reading(self, in_flight: int) -> Load:
        over = max(0.0, in_flight - self.capacity)
        self.retractions += over
        return Load(1.0, min(1.0, in_flight / self.capacity), in_flight, 0, self.retractions)


@pytest.mark.parametrize("capacity", [3, 12, 60, 119])
def test_it_settles_below_the_capacity_and_follows_it(capacity: int) -> None:
    """The configured concurrency is 150; a reading every 5 s."""
    server, governor = Simulated(capacity), Governor(adaptive=True)
    used: list[int] = []
    for step in range(400):
        if step == 200:
            server.capacity = capacity * 1.25
        in_flight = 150 if governor.limit is None else min(150, int(governor.limit))
        used.append(in_flight)
        governor.read(server.reading(in_flight), in_flight, 5.0 * step)
    settled = used[100:200]
    assert sum(n > capacity for n in settled) <= 10
    assert sum(settled) / len(settled) >= 0.6 * capacity
    assert sum(used[300:]) >= sum(settled)


def test_loads_and_metrics_are_read() -> None:
    rank = {"num_used_tokens": 50, "max_total_num_tokens": 200, "num_running_reqs": 3,
            "num_waiting_reqs": 1, "decode_moments": [0, 0, 0, 0, 0, 70],
            "total_prefill_uncached_tokens": 30}  # fmt: skip
    assert load_of({"loads": [rank, rank]}) == Load(200.0, 0.25, 6, 2, None)
    assert load_of({"loads": [{}]}) == Load(0.0, None, None, None, None)
    text = (
        'sglang:num_used_tokens{a="b"} 30.0\nsglang:max_total_num_tokens{a="b"} 120.0\n'
        'sglang:num_retracted_requests_total{a="b"} 4.0\nsglang:num_running_reqs{a="b"} NaN\n'
    )
    assert metrics_load(text) == Load(None, 0.25, 0, None, 4.0)
    copies = "".join(f'sglang:num_running_reqs{{tp_rank="{rank}"}} 9.0\n' for rank in range(8))
    assert metrics_load(copies).running == 9, "tensor-parallel ranks tell the same"


async def test_retractions_lower_what_is_in_flight(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "PULSE_S", 0.05)
    world = make_world(tmp_path / "run", {"b1": 400}, generate={"adaptive": True})
    async with FakeServer(token_s=0.01) as server:
        server.kv_usage = 0.99
        world.endpoint(server.url)
        run = world.start()
        await until(lambda: len(server.live) == 16)
        for _ in range(3):
            server.retractions += 1
            await until(lambda: len(server.live) < 14)
        assert world.events("load") == [] or world.events("load")[-1]["endpoints"]["s0"]
        server.kv_usage = 0.2
        monkeypatch.setattr("eagle_tui.pipeline.generation.adaptive.REST_S", 0.0)
        server.token_s = 0.0
        await run
    assert world.check() == {"complete": 400, "dead": 0}
