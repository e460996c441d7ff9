"""Asking a SGLang server for answers: many at a time, each one timed."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import httpx
import orjson

from eagle_tui.clock import Clock
from eagle_tui.config.model import ServerSection

from ..worker import Stopped, Worker
from .serving import Server, ServerError, bearer

_STOP_POLL_S = 0.25
_FLUSH_S = 20.0
_HUNG_S = 900.0
"""A server that answers none of what it was asked for so long hangs: a long prefill takes seconds,
an answer of the benchmark a minute."""
_BUSY = 400
"""What SGLang answers to an order to flush while a request runs."""
_KEEP_ALIVE_S = 4.0
"""SGLang closes a connection that was idle for five seconds; a request sent then would be lost."""


class RequestRefused(ServerError):
    """The server is well, and does not take this request."""


async def ask(
    worker: Worker,
    server: Server,
    section: ServerSection,
    bodies: Sequence[dict[str, Any]],
    concurrency: int,
    answered: Callable[[int, dict[str, Any], float], Awaitable[None]],
    refused: Callable[[int, RequestRefused], None] | None = None,
) -> None:
    """POST each body to /generate, `concurrency` at a time and in order; `answered` gets the place,
    the parsed answer and the seconds that it took. `refused` gets what the server does not take;
    without it that is an error like others.

    ServerError when the server dies or refuses a request; Stopped when the worker is asked to stop.
    What is in flight then is dropped, which aborts it on the server.
    """
    limits = httpx.Limits(
        max_connections=concurrency,
        max_keepalive_connections=concurrency,
        keepalive_expiry=_KEEP_ALIVE_S,
    )
    todo = iter(range(len(bodies)))
    async with httpx.AsyncClient(
        base_url=server.url,
        headers=bearer(section.api_key_env),
        limits=limits,
        timeout=None,
        trust_env=False,  # no proxy stands between us and our own server
    ) as http:
        last = worker.clock.monotonic()

        async def work() -> None:
            nonlocal last
            for place in todo:
                began = worker.clock.monotonic()
                try:
                    body = await _post(http, server, bodies[place])
                except RequestRefused as error:
                    if refused is None:
                        raise
                    refused(place, error)
                    continue
                finally:
                    last = worker.clock.monotonic()
                await answered(place, body, worker.clock.monotonic() - began)

        async def watch() -> None:
            while not worker.stop.is_set():
                if died := server.dead():
                    raise ServerError(died)
                if worker.clock.monotonic() - last > _HUNG_S:
                    raise ServerError(f"{server.url}: answered nothing for {_HUNG_S:.0f} s")
                await asyncio.sleep(_STOP_POLL_S)
            raise Stopped

        watching = asyncio.create_task(watch())
        workers = [asyncio.create_task(work()) for _ in range(min(concurrency, len(bodies)))]
        working: asyncio.Future[Any] = asyncio.gather(*workers)
        try:
            both: set[asyncio.Future[Any]] = {working, watching}
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            # A server that died explains a request that broke off, so it is looked at first.
            if watching.done():
                await watching
            await working
        finally:
            for task in (watching, *workers):
                task.cancel()
            await asyncio.gather(watching, working, *workers, return_exceptions=True)


async def _post(http: httpx.AsyncClient, server: Server, body: dict[str, Any]) -> dict[str, Any]:
    try:
        answer = await http.post("/generate", json=body)
    except httpx.HTTPError as error:
        await asyncio.sleep(2 * _STOP_POLL_S)  # if the server died, that is the reason
        raise ServerError(
            server.dead() or f"{server.url}: a request failed ({type(error).__name__}: {error})"
        ) from error
    if answer.status_code == 400:
        raise RequestRefused(f"{server.url}: answered 400: {answer.text[:300]}")
    if answer.status_code != 200:
        raise ServerError(f"{server.url}: answered {answer.status_code}: {answer.text[:300]}")
    found = orjson.loads(answer.content)
    if not isinstance(found, dict) or not isinstance(found.get("meta_info"), dict):
        raise ServerError(f"{server.url}: the answer is no completion: {answer.text[:300]}")
    reason = found["meta_info"].get("finish_reason")
    if isinstance(reason, dict) and reason.get("type") == "abort":
        raise RequestRefused(f"{server.url}: aborted a request: {reason.get('message')}")
    return found


def flush_cache(server: Server, section: ServerSection, clock: Clock) -> None:
    """Empty the prefix cache, so that each measurement reads its prompts anew. ServerError when it
    cannot be emptied; a server that is still busy with what was asked before is waited for."""
    headers = bearer(section.admin_api_key_env or section.api_key_env)
    end = clock.monotonic() + _FLUSH_S
    while True:
        try:
            answer = httpx.post(
                f"{server.url}/flush_cache", timeout=60.0, headers=headers, trust_env=False
            )
            if answer.status_code == _BUSY and clock.monotonic() < end:
                time.sleep(_STOP_POLL_S)
                continue
            answer.raise_for_status()
        except httpx.HTTPError as error:
            raise ServerError(f"{server.url}: its cache cannot be emptied ({error})") from error
        return
