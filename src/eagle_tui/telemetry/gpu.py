"""The supervisor's side of the GPU samplers: children that may hang or crash, then replaced."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from eagle_tui.clock import Clock
from eagle_tui.protocol import GpuStatus
from eagle_tui.text import parse_json

DEADLINE_S = 10.0
"""No line for this long: the child hangs in the driver and is killed."""
END_S = 2.0
"""What a child that closed its output gets to end by itself; NVML's own clean-up is quick."""
AGAIN_S = 2.0
"""Wait before a child that had figures is started again; doubled each time, up to RETRY_S."""
STALE_S = 15.0
"""Figures older than this are not told as if they were true now."""
RETRY_S = 60.0
"""Wait before a child that said why there are no GPUs is started again."""


async def _end(child: asyncio.subprocess.Process) -> None:
    """Let the child end, or kill it. (A kill of one that is ending already would reap it before
    asyncio can, and lose its exit status.) One that is stuck in the driver does not die of it: it
    is left to the system, and its `returncode` stays None."""
    try:
        await asyncio.wait_for(child.wait(), END_S)
    except TimeoutError:
        child.kill()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(child.communicate(), END_S)
    finally:
        # Else the pipe of one that is stuck, or that left its end to another, would stay open.
        child._transport.close()  # type: ignore[attr-defined]  # asyncio has no other way


@dataclass(frozen=True)
class _Look:
    mono: float
    gpus: tuple[GpuStatus, ...]


class GpuSampler:
    """Keeps a child alive; `gpus` and `note` are the newest that is known.

    `commands`: a sampler for each maker. Each is asked until one finds GPUs; that one stays.
    """

    def __init__(self, clock: Clock, *commands: list[str]) -> None:
        self._clock = clock
        modules = ("nvml_sampler", "amd_sampler")
        ours = [[sys.executable, "-m", f"eagle_tui.telemetry.{m}"] for m in modules]
        self._commands = list(commands) or ours
        self._look: _Look | None = None
        self._names: dict[int, str] = {}
        self._note = "looking for GPUs"
        self._stuck: asyncio.subprocess.Process | None = None
        """The newest child that did not die when it was killed."""

    @property
    def note(self) -> str:
        """Why there are no figures, or no new ones; empty when there are."""
        return self._note

    def gpus(self) -> tuple[GpuStatus, ...]:
        """The newest figures with their age; those that are too old to be true are null. A GPU
        that was there once is never left out."""
        if self._look is None:
            return ()
        age = self._clock.monotonic() - self._look.mono
        found = self._look.gpus
        if age > STALE_S:
            lasting = {"index", "name", "uuid", "mem_total", "state"}
            found = tuple(GpuStatus(**gpu.model_dump(include=lasting)) for gpu in found)
        return tuple(gpu.model_copy(update={"age_s": age}) for gpu in found)

    async def run(self) -> None:
        """Until cancelled: start a child, read it, start it again when it ends or hangs."""
        wait = AGAIN_S
        while True:
            began = self._clock.monotonic()
            found = await self._round()
            if not found or self._clock.monotonic() - began > RETRY_S:
                wait = AGAIN_S
            await asyncio.sleep(wait if found else RETRY_S)
            wait = min(2 * wait, RETRY_S)

    async def _round(self) -> bool:
        """Ask the makers' samplers one after the other; whether one found GPUs (until it ended).
        Nobody is asked while an earlier child is stuck in the driver: another would be, too."""
        if self._stuck is not None and self._stuck.returncode is None:
            return bool(self._names)
        notes = []
        for command in list(self._commands):
            found, note, absent = await self._once(command)
            if found:
                self._commands = [command]
            if note:
                notes.append((absent, note))
            if found:
                break
        # What a driver has to say comes before "there is none".
        notes.sort(key=lambda n: n[0])
        if notes:
            self._note = notes[0][1]
        return bool(self._names)

    async def _once(self, command: list[str]) -> tuple[bool, str, bool]:
        """One child, until it ends: did it find GPUs, why it ended, is its maker's software absent
        altogether."""
        try:
            child = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            return False, f"the GPU sampler cannot be started: {error}", False
        assert child.stdout is not None
        found, note, absent = False, "", False
        try:
            while line := await asyncio.wait_for(child.stdout.readline(), DEADLINE_S):
                body = _object(line)
                if body.get("note"):
                    note, absent = str(body["note"]), bool(body.get("absent"))
                elif "gpus" in body:
                    found = self._take(body["gpus"]) or found
        except TimeoutError:
            note = "the GPU driver does not answer; asked again every minute"
        except ValueError:
            note = "the GPU sampler wrote a line without an end"
        finally:
            await _end(child)
        if child.returncode is None:
            self._stuck = child
        if not note and child.returncode not in (0, -9):
            note = f"the GPU sampler crashed (exit {child.returncode}); started again"
        return found, note, absent

    def _take(self, rows: Any) -> bool:
        """New figures; whether they can be used."""
        try:
            gpus = [GpuStatus.model_validate(row) for row in rows]
        except (ValidationError, TypeError):
            return False
        self._names.update({gpu.index: gpu.name for gpu in gpus})
        gone = self._names.keys() - {gpu.index for gpu in gpus}
        gpus += [GpuStatus(index=i, name=self._names[i], state="gone") for i in gone]
        gpus.sort(key=lambda gpu: gpu.index)
        self._look, self._note = _Look(self._clock.monotonic(), tuple(gpus)), ""
        return True


def _object(line: bytes) -> dict[str, Any]:
    try:
        body = parse_json(line)
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}
