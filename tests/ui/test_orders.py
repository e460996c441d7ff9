"""Keys become orders: dialogs, previews, refusals, read-only, leaving."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from textual.widgets import Input

from eagle_tui.actions import ACTIONS, BY_ID, actions_on
from eagle_tui.protocol import Preview
from eagle_tui.ui.app import EagleApp
from eagle_tui.ui.screens.base import RunScreen
from eagle_tui.ui.screens.catalog import SCREENS, screen_class
from eagle_tui.ui.screens.dialog import ActionDialog
from eagle_tui.ui.screens.help import HelpScreen
from eagle_tui.ui.screens.overview import OverviewScreen

MakeApp = Callable[..., EagleApp]


# Orders


async def test_pause_sends_the_mode_chosen(client: Any, make_app: MakeApp, ui: Any) -> None:
    app = make_app(client)
    async with ui.run(app, size=(100, 30)) as pilot:
        await ui.ready(pilot)
        await pilot.press("p")
        assert isinstance(app.screen, ActionDialog)
        assert "In flight now: 198 requests of 2 datasets." in ui.text(app)
        await pilot.press("right")
        await ui.until(pilot, lambda: ("pause", {"mode": "drain"}) in client.asked)
        await pilot.press("y")
        await ui.until(pilot, lambda: isinstance(app.screen, OverviewScreen))
        assert client.sent == [("pause", {"mode": "drain"})]


async def test_pause_holds_by_default(client: Any, make_app: MakeApp, ui: Any) -> None:
    app = make_app(client)
    async with ui.run(app, size=(100, 30)) as pilot:
        await ui.ready(pilot)
        await pilot.press("p", "enter")
        await ui.until(pilot, lambda: client.sent == [("pause", {"mode": "hold"})])


async def test_resume_needs_no_dialog(client: Any, make_app: MakeApp, ui: Any) -> None:
    app = make_app(client)
    async with ui.run(app, size=(100, 30)) as pilot:
        await ui.ready(pilot)
        await pilot.press("r")
        await ui.until(pilot, lambda: client.sent == [("resume", {})])
        assert isinstance(app.screen, OverviewScreen)


async def test_cap_shows_what_it_saves_before_yes(client: Any, make_app: MakeApp, ui: Any) -> None:
    app = make_app(client)
    async with ui.run(app, size=(100, 30)) as pilot:
        await ui.ready(pilot)
        await pilot.press("down", "c", *"250k")
        await ui.until(pilot, lambda: client.asked)
        wanted = {"dataset": "b3_magicoder", "tokens": 250_000}
        await ui.until(pilot, lambda: client.asked[-1] == ("cap", wanted))
        await ui.until(pilot, lambda: "saves 5.2–8.9 h" in ui.text(app))
        assert client.sent == []
        await pilot.press("enter")
        await ui.until(pilot, lambda: client.sent == [("cap", wanted)])


async def test_cap_takes_the_dataset_that_is_chosen_in_the_dialog(
    client: Any, make_app: MakeApp, ui: Any
) -> None:
    app = make_app(client)
    async with ui.run(app, size=(100, 30)) as pilot:
        await ui.ready(pilot)
        await pilot.press("c", "shift+tab", "left", "tab", "tab", *"500", "y")
        wanted = ("cap", {"dataset": "b1_glaive", "samples": 500})
        await ui.until(pilot, lambda: client.sent == [wanted])


async def test_a_cap_over_all_datasets_is_chosen_in_the_dialog_and_shown(
    client: Any, make_app: MakeApp, ui: Any
) -> None:
    together = client.now.datasets[0].model_copy(
        update={"name": "total", "tokens": 9_000, "cap_tokens": 77_000_000}
    )
    client.now = client.now.model_copy(update={"total": together})
    app = make_app(client)
    async with ui.run(app, size=(140, 40)) as pilot:
        await ui.ready(pilot)
        await ui.until(pilot, lambda: "/77.0M" in ui.text(app))
        places = len(client.now.datasets) - [d.name for d in client.now.datasets].index(
            "b2_opencodeinstruct"
        )
        await pilot.press("c", "shift+tab", *["right"] * places)
        await ui.until(pilot, lambda: "total:" in ui.text(app))
        await pilot.press("tab", *"50M", "enter")
        wanted = ("cap", {"dataset": "total", "tokens": 50_000_000})
        await ui.until(pilot, lambda: client.sent == [wanted])
        # Only a cap can be over all of them.
        await pilot.press("s", *["right"] * places)
        await ui.until(pilot, lambda: "Take the dataset in again" in ui.text(app))
        assert "total:" not in ui.text(app)


async def test_what_is_no_count_is_said_and_not_sent(
    client: Any, make_app: MakeApp, ui: Any
) -> None:
    app = make_app(client)
    async with ui.run(app, size=(100, 30)) as pilot:
        await ui.ready(pilot)
        await pilot.press("c", *"10X", "enter")
        await ui.until(pilot, lambda: "'10X' is not a count" in ui.text(app))
        assert client.sent == []


async def test_a_required_value_is_asked_for(client: Any, make_app: MakeApp, ui: Any) -> None:
    app = make_app(client)
    async with ui.run(app, size=(100, 30)) as pilot:
        await ui.ready(pilot)
        await pilot.press("n", "enter")
        await ui.until(pilot, lambda: "Give value: Requests in flight." in ui.text(app))
        await pilot.press(*"48", "enter")
        wanted = ("concurrency", {"dataset": "b2_opencodeinstruct", "value": 48})
        await ui.until(pilot, lambda: client.sent == [wanted])


async def test_work_is_thrown_away_only_after_it_was_said(
    client: Any, make_app: MakeApp, ui: Any
) -> None:
    app = make_app(client)
    async with ui.run(app, size=(100, 30)) as pilot:
        await ui.ready(pilot)
        await pilot.press("a", "enter")  # before the preview came, or just as it came
        await ui.until(pilot, lambda: "This throws work away" in ui.text(app))
        await pilot.press("enter", "y")
        await pilot.pause(0.1)
        assert client.sent == [], "a warning that nobody can have read is not confirmed"
        app.clock.advance(1)  # type: ignore[attr-defined]
        await pilot.press("enter")
        await ui.until(pilot, lambda: client.sent == [("advance", {"phase": "generate"})])


async def test_what_the_preview_refuses_is_not_sent(
    client: Any, make_app: MakeApp, ui: Any
) -> None:
    client.previews["skip"] = Preview(allowed=False, sentence="it is the last dataset")
    app = make_app(client)
    async with ui.run(app, size=(100, 30)) as pilot:
        await ui.ready(pilot)
        await pilot.press("s")
        await ui.until(pilot, lambda: "Refused: it is the last dataset" in ui.text(app))
        await pilot.press("enter", "y")
        await pilot.pause(0.1)
        assert client.sent == [] and isinstance(app.screen, ActionDialog)


async def test_a_refused_order_shows_its_reason(client: Any, make_app: MakeApp, ui: Any) -> None:
    client.refuse = "generate is not running"
    app = make_app(client)
    async with ui.run(app, size=(100, 30)) as pilot:
        await ui.ready(pilot)
        await pilot.press("r")
        await ui.until(pilot, lambda: "generate is not running" in ui.text(app))
        await pilot.press("p", "enter")
        await ui.until(pilot, lambda: "Refused: generate is not running" in ui.text(app))
        assert isinstance(app.screen, ActionDialog), "the dialog stays, so that one can correct it"


@pytest.mark.parametrize("key", ["escape", "q"])
async def test_a_dialog_is_left_without_an_order(
    key: str, client: Any, make_app: MakeApp, ui: Any
) -> None:
    app = make_app(client)
    async with ui.run(app, size=(100, 30)) as pilot:
        await ui.ready(pilot)
        for action in ACTIONS:
            if action.verb and (action.params or action.confirm) and action.id != "order":
                await pilot.press(str(action.key), key)
                await ui.until(pilot, lambda: isinstance(app.screen, OverviewScreen))
        assert client.sent == []


async def test_names_may_hold_any_letter(client: Any, make_app: MakeApp, ui: Any) -> None:
    app = make_app(client)
    async with ui.run(app, size=(100, 30)) as pilot:
        await ui.ready(pilot)
        await pilot.press("o")
        app.screen.query_one(Input).value = ""
        await pilot.press(*"query", "comma", *" toy", "enter")
        await ui.until(pilot, lambda: client.sent == [("order", {"datasets": ["query", "toy"]})])


async def test_stopping_the_run_asks_first(client: Any, make_app: MakeApp, ui: Any) -> None:
    app = make_app(client)
    async with ui.run(app, size=(100, 30)) as pilot:
        await ui.ready(pilot)
        await pilot.press("X")
        await ui.until(pilot, lambda: "down would be done." in ui.text(app))
        assert client.sent == []
        await pilot.press("y")
        await ui.until(pilot, lambda: client.sent == [("down", {})])


async def test_a_read_only_screen_sends_nothing(client: Any, make_app: MakeApp, ui: Any) -> None:
    app = make_app(client, readonly=True)
    async with ui.run(app, size=(100, 30)) as pilot:
        await ui.ready(pilot)
        for action in ACTIONS:
            if action.verb:
                await pilot.press(str(action.key))
                assert isinstance(app.screen, OverviewScreen)
        await pilot.press("y", "enter")
        await pilot.pause(0.1)
        assert client.sent == [] and "read-only" in ui.text(app)


# Footer truth


@pytest.mark.parametrize(
    ("name", "size"),
    [
        *((name, (80, 24)) for name in SCREENS),
        *((name, size) for name in ("overview", "datasets") for size in ((200, 50), (60, 20))),
    ],
)
async def test_every_key_in_the_footer_does_something(
    size: tuple[int, int], name: str, client: Any, make_app: MakeApp, ui: Any
) -> None:
    app = make_app(client)
    async with ui.run(app, size=size) as pilot:
        await ui.ready(pilot)
        app.open_screen(name)
        await ui.until(pilot, lambda: name == app.shown.NAME and "kimi" in ui.text(app))
        await pilot.pause(0.1)
        rows = app.shown.footer.rows(*size)
        drawn = ui.text(app).split("\n")[-len(rows) :]
        items = [(item, line) for row, line in zip(rows, drawn, strict=True) for item in row]
        ids = [item.action for item, _ in items]
        assert ids[-2:] == ["help", "quit" if name == "overview" else "back"] and "pause" in ids
        assert {action.id for action in ACTIONS if action.opens} <= set(ids)
        for item, line in items:
            await ui.until(pilot, lambda: app.screen is app.shown and name == app.shown.NAME)
            assert f"{item.key}{'' if item.tight or not item.label else ' '}{item.label}" in line
            before = (ui.text(app), app.screen)
            await pilot.press(str(BY_ID[item.action].key))
            if item.action == "quit":
                assert app._exit
                continue
            if item.action == name:
                await pilot.pause(0.05)
                assert app.screen is before[1], "the key of the screen in sight stays on it"
                continue
            # Fails for a key that does nothing.
            await ui.until(pilot, lambda before=before: (ui.text(app), app.screen) != before)
            if isinstance(app.screen, RunScreen):
                app.open_screen(name)
            else:
                await pilot.press("escape")


async def test_every_action_of_the_registry_is_handled() -> None:
    missing = [
        (screen.NAME, action.id)
        for screen in map(screen_class, SCREENS)
        for action in actions_on(screen.NAME)
        if action.verb is None and not action.opens and not hasattr(screen, f"do_{action.id}")
    ]
    assert missing == []
    assert {action.opens for action in ACTIONS if action.opens} == set(SCREENS)


async def test_a_click_on_the_footer_acts(client: Any, make_app: MakeApp, ui: Any) -> None:
    app = make_app(client)
    async with ui.run(app, size=(100, 30)) as pilot:
        await ui.ready(pilot)
        column = ui.text(app).split("\n")[-1].index("? Help")
        await pilot.click(offset=(column, 29))
        await ui.until(pilot, lambda: isinstance(app.screen, HelpScreen))


# Leaving


@pytest.mark.parametrize("key", ["q", "ctrl+q"])
async def test_quit_is_detach(key: str, client: Any, make_app: MakeApp, ui: Any) -> None:
    app = make_app(client)
    async with ui.run(app, size=(100, 30)) as pilot:
        await ui.ready(pilot)
        await pilot.press(key)
        await ui.until(pilot, lambda: not app.is_running or app._exit)
    assert client.sent == []


async def test_ctrl_c_only_says_how_to_leave(client: Any, make_app: MakeApp, ui: Any) -> None:
    app = make_app(client)
    async with ui.run(app, size=(100, 30)) as pilot:
        await ui.ready(pilot)
        await pilot.press("ctrl+c")
        await ui.until(pilot, lambda: "q leaves the screen" in ui.text(app))
        assert client.sent == [] and not app._exit
