"""What a change of settings needs of the run around it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from eagle_tui.supervisor.launches import Settings
from eagle_tui.supervisor.server.managed import ManagedServer
from eagle_tui.supervisor.tuning.flags import Flags
from eagle_tui.supervisor.tuning.order import ServerView


class Run(Protocol):
    """The run, as changes of settings see it."""

    @property
    def root(self) -> Path:
        """The run directory, in which servers are started."""
        ...

    def view(self, server: ManagedServer, flags: Flags | None) -> ServerView:
        """What an order looks at."""
        ...

    def help_argv(self, server: ManagedServer) -> list[str]:
        """The command that is asked for its flags. NoSuchModel when it cannot be made."""
        ...

    def no_key(self, server: str) -> str:
        """Which key is missing to start it again; empty: none."""
        ...

    def down(self) -> bool:
        """The run is being stopped: what is under way goes on after the next `up`."""
        ...

    def sending(self, server: str) -> bool:
        """Generation sends to it again, or has nothing to send."""
        ...

    def in_force(self, server: str, settings: Settings, also: Callable[[], None]) -> None:
        """From now on these settings hold for the server; `also` writes in the same transaction."""
        ...

    def tuned(self, server: str) -> Settings:
        """The settings that hold."""
        ...
