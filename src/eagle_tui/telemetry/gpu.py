"""The supervisor's side of the GPU sampler: a child that may hang or crash, then replaced."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from dataclasses import dataclass
from typing import Any

from eagle_tui.clock import Clock
from eagle_tui.protocol import GpuStatus

DEADLINE_S = 10.0
"""No line for this long: the child hangs in the driver and is killed."""
END_S = 2.0
"""What a child that closed its output gets to end by itself; NVML's own clean-up is quick."""
RETRY_S = 60.0
"""Wait before a child that said why there are no GPUs, or that died, is started again."""


async def _end(child: asyncio.subprocess.Process) -> None:
    """Let the child end, or kill it. (A kill of one that is ending already would reap it before
    asyncio can, and lose its exit status.)"""
    try:
        await asyncio.wait_for(child.wait(), END_S)
    except TimeoutError:
        child.kill()
        # One that is stuck in the driver does not die; it is left to the system.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(child.wait(), END_S)


@dataclass
class _Look:
    mono: float
    gpus: list[dict[str, Any]]


class GpuSampler:
    """Keeps the child alive; `gpus` and `note` are the newest that is known."""

    def __init__(self, clock: Clock, command: list[str] | None = None) -> None:
        self._clock = clock
        self._command = command or [sys.executable, "-m", "eagle_tui.telemetry.nvml_sampler"]
        self._look: _Look | None = None
        self._note = "looking for GPUs"

    @property
    def note(self) -> str:
        """Why there are no figures; empty when there are."""
        return "" if self._look else self._note

    def gpus(self) -> tuple[GpuStatus, ...]:
        """The newest figures with their age."""
        if self._look is None:
            return ()
        age = self._clock.monotonic() - self._look.mono
        return tuple(GpuStatus(**{**gpu, "age_s": age}) for gpu in self._look.gpus)

    async def run(self) -> None:
        """Until cancelled: start the child, read it, start it again when it ends or hangs."""
        while True:
            await self._once()
            await asyncio.sleep(RETRY_S)

    async def _once(self) -> None:
        try:
            child = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            self._note = f"the GPU sampler cannot be started: {error}"
            return
        assert child.stdout is not None
        try:
            while True:
                line = await asyncio.wait_for(child.stdout.readline(), DEADLINE_S)
                if not line:
                    break
                self._take(line)
        except TimeoutError:
            self._note = "the NVIDIA driver does not answer; asked again every minute"
        finally:
            await _end(child)
        if child.returncode not in (0, -9):
            self._note = f"the GPU sampler crashed (exit {child.returncode}); started again"

    def _take(self, line: bytes) -> None:
        try:
            body = json.loads(line)
        except ValueError:
            return
        if body.get("note"):
            self._note = str(body["note"])
            self._look = None
        elif "gpus" in body:
            self._look = _Look(self._clock.monotonic(), body["gpus"])
