"""The screen driven by keys: orders, refusals, a silent supervisor, hostile samples."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import Input

from eagle_tui.actions import ACTIONS, BY_ID
from eagle_tui.protocol import Preview, Sample
from eagle_tui.ui.app import EagleApp
from eagle_tui.ui.canvas import Canvas
from eagle_tui.ui.keys import key_text
from eagle_tui.ui.screens.dialog import ActionDialog, Words
from eagle_tui.ui.screens.events import EventsScreen
from eagle_tui.ui.screens.help import HelpScreen
from eagle_tui.ui.screens.main import MainScreen

MakeApp = Callable[..., EagleApp]


def text_of(app: EagleApp) -> str:
    """What stands on the screen on top, as plain text."""
    return "\n".join(strip.text for strip in app.screen._compositor.render_strips())


async def until(pilot: Pilot[None], what: Callable[[], Any], seconds: float = 5.0) -> None:
    """Wait until `what()` holds; fails with the screen's text when it never does."""
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, text_of(pilot.app)  # type: ignore[arg-type]
        await pilot.pause(0.02)


def run(app: EagleApp, size: tuple[int, int]) -> AbstractAsyncContextManager[Pilot[None]]:
    """The app without a terminal, with its toasts."""
    return app.run_test(size=size, notifications=True)


async def ready(pilot: Pilot[None]) -> None:
    """Wait for the first snapshot and the samples."""
    app = pilot.app
    assert isinstance(app, EagleApp)
    await until(pilot, lambda: app.frame is not None and app.main.samples.current is not None)
    await pilot.pause(0.05)


# Orders


async def test_pause_sends_the_mode_chosen(client: Any, make_app: MakeApp) -> None:
    app = make_app(client)
    async with run(app, size=(100, 30)) as pilot:
        await ready(pilot)
        await pilot.press("p")
        assert isinstance(app.screen, ActionDialog)
        assert "In flight now: 198 requests of 2 datasets." in text_of(app)
        await pilot.press("right")
        await until(pilot, lambda: ("pause", {"mode": "drain"}) in client.asked)
        await pilot.press("y")
        await until(pilot, lambda: isinstance(app.screen, MainScreen))
        assert client.sent == [("pause", {"mode": "drain"})]


async def test_pause_holds_by_default(client: Any, make_app: MakeApp) -> None:
    app = make_app(client)
    async with run(app, size=(100, 30)) as pilot:
        await ready(pilot)
        await pilot.press("p", "enter")
        await until(pilot, lambda: client.sent == [("pause", {"mode": "hold"})])


async def test_resume_needs_no_dialog(client: Any, make_app: MakeApp) -> None:
    app = make_app(client)
    async with run(app, size=(100, 30)) as pilot:
        await ready(pilot)
        await pilot.press("r")
        await until(pilot, lambda: client.sent == [("resume", {})])
        assert isinstance(app.screen, MainScreen)


async def test_cap_shows_what_it_saves_before_yes(client: Any, make_app: MakeApp) -> None:
    app = make_app(client)
    async with run(app, size=(100, 30)) as pilot:
        await ready(pilot)
        await pilot.press("down", "c", *"250k")
        await until(pilot, lambda: client.asked)
        wanted = {"dataset": "b3_magicoder", "tokens": 250_000}
        await until(pilot, lambda: client.asked[-1] == ("cap", wanted))
        await until(pilot, lambda: "saves 5.2–8.9 h" in text_of(app))
        assert client.sent == []
        await pilot.press("enter")
        await until(pilot, lambda: client.sent == [("cap", wanted)])


async def test_cap_takes_the_dataset_that_is_chosen_in_the_dialog(
    client: Any, make_app: MakeApp
) -> None:
    app = make_app(client)
    async with run(app, size=(100, 30)) as pilot:
        await ready(pilot)
        await pilot.press("c", "shift+tab", "left", "tab", "tab", *"500", "y")
        wanted = ("cap", {"dataset": "b1_glaive", "samples": 500})
        await until(pilot, lambda: client.sent == [wanted])


