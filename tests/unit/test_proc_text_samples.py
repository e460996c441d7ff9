"""Processes by identity, hostile text, and reading samples from the end of a file."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle_tui import proc
from eagle_tui.rundir import unixsocket
from eagle_tui.rundir.paths import RunDir
from eagle_tui.supervisor import launch
from eagle_tui.text import scrub, visible


def test_a_pid_alone_is_not_an_identity() -> None:
    me = proc.current()
    assert proc.alive(me)
    assert not proc.alive(proc.Process(me.pid, me.started + 1))
    assert not proc.send(proc.Process(me.pid, me.started + 1), signal.SIGKILL)


def test_a_zombie_is_not_alive() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    identity = None
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        identity = proc.identify(child.pid)
        if identity is None:
            break
        time.sleep(0.02)
    assert identity is None
    child.wait()


def test_found_again_by_token_with_all_that_it_started(tmp_path: Path) -> None:
    token = launch.new_token()
    code = (
        "import subprocess, sys, time;"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)']);"
        "print('up', flush=True); time.sleep(60)"
    )
    log = tmp_path / "log"
    handle = launch.spawn([sys.executable, "-c", code], token=token, log=log, cwd=tmp_path, env={})
    deadline = time.monotonic() + 20
    while launch.last_lines(log) != ["up"] and time.monotonic() < deadline:
        time.sleep(0.05)
    adopted = launch.adopt(token, None)
    assert adopted is not None and adopted.process == handle.process
    assert adopted.poll() is None
    assert handle.kill_all() == 2
    while handle.poll() is None:
        time.sleep(0.02)
    ended = handle.poll()
    assert ended is not None and ended.words() == "killed by SIGKILL"
    unknown = adopted.poll()
    assert unknown is not None and unknown.code is None and unknown.signal is None
    assert launch.adopt(token, handle.process) is None
    assert launch.last_lines(log) == ["up"]


def test_spawn_of_nothing_is_an_oserror(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="no-such"):
        launch.spawn(["/no-such"], token="t", log=tmp_path / "l", cwd=tmp_path, env={})


@given(st.text())
def test_no_control_character_survives(text: str) -> None:
    shown = visible(text)
    assert not any(ord(c) < 32 and c != "\n" for c in shown)
    assert "\x7f" not in shown and "\x9b" not in shown and "\u202e" not in shown
    shown.encode()


def test_hostile_text_is_visible() -> None:
    assert visible("\x1b[2J\x1b]52;c;aGk=\x07") == "␛[2J␛]52;c;aGk=␇"
    assert visible("a\r\nb\rc") == "a\nb␍c"
    assert visible("see [/path] and [b + ") == "see [/path] and [b + "
    assert scrub("x\ud83dy") == "x\ufffdy"
    assert visible("a\u061cb\u2028c\u2029d\ufff9") == "a<061c>b<2028>c<2029>d<fff9>"
    assert visible("x\U000e0041") == "x<e0041>", "text that hides in tags"


def test_a_socket_in_a_deep_directory_can_be_reached(tmp_path: Path) -> None:
    assert unixsocket.address(tmp_path / "s.sock") == str(tmp_path / "s.sock")
    deep = tmp_path / ("d" * 60) / ("e" * 60)
    deep.mkdir(parents=True)
    path = RunDir.at(deep).socket
    with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
        server.bind(unixsocket.address(path))
        server.listen()
        assert path.is_socket()
        client.connect(unixsocket.address(path))
