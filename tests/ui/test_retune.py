"""The dialog of a retune: present values, explanations, what is sent, what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from eagle_tui.protocol import Preview, Setting, Tuning
from eagle_tui.ui.app import EagleApp
from eagle_tui.ui.screens.overview import OverviewScreen
from eagle_tui.ui.screens.retune import RetuneDialog
from eagle_tui.ui.widgets.settings import explanation, hint

MakeApp = Callable[..., EagleApp]

SETTINGS = (
    Setting(key="mem-fraction-static", kind="float", value="0.85", source="run.toml", help="share"),
    Setting(key="max-running-requests", kind="int", value="48", source="retune", help="batch"),
    Setting(key="schedule-policy", kind="choice", choices=("lpm", "fcfs"), help="which comes next"),
    Setting(key="hicache-size", kind="int", known=False, help="GB per rank"),
)


def tell(client: Any, *names: str) -> None:
    """The scene's servers have these names, and settings that can be retuned."""
    one = client.now.servers[0]
    servers = tuple(one.model_copy(update={"name": name}) for name in names)
    client.now = client.now.model_copy(update={"servers": servers})
    client.tunings = {name: Tuning(server=name, settings=SETTINGS) for name in names}


async def test_what_is_typed_is_previewed_and_sent(client: Any, make_app: MakeApp, ui: Any) -> None:
    tell(client, "sglang")
    app = make_app(client)
    async with ui.run(app, size=(100, 40)) as pilot:
        await ui.ready(pilot)
        await pilot.press("m")
        assert isinstance(app.screen, RetuneDialog)
        await ui.until(pilot, lambda: "0.85  (run.toml)" in ui.text(app))
        assert "48  (retuned)" in ui.text(app)
        assert "not known to the installed server" in ui.text(app)
        await ui.until(pilot, lambda: "Share. `default` goes back" in ui.text(app))
        assert client.asked == [], "nothing was typed, so nothing is refused"
        await pilot.press(*"0.88", "tab", "tab", *"lpm")
        assert "One of lpm, fcfs." in ui.text(app)
        wanted = {"mem-fraction-static": "0.88", "schedule-policy": "lpm"}
        await ui.until(pilot, lambda: client.asked[-1:] == [("retune", _args("sglang", wanted))])
        await ui.until(pilot, lambda: "retune would be done" in ui.text(app))
        await pilot.press("enter")
        await ui.until(pilot, lambda: isinstance(app.screen, OverviewScreen))
        assert client.sent == [("retune", _args("sglang", wanted))]


def _args(server: str, settings: dict[str, str]) -> dict[str, Any]:
    return {"server": server, "settings": settings, "in_flight": "hold"}


async def test_other_flags_are_typed_by_name(client: Any, make_app: MakeApp, ui: Any) -> None:
    tell(client, "sglang")
    app = make_app(client)
    async with ui.run(app, size=(100, 40)) as pilot:
        await ui.ready(pilot)
        await pilot.press("m")
        await ui.until(pilot, lambda: "0.85  (run.toml)" in ui.text(app))
        await pilot.press("shift+tab", "shift+tab", *"page-size", "enter")
        await ui.until(pilot, lambda: "Write other flags as NAME=VALUE" in ui.text(app))
        await pilot.press(*"=16 tp=4", "enter")
        wanted = _args("sglang", {"page-size": "16", "tp": "4"})
        await ui.until(pilot, lambda: client.sent == [("retune", wanted)])


async def test_how_requests_in_flight_are_left(client: Any, make_app: MakeApp, ui: Any) -> None:
    tell(client, "sglang")
    app = make_app(client)
    async with ui.run(app, size=(100, 40)) as pilot:
        await ui.ready(pilot)
        await pilot.press("m")
        await ui.until(pilot, lambda: "0.85  (run.toml)" in ui.text(app))
        assert "in flight" in ui.text(app)
        await pilot.press(*"0.9", "shift+tab", "right", "enter")
        wanted = _args("sglang", {"mem-fraction-static": "0.9"}) | {"in_flight": "drain"}
        await ui.until(pilot, lambda: client.sent == [("retune", wanted)])


async def test_a_refusal_stands_in_the_dialog(client: Any, make_app: MakeApp, ui: Any) -> None:
    tell(client, "sglang")
    sentence = "sglang: mem-fraction-static is a share between 0 and 1, not 7"
    client.previews["retune"] = Preview(allowed=False, sentence=sentence)
    app = make_app(client)
    async with ui.run(app, size=(80, 24)) as pilot:
        await ui.ready(pilot)
        await pilot.press("m")
        await ui.until(pilot, lambda: "0.85  (run.toml)" in ui.text(app))
        await pilot.press("7")
        await ui.until(pilot, lambda: "Refused: sglang: mem-fraction-static" in ui.text(app))
        assert "Esc leave" in ui.text(app), "all of it fits in 24 rows"
        await pilot.press("enter", "escape")
        await ui.until(pilot, lambda: isinstance(app.screen, OverviewScreen))
        assert client.sent == []


async def test_one_server_of_several_or_all(client: Any, make_app: MakeApp, ui: Any) -> None:
    tell(client, "a", "b")
    client.tunings["b"] = Tuning(
        server="b", settings=(SETTINGS[0].model_copy(update={"value": "0.70"}), *SETTINGS[1:])
    )
    app = make_app(client)
    async with ui.run(app, size=(100, 40)) as pilot:
        await ui.ready(pilot)
        await pilot.press("m")
        await ui.until(pilot, lambda: "0.85  (run.toml)" in ui.text(app))
        await pilot.press(*"0.9", "enter")
        await ui.until(pilot, lambda: len(client.sent) == 1)
        both = {"settings": {"mem-fraction-static": "0.9"}, "in_flight": "hold"}
        assert client.sent[0] == ("retune", both)
        await pilot.press("m")
        await ui.until(pilot, lambda: "0.85  (run.toml)" in ui.text(app))
        await pilot.press("shift+tab", "right", "right")
        await ui.until(pilot, lambda: "0.70  (run.toml)" in ui.text(app))
        await pilot.press("tab", *"0.9", "enter")
        await ui.until(pilot, lambda: len(client.sent) == 2)
        assert client.sent[1] == ("retune", _args("b", {"mem-fraction-static": "0.9"}))


async def test_what_is_not_known_yet_is_asked_for_again(
    client: Any, make_app: MakeApp, ui: Any
) -> None:
    tell(client, "sglang")
    known = client.tunings["sglang"]
    client.tunings["sglang"] = known.model_copy(update={"note": "it is being looked up"})
    app = make_app(client)
    async with ui.run(app, size=(100, 40)) as pilot:
        await ui.ready(pilot)
        await pilot.press("m")
        await ui.until(pilot, lambda: "sglang: it is being looked up." in ui.text(app))
        await pilot.press(*"0.9")
        settings = (SETTINGS[0].model_copy(update={"value": "0.66"}), *SETTINGS[1:])
        client.tunings["sglang"] = Tuning(server="sglang", settings=settings)
        await ui.until(pilot, lambda: "it is being looked up" not in ui.text(app))
        assert "0.9" in ui.text(app), "what was typed stays"


def test_words_of_a_setting() -> None:
    assert [hint(s) for s in SETTINGS] == [
        "0.85  (run.toml)",
        "48  (retuned)",
        "the server's own default",
        "not known to the installed server",
    ]
    assert explanation(SETTINGS[2]) == "Which comes next. One of lpm, fcfs."
