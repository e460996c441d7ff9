"""Phases and servers towards what is wanted: facts from the board, decisions, launches, stops."""

from __future__ import annotations

from eagle_tui.config import PHASES
from eagle_tui.supervisor.board import Board
from eagle_tui.supervisor.phases import Facts, decide


def facts(board: Board, phase: str) -> Facts:
    """What decides about the phase now."""
    made, stale = board.manifest(phase)
    slot = board.slots[phase]
    view = board.worker(phase)
    wanted = board.config.run.phases
    upstream = [p for p in PHASES[: PHASES.index(phase)] if p in wanted]
    flow = view.flow if view and slot.alive else None
    return Facts(
        name=phase,
        wanted=phase in wanted,
        up=board.intent == "up",
        upstream=tuple((p, board.decisions[p].state) for p in upstream),
        made=made is not None,
        early=made.early if made else "",
        stale=stale,
        alive=slot.alive,
        failed=slot.failed,
        retry_in_s=slot.retry_in_s,
        retry_reason=slot.last_reason,
        pause=board.desired.pause,
        flow_mode=flow.mode if flow else "",
        flow_reason=flow.reason if flow else "",
        idle_s=board.clock.monotonic() - view.last_at if view and view.last_at else 0.0,
        stall_s=board.config.supervisor.stall_s,
        servers_idle=all(server.idle for server in board.servers),
        starting=_starting(board),
        finishing=phase in board.desired.finish,
    )


def _starting(board: Board) -> str:
    """The first server that is on its way, or stopping to start with other settings."""
    for server in board.servers:
        if server.state in ("starting", "stopping"):
            return f"server {server.section.name}, which is {server.state}"
    return ""


def check_workers(board: Board) -> None:
    """Settle the workers that ended."""
    for slot in board.slots.values():
        if slot.check(board.config.supervisor) is not None:
            board.forget_manifest(slot.phase)


def decide_phases(board: Board) -> None:
    """Bring every phase's state up to date; later phases see the states of earlier ones."""
    for phase in PHASES:
        board.decisions[phase] = decide(facts(board, phase))


def reconcile_phases(board: Board) -> None:
    """Decide, and launch or stop workers accordingly."""
    for phase in PHASES:
        decision = board.decisions[phase] = decide(facts(board, phase))
        slot = board.slots[phase]
        if board.intent == "down":
            slot.stop(board.config.supervisor.stop_timeout_s)
        elif decision.launch:
            slot.launch()


def all_stopped(board: Board) -> bool:
    """No worker and no server of ours runs."""
    workers = any(slot.alive for slot in board.slots.values())
    return not workers and all(server.idle for server in board.servers)
