"""Notices: what is told, how often, and that a hook that hangs or fails holds nothing up."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any, get_args

import httpx
import pytest

from eagle_tui import notifier
from eagle_tui.cli import main as cli
from eagle_tui.clock import ManualClock
from eagle_tui.config import notify as notify_config
from eagle_tui.config.notify import NotifySection
from eagle_tui.notices import NoticeKind, notices, ordered_pause
from eagle_tui.notifier import Notifier
from eagle_tui.protocol import (
    Alert,
    CommandStatus,
    PhaseStatus,
    RunStatus,
    Status,
    SupervisorStatus,
)
from eagle_tui.rundir.paths import RunDir
from eagle_tui.ui.attention import POP, PUSH, Attention, title

WRITE = [sys.executable, "-c", "import sys; open('got', 'ab').write(sys.stdin.buffer.read())"]


def status(*phases: tuple[str, str, str], alerts: tuple[Alert, ...] = ()) -> Status:
    return Status(
        at=1000.0,
        run=RunStatus(name="kimi", dir="/r", target="t"),
        supervisor=SupervisorStatus(),
        phases=tuple(
            PhaseStatus.model_validate({"name": n, "state": s, "reason": r}) for n, s, r in phases
        ),
        alerts=alerts,
    )


def alert(rule: str, severity: str = "error") -> Alert:
    return Alert.model_validate(
        {"rule": rule, "severity": severity, "sentence": f"{rule}!", "remedy": "", "since": 0.0}
    )


RUNNING = status(("generate", "running", ""))


def alerted(rule: str, severity: str = "error") -> Status:
    return RUNNING.model_copy(update={"alerts": (alert(rule, severity),)})


def test_the_kinds_of_the_configuration_are_those_there_are() -> None:
    assert get_args(notify_config.NoticeKind) == get_args(NoticeKind)


@pytest.mark.parametrize(
    ("after", "ordered", "told"),
    [
        (RUNNING, False, []),
        (status(("generate", "done", "")), False, [("phase_done", "generate")]),
        (status(("generate", "failed", "no server")), False, [("phase_failed", "generate")]),
        (status(("generate", "paused", "disk full")), False, [("paused", "generate")]),
        (status(("generate", "paused", "")), True, []),
        (alerted("gpu-1"), False, [("alert", "gpu-1")]),
        (alerted("disk", "warning"), False, []),
        (
            status(("generate", "failed", ""), alerts=(alert("phase-generate"),)),
            False,
            [("phase_failed", "generate")],
        ),
        (alerted("done", "info"), False, [("done", "run")]),
    ],
)  # fmt: skip
def test_what_is_worth_telling(after: Status, ordered: bool, told: list[tuple[str, str]]) -> None:
    assert [(n.kind, n.subject) for n in notices(RUNNING, after, ordered)] == told
    assert notices(None, after, ordered) == [], "a supervisor that starts repeats nothing"


def test_whether_a_pause_was_ordered_is_in_the_commands() -> None:
    def order(verb: str, state: str = "in_effect") -> CommandStatus:
        return CommandStatus.model_validate(
            {"id": verb, "verb": verb, "args": {}, "state": state, "at": 0.0}
        )

    def given(*orders: CommandStatus) -> bool:
        return ordered_pause(RUNNING.model_copy(update={"commands": orders}))

    assert given(order("pause")) and not given()
    assert not given(order("pause"), order("resume"), order("cap"))
    assert not given(order("resume"), order("pause", "refused"))


class World:
    """A notifier in a directory, and what it says."""

    def __init__(self, root: Path, **settings: Any) -> None:
        self.root, self.clock = root, ManualClock()
        self.said: list[str] = []
        self.settings = NotifySection(**settings)
        self.notifier = Notifier(
            RunDir.at(root), lambda: self.settings, self.clock, self._say, gather_s=0.01
        )

    def _say(self, severity: str, source: str, text: str) -> None:
        self.said.append(text)

    def look(self, *, then: Status) -> None:
        self.notifier.look(RUNNING, paused_by_order=False)
        self.notifier.look(then, paused_by_order=False)

    def got(self) -> list[dict[str, Any]]:
        path = self.root / "got"
        text = path.read_text() if path.exists() else ""
        found, decoder = [], json.JSONDecoder()
        while text:
            body, end = decoder.raw_decode(text)
            found.append(body)
            text = text[end:]
        return found


DONE = status(("generate", "done", ""))


async def test_the_command_gets_json_on_its_input(tmp_path: Path) -> None:
    world = World(tmp_path, command=WRITE)
    task = asyncio.create_task(world.notifier.run())
    world.look(then=DONE)
    deadline = time.monotonic() + 20
    while not world.got():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.02)
    task.cancel()
    (body,) = world.got()
    assert body["text"] == "kimi: generate is done" and body["run"]["target"] == "t"
    assert body["notices"] == [
        {"kind": "phase_done", "severity": "info", "subject": "generate",
         "text": "generate is done"}
    ]  # fmt: skip
    assert world.said == []


async def test_the_same_is_not_told_again_and_again(tmp_path: Path) -> None:
    world = World(tmp_path, command=WRITE, quiet_s=60, on=["alert"])
    flapping = alerted("gpu-1")
    for _ in range(5):
        world.look(then=flapping)
    world.look(then=DONE)
    await world.notifier.finish()
    assert [len(b["notices"]) for b in world.got()] == [1], "and what is not asked for, never"
    world.clock.advance(61)
    world.look(then=flapping)
    await world.notifier.finish()
    assert len(world.got()) == 2


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["/nowhere/hook"], "cannot be started"),
        ([sys.executable, "-c", "raise SystemExit(7)"], "exit code 7; see"),
        ([sys.executable, "-c", "import time; time.sleep(60)"], "did not end within 0.3 s"),
    ],
)
async def test_a_hook_that_fails_or_hangs_is_said_once(
    tmp_path: Path, command: list[str], said: str
) -> None:
    world = World(tmp_path, command=command, quiet_s=0, timeout_s=0.3 if "did" in said else 20)
    began = time.monotonic()
    for _ in range(3):
        world.look(then=DONE)
        await world.notifier.finish()
    assert time.monotonic() - began < 15
    (sentence,) = world.said
    assert said in sentence
    world.settings = NotifySection(command=WRITE, quiet_s=0)
    world.look(then=DONE)
    await world.notifier.finish()
    assert world.said[1:] == ["[notify] command works again"]


async def test_a_hook_that_hangs_leaves_nothing_behind(tmp_path: Path) -> None:
    script = "import subprocess, sys, time; p = subprocess.Popen(['sleep', '60']); "
    script += "print(p.pid, flush=True); time.sleep(60)"
    world = World(tmp_path, command=[sys.executable, "-c", script], timeout_s=2)
    world.look(then=DONE)
    await world.notifier.finish()
    pid = int((tmp_path / "logs" / "notify.log").read_text())
    state = Path(f"/proc/{pid}/stat")
    deadline = time.monotonic() + 10
    while state.exists() and state.read_text().rpartition(")")[2].split()[0] != "Z":
        assert time.monotonic() < deadline, "its child lives"
        await asyncio.sleep(0.05)


@pytest.mark.parametrize(("code", "said"), [(200, None), (403, "127.0.0.1 answers 403")])
async def test_the_address_gets_the_same(tmp_path: Path, code: int, said: str | None) -> None:
    got: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        size = next(
            int(line.split(b":")[1])
            for line in head.lower().splitlines()
            if line.startswith(b"content-length")
        )
        got.append(await reader.readexactly(size))
        writer.write(
            f"HTTP/1.1 {code} X\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".encode()
        )
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    world = World(tmp_path, url=f"http://127.0.0.1:{port}/secret-token")
    world.look(then=DONE)
    await world.notifier.finish()
    server.close()
    assert json.loads(got[0])["text"] == "kimi: generate is done"
    assert [said in text for text in world.said] == ([True] if said else [])
    assert "secret" not in " ".join(world.said)


@pytest.mark.parametrize(
    ("name", "value"),
    [("ALL_PROXY", "nonsense://u:secret@h:1"), ("SSL_CERT_FILE", "/nowhere/certificates.pem")],
)
async def test_an_environment_that_cannot_be_used_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    world = World(tmp_path, url="https://127.0.0.1:9/secret-token", quiet_s=0)
    for _ in range(2):
        world.look(then=DONE)
        await world.notifier.finish()
    (sentence,) = world.said
    assert "[notify] url: 127.0.0.1 is not asked" in sentence and "secret" not in sentence


async def test_a_fault_while_sending_is_told_and_the_next_notice_is_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fault(*_: object, **__: object) -> None:
        raise RuntimeError("secret-token")

    world = World(tmp_path, command=WRITE, url="http://127.0.0.1:9/secret-token", quiet_s=0)
    with monkeypatch.context() as patch:
        patch.setattr(httpx.AsyncClient, "post", fault)
        patch.setattr(asyncio, "create_subprocess_exec", fault)
        world.look(then=DONE)
        await world.notifier.finish()
    assert [text.partition(";")[0] for text in world.said] == [
        f"[notify] {way}: it cannot be sent (RuntimeError)" for way in ("command", "url")
    ]
    world.look(then=DONE)
    await world.notifier.finish()
    assert "[notify] command works again" in world.said


async def test_the_end_survives_whatever_the_last_notice_meets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fault(*_: object) -> None:
        raise RuntimeError("unforeseen")

    world = World(tmp_path, command=WRITE)
    world.look(then=DONE)
    monkeypatch.setattr(notifier, "message", fault)
    await world.notifier.finish()
    assert world.said == ["[notify] notices are lost: RuntimeError('unforeseen')"]


async def test_nothing_is_kept_when_nobody_is_to_be_told(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.look(then=DONE)
    await world.notifier.finish()
    assert not (tmp_path / "logs").exists()


# The terminal's title and bell


def test_the_title_says_where_the_run_stands() -> None:
    phase = PhaseStatus(
        name="generate", state="running", done=33, total=100, eta_s=(61200.0, 76500.0, 93600.0)
    )
    now = RUNNING.model_copy(update={"phases": (phase,)})
    assert title(now) == "kimi: generate 33%, 17–26 h"
    bad = now.model_copy(update={"alerts": (alert("gpu-1"),)})
    assert title(bad, "replay ") == "replay ! kimi: generate 33%, 17–26 h"
    hostile = now.model_copy(update={"run": RunStatus(name="\x1b]2;x\x07", dir="", target="")})
    assert "\x1b" not in title(hostile) and "\x07" not in title(hostile)


def test_title_and_bell_are_written_only_when_something_changes() -> None:
    out: list[str] = []
    eye = Attention(out.append, title=True, bell=True)
    eye.show(RUNNING)
    eye.show(RUNNING)
    assert out == [f"{PUSH}\x1b]2;kimi: generate\x07"]
    eye.show(DONE)
    assert out[1:] == ["\a", "\x1b]2;kimi\x07"]
    eye.restore()
    eye.restore()
    assert out[3:] == [POP]


def test_neither_is_used_unless_wanted() -> None:
    out: list[str] = []
    eye = Attention(out.append, title=False, bell=False)
    eye.show(RUNNING)
    eye.show(DONE)
    eye.restore()
    assert out == []


def test_the_command_line_tries_it_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def run(*words: str) -> int:
        with pytest.raises(SystemExit) as ended:
            cli.main(list(words))
        assert isinstance(ended.value.code, int)
        return ended.value.code

    root = tmp_path / "run"
    assert run("init", str(root)) == 0
    assert run("notify", str(root)) == 2
    assert "neither command nor url" in capsys.readouterr().err
    config = root / "run.toml"
    plain = config.read_text()
    config.write_text(f"{plain}\n[notify]\ncommand = {json.dumps(WRITE)}\n")
    assert run("notify", str(root)) == 0
    assert capsys.readouterr().out == "command: sent\n"
    assert "this is a test" in json.loads((root / "got").read_text())["text"]
    config.write_text(f'{plain}\n[notify]\ncommand = ["./hook"]\n')
    assert run("notify", str(root)) == 1
    assert "'./hook' cannot be started" in capsys.readouterr().out
    assert run("check", str(root)) == 2
    assert "notify.command: there is no program './hook'" in capsys.readouterr().err
    (root / "hook").write_text("#!/bin/sh\nexit 0\n")
    (root / "hook").chmod(0o755)
    assert run("check", str(root)) == 0 and run("notify", str(root)) == 0
