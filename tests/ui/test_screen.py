"""What is drawn, from what, and how little is repainted; pages, palette, themes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from textual.command import CommandList
from textual.screen import Screen

from eagle_tui.actions import ACTIONS
from eagle_tui.ui.app import EagleApp
from eagle_tui.ui.canvas import Canvas
from eagle_tui.ui.screens.dialog import ActionDialog, Words
from eagle_tui.ui.screens.events import EventsScreen
from eagle_tui.ui.screens.help import HelpScreen
from eagle_tui.ui.screens.overview import OverviewScreen

MakeApp = Callable[..., EagleApp]


# The first picture


@pytest.mark.parametrize("size", [(80, 24), (60, 20), (200, 50)])
async def test_the_first_figures_are_painted_whole(
    size: tuple[int, int],
    client: Any,
    make_app: MakeApp,
    ui: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Layout comes before painting, and the news of it after: nothing may be drawn for the old."""
    app = make_app(client, poll_s=3600)
    painted: list[str] = []
    display = app._display

    def note(screen: Screen[Any], renderable: Any) -> None:
        painted.append(ui.text(app))
        display(screen, renderable)

    monkeypatch.setattr(app, "_display", note)
    async with ui.run(app, size=size) as pilot:
        await ui.ready(pilot)
        await pilot.pause(0.3)
        last = ui.text(app)
    first = next(text for text in painted if "b2_" in text)
    table = [line for line in last.splitlines() if "running" in line or "total" in line]
    assert len(table) >= 3
    for line in table:
        assert line in first, first


async def test_only_what_a_dialog_lets_through_is_painted_below_it(
    client: Any, make_app: MakeApp, ui: Any
) -> None:
    """We override a private property of Textual for it (`EagleApp._background_screens`): should it
    go, or mean something else, the screen below would be painted with every snapshot again."""
    app = make_app(client, poll_s=3600)
    async with ui.run(app, size=(80, 24)) as pilot:
        await ui.ready(pilot)
        await pilot.press("2")
        assert not app.main.is_current
        below = app.screen
        await pilot.press("p")
        assert app.screen.is_modal and below.is_current and not app.main.is_current
        await pilot.press("escape", "1")
        assert app.main.is_current


# A supervisor that does not answer


async def test_a_silent_supervisor_is_said_and_comes_back(
    client: Any, make_app: MakeApp, ui: Any
) -> None:
    app = make_app(client)
    async with ui.run(app, size=(120, 40)) as pilot:
        await ui.ready(pilot)
        client.gone = "The supervisor of /runs/x is gone; start it with `eagle-tui up`."
        await ui.until(pilot, lambda: "The supervisor of /runs/x is gone" in ui.text(app))
        assert app.main.has_class("-stale")
        app.clock.advance(75)  # type: ignore[attr-defined]
        await ui.until(pilot, lambda: "Figures are 1m old" in ui.text(app))
        assert "b2_opencodeinstruct" in ui.text(app), "the last figures stay"
        polls = client.polls
        await ui.until(pilot, lambda: client.polls > polls + 1)
        client.gone = ""
        await ui.until(pilot, lambda: not app.main.has_class("-stale"))
        assert "is gone" not in ui.text(app)


async def test_a_supervisor_that_never_answered_is_said_too(
    client: Any, make_app: MakeApp, ui: Any
) -> None:
    client.gone = "There is no run at /runs/x."
    app = make_app(client)
    async with ui.run(app, size=(80, 24)) as pilot:
        await ui.until(pilot, lambda: "There is no run at /runs/x." in ui.text(app))
        await pilot.press("p", "escape", "c", "escape", "e", "q", "question_mark", "q", "down")
        client.gone = ""
        await ui.until(pilot, lambda: "kimi-k25-eagle3" in ui.text(app))


