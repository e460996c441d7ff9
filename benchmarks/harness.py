"""What the benchmarks of generation share: a server that costs next to nothing, a run directory, a
measurement in a process of its own, a table."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import resource
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

PROMPT_TOKENS = 1000
ANSWER_TOKENS = 1416
"""Mean of a real run."""
INTERVAL = 64
"""Tokens between the events of a stream, as [generate] journal_tokens by default."""
WORD = 400
"""An ordinary token of the shipped model."""


def answer(thought_end: int, end: int) -> tuple[bytes, bytes]:
    """Whole HTTP responses with an answer of ANSWER_TOKENS tokens and its text, as SGLang sends
    them: plain, and streamed with cumulative events."""
    ids = [WORD + n % 300 for n in range(ANSWER_TOKENS - 200)] + [thought_end]
    ids += [WORD + n % 199 for n in range(ANSWER_TOKENS - len(ids) - 1)] + [end]

    def event(count: int, reason: Any) -> str:
        meta = {
            "id": "0" * 32,
            "finish_reason": reason,
            "prompt_tokens": PROMPT_TOKENS,
            "completion_tokens": count,
            "cached_tokens": 0,
            "e2e_latency": 1.0,
        }
        text = {"text": "word " * count, "output_ids": ids[:count], "meta_info": meta}
        return json.dumps(text, separators=(",", ":"))

    last = event(len(ids), {"type": "stop", "matched": end})
    events = [event(count, None) for count in range(1, len(ids), INTERVAL)] + [last, "[DONE]"]
    stream = "".join(f"data: {text}\n\n" for text in events)
    return reply(last), reply(stream, "text/event-stream")


def chat() -> bytes:
    """The same answer in the words of the OpenAI API."""
    message = {"role": "assistant", "content": "word " * 200, "reasoning_content": "word " * 1215}
    usage = {"prompt_tokens": PROMPT_TOKENS, "completion_tokens": ANSWER_TOKENS}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    body = {"id": "x", "object": "chat.completion", "created": 1, "model": "m"}
    usage["total_tokens"] = PROMPT_TOKENS + ANSWER_TOKENS
    return reply(json.dumps({**body, "choices": [choice], "usage": usage}))


def reply(text: str, kind: str = "application/json") -> bytes:
    """A whole HTTP response."""
    body = text.encode()
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


class Occupancy:
    """Share of the places that were in use, from when all were first taken until the last request
    came."""

    def __init__(self, places: int) -> None:
        self._places = places
        self._live = 0
        self._area = self._full_from = self._last = 0.0
        self._at_last_request = (0.0, 0.0)

    def step(self, change: int) -> None:
        """A request came (1) or was answered (-1)."""
        now = time.perf_counter()
        if self._full_from:
            self._area += self._live * (now - self._last)
        self._live += change
        self._last = now
        if not self._full_from and self._live >= self._places:
            self._full_from = now
        if change > 0 and self._full_from:
            self._at_last_request = (self._area, now - self._full_from)

    def share(self) -> float:
        area, seconds = self._at_last_request
        return area / seconds / self._places if seconds else 0.0


class Instant(asyncio.Protocol):
    """Answers each request from ready-made bytes, at once or after a random time: costs as little
    as a server can."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._data = bytearray()
        self._transport: Any = None

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._data += data
        while (at := self._data.find(b"\r\n\r\n")) >= 0:
            head = bytes(self._data[:at])
            size = 0
            for line in head.split(b"\r\n")[1:]:
                name, _, value = line.partition(b":")
                if name.lower() == b"content-length":
                    size = int(value)
            if len(self._data) < at + 4 + size:
                return
            streamed = self._data.endswith(b'"stream":true}', 0, at + 4 + size)
            del self._data[: at + 4 + size]
            self._server.take(head.split(b" ", 2)[1], streamed, self._transport)


MODEL = (b"/generate", b"/v1/chat/completions")
"""Paths that make the model work."""


class Server:
    """`mean_s`: mean latency of `/generate`, log-normal with a heavy tail; 0: none."""

    def __init__(self, answers: dict[bytes, bytes], stream: bytes, mean_s: float, places: int):
        self._answers = answers
        self._stream = stream
        self._mean_s = mean_s
        self._rng = random.Random(1)
        self._requests = self._answered = 0
        self._occupancy = Occupancy(places)

    def take(self, path: bytes, streamed: bool, transport: Any) -> None:
        """One request."""
        if path == b"/occupancy":
            transport.write(reply(json.dumps(self._occupancy.share())))
        elif path == b"/counts":
            transport.write(reply(json.dumps([self._requests, self._answered])))
        elif path in MODEL and self._mean_s:
            self._requests += 1
            self._occupancy.step(1)
            sigma = 1.2
            late = self._rng.lognormvariate(-sigma * sigma / 2, sigma) * self._mean_s
            asyncio.get_running_loop().call_later(late, self._late, path, streamed, transport)
        else:
            self._answer(path, streamed, transport)

    def _late(self, path: bytes, streamed: bool, transport: Any) -> None:
        self._occupancy.step(-1)
        if not transport.is_closing():
            self._answered += 1
            self._answer(path, streamed, transport)

    def _answer(self, path: bytes, streamed: bool, transport: Any) -> None:
        transport.write(self._stream if streamed else self._answers[path])


