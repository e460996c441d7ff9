"""The screens that are read, driven by keys: samples, logs, events, over files of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import scene_files

from eagle_tui.protocol import CommandStatus
from eagle_tui.reader.files import RunFiles
from eagle_tui.rundir.paths import RunDir
from eagle_tui.ui.app import EagleApp
from eagle_tui.ui.screens.dialog import ActionDialog
from eagle_tui.ui.screens.events import EventsScreen
from eagle_tui.ui.screens.logs import LogsScreen
from eagle_tui.ui.screens.samples import SamplesScreen

MakeApp = Callable[..., EagleApp]
SIZES = [(80, 24), (200, 50)]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunDir]:
    """A run with responses and logs, hostile ones among them."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return scene_files.build(tmp_path / "run")


@pytest.fixture
def reading(client: Any, run: RunDir) -> Any:
    """The recorded run with its files."""
    client._records = RunFiles(run)
    return client


def harmless(text: str) -> bool:
    return not any(ord(c) < 0x20 and c != "\n" for c in text) and not set("\x7f\x9b\u202e") & set(
        text
    )


def screen(app: EagleApp, kind: type) -> Any:
    assert isinstance(app.shown, kind)
    return app.shown


async def opened(pilot: Any, app: EagleApp, ui: Any, key: str, kind: type, ready: Any) -> Any:
    await ui.ready(pilot)
    await pilot.press(key)
    await ui.until(pilot, lambda: isinstance(app.shown, kind) and ready(app.shown))
    return screen(app, kind)


def has_lines(samples: SamplesScreen) -> bool:
    return bool(samples.reader.lines)


@pytest.mark.parametrize("size", SIZES)
async def test_samples_are_listed_and_read(
    size: tuple[int, int], reading: Any, make_app: MakeApp, ui: Any
) -> None:
    app = make_app(reading)
    async with ui.run(app, size=size) as pilot:
        samples = await opened(pilot, app, ui, "3", SamplesScreen, has_lines)
        assert "newest" in ui.text(app) and "262,144 out" in ui.text(app)
        # A megabyte in one line, then what would harm a terminal, was it let through.
        assert any("xxxx" in line.text for line in samples.reader.lines)
        await pilot.press("down")
        await ui.until(pilot, lambda: "[bold]x[/] ␛[2J␛]52;c;QUJD␇" in ui.text(app))
        await pilot.press("enter", "pagedown", "down", "end", "home")
        assert harmless(ui.text(app)) and samples.has_class("-full")
        await pilot.press("q")
        assert not samples.has_class("-full") and app.shown is samples
        await pilot.press("q")
        await ui.until(pilot, lambda: app.shown is app.main)


async def test_samples_by_order_dataset_and_text(reading: Any, make_app: MakeApp, ui: Any) -> None:
    app = make_app(reading)
    async with ui.run(app, size=(200, 50)) as pilot:
        samples = await opened(pilot, app, ui, "3", SamplesScreen, has_lines)
        book = samples.book
        await pilot.press("v")
        await ui.until(pilot, lambda: book.done and book.order == "longest")
        assert book.heads[0].completion_tokens == 262_144
        await pilot.press("v")
        await ui.until(pilot, lambda: book.done and book.heads)
        assert {head.state for head in book.heads} == {"truncated"}
        await pilot.press("v", "v", "v")
        await ui.until(pilot, lambda: book.done and book.order == "flagged")
        assert [head.dataset for head in book.heads] == ["b1_glaive"]
        await pilot.press("v", "d", "d", "d")
        await ui.until(pilot, lambda: book.heads and book.dataset == "b1_glaive")
        assert {head.dataset for head in book.heads} == {"b1_glaive"}
        await pilot.press("d", "slash", *"PRIMES", "enter")
        await ui.until(pilot, lambda: book.done and book.heads)
        assert {head.title for head in book.heads} == {scene_files.QUESTIONS[4]}
        await pilot.press("slash", *"!!", "enter")
        await ui.until(pilot, lambda: "No sample holds that text." in ui.text(app))
        await pilot.press("q")
        await ui.until(pilot, lambda: book.heads and not book.text)


