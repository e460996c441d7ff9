"""What orders to retune, and their carrying out, look at and change of the run."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from eagle_tui.config.command import command_line
from eagle_tui.config.speculation import command_fault
from eagle_tui.config.target import NoSuchModel
from eagle_tui.rundir import keys
from eagle_tui.supervisor.launches import Settings
from eagle_tui.supervisor.server.managed import ManagedServer
from eagle_tui.supervisor.tuning.constraints import HostFacts
from eagle_tui.supervisor.tuning.flags import Flags
from eagle_tui.supervisor.tuning.order import ServerView
from eagle_tui.telemetry.memory import memory

if TYPE_CHECKING:
    from eagle_tui.supervisor.board import Board

ELSEWHERE = "somebody else runs it: its settings are changed where it is started"


def host_facts(server: ManagedServer) -> HostFacts:
    """What is known of the machine, and of the memory that the server needs."""
    held = server.footprint
    share = held.weights / held.free_before if held and held.free_before else None
    return HostFacts(
        memory().free,
        running=server.state in ("ready", "unready", "stopping"),
        kv_bytes=held.kv if held else None,
        weight_share=share,
    )


class RetuneRun:
    """The board, as changes of settings see it."""

    def __init__(self, board: Board) -> None:
        self._b = board

    @property
    def root(self) -> Path:
        """The run directory, in which servers are started."""
        return self._b.run.root

    def view(self, server: ManagedServer, flags: Flags | None) -> ServerView:
        """What an order looks at."""
        board, section = self._b, server.section
        refusal = self._refusal(server)
        argv: tuple[str, ...] = ()
        if not section.url:
            try:
                found = command_line(board.config, section, self.root, section.port or 0)
                argv = tuple(found)
            except NoSuchModel as error:
                refusal = refusal or str(error)
        return ServerView(
            name=section.name,
            argv=argv,
            tuned=self.tuned(section.name),
            in_force=server.settings,
            flags=flags,
            host=host_facts(server),
            refusal=refusal,
            fault=partial(command_fault, root=self.root),
            last_start_s=board.store.servers.last_start_s(section.name, ""),
        )

    def help_argv(self, server: ManagedServer) -> list[str]:
        """The command that is asked for its flags: without keys, whose file is there for a start
        alone. NoSuchModel when it cannot be made."""
        section = server.section.model_copy(update={"api_key_env": None, "admin_api_key_env": None})
        return command_line(self._b.config, section, self.root, section.port or 0)

    def _refusal(self, server: ManagedServer) -> str:
        """Why it cannot be retuned at all; empty: it can."""
        board = self._b
        if server.section.url:
            return ELSEWHERE
        if self.down():
            return "the run is being stopped"
        if not board.servers_needed():
            return "no phase needs a server now"
        if "generate" in board.desired.finish:
            return "generation is ending with what is there"
        # A supervisor that was revived from another shell could stop it, and not start it.
        missing = self.no_key(server.section.name)
        return f"it could not be started again: {missing}" if missing else ""

    def no_key(self, server: str) -> str:
        """Which key is missing to start it again; empty: none."""
        section = next(s for s in self._b.config.server if s.name == server)
        try:
            keys.find(section)
        except keys.NoKey as error:
            return str(error)
        return ""

    def down(self) -> bool:
        """The run is being stopped: what is under way goes on after the next `up`."""
        return self._b.intent == "down"

    def sending(self, server: str) -> bool:
        """Generation sends to it again, or has nothing to send."""
        worker = self._b.worker("generate")
        if worker is None or not self._b.slots["generate"].alive:
            return True
        return worker.flow.endpoints.get(server) == ""

    def held(self, server: str) -> bool:
        """No request of ours is in flight on it, as far as generation tells; its endpoint must have
        been withdrawn before this is asked."""
        worker = self._b.worker("generate")
        if worker is None or not self._b.slots["generate"].alive:
            return True
        return server not in worker.flow.endpoints

    def tuned(self, server: str) -> Settings:
        """The settings that hold."""
        return self._b.desired.tuned.get(server, {})

    def in_force(self, server: str, settings: Settings, also: Callable[[], None]) -> None:
        """From now on these settings hold for the server; `also` writes in the same transaction."""
        board = self._b
        tuned = {k: v for k, v in board.desired.tuned.items() if k != server}
        if settings:
            tuned[server] = dict(settings)
        desired = board.desired.model_copy(update={"tuned": tuned, "seq": board.desired.seq + 1})
        with board.store.transaction():
            board.store.put("desired", desired.kept().model_dump())
            also()
        board.desired = desired
