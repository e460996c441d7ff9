"""The effect of a retune: which time counts, when it is measured, and what is said."""

from __future__ import annotations

import math
import random
from pathlib import Path

import pytest

from eagle_tui.clock import ManualClock
from eagle_tui.history import Recorder
from eagle_tui.protocol import (
    DatasetStatus,
    History,
    HostStatus,
    PhaseStatus,
    RunStatus,
    ServerStatus,
    Status,
    SupervisorStatus,
)
from eagle_tui.series import values
from eagle_tui.supervisor.store import Store
from eagle_tui.supervisor.tuning.measure import Measures, span, step_for
from eagle_tui.supervisor.tuning.order import RetuneOrder

ORDER = RetuneOrder("one", {"f": "2"}, {}, {"f": "2"}, "mem-fraction-static 0.85 → 0.88")


class World:
    """A run whose seconds are made up, and the measuring of its retunes."""

    def __init__(self, path: Path, window_s: float) -> None:
        self.store = Store(path / "state.sqlite")
        self.clock = ManualClock()
        self.recorder = Recorder(self.store)
        self.rng = random.Random(7)
        self.said: list[str] = []
        self.tokens = 0.0
        self.status = self.make(0.0)
        self.reads = 0
        """Looks into the history; one takes several queries, one of them for this."""

        def query(name: str, since: float, until: float, step: float) -> History:
            self.reads += name == "server.one.tok_s"
            return self.recorder.query(name, since, step, self.clock.wall(), until)

        self.measures = Measures(
            self.store,
            self.clock,
            query,
            window_s,
            lambda severity, source, text: self.said.append(text),
        )

    def make(self, speed: float, in_flight: int = 64, phase: str = "running") -> Status:
        return Status(
            at=self.clock.wall(),
            run=RunStatus(name="r", dir="/r", target="t"),
            supervisor=SupervisorStatus(),
            phases=(PhaseStatus(name="generate", state=phase, done=1),),  # type: ignore[arg-type]
            datasets=(DatasetStatus(name="d", in_flight=in_flight, tokens=int(self.tokens)),),
            servers=(
                ServerStatus(
                    name="one",
                    state="ready",
                    tok_s=speed,
                    running=min(in_flight, 48),
                    kv_usage=0.8,
                    retractions=0,
                ),
            ),
            host=HostStatus(),
        )

    def run(self, seconds: int, speed: float, in_flight: int = 64, phase: str = "running") -> None:
        for _ in range(seconds):
            now = speed * self.rng.gauss(1.0, 0.05) if speed else 0.0
            self.tokens += now
            self.status = self.make(now, in_flight, phase)
            self.recorder.add(self.status.at, values(self.status))
            self.measures.look(self.status)
            self.clock.advance(1.0)

    def retune(self, start_s: int = 40) -> None:
        """Stopped, started with other settings, and at work again."""
        servers = self.store.servers
        servers.add_retune("c", ORDER, self.clock.wall())
        retune = servers.retunes()[-1]
        servers.step(retune.id, "pausing", self.clock.wall(), paused_at=self.clock.wall())
        self.clock.advance(start_s)
        servers.step(retune.id, "done", self.clock.wall(), resumed_at=self.clock.wall())

    @property
    def effects(self) -> list[str | None]:
        return [retune.effect for retune in self.store.servers.retunes()]


@pytest.mark.parametrize(("window", "before", "start"), [(60, 100, 40), (240, 400, 1200)])
def test_before_and_after_are_compared(
    tmp_path: Path, window: int, before: int, start: int
) -> None:
    world = World(tmp_path, window)
    world.run(before, 862.0)
    world.retune(start_s=start)
    world.run(window, 1187.0)
    assert world.effects == [None], "not before there is as much time as the window"
    world.run(120, 1187.0)
    (sentence,) = world.effects
    assert sentence is not None
    assert sentence.startswith("mem-fraction-static 0.85 → 0.88: 8")
    assert "tok/s (+3" in sentence and " % ± " in sentence
    assert world.said == [sentence]
    world.run(30, 1.0)
    assert len(world.said) == 1, "measured once"


def test_pauses_tails_and_the_first_seconds_do_not_count(tmp_path: Path) -> None:
    world = World(tmp_path, 60)
    world.run(70, 100.0)
    world.run(30, 0.0, in_flight=0, phase="paused")
    world.run(30, 20.0, in_flight=4)
    found = span(
        world.measures._query, "one", ["d"], world.clock.wall() - 200, world.clock.wall(), 1.0
    )
    assert len(found.times) == 70
    world.retune()
    world.run(12, 1.0)  # it fills up
    world.run(40, 200.0)
    world.run(100, 0.0, in_flight=0, phase="paused")
    assert world.effects == [None]
    world.run(40, 200.0)
    (sentence,) = world.effects
    assert sentence is not None
    percent = int(sentence.partition("(+")[2].partition(" %")[0])
    assert 97 <= percent <= 103


def test_the_history_is_read_only_when_there_may_be_enough_of_it(tmp_path: Path) -> None:
    world = World(tmp_path, 60)
    world.run(70, 100.0)
    world.retune()
    world.run(42, 200.0)
    world.run(600, 0.0, in_flight=0, phase="paused")
    assert world.reads == 0, "not while nothing is generated"
    world.run(6, 200.0)
    world.run(300, 0.0, in_flight=0, phase="failed")
    assert world.reads == 1 and world.effects == [None]
    world.run(60, 200.0)
    assert world.reads <= 5 and world.effects != [None]


def test_what_never_is_enough_is_not_read_again_and_again(tmp_path: Path) -> None:
    """An hour in which it generates now and then, and mostly drains: that never makes a window."""
    world = World(tmp_path, 60)
    world.run(70, 100.0)
    world.retune()
    for _ in range(60):
        world.run(1, 200.0, in_flight=64)
        world.run(59, 20.0, in_flight=4)
    # Ever longer apart: a tenth of the time that has passed.
    assert world.reads <= 2 + 60 / 6 + math.log(3600 / 60) / math.log(1.1)


def test_a_second_retune_ends_the_window_of_the_first(tmp_path: Path) -> None:
    world = World(tmp_path, 60)
    world.run(100, 100.0)
    world.retune()
    world.run(42, 150.0)
    world.retune()
    world.run(6, 50.0)
    first, second = world.effects
    assert first is not None and "(+5" in first and second is None
    world.run(6, 50.0)
    world.run(6, 50.0, phase="done")
    assert world.effects[1] is not None and "not measured" in world.effects[1]


def test_buckets_suit_the_window() -> None:
    assert [step_for(w, 0.0) for w in (30.0, 600.0, 86400.0)] == [1.0, 10.0, 60.0]
    assert [step_for(30.0, age) for age in (1e3, 1e5)] == [10.0, 60.0]
