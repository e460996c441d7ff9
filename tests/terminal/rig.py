"""The program in a real pseudo-terminal, as a process of its own."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

SCENES = Path(__file__).parents[1] / "ui" / "data"
RUN_NAME = "kimi-k25-eagle3"
START_S = 60.0
PLAIN = """
import sys
from pathlib import Path
from eagle_tui.ui.app import EagleApp
from eagle_tui.ui.recorded import RecordedClient
client = RecordedClient.load(Path(sys.argv[1]))
app = EagleApp(client, keys_file=Path("/nonexistent"))
"""
"""What every script begins with; it ends with `app.run()`."""
_SEQUENCE = re.compile(
    rb"\x1b\[[0-9;:?<=>]*[ -/]*[@-~]|\x1b[()][A-Z0-9]|\x1b\][^\x07\x1b]*(\x07|\x1b\\)"
)


class Screen:
    """One running program and the other end of its terminal."""

    def __init__(self, process: subprocess.Popen[bytes], master: int) -> None:
        self.process, self.master = process, master
        self.seen = b""
        """All that was read so far."""

    def read(self, seconds: float) -> bytes:
        """What comes within that time."""
        new = b""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            if select.select([self.master], [], [], left)[0]:
                try:
                    data = os.read(self.master, 65536)
                except OSError:  # EIO: the other end is closed
                    break
                if not data:
                    break
                new += data
        self.seen += new
        return new

    def until(self, text: str, seconds: float = START_S) -> bytes:
        """Read until `text` was written, sequences between its letters aside; gives what came."""
        new = b""
        deadline = time.monotonic() + seconds
        while text.encode() not in plain(new):
            assert time.monotonic() < deadline, f"no {text!r} in {plain(new)[-2000:]!r}"
            assert self.process.poll() is None, plain(self.seen)[-3000:].decode(errors="replace")
            new += self.read(0.1)
        return new

    def press(self, keys: bytes) -> None:
        """Send keys in one write."""
        os.write(self.master, keys)

    def react(self, keys: bytes, quiet_s: float = 0.3, seconds: float = START_S) -> bytes:
        """Send keys; gives what is drawn for them, up to a pause of `quiet_s`."""
        self.press(keys)
        deadline = time.monotonic() + seconds
        new = b""
        while not new:
            assert time.monotonic() < deadline, f"nothing is drawn for {keys!r}"
            new = self.read(0.1)
        while more := self.read(quiet_s):
            new += more
        return new

    def resize(self, columns: int, rows: int) -> None:
        """Change the terminal's size; the program is told by SIGWINCH."""
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def drain(self, seconds: float = 60.0) -> bytes:
        """Read until the program ends."""
        new = b""
        deadline = time.monotonic() + seconds
        while self.process.poll() is None and time.monotonic() < deadline:
            new += self.read(0.05)
        return new + self.read(0.1)


def plain(data: bytes) -> bytes:
    """What was written without escape sequences."""
    return _SEQUENCE.sub(b"", data)


def _take_terminal() -> None:
    """In the child: standard input becomes its controlling terminal, so that hang-ups, changes of
    size and job control reach it."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@contextmanager
def screen(
    script: str = PLAIN + "app.run()",
    *arguments: str,
    size: tuple[int, int] = (100, 30),
    env: Mapping[str, str] | None = None,
    command: list[str] | None = None,
    ready: str = RUN_NAME,
) -> Iterator[Screen]:
    """Start a script (its first argument is the scene) or a command in a terminal of that size, and
    wait until it has drawn `ready`."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
    argv = command or [sys.executable, "-c", script, str(SCENES / "kimi.json"), *arguments]
    foreign = ("COLUMNS", "LINES", "NO_COLOR", "TMUX")
    base = {k: v for k, v in os.environ.items() if k not in foreign}
    process = subprocess.Popen(
        argv,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        start_new_session=True,
        preexec_fn=_take_terminal,  # noqa: PLW1509 - no other threads are here
        env={**base, "TERM": "xterm-256color", "COLORTERM": "", **(env or {})},
    )
    os.close(slave)
    try:
        found = Screen(process, master)
        if ready:
            found.until(ready)
        yield found
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        with suppress(OSError):  # a test may have closed it
            os.close(master)
