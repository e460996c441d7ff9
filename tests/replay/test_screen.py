"""The screens on a replay: the banner, the keys that move time, no orders, what is down goes on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from eagle_tui.clock import ManualClock
from eagle_tui.replay.client import ReplayClient
from eagle_tui.replay.timeline import ReplayClock, Timeline
from eagle_tui.rundir.paths import RunDir
from eagle_tui.ui.replay import GO_ON, ReplayApp

START = 1_800_000_000.0
HOUR = 3600.0
SIZE = (150, 44)


class Watched:
    """A replay with its clock, and how to read and press."""

    def __init__(self, app: ReplayApp, pilot: Pilot[None], clock: ManualClock) -> None:
        self.app, self.pilot, self.clock = app, pilot, clock
        self.time = app._timeline

    @property
    def text(self) -> str:
        return "\n".join(strip.text for strip in self.app.screen._compositor.render_strips())

    async def until(self, what: Callable[[], Any]) -> None:
        deadline = time.monotonic() + 30
        while not what():
            assert time.monotonic() < deadline, self.text
            await self.pilot.pause(0.02)

    async def shows(self, words: str) -> None:
        await self.until(lambda: words in self.text)


@pytest.fixture
def watch(recorded: RunDir, tmp_path: Path) -> Callable[..., Any]:
    @asynccontextmanager
    async def begin(at: float = 0.0, speed: float = 60.0, **options: Any) -> AsyncIterator[Watched]:
        clock = ManualClock()
        client = ReplayClient.open(
            recorded, lambda start, end: Timeline(clock, start, end, start + at, speed)
        )
        app = ReplayApp(
            client,
            clock=ReplayClock(clock, client.timeline),
            poll_s=0.2,
            theme_dir=tmp_path / "themes",
            keys_file=tmp_path / "keys.toml",
            **options,
        )
        async with app.run_test(size=SIZE, notifications=True) as pilot:
            watched = Watched(app, pilot, clock)
            await watched.shows("REPLAY" if not options else "DOWN")
            await watched.shows("b1_glaive")
            yield watched

    return begin


async def test_the_banner_says_when_and_how_fast(watch: Any) -> None:
    async with watch(at=1000) as w:
        await w.shows("REPLAY Fri Jan 15 08:16:40 stopped x60")
        await w.pilot.press("space")
        await w.shows("playing x60")
        w.clock.advance(2)
        await w.shows("08:18:40 playing x60")
        await w.until(lambda: w.app.frame.status.datasets[2].complete == 1120)
        await w.pilot.press("greater_than_sign", "space")
        await w.shows("08:18:40 stopped x120")
        await w.pilot.press("less_than_sign", "less_than_sign")
        await w.shows("stopped x30")


async def test_steps_go_both_ways_and_forget_what_is_later(watch: Any) -> None:
    async with watch(at=3100, speed=1) as w:
        await w.shows("something was odd")
        await w.pilot.press("comma")
        await w.shows("08:51:30 stopped")
        w.time.seek(START + 2995)
        w.app._jumped()
        w.app.poll_soon()
        # The snapshot before; an answer that was on its way at the jump may be drawn once.
        await w.until(lambda: w.app.frame.status.datasets[2].complete == 2990)
        await w.until(lambda: "something was odd" not in w.text and "resume" in w.text)
        await w.pilot.press("full_stop")
        await w.shows("something was odd")
        assert w.time.now() == START + 3005


async def test_marks_are_jumped_to(watch: Any) -> None:
    async with watch(at=100) as w:
        await w.pilot.press("right_curly_bracket")
        await w.shows("pause: pause hold")
        assert w.time.now() == START + 1800
        await w.until(lambda: w.app.frame.status.servers[0].running == 0)
        await w.pilot.press("right_curly_bracket")
        await w.until(lambda: w.time.now() == START + 2100)
        await w.pilot.press("right_curly_bracket")
        await w.shows("There is no mark after this moment.")
        await w.pilot.press("left_curly_bracket")
        await w.until(lambda: w.time.now() == START + 1800)


async def test_a_time_is_typed(watch: Any) -> None:
    async with watch(at=1000) as w:
        await w.pilot.press("at")
        await w.shows("go to")
        await w.pilot.press(*"08:45", "enter")
        await w.shows("REPLAY Fri Jan 15 08:45:00")
        await w.pilot.press("at", *"25%", "enter")
        await w.shows("REPLAY Fri Jan 15 08:15:00")
        await w.pilot.press("at", *"so, on .", "enter")
        await w.shows("is no place in time")
        await w.pilot.press("at", "escape")
        await w.until(lambda: not w.app.screen.is_modal)
        assert w.time.now() == START + 900 and not w.time.playing


async def test_no_order_is_taken_and_none_is_offered(watch: Any) -> None:
    async with watch(at=1000) as w:
        footer = w.text.splitlines()[-1]
        assert "Play" in w.text and "Pause" not in footer and "Cap" not in footer
        await w.pilot.press("p")
        await w.shows("This is a replay: it shows what was, and takes no orders.")
        assert not w.app.screen.is_modal


async def test_the_chart_holds_no_future_and_no_gap(watch: Any) -> None:
    async with watch(at=1000) as w:
        await w.until(lambda: w.app.past.track("tok_s").buckets)
        track = w.app.past.track("tok_s")
        assert max(track.buckets) * track.step_s < START + 1010
        w.time.seek(START + 500)
        w.app._jumped()
        w.app.poll_soon()
        await w.until(lambda: w.app.frame.status.at == START + 500)
        await w.until(lambda: not w.app.past.lacks(["tok_s"]))
        track = w.app.past.track("tok_s")
        assert max(track.buckets) * track.step_s < START + 510, "a bucket of ten seconds"
        await w.pilot.press("space")
        w.clock.advance(5)
        await w.until(lambda: w.app.frame.status.at == START + 800)

        def whole() -> bool:
            track = w.app.past.track("tok_s")
            values = track.values(START + 800, 60.0, 10)
            return all(value is not None for value in values)

        await w.until(whole)


async def test_a_run_that_is_down_can_go_on(watch: Any) -> None:
    async with watch(at=HOUR, can_go_on=True) as w:
        await w.shows("DOWN, as of Fri Jan 15 09:00:00")
        assert " U Up" in w.text
        await w.pilot.press("comma")
        await w.shows("REPLAY Fri Jan 15 08:59")
        await w.pilot.press("U")
        await asyncio.sleep(0)
        assert w.app.wants == GO_ON


async def test_other_screens_have_the_keys_too(watch: Any) -> None:
    async with watch(at=1000) as w:
        await w.pilot.press("7")
        await w.shows("started (attempt 1)")
        await w.pilot.press("space")
        await w.until(lambda: w.time.playing)
        await w.pilot.press("question_mark")
        await w.shows("In a replay")
