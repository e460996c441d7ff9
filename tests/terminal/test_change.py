"""The terminal changes under the screen: suspended and taken up again, resized in storms."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import psutil

from .rig import PLAIN, RUN_NAME, SCENES, plain, screen


def test_ctrl_z_gives_the_shell_back_and_fg_draws_everything_again(tmp_path: Path) -> None:
    script = tmp_path / "show.py"
    script.write_text(PLAIN + "app.run()")
    shell = ["bash", "--norc", "--noprofile", "-i"]
    with screen(command=shell, env={"PS1": "shell> "}, ready="shell> ") as shown:
        shown.press(f"{sys.executable} {script} {SCENES / 'kimi.json'}\n".encode())
        shown.until(RUN_NAME)
        shown.press(b"\x1a")
        gone = shown.until("Stopped")
        assert b"\x1b[?1049l" in gone and b"\x1b[?25h" in gone
        shown.press(b"echo it is $((40 + 2))\n")
        shown.until("it is 42")
        shown.press(b"fg\n")
        again = shown.until("Detach")
        text = plain(again).decode(errors="replace")
        assert RUN_NAME in text and "b8_sweagent" in text and b"\x1b[?1049h" in again
        shown.press(b"q")
        shown.until("shell> ")


def test_without_a_shell_to_come_back_to_it_does_not_stop() -> None:
    with screen() as shown:
        os.kill(shown.process.pid, signal.SIGTSTP)
        shown.press(b"\x1a")
        shown.until("There is no shell behind this screen")
        assert psutil.Process(shown.process.pid).status() != psutil.STATUS_STOPPED


TELLS_ITS_SIZE = (
    PLAIN
    + """
def tell():
    where = Path(sys.argv[2])
    where.with_suffix(".new").write_text(f"{app.screen.size.width}x{app.screen.size.height}")
    where.with_suffix(".new").replace(where)

begin = app.start
app.start = lambda: (begin(), app.set_interval(0.1, tell))
app.run()
"""
)


def test_a_storm_of_sizes_ends_with_the_last_one_and_is_not_paid_one_by_one(tmp_path: Path) -> None:
    told = tmp_path / "size"

    def settles(columns: int, rows: int) -> None:
        """Wait until the program has drawn for that size."""
        deadline = time.monotonic() + 60
        while not told.exists() or told.read_text() != f"{columns}x{rows}":
            assert time.monotonic() < deadline and shown.process.poll() is None
            shown.read(0.1)

    with screen(TELLS_ITS_SIZE, str(told), env={"COLUMNS": "300", "LINES": "2"}) as shown:
        settles(100, 30)
        watched = psutil.Process(shown.process.pid)
        before = sum(watched.cpu_times()[:2])
        for turn in range(200):
            shown.resize(60 + turn % 140, 20 + turn % 30)
            shown.read(0.005)
        shown.resize(160, 45)
        settles(160, 45)
        spent = sum(watched.cpu_times()[:2]) - before
        assert spent < 8.0, "each of 200 sizes was laid out"
        # Sizes that nobody can work with do no harm either.
        for size in ((1, 1), (2, 50), (500, 1), (80, 24)):
            before_it = len(shown.seen)
            shown.resize(*size)
            settles(*size)
        deadline = time.monotonic() + 60
        while b"Detach" not in plain(shown.seen[before_it:]):
            assert time.monotonic() < deadline, "the last size is not drawn"
            shown.read(0.1)
        shown.press(b"q")
        shown.drain()
        assert shown.process.wait(timeout=60) == 0