async def test_slow_answers_never_overlap(client: Any, make_app: MakeApp, ui: Any) -> None:
    busy = most = 0
    plain = client.status

    async def slow() -> Any:
        nonlocal busy, most
        busy += 1
        most = max(most, busy)
        await asyncio.sleep(0.2)
        busy -= 1
        return await plain()

    client.status = slow
    app = make_app(client)
    async with ui.run(app, size=(80, 24)) as pilot:
        await pilot.pause(0.7)
        await pilot.press("down", "question_mark")
        assert isinstance(app.screen, HelpScreen), "keys act while an answer is awaited"
    assert most == 1


async def test_a_fault_of_our_own_is_shown_and_does_not_end_the_screen(
    client: Any, make_app: MakeApp, ui: Any
) -> None:
    app = make_app(client)
    async with ui.run(app, size=(120, 40)) as pilot:
        await ui.ready(pilot)

        async def broken() -> Any:
            raise RuntimeError("no such thing")

        client.status = broken
        await ui.until(pilot, lambda: "The screen failed to read the run" in ui.text(app))
        assert app.is_running


# What is drawn


async def test_all_figures_of_a_dataset_stand_in_its_row(
    client: Any, make_app: MakeApp, ui: Any
) -> None:
    app = make_app(client)
    async with ui.run(app, size=(200, 50)) as pilot:
        await ui.ready(pilot)
        rows = {line.split()[1]: line for line in ui.text(app).split("\n")[:30] if "b" in line[:4]}
        row = rows["b2_opencodeinstruct"]
        for figure in ("► running", "3,489/14,714", "23%", "5.66M/10.0M", "26.4", "1.62k", "6.90k",
                       " 77 ", " 2 ", " 21 ", " 9 ", "99%", "150/150", "2.2–3.9 h",
                       "10:45"):  # fmt: skip
            assert figure in row, (figure, row)
        assert "none!" in rows["b5_openthoughts"], "no reasoning in 120 responses is a warning"