async def test_what_is_no_count_is_said_and_not_sent(client: Any, make_app: MakeApp) -> None:
    app = make_app(client)
    async with run(app, size=(100, 30)) as pilot:
        await ready(pilot)
        await pilot.press("c", *"10X", "enter")
        await until(pilot, lambda: "'10X' is not a count" in text_of(app))
        assert client.sent == []


async def test_a_required_value_is_asked_for(client: Any, make_app: MakeApp) -> None:
    app = make_app(client)
    async with run(app, size=(100, 30)) as pilot:
        await ready(pilot)
        await pilot.press("n", "enter")
        await until(pilot, lambda: "Give value: Requests in flight." in text_of(app))
        await pilot.press(*"48", "enter")
        wanted = ("concurrency", {"dataset": "b2_opencodeinstruct", "value": 48})
        await until(pilot, lambda: client.sent == [wanted])


async def test_work_is_thrown_away_only_after_it_was_said(client: Any, make_app: MakeApp) -> None:
    app = make_app(client)
    async with run(app, size=(100, 30)) as pilot:
        await ready(pilot)
        await pilot.press("a", "enter")  # before the preview came
        await until(pilot, lambda: "This throws work away" in text_of(app))
        assert client.sent == []
        await pilot.press("enter")
        await until(pilot, lambda: client.sent == [("advance", {"phase": "generate"})])


async def test_what_the_preview_refuses_is_not_sent(client: Any, make_app: MakeApp) -> None:
    client.previews["skip"] = Preview(allowed=False, sentence="it is the last dataset")
    app = make_app(client)
    async with run(app, size=(100, 30)) as pilot:
        await ready(pilot)
        await pilot.press("s")
        await until(pilot, lambda: "Refused: it is the last dataset" in text_of(app))
        await pilot.press("enter", "y")
        await pilot.pause(0.1)
        assert client.sent == [] and isinstance(app.screen, ActionDialog)


async def test_a_refused_order_shows_its_reason(client: Any, make_app: MakeApp) -> None:
    client.refuse = "generate is not running"
    app = make_app(client)
    async with run(app, size=(100, 30)) as pilot:
        await ready(pilot)
        await pilot.press("r")
        await until(pilot, lambda: "generate is not running" in text_of(app))
        await pilot.press("p", "enter")
        await until(pilot, lambda: "Refused: generate is not running" in text_of(app))
        assert isinstance(app.screen, ActionDialog), "the dialog stays, so that one can correct it"


@pytest.mark.parametrize("key", ["escape", "q"])
async def test_a_dialog_is_left_without_an_order(key: str, client: Any, make_app: MakeApp) -> None:
    app = make_app(client)
    async with run(app, size=(100, 30)) as pilot:
        await ready(pilot)
        for action in ACTIONS:
            if action.verb and (action.params or action.confirm) and action.id != "order":
                await pilot.press(str(action.key), key)
                await until(pilot, lambda: isinstance(app.screen, MainScreen))
        assert client.sent == []


async def test_names_may_hold_any_letter(client: Any, make_app: MakeApp) -> None:
    app = make_app(client)
    async with run(app, size=(100, 30)) as pilot:
        await ready(pilot)
        await pilot.press("o")
        app.screen.query_one(Input).value = ""
        await pilot.press(*"query", "comma", *" toy", "enter")
        await until(pilot, lambda: client.sent == [("order", {"datasets": ["query", "toy"]})])


async def test_stopping_the_run_asks_first(client: Any, make_app: MakeApp) -> None:
    app = make_app(client)
    async with run(app, size=(100, 30)) as pilot:
        await ready(pilot)
        await pilot.press("X")
        await until(pilot, lambda: "down would be done." in text_of(app))
        assert client.sent == []
        await pilot.press("y")
        await until(pilot, lambda: client.sent == [("down", {})])


async def test_a_read_only_screen_sends_nothing(client: Any, make_app: MakeApp) -> None:
    app = make_app(client, readonly=True)
    async with run(app, size=(100, 30)) as pilot:
        await ready(pilot)
        for action in ACTIONS:
            if action.verb:
                await pilot.press(str(action.key))
                assert isinstance(app.screen, MainScreen)
        await pilot.press("y", "enter")
        await pilot.pause(0.1)
        assert client.sent == [] and "read-only" in text_of(app)


