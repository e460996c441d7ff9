"""The HTTP routes, in SGLang's shapes."""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from . import info
from .config import EngineConfig
from .engine import PauseMode
from .errors import Refusal, Shape
from .generate import generate_endpoint
from .metrics import HttpCounts, registry_of
from .requests import parse_json
from .service import Service

#: A probe or a question that the model thread does not answer for so long means it hangs.
HEALTH_TIMEOUT = 20.0
#: Paths that need no key.
OPEN_PREFIXES = ("/health", "/metrics", "/ready")
#: How often a flush with ?timeout= looks for an idle engine.
FLUSH_POLL = 0.05

FLUSHED = (
    "Cache flushed.\nPlease check backend logs for more details. (When there are running or "
    "waiting requests, the operation will not be performed.)\n"
)

Handler = Callable[[Request], Awaitable[Response]]


class Gatekeeper:
    """ASGI middleware: checks the key and counts requests and answers."""

    def __init__(self, app: ASGIApp, *, api_key: str | None, counts: HttpCounts) -> None:
        self._app, self._key, self._counts = app, api_key, counts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path, method = scope["path"], scope["method"]
        self._counts.requests[path, method] += 1
        self._counts.active[path, method] += 1

        async def counting(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._counts.responses[path, method, str(message["status"])] += 1
            await send(message)

        try:
            if self._allowed(scope):
                await self._app(scope, receive, counting)
            else:
                await JSONResponse({"error": "Unauthorized"}, 401)(scope, receive, counting)
        finally:
            self._counts.active[path, method] -= 1

    def _allowed(self, scope: Scope) -> bool:
        if self._key is None or scope["path"].startswith(OPEN_PREFIXES):
            return True
        given = dict(scope["headers"]).get(b"authorization", b"")
        return hmac.compare_digest(given, f"Bearer {self._key}".encode())


async def read_object(request: Request) -> dict[str, Any]:
    """The JSON body, which must be an object."""
    body = parse_json(await request.body(), request.headers.get("content-type"))
    if not isinstance(body, dict):
        raise Refusal(
            "1 validation error:\n  body: Input should be a valid dictionary", shape=Shape.OBJECT
        )
    return body


class Routes:
    """Handlers; one instance per server."""

    def __init__(self, service: Service, config: EngineConfig, counts: HttpCounts) -> None:
        self._service, self._config = service, config
        self._engine = service.engine
        self._started = time.time()
        self._registry = registry_of(self._engine, counts, config.model_name)

    def routes(self) -> list[Route]:
        """The table of paths."""
        both = ["GET", "POST"]
        table: list[tuple[str, Handler, list[str]]] = [
            ("/abort_request", self.abort_request, ["POST"]),
            ("/pause_generation", self.pause_generation, ["POST"]),
            ("/continue_generation", self.continue_generation, ["POST"]),
            ("/flush_cache", self.flush_cache, both),
            ("/health", self.health, ["GET"]),
            ("/health_generate", self.health, ["GET"]),
            ("/ready", self.ready, ["GET"]),
            ("/ping", self.ping, ["GET"]),
            ("/model_info", self.model_info, ["GET"]),
            ("/get_model_info", self.model_info, ["GET"]),
            ("/server_info", self.server_info, ["GET"]),
            ("/get_server_info", self.server_info, ["GET"]),
            ("/v1/models", self.models, ["GET"]),
            ("/v1/loads", self.loads, ["GET"]),
            ("/metrics", self.metrics, ["GET"]),
        ]
        routes = [Route(path, handler, methods=methods) for path, handler, methods in table]
        routes.append(Route("/generate", generate_endpoint(self._service), methods=["POST", "PUT"]))
        return routes

    async def abort_request(self, request: Request) -> Response:
        """Always 200 with an empty body; success shows on the aborted request."""
        body = await read_object(request)
        rid = body.get("rid")
        if rid is not None and not isinstance(rid, str):
            raise Refusal(
                "1 validation error:\n  body.rid: Input should be a valid string",
                shape=Shape.OBJECT,
            )
        if body.get("abort_all"):
            self._service.abort_all()
        elif rid:
            self._service.abort(rid)
        return Response(status_code=200)

    async def pause_generation(self, request: Request) -> Response:
        """``mode``: abort (default), in_place or retract."""
        body = await read_object(request)
        try:
            mode = PauseMode(body.get("mode", "abort"))
        except ValueError as error:
            raise Refusal(
                "1 validation error:\n  body.mode: Input should be 'abort', 'retract' or "
                f"'in_place', got {body.get('mode')!r}",
                shape=Shape.OBJECT,
            ) from error
        await self._service.pause(mode)
        return JSONResponse({"message": "Generation paused successfully.", "status": "ok"})

    async def continue_generation(self, request: Request) -> Response:
        """Undo a pause; harmless without one."""
        await read_object(request)
        self._service.resume()
        return JSONResponse({"message": "Generation continued successfully.", "status": "ok"})

    async def flush_cache(self, request: Request) -> Response:
        """200 when idle, else 400; ``?timeout=s`` waits for idle."""
        timeout = _number(request, "timeout") or 0.0
        if timeout < 0:
            raise Refusal(
                "1 validation error:\n  query.timeout: Input should be greater than or equal to 0",
                shape=Shape.OBJECT,
            )
        deadline = time.monotonic() + timeout
        while not await self._service.ask(self._engine.flush):
            if time.monotonic() >= deadline:
                waited = "Timed out waiting for idle state." if timeout else "Flush cache failed.\n"
                return PlainTextResponse(waited, 400)
            await asyncio.sleep(FLUSH_POLL)
        return PlainTextResponse(FLUSHED)

    async def health(self, request: Request) -> Response:
        """200 when the model just computed a token; 503 when it does not answer.

        Unlike SGLang's it also answers while generation is paused.
        """
        try:
            await asyncio.wait_for(self._service.ask(self._engine.probe), HEALTH_TIMEOUT)
        except TimeoutError:
            return Response(status_code=503)
        return Response(status_code=200)

    async def ready(self, request: Request) -> Response:
        """503 while paused."""
        return Response(status_code=503 if self._service.paused else 200)

    async def ping(self, request: Request) -> Response:
        """200, no check at all."""
        return Response(status_code=200)

    async def model_info(self, request: Request) -> Response:
        """Facts of the model."""
        return JSONResponse(info.model_info(self._engine, self._config))

    async def server_info(self, request: Request) -> Response:
        """Flags and limits."""
        return JSONResponse(info.server_info(self._engine, self._config, self._started))

    async def models(self, request: Request) -> Response:
        """OpenAI's list of models."""
        return JSONResponse(info.models(self._engine, self._config, int(time.time())))

    async def loads(self, request: Request) -> Response:
        """The published load picture; frozen while paused in_place or by retract."""
        sections = info.read_include(request.query_params.get("include"))
        if request.query_params.get("format") == "prometheus":
            text = info.loads_text(info.load_row(self._engine, self._config, sections))
            return PlainTextResponse(text, media_type="text/plain; version=0.0.4")
        rank = _number(request, "dp_rank")
        body = info.loads(self._engine, self._config, sections, None if rank is None else int(rank))
        return JSONResponse(body)

    async def metrics(self, request: Request) -> Response:
        """Prometheus text."""
        return Response(generate_latest(self._registry), media_type=CONTENT_TYPE_LATEST)


def _number(request: Request, name: str) -> float | None:
    text = request.query_params.get(name)
    if text is None:
        return None
    try:
        return float(text)
    except ValueError as error:
        raise Refusal(
            f"1 validation error:\n  query.{name}: Input should be a valid number",
            shape=Shape.OBJECT,
        ) from error


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)
    return JSONResponse(error.body(), error.status)


async def _http_error(request: Request, error: Exception) -> Response:
    """404 and 405 in FastAPI's words."""
    assert isinstance(error, HTTPException)
    detail = error.detail or HTTPStatus(error.status_code).phrase
    return JSONResponse({"detail": detail}, error.status_code, headers=error.headers)


def build_app(service: Service, config: EngineConfig) -> ASGIApp:
    """The ASGI application."""
    counts = HttpCounts()
    app = Starlette(
        routes=Routes(service, config, counts).routes(),
        exception_handlers={Refusal: _refused, HTTPException: _http_error},
    )
    return Gatekeeper(app, api_key=config.api_key, counts=counts)
