"""The small HTTP client against servers that behave, and against some that do not."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from eagle_tui.unixhttp import NoAnswer, UnixHttp


class Server:
    """`answer` is what is written to each request; None: nothing, the connection is cut."""

    def __init__(self) -> None:
        self.answer: bytes | None = b""
        self.requests: list[tuple[str, bytes]] = []
        self.connections = 0
        self.cut_after = False
        self.silent = False

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                fields = dict(line.split(": ", 1) for line in head.split("\r\n")[1:] if line)
                body = await reader.readexactly(int(fields["content-length"]))
                self.requests.append((head.split(" HTTP")[0], body))
                if self.silent:
                    await asyncio.sleep(60)
                if self.answer is None:
                    break
                writer.write(self.answer)
                await writer.drain()
                if self.cut_after:
                    break
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.close()


def said(body: object, code: int = 200, extra: str = "") -> bytes:
    data = json.dumps(body).encode()
    return f"HTTP/1.1 {code} X\r\nContent-Length: {len(data)}\r\n{extra}\r\n".encode() + data


@pytest_asyncio.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    found = Server()
    listening = await asyncio.start_unix_server(found.serve, tmp_path / "s")
    yield found
    listening.close()


@pytest_asyncio.fixture
async def http(tmp_path: Path) -> AsyncIterator[UnixHttp]:
    found = UnixHttp(lambda: str(tmp_path / "s"), 2.0)
    yield found
    await found.close()


async def test_questions_are_asked_on_one_connection(server: Server, http: UnixHttp) -> None:
    server.answer = said({"a": "ü"})
    for _ in range(3):
        code, body = await http.ask("GET", "/v1/x", params={"name": "a b&c", "n": 1})
        assert (code, json.loads(body)) == (200, {"a": "ü"})
    server.answer = said({"error": "no"}, 404)
    assert (await http.ask("POST", "/v1/y", {"k": [1]}))[0] == 404
    assert server.requests[0] == ("GET /v1/x?name=a+b%26c&n=1", b"")
    assert server.requests[-1] == ("POST /v1/y", b'{"k": [1]}')
    assert server.connections == 1


async def test_several_at_once_do_not_mix(server: Server, http: UnixHttp) -> None:
    server.answer = said("x" * 100_000)
    found = await asyncio.gather(*(http.ask("GET", f"/{n}") for n in range(5)))
    assert {len(body) for _, body in found} == {100_002}
    assert server.connections == 5


async def test_a_connection_that_was_closed_meanwhile_is_not_used(
    server: Server, http: UnixHttp
) -> None:
    server.answer, server.cut_after = said(1), True
    await http.ask("GET", "/")
    await asyncio.sleep(0.02)
    await http.ask("GET", "/")
    assert server.connections == 2
    await asyncio.sleep(0.02)
    server.answer, server.cut_after = said(1, extra="connection: close\r\n"), False
    await http.ask("GET", "/")
    await http.ask("GET", "/")
    assert server.connections == 4


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (None, "cut the connection"),
        (b"HTTP/1.1 200 OK\r\nconte", "cut the connection"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nabc", "cut the connection"),
        (b"HTTP/1.1 200 OK\r\n\r\n", "not HTTP"),
        (b"hello\r\n\r\n", "not HTTP"),
        (b"HTTP/1.1 abc\r\ncontent-length: 1\r\n\r\n1", "not HTTP"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: -4\r\n\r\n", "not HTTP"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 99999999999\r\n\r\n", "not HTTP"),
    ],
)
async def test_what_is_no_answer_is_said(
    server: Server, http: UnixHttp, answer: bytes | None, why: str
) -> None:
    server.answer, server.cut_after = answer, True
    with pytest.raises(NoAnswer, match=why):
        await http.ask("GET", "/")
    server.answer = said("again")
    assert json.loads((await http.ask("GET", "/"))[1]) == "again"


async def test_nobody_there_and_nobody_answering(server: Server, tmp_path: Path) -> None:
    absent = UnixHttp(lambda: str(tmp_path / "none"), 1.0)
    with pytest.raises(NoAnswer, match="socket is not there"):
        await absent.ask("GET", "/")
    server.silent = True
    hurried = UnixHttp(lambda: str(tmp_path / "s"), 0.05)
    with pytest.raises(NoAnswer, match="no answer in 0 s"):
        await hurried.ask("GET", "/")
    await hurried.close()