# Footer truth


@pytest.mark.parametrize("size", [(80, 24), (200, 50), (60, 20)])
async def test_every_key_in_the_footer_does_something(
    size: tuple[int, int], client: Any, make_app: MakeApp
) -> None:
    ids = {action.id for action in ACTIONS if action.footer}
    seen = set()
    for action_id in sorted(ids):
        app = make_app(client)
        client.sent.clear()
        async with run(app, size=size) as pilot:
            await ready(pilot)
            shown = {action.id: label for action, label in app.main.footer.shown()}
            if action_id not in shown:
                continue
            seen.add(action_id)
            action = BY_ID[action_id]
            assert f"{key_text(str(action.key))} {shown[action_id]}" in text_of(app).split("\n")[-1]
            before = (text_of(app), app.screen, app.is_running)
            await pilot.press(str(action.key))
            await pilot.pause(0.05)
            after = (text_of(app) if app.is_running else "", app.screen, app.is_running)
            assert after != before, f"{action_id} is in the footer and does nothing"
            if action_id == "quit":
                assert app._exit
    assert {"pause", "cap", "help", "quit"} <= seen


async def test_every_action_of_the_registry_is_handled(client: Any, make_app: MakeApp) -> None:
    missing = [
        action.id
        for action in ACTIONS
        if action.verb is None and not hasattr(MainScreen, f"_do_{action.id}")
    ]
    assert missing == []


async def test_a_click_on_the_footer_acts(client: Any, make_app: MakeApp) -> None:
    app = make_app(client)
    async with run(app, size=(100, 30)) as pilot:
        await ready(pilot)
        column = text_of(app).split("\n")[-1].index("? Help")
        await pilot.click(offset=(column, 29))
        await until(pilot, lambda: isinstance(app.screen, HelpScreen))


# Leaving


@pytest.mark.parametrize("key", ["q", "ctrl+q"])
async def test_quit_is_detach(key: str, client: Any, make_app: MakeApp) -> None:
    app = make_app(client)
    async with run(app, size=(100, 30)) as pilot:
        await ready(pilot)
        await pilot.press(key)
        await until(pilot, lambda: not app.is_running or app._exit)
    assert client.sent == []


async def test_ctrl_c_only_says_how_to_leave(client: Any, make_app: MakeApp) -> None:
    app = make_app(client)
    async with run(app, size=(100, 30)) as pilot:
        await ready(pilot)
        await pilot.press("ctrl+c")
        await until(pilot, lambda: "q leaves the screen" in text_of(app))
        assert client.sent == [] and not app._exit


# A supervisor that does not answer


async def test_a_silent_supervisor_is_said_and_comes_back(client: Any, make_app: MakeApp) -> None:
    app = make_app(client)
    async with run(app, size=(120, 40)) as pilot:
        await ready(pilot)
        client.gone = "The supervisor of /runs/x is gone; start it with `eagle-tui up`."
        await until(pilot, lambda: "The supervisor of /runs/x is gone" in text_of(app))
        assert app.main.has_class("-stale")
        app.clock.advance(75)  # type: ignore[attr-defined]
        await until(pilot, lambda: "the figures are 1m old" in text_of(app))
        assert "b2_opencodeinstruct" in text_of(app), "the last figures stay"
        polls = client.polls
        await until(pilot, lambda: client.polls > polls + 1)
        client.gone = ""
        await until(pilot, lambda: not app.main.has_class("-stale"))
        assert "is gone" not in text_of(app)


async def test_a_supervisor_that_never_answered_is_said_too(client: Any, make_app: MakeApp) -> None:
    client.gone = "There is no run at /runs/x."
    app = make_app(client)
    async with run(app, size=(80, 24)) as pilot:
        await until(pilot, lambda: "There is no run at /runs/x." in text_of(app))
        await pilot.press("p", "escape", "c", "escape", "e", "q", "question_mark", "q", "down")
        client.gone = ""
        await until(pilot, lambda: "kimi-k25-eagle3" in text_of(app))


