"""Replay and attach in a real terminal: what is drawn, and what is left of the title."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import termios
import time

import pytest

from eagle_tui.rundir.paths import RunDir
from eagle_tui.ui.attention import POP, PUSH


class Terminal:
    """A pseudo terminal of 120×40 with a command in it."""

    def __init__(self, *words: str) -> None:
        self._master, slave = pty.openpty()
        termios.tcsetwinsize(slave, (40, 120))
        env = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES", "NO_COLOR")}
        self.child = subprocess.Popen(
            [sys.executable, "-m", "eagle_tui", *words],
            stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
            env={**env, "TERM": "xterm-256color", "LANG": "C.UTF-8"},
        )  # fmt: skip
        os.close(slave)
        self.said = b""

    def read(self, seconds: float = 0.1) -> bool:
        """Take what is there; False at the end."""
        if select.select([self._master], [], [], seconds)[0]:
            try:
                self.said += os.read(self._master, 1 << 16)
            except OSError:
                return False
        return True

    def until(self, words: str, seconds: float = 60.0) -> None:
        deadline = time.monotonic() + seconds
        while words.encode() not in self.said:
            assert time.monotonic() < deadline, self.said[-3000:]
            assert self.read(), self.said[-3000:]

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def end(self) -> int:
        deadline = time.monotonic() + 60
        while self.read():
            assert time.monotonic() < deadline
        os.close(self._master)
        return self.child.wait(10)


@pytest.mark.parametrize(
    ("words", "shown"),
    [(("replay", "--at", "50%", "--still"), "08:30:00 stopped x60"), (("attach",), "DOWN, as of")],
)
def test_the_title_is_put_back(recorded: RunDir, words: tuple[str, ...], shown: str) -> None:
    terminal = Terminal(words[0], str(recorded.root), *words[1:])
    terminal.until(shown)
    terminal.until("\x07")
    terminal.press("q")
    assert terminal.end() == 0
    said = terminal.said.decode("utf-8", "replace")
    assert f"{PUSH}\x1b]2;" in said and "kimi-k25-eagle3: generate" in said
    assert said.index(POP) > said.index(PUSH)
    assert not recorded.lock.exists(), "no supervisor was started"
