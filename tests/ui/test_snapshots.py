"""Pictures of every screen at three sizes, dark and light, from recorded scenes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from textual.pilot import Pilot

from eagle_tui.ui.app import EagleApp
from eagle_tui.ui.screens.charted import ChartedScreen

MakeApp = Callable[..., EagleApp]
Compare = Callable[..., bool]

SIZES = [(80, 24), (200, 50), (60, 20)]


def settled(*keys: str) -> Callable[[Pilot[None]], Any]:
    """Wait for the first snapshot, its samples and history, press keys, wait for what they show."""

    async def run(pilot: Pilot[None]) -> None:
        app = pilot.app
        assert isinstance(app, EagleApp)
        for _ in range(200):
            if (
                app.frame is not None
                and app.main.samples.current
                and not app.past.lacks(app.main.metrics())
            ):
                break
            await pilot.pause(0.02)
        await pilot.pause(0.1)
        if keys:
            await pilot.press(*keys)
            await asyncio.sleep(0.4)  # a dialog asks for its preview after a moment of quiet
            for _ in range(200):
                screen = app.screen
                if not isinstance(screen, ChartedScreen) or not app.past.lacks(screen.metrics()):
                    break
                await pilot.pause(0.02)
            await pilot.pause()

    return run


@pytest.mark.parametrize("theme", ["eagle-dark", "eagle-light", "eagle-ansi"])
@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
def test_main(
    size: tuple[int, int], theme: str, client: Any, make_app: MakeApp, snap_compare: Compare
) -> None:
    app = make_app(client, theme=theme, poll_s=3600)
    assert snap_compare(app, terminal_size=size, run_before=settled())


@pytest.mark.parametrize(
    ("size", "theme"),
    [
        *((size, "eagle-dark") for size in SIZES),
        ((80, 24), "eagle-light"),
        ((80, 24), "eagle-ansi"),
    ],
    ids=lambda value: value if isinstance(value, str) else f"{value[0]}x{value[1]}",
)
@pytest.mark.parametrize(
    "keys", [("2",), ("2", "enter"), ("4",), ("5",), ("8", "up")], ids="-".join
)
def test_screens(
    keys: tuple[str, ...],
    size: tuple[int, int],
    theme: str,
    client: Any,
    make_app: MakeApp,
    snap_compare: Compare,
) -> None:
    app = make_app(client, theme=theme, poll_s=3600)
    assert snap_compare(app, terminal_size=size, run_before=settled(*keys))


@pytest.mark.parametrize("size", [(80, 24), (160, 40)], ids=lambda size: f"{size[0]}x{size[1]}")
def test_without_gpu(
    size: tuple[int, int], laptop: Any, make_app: MakeApp, snap_compare: Compare
) -> None:
    app = make_app(laptop, poll_s=3600)
    assert snap_compare(app, terminal_size=size, run_before=settled())


def test_ascii(client: Any, make_app: MakeApp, snap_compare: Compare) -> None:
    app = make_app(client, glyphs_mode="ascii", poll_s=3600)
    assert snap_compare(app, terminal_size=(160, 40), run_before=settled())


@pytest.mark.parametrize("theme", ["eagle-contrast", "eagle-colorblind"])
def test_other_themes(theme: str, client: Any, make_app: MakeApp, snap_compare: Compare) -> None:
    app = make_app(client, theme=theme, poll_s=3600)
    assert snap_compare(app, terminal_size=(120, 40), run_before=settled())


@pytest.mark.parametrize(
    "keys", [("p",), ("c", "5", "M"), ("a",), ("e",), ("question_mark",)], ids="-".join
)
def test_dialogs_and_pages(
    keys: tuple[str, ...], client: Any, make_app: MakeApp, snap_compare: Compare
) -> None:
    app = make_app(client, poll_s=3600)
    assert snap_compare(app, terminal_size=(110, 36), run_before=settled(*keys))


def test_supervisor_gone(client: Any, make_app: MakeApp, snap_compare: Compare) -> None:
    app = make_app(client, poll_s=3600)

    async def gone(pilot: Pilot[None]) -> None:
        await settled()(pilot)
        client.gone = "The supervisor of /runs/kimi is gone; start it with `eagle-tui up`."
        app.clock.advance(125)  # type: ignore[attr-defined]
        await app.poll_once()
        app.main.tick()
        await pilot.pause(0.1)

    assert snap_compare(app, terminal_size=(120, 40), run_before=gone)
