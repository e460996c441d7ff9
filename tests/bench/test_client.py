"""Asking a server of ours: one that hangs is not waited for."""

from __future__ import annotations

import asyncio
import gc
import threading
from typing import Any, cast

import pytest

from eagle_tui.clock import SystemClock
from eagle_tui.config.model import ServerSection
from eagle_tui.pipeline.benchmark import client
from eagle_tui.pipeline.benchmark.serving import Server, ServerError
from eagle_tui.pipeline.worker import Worker


class Hung:
    """Takes requests and answers none."""

    url = ""

    def dead(self) -> str:
        return ""


class Here:
    """What `ask` needs of a worker."""

    clock = SystemClock()
    stop = threading.Event()


async def test_a_server_that_answers_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_HUNG_S", 0.3)
    here, hung = Here(), Hung()
    section = ServerSection(url="http://localhost:1")
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, told: complaints.append(told))

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async def answered(place: int, body: dict[str, Any], seconds: float) -> None:
        raise AssertionError

    async with await asyncio.start_server(silent, "127.0.0.1") as listener:
        hung.url = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
        with pytest.raises(ServerError, match="answered nothing for"):
            await client.ask(cast(Worker, here), cast(Server, hung), section, [{}] * 3, 2, answered)
    gc.collect()
    assert not complaints
