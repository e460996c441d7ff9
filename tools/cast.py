"""Record the demo in a real tmux as an asciicast: `make cast` writes docs/demo.cast.

    python tools/cast.py docs/demo.cast [--set KEY=VALUE]...

The program runs in a tmux of its own and is steered by keys. What tmux sends to its client is
written with its times; while a phase takes its time nothing is written, and then tmux paints the
screen anew. Each such cut is a marker with the seconds that were left out.
"""

from __future__ import annotations

import argparse
import codecs
import fcntl
import json
import os
import pty
import re
import select
import shlex
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

COLUMNS, ROWS = 110, 32
LONGEST_S = 1200.0
"""For one wait; all of the demo takes three minutes on two cores."""
MOST_BYTES = 400_000
TOGETHER_S = 0.04
"""What comes within this time is one entry."""
LOOK_S = 0.2
PROLOGUE, EPILOGUE = "\x1b[?25l\x1b[0m\x1b[2J\x1b[H", "\x1b[0m\x1b[?25h\r\n"
_NOT_SHOWN = re.compile(r"\x1b\[(?:\?[0-9;]*[hl]|>[0-9;]*[a-zA-Z]|c|>q|[0-9;]*t)|\x1b[=>]")
"""Modes and questions that concern the terminal of the recording, not what is seen."""


@dataclass(frozen=True)
class Step:
    """Wait, unseen, until the screen holds `until`; press keys; let it be watched for `hold_s`."""

    label: str
    until: str = ""
    """A regular expression over the screen's text."""
    keys: Sequence[str] = ()
    hold_s: float = 2.0


SCENARIO = (
    Step("generate", r"generate.*[0-9]+%[\s\S]*tok/s [0-9.k]+", (), 4.0),
    Step("pause: hold", "", ("p",), 2.5),
    Step("pause", "hold", ("Enter",), 1.5),
    Step("paused", "generate paused|‖ generate", (), 2.0),
    Step("resume", "", ("r",), 3.0),
    Step("cap a dataset", "► running", ("c", "6", "k"), 3.5),
    Step("cap", "", ("Enter",), 2.5),
    Step("datasets", "", ("2",), 3.0),
    Step("one of them", "", ("Enter",), 2.5),
    Step("samples", "", ("Enter", "3"), 3.0),
    Step("tokens", "", ("t",), 3.0),
    Step("server", "", ("t", "4"), 3.0),
    Step("commands", "", ("7",), 2.5),
    Step("advance", "", ("1", "a"), 2.5),
    Step("with what is there", "", ("Enter",), 3.0),
    Step("training", "► train", (), 4.0),
    Step("phases", "", ("8",), 2.5),
    Step("the end", "bench +✓ done", ("1",), 4.0),
)


