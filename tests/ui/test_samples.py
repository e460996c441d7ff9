"""The sample pane: hostile and huge texts, folding, reading while newer ones come."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from eagle_tui.ui.app import EagleApp
from eagle_tui.ui.screens.dialog import ActionDialog

MakeApp = Callable[..., EagleApp]


# Samples


HOSTILE = "[/path] [b + [bold]x[/] \x1b[2J\x1b]52;c;QUJD\x07 \x9b31m \u202e \ud800 \r\nnext"


async def test_hostile_text_is_shown_and_harms_nothing(
    client: Any, make_app: MakeApp, ui: Any
) -> None:
    client.all_samples = [
        ui.sample(prompt=HOSTILE, reasoning=HOSTILE, content=HOSTILE, finish_reason="\x1b[5m[/x]")
    ]
    status = client.now.model_dump()
    status["run"]["name"] = "[red]\x1b[31mname"
    status["alerts"][0]["sentence"] = "[/] \x1b]0;title\x07"
    status["datasets"][3]["name"] = "b2_opencodeinstruct"
    status["datasets"][4]["name"] = "[/x]\x1b[1m"
    status["gpus"][0]["name"] = "\x1b[7mGPU[/]"
    client.now = type(client.now).model_validate(status)
    app = make_app(client)
    async with ui.run(app, size=(200, 50)) as pilot:
        await ui.ready(pilot)
        text = ui.text(app)
        assert "[/path] [b + [bold]x[/] ␛[2J␛]52;c;QUJD␇" in text
        assert not any(ord(char) < 0x20 and char != "\n" for char in text)
        assert "\x7f" not in text and "\x9b" not in text
        await pilot.press("f", "pagedown", "down", "c")
        assert isinstance(app.screen, ActionDialog)
        await pilot.press("escape", "e")
        assert "\x1b" not in ui.text(app)


async def test_a_line_of_a_megabyte_costs_no_more_than_a_page(
    client: Any, make_app: MakeApp, ui: Any
) -> None:
    client.all_samples = [
        ui.sample(content="word " * 200_000),
        ui.sample(id="i", content="x" * 10**6),
    ]
    app = make_app(client)
    async with ui.run(app, size=(200, 50)) as pilot:
        await ui.ready(pilot)
        started = time.monotonic()
        await pilot.press("end", "home", "pagedown", "right_square_bracket", "f")
        assert time.monotonic() - started < 3.0
        await pilot.press("end")
        assert "xxxx" in ui.text(app)


async def test_reasoning_and_answer_are_apart_and_fold(
    client: Any, make_app: MakeApp, ui: Any
) -> None:
    app = make_app(client)
    async with ui.run(app, size=(200, 50)) as pilot:
        await ui.ready(pilot)
        assert "reasoning  189 tokens" in ui.text(app) and "answer  247 tokens" in ui.text(app)
        assert "Edge cases" in ui.text(app)
        await pilot.press("f")
        await ui.until(pilot, lambda: "Edge cases" not in ui.text(app))
        assert "f unfolds" in ui.text(app) and "def merge" in ui.text(app)


async def test_samples_older_newer_and_kinds(client: Any, make_app: MakeApp, ui: Any) -> None:
    app = make_app(client)
    async with ui.run(app, size=(200, 50)) as pilot:
        await ui.ready(pilot)
        await pilot.press("right_square_bracket")
        await ui.until(pilot, lambda: "2/3" in ui.text(app))
        assert "no answer after the reasoning" in ui.text(app) or "no_answer" in ui.text(app)
        await pilot.press("left_square_bracket")
        await ui.until(pilot, lambda: "1/3" in ui.text(app))
        await pilot.press("v", "v", "v")
        await ui.until(pilot, lambda: "no_answer 1/1" in ui.text(app))
        await pilot.press("v")
        await ui.until(pilot, lambda: "none stored yet" in ui.text(app))


async def test_while_one_reads_newer_samples_wait(client: Any, make_app: MakeApp, ui: Any) -> None:
    app = make_app(client)
    async with ui.run(app, size=(200, 50)) as pilot:
        await ui.ready(pilot)
        await pilot.press("pagedown")
        client.all_samples.insert(0, ui.sample(id="new", content="brand new answer"))
        app.main.load_soon()
        await ui.until(pilot, lambda: "1 newer ([)" in ui.text(app))
        assert "brand new answer" not in ui.text(app)
        await pilot.press("left_square_bracket")
        await ui.until(pilot, lambda: "brand new answer" in ui.text(app))


async def test_the_sample_follows_the_selected_dataset(
    client: Any, make_app: MakeApp, ui: Any
) -> None:
    app = make_app(client)
    async with ui.run(app, size=(200, 50)) as pilot:
        await ui.ready(pilot)
        await pilot.press("down")
        await ui.until(pilot, lambda: "Count words in a file with awk" in ui.text(app))
        await pilot.press("up")
        await ui.until(pilot, lambda: "merges overlapping" in ui.text(app))
