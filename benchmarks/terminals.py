"""Terminals for benchmarks: a real tmux with a client of its own, and what a process costs."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import shlex
import struct
import subprocess
import termios
import threading
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")
FOCUS, BLUR = b"\x1b[I", b"\x1b[O"
"""What a terminal sends when it gets and loses the focus."""
CONF = """
set -g status off
set -g focus-events on
set -g default-terminal tmux-256color
set -g remain-on-exit on
"""
"""What `eagle-tui doctor terminal` asks for, and no line of tmux's own on the screen."""
START_S = 60.0


def spent(pid: int) -> float:
    """CPU seconds of a process, all threads, so far."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def resident(pid: int) -> int:
    """Bytes of memory that a process has now."""
    return int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * PAGE


def written(pid: int) -> int:
    """Bytes that a process has given to write() and its like, to whatever file or socket."""
    for line in Path(f"/proc/{pid}/io").read_text(encoding="ascii").splitlines():
        if line.startswith("wchar:"):
            return int(line.split()[1])
    raise RuntimeError("no wchar")


@dataclass(frozen=True)
class Look:
    """What a screen had cost at a moment."""

    at: float
    cpu: float
    rss: int
    written: int
    """Bytes that the program wrote to its terminal."""
    sent: int
    """Bytes that tmux sent to the outer terminal: what goes over SSH."""


class Pty:
    """A program in a pseudo-terminal that is read all the time."""

    def __init__(self, command: list[str], env: Mapping[str, str], columns: int, rows: int) -> None:
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            os.execvpe(command[0], command, dict(env))
        size = struct.pack("HHHH", rows, columns, 0, 0)
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, size)
        self.count = 0
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while True:
            try:
                select.select([self._fd], [], [])
                self.count += len(os.read(self._fd, 1 << 16))
            except (OSError, ValueError):
                return

    def type(self, data: bytes) -> None:
        """Keys, or what a terminal tells by itself."""
        os.write(self._fd, data)


class Tmux:
    """A tmux server of its own with the program in it, and a client attached to it."""

    def __init__(
        self, command: list[str], env: Mapping[str, str], base: Path, columns: int, rows: int
    ) -> None:
        self._name = f"eagle-bench-{uuid.uuid4().hex[:8]}"
        self._env = env
        self._conf = base / f"{self._name}.conf"
        self._conf.write_text(CONF, encoding="utf-8")
        self._out = base / f"{self._name}.out"
        size = ("-x", str(columns), "-y", str(rows))
        # The pipe is there before the program writes its first byte.
        self.call("new-session", "-d", "-s", "s", "-n", "eagle", *size, "exec sleep 600")
        self.call("pipe-pane", "-t", "s:eagle", f"exec cat > {shlex.quote(str(self._out))}")
        self.client = Pty(["tmux", "-L", self._name, "attach", "-t", "s"], env, columns, rows)
        self._wait(lambda: bool(self.call("list-clients")), "no client")
        self.client.type(FOCUS)
        self.call("respawn-pane", "-k", "-t", "s:eagle", f"exec {shlex.join(command)}")
        self.pid = int(self.call("display-message", "-p", "-t", "s:eagle", "#{pane_pid}"))

    def call(self, *words: str) -> str:
        """A tmux command; gives what it prints."""
        done = subprocess.run(
            ["tmux", "-L", self._name, "-f", str(self._conf), *words],
            capture_output=True, text=True, env=dict(self._env), check=False,
        )  # fmt: skip
        return done.stdout

    def screen(self) -> str:
        """What the program's window shows."""
        return self.call("capture-pane", "-t", "s:eagle", "-p")

    def press(self, *keys: str) -> None:
        for key in keys:
            self.call("send-keys", "-t", "s:eagle", key)
            time.sleep(0.2)

    def wait(self, text: str) -> None:
        """Until the screen shows `text`."""
        self._wait(lambda: text in self.screen(), f"{text!r} is not on the screen")

    def _wait(self, check, why: str) -> None:  # type: ignore[no-untyped-def]
        deadline = time.monotonic() + START_S
        while not check():
            if time.monotonic() > deadline:
                raise RuntimeError(f"{why}:\n{self.screen()}")
            time.sleep(0.1)

    def hide(self) -> None:
        """Open another window over the program's."""
        self.call("new-window", "-t", "s", "-n", "other", "exec sleep 100000")

    def blur(self) -> None:
        """The outer terminal loses the focus."""
        self.client.type(BLUR)

    def look(self) -> Look:
        """What it has cost until now."""
        return Look(
            time.monotonic(), spent(self.pid), resident(self.pid), self._out.stat().st_size,
            self.client.count,
        )  # fmt: skip

    def end(self) -> None:
        """End it all."""
        self.call("kill-server")
        os.waitpid(self.client.pid, 0)
