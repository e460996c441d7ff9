"""One request at the scripted server, and the stream of its answer."""

from __future__ import annotations

import asyncio
import contextlib
import json
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web


@dataclass(eq=False)
class Live:
    """One request that is being answered."""

    rid: str
    prompt: list[int]
    whole: list[int]
    begun: int
    asked: int
    started: float
    interval: int | None = None
    """Tokens between the events of its stream; None: it is not streamed."""
    deaf: bool = False
    aborted: asyncio.Event = field(default_factory=asyncio.Event)


class Events:
    """The stream of one answer."""

    def __init__(self, request: web.Request, live: Live, incremental: bool) -> None:
        self._request = request
        self._live = live
        self._incremental = incremental
        self._told = 0
        self._response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})

    async def begin(self) -> None:
        await self._response.prepare(self._request)

    def alone(self) -> bool:
        """Is the client gone?"""
        return self._request.transport is None or self._request.transport.is_closing()

    async def tell(self, made: list[int]) -> None:
        """An event with the tokens so far, when there are enough new ones."""
        interval = self._live.interval or 1
        if not made or (self._told and len(made) - self._told < interval):
            return
        await self._write(self._event(made, None))
        self._told = len(made)

    async def finish(self, answer: dict[str, Any], fault: str | None) -> web.StreamResponse:
        made = answer["output_ids"]
        if fault == "reset_body" and not self._told:
            await self.tell(made)  # a busy machine makes all of it at once
        event = self._event(made, answer["meta_info"]["finish_reason"])
        event["meta_info"]["prompt_tokens"] = answer["meta_info"]["prompt_tokens"]
        if fault in ("reset_body", "slow_body"):
            data = b"data: " + json.dumps(event).encode()
            await self._send(data[: len(data) // 2])
            if fault == "reset_body":
                await asyncio.sleep(0.02)  # what the client has not read yet would be lost
                if self._request.transport is not None:
                    self._request.transport.abort()
                return self._response
            await asyncio.sleep(0.5)
            await self._send(data[len(data) // 2 :] + b"\n\n")
        elif fault == "no_done":
            await self._write(self._event(made, None))
        else:
            await self._write(event)
            await self._send(b"data: [DONE]\n\n")
        with contextlib.suppress(ConnectionError):
            await self._response.write_eof()
        return self._response

    def _event(self, made: list[int], reason: dict[str, Any] | None) -> dict[str, Any]:
        shown = made[self._told :] if self._incremental else made
        meta = {"id": self._live.rid, "finish_reason": reason, "completion_tokens": len(made)}
        return {"text": "", "output_ids": shown, "meta_info": meta}

    async def _write(self, event: dict[str, Any]) -> None:
        await self._send(b"data: " + json.dumps(event).encode() + b"\n\n")

    async def _send(self, data: bytes) -> None:
        with contextlib.suppress(ConnectionError):  # the client may be gone
            await self._response.write(data)
