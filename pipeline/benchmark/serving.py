"""A SGLang server for the length of a measurement: started from `[[server]]` with further flags,
waited for, asked, stopped. What a killed worker leaves is ended by the next one.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import time
from collections.abc import Mapping
from typing import Any

import httpx

from eagle_tui import proc
from eagle_tui.config.command import command_line, retuned, server_environment
from eagle_tui.config.model import FlagValue, ServerSection
from eagle_tui.config.target import NoSuchModel
from eagle_tui.ports import free_port, port_taken
from eagle_tui.rundir import atomic, desired, keys
from eagle_tui.rundir.identity import identity

from ..worker import Refused, Stopped, Worker

_POLL_S = 0.5
_ASK_S = 30.0
_GONE_S, _GONE_POLL_S = 10.0, 0.05
"""How long the processes of a server that was killed are waited for: a driver may hold them."""
_LAST_BYTES = 16_384
_LAST_LINES = 4
_ERROR = re.compile(r"\b\w*(Error|Exception): ")


class ServerError(RuntimeError):
    """The server did not start, died, or does not do what it was started for."""


def launchable(worker: Worker) -> ServerSection:
    """The server of run.toml that can be started with other flags; its own are those in force, with
    what was retuned. Refused when there is none."""
    for section in worker.config.server:
        if section.engine == "sglang" and section.command:
            wanted = desired.read(worker.run.desired, worker.config)
            flags = retuned(section.flags, wanted.tuned.get(section.name, {}))
            return section.model_copy(update={"flags": flags})
    raise Refused(
        "There is no SGLang server that could be started here: a [[server]] with engine "
        '"sglang" and a command is needed, since it is started with other flags.'
    )


def merged(
    section: ServerSection, more: Mapping[str, FlagValue], *, without: tuple[str, ...] = ()
) -> dict[str, FlagValue]:
    """The section's flags (of `launchable`) less those that begin with one of `without`, and with
    `more` on top."""
    kept = {k: v for k, v in section.flags.items() if not k.startswith(without)}
    return {**kept, **more}


class Server:
    """One server process. Use it as a context: it is stopped at the end, whatever happens."""

    def __init__(
        self,
        worker: Worker,
        section: ServerSection,
        name: str,
        flags: Mapping[str, FlagValue],
    ) -> None:
        self._worker = worker
        self._section = section
        self._flags = flags
        self._log = worker.run.log(f"{worker.phase}-server-{name}", worker.attempt)
        self._record = worker.run.phase(worker.phase) / "server.json"
        self._child: subprocess.Popen[bytes] | None = None
        self.url = ""

    def __enter__(self) -> Server:
        self._end_left_over()
        self._start()
        try:
            self._wait()
        except BaseException:
            self._stop()
            raise
        finally:
            keys.take_back(self._worker.run.root, self._section)
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop()

    def info(self) -> dict[str, Any]:
        """/server_info: every argument as the server took it."""
        headers = bearer(self._section.api_key_env)
        try:
            answer = httpx.get(
                f"{self.url}/server_info", timeout=_ASK_S, headers=headers, trust_env=False
            )
            body = answer.raise_for_status().json()
        except (httpx.HTTPError, ValueError) as error:
            raise ServerError(f"{self.url}: does not tell its settings ({error})") from error
        return body if isinstance(body, dict) else {}

    def dead(self) -> str:
        """Why it died, with its last words; empty while it lives."""
        if self._child is None or self._child.poll() is None:
            return ""
        code = self._child.returncode
        how = f"killed by signal {-code}" if code < 0 else f"exit code {code}"
        return f"the server ended ({how}): {self.last_words()} See {self._log}."

    def last_words(self) -> str:
        """What its log says last of why it ended."""
        with contextlib.suppress(FileNotFoundError), self._log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _LAST_BYTES))
            text = file.read().decode("utf-8", "replace").replace("\r", "\n")
            return telling(text.split("\n"))
        return ""

    def _start(self) -> None:
        section, run = self._section, self._worker.run
        port = section.port or free_port(section.host)
        if section.port and port_taken(section.host, port):
            raise ServerError(
                f"port {port} is taken by another program (a server of this run?); stop it, or "
                "leave the port of [[server]] unset"
            )
        self.url = f"http://{section.host}:{port}"
        self._log.parent.mkdir(parents=True, exist_ok=True)
        try:
            argv = command_line(self._worker.config, section, run.root, port, self._flags)
            keys.hand_over(run.root, section, self._log, self._flags)
            with self._log.open("ab") as out:
                self._child = subprocess.Popen(
                    argv,
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=subprocess.STDOUT,
                    cwd=run.root,
                    env={**os.environ, **server_environment(section)},
                    start_new_session=True,
                )
        except (OSError, NoSuchModel) as error:
            raise ServerError(f"the server cannot be started: {error}") from error
        process = proc.identify(self._child.pid)
        if process is not None:
            body = {"pid": process.pid, "started": process.started, "run": self._directory()}
            atomic.write_json(self._record, body)

    def _wait(self) -> None:
        clock = self._worker.clock
        end = clock.monotonic() + self._section.start_timeout_s
        while not self._healthy():
            if self._worker.stop.is_set():
                raise Stopped
            if died := self.dead():
                raise ServerError(died)
            if clock.monotonic() > end:
                raise ServerError(
                    f"not ready after {self._section.start_timeout_s:.0f} s: {self.last_words()} "
                    f"See {self._log}."
                )
            time.sleep(_POLL_S)

    def _healthy(self) -> bool:
        try:
            answer = httpx.get(f"{self.url}/health", timeout=_ASK_S, trust_env=False)
            return answer.status_code == 200
        except httpx.HTTPError:
            return False

    def _stop(self) -> None:
        child = self._child
        if child is None:
            return
        if child.poll() is None:
            # SIGINT lets SGLang finish and end its own children, in every version.
            child.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(self._section.stop_timeout_s)
        _kill_group(child.pid)
        child.wait()
        self._await_end(child.pid)
        self._child = None
        self._record.unlink(missing_ok=True)

    def _await_end(self, pid: int) -> None:
        """Wait until none of the group is left: the memory of their GPUs is free only then, and the
        next server measures it when it starts."""
        clock = self._worker.clock
        end = clock.monotonic() + _GONE_S
        while _kill_group(pid) and clock.monotonic() < end:
            time.sleep(_GONE_POLL_S)

    def _end_left_over(self) -> None:
        body = atomic.read_json(self._record)
        if not isinstance(body, dict):
            return
        left = proc.Process(int(body.get("pid", -1)), int(body.get("started", -1)))
        # In a copy of a run that goes on, it is the server of the original.
        if proc.alive(left) and body.get("run") in (None, self._directory()):
            self._worker.log.note(f"ends a server that a killed worker left (pid {left.pid})")
            _kill_group(left.pid)
            self._await_end(left.pid)
        self._record.unlink(missing_ok=True)

    def _directory(self) -> list[int]:
        return list(identity(self._worker.run.root) or ())


def telling(lines: list[str]) -> str:
    """The last line that names an error, for SGLang says more after it; else the last lines."""
    words = [line.strip() for line in lines if line.strip()]
    errors = [line for line in words if _ERROR.search(line)]
    return errors[-1] if errors else " / ".join(words[-_LAST_LINES:])


def bearer(key_env: str | None) -> dict[str, str]:
    """The header that carries the key in an environment variable; none when there is no key."""
    key = os.environ.get(key_env) if key_env else None
    return {"Authorization": f"Bearer {key}"} if key else {}


def _kill_group(pid: int) -> bool:
    """SIGKILL to a process that leads a session of its own, and to all that it started in it; gives
    whether there was any."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return False
    return True
