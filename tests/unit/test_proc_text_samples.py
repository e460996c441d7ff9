"""Processes by identity, hostile text, and reading samples from the end of a file."""

from __future__ import annotations

import json
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
from eagle_tui.supervisor import launch, samples
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


def row(n: int, state: str = "complete", size: int = 1) -> dict[str, object]:
    return {
        "id": f"i{n}",
        "dataset": "d",
        "state": state,
        "content": "c" * size,
        "reasoning": "",
        "finish_reason": "stop",
        "usage": {"prompt_tokens": 1, "completion_tokens": size},
        "at": float(n),
        "conversation": [{"role": "user", "content": f"q{n}"}],
    }


def test_samples_backward(tmp_path: Path) -> None:
    path = tmp_path / "d.jsonl"
    with path.open("w") as out:
        for n in range(50):
            state = "truncated" if n % 10 == 0 else "complete"
            out.write(json.dumps(row(n, state, size=500 if n == 7 else n + 1)) + "\n")
        out.write('{"id": "torn')
    newest = samples.read([path], "newest", 3)
    assert [s.id for s in newest] == ["i49", "i48", "i47"]
    assert newest[0].prompt == "q49"
    assert [s.id for s in samples.read([path], "truncated", 2)] == ["i40", "i30"]
    assert samples.read([path], "longest", 1)[0].id == "i7"
    assert samples.read([tmp_path / "none"], "newest", 5) == []
    with pytest.raises(ValueError, match="kind"):
        samples.read([path], "best", 1)


def test_a_native_row_is_a_sample_too(tmp_path: Path) -> None:
    path = tmp_path / "n.jsonl"
    turns = [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": "a", "reasoning_content": "r"},
    ]
    native = {"id": "i", "dataset": "n", "token_ids": [1, 2, 3], "prompt_tokens": 2}
    path.write_text(json.dumps({**native, "conversation": turns}) + "\n")
    (sample,) = samples.read([path], "newest", 5)
    assert (sample.prompt, sample.reasoning, sample.content) == ("q", "r", "a")
    assert (sample.state, sample.completion_tokens) == ("complete", 1)


@given(lines=st.lists(st.binary(max_size=40), max_size=20), torn=st.binary(max_size=90))
def test_lines_backward_are_the_lines_reversed(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], torn: bytes
) -> None:
    lines = [line.replace(b"\n", b"") for line in lines]
    path = tmp_path_factory.mktemp("s") / "f"
    path.write_bytes(b"".join(line + b"\n" for line in lines) + torn.replace(b"\n", b""))
    before = samples.CHUNK
    samples.CHUNK = 16
    try:
        found = list(samples.lines_backward(path))
    finally:
        samples.CHUNK = before
    assert found == [line for line in reversed(lines) if line]
