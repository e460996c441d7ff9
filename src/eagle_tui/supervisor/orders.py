"""Commands from request to effect: stored, then accepted with a desired state, or refused."""

from __future__ import annotations

import contextlib
import sqlite3
from typing import Any

from eagle_tui import troubles
from eagle_tui.config import ConfigError, parse_config
from eagle_tui.config.load import read_text
from eagle_tui.protocol import CommandRequest, CommandStatus, PhaseStatus, Preview, Severity
from eagle_tui.rundir import accepted, flags
from eagle_tui.supervisor import commands, undo
from eagle_tui.supervisor.board import Board
from eagle_tui.supervisor.launches import Retune
from eagle_tui.supervisor.moments import MARKED, mark_kind, order_text
from eagle_tui.supervisor.store import StoredCommand
from eagle_tui.supervisor.undo import Earlier
from eagle_tui.text import plain

AT_ONCE = frozenset({"rerun", "up", "flag"})
"""Verbs whose effect is there when they are accepted."""


class Orders:
    """Carries out the operator's commands on the board."""

    def __init__(self, board: Board) -> None:
        self._b = board

    def request(self, request: CommandRequest) -> CommandStatus:
        """Store an order and carry it out. Asked again under the same id, it is done once. One that
        is stored is carried out, if not now, as on a full disk, then in a later round: so from then
        on the answer is how far it is, never that it failed."""
        stored = self._b.store.request(
            CommandStatus(
                id=request.id,
                verb=request.verb,
                args=request.args,
                state="requested",
                at=self._b.clock.wall(),
                origin=request.origin,
            )
        )
        if stored.state != "requested":
            return stored
        with contextlib.suppress(OSError, sqlite3.Error):  # the next round meets it, and tells it
            self._carry_out(stored)
        found = self._b.store.command(request.id)
        assert found is not None
        return found.status

    def preview(self, verb: str, args: dict[str, Any]) -> Preview:
        """What an order would do."""
        try:
            return commands.preview(self._view(), verb, plain(args))
        except (OSError, sqlite3.Error):
            raise
        except Exception as error:  # noqa: BLE001 - see `_carry_out`
            return Preview(allowed=False, sentence=_fault(error))

    def carry_out_requested(self) -> None:
        """Orders that a supervisor before us stored and did not get to."""
        for command in self._b.store.commands_in("requested"):
            self._carry_out(command.status)

    def carry_out_todo(self) -> None:
        """What accepted commands bring about beside the desired state. Kept with the acceptance, so
        that it is done also when we die in between; each step may be done twice. One that cannot
        be done is told, and keeps nothing up: `down` may wait behind it."""
        board, problems = self._b, []
        for todo in board.store.get("todo") or []:
            for phase in todo["again"]:
                try:
                    board.remake(phase)
                except OSError as error:
                    why = troubles.of(error).sentence
                    problems.append(f"the manifest of {phase} cannot be put away: {why}")
            for phase in todo["forgive"]:
                board.slots[phase].forgive()
            if todo["intent"] is not None:
                board.set_intent(todo["intent"])
            if todo["intent"] == "up":
                for server in board.servers:
                    server.forgive()
            if todo.get("flag") is not None:
                try:
                    self._flag(**todo["flag"])
                except (OSError, ValueError) as error:
                    why = troubles.of(error).sentence
                    problems.append(f"the flag could not be kept: {why}")
        board.store.put("todo", [])
        for problem in problems:
            board.say("error", "supervisor", problem)

    def see_effects(self) -> None:
        """Settle the accepted commands whose effect is there."""
        for command in self._b.store.commands_in("accepted"):
            self._see_effect(command)

    def settle_down(self) -> None:
        """The run is down: whatever was still open has had its effect."""
        for command in self._b.store.commands_in("accepted"):
            # A retune that is under way goes on at the next `up`.
            if not self._b.store.servers.retunes(command=command.status.id):
                self._b.store.settle(command.status.id, "in_effect", "", self._b.clock.wall())

    def _view(self) -> commands.View:
        board = self._b
        view = board.worker("generate")
        paused = view is not None and view.flow.mode == "paused" and board.slots["generate"].alive
        return commands.View(
            config=board.config,
            desired=board.desired,
            phases={phase: self._phase(phase) for phase in board.decisions},
            datasets=board.figures.datasets,
            paused_by_itself=paused and board.desired.pause == "no",
            tok_s=board.server_tok_s(),
            servers=board.retunes.views,
            earlier=self._earlier,
        )

    def _phase(self, phase: str) -> PhaseStatus:
        """As much of a phase as an order looks at."""
        told = self._b.worker(phase)
        status = PhaseStatus(name=phase, state=self._b.decisions[phase].state)
        if told is None:
            return status
        return status.model_copy(update={"done": told.done, "total": told.total, "unit": told.unit})

    def _earlier(self, id: str) -> Earlier:
        """See `commands.View`."""
        if id:
            found = self._b.store.commands_like(id)
            if not found:
                raise LookupError(f"no command has the id {id[:60]!r}")
            if len(found) > 1:
                raise LookupError(f"more than one command's id begins with {id[:60]!r}")
            if not found[0].edits:
                raise LookupError(_not_undoable(found[0].status))
        else:
            found = [
                command
                for command in self._b.store.undoable()
                if command.status.verb != "undo" and self._still_holds(command)
            ][:1]
            if not found:
                raise LookupError("there is no command that can be taken back")
        status = found[0].status
        return Earlier(status.id, order_text(status.verb, status.args), found[0].edits)

    def _still_holds(self, command: StoredCommand) -> bool:
        try:
            undo.put_back(self._b.desired, command.edits)
        except undo.Overtaken:
            return False
        return True

    def _flag(self, dataset: str, id: str, note: str, remove: bool, at: float) -> None:
        run = self._b.run
        if remove:
            flags.remove(run, dataset, id)
        else:
            flags.put(run, flags.Flag(dataset=dataset, id=id, at=at, note=note))

    def _carry_out(self, status: CommandStatus) -> None:
        board = self._b
        try:
            change = self._accept(status)
        except (commands.Refusal, ConfigError) as refusal:
            self._refuse(status, str(refusal), "warning")
            return
        except (OSError, sqlite3.Error):
            raise
        except Exception as error:  # noqa: BLE001
            # A fault of ours must not come back with every supervisor that takes over.
            self._refuse(status, _fault(error), "error")
            return
        if change.retunes:
            board.retunes.reload()
        self.carry_out_todo()
        board.say("info", "operator", f"{status.verb}: {change.sentence}")
        board.publish()

    def _refuse(self, status: CommandStatus, why: str, severity: Severity) -> None:
        self._b.store.settle(status.id, "refused", why, self._b.clock.wall())
        self._b.say(severity, "operator", f"{status.verb} refused: {why}")

    def _accept(self, status: CommandStatus) -> commands.Change:
        """What an order does, kept with its acceptance. Refusal and ConfigError when it does not
        make sense; of any other error, too, nothing is kept."""
        board, wall = self._b, self._b.clock.wall()
        if status.verb in ("up", "rerun"):
            self._reload()
        change = commands.apply(self._view(), status.verb, status.args)
        intent = "down" if change.down else "up" if status.verb == "up" else None
        todo: dict[str, Any] = {
            "again": change.again,
            "forgive": change.forgive,
            "intent": intent,
            "flag": {**change.flag, "at": wall} if change.flag is not None else None,
        }
        changed = undo.edits(board.desired, change.desired)
        changed = changed if status.verb in undo.REVERSIBLE else ()

        args = {**status.args, **change.args}

        def also() -> None:
            board.store.fill(status.id, args)
            board.store.note(status.id, change.sentence, changed, undo.words(changed, board.config))
            for order in change.retunes:
                board.store.servers.add_retune(status.id, order, wall)
            if status.verb in MARKED:
                kind = mark_kind(status.verb, board.desired.pause, change.desired.pause)
                board.store.mark(wall, kind, order_text(status.verb, args))

        board.store.accept(status.id, change.desired, wall, todo, also)
        board.desired = change.desired
        return change

    def _reload(self) -> None:
        """Read run.toml again."""
        board = self._b
        text = read_text(board.run.config)
        config = parse_config(text, source=str(board.run.config))
        parts = ("server", "target", "supervisor")
        if first := accepted.held(board.run, board.config, config, parts):
            raise commands.Refusal(first)
        accepted.keep(board.run, text)
        if config != board.config:
            board.set_config(config)
            board.say("info", "supervisor", "run.toml was read again")

    def _see_effect(self, command: StoredCommand) -> None:
        board, status = self._b, command.status
        view, alive = board.worker("generate"), board.slots["generate"].alive
        flow = view.flow if view and alive else None
        seen = flow is None or flow.seq >= (command.seq or 0)
        reason = ""
        if status.verb == "down":
            if board.intent == "up":
                board.store.settle(status.id, "in_effect", "overtaken by up", board.clock.wall())
            return
        if board.store.servers.retunes(command=status.id):
            self._see_retune(command)
            return
        pauses = any(e.path == ("pause",) and e.after != "no" for e in command.edits)
        if pauses or status.verb == "pause":
            effective = seen and (flow is None or flow.mode == "paused")
            if not effective and board.desired.pause == "no":
                effective, reason = True, "overtaken by resume"
        elif status.verb == "advance":
            phase = status.args.get("phase") or "generate"
            effective = board.decisions[phase].state == "done"
        else:
            effective = seen or status.verb in AT_ONCE
        if effective:
            board.store.settle(status.id, "in_effect", reason, board.clock.wall())

    def _see_retune(self, command: StoredCommand) -> None:
        """A retune is in effect when it is done on every server; what was refused or rolled back
        on one is refused. Until then its reason says how far it is."""
        board, status = self._b, command.status
        found = board.store.servers.retunes(command=status.id)
        under_way = [r for r in found if r.open]
        if under_way:
            first = under_way[0]
            waits = board.retunes.waits(first.server)
            words = f"{first.server}: {first.step}" + (f", waits: {waits}" if waits else "")
            if words != status.reason:
                board.store.settle(status.id, "accepted", words, board.clock.wall())
            return
        failed = [f"{r.server}: {_failed(r)}" for r in found if r.step != "done"]
        state = "refused" if failed else "in_effect"
        board.store.settle(status.id, state, "; ".join(failed), board.clock.wall())


def _fault(error: Exception) -> str:
    """What is told of an order that met a fault of the program."""
    return f"it could not be carried out, by a fault of eagle-tui: {error!r:.300}"


def _not_undoable(status: CommandStatus) -> str:
    """Why a command cannot be taken back, of which it is not known what it changed."""
    if status.verb not in ("retune", "undo") or status.state == "in_effect":
        return f"{status.verb} cannot be taken back"
    if status.state == "refused":
        return f"this {status.verb} changed nothing that could be taken back"
    return f"this {status.verb} is still under way: {status.reason or status.state}"


def _failed(retune: Retune) -> str:
    if retune.step == "refused":
        return retune.reason
    return f"rolled back to the settings before: {retune.reason}"