async def test_the_list_stands_still_while_one_reads(
    reading: Any, run: RunDir, make_app: MakeApp, ui: Any
) -> None:
    app = make_app(reading)
    async with ui.run(app, size=(120, 40)) as pilot:
        samples = await opened(pilot, app, ui, "3", SamplesScreen, has_lines)
        await pilot.press("down")
        held = samples.book.current
        for number in range(12):
            row = scene_files.response("b1_glaive", 2000 + number, scene_files.NOW + number)
            scene_files.append(run, row)
        await samples.load()
        await ui.until(pilot, lambda: "12 newer (n)" in ui.text(app))
        assert samples.book.current == held
        await pilot.press("n")
        await ui.until(pilot, lambda: "12 newer" not in ui.text(app))
        assert samples.book.current.id.startswith("b1002011")
        # At the newest one the list goes along.
        scene_files.append(run, scene_files.response("b1_glaive", 3000, scene_files.NOW + 99))
        await samples.load()
        assert samples.book.current.id.startswith("b1003000")


async def test_reasoning_and_answer_fold(reading: Any, make_app: MakeApp, ui: Any) -> None:
    app = make_app(reading)
    async with ui.run(app, size=(120, 40)) as pilot:
        await opened(pilot, app, ui, "3", SamplesScreen, has_lines)
        await pilot.press("down", "down")
        await ui.until(pilot, lambda: "Edge cases" in ui.text(app) and "def merge" in ui.text(app))
        await pilot.press("f")
        await ui.until(pilot, lambda: "Edge cases" not in ui.text(app))
        assert "f unfolds" in ui.text(app) and "def merge" in ui.text(app)
        await pilot.press("F")
        await ui.until(pilot, lambda: "def merge" not in ui.text(app))
        await pilot.press("f")
        await ui.until(pilot, lambda: "Edge cases" in ui.text(app))


async def test_tokens_show_what_is_predicted(reading: Any, make_app: MakeApp, ui: Any) -> None:
    app = make_app(reading)
    async with ui.run(app, size=(200, 50)) as pilot:
        await opened(pilot, app, ui, "3", SamplesScreen, has_lines)
        await pilot.press("down", "down", "t")
        await ui.until(pilot, lambda: "of them predicted in training" in ui.text(app), 60)
        text = ui.text(app)
        assert "prompt  41 tokens" in text and "response  159 tokens" in text
        assert "▪518" in text and " 41 " in text and "▪41 " not in text
        await pilot.press("q")
        await ui.until(pilot, lambda: "Edge cases" in ui.text(app))
    await reading.records.close_files()


async def test_copy_goes_to_the_clipboard_and_a_file(
    reading: Any, tmp_path: Path, make_app: MakeApp, ui: Any
) -> None:
    app = make_app(reading)
    copied: list[str] = []
    app.copy_to_clipboard = copied.append  # type: ignore[method-assign]
    async with ui.run(app, size=(200, 50)) as pilot:
        samples = await opened(pilot, app, ui, "3", SamplesScreen, has_lines)
        await pilot.press("y")  # a megabyte: too long for a clipboard
        await ui.until(pilot, lambda: "Too long for a clipboard" in ui.text(app))
        await pilot.press("down")
        await ui.until(pilot, lambda: "2,300 out" in ui.text(app) and has_lines(samples))
        await pilot.press("y")
        await ui.until(pilot, lambda: copied)
        files = sorted((tmp_path / "cache" / "eagle-tui" / "copied").iterdir())
        assert len(files) == 2 and files[0].read_text() == copied[0] and harmless(copied[0])
        said = [note.message for note in app._notifications]
        assert any(str(files[0]) in message for message in said)
        await ui.until(pilot, lambda: "Sent to the terminal's clipboard" in ui.text(app))


async def test_flag_is_an_order(reading: Any, make_app: MakeApp, ui: Any) -> None:
    app = make_app(reading)
    async with ui.run(app, size=(120, 40)) as pilot:
        samples = await opened(pilot, app, ui, "3", SamplesScreen, has_lines)
        head = samples.book.current
        await pilot.press("x")
        await ui.until(pilot, lambda: reading.sent and samples.book.current.flagged)
        await pilot.press("x")
        await ui.until(pilot, lambda: len(reading.sent) == 2 and not samples.book.current.flagged)
        args = {"dataset": head.dataset, "id": head.id}
        assert reading.sent == [("flag", args), ("flag", {**args, "undo": True})]
        reading.refuse = "the disk is full"
        await pilot.press("x")
        await ui.until(pilot, lambda: "the disk is full" in ui.text(app))


