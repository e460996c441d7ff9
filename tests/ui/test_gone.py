"""The real client on a real socket whose other end goes, comes back, or is of another version."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eagle_tui.client import SocketClient
from eagle_tui.protocol import SCHEMA
from eagle_tui.rundir.paths import RunDir
from eagle_tui.rundir.unixsocket import address
from eagle_tui.ui.app import EagleApp


class Supervisor:
    """Answers every question with one status, as HTTP on the run's socket."""

    def __init__(self, run: RunDir, status: dict[str, Any]) -> None:
        self.run, self.status = run, status
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()

    async def start(self) -> None:
        path = address(self.run.socket)
        self._server = await asyncio.start_unix_server(self._serve, path)

    async def die(self) -> None:
        """As kill -9 does it: connections are cut, the socket's file stays."""
        assert self._server is not None
        self._server.close()
        for writer in list(self._open):
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                path = head.split(" ")[1].split("?")[0]
                body = json.dumps(self.status if path == "/v1/status" else {"events": []}).encode()
                writer.write(
                    b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
                    + f"content-length: {len(body)}\r\n\r\n".encode()
                    + body
                )
                await writer.drain()
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # cut off, which is what these tests are about
        finally:
            self._open.discard(writer)
            writer.close()


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    found = RunDir.at(tmp_path / "run")
    found.root.mkdir()
    return found


async def test_a_supervisor_that_is_gone_is_said_and_seen_again_when_it_is_back(
    run: RunDir, client: Any, make_app: Callable[..., EagleApp], ui: Any
) -> None:
    supervisor = Supervisor(run, client.now.to_json())
    await supervisor.start()
    real = SocketClient(run, revive=False)
    real.now = client.now  # type: ignore[attr-defined]
    app = make_app(real)
    async with ui.run(app, (120, 40)) as pilot:
        await ui.until(pilot, lambda: "b8_sweagent" in ui.text(app))
        await supervisor.die()
        await ui.until(pilot, lambda: "the supervisor does not answer" in ui.text(app))
        text = ui.text(app)
        assert "supervisor not answering" in text and "Figures are" in text
        assert "b8_sweagent" in text, "what was known stays in sight"
        app.clock.advance(3700)  # type: ignore[attr-defined]
        await ui.until(pilot, lambda: "Figures are 1h old" in ui.text(app))
        run.socket.unlink(missing_ok=True)
        await supervisor.start()
        await ui.until(pilot, lambda: "supervisor running" in ui.text(app))
        assert "does not answer" not in ui.text(app)
    await supervisor.die()
    await real.close()


@pytest.mark.parametrize(
    ("schema", "words"), [(SCHEMA + 1, "newer than this program"), (0, "older than this program")]
)
async def test_one_of_another_version_is_shown_with_a_sentence(
    schema: int, words: str, run: RunDir, client: Any, make_app: Callable[..., EagleApp], ui: Any
) -> None:
    body = client.now.to_json()
    body["schema"] = schema
    body["datasets"][0]["state"] = "teleported"
    supervisor = Supervisor(run, body)
    await supervisor.start()
    real = SocketClient(run, revive=False)
    real.now = client.now  # type: ignore[attr-defined]
    app = make_app(real)
    async with ui.run(app, (160, 40)) as pilot:
        await ui.until(pilot, lambda: words in ui.text(app))
        assert "left out: datasets" in ui.text(app)
        await ui.until(pilot, lambda: "b8_sweagent" in ui.text(app))
    await supervisor.die()
    await real.close()
