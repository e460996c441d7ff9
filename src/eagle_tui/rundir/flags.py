"""`flagged.json`: the responses that the operator marked, to come back to.

The supervisor replaces it when it carries out a `flag` command; whoever shows samples reads it.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, ValidationError

from eagle_tui.rundir import atomic
from eagle_tui.rundir.paths import RunDir


class Flag(BaseModel):
    """One marked response."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    dataset: str
    id: str
    at: float
    """Unix time at which it was marked."""
    note: str = ""


def read(run: RunDir) -> tuple[Flag, ...]:
    """The marked responses, the first marked first. ValueError when the file cannot be read."""
    body = atomic.read_json(run.flagged)
    if body is None:
        return ()
    try:
        return tuple(Flag.model_validate(item) for item in body["flags"])
    except (KeyError, TypeError, ValidationError) as error:
        raise ValueError(
            f"{run.flagged}: not a list of flags; move it away, and flag anew"
        ) from error


def put(run: RunDir, flag: Flag) -> None:
    """Mark a response; one that is marked already gets the new note."""
    key = (flag.dataset, flag.id)
    _write(run, (*(f for f in read(run) if (f.dataset, f.id) != key), flag))


def remove(run: RunDir, dataset: str, id: str) -> None:
    """Take a mark away, if it is there."""
    _write(run, tuple(f for f in read(run) if (f.dataset, f.id) != (dataset, id)))


def _write(run: RunDir, flags: tuple[Flag, ...]) -> None:
    atomic.write_json(run.flagged, {"schema": 1, "flags": [f.model_dump() for f in flags]})