async def test_slow_answers_never_overlap(client: Any, make_app: MakeApp) -> None:
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
    async with run(app, size=(80, 24)) as pilot:
        await pilot.pause(0.7)
        await pilot.press("down", "question_mark")
        assert isinstance(app.screen, HelpScreen), "keys act while an answer is awaited"
    assert most == 1


async def test_a_fault_of_our_own_is_shown_and_does_not_end_the_screen(
    client: Any, make_app: MakeApp
) -> None:
    app = make_app(client)
    async with run(app, size=(120, 40)) as pilot:
        await ready(pilot)

        async def broken() -> Any:
            raise RuntimeError("no such thing")

        client.status = broken
        await until(pilot, lambda: "The screen failed to read the run" in text_of(app))
        assert app.is_running


# Samples


def sample(**parts: Any) -> Sample:
    base = {
        "id": "h", "dataset": "b2_opencodeinstruct", "prompt": "p", "reasoning": "r",
        "content": "c", "state": "complete", "finish_reason": "stop", "prompt_tokens": 1,
        "completion_tokens": 2, "reasoning_tokens": 1, "endpoint": "e", "at": 0.0,
    }  # fmt: skip
    return Sample.model_validate(base | parts)


HOSTILE = "[/path] [b + [bold]x[/] \x1b[2J\x1b]52;c;QUJD\x07 \x9b31m \u202e \ud800 \r\nnext"


async def test_hostile_text_is_shown_and_harms_nothing(client: Any, make_app: MakeApp) -> None:
    client.all_samples = [
        sample(prompt=HOSTILE, reasoning=HOSTILE, content=HOSTILE, finish_reason="\x1b[5m[/x]")
    ]
    status = client.now.model_dump()
    status["run"]["name"] = "[red]\x1b[31mname"
    status["alerts"][0]["sentence"] = "[/] \x1b]0;title\x07"
    status["datasets"][3]["name"] = "b2_opencodeinstruct"
    status["datasets"][4]["name"] = "[/x]\x1b[1m"
    status["gpus"][0]["name"] = "\x1b[7mGPU[/]"
    client.now = type(client.now).model_validate(status)
    app = make_app(client)
    async with run(app, size=(200, 50)) as pilot:
        await ready(pilot)
        text = text_of(app)
        assert "[/path] [b + [bold]x[/] ␛[2J␛]52;c;QUJD␇" in text
        assert not any(ord(char) < 0x20 and char != "\n" for char in text)
        assert "\x7f" not in text and "\x9b" not in text
        await pilot.press("f", "pagedown", "down", "c")
        assert isinstance(app.screen, ActionDialog)
        await pilot.press("escape", "e")
        assert "\x1b" not in text_of(app)


async def test_a_line_of_a_megabyte_costs_no_more_than_a_page(
    client: Any, make_app: MakeApp
) -> None:
    client.all_samples = [sample(content="word " * 200_000), sample(id="i", content="x" * 10**6)]
    app = make_app(client)
    async with run(app, size=(200, 50)) as pilot:
        await ready(pilot)
        started = time.monotonic()
        await pilot.press("end", "home", "pagedown", "right_square_bracket", "f")
        assert time.monotonic() - started < 3.0
        await pilot.press("end")
        assert "xxxx" in text_of(app)


async def test_reasoning_and_answer_are_apart_and_fold(client: Any, make_app: MakeApp) -> None:
    app = make_app(client)
    async with run(app, size=(200, 50)) as pilot:
        await ready(pilot)
        assert "reasoning  189 tokens" in text_of(app) and "answer  247 tokens" in text_of(app)
        assert "Edge cases" in text_of(app)
        await pilot.press("f")
        await until(pilot, lambda: "Edge cases" not in text_of(app))
        assert "f unfolds" in text_of(app) and "def merge" in text_of(app)