class Recorder:
    """What a tmux client is sent, with its times; cut where nothing is to be seen."""

    def __init__(self, master: int) -> None:
        self._master = master
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self.events: list[tuple[float, str, str]] = []
        self._played = 0.0
        self._shown = False

    def watch(self, seconds: float, shown: bool = True) -> None:
        """Read for so long, and write it down when it is shown."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            began = time.monotonic()
            if select.select([self._master], [], [], min(left, TOGETHER_S))[0]:
                data = os.read(self._master, 1 << 16)
                text = _NOT_SHOWN.sub("", self._decode(data))
                if shown and text:
                    self._write(text)
            if shown:
                self._played += time.monotonic() - began

    def _write(self, text: str) -> None:
        last = self.events[-1] if self.events else None
        if last is not None and last[1] == "o" and self._played - last[0] < TOGETHER_S:
            self.events[-1] = (last[0], "o", last[2] + text)
        else:
            self.events.append((self._played, "o", text))

    def say(self, text: str) -> None:
        """Our own bytes."""
        self.events.append((self._played, "o", text))

    def mark(self, label: str) -> None:
        """A place that players can jump to."""
        self.events.append((self._played, "m", label))

    def lines(self, command: str) -> list[str]:
        """The cast of what that command showed, line by line."""
        header = {
            "version": 2, "width": COLUMNS, "height": ROWS, "command": command,
            "env": {"TERM": "xterm-256color"},
        }  # fmt: skip
        rows = [[round(at, 3), kind, text] for at, kind, text in self.events]
        return [json.dumps(row, ensure_ascii=False) for row in (header, *rows)]


class Tmux:
    """A server of our own with one window."""

    def __init__(self, command: Sequence[str]) -> None:
        self._name = f"eagle-cast-{os.getpid()}"
        size = ("-x", str(COLUMNS), "-y", str(ROWS))
        self.call("new-session", "-d", "-s", "cast", *size, shlex.join(command))
        self.call("set", "-g", "status", "off")
        self.call("set", "-g", "default-terminal", "tmux-256color")
        self.call("set", "-sa", "terminal-overrides", ",*:Tc")

    def _words(self, *words: str) -> list[str]:
        return ["tmux", "-u", "-L", self._name, "-f", "/dev/null", *words]

    def call(self, *words: str) -> str:
        """Ask the server; gives what it prints."""
        env = {k: v for k, v in os.environ.items() if k not in ("TMUX", "NO_COLOR")}
        env |= {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LC_ALL": "C.UTF-8"}
        return subprocess.run(
            self._words(*words), capture_output=True, text=True, check=False, env=env
        ).stdout

    def screen(self) -> str:
        """The text on the window."""
        return self.call("capture-pane", "-p", "-t", "cast")

    def attach(self) -> tuple[subprocess.Popen[bytes], int]:
        """A client in a terminal of its own; gives the terminal's other end, too."""
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        env = {k: v for k, v in os.environ.items() if k != "TMUX"}
        client = subprocess.Popen(
            self._words("attach", "-t", "cast"),
            stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
            env=env | {"TERM": "xterm-256color", "LC_ALL": "C.UTF-8"},
        )  # fmt: skip
        os.close(slave)
        return client, master

    def close(self) -> None:
        """End the server with its window."""
        self.call("kill-server")


def play(tmux: Tmux, recorder: Recorder, steps: Sequence[Step]) -> None:
    """Go through the steps. TimeoutError, with the screen, when one is never reached."""
    recorder.watch(1.0, shown=False)
    recorder.say(PROLOGUE)
    for step in steps:
        began = time.monotonic()
        cut = False
        while step.until and not re.search(step.until, tmux.screen()):
            cut = True
            if time.monotonic() - began > LONGEST_S:
                raise TimeoutError(f"{step.label}: never {step.until!r}:\n{tmux.screen()}")
            recorder.watch(LOOK_S, shown=False)
        left_out = time.monotonic() - began
        label = f"{step.label} ({left_out:.0f} s left out)" if left_out >= 1 else step.label
        recorder.mark(label)
        if cut or not step.keys:
            tmux.call(
                "refresh-client", "-t", tmux.call("list-clients", "-F", "#{client_tty}").strip()
            )
        for key in step.keys:
            tmux.call("send-keys", "-t", "cast", key)
            recorder.watch(0.35)
        recorder.watch(step.hold_s)
        print(f"cast: {label}", flush=True)
    recorder.say(EPILOGUE)


def main(arguments: list[str]) -> int:
    """Returns an exit code: 0 done, 1 when the demo did not come to its end."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("output", type=Path, help="the cast to write")
    parser.add_argument("--set", action="append", default=[], help="as of `eagle-tui demo`")
    options = parser.parse_args(arguments)
    os.environ["TZ"] = "UTC"
    with tempfile.TemporaryDirectory(prefix="eagle-tui-cast-") as place:
        run = Path(place) / "demo"
        program = [sys.executable, "-m", "eagle_tui"]
        sets = [word for setting in options.set for word in ("--set", setting)]
        tmux = Tmux([*program, "demo", str(run), *sets])
        client, master = tmux.attach()
        recorder = Recorder(master)
        try:
            play(tmux, recorder, SCENARIO)
        except (TimeoutError, OSError) as error:
            print(f"cast: {error}", file=sys.stderr)
            return 1
        finally:
            tmux.close()
            client.wait()
            os.close(master)
            subprocess.run(
                [*program, "down", str(run), "--yes"], check=False, stdout=subprocess.DEVNULL
            )
    text = "\n".join(recorder.lines(shlex.join(["eagle-tui", "demo", *sets]))) + "\n"
    if len(text.encode()) > MOST_BYTES:
        print(f"cast: {len(text.encode()):,} bytes are more than {MOST_BYTES:,}", file=sys.stderr)
        return 1
    options.output.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