async def serve(mean_s: float, places: int) -> None:
    """The server's process: prints its port and answers for ever."""
    from eagle_tui.pipeline.generation.tokens import _read_plain
    from eagle_tui.pipeline.tiny import MODEL_DIR

    tokenizer = _read_plain(Path(MODEL_DIR))
    assert tokenizer is not None and tokenizer.eos_token_id is not None
    empty = reply("{}")
    plain, stream = answer(tokenizer.get_added_vocab()["</think>"], tokenizer.eos_token_id)
    answers = {
        b"/generate": plain,
        b"/v1/chat/completions": chat(),
        b"/v1/models": reply('{"data":[{"max_model_len":4096}]}'),
        b"/v1/loads": reply('{"loads":[]}'),
    }
    answers |= dict.fromkeys((b"/health", b"/continue_generation", b"/abort_request"), empty)
    server = Server(answers, stream, mean_s, places)
    loop = asyncio.get_running_loop()
    listening = await loop.create_server(lambda: Instant(server), "127.0.0.1", 0, backlog=4096)
    print(listening.sockets[0].getsockname()[1], flush=True)
    await listening.serve_forever()


@contextlib.contextmanager
def serving(mean_s: float = 0.0, places: int = 512) -> Iterator[str]:
    """A server in a process of its own; gives its URL."""
    command = [sys.executable, __file__, str(mean_s), str(places)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert server.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(server.stdout.readline())}"
    finally:
        server.kill()
        server.wait()


def asked(url: str, path: str) -> Any:
    """What the server says at a path, as JSON."""
    with urllib.request.urlopen(url + path) as response:
        return json.loads(response.read())


def make_run(root: Path, prompts: int, url: str, in_flight: int = 512, settings: str = "") -> None:
    """A run directory with `prompts` prompts of PROMPT_TOKENS tokens."""
    from eagle_tui.rundir.paths import RunDir

    run = RunDir.at(root)
    run.phase("prepare").mkdir(parents=True)
    run.config.write_text(
        '[run]\nphases = ["generate"]\n[target]\nmodel = "builtin:tiny"\n'
        f'[[server]]\nurl = "{url}"\n[generate]\nconcurrency = {in_flight}\n{settings}\n'
        '[[dataset]]\nname = "b1"\nsource = "b1.jsonl"\n'
    )
    ids = json.dumps([WORD + n % 300 for n in range(PROMPT_TOKENS)], separators=(",", ":"))
    talk = '[{"role":"user","content":"' + "word " * 50 + '"}]'
    with run.prompts("b1").open("w") as file:
        for number in range(prompts):
            file.write(
                f'{{"id":"{number:024x}","dataset":"b1","ordinal":0,"conversation":{talk},'
                f'"prompt_ids":{ids},"opened":true,"n_turns":1}}\n'
            )


def measured(work: Callable[[], int]) -> None:
    """Run `work` and print requests, seconds, CPU seconds and highest memory in MB as JSON."""
    wall, cpu = time.perf_counter(), time.process_time()
    requests = work()
    print(
        json.dumps(
            {
                "requests": requests,
                "s": time.perf_counter() - wall,
                "cpu_s": time.process_time() - cpu,
                "mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            }
        ),
        flush=True,
    )


def child(script: str, what: str, root: Path, *args: str) -> dict[str, float]:
    """Measure in a process of its own: `script --child what root args…`."""
    done = subprocess.run(
        [sys.executable, script, "--child", what, str(root), *args],
        stdout=subprocess.PIPE, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    return dict(json.loads(done.stdout.splitlines()[-1]))


def table(head: list[str], rows: list[list[str]]) -> None:
    """Print a small table in Markdown."""
    widths = [max(len(row[n]) for row in [head, *rows]) for n in range(len(head))]
    for row in [head, ["-" * width for width in widths], *rows]:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        print("| " + " | ".join(cells) + " |")
    print(flush=True)


if __name__ == "__main__":
    asyncio.run(serve(float(sys.argv[1]), int(sys.argv[2])))
