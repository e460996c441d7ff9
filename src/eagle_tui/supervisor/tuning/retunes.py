"""Carrying out changes of settings, step by step; each step is durable.

requested → pausing → stopping → starting → ready → resuming → done, or, when the new settings do
not become ready, or die soon after (even when it is done), → reverting → resuming → rolled_back; or
refused. The step stands in the state file. What a step waits for is read from what is there
(processes, launches), not remembered, so a supervisor that takes over goes on from it.

Servers are retuned one after the other: while one is down, the others go on generating.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import replace

from eagle_tui.clock import Clock
from eagle_tui.protocol import RetuneStatus, RetuneStep, Severity, Tuning
from eagle_tui.supervisor import undo
from eagle_tui.supervisor.launches import InFlight, Retune
from eagle_tui.supervisor.server.context import Plan
from eagle_tui.supervisor.server.managed import ManagedServer
from eagle_tui.supervisor.store import Store
from eagle_tui.supervisor.tuning import tries
from eagle_tui.supervisor.tuning.flags import Flags
from eagle_tui.supervisor.tuning.known import KnownFlags
from eagle_tui.supervisor.tuning.order import ServerView, order_for, others
from eagle_tui.supervisor.tuning.present import tuning
from eagle_tui.supervisor.tuning.surroundings import Run
from eagle_tui.supervisor.tuning.tries import TRIES, again, early_death

RESUME_S = 30.0
"""How long generation may take to send to the server again before it is called done anyway."""


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
        self._told_waits: set[int] = set()
        """Changes of which it was said why they wait."""
        self.known = KnownFlags(servers, clock, run.root, run.help_argv)

    # -- what others ask --------------------------------------------------------------------------

    def under_way(self, server: str) -> Retune | None:
        """The first change of that server that has not come to its end."""
        return next((r for r in self._open if r.server == server), None)

    def views(self) -> tuple[ServerView, ...]:
        """All servers, as an order looks at them."""
        found = []
        for server in self._servers.values():
            flags = None if server.section.url else self.known.of(server.section.name)[0]
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
        flags, note = (None, "") if server.section.url else self.known.of(name)
        return tuning(self._run.view(server, flags), note)

    def status(self, server: str) -> RetuneStatus | None:
        """The change of that server that is under way, for the snapshot."""
        now = self.under_way(server)
        if now is None:
            return None
        return now.status().model_copy(update={"waits": self.waits(server)})

    def waits(self, server: str) -> str:
        """Why a change that was begun does not go on; empty: it goes on, or there is none. A
        supervisor without the server's key could stop it, and not start it again."""
        step = self._active(server)
        if step is None or step == "requested":
            return ""
        # One that runs goes on serving; one that was told to stop is seen to its end.
        if step != "pausing" and not self._servers[server].idle:
            return ""
        return self._run.no_key(server)

    def leaving(self, server: str) -> InFlight:
        """What becomes of the requests in flight on a server that is to stop now."""
        if self._run.down() or self._active(server) not in ("pausing", "stopping"):
            return "hold"
        return self._open[0].in_flight

    def needs(self, server: str) -> bool:
        """Whether a change needs the server to run now, whatever the phases need."""
        return self._active(server) in ("starting", "reverting", "ready", "resuming")

    def wants_down(self, name: str) -> bool:
        """Whether a change needs the server to be stopped now."""
        step = self._active(name)
        if self.waits(name):
            return self._servers[name].idle
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
                tried = self._store.servers.tries(retune.id, retune.after)
                number = 1 + sum(again(t) for t in tried[: TRIES - 1])
                return Plan(retune.after, retune.id, True, number, checked)
            # Only what is taken back has a reason.
            settings = retune.before if retune.reason else retune.after
            return Plan(settings, retune.id, flags=checked)
        return Plan(self._run.tuned(server), flags=checked)

    def _active(self, server: str) -> RetuneStep | None:
        first = self._open[0] if self._open else None
        return first.step if first is not None and first.server == server else None

    # -- progress ---------------------------------------------------------------------------------

    def reload(self) -> None:
        """Take up what stands in the state file, such as an order that was accepted."""
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
        if (why := self.waits(retune.server)) and retune.id not in self._told_waits:
            self._told_waits.add(retune.id)
            self._say("error", f"server {retune.server}", f"the retune waits: {why}")
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
        self.reload()

    def _end(self, retune: Retune, step: RetuneStep, reason: str) -> None:
        with self._store.transaction():
            self._store.servers.step(retune.id, step, self._clock.wall(), reason=reason)
            self._note_undo(retune.command)
            if step != "done":
                self._drop_others(retune)
        # Only now, when it is on disk: what is forgotten here is never ended there.
        self.reload()
        source = f"server {retune.server}"
        if step == "done":
            self._young += [r for r in self._store.servers.retunes() if r.id == retune.id]
            self._say("info", source, f"retuned: {retune.words}")
        else:
            word = "refused" if step == "refused" else "rolled back"
            self._say("error", source, f"retune of {retune.words} {word}: {reason}")

    def _note_undo(self, command: str) -> None:
        """What an order has changed by now can be taken back."""
        found = [r for r in self._store.servers.retunes(command=command) if r.step == "done"]
        edits = [undo.retuned(r.server, r.before, r.after) for r in found]
        self._store.note_undo(command, edits, undo.tuned_words(edits))

    def _drop_others(self, retune: Retune) -> None:
        """What one server cannot do is not tried on the next one of the same order."""
        for other in self._open:
            if other.command == retune.command and other.id != retune.id:
                reason = f"{retune.server} could not do it"
                self._store.servers.step(other.id, "refused", self._clock.wall(), reason=reason)

    def _requested(self, retune: Retune, server: ManagedServer) -> None:
        try:
            self._judge(retune, server)
        except (OSError, sqlite3.Error):
            raise
        except Exception as error:  # noqa: BLE001
            # A fault of ours must not come back with every supervisor that takes over.
            self._end(retune, "refused", f"it could not be checked: {error!r}")

    def _judge(self, retune: Retune, server: ManagedServer) -> None:
        flags, note = self.known.of(retune.server)
        if flags is None and self.known.reading(retune.server):
            return
        view = self._run.view(server, flags)
        # Those that wait for the same change count with what it makes of them.
        planned = {r.server: r.after for r in self._open}
        taken = others(self.views(), retune.server, planned)
        view = replace(view, host=replace(view.host, others=taken))
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
        tried = self._store.servers.tries(retune.id, retune.after)
        last = tried[-1] if tried else None
        if last is None or (not last.ready and not last.ended):
            return
        if last.ready:
            self._run.in_force(
                retune.server,
                retune.after,
                lambda: self._store.servers.step(retune.id, "ready", self._clock.wall()),
            )
            self.reload()
        elif len(tried) < TRIES and again(last):
            if retune.id not in self._told:
                # The next try may have to wait, for a port that is taken.
                self._told.add(retune.id)
                sentence = f"tried once more: {last.reason}"
                self._say("warning", f"server {retune.server}", sentence)
        elif server.idle:
            self._back(retune, server, last.reason)

    def _back(self, retune: Retune, server: ManagedServer, reason: str) -> None:
        """The settings before are taken again."""

        def also() -> None:
            wall = self._clock.wall()
            self._store.servers.step(retune.id, "reverting", wall, reason=reason)
            self._note_undo(retune.command)

        self._run.in_force(retune.server, retune.before, also)
        self.reload()
        sentence = f"back to the settings before: {reason}"
        self._say("warning", f"server {retune.server}", sentence)
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
        return early_death(self._store.servers.tries(retune.id, retune.after))

    def _is_young(self, retune: Retune) -> bool:
        return self._clock.wall() - retune.updated <= tries.EARLY_S

    def _look_at_young(self) -> None:
        """Take back what is done, when its server died of it; not while another change is on its
        way, which would be left half done."""
        if any(r.step != "requested" for r in self._open):
            return
        for retune in tuple(self._young):
            server = self._servers.get(retune.server)
            if server is None or not (reason := self._early_death(retune)):
                continue
            back = self._run.tuned(retune.server) == retune.after
            if back:
                self._back(retune, server, reason)
            self._young.remove(retune)
            if back:
                return
        self._young = [r for r in self._young if self._is_young(r)]
