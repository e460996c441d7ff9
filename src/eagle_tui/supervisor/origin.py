"""Whether a state file was written in the directory where it lies, or came there with a copy.

A copy that is made while a run goes on names processes that live and belong to the original. Who
starts the copy must neither adopt nor end them. Where none of them lives, there is nothing to tell
a copy from a directory whose file system was mounted anew, and no need to.
"""

from __future__ import annotations

from pathlib import Path

from eagle_tui import proc
from eagle_tui.rundir.identity import identity
from eagle_tui.supervisor.store import Store


def disown(store: Store, root: Path, wall: float) -> str:
    """Let go of the attempts that a copied state file names, before anything looks at them; gives
    what the operator should know of it. Empty: the file is of this directory, or none of them
    lives."""
    here = identity(root)
    before = store.get("root")
    if here is None or before == list(here):
        return ""
    left = []
    if before is not None:
        known = (*store.open_attempts("phase"), *store.open_attempts("server"))
        left = [attempt for attempt in known if proc.family(attempt.token, attempt.process)]
    for attempt in left:
        reason = "the directory was copied while it ran; it belongs to the original"
        # Not "lost": nothing went wrong with it, and it does not count against its settings.
        store.ended(attempt.token, wall, outcome="stopped", reason=reason)
    store.put("root", here)
    if not left:
        return ""
    names = ", ".join(attempt.name for attempt in left)
    return (
        f"this directory is a copy of one whose run went on: what runs there ({names}) is left "
        "alone, and started here anew"
    )
