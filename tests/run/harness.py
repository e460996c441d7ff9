"""A real run for tests: real supervisor, workers, engine, driven by the command line."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eagle_tui import proc
from eagle_tui.client import SocketClient
from eagle_tui.protocol import Status
from eagle_tui.reach import ensure_supervisor
from eagle_tui.rundir.paths import RunDir

EAGLE = [sys.executable, "-m", "eagle_tui"]
# A size in the environment would hide the terminal's own from the screen.
ENV = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES")}
ENV |= {"OMP_NUM_THREADS": "1", "TERM": "xterm-256color"}

# Short prompts and answers, so that a test takes seconds. Restarts are quick and never used up.
FAST = (
    'run.phases=["prepare", "generate", "merge"]',
    "supervisor.restarts=1000",
    "supervisor.backoff_s=0.1",
    "supervisor.stop_timeout_s=10.0",
    "server[engine].stop_timeout_s=10.0",
    "generate.max_new_tokens=256",
    "generate.max_new_tokens_long=512",
)


@dataclass
class Run:
    """One run directory and what a test does with it."""

    root: Path
    said: list[str] = field(default_factory=list)

    @property
    def dir(self) -> RunDir:
        return RunDir.at(self.root)

    def eagle(
        self, *words: str, check: bool = True, timeout: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """Run `eagle-tui WORDS`; with `check`, its exit code must be 0."""
        done = subprocess.run(
            [*EAGLE, *words],
            capture_output=True,
            text=True,
            env=ENV,
            timeout=timeout,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        self.said.append(f"$ {' '.join(words)}\n{done.stdout}{done.stderr}")
        if check and done.returncode:
            raise AssertionError(self.said[-1])
        return done

    def verb(self, verb: str, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """A verb of the run, without being asked."""
        return self.eagle(verb, str(self.root), *words, "--yes", check=check)

    def up(self) -> None:
        self.eagle("up", str(self.root), "--detach")

    def down(self) -> None:
        """Stop everything, whatever state it is in; nothing may be left behind."""
        self.eagle("down", str(self.root), "--yes", check=False)

    def status(self) -> Status:
        """As `eagle-tui status` gets it: a supervisor that was killed is started again."""

        async def look() -> Status:
            async with SocketClient(self.dir, origin="test") as client:
                return await client.status()

        ensure_supervisor(self.dir)
        return asyncio.run(look())

    def phase(self, name: str) -> str:
        return next(p.state for p in self.status().phases if p.name == name)

    def wait(self, what: str, check: Callable[[Status], Any], timeout: float = 120.0) -> Status:
        """Until `check` says yes about the status."""
        deadline = time.monotonic() + timeout
        while True:
            status = self.status()
            if check(status):
                return status
            if time.monotonic() > deadline:
                raise AssertionError(f"not in {timeout:.0f} s: {what}\n{self.story()}")
            time.sleep(0.2)

    def wait_done(self, timeout: float = 240.0) -> Status:
        """Until merge is done."""
        return self.wait(
            "every phase done",
            lambda s: all(p.state == "done" for p in s.phases[:3]),
            timeout,
        )

    def story(self) -> str:
        """What happened, for a failed test."""
        events = self.eagle("events", str(self.root), check=False).stdout
        state = self.eagle("status", str(self.root), check=False).stdout
        logs = []
        for log in sorted(self.dir.logs.glob("*.log"))[-6:]:
            logs.append(f"== {log.name}\n{log.read_text(errors='replace')[-800:]}")
        return "\n".join([state, events[-4000:], *logs])

    def rows(self) -> dict[str, list[dict[str, Any]]]:
        """Responses by dataset, read without repairing anything."""
        found: dict[str, list[dict[str, Any]]] = {}
        for path in sorted(self.dir.phase("prepare").glob("*.jsonl")):
            name = path.name.removesuffix(".jsonl")
            if name.endswith(".rejected"):
                continue
            prompts = [json.loads(line) for line in path.read_bytes().splitlines()]
            if prompts and "prompt_ids" in prompts[0]:
                file = self.dir.responses(name)
                lines = file.read_bytes().split(b"\n") if file.exists() else []
                found[name] = [json.loads(line) for line in lines if line]
        return found

    def prompt_ids(self) -> dict[str, list[str]]:
        """Ids of the prompts of each dataset that is generated."""
        found = {}
        for name in self.rows():
            lines = self.dir.prompts(name).read_bytes().splitlines()
            found[name] = [json.loads(line)["id"] for line in lines]
        return found

    def assert_each_once(self) -> None:
        """Every prompt has exactly one final row, and nothing else is there."""
        for name, wanted in self.prompt_ids().items():
            dead = self.dir.dead(name)
            lost = []
            if dead.exists():
                rows = [json.loads(line) for line in dead.read_bytes().splitlines()]
                lost = [r["id"] for r in rows if r.get("state") in ("failed", "over_context")]
            got = Counter(r["id"] for r in self.rows()[name])
            doubled = [i for i, n in got.items() if n > 1]
            missing = set(wanted) - set(got) - set(lost)
            assert not doubled, f"{name}: doubled {doubled}"
            assert not missing, f"{name}: missing {sorted(missing)}"
            assert set(got) <= set(wanted), f"{name}: foreign rows"

    def processes(self, kind: str) -> list[proc.Process]:
        """Living processes of the run: `supervisor`, `engine`, or a phase's worker."""
        module = {
            "supervisor": "eagle_tui.supervisor",
            "engine": "eagle_tui.pipeline.engine",
        }.get(kind, f"eagle_tui.pipeline.{kind}")
        found = []
        for path in Path("/proc").iterdir():
            if not path.name.isdigit():
                continue
            try:
                words = (path / "cmdline").read_bytes().decode(errors="replace").split("\0")
                cwd = (path / "cwd").readlink()
            except OSError:
                continue
            if module in words and cwd == self.root.resolve():
                process = proc.identify(int(path.name))
                if process is not None:
                    found.append(process)
        return found


def make(root: Path, settings: tuple[str, ...] = (), rows: int | None = None) -> Run:
    """A demo run in `root`, not started; with `rows`, that many prompts of each dataset."""
    run = Run(root)
    words: list[str] = []
    for setting in (*FAST, *settings):
        words += ["--set", setting]
    if rows is not None:
        names = ("b1-arith", "b2-count", "b3-strings", "b4-tools", "b5-chat", "b6-sort")
        for name in names:
            words += ["--set", f"dataset[{name}].samples={rows}"]
    run.eagle("init", str(root), *words)
    return run
