"""``POST /generate``: plain and streamed answers, and clients that hang up."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from .answers import answer
from .errors import Refusal, Shape
from .requests import Prompt, parse_json, read_call, wants_stream
from .service import Service
from .state import Update

DONE = b"data: [DONE]\n\n"


def _encode(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def _event(value: object) -> bytes:
    return b"data: " + _encode(value) + b"\n\n"


async def _hang_up(receive: Receive) -> None:
    """Return when the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


class _Generate:
    """ASGI endpoint (not a plain handler: it watches the connection while it works)."""

    def __init__(self, service: Service) -> None:
        self._service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        raw = await request.body()
        kind = request.headers.get("content-type")
        gone = asyncio.ensure_future(_hang_up(receive))
        work = asyncio.ensure_future(self._answer(raw, kind, scope, receive, send))
        try:
            await asyncio.wait({gone, work}, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                await work  # raises what it raised
        finally:
            for task in (gone, work):
                task.cancel()
            await asyncio.gather(gone, work, return_exceptions=True)

    async def _answer(
        self, raw: bytes, kind: str | None, scope: Scope, receive: Receive, send: Send
    ) -> None:
        body: object = None
        try:
            body = parse_json(raw, kind)
            call = read_call(body)
            prompts = self._service.prompts(call)
        except Refusal as refusal:
            await _refuse(refusal, wants_stream(body))(scope, receive, send)
            return
        if call.stream:
            await self._stream(prompts, call.single, send)
        else:
            response = await self._collect(prompts, call.single)
            await response(scope, receive, send)

    def _json(self, update: Update) -> dict[str, Any]:
        clock = self._service.engine.clock
        wall = clock.wall()
        return answer(update, wall_offset=wall - clock.monotonic(), wall=wall)

    async def _collect(self, prompts: list[Prompt], single: bool) -> Response:
        """All rows, in order, when the slowest is done; a row that was never served makes its
        status the status of the answer."""
        rows: list[dict[str, Any]] = [{}] * len(prompts)
        try:
            async with aclosing(self._service.run(prompts)) as updates:
                async for row, update in updates:
                    if update.finish is None:
                        continue
                    if update.finish.status is not None:
                        message = update.finish.message or ""
                        raise Refusal(message, status=update.finish.status, shape=Shape.OBJECT)
                    rows[row] = self._json(update)
        except Refusal as refusal:
            return JSONResponse(refusal.body(), refusal.status)
        return Response(_encode(rows[0] if single else rows), media_type="application/json")

    async def _events(self, prompts: list[Prompt], single: bool) -> AsyncGenerator[bytes, None]:
        try:
            async with aclosing(self._service.run(prompts)) as updates:
                async for row, update in updates:
                    event = self._json(update)
                    if not single:
                        event["index"] = row
                    yield _event(event)
        except Refusal as refusal:
            yield _event(refusal.event())
        yield DONE

    async def _stream(self, prompts: list[Prompt], single: bool, send: Send) -> None:
        headers = [(b"content-type", b"text/event-stream; charset=utf-8")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        async with aclosing(self._events(prompts, single)) as events:
            async for event in events:
                await send({"type": "http.response.body", "body": event, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def _refuse(refusal: Refusal, stream: bool) -> Response:
    """A refused value inside a stream is an event after a 200; a wrong type never is."""
    if stream and refusal.shape is Shape.MESSAGE:
        return Response(
            _event(refusal.event()) + DONE, media_type="text/event-stream; charset=utf-8"
        )
    return JSONResponse(refusal.body(), refusal.status)


def generate_endpoint(service: Service) -> ASGIApp:
    """The endpoint, bound to a service."""
    return _Generate(service)
