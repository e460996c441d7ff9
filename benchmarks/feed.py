"""A live run for the benchmarks of screen and supervisor: the real supervisor, the real worker of
phase 2 with ten datasets, and, both synthetic, a driver with eight GPUs and a server whose figures
move every second."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import largerun
from harness import ANSWER_TOKENS, Instant, Server, answer, reply

from eagle_tui.protocol import Status
from eagle_tui.reach import answers, last_status
from eagle_tui.rundir.paths import RunDir

HERE = Path(__file__).parent
EAGLE = str(Path(sys.executable).with_name("eagle-tui"))
IN_FLIGHT = 150
KV_TOKENS = 412_000
UNKNOWN = b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"
READY_S = 300.0


class Sglang(Server):
    """A server that answers `per_s` requests a second when IN_FLIGHT of them are sent, and tells of
    its load as SGLang does."""

    def __init__(self, answers: dict[bytes, bytes], stream: bytes, per_s: float) -> None:
        super().__init__(answers, stream, IN_FLIGHT / per_s, IN_FLIGHT)
        self._per_s = per_s
        self._chance = random.Random(3)
        self._told = time.monotonic()
        self._made = 0.0

    def take(self, path: bytes, streamed: bool, transport: Any) -> None:
        if path == b"/v1/loads":
            transport.write(reply(json.dumps(self._loads())))
        elif path == b"/metrics":
            transport.write(reply(self._metrics(), "text/plain"))
        elif path not in self._answers:
            transport.write(UNKNOWN)
        else:
            super().take(path, streamed, transport)

    def _count(self) -> float:
        """Tokens made so far: those of the answers, but without the jumps in which they come."""
        now = time.monotonic()
        made = (now - self._told) * self._per_s * ANSWER_TOKENS * self._chance.gauss(1, 0.04)
        self._made += max(0.0, made)
        self._told = now
        return self._made

    def _loads(self) -> dict[str, Any]:
        rank = {
            "dp_rank": 0,
            "timestamp": time.time(),
            "num_running_reqs": self._chance.randint(47, 56),
            "num_waiting_reqs": self._chance.randint(90, 103),
            "num_used_tokens": int(KV_TOKENS * self._chance.uniform(0.80, 0.84)),
            "max_total_num_tokens": KV_TOKENS,
        }
        return {"loads": [rank]}

    def _metrics(self) -> str:
        made = self._count()
        modes = {"decode": made, "prefill_compute": made / 4, "prefill_cache": made / 30}
        lines = [f'sglang:realtime_tokens_total{{mode="{m}"}} {n:.1f}' for m, n in modes.items()]
        return "\n".join([*lines, "sglang:num_retracted_requests_total 3.0", ""])


async def serve(per_s: float) -> None:
    """The server's process: prints its port and answers for ever."""
    from eagle_tui.pipeline.generation.tokens import _read_plain
    from eagle_tui.pipeline.tiny import MODEL_DIR

    tokenizer = _read_plain(Path(MODEL_DIR))
    assert tokenizer is not None and tokenizer.eos_token_id is not None
    empty = reply("{}")
    plain, stream = answer(tokenizer.get_added_vocab()["</think>"], tokenizer.eos_token_id)
    answers = {
        b"/generate": plain,
        b"/v1/models": reply('{"data":[{"max_model_len":4096}]}'),
        **dict.fromkeys((b"/health", b"/continue_generation", b"/abort_request"), empty),
    }
    server = Sglang(answers, stream, per_s)
    loop = asyncio.get_running_loop()
    listening = await loop.create_server(lambda: Instant(server), "127.0.0.1", 0, backlog=4096)
    print(listening.sockets[0].getsockname()[1], flush=True)
    await listening.serve_forever()


@contextlib.contextmanager
def serving(per_s: float) -> Iterator[str]:
    """That server in a process of its own; gives its URL."""
    server = subprocess.Popen([sys.executable, __file__, str(per_s)], stdout=subprocess.PIPE)
    assert server.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(server.stdout.readline())}"
    finally:
        server.kill()
        server.wait()


@dataclass
class Live:
    """A run that goes on."""

    root: Path
    env: dict[str, str]
    ready_s: float
    """From `up -d` until its supervisor answered."""

    @property
    def status(self) -> Status:
        """As it was a few seconds ago."""
        found = last_status(RunDir.at(self.root))
        assert found is not None
        return found

    @property
    def supervisor(self) -> int:
        """Its process id."""
        pid = self.status.supervisor.pid
        assert pid is not None
        return pid

    def eagle(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run `eagle-tui WORDS`."""
        return subprocess.run(
            [EAGLE, *words], env=self.env, capture_output=True, text=True, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip

    def up(self) -> None:
        """Start it, and wait until responses come."""
        began = time.monotonic()
        done = self.eagle("up", "-d", str(self.root))
        assert done.returncode == 0, done.stdout + done.stderr
        assert answers(RunDir.at(self.root))
        self.ready_s = time.monotonic() - began
        before = None
        while time.monotonic() - began < READY_S:
            status = self.status
            if status.supervisor.state == "running" and any(d.in_flight for d in status.datasets):
                phase = status.phases[1]
                if before is not None and (phase.done or 0) > before:
                    return
                before = phase.done
            time.sleep(0.5)
        raise RuntimeError(f"no responses come: {self.eagle('status', str(self.root)).stdout}")


def environment(home: Path) -> dict[str, str]:
    """For the program: nobody's own keys and themes, a terminal of 24-bit colour, our driver."""
    foreign = ("COLUMNS", "LINES", "NO_COLOR", "TMUX", "TMUX_PANE")
    env = {name: value for name, value in os.environ.items() if name not in foreign}
    return env | {
        "XDG_CONFIG_HOME": str(home),
        "TERM": "xterm-256color",
        "COLORTERM": "truecolor",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(HERE / "fakedriver"),
    }


@contextlib.contextmanager
def live(
    *, per_s: float, responses: int, days: float, left: int, start: bool = True
) -> Iterator[Live]:
    """A run with so much behind it, generating `per_s` responses a second; `left` prompts wait. It
    is stopped and removed at the end."""
    with tempfile.TemporaryDirectory(prefix="eagle-bench-") as base, serving(per_s) as url:
        root = Path(base) / "run"
        settings = f"concurrency = {IN_FLIGHT}"
        largerun.make(root, responses=responses, days=days, left=left, url=url, settings=settings)
        found = Live(root, environment(Path(base)), 0.0)
        try:
            if start:
                found.up()
            yield found
        finally:
            found.eagle("down", "--yes", str(root))


if __name__ == "__main__":
    asyncio.run(serve(float(sys.argv[1])))