# Logs


def follows(logs: LogsScreen) -> bool:
    return bool(logs.window.lines) and logs.window.follow


@pytest.mark.parametrize("size", SIZES)
async def test_a_log_is_followed_and_scrolled(
    size: tuple[int, int], reading: Any, run: RunDir, make_app: MakeApp, ui: Any
) -> None:
    app = make_app(reading)
    async with ui.run(app, size=size) as pilot:
        logs = await opened(pilot, app, ui, "6", LogsScreen, follows)
        await ui.until(pilot, lambda: "07:59:59 TP0] Decode batch" in ui.text(app))
        assert harmless(ui.text(app)) and "␛[2J␛]52;c;QUJD␇" in ui.text(app)
        with (run.logs / "server-kimi-0002.log").open("a") as file:
            file.write("one more line\n")
        await logs.load()
        assert "one more line" in ui.text(app)
        await pilot.press("pageup")
        assert not logs.window.follow and "%" in ui.text(app)
        await pilot.press("home")
        await ui.until(pilot, lambda: "server_args=ServerArgs" in ui.text(app))
        assert "shards: 100%" in ui.text(app), "of a progress bar the last state"
        await pilot.press("f")
        await ui.until(pilot, lambda: "one more line" in ui.text(app) and follows(logs))


async def test_a_log_is_searched_filtered_and_entered(
    reading: Any, make_app: MakeApp, ui: Any
) -> None:
    app = make_app(reading)
    async with ui.run(app, size=(120, 40)) as pilot:
        logs = await opened(pilot, app, ui, "6", LogsScreen, follows)
        window = logs.window
        await pilot.press("slash", *"retract", "enter")
        await ui.until(pilot, lambda: window.match is not None)
        first = window.match
        assert "WARNING: KV cache pool is full. Retract" in ui.text(app)
        await pilot.press("N")
        await ui.until(pilot, lambda: window.match < first)
        await pilot.press("n")
        await ui.until(pilot, lambda: window.match == first)
        await pilot.press("n")
        await ui.until(pilot, lambda: "not found after this place" in ui.text(app))
        await pilot.press("q", "v")
        await ui.until(pilot, lambda: window.level == "warning" and window.at_start)
        assert {line.level for line in window.lines} == {"warning", "error"}
        await pilot.press("v")
        await ui.until(pilot, lambda: window.level == "error" and len(window.lines) == 4)
        await pilot.press("v", "g", *"07:10", "enter")
        await ui.until(pilot, lambda: window.level is None and window.match is not None)
        found = next(line for line in window.lines if line.offset == window.match)
        assert "07:10:00" in found.text and "07:10:00" in ui.text(app)
        await pilot.press("g", *"50%", "enter")
        await ui.until(pilot, lambda: 0.4 < (window.share or 0) < 0.51)
        await pilot.press("g", *"noon", "enter")
        await ui.until(pilot, lambda: "no place in" in ui.text(app))


async def test_other_logs_and_a_line_of_a_megabyte(
    reading: Any, make_app: MakeApp, ui: Any
) -> None:
    app = make_app(reading)
    async with ui.run(app, size=(120, 40)) as pilot:
        logs = await opened(pilot, app, ui, "6", LogsScreen, follows)
        await pilot.press("right_square_bracket")
        await ui.until(pilot, lambda: logs.window.name == "supervisor-0001.log" and follows(logs))
        assert "yyyy" in ui.text(app) and "INFO: started" in ui.text(app)
        await pilot.press("w")
        assert "INFO: started" in ui.text(app) and len(logs.window.lines) > 200
        await pilot.press("w", "right")
        assert logs.view.shift > 0
        await pilot.press("right_square_bracket")
        await ui.until(pilot, lambda: "This log is empty." in ui.text(app))
        await pilot.press("right_square_bracket")
        await ui.until(pilot, lambda: logs.window.name == "server-kimi-0002.log")


