"""The screen leaves when its terminal is gone, and gives it back when it leaves."""

from __future__ import annotations

import os
import signal
import time

import psutil
import pytest

from .rig import PLAIN, screen

IGNORES_HUP = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n" + PLAIN + "app.run()"
NORMAL = PLAIN + "app.run()"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signals_end_it_in_order(number: signal.Signals) -> None:
    with screen() as shown:
        shown.process.send_signal(number)
        out = shown.drain()
        assert shown.process.wait(timeout=60) == 0
        assert b"\x1b[?1049l" in out, "the terminal was given back"


@pytest.mark.parametrize("script", [NORMAL, IGNORES_HUP], ids=["plain", "ignores-hup"])
def test_a_terminal_that_is_gone_ends_it_without_spinning(script: str) -> None:
    with screen(script) as shown:
        watched = psutil.Process(shown.process.pid)
        before = sum(watched.cpu_times()[:2])
        os.close(shown.master)
        spent = before
        deadline = time.monotonic() + 60
        while shown.process.poll() is None:
            assert time.monotonic() < deadline, "still there without a terminal"
            try:
                spent = sum(watched.cpu_times()[:2])
            except psutil.NoSuchProcess:
                break
            time.sleep(0.05)
        assert shown.process.wait(timeout=10) in (0, -signal.SIGHUP)
        assert spent - before < 2.5


def test_q_leaves_and_gives_the_terminal_back() -> None:
    with screen() as shown:
        shown.press(b"q")
        out = shown.drain()
        assert shown.process.wait(timeout=60) == 0
        assert b"\x1b[?1049l" in out and b"\x1b[?25h" in out
        assert b"\x1b[?1000l" in out and b"\x1b[?2004l" in out


def test_it_leaves_even_while_its_terminal_reads_nothing() -> None:
    with screen(PLAIN + STUFFED) as shown:
        time.sleep(2.0)  # nobody reads: the terminal is full
        shown.process.send_signal(signal.SIGTERM)
        began = time.monotonic()
        assert shown.process.wait(timeout=60) == 0
        assert time.monotonic() - began < 30.0


STUFFED = """
import itertools
names = itertools.cycle(["eagle-dark", "eagle-light"])
begin = app.start
app.start = lambda: (begin(), app.set_interval(0.05, lambda: app.set_theme(next(names))))
app.run()
"""
