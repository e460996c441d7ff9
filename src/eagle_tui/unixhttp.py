"""Asking a supervisor: HTTP/1.1 with JSON over its unix socket.

Of the protocol only what our own supervisor speaks: one answer at a time on a connection, its
length told beforehand. A general HTTP library is not used here, since loading one takes as long as
drawing the screen, and a second's poll by it a tenth of what the whole screen may cost. Whatever is
asked may be asked twice: orders carry an id.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlencode

_Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]

MOST_BYTES = 1 << 28
"""A longer answer is none of ours."""


class NoAnswer(Exception):
    """Nobody answers, or not in HTTP. `str()` says in a few words why."""


class UnixHttp:
    """Asks at one socket. Connections are kept for the next question; `close` ends them."""

    def __init__(self, path: Callable[[], str], timeout_s: float) -> None:
        """`path` gives the socket's address when it is needed; `timeout_s` holds for a whole
        question with its answer."""
        self._path = path
        self._timeout_s = timeout_s
        self._idle: list[_Connection] = []

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        params: Mapping[str, Any] | None = None,
    ) -> tuple[int, bytes]:
        """Status code and body of the answer. NoAnswer when there is none."""
        target = f"{path}?{urlencode(params)}" if params else path
        data = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {target} HTTP/1.1\r\nhost: run\r\ncontent-length: {len(data)}\r\n"
        if data:
            head += "content-type: application/json\r\n"
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._exchange(head.encode() + b"\r\n" + data)
        except TimeoutError:
            raise NoAnswer(f"no answer in {self._timeout_s:.0f} s") from None
        except FileNotFoundError:
            raise NoAnswer("its socket is not there") from None
        except (asyncio.IncompleteReadError, ConnectionResetError, BrokenPipeError):
            raise NoAnswer("it cut the connection") from None
        except (OSError, asyncio.LimitOverrunError) as error:
            raise NoAnswer(getattr(error, "strerror", None) or type(error).__name__) from error
        except (ValueError, IndexError) as error:
            raise NoAnswer("its answer is not HTTP") from error

    async def close(self) -> None:
        """End the connections."""
        while self._idle:
            self._idle.pop()[1].close()

    async def _exchange(self, request: bytes) -> tuple[int, bytes]:
        """On a connection that is there, or, when that one was just closed, on a new one."""
        while self._idle:
            reader, writer = self._idle.pop()
            if reader.at_eof() or writer.is_closing():
                writer.close()
                continue
            try:
                return await self._send(reader, writer, request)
            except (asyncio.IncompleteReadError, ConnectionError):
                break
        reader, writer = await asyncio.open_unix_connection(self._path())
        return await self._send(reader, writer, request)

    async def _send(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes
    ) -> tuple[int, bytes]:
        try:
            writer.write(request)
            await writer.drain()
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            code = int(head[0].split(" ", 2)[1])
            fields = dict(line.lower().split(":", 1) for line in head[1:] if line)
            length = int(fields["content-length"]) if "content-length" in fields else -1
            if not 0 <= length <= MOST_BYTES:
                raise ValueError("no length")
            body = await reader.readexactly(length)
        except BaseException:
            # What is still to come belongs to nobody.
            writer.close()
            raise
        if "close" in fields.get("connection", ""):
            writer.close()
        else:
            self._idle.append((reader, writer))
        return code, body