async def test_samples_older_newer_and_kinds(client: Any, make_app: MakeApp) -> None:
    app = make_app(client)
    async with run(app, size=(200, 50)) as pilot:
        await ready(pilot)
        await pilot.press("right_square_bracket")
        await until(pilot, lambda: "2/3" in text_of(app))
        assert "no answer after the reasoning" in text_of(app) or "no_answer" in text_of(app)
        await pilot.press("left_square_bracket")
        await until(pilot, lambda: "1/3" in text_of(app))
        await pilot.press("v", "v", "v")
        await until(pilot, lambda: "no_answer 1/1" in text_of(app))
        await pilot.press("v")
        await until(pilot, lambda: "none stored yet" in text_of(app))


async def test_while_one_reads_newer_samples_wait(client: Any, make_app: MakeApp) -> None:
    app = make_app(client)
    async with run(app, size=(200, 50)) as pilot:
        await ready(pilot)
        await pilot.press("pagedown")
        client.all_samples.insert(0, sample(id="new", content="brand new answer"))
        app.main.load_samples()
        await until(pilot, lambda: "1 newer ([)" in text_of(app))
        assert "brand new answer" not in text_of(app)
        await pilot.press("left_square_bracket")
        await until(pilot, lambda: "brand new answer" in text_of(app))


async def test_the_sample_follows_the_selected_dataset(client: Any, make_app: MakeApp) -> None:
    app = make_app(client)
    async with run(app, size=(200, 50)) as pilot:
        await ready(pilot)
        await pilot.press("down")
        await until(pilot, lambda: "Count words in a file with awk" in text_of(app))
        await pilot.press("up")
        await until(pilot, lambda: "merges overlapping" in text_of(app))


# What is drawn


async def test_all_figures_of_a_dataset_stand_in_its_row(client: Any, make_app: MakeApp) -> None:
    app = make_app(client)
    async with run(app, size=(200, 50)) as pilot:
        await ready(pilot)
        rows = {line.split()[1]: line for line in text_of(app).split("\n")[:30] if "b" in line[:4]}
        row = rows["b2_opencodeinstruct"]
        for figure in ("► running", "3,489/14,714", "23%", "5.66M/10.0M", "26.4", "1.62k", "6.90k",
                       " 77 ", " 2 ", " 21 ", " 9 ", "99%", "150/150", "2.2–3.9 h",
                       "10:45"):  # fmt: skip
            assert figure in row, (figure, row)
        assert "none!" in rows["b5_openthoughts"], "no reasoning in 120 responses is a warning"


