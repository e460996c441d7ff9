"""How fast phase 2 is, beside a bare aiohttp loop that does the same, in one run.

`python benchmarks/generate.py` prints three small tables:

- speed: 512 requests in flight against a server that answers at once, in its own process. The bare
  loop sends the same requests, parses the answers and writes a JSON line for each, and knows
  nothing of prompts files, caps, retries, reasoning, repair or events.
- memory: highest resident memory of a worker with 100,000 prompts of 1,000 tokens.
- resume: time and memory until a worker with 1,000,000 stored responses is ready.

Only the ratios of one run mean something: the machine is shared.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

IN_FLIGHT = 512
PROMPT_TOKENS = 1000
ANSWER_TOKENS = 1416
"""Mean of a real run."""
WORD = 400
"""An ordinary token of the shipped model."""


def answer(thought_end: int, end: int) -> bytes:
    """A whole HTTP response with an answer of ANSWER_TOKENS tokens, and text as SGLang sends it."""
    ids = [WORD + n % 300 for n in range(ANSWER_TOKENS - 200)] + [thought_end]
    ids += [WORD + n % 199 for n in range(ANSWER_TOKENS - len(ids) - 1)] + [end]
    meta = {
        "id": "0" * 32,
        "finish_reason": {"type": "stop", "matched": end},
        "prompt_tokens": PROMPT_TOKENS,
        "completion_tokens": len(ids),
        "cached_tokens": 0,
        "e2e_latency": 1.0,
    }
    return reply(json.dumps({"text": "word " * len(ids), "output_ids": ids, "meta_info": meta}))


def reply(text: str) -> bytes:
    """A whole HTTP response."""
    body = text.encode()
    head = (
        f"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


class Instant(asyncio.Protocol):
    """Answers each request at once from ready-made bytes: costs as little as a server can."""

    def __init__(self, answers: dict[bytes, bytes]) -> None:
        self._answers = answers
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
            del self._data[: at + 4 + size]
            self._transport.write(self._answers[head.split(b" ", 2)[1]])


async def serve(thought_end: int, end: int) -> None:
    """The server's process: prints its port and answers for ever."""
    empty = reply("{}")
    answers = {
        b"/generate": answer(thought_end, end),
        b"/v1/models": reply('{"data":[{"max_model_len":4096}]}'),
        b"/v1/loads": reply('{"loads":[]}'),
    }
    answers |= dict.fromkeys((b"/health", b"/continue_generation", b"/abort_request"), empty)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Instant(answers), "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def make_run(root: Path, prompts: int, url: str) -> None:
    """A run directory with `prompts` prompts of PROMPT_TOKENS tokens."""
    from eagle_tui.rundir.paths import RunDir

    run = RunDir.at(root)
    run.phase("prepare").mkdir(parents=True)
    run.config.write_text(
        '[run]\nphases = ["generate"]\n[target]\nmodel = "builtin:tiny"\n'
        f'[[server]]\nurl = "{url}"\n[generate]\nconcurrency = {IN_FLIGHT}\n'
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


def ours(root: Path, stop_after_s: float | None = None) -> int:
    """The worker's own code; gives how many responses were stored."""
    from eagle_tui.clock import SystemClock
    from eagle_tui.config import load_config
    from eagle_tui.pipeline.generation.runner import Runner
    from eagle_tui.pipeline.generation.speech import load_speech
    from eagle_tui.pipeline.worker import Stopped, Worker
    from eagle_tui.rundir.events import WorkerLog
    from eagle_tui.rundir.paths import RunDir

    run = RunDir.at(root)
    config, clock = load_config(run.config), SystemClock()
    worker = Worker(run, config, WorkerLog(run.events("generate", 1), clock), clock, "generate", 1)
    speech = load_speech(config, run)

    async def generate() -> None:
        if stop_after_s is not None:
            asyncio.get_running_loop().call_later(stop_after_s, worker.stop.set)
        await Runner(worker, speech).run()

    def work() -> int:
        with contextlib.suppress(Stopped):
            asyncio.run(generate())
        with run.responses("b1").open("rb") as file:
            return sum(1 for _ in file)

    measured(work)
    return 0


def bare(root: Path) -> int:
    """The loop that one would write: a queue, 512 tasks, a file."""
    import aiohttp

    prompts = (root / "prompts" / "b1.jsonl").read_bytes().splitlines()
    url = json.dumps((root / "run.toml").read_text()).split('url = \\"')[1].split("\\")[0]
    out = (root / "bare.jsonl").open("wb")
    sampling = {"temperature": 0.7, "top_p": 0.95, "max_new_tokens": 3000}

    async def one(session: aiohttp.ClientSession, waiting: list[bytes]) -> None:
        while waiting:
            row = json.loads(waiting.pop())
            body = {"rid": row["id"], "input_ids": row["prompt_ids"], "sampling_params": sampling}
            async with session.post(f"{url}/generate", json=body) as response:
                found = await response.json()
            row["output_ids"], row["content"] = found["output_ids"], found["text"]
            row["usage"] = found["meta_info"]
            out.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")

    async def all_of_them() -> None:
        connector = aiohttp.TCPConnector(limit=0)
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
            await asyncio.gather(*(one(session, prompts) for _ in range(IN_FLIGHT)))

    total = len(prompts)

    def work() -> int:
        asyncio.run(all_of_them())
        out.close()
        return total

    measured(work)
    return 0


def resume(root: Path) -> int:
    """Open a dataset as a worker does at its start."""
    from eagle_tui.config import load_config
    from eagle_tui.pipeline.generation.work import open_work
    from eagle_tui.rundir import desired
    from eagle_tui.rundir.paths import RunDir

    run = RunDir.at(root)
    config = load_config(run.config)
    limits = desired.limits(config, desired.Desired(), config.dataset[0])

    def work() -> int:
        return open_work(run, config.dataset[0], limits, "m").figures.rows

    measured(work)
    return 0


def child(what: str, root: Path, *args: str) -> dict[str, float]:
    """Measure in a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, "--child", what, str(root), *args],
        stdout=subprocess.PIPE, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    return dict(json.loads(done.stdout.splitlines()[-1]))


def table(head: list[str], rows: list[list[str]]) -> None:
    """Print a small table."""
    widths = [max(len(row[n]) for row in [head, *rows]) for n in range(len(head))]
    for row in [head, ["-" * width for width in widths], *rows]:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)))
    print(flush=True)


def speed(base: Path, url: str, requests: int, repeats: int) -> None:
    """Requests per second and CPU per request, ours beside bare, best of `repeats`."""
    found: dict[str, list[dict[str, float]]] = {"bare": [], "ours": []}
    for number in range(repeats):
        for what in found:
            root = base / f"{what}{number}"
            make_run(root, requests, url)
            found[what].append(child(what, root))
    rate = {k: max(r["requests"] / r["s"] for r in v) for k, v in found.items()}
    cost = {k: min(1000 * r["cpu_s"] / r["requests"] for r in v) for k, v in found.items()}
    print(f"{requests:,} requests, {IN_FLIGHT} in flight, best of {repeats}")
    table(
        ["", "requests/s", "CPU ms/request"],
        [
            *([what, f"{rate[what]:,.0f}", f"{cost[what]:.2f}"] for what in found),
            [
                "ours / bare",
                f"{rate['ours'] / rate['bare']:.2f} (aim >= 0.7)",
                f"{cost['ours'] / cost['bare']:.2f} (aim <= 1.6)",
            ],
        ],
    )


def memory(base: Path, url: str, prompts: int, seconds: float) -> None:
    """Peak memory of a worker with many prompts, at work for some seconds."""
    root = base / "memory"
    make_run(root, prompts, url)
    idle = child("ours", _empty(base, url), "1")
    found = child("ours", root, str(seconds))
    print(f"{prompts:,} prompts of {PROMPT_TOKENS:,} tokens, {IN_FLIGHT} in flight")
    table(
        ["", "peak MB", "responses"],
        [
            ["no prompts (interpreter, tokenizer)", f"{idle['mb']:,.0f}", "0"],
            ["all", f"{found['mb']:,.0f} (aim <= 400)", f"{found['requests']:,.0f}"],
        ],
    )


def _empty(base: Path, url: str) -> Path:
    root = base / "empty"
    make_run(root, 0, url)
    (root / "responses").mkdir()
    (root / "responses" / "b1.jsonl").touch()
    return root


def resuming(base: Path, rows: int, tokens: int) -> None:
    """Time and memory until stored responses are known again."""
    from eagle_tui.pipeline.generation.responses import encode, response_row
    from eagle_tui.rundir.paths import RunDir

    root = base / f"resume{tokens}"
    make_run(root, 0, "http://127.0.0.1:9")
    run = RunDir.at(root)
    run.phase("generate").mkdir()
    line = encode(
        response_row(
            id="@" * 24, dataset="b1", state="complete", finish_reason="stop",
            prompt_tokens=tokens, completion_tokens=tokens, reasoning_tokens=tokens // 2,
            endpoint="s", attempt=1, pieces=1, at=1.0, flag="", prompt_ids=[WORD] * tokens,
            output_ids=[WORD] * tokens, reasoning="word " * (tokens // 2),
            content="word " * (tokens // 2), conversation=[{"role": "user", "content": "word"}],
        )
    )  # fmt: skip
    with run.prompts("b1").open("wb") as prompts, run.responses("b1").open("wb") as responses:
        for number in range(rows):
            key = b"%024x" % number
            prompts.write(b'{"id":"%s","dataset":"b1","prompt_ids":[400]}\n' % key)
            responses.write(line.replace(b"@" * 24, key, 1))
    size = run.responses("b1").stat().st_size
    found = child("resume", root)
    print(f"{rows:,} stored responses, {size / 1e9:.1f} GB")
    table(
        ["", "s", "peak MB", "MB/s"],
        [["ready", f"{found['s']:.1f}", f"{found['mb']:,.0f}", f"{size / 1e6 / found['s']:,.0f}"]],
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--child", choices=["ours", "bare", "resume", "serve"])
    parser.add_argument("args", nargs="*")
    parser.add_argument("--only", choices=["speed", "memory", "resume"])
    parser.add_argument("--requests", type=int, default=4000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    if options.child == "serve":
        asyncio.run(serve(*map(int, options.args)))
    if options.child == "ours":
        return ours(Path(options.args[0]), *map(float, options.args[1:]))
    if options.child == "bare":
        return bare(Path(options.args[0]))
    if options.child == "resume":
        return resume(Path(options.args[0]))

    from transformers import AutoTokenizer

    from eagle_tui.pipeline.tiny import MODEL_DIR

    tokenizer = AutoTokenizer.from_pretrained(MODEL_DIR)
    ends = (tokenizer.convert_tokens_to_ids("</think>"), tokenizer.eos_token_id)
    server = subprocess.Popen(
        [sys.executable, __file__, "--child", "serve", *map(str, ends)], stdout=subprocess.PIPE
    )
    assert server.stdout is not None
    url = f"http://127.0.0.1:{int(server.stdout.readline())}"
    try:
        with tempfile.TemporaryDirectory() as base:
            if options.only in (None, "speed"):
                speed(Path(base), url, options.requests, options.repeats)
            if options.only in (None, "memory"):
                memory(Path(base), url, 100_000, 30.0)
            if options.only in (None, "resume"):
                resuming(Path(base), 1_000_000, 100)
                resuming(Path(base), 50_000, 1416)
    finally:
        server.kill()
    return 0


if __name__ == "__main__":
    sys.exit(main())
