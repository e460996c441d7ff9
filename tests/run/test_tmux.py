"""The screen in a real tmux: live figures, pause, cap, advance; tmux dies and the run goes on."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator

import pytest
from harness import ENV, Run

from eagle_tui.protocol import DatasetStatus, Status

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux")


class Tmux:
    """A tmux server of our own, with one window of a given size."""

    def __init__(self) -> None:
        self._name = f"eagle-test-{uuid.uuid4().hex[:8]}"

    def call(self, *words: str) -> str:
        done = subprocess.run(
            ["tmux", "-L", self._name, "-f", "/dev/null", *words],
            capture_output=True,
            text=True,
            env=ENV,
            check=False,
        )
        return done.stdout

    def start(self, command: list[str], columns: int, rows: int) -> None:
        size = ("-x", str(columns), "-y", str(rows))
        self.call("new-session", "-d", "-s", "s", *size, shlex.join(command))

    def press(self, *keys: str) -> None:
        for key in keys:
            self.call("send-keys", "-t", "s", key)
            time.sleep(0.15)

    def screen(self) -> str:
        return self.call("capture-pane", "-t", "s", "-p")

    def wait(self, text: str, timeout: float = 30.0) -> str:
        """Until the screen shows `text`."""
        deadline = time.monotonic() + timeout
        while text not in (shown := self.screen()):
            assert time.monotonic() < deadline, f"{text!r} is not on the screen:\n{shown}"
            time.sleep(0.1)
        return shown

    def kill(self) -> None:
        """End the server, and see that it is gone."""
        deadline = time.monotonic() + 20
        self.call("kill-server")
        while self.call("list-sessions"):
            assert time.monotonic() < deadline, "tmux does not end"
            self.call("kill-server")
            time.sleep(0.2)


@pytest.fixture
def tmux() -> Iterator[Tmux]:
    server = Tmux()
    yield server
    server.kill()


def attach(run: Run) -> list[str]:
    return [sys.executable, "-m", "eagle_tui", "attach", str(run.root)]


def dataset(status: Status, name: str) -> DatasetStatus:
    return next(d for d in status.datasets if d.name == name)


def in_flight(status: Status) -> int:
    return sum(d.in_flight for d in status.datasets)


def test_an_operators_hour(new_run: Callable[..., Run], tmux: Tmux) -> None:
    # Eight at a time make a run that is long enough to be steered.
    run = new_run("generate.concurrency=8", "generate.concurrency_long=4", rows=140)
    run.up()
    run.wait("responses come", lambda s: (s.phases[1].done or 0) >= 5)

    tmux.start(attach(run), 80, 24)
    for word in ("in flight", "b1-arith", "► generate", "tok/s", "Pause", "Cap", "Adv", "Detach"):
        tmux.wait(word)

    # Pause: by default what is in flight is held.
    tmux.press("p")
    tmux.wait("hold")
    asked = time.monotonic()
    tmux.press("Enter")
    status = run.wait("paused", lambda s: s.phases[1].state == "paused", 20)
    took = time.monotonic() - asked
    assert in_flight(status) == 0
    assert took < 15.0, f"{took:.1f} s until the pause held; on a quiet machine it is under 2 s"
    held = status.phases[1].done
    tmux.wait("paused")
    time.sleep(2.0)
    assert run.status().phases[1].done == held
    tmux.press("r")
    run.wait("resumed", lambda s: (s.phases[1].done or 0) > (held or 0), 60)

    # A cap for the second dataset, typed into the dialog.
    tmux.press("Down", "c")
    tmux.wait("3 of 8")  # the cursor stood on the dataset that runs
    tmux.press("1", "5", "0", "0")
    tmux.wait("prompts left out")
    tmux.press("Enter")
    status = run.wait("capped", lambda s: dataset(s, "b2-count").cap_tokens == 1500, 20)

    # tmux dies; the run does not notice.
    before = run.status().phases[1].done or 0
    tmux.kill()
    run.wait("the run goes on", lambda s: (s.phases[1].done or 0) > before + 3, 60)
    assert len(run.processes("supervisor")) == 1

    # Back, on a larger terminal.
    tmux.start(attach(run), 200, 50)
    shown = tmux.wait("cap:")  # among the events, at the bottom: the figures above are of one frame
    for word in ("generate running", "throughput", "b1-arith", "b2-count", "total"):
        assert word in shown, shown

    status = run.wait("b2 at its cap", lambda s: dataset(s, "b2-count").state == "capped", 120)
    capped = dataset(status, "b2-count")
    longest = max(r["usage"]["completion_tokens"] for r in run.rows()["b2-count"])
    assert capped.tokens + 8 * longest >= 1500
    assert capped.tokens <= 1500 + 8 * longest, "overshoot is at most what was in flight"

    # Advance: merge starts with what is there.
    tmux.press("a")
    tmux.wait("throws work away")
    time.sleep(1.5)  # a warning is confirmed only after it could be read
    tmux.press("Enter")
    run.wait_done(120)
    tmux.wait("merge done")
    early = run.status().phases[1].reason
    assert early.startswith("early: "), early
    assert tmux.screen().count("done") >= 3

    # Detach leaves the run as it is.
    tmux.press("q")
    deadline = time.monotonic() + 10
    while tmux.screen() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert run.status().phases[2].state == "done"