async def test_only_what_changed_is_repainted(
    client: Any, make_app: MakeApp, ui: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = make_app(client, poll_s=3600)
    async with ui.run(app, size=(200, 50)) as pilot:
        await ui.ready(pilot)
        await pilot.pause(0.2)
        painted: list[tuple[str, int]] = []
        plain = Canvas.refresh

        def watched(self: Canvas, *regions: Any, **options: Any) -> Any:
            cells = sum(region.area for region in regions) if regions else 10**6
            painted.append((type(self).__name__, cells))
            return plain(self, *regions, **options)

        monkeypatch.setattr(Canvas, "refresh", watched)
        await app.poll_once()
        await pilot.pause(0.1)
        assert painted == [], "an equal snapshot paints nothing"
        rows = list(client.now.datasets)
        rows[3] = rows[3].model_copy(update={"complete": rows[3].complete + 1})
        client.now = client.now.model_copy(update={"datasets": tuple(rows)})
        await app.poll_once()
        await ui.until(pilot, lambda: "3,490/14,714" in ui.text(app))
        assert {name for name, _ in painted} == {"ColumnCanvas"}
        assert sum(cells for _, cells in painted) < 60


async def test_servers_that_do_not_serve_say_so(client: Any, make_app: MakeApp, ui: Any) -> None:
    status = client.now.model_dump()
    status["servers"] = [
        {"name": "one", "state": "starting", "reason": "loading weights, 41 of 64 shards"},
        {"name": "two", "state": "ready", "tok_s": 430.0, "running": 20, "accept_length": 2.1},
    ]
    client.now = type(client.now).model_validate(status)
    app = make_app(client)
    async with ui.run(app, size=(200, 50)) as pilot:
        await ui.ready(pilot)
        text = ui.text(app)
        assert "one  starting  loading weights, 41 of 64 shards" in text
        assert "two  ready  430 tok/s" in text
        assert "accept" in text and "2.10" in text


async def test_a_lost_and_a_stale_gpu_are_told(client: Any, make_app: MakeApp, ui: Any) -> None:
    status = client.now.model_dump()
    status["gpus"] = list(status["gpus"])
    status["gpus"][2] |= {"state": "lost", "util": None, "power_w": None}
    status["gpus"][3] |= {"age_s": 42.0}
    client.now = type(client.now).model_validate(status)
    app = make_app(client)
    async with ui.run(app, size=(200, 50)) as pilot:
        await ui.ready(pilot)
        lines = ui.text(app).split("\n")
        assert any("2 RTX PRO 6000" in line and "lost" in line for line in lines)
        assert any("3 RTX PRO 6000" in line and "42s old" in line for line in lines)
        assert any("4 RTX PRO 6000" in line and "thermal slowdown" in line for line in lines)


@pytest.mark.parametrize(
    "size", [(1, 1), (20, 5), (60, 20), (80, 24), (119, 36), (120, 36), (300, 80)]
)
@pytest.mark.parametrize("mode", ["braille", "ascii"])
async def test_no_size_breaks_it(
    size: tuple[int, int], mode: str, client: Any, make_app: MakeApp, ui: Any
) -> None:
    app = make_app(client, glyphs_mode=mode)
    async with ui.run(app, size=(200, 50)) as pilot:
        await ui.ready(pilot)
        await pilot.resize_terminal(*size)
        await pilot.press("c", "escape", "question_mark", "q", "e", "q", "pagedown", "down")
        await pilot.pause(0.1)
        assert app.is_running
        if mode == "ascii" and size[0] >= 60:
            assert ui.text(app).isascii()


async def test_many_datasets_scroll_with_the_cursor(
    client: Any, make_app: MakeApp, ui: Any
) -> None:
    rows = [
        client.now.datasets[5].model_copy(update={"name": f"set{index:02}"}) for index in range(40)
    ]
    client.now = client.now.model_copy(update={"datasets": tuple(rows)})
    client.all_samples = [ui.sample(dataset=f"set{index:02}") for index in range(40)]
    app = make_app(client)
    async with ui.run(app, size=(80, 24)) as pilot:
        await ui.ready(pilot)
        assert "set39" not in ui.text(app)
        await pilot.press(*["down"] * 45)
        await ui.until(pilot, lambda: "set39" in ui.text(app))
        assert app.main.datasets.selected == "set39"
        await pilot.press(*["k"] * 45)
        await ui.until(pilot, lambda: "set00" in ui.text(app))


# Other screens, palette, themes


async def test_help_lists_every_action(client: Any, make_app: MakeApp, ui: Any) -> None:
    app = make_app(client)
    async with ui.run(app, size=(120, 120)) as pilot:
        await ui.ready(pilot)
        await pilot.press("question_mark")
        text = ui.text(app)
        for action in ACTIONS:
            assert action.label in text and action.help.split(".")[0][:30] in text
            if action.verb:
                assert f"eagle-tui {action.verb}" in text


async def test_events_screen_shows_all_alerts_and_how_far_orders_came(
    client: Any, make_app: MakeApp, ui: Any
) -> None:
    app = make_app(client)
    async with ui.run(app, size=(120, 50)) as pilot:
        await ui.ready(pilot)
        await pilot.press("e")
        assert isinstance(app.screen, EventsScreen)
        text = ui.text(app)
        assert "requested → accepted → in effect" in text
        assert "no dataset of the long kind has a response yet" in text
        assert "requested → refused" in text
        for alert in client.now.alerts:
            assert alert.sentence in text and alert.remedy in text
        await pilot.press("up", "home", "end", "q")
        assert isinstance(app.screen, OverviewScreen)


async def test_the_palette_holds_the_actions_and_the_themes(
    client: Any, make_app: MakeApp, ui: Any
) -> None:
    app = make_app(client)
    async with ui.run(app, size=(120, 40)) as pilot:
        await ui.ready(pilot)
        await pilot.press("ctrl+p")
        await pilot.pause(0.2)
        await pilot.press(*"concurr")
        await pilot.pause(0.5)
        await pilot.press("enter")
        await ui.until(pilot, lambda: isinstance(app.screen, ActionDialog))
        await pilot.press("escape", "ctrl+p")
        await pilot.pause(0.2)
        await pilot.press(*"eagle-light")
        await pilot.pause(0.5)
        await pilot.press("enter")
        await ui.until(pilot, lambda: app.theme == "eagle-light")


@pytest.mark.parametrize("width", [3, 6, 80])
async def test_the_palette_pages_in_a_terminal_of_any_size(
    client: Any, make_app: MakeApp, ui: Any, width: int
) -> None:
    app = make_app(client)
    async with ui.run(app, size=(100, 30)) as pilot:
        await ui.ready(pilot)
        await pilot.press("ctrl+p")
        await ui.until(pilot, lambda: app.screen.query_one(CommandList).option_count > 3)
        await pilot.resize_terminal(width, 8)
        for key in ("down", "pagedown", "a", "pagedown", "pageup", "end", "up", "home"):
            await pilot.press(key)
        await pilot.press("escape")
        await ui.until(pilot, lambda: isinstance(app.screen, OverviewScreen))


async def test_an_unknown_theme_falls_back_and_says_so(
    client: Any, make_app: MakeApp, ui: Any
) -> None:
    app = make_app(client, theme="solar")
    async with ui.run(app, size=(100, 30)) as pilot:
        await ui.until(pilot, lambda: "no theme 'solar'" in ui.text(app).replace("\n", " "))
        assert app.theme == "eagle-dark"


async def test_words_take_the_rows_they_need(client: Any, make_app: MakeApp, ui: Any) -> None:
    app = make_app(client)
    async with ui.run(app, size=(60, 20)) as pilot:
        await ui.ready(pilot)
        await pilot.press("p")
        about = app.screen.query_one("#about", Words)
        assert about.size.height >= 3


async def test_the_cursor_goes_with_the_work_until_it_is_moved(
    client: Any, make_app: MakeApp, ui: Any
) -> None:
    def done(name: str) -> None:
        rows = [
            row.model_copy(update={"state": "done"}) if row.name == name else row
            for row in client.now.datasets
        ]
        client.now = client.now.model_copy(update={"datasets": tuple(rows)})

    app = make_app(client)
    async with ui.run(app, size=(100, 30)) as pilot:
        await ui.ready(pilot)
        table = app.main.datasets
        assert table.selected == "b2_opencodeinstruct"
        done("b2_opencodeinstruct")
        await ui.until(pilot, lambda: table.selected == "b3_magicoder")
        await pilot.press("up")
        done("b3_magicoder")
        polls = client.polls
        await ui.until(pilot, lambda: client.polls > polls + 2)
        assert table.selected == "b2_opencodeinstruct"


async def test_a_phase_without_a_server_shows_what_it_measures(
    laptop: Any, make_app: MakeApp, ui: Any
) -> None:
    figures = {"loss": 1.234, "lr": 1e-4, "accept": 2.31, "tok_s": 5120.0, "data_wait": 0.02}
    phases = tuple(
        phase.model_copy(update={"state": "running", "figures": figures})
        if phase.name == "train"
        else phase.model_copy(update={"state": "done"})
        for phase in laptop.now.phases
    )
    before = laptop.now
    laptop.now = before.model_copy(update={"phases": phases})
    app = make_app(laptop)
    async with ui.run(app, size=(200, 50)) as pilot:
        await ui.ready(pilot)
        await ui.until(pilot, lambda: "train, loss" in ui.text(app))
        for shown in ("accept", "2.31", "1.0e-04", "5.12k", "2%"):
            assert shown in ui.text(app)
        # Back to the servers' figures when that phase is over.
        laptop.now = before
        await ui.until(pilot, lambda: "throughput, tokens/s" in ui.text(app))
        assert "data wait" not in ui.text(app)
