"""Token views, by a helper process: the tokenizer and the mask rule belong to the pipeline.

The helper (`eagle_tui.pipeline.token_view`) is started for the first view and ends when it is idle
for a while, or with us: it reads from a pipe.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import tempfile
from typing import IO, Any

from eagle_tui.records import TokenView
from eagle_tui.rundir.paths import RunDir

HEAD, TAIL = 24_000, 8_000
"""Tokens of a longer row that are sent: its ends."""
FIRST_S = 90.0
"""A tokenizer with code of its own is loaded through libraries that take their time."""
IDLE_S = 60.0
LONGEST_LINE = 256 << 20
_ROW_KEYS = ("id", "state", "prompt_ids", "output_ids", "token_ids", "spans", "prompt_tokens")


class NoView(RuntimeError):
    """The tokens cannot be shown; the message says why."""


class TokenDecoder:
    """Asks the helper of one run. Calls are answered one after the other."""

    def __init__(self, run: RunDir) -> None:
        self._run = run
        self._lock = asyncio.Lock()
        self._process: asyncio.subprocess.Process | None = None
        self._said: IO[bytes] | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._asked = 0
        """Number of the newest request; its answer bears it."""

    async def view(self, row: dict[str, Any]) -> TokenView:
        """The tokens of a stored row. NoView when there are none or the helper fails."""
        asked = {key: row[key] for key in _ROW_KEYS if key in row}
        if not ("token_ids" in row or ("prompt_ids" in row and "output_ids" in row)):
            raise NoView("This row holds no token ids.")
        async with self._lock:
            self._wake()
            try:
                async with asyncio.timeout(FIRST_S):
                    answer = await self._ask(asked)
            except TimeoutError:
                await self.close()
                raise NoView(f"The tokenizer did not answer within {FIRST_S:.0f} s.") from None
            finally:
                self._rest()
        if "error" in answer:
            raise NoView(f"The tokens of this row cannot be shown: {answer['error']}")
        return cut(TokenView.model_validate(answer))

    async def close(self) -> None:
        """End the helper."""
        self._wake()
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        if self._said is not None:
            self._said.close()
            self._said = None

    async def _ask(self, row: dict[str, Any]) -> dict[str, Any]:
        process = await self._started()
        assert process.stdin is not None and process.stdout is not None
        self._asked += 1
        request = {"number": self._asked, "row": row}
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
            await process.stdin.drain()
            while line := await process.stdout.readline():
                answer: dict[str, Any] = json.loads(line)
                # Whoever asked before may have been cancelled; the answer comes nevertheless.
                if answer.get("number") == self._asked:
                    return answer
        except (OSError, ValueError) as error:
            # What is left of a broken answer must not be taken for the next one.
            await self.close()
            raise NoView(f"The tokenizer's helper cannot be asked: {error}") from error
        said = self._last_words()
        await self.close()
        raise NoView(f"The tokenizer's helper ended: {said}")

    async def _started(self) -> asyncio.subprocess.Process:
        process = self._process
        if process is not None and process.returncode is None:
            assert process.stdin is not None
            if not process.stdin.is_closing():  # else it was told to end, and does
                return process
        await self.close()
        # A pipe that nobody reads would stop a helper that warns a lot.
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the helper
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "eagle_tui.pipeline.token_view",
            str(self._run.root),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=self._said,
            # The run directory is data: nothing in it is ever imported.
            env={**os.environ, "PYTHONSAFEPATH": "1"},
            start_new_session=True,
            limit=LONGEST_LINE,
        )
        return self._process

    def _last_words(self) -> str:
        if self._said is None:
            return "it said nothing"
        size = self._said.seek(0, os.SEEK_END)
        self._said.seek(max(size - 2000, 0))
        lines = self._said.read().decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"

    def _rest(self) -> None:
        """End the helper when nothing is asked for a while."""
        self._wake()
        if self._process is not None:
            self._idle = asyncio.get_running_loop().call_later(IDLE_S, self._end_idle)

    def _wake(self) -> None:
        """No longer idle."""
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None

    def _end_idle(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()  # it ends at the end of its input


def cut(view: TokenView) -> TokenView:
    """The view with the middle of a very long row left out."""
    count = len(view.ids)
    if count <= HEAD + TAIL:
        return view
    keep = slice(0, HEAD), slice(count - TAIL, count)
    pieces = view.pieces
    return view.model_copy(
        update={
            "ids": view.ids[keep[0]] + view.ids[keep[1]],
            "mask": view.mask[keep[0]] + view.mask[keep[1]],
            "pieces": None if pieces is None else pieces[keep[0]] + pieces[keep[1]],
            "left_out": count - HEAD - TAIL,
            "head": HEAD,
        }
    )