async def test_only_what_changed_is_repainted(
    client: Any, make_app: MakeApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = make_app(client, poll_s=3600)
    async with run(app, size=(200, 50)) as pilot:
        await ready(pilot)
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
        await until(pilot, lambda: "3,490/14,714" in text_of(app))
        assert {name for name, _ in painted} == {"ColumnCanvas"}
        assert sum(cells for _, cells in painted) < 60


async def test_servers_that_do_not_serve_say_so(client: Any, make_app: MakeApp) -> None:
    status = client.now.model_dump()
    status["servers"] = [
        {"name": "one", "state": "starting", "reason": "loading weights, 41 of 64 shards"},
        {"name": "two", "state": "ready", "tok_s": 430.0, "running": 20, "accept_length": 2.1},
    ]
    client.now = type(client.now).model_validate(status)
    app = make_app(client)
    async with run(app, size=(200, 50)) as pilot:
        await ready(pilot)
        text = text_of(app)
        assert "one  starting  loading weights, 41 of 64 shards" in text
        assert "two  ready  430 tok/s" in text
        assert "accept" in text and "2.10" in text


async def test_a_lost_and_a_stale_gpu_are_told(client: Any, make_app: MakeApp) -> None:
    status = client.now.model_dump()
    status["gpus"] = list(status["gpus"])
    status["gpus"][2] |= {"state": "lost", "util": None, "power_w": None}
    status["gpus"][3] |= {"age_s": 42.0}
    client.now = type(client.now).model_validate(status)
    app = make_app(client)
    async with run(app, size=(200, 50)) as pilot:
        await ready(pilot)
        lines = text_of(app).split("\n")
        assert any("2 RTX PRO 6000" in line and "lost" in line for line in lines)
        assert any("3 RTX PRO 6000" in line and "42s old" in line for line in lines)
        assert any("4 RTX PRO 6000" in line and "thermal slowdown" in line for line in lines)


@pytest.mark.parametrize(
    "size", [(1, 1), (20, 5), (60, 20), (80, 24), (119, 36), (120, 36), (300, 80)]
)
@pytest.mark.parametrize("mode", ["braille", "ascii"])
async def test_no_size_breaks_it(
    size: tuple[int, int], mode: str, client: Any, make_app: MakeApp
) -> None:
    app = make_app(client, glyphs_mode=mode)
    async with run(app, size=(200, 50)) as pilot:
        await ready(pilot)
        await pilot.resize_terminal(*size)
        await pilot.press("c", "escape", "question_mark", "q", "e", "q", "pagedown", "down")
        await pilot.pause(0.1)
        assert app.is_running
        if mode == "ascii" and size[0] >= 60:
            assert text_of(app).isascii()


async def test_many_datasets_scroll_with_the_cursor(client: Any, make_app: MakeApp) -> None:
    rows = [
        client.now.datasets[5].model_copy(update={"name": f"set{index:02}"}) for index in range(40)
    ]
    client.now = client.now.model_copy(update={"datasets": tuple(rows)})
    client.all_samples = [sample(dataset=f"set{index:02}") for index in range(40)]
    app = make_app(client)
    async with run(app, size=(80, 24)) as pilot:
        await ready(pilot)
        assert "set39" not in text_of(app)
        await pilot.press(*["down"] * 45)
        await until(pilot, lambda: "set39" in text_of(app))
        assert app.main.datasets.selected == "set39"
        await pilot.press(*["k"] * 45)
        await until(pilot, lambda: "set00" in text_of(app))


# Other screens, palette, themes


async def test_help_lists_every_action(client: Any, make_app: MakeApp) -> None:
    app = make_app(client)
    async with run(app, size=(120, 50)) as pilot:
        await ready(pilot)
        await pilot.press("question_mark")
        text = text_of(app)
        for action in ACTIONS:
            assert action.label in text and action.help.split(".")[0][:30] in text
            if action.verb:
                assert f"eagle-tui {action.verb}" in text


async def test_events_screen_shows_all_alerts_and_how_far_orders_came(
    client: Any, make_app: MakeApp
) -> None:
    app = make_app(client)
    async with run(app, size=(120, 50)) as pilot:
        await ready(pilot)
        await pilot.press("e")
        assert isinstance(app.screen, EventsScreen)
        text = text_of(app)
        assert "requested → accepted → in effect" in text
        assert "no dataset of the long kind has a response yet" in text
        assert "requested → refused" in text
        for alert in client.now.alerts:
            assert alert.sentence in text and alert.remedy in text
        await pilot.press("up", "home", "end", "e")
        assert isinstance(app.screen, MainScreen)


async def test_the_palette_holds_the_actions_and_the_themes(client: Any, make_app: MakeApp) -> None:
    app = make_app(client)
    async with run(app, size=(120, 40)) as pilot:
        await ready(pilot)
        await pilot.press("ctrl+p")
        await pilot.pause(0.2)
        await pilot.press(*"concurr")
        await pilot.pause(0.5)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, ActionDialog))
        await pilot.press("escape", "ctrl+p")
        await pilot.pause(0.2)
        await pilot.press(*"eagle-light")
        await pilot.pause(0.5)
        await pilot.press("enter")
        await until(pilot, lambda: app.theme == "eagle-light")


async def test_an_unknown_theme_falls_back_and_says_so(client: Any, make_app: MakeApp) -> None:
    app = make_app(client, theme="solar")
    async with run(app, size=(100, 30)) as pilot:
        await until(pilot, lambda: "no theme 'solar'" in text_of(app).replace("\n", " "))
        assert app.theme == "eagle-dark"


async def test_words_take_the_rows_they_need(client: Any, make_app: MakeApp) -> None:
    app = make_app(client)
    async with run(app, size=(60, 20)) as pilot:
        await ready(pilot)
        await pilot.press("p")
        about = app.screen.query_one("#about", Words)
        assert about.size.height >= 3
