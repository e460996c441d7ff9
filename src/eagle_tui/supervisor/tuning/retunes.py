"""Carrying out changes of settings, step by step; each step is durable.

requested → pausing → stopping → starting → ready → resuming → done, or, when the new settings do
not become ready, or die soon after (even when it is done), → reverting → resuming → rolled_back; or
refused. The step stands in the state file. What a step waits for is read from what is there
(processes, launches), not remembered, so a supervisor that takes over goes on from it.

Servers are retuned one after the other: while one is down, the others go on generating.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from eagle_tui.clock import Clock
from eagle_tui.config.target import NoSuchModel
from eagle_tui.protocol import RetuneStep, Severity, Tuning
from eagle_tui.supervisor.launches import LOST, Retune, Settings, Try
from eagle_tui.supervisor.server import resolved
from eagle_tui.supervisor.server.context import Plan
from eagle_tui.supervisor.server.managed import ManagedServer
from eagle_tui.supervisor.store import Store
from eagle_tui.supervisor.tuning.flags import Flags, HelpError, read_help
from eagle_tui.supervisor.tuning.order import ServerView, order_for
from eagle_tui.supervisor.tuning.present import tuning

TRIES = 2
"""Starts with new settings when the first one was killed from outside."""
FROM_OUTSIDE = ("killed", "child-killed", "port", LOST)
"""Rules of `telemetry.diagnosis` that are not the settings' fault."""
RESUME_S = 30.0
"""How long generation may take to send to the server again before it is called done anyway."""
EARLY_S = 120.0
"""A server that dies by itself so soon after it was ready with new settings cannot live with them:
too little memory shows in the first prefill under load."""
HELP_AGAIN_S = 60.0
"""Seconds after which a `--help` that could not be read is asked for again, when it is needed."""


def _again(one: Try) -> bool:
    """Whether a start that failed says nothing against the settings."""
    return one.ended and one.rule in FROM_OUTSIDE


def _early(one: Try) -> bool:
    """Whether a start with new settings came to an end that speaks against them."""
    return one.ended and not _again(one) and (one.lived_s is None or one.lived_s <= EARLY_S)


class Run(Protocol):
    """What a change of settings needs of the run."""

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


