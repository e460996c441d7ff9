"""Starting, finding again and stopping the processes of workers and servers.

Each attempt gets a token that its processes carry in their environment. The attempt is recorded
before the launch, and the process after it; a supervisor that died in between finds the process by
the token. Nothing is ever found by name.
"""

from __future__ import annotations

import os
import signal
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from eagle_tui import proc
from eagle_tui.proc import TOKEN_ENV, Process

LAST_LINES = 12
SAFE_PATH = {"PYTHONSAFEPATH": "1"}
"""Keeps a process that works in the run directory from importing what lies there."""


def new_token() -> str:
    """A fresh token."""
    return uuid.uuid4().hex


@dataclass
class Exit:
    """How a process ended; both None when it was not our child and nobody can know."""

    code: int | None
    signal: int | None

    @property
    def signal_name(self) -> str | None:
        """`SIGKILL`, or `signal 99` for one without a name; None: no signal ended it."""
        if self.signal is None:
            return None
        try:
            return signal.Signals(self.signal).name
        except ValueError:
            return f"signal {self.signal}"

    def words(self) -> str:
        """For a sentence: `exit code 1`, `killed by SIGKILL`, …"""
        if name := self.signal_name:
            return f"killed by {name}"
        if self.code is not None:
            return f"exit code {self.code}"
        return "ended; how is not known, an earlier supervisor had started it"


class Handle:
    """A process that we watch: our child, or one adopted from a supervisor before us."""

    def __init__(self, token: str, process: Process, child: subprocess.Popen[bytes] | None) -> None:
        self.token = token
        self.process = process
        self._child = child

    def poll(self) -> Exit | None:
        """None while it runs."""
        if self._child is not None:
            code = self._child.poll()
            if code is None:
                return None
            return Exit(None, -code) if code < 0 else Exit(code, None)
        return None if proc.alive(self.process) else Exit(None, None)

    def send(self, number: int) -> bool:
        """Signal the process itself; False when it is gone."""
        if self._child is not None and self._child.poll() is not None:
            return False
        return proc.send(self.process, number)

    def family(self) -> list[Process]:
        """What lives of it and of everything that it started."""
        return proc.family(self.token, self.process)

    def kill_all(self) -> int:
        """SIGKILL to it and everything it started; gives how many there were."""
        return proc.kill(self.family())


def spawn(
    argv: Sequence[str], *, token: str, log: Path, cwd: Path, env: Mapping[str, str]
) -> Handle:
    """Start a process in a session of its own, output appended to `log`. OSError when it cannot
    be started."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as out:
        child = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd=cwd,
            env={**os.environ, **env, TOKEN_ENV: token},
            start_new_session=True,
        )
    process = proc.identify(child.pid)
    # A process that is gone already has no start tick any more; its exit status is still ours.
    return Handle(token, process or Process(child.pid, -1), child)


def adopt(token: str, process: Process | None) -> Handle | None:
    """The attempt's process if it still runs: as recorded, or found by the token."""
    if process is None:
        found = sorted(proc.with_token(token), key=lambda p: (p.started, p.pid))
        process = found[0] if found else None
    if process is None or not proc.alive(process):
        return None
    return Handle(token, process, None)


def last_lines(log: Path, count: int = LAST_LINES) -> list[str]:
    """The last lines of a log, without reading it whole; none when there is no log."""
    try:
        with log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - max(16_384, 400 * count)))
            data = file.read()
    except FileNotFoundError:
        return []
    text = data.decode("utf-8", "replace").replace("\r", "\n")
    return [line for line in text.split("\n") if line.strip()][-count:]
