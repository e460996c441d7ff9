"""Output to a terminal that reads, reads late, or is gone: never waits, never cut."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from eagle_tui.ui.outlet import Outlet

LIMIT = 200_000


class Pipe:
    """An outlet into a pipe, and what it tells."""

    def __init__(self) -> None:
        self.read_end, self.write_end = os.pipe()
        self.caught_up, self.gone = threading.Event(), threading.Event()
        self.outlet = Outlet(self.write_end, self.caught_up.set, self.gone.set, limit=LIMIT)
        self.outlet.start()

    def read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            data += os.read(self.read_end, size - len(data))
        return data


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    made = Pipe()
    yield made
    # Its thread must not write to whatever gets the number of a closed file next: a reader that is
    # gone ends the write it may hang in.
    with suppress(OSError):
        os.close(made.read_end)
    made.outlet.stop()
    with suppress(OSError):
        os.close(made.write_end)


def test_what_is_written_comes_out_in_order(pipe: Pipe) -> None:
    for index in range(100):
        pipe.outlet.write(f"{index:03}…")
    wanted = "".join(f"{index:03}…" for index in range(100)).encode()
    assert pipe.read(len(wanted)) == wanted
    pipe.outlet.stop()
    assert not pipe.caught_up.is_set() and not pipe.gone.is_set()


def test_writing_never_waits_and_whole_frames_are_left_out(pipe: Pipe) -> None:
    frame = "x" * 9_999 + "\n"
    began = time.monotonic()
    for _ in range(1_000):  # ten megabytes, and nobody reads
        pipe.outlet.write(frame)
    pipe.outlet.write("modes", must=True)
    assert time.monotonic() - began < 10.0
    assert pipe.outlet.behind
    assert not pipe.caught_up.is_set()
    said = b""
    while not said.endswith(b"modes"):
        said += os.read(pipe.read_end, 65536)
    assert pipe.caught_up.wait(30), "somebody must draw everything anew"
    assert not pipe.outlet.behind
    frames = said.removesuffix(b"modes")
    assert len(frames) % len(frame) == 0, "no frame was cut"
    assert len(frames) <= LIMIT + 2 * 65536
    pipe.outlet.write("and on")
    assert pipe.read(6) == b"and on"


def test_one_frame_larger_than_the_limit_is_drawn_all_the_same(pipe: Pipe) -> None:
    pipe.outlet.write("y" * (2 * LIMIT))
    assert pipe.read(2 * LIMIT) == b"y" * (2 * LIMIT)
    assert not pipe.outlet.behind


def test_a_terminal_that_is_gone_is_told_once_and_written_to_no_more(pipe: Pipe) -> None:
    os.close(pipe.read_end)
    pipe.outlet.write("into the void")
    assert pipe.gone.wait(30)
    pipe.outlet.write("more")
    pipe.outlet.stop()


def test_stopping_gives_up_on_a_terminal_that_reads_nothing(pipe: Pipe) -> None:
    pipe.outlet.write("z" * LIMIT)
    began = time.monotonic()
    pipe.outlet.stop(wait_s=0.3)
    assert 0.2 < time.monotonic() - began < 20.0


def test_a_terminal_left_in_non_blocking_mode_loses_nothing(pipe: Pipe) -> None:
    os.set_blocking(pipe.write_end, False)
    pipe.outlet.write("n" * (LIMIT - 1))
    time.sleep(0.1)
    assert pipe.read(LIMIT - 1) == b"n" * (LIMIT - 1)
