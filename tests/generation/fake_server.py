"""A scripted server with SGLang's surface, as far as generation uses it.

In a test's own event loop: `async with FakeServer() as server`, faults by `server.script`. As a
process: `python -m tests.generation.fake_server --port P --faults reset=0.05,abort=0.1 --seed 1`.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import time
from typing import Any

from aiohttp import web

from .fake_faults import FAULTS, Script, by_chance, faulty, refusal
from .fake_stream import Events, Live
from .language import CONTEXT, END, OPEN, answer_to

LOOK_S = 0.1
"""How often a streamed answer looks whether its client is still there."""


class FakeServer:
    """`token_s`: seconds a token takes (0: all at once). `script` decides on faults."""

    def __init__(
        self, *, token_s: float = 0.0, script: Script | None = None, port: int = 0
    ) -> None:
        self.token_s = token_s
        self.script: Script = script or (lambda prompt, times: None)
        self.port = port
        self.keep_alive_s = 5.0
        self.api_key: str | None = None
        self.admin_key: str | None = None
        self.max_running: int | None = None
        self.healthy = True
        self.has_loads = True
        self.incremental = False
        """Events of a stream are deltas, as with --incremental-streaming-output."""
        self.kv_usage: float | None = None
        self.waiting = 0
        self.retractions = 0
        self.answering = asyncio.Event()
        """While it is clear, no request at all is answered, as by a server that hangs."""
        self.answering.set()
        self.stuck = False
        """Makes no tokens, answers the small calls from its last snapshot."""
        self.live: dict[str, Live] = {}
        self.asked: dict[tuple[int, ...], int] = {}
        self.rids: list[str] = []
        self.bodies: list[dict[str, Any]] = []
        self.keep_bodies = False
        self.calls: list[str] = []
        self.most_live = 0
        self.tokens = 0
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        app = web.Application(client_max_size=1 << 28)
        app.router.add_post("/generate", self._generate)
        app.router.add_post("/abort_request", self._abort)
        app.router.add_post("/continue_generation", self._continue)
        app.router.add_get("/health", self._health)
        app.router.add_get("/v1/models", self._models)
        app.router.add_get("/v1/loads", self._loads)
        app.router.add_get("/metrics", self._metrics)
        self._runner = web.AppRunner(
            app, keepalive_timeout=self.keep_alive_s, access_log=None, shutdown_timeout=0.01
        )
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port, reuse_address=True, backlog=4096)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Go away with everything in flight, as a crash does."""
        assert self._runner is not None
        for server_connection in list(
            self._runner.server.connections if self._runner.server else ()
        ):
            if server_connection.transport is not None:
                server_connection.transport.abort()
        for live in self.live.values():
            live.aborted.set()
        await self._runner.cleanup()
        self._runner = None
        self.live.clear()

    async def __aenter__(self) -> FakeServer:
        await self.start()
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._runner is not None:
            await self.stop()

    async def _gate(self, request: web.Request, key: str | None) -> web.Response | None:
        await self.answering.wait()
        if key is not None and request.headers.get("Authorization") != f"Bearer {key}":
            return web.json_response({"error": "Unauthorized"}, status=401)
        return None

    async def _generate(self, request: web.Request) -> web.StreamResponse:
        if (refused := await self._gate(request, self.api_key)) is not None:
            return refused
        body = await request.json()
        ids, rid = body["input_ids"], body["rid"]
        if self.keep_bodies:
            self.bodies.append(body)
        self.rids.append(rid)
        at = len(ids) - ids[::-1].index(OPEN)
        prompt = ids[:at]
        times = self.asked[tuple(prompt)] = self.asked.get(tuple(prompt), 0) + 1
        fault = self.script(prompt, times)
        asked = body["sampling_params"]["max_new_tokens"]
        if len(ids) + asked > CONTEXT:
            fault = "400_context"
        if self.max_running is not None and len(self.live) >= self.max_running:
            fault = "503_full"
        if rid in self.live:
            return web.json_response({"error": {"message": "Duplicate request ID"}}, status=400)
        if fault == "502_late":
            await self._another()
        if (response := refusal(fault, len(ids))) is not None:
            return response
        if fault == "reset":
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        whole = answer_to(prompt)
        if len(ids) == at:  # an answer that was begun is continued as it is
            whole = faulty(fault, whole, asked)
        elif fault == "end_now":
            whole = [*ids[at:], END]
        live = Live(rid, prompt, whole, at_so_far := len(ids) - at, asked, time.monotonic())
        if fault in ("abort", "no_done", "reset_body"):
            live.asked = min(asked, len(whole) - live.begun) // 2
        elif fault == "abort_empty":
            live.asked = 0
        elif fault == "small_pool":
            live.asked = max(1, asked // 2)
        if body.get("stream"):
            live.interval = body["sampling_params"].get("stream_interval", 1)
        self.live[rid] = live
        self.most_live = max(self.most_live, len(self.live))
        events: Events | None = None
        try:
            if live.interval is not None:
                events = Events(request, live, self.incremental)
                await events.begin()
            made = await self._make(live, fault, events)
        except ConnectionError:
            self.tokens += len(self._made(live))
            return web.Response()  # the client is gone
        finally:
            self.live.pop(rid, None)
        if made is None:
            made = [] if fault == "hang_abortable" else self._made(live)
            reason: dict[str, Any] = {"type": "abort", "message": "Aborted", "status_code": None}
        elif fault in ("abort", "abort_empty"):
            reason = {"type": "abort", "message": "Aborted"}
        elif fault == "small_pool":
            reason = {"type": "length", "length": len(made)}
        elif made and made[-1] == END:
            reason = {"type": "stop", "matched": END}
        else:
            reason = {"type": "length", "length": len(made)}
        self.tokens += len(made)
        answer = {
            "text": "",
            "output_ids": made,
            "meta_info": {
                "id": rid,
                "finish_reason": reason,
                "prompt_tokens": at + at_so_far,
                "completion_tokens": len(made),
            },
        }
        if events is not None:
            return await events.finish(answer, fault)
        if fault in ("reset_body", "slow_body"):
            return await self._by_halves(request, answer, fault)
        return web.json_response(answer)

    async def _another(self) -> None:
        """Until another request is answered, while there is one."""
        before = self.tokens
        while self.live and self.tokens == before:  # noqa: ASYNC110
            await asyncio.sleep(0.005)

    async def _make(self, live: Live, fault: str | None, events: Events | None) -> list[int] | None:
        """Tokens of the answer when they are ready; None: aborted."""
        if fault == "hang":
            live.deaf = True
            await asyncio.Event().wait()
        if fault == "hang_abortable":
            await live.aborted.wait()
            return None
        rest = live.whole[live.begun : live.begun + live.asked]
        seconds = self.token_s * len(rest)
        end = live.started + seconds
        while seconds and (left := end - time.monotonic()) > 0:
            step = self.token_s * live.interval if live.interval and events else left
            try:
                async with asyncio.timeout(min(step, left, LOOK_S)):
                    await live.aborted.wait()
                    return None
            except TimeoutError:
                pass
            if events is not None:
                await events.tell(self._made(live))
                if events.alone():
                    raise ConnectionError
        if self.stuck:
            await live.aborted.wait()
            return None
        return rest

    def _made(self, live: Live) -> list[int]:
        """What an aborted request has so far."""
        if not self.token_s:
            return []
        count = int((time.monotonic() - live.started) / self.token_s)
        return live.whole[live.begun : live.begun + min(count, live.asked)]

    async def _by_halves(
        self, request: web.Request, answer: dict[str, Any], fault: str
    ) -> web.StreamResponse:
        data = web.json_response(answer).body
        assert isinstance(data, bytes)
        if request.transport is None or request.transport.is_closing():
            return web.Response()  # the client is gone
        response = web.StreamResponse(headers={"Content-Length": str(len(data))})
        await response.prepare(request)
        await response.write(data[: len(data) // 2])
        if fault == "reset_body":
            await asyncio.sleep(0.02)  # what the client has not read yet would be lost
            assert request.transport is not None
            request.transport.abort()
            return response
        await asyncio.sleep(0.5)
        with contextlib.suppress(ConnectionError):  # the client may be gone
            await response.write(data[len(data) // 2 :])
            await response.write_eof()
        return response

    async def _abort(self, request: web.Request) -> web.Response:
        self.calls.append("abort")
        if (refused := await self._gate(request, self.admin_key or self.api_key)) is not None:
            return refused
        live = self.live.get((await request.json())["rid"])
        if live is not None and not live.deaf:
            live.aborted.set()
        return web.Response()

    async def _continue(self, request: web.Request) -> web.Response:
        self.calls.append("continue")
        if (refused := await self._gate(request, self.admin_key or self.api_key)) is not None:
            return refused
        await request.json()
        return web.json_response({"status": "ok"})

    async def _metrics(self, request: web.Request) -> web.Response:
        name = "sglang:num_retracted_requests_total"
        return web.Response(text=f'{name}{{model_name="fake"}} {self.retractions}.0\n')

    async def _health(self, request: web.Request) -> web.Response:
        self.calls.append("health")
        await self._gate(request, None)
        return web.Response(status=200 if self.healthy and not self.stuck else 503)

    async def _models(self, request: web.Request) -> web.Response:
        if (refused := await self._gate(request, self.api_key)) is not None:
            return refused
        return web.json_response({"data": [{"id": "fake", "max_model_len": CONTEXT}]})

    async def _loads(self, request: web.Request) -> web.Response:
        if (refused := await self._gate(request, self.api_key)) is not None:
            return refused
        if not self.has_loads:
            return web.json_response({"detail": "Not Found"}, status=404)
        working = 0 if self.stuck else sum(len(self._made(v)) for v in self.live.values())
        counter = float(self.tokens + working)
        figures: dict[str, Any] = {}
        if self.kv_usage is not None:
            figures = {"num_used_tokens": int(1e6 * self.kv_usage), "max_total_num_tokens": 10**6}
        return web.json_response(
            {
                "loads": [
                    {
                        **figures,
                        "num_running_reqs": len(self.live) - self.waiting,
                        "num_waiting_reqs": self.waiting,
                        "total_prefill_uncached_tokens": 0,
                        "decode_moments": [0.0, 0.0, 0.0, 0.0, 0.0, counter],
                    }
                ]
            }
        )


async def _serve(server: FakeServer, tally: str) -> None:
    await server.start()
    print(server.port, flush=True)
    if not tally:
        await asyncio.Event().wait()
    # How many tokens were made must be known after a kill, too.
    fd = os.open(tally, os.O_RDWR | os.O_CREAT, 0o644)
    while True:
        made = server.tokens + sum(len(server._made(live)) for live in server.live.values())
        os.pwrite(fd, b"%020d" % made, 0)
        await asyncio.sleep(0.05)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--token-s", type=float, default=0.0)
    parser.add_argument("--faults", default="")
    parser.add_argument("--tally", default="", help="file that holds the tokens made so far")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    pairs = (item.split("=") for item in args.faults.split(",") if item)
    rates = {name: float(rate) for name, rate in pairs}
    if unknown := sorted(rates.keys() - set(FAULTS)):
        parser.error(f"no such fault: {', '.join(unknown)}")
    server = FakeServer(token_s=args.token_s, port=args.port, script=by_chance(rates, args.seed))
    asyncio.run(_serve(server, args.tally))


if __name__ == "__main__":
    main()
