"""Samples, logs and the journal in a replay: only what was there then, also when one goes back."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from eagle_tui.clock import ManualClock
from eagle_tui.replay.client import ReplayClient
from eagle_tui.replay.timeline import ReplayClock, Timeline
from eagle_tui.rundir.paths import RunDir
from eagle_tui.ui.replay import ReplayApp
from eagle_tui.ui.screens.events import EventsScreen
from eagle_tui.ui.screens.logs import LogsScreen
from eagle_tui.ui.screens.samples import SamplesScreen

START = 1_800_000_000.0


async def test_the_reading_screens_stand_at_the_replays_time(
    recorded: RunDir, tmp_path: Path
) -> None:
    recorded.logs.mkdir()
    lines = [
        f"[{datetime.fromtimestamp(START + n * 10):%Y-%m-%d %H:%M:%S}] line {n}" for n in range(360)
    ]
    (recorded.logs / "generate-0001.log").write_text("\n".join(lines) + "\n")
    clock = ManualClock()
    client = ReplayClient.open(
        recorded, lambda start, end: Timeline(clock, start, end, start + 1550, 60.0)
    )
    app = ReplayApp(
        client,
        clock=ReplayClock(clock, client.timeline),
        poll_s=0.2,
        theme_dir=tmp_path / "themes",
        keys_file=tmp_path / "keys.toml",
    )
    async with app.run_test(size=(150, 44)) as pilot:

        async def until(what: Callable[[], Any]) -> None:
            deadline = time.monotonic() + 30
            while not what():
                assert time.monotonic() < deadline
                await pilot.pause(0.02)

        async def at(second: float) -> None:
            client.timeline.seek(START + second)
            app.poll_soon()
            await until(
                lambda: app.frame is not None and app.frame.status.at >= START + second - 30
            )
            await until(lambda: app.frame.status.at <= START + second + 1)

        await until(lambda: app.frame is not None)
        await pilot.press("3")
        await until(lambda: isinstance(app.shown, SamplesScreen) and app.shown.book.heads)
        samples: Any = app.shown
        assert [head.id for head in samples.book.heads] == [f"s{n}" for n in range(15, -1, -1)]
        await at(2050)
        await samples.load()
        assert samples.book.heads[0].id == "s20"
        await at(950)
        await samples.load()
        await until(lambda: samples.book.heads and samples.book.heads[0].id == "s9")

        await pilot.press("6")
        await until(
            lambda: isinstance(app.shown, LogsScreen) and app.shown.window.match is not None
        )
        logs: Any = app.shown
        found = next(x for x in logs.window.lines if x.offset == logs.window.match)
        assert found.text.endswith("line 95") and not logs.window.follow

        await at(2500)
        await pilot.press("7")
        await until(lambda: isinstance(app.shown, EventsScreen) and app.shown.book.entries)
        events: Any = app.shown
        assert events.book.entries[-1].event.text == "resume"
        await at(1900)
        await until(
            lambda: events.book.entries and events.book.entries[-1].event.text == "pause: hold"
        )
        await pilot.press("u")
        assert app.screen is events, "no order is given in a replay"
