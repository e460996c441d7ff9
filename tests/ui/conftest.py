"""A scripted client and apps on a clock that stands still."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from eagle_tui.client_api import ClientError, RunRecords
from eagle_tui.clock import ManualClock
from eagle_tui.protocol import CommandStatus, Event, History, Preview, Sample, Status
from eagle_tui.ui.app import EagleApp
from eagle_tui.ui.recorded import RecordedClient

DATA = Path(__file__).parent / "data"
sys.path.insert(0, str(Path(__file__).parent))


class FakeClient(RecordedClient):
    """A recorded scene that takes orders, remembers them, and can be made to fail."""

    gone: str = ""
    refuse: str = ""
    sent: list[tuple[str, dict[str, Any]]]
    asked: list[tuple[str, dict[str, Any]]]
    polls: int

    def __init__(self, scene: dict[str, Any], records: RunRecords | None = None) -> None:
        super().__init__(scene, records)
        self.sent, self.asked, self.polls = [], [], 0

    def _there(self) -> None:
        if self.gone:
            raise ClientError(self.gone)

    async def status(self) -> Status:
        self.polls += 1
        self._there()
        return await super().status()

    async def samples(self, dataset: str | None, kind: str, limit: int) -> list[Sample]:
        self._there()
        return await super().samples(dataset, kind, limit)

    async def events(self, after: int, limit: int) -> list[Event]:
        self._there()
        return await super().events(after, limit)

    async def history(
        self, series: str, since: float, step_s: float, until: float | None = None
    ) -> History:
        self._there()
        return await super().history(series, since, step_s, until)

    async def preview(self, verb: str, args: dict[str, Any]) -> Preview:
        self._there()
        self.asked.append((verb, args))
        allowed = Preview(allowed=True, sentence=f"{verb} would be done.")
        return self.previews.get(verb, allowed)

    async def command(self, verb: str, args: dict[str, Any]) -> CommandStatus:
        self._there()
        self.sent.append((verb, args))
        state = "refused" if self.refuse else "accepted"
        return CommandStatus.model_validate(
            {
                "id": f"c{len(self.sent)}",
                "verb": verb,
                "args": args,
                "state": state,
                "at": self.now.at,
                "reason": self.refuse,
            }
        )


class Driver:
    """Reads and drives an app that runs without a terminal."""

    @staticmethod
    def run(app: EagleApp, size: tuple[int, int]) -> AbstractAsyncContextManager[Pilot[None]]:
        """The app without a terminal, with its toasts."""
        return app.run_test(size=size, notifications=True)

    @staticmethod
    def text(app: EagleApp) -> str:
        """What stands on the screen on top, as plain text."""
        return "\n".join(strip.text for strip in app.screen._compositor.render_strips())

    async def until(
        self, pilot: Pilot[None], what: Callable[[], Any], seconds: float = 60.0
    ) -> None:
        """Wait until `what()` holds; fails with the screen's text when it never does."""
        app = pilot.app
        assert isinstance(app, EagleApp)
        deadline = time.monotonic() + seconds
        while not what():
            assert time.monotonic() < deadline, self.text(app)
            await pilot.pause(0.02)

    async def ready(self, pilot: Pilot[None]) -> None:
        """Wait for the first snapshot and the samples."""
        app = pilot.app
        assert isinstance(app, EagleApp)
        await self.until(pilot, lambda: app.frame and app.main.samples.current)
        await pilot.pause(0.05)

    @staticmethod
    def sample(**parts: Any) -> Sample:
        """A sample of the selected dataset with `parts` in it."""
        base = {
            "id": "h", "dataset": "b2_opencodeinstruct", "prompt": "p", "reasoning": "r",
            "content": "c", "state": "complete", "finish_reason": "stop", "prompt_tokens": 1,
            "completion_tokens": 2, "reasoning_tokens": 1, "endpoint": "e", "at": 0.0,
        }  # fmt: skip
        return Sample.model_validate(base | parts)


@pytest.fixture
def ui() -> Driver:
    """To read and drive an app."""
    return Driver()


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Local times in the pictures must not depend on where the tests run."""
    before = os.environ.get("TZ")
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    assert os.environ.get("TZ") == before
    time.tzset()


@pytest.fixture
def client() -> FakeClient:
    """Ten datasets, eight GPUs, two alerts, a run of 26 hours."""
    return FakeClient.load(DATA / "kimi.json")  # type: ignore[return-value]


@pytest.fixture
def laptop() -> FakeClient:
    """Two datasets, no GPU."""
    return FakeClient.load(DATA / "laptop.json")  # type: ignore[return-value]


@pytest.fixture
def make_app(tmp_path: Path) -> Callable[..., EagleApp]:
    """Build an app on a client, its clock standing at the scene's time, polling fast."""

    def build(client: RecordedClient, **options: Any) -> EagleApp:
        options.setdefault("poll_s", 0.2)
        options.setdefault("theme_dir", tmp_path / "themes")
        options.setdefault("keys_file", tmp_path / "keys.toml")
        return EagleApp(client, clock=ManualClock(wall=client.now.at), **options)

    return build
