"""The socket: HTTP and JSON over a unix socket that only this user can open.

    GET  /v1/status                                  the snapshot (docs/status.md)
    GET  /v1/samples?dataset=&kind=newest&limit=20   stored responses
    GET  /v1/events?after=0&limit=200                the run's history
    GET  /v1/history?series=tok_s&since=0&step=1&until=   a metric over time
    GET  /v1/series                                  the names of all metrics
    GET  /v1/marks?since=0&limit=1000                what changed when, for charts
    GET  /v1/estimates                               what was estimated of the phases, and when
    GET  /v1/launches?server=&limit=200              launches of servers, with settings and outcome
    GET  /v1/tuning?server=                          what can be retuned of a server
    GET  /v1/journal?before=&after=&limit=200&severity=&source=&text=   events and commands in pages
    GET  /v1/commands/ID                             how far a command is
    POST /v1/commands  {id, verb, args, origin}      an order
    POST /v1/preview   {verb, args}                  what an order would do
    POST /v1/report                                  write a plan document into RUN/reports/

An error is `{"error": "sentence"}` with status 400 or 404, or 500 where the disk is full or ill.
"""

from __future__ import annotations

import asyncio
import math
import sqlite3
from typing import Any

from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from eagle_tui import troubles
from eagle_tui.protocol import CommandRequest
from eagle_tui.records import JournalMark, JournalQuery
from eagle_tui.report.plan import Facts, plan_markdown
from eagle_tui.rundir.reports import write_plan
from eagle_tui.supervisor.core import Supervisor
from eagle_tui.text import parse_json

MOST_ROWS = 2000
MOST_SAMPLES = 200


class BadRequest(ValueError):
    """The request is wrong; the message says how."""


def _integer(request: Request, name: str, default: int, most: int | None = None) -> int:
    text = request.query_params.get(name, str(default))
    try:
        value = int(text)
    except ValueError:
        raise BadRequest(f"{name}: expected a whole number; found {text[:40]!r}") from None
    if value < 0:
        raise BadRequest(f"{name}: must not be negative")
    return min(value, most) if most is not None else value


def _float(request: Request, name: str, default: float) -> float:
    text = request.query_params.get(name, str(default))
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise BadRequest(f"{name}: expected a number; found {text[:40]!r}")
    return value


async def _body(request: Request) -> dict[str, Any]:
    try:
        body = parse_json(await request.body())
    except ValueError as error:
        raise BadRequest(f"the body is not JSON: {error}") from error
    if not isinstance(body, dict):
        raise BadRequest("the body must be a JSON object")
    return body


def _journal_query(request: Request) -> JournalQuery:
    """A mark is given as two numbers, `EVENT.COMMAND`, as the answer before named them."""
    asked: dict[str, Any] = {"limit": _integer(request, "limit", 200, MOST_ROWS)}
    for name in ("before", "after"):
        text = request.query_params.get(name)
        if text:
            event, dot, command = text.partition(".")
            if not (dot and event.isdecimal() and command.isdecimal()):
                raise BadRequest(f"{name}: expected EVENT.COMMAND; found {text[:40]!r}")
            asked[name] = JournalMark(event=int(event), command=int(command))
    severity = request.query_params.get("severity")
    if severity and severity not in ("info", "warning", "error"):
        raise BadRequest(f"severity: expected info, warning or error; found {severity[:40]!r}")
    asked["severity"] = severity or None
    asked |= {name: request.query_params.get(name, "") for name in ("source", "text")}
    return JournalQuery.model_validate(asked)