async def test_without_files_there_is_a_sentence(
    client: Any, tmp_path: Path, make_app: MakeApp, ui: Any
) -> None:
    client._records = RunFiles(RunDir(tmp_path))
    app = make_app(client)
    async with ui.run(app, size=(80, 24)) as pilot:
        await ui.ready(pilot)
        await pilot.press("3")
        await ui.until(pilot, lambda: "No response is stored yet." in ui.text(app))
        await pilot.press("6")
        await ui.until(pilot, lambda: "no log yet" in ui.text(app))


# Events


def listed(events: EventsScreen) -> bool:
    return bool(events.book.entries)


async def test_a_command_shows_how_far_it_came_and_is_taken_back(
    client: Any, make_app: MakeApp, ui: Any
) -> None:
    status = client.now.model_dump()
    at = status["at"]
    order = CommandStatus(
        id="cafe" * 8, verb="cap", args={"dataset": "b1_glaive", "tokens": 5_000_000}, at=at - 60,
        state="in_effect", origin="ui:me", accepted_at=at - 59.9, effect_at=at - 57.9,
        sentence="b1_glaive: cap at 5,000,000 tokens", undo="b1_glaive: no cap in tokens",
    )  # fmt: skip
    status["commands"] = (*status["commands"], order.model_dump())
    client.now = type(client.now).model_validate(status)
    app = make_app(client)
    async with ui.run(app, size=(110, 36)) as pilot:
        events = await opened(pilot, app, ui, "7", EventsScreen, listed)
        await pilot.press("slash", *"5,000", "enter")
        await ui.until(pilot, lambda: events.book.asked and len(events.book.entries) == 1)
        text = ui.text(app)
        assert "requested 07:59:00 → accepted +0.1 s → in effect +2.0 s" in text
        assert "u takes it back: b1_glaive: no cap in tokens" in text
        await pilot.press("u")
        await ui.until(pilot, lambda: client.asked)
        assert client.asked[-1] == ("undo", {"command": "cafe" * 8})
        await ui.until(pilot, lambda: "undo would be done." in ui.text(app))
        await pilot.press("enter")
        await ui.until(pilot, lambda: client.sent)
        assert client.sent == [("undo", {"command": "cafe" * 8})]
        await ui.until(pilot, lambda: app.screen is events)


async def test_what_cannot_be_taken_back_says_so(client: Any, make_app: MakeApp, ui: Any) -> None:
    app = make_app(client)
    async with ui.run(app, size=(110, 36)) as pilot:
        events = await opened(pilot, app, ui, "7", EventsScreen, listed)
        await ui.until(pilot, lambda: events.book.current.command is not None)
        await pilot.press("u")
        await ui.until(pilot, lambda: "cannot be taken back" in ui.text(app))
        await pilot.press("home", "u")
        await ui.until(pilot, lambda: "Select the command" in ui.text(app))
        assert not isinstance(app.screen, ActionDialog) and client.sent == []


async def test_events_are_filtered_and_hostile_ones_harm_nothing(
    client: Any, make_app: MakeApp, ui: Any
) -> None:
    event = client.all_events[-1]
    for number, severity in enumerate(("info", "error")):
        client.all_events.append(
            event.model_copy(
                update={
                    "id": 500 + number,
                    "severity": severity,
                    "source": "[/x]\x1b[1m",
                    "text": scene_files.HOSTILE + scene_files.WIDE + "z" * (1 << 20),
                }
            )
        )
    app = make_app(client)
    async with ui.run(app, size=(80, 24)) as pilot:
        events = await opened(pilot, app, ui, "7", EventsScreen, listed)
        everything = len(events.book.entries)
        await pilot.press("v")
        await ui.until(pilot, lambda: events.book.severity == "warning" and listed(events))
        assert len(events.book.entries) < everything
        await pilot.press("v")
        await ui.until(pilot, lambda: events.book.severity == "error" and listed(events))
        assert harmless(ui.text(app)) and "␛[2J" in ui.text(app)
        await pilot.press("q", "slash", *"@sglang", "enter")
        await ui.until(pilot, lambda: events.book.asked and listed(events))
        assert {e.event.source for e in events.book.entries} == {"sglang"}