class Retunes:
    """The changes that are under way. `tick` is called a few times a second."""

    def __init__(
        self,
        run: Run,
        store: Store,
        clock: Clock,
        servers: dict[str, ManagedServer],
        say: Callable[[Severity, str, str], None],
    ) -> None:
        self._run = run
        self._store = store
        self._clock = clock
        self._servers = servers
        self._say = say
        self._open = store.servers.retunes(open_only=True)
        self._young = [r for r in store.servers.retunes() if r.step == "done" and self._is_young(r)]
        """Done so lately that they may have to be taken back."""
        self._checked = {
            name: Flags.of_kept(rows)
            for name in servers
            if (rows := store.get(f"flags.{name}")) is not None
        }
        """By which flags the settings of each server were checked, over our own death."""
        self._told: set[int] = set()
        """Changes of which it was said that they are tried once more."""
        self._flags: dict[str, Flags] = {}
        self._no_flags: dict[str, tuple[str, float]] = {}
        """Why a server's flags are not known, and since which monotonic time."""
        self._reading: dict[str, asyncio.Task[None]] = {}

    # -- what others ask --------------------------------------------------------------------------

    def under_way(self, server: str) -> Retune | None:
        """The first change of that server that has not come to its end."""
        return next((r for r in self._open if r.server == server), None)

    def views(self) -> tuple[ServerView, ...]:
        """All servers, as an order looks at them."""
        found = []
        for server in self._servers.values():
            flags = None if server.section.url else self.flags(server.section.name)[0]
            view = self._run.view(server, flags)
            if not view.refusal and (now := self.under_way(view.name)):
                view = replace(view, refusal=f"it is being retuned already ({now.words})")
            found.append(view)
        return tuple(found)

    def tuning(self, name: str) -> Tuning | None:
        """What can be retuned of a server; None when there is none of that name."""
        server = self._servers.get(name)
        if server is None:
            return None
        flags, note = (None, "") if server.section.url else self.flags(name)
        return tuning(self._run.view(server, flags), note)

    def needs(self, server: str) -> bool:
        """Whether a change needs the server to run now, whatever the phases need."""
        return self._active(server) in ("starting", "reverting", "ready", "resuming")

    def wants_down(self, name: str) -> bool:
        """Whether a change needs the server to be stopped now."""
        step = self._active(name)
        if step == "reverting":
            # It died after it was ready, and may have been started again by itself.
            server = self._servers[name]
            return not server.idle and server.plan.settings != self._open[0].before
        return step in ("pausing", "stopping")

    def plan(self, server: str) -> Plan:
        """With what the server is to be launched now."""
        step, checked = self._active(server), self._checked.get(server)
        if step in ("starting", "reverting", "ready", "resuming"):
            retune = self._open[0]
            if step == "starting":
                tries = self._store.servers.tries(retune.id, retune.after)
                number = 1 + sum(_again(t) for t in tries[: TRIES - 1])
                return Plan(retune.after, retune.id, True, number, checked)
            # Only what is taken back has a reason.
            settings = retune.before if retune.reason else retune.after
            return Plan(settings, retune.id, flags=checked)
        return Plan(self._run.tuned(server), flags=checked)

    def _active(self, server: str) -> RetuneStep | None:
        first = self._open[0] if self._open else None
        return first.step if first is not None and first.server == server else None

    def flags(self, server: str) -> tuple[Flags | None, str]:
        """What the server's `--help` says, and why it is not known; reading it is begun when it was
        not yet, which takes a program start."""
        if found := self._flags.get(server):
            return found, ""
        why, since = self._no_flags.get(server, ("", 0.0))
        if why and self._clock.monotonic() - since < HELP_AGAIN_S:
            return None, why
        if server not in self._reading:
            self._reading[server] = asyncio.get_running_loop().create_task(self._read(server))
        return None, "what the installed server knows is being looked up"

    async def _read(self, server: str) -> None:
        env = resolved.environment(self._servers[server].section)
        try:
            argv = self._run.help_argv(self._servers[server])
            self._flags[server] = await read_help(argv, env=env, cwd=self._run.root)
        except (HelpError, NoSuchModel) as error:
            why = f"its --help could not be read: {error}"
            self._no_flags[server] = why, self._clock.monotonic()
        finally:
            del self._reading[server]

    # -- progress ---------------------------------------------------------------------------------

    def reload(self) -> None:
        """An order was accepted: take up what it asked for."""
        self._open = self._store.servers.retunes(open_only=True)

    def tick(self) -> None:
        """Move the first change on as far as it goes now."""
        if self._run.down():
            return
        self._look_at_young()
        if not self._open:
            return
        retune = self._open[0]
        server = self._servers.get(retune.server)
        if server is None:
            self._end(retune, "refused", "run.toml names no such server any more")
            return
        step = {
            "requested": self._requested,
            "pausing": self._pausing,
            "stopping": self._stopping,
            "starting": self._starting,
            "reverting": self._reverting,
            "ready": self._ready,
            "resuming": self._resuming,
        }[retune.step]
        step(retune, server)

    def _go(self, retune: Retune, step: RetuneStep, **also: object) -> None:
        self._store.servers.step(retune.id, step, self._clock.wall(), **also)
        self._open = self._store.servers.retunes(open_only=True)

    def _end(self, retune: Retune, step: RetuneStep, reason: str) -> None:
        self._go(retune, step, reason=reason)
        source = f"server {retune.server}"
        if step == "done":
            self._young += [r for r in self._store.servers.retunes() if r.id == retune.id]
            self._say("info", source, f"retuned: {retune.words}")
        else:
            word = "refused" if step == "refused" else "rolled back"
            self._say("error", source, f"retune of {retune.words} {word}: {reason}")
            self._drop_others(retune)

    def _drop_others(self, retune: Retune) -> None:
        """What one server cannot do is not tried on the next one of the same order."""
        for other in self._open:
            if other.command == retune.command:
                reason = f"{retune.server} could not do it"
                self._store.servers.step(other.id, "refused", self._clock.wall(), reason=reason)
        self.reload()

    def _requested(self, retune: Retune, server: ManagedServer) -> None:
        try:
            self._judge(retune, server)
        except (TypeError, ValueError, KeyError, IndexError) as error:
            # A fault of ours must not come back with every supervisor that takes over.
            self._end(retune, "refused", f"it could not be checked: {error!r}")

    def _judge(self, retune: Retune, server: ManagedServer) -> None:
        flags, note = self.flags(retune.server)
        if flags is None and retune.server in self._reading:
            return
        view = self._run.view(server, flags)
        if view.refusal:
            self._end(retune, "refused", view.refusal)
            return
        # Only now is it known for sure what the server knows, and under which names.
        order, problems = order_for(view, retune.changes)
        if fatal := [p.sentence for p in problems if p.fatal]:
            self._end(retune, "refused", "; ".join(fatal))
            return
        if order is None:
            self._end(retune, "refused", "nothing would change: these settings are in force")
            return
        if note:
            self._say("warning", f"server {retune.server}", note)
        wall = self._clock.wall()
        self._store.mark(wall, "retune", f"{retune.server}: {order.words}")
        self._say("info", f"server {retune.server}", f"retune: {order.words}")
        server.forgive()
        self._store.servers.specify(retune.id, order)
        if flags is not None:
            self._checked[retune.server] = flags
            self._store.put(f"flags.{retune.server}", flags.kept())
        self._go(retune, "pausing", paused_at=wall)

    def _pausing(self, retune: Retune, server: ManagedServer) -> None:
        if not server.holding:
            self._go(retune, "stopping")

    def _stopping(self, retune: Retune, server: ManagedServer) -> None:
        if server.idle:
            self._go(retune, "starting")

    def _starting(self, retune: Retune, server: ManagedServer) -> None:
        tries = self._store.servers.tries(retune.id, retune.after)
        last = tries[-1] if tries else None
        if last is None or (not last.ready and not last.ended):
            return
        if last.ready:
            self._run.in_force(
                retune.server,
                retune.after,
                lambda: self._store.servers.step(retune.id, "ready", self._clock.wall()),
            )
            self.reload()
        elif len(tries) < TRIES and _again(last):
            if retune.id not in self._told:
                # The next try may have to wait, for a port that is taken.
                self._told.add(retune.id)
                sentence = f"tried once more: {last.reason}"
                self._say("warning", f"server {retune.server}", sentence)
        elif server.idle:
            self._back(retune, server, last.reason)

    def _back(self, retune: Retune, server: ManagedServer, reason: str) -> None:
        """The settings before are taken again."""
        sentence = f"back to the settings before: {reason}"
        self._say("warning", f"server {retune.server}", sentence)
        self._run.in_force(
            retune.server,
            retune.before,
            lambda: self._store.servers.step(
                retune.id, "reverting", self._clock.wall(), reason=reason
            ),
        )
        self.reload()
        # What died of the new settings does not count against those before.
        server.forgive()

    def _reverting(self, retune: Retune, server: ManagedServer) -> None:
        if self.wants_down(retune.server):
            return
        if server.state == "failed":
            self._end_without(retune, server)
        elif server.endpoint() is not None and server.plan.settings == retune.before:
            self._go(retune, "resuming")

    def _end_without(self, retune: Retune, server: ManagedServer) -> None:
        reason = f"{retune.reason}; and the settings before do not start either"
        self._end(retune, "rolled_back", f"{reason}: {server.reason}")

    def _ready(self, retune: Retune, server: ManagedServer) -> None:
        if reason := self._fell(retune, server):
            self._back(retune, server, reason)
        elif server.endpoint() is not None:
            self._go(retune, "resuming")

    def _resuming(self, retune: Retune, server: ManagedServer) -> None:
        if retune.reason and server.state == "failed":
            self._end_without(retune, server)
            return
        if not retune.reason and (reason := self._fell(retune, server)):
            self._back(retune, server, reason)
            return
        late = self._clock.wall() - retune.updated >= RESUME_S
        if server.state in ("stopped", "starting", "stopping") or not (
            late or self._run.sending(retune.server)
        ):
            return
        self._store.servers.step(
            retune.id, "resuming", retune.updated, resumed_at=self._clock.wall()
        )
        self._end(retune, "rolled_back" if retune.reason else "done", retune.reason)

    # -- settings that started, and did not hold --------------------------------------------------

    def _fell(self, retune: Retune, server: ManagedServer) -> str:
        """Why the new settings do not hold, though they had started; empty: they hold."""
        if server.state == "failed":
            return server.reason
        return self._early_death(retune)

    def _early_death(self, retune: Retune) -> str:
        """Why the server died by itself soon after it was ready; empty: it did not."""
        for one in self._store.servers.tries(retune.id, retune.after):
            if _early(one):
                when = "" if one.lived_s is None else f", {one.lived_s:.0f} s after it was ready"
                return f"{one.reason}{when}"
        return ""

    def _is_young(self, retune: Retune) -> bool:
        return self._clock.wall() - retune.updated <= EARLY_S

    def _look_at_young(self) -> None:
        """Take back what is done, when its server died of it; not while another change is on its
        way, which would be left half done."""
        if any(r.step != "requested" for r in self._open):
            return
        for retune in tuple(self._young):
            server = self._servers.get(retune.server)
            if server is None or not (reason := self._early_death(retune)):
                continue
            self._young.remove(retune)
            if self._run.tuned(retune.server) == retune.after:
                self._back(retune, server, reason)
                return
        self._young = [r for r in self._young if self._is_young(r)]