def make_app(supervisor: Supervisor) -> Starlette:
    """The ASGI application of one supervisor."""

    async def status(request: Request) -> Response:
        return JSONResponse(supervisor.status.to_json())

    async def get_samples(request: Request) -> Response:
        found = await asyncio.to_thread(
            supervisor.archive.samples,
            request.query_params.get("dataset"),
            request.query_params.get("kind", "newest"),
            _integer(request, "limit", 20, MOST_SAMPLES),
        )
        return JSONResponse({"samples": [s.model_dump(mode="json") for s in found]})

    async def events(request: Request) -> Response:
        found = supervisor.archive.events(
            _integer(request, "after", 0), _integer(request, "limit", 200, MOST_ROWS)
        )
        return JSONResponse({"events": [e.model_dump(mode="json") for e in found]})

    async def history(request: Request) -> Response:
        now = supervisor.clock.wall()
        found = supervisor.recorder.query(
            request.query_params.get("series", "tok_s"),
            _float(request, "since", 0.0),
            _float(request, "step", 1.0),
            now,
            _float(request, "until", now),
        )
        return JSONResponse(found.model_dump(mode="json"))

    async def series(request: Request) -> Response:
        return JSONResponse({"series": supervisor.archive.series()})

    async def estimates(request: Request) -> Response:
        found = supervisor.archive.estimates()
        return JSONResponse({"estimates": [e.model_dump(mode="json") for e in found]})

    async def marks(request: Request) -> Response:
        found = supervisor.archive.marks(
            _float(request, "since", 0.0), _integer(request, "limit", 1000, MOST_ROWS)
        )
        return JSONResponse({"marks": [m.model_dump(mode="json") for m in found]})

    async def launches(request: Request) -> Response:
        found = supervisor.store.servers.launches(
            request.query_params.get("server"), _integer(request, "limit", 200, MOST_ROWS)
        )
        return JSONResponse({"launches": [launch.model_dump(mode="json") for launch in found]})

    async def report(request: Request) -> Response:
        archive, now = supervisor.archive, supervisor.clock.wall()
        facts = Facts(
            supervisor.status,
            archive.estimates(),
            archive.marks(0.0, MOST_ROWS),
            archive.launches(None, MOST_ROWS),
        )
        path = await asyncio.to_thread(write_plan, supervisor.board.run, plan_markdown(facts), now)
        return JSONResponse({"path": str(path)})

    async def journal(request: Request) -> Response:
        found = supervisor.archive.journal(_journal_query(request))
        return JSONResponse(found.model_dump(mode="json"))

    async def tuning(request: Request) -> Response:
        found = supervisor.board.retunes.tuning(request.query_params.get("server", ""))
        if found is None:
            return JSONResponse({"error": "no server is named so"}, status_code=404)
        return JSONResponse(found.model_dump(mode="json"))

    async def command(request: Request) -> Response:
        found = supervisor.store.command(request.path_params["id"])
        if found is None:
            return JSONResponse({"error": "no command has that id"}, status_code=404)
        return JSONResponse(found.status.model_dump(mode="json"))

    async def order(request: Request) -> Response:
        wanted = CommandRequest.model_validate(await _body(request))
        stored = supervisor.orders.request(wanted)
        supervisor.wake()
        return JSONResponse(stored.model_dump(mode="json"))

    async def preview(request: Request) -> Response:
        body = await _body(request)
        verb, args = body.get("verb"), body.get("args") or {}
        if not isinstance(verb, str) or not isinstance(args, dict):
            raise BadRequest("give verb (a string) and args (an object)")
        return JSONResponse(supervisor.orders.preview(verb, args).model_dump(mode="json"))

    async def refuse(request: Request, error: Exception) -> Response:
        return JSONResponse({"error": troubles.of(error).sentence}, status_code=400)

    async def unkept(request: Request, error: Exception) -> Response:
        said = f"the run's state cannot be read or kept now: {troubles.of(error).sentence}"
        return JSONResponse({"error": said}, status_code=500)

    return Starlette(
        routes=[
            Route("/v1/status", status),
            Route("/v1/samples", get_samples),
            Route("/v1/events", events),
            Route("/v1/history", history),
            Route("/v1/series", series),
            Route("/v1/marks", marks),
            Route("/v1/estimates", estimates),
            Route("/v1/launches", launches),
            Route("/v1/tuning", tuning),
            Route("/v1/report", report, methods=["POST"]),
            Route("/v1/journal", journal),
            Route("/v1/commands/{id}", command),
            Route("/v1/commands", order, methods=["POST"]),
            Route("/v1/preview", preview, methods=["POST"]),
        ],
        exception_handlers={
            **dict.fromkeys((ValueError, BadRequest, OSError, ValidationError), refuse),
            sqlite3.Error: unkept,
        },
    )
