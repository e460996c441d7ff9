"""One endpoint over HTTP: the calls that generation needs of SGLang."""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import aiohttp

from eagle_tui.rundir.desired import Endpoint
from eagle_tui.sglang import parse_loads, parse_metrics
from eagle_tui.text import parse_json

from .adaptive import Load
from .answers import Outcome, Trouble, error_message, read_outcome
from .stream import Stream

KEEP_ALIVE_S = 4.0
"""SGLang closes an idle connection after 5 s without a word; ours are given up before."""
CONNECT_TIMEOUT_S = 5.0
CALL_TIMEOUT_S = 5.0
"""For the small calls. `/generate` has no time limit: a long answer takes as long as it takes."""
HEALTH_TIMEOUT_S = 25.0
"""SGLang itself takes 20 s to say that it is not healthy."""
READ_BUFFER = 1 << 20
"""aiohttp's own 64 KB make it stop and start for each long answer."""


@dataclass(frozen=True, slots=True)
class Reply:
    """Answer to one of the small calls. `status` None: there was none, and `text` says why."""

    status: int | None
    body: Any
    text: str


class KeyMissingError(RuntimeError):
    """The environment variable that should hold a key is not set."""


class Client:
    """Connections to one endpoint. Use inside a running event loop; `close` it at the end.

    KeyMissingError: a key is named in run.toml and not set in this worker's environment.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.url = endpoint.url.rstrip("/")
        self._generate_url = f"{self.url}/generate"
        self._key = _key(endpoint.api_key_env)
        self._admin = _key(endpoint.admin_api_key_env) or self._key
        self._headers = {"Content-Type": "application/json", **_bearer(self._key)}
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE_S),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S),
            read_bufsize=READ_BUFFER,
            auto_decompress=True,
        )

    async def generate(
        self, body: bytes, progress: Callable[[array[int]], None] | None = None
    ) -> Outcome:
        """POST /generate with a JSON body; never raises for what a server or the network does.

        `progress` is given all new tokens so far, each time a stream has brought more.
        """
        begun = False
        try:
            async with self._session.post(
                self._generate_url, data=body, headers=self._headers
            ) as response:
                begun = True
                if response.content_type == "text/event-stream" and response.status == 200:
                    return await _read_stream(response, progress)
                return read_outcome(response.status, await response.read())
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            return Trouble("refused", _reason(error))
        except (aiohttp.ClientError, ConnectionError, TimeoutError) as error:
            return Trouble("lost" if begun else "dropped", _reason(error))

    async def abort(self, rid: str) -> Reply:
        """End one request on the server. Success shows only on the request itself."""
        return await self._call("POST", "/abort_request", admin=True, json_body={"rid": rid})

    async def go_on(self) -> Reply:
        """Undo a pause that somebody left behind; harmless when there is none."""
        return await self._call("POST", "/continue_generation", admin=True, json_body={})

    async def health(self) -> Reply:
        """GET /health: makes an idle server generate one token."""
        return await self._call("GET", "/health", timeout_s=HEALTH_TIMEOUT_S)

    async def context_length(self) -> tuple[Reply, int | None]:
        """GET /v1/models: is HTTP alive, and how many tokens prompt and response may have."""
        reply = await self._call("GET", "/v1/models")
        try:
            length = reply.body["data"][0]["max_model_len"]
        except (KeyError, IndexError, TypeError):
            return reply, None
        return reply, length if isinstance(length, int) and length > 0 else None

    async def load(self, *, thorough: bool = False) -> tuple[bool, Load]:
        """What the server says of its work, and whether it tells at all.

        (True, empty): it should have told and did not answer. From /v1/loads; from /metrics when
        that is not there, and beside it (`thorough`) for the retractions, which only /metrics
        counts.
        """
        reply = await self._call("GET", "/v1/loads")
        if reply.status is None or reply.status >= 500:
            return True, Load()
        load = load_of(reply.body) if reply.status == 200 else None
        if load is not None and not thorough:
            return True, load
        reply = await self._call("GET", "/metrics")
        counted = metrics_load(reply.text) if reply.status == 200 else Load()
        if load is not None:
            return True, replace(load, retractions=counted.retractions)
        return counted.work is not None, counted

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()

    async def _call(
        self,
        method: str,
        path: str,
        *,
        admin: bool = False,
        json_body: Any = None,
        timeout_s: float = CALL_TIMEOUT_S,
    ) -> Reply:
        headers = _bearer(self._admin if admin else self._key)
        try:
            async with self._session.request(
                method,
                self.url + path,
                json=json_body,
                headers=headers,
                timeout=aiohttp.ClientTimeout(total=timeout_s, sock_connect=CONNECT_TIMEOUT_S),
            ) as response:
                data = await response.read()
        except TimeoutError:
            return Reply(None, None, f"no answer to {path} within {timeout_s:g} s")
        except (aiohttp.ClientError, ConnectionError, OSError) as error:
            return Reply(None, None, _reason(error))
        try:
            body = parse_json(data)
        except ValueError:
            body = None
        text = data.decode("utf-8", "replace")
        if response.status != 200:
            text = error_message(data)[0] or f"HTTP {response.status}"
        return Reply(response.status, body, text)


async def _read_stream(
    response: aiohttp.ClientResponse, progress: Callable[[array[int]], None] | None
) -> Outcome:
    stream = Stream()
    async for chunk in response.content.iter_any():
        if stream.feed(chunk) and stream.outcome is None and progress is not None:
            progress(stream.ids)
    return stream.end()


def load_of(body: Any) -> Load:
    """A /v1/loads answer, over all ranks; empty when it is none."""
    try:
        loads = parse_loads(body)
    except ValueError:
        return Load()
    return Load(
        work=(loads.generated or 0.0) + (loads.prefilled or 0.0),
        kv_usage=loads.kv_usage,
        running=loads.running,
        waiting=loads.queued,
    )


def metrics_load(text: str) -> Load:
    """The same from Prometheus text, and the retractions; None where it does not hold a figure."""
    metrics = parse_metrics(text)
    return Load(
        work=metrics.work,
        kv_usage=metrics.kv_usage,
        running=metrics.running,
        waiting=metrics.queued,
        retractions=metrics.retractions,
    )


def _key(variable: str | None) -> str | None:
    if variable is None:
        return None
    value = os.environ.get(variable)
    if not value:
        raise KeyMissingError(
            f"the environment variable {variable} is not set; it should hold the server's key"
        )
    return value


def _bearer(key: str | None) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"} if key else {}


def _reason(error: BaseException) -> str:
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "the server closed the connection without an answer"
    os_error = getattr(error, "os_error", error)
    text = (os_error.strerror or str(os_error)) if isinstance(os_error, OSError) else str(os_error)
    return text or type(error).__name__
