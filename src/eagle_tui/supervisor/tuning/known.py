"""What the installed servers know, by their own `--help`: read once, in the background."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path

from eagle_tui.clock import Clock
from eagle_tui.config.command import server_environment
from eagle_tui.config.target import NoSuchModel
from eagle_tui.supervisor.server.managed import ManagedServer
from eagle_tui.supervisor.tuning.flags import Flags, HelpError, read_help

HELP_AGAIN_S = 60.0
"""Seconds after which a `--help` that could not be read is asked for again, when it is needed."""


class KnownFlags:
    """The flags of each server of a run."""

    def __init__(
        self,
        servers: Mapping[str, ManagedServer],
        clock: Clock,
        root: Path,
        help_argv: Callable[[ManagedServer], list[str]],
    ) -> None:
        """`help_argv`: the command that is asked; NoSuchModel when it cannot be made. It is run in
        `root`, where servers are started."""
        self._servers = servers
        self._clock = clock
        self._root = root
        self._help_argv = help_argv
        self._found: dict[str, Flags] = {}
        self._why_not: dict[str, tuple[str, float]] = {}
        """Why a server's flags are not known, and since which monotonic time."""
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def of(self, server: str) -> tuple[Flags | None, str]:
        """What the server's `--help` says, and why it is not known; reading it is begun when it was
        not yet, which takes a program start."""
        if found := self._found.get(server):
            return found, ""
        why, since = self._why_not.get(server, ("", 0.0))
        if why and self._clock.monotonic() - since < HELP_AGAIN_S:
            return None, why
        if server not in self._tasks:
            self._tasks[server] = asyncio.get_running_loop().create_task(self._read(server))
        return None, "what the installed server knows is being looked up"

    def reading(self, server: str) -> bool:
        """Whether it is being read now."""
        return server in self._tasks

    async def wait(self) -> None:
        """Until nothing is being read any more."""
        await asyncio.gather(*self._tasks.values())

    async def _read(self, server: str) -> None:
        env = server_environment(self._servers[server].section)
        try:
            argv = self._help_argv(self._servers[server])
            self._found[server] = await read_help(argv, env=env, cwd=self._root)
        except (HelpError, NoSuchModel) as error:
            why = f"its --help could not be read: {error}"
            self._why_not[server] = why, self._clock.monotonic()
        finally:
            del self._tasks[server]
