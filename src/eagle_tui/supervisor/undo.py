"""What a command changed of the desired state, kept with it, so that it can be taken back. Pure.

An undo puts back the value before, field by field, and only where the value still is what the
command made of it: whatever was ordered since stays, or the undo is refused. An undo is a command,
so it can be undone as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from eagle_tui.config.model import RunConfig
from eagle_tui.rundir.desired import DatasetControl, Desired
from eagle_tui.supervisor.tuning.settings import DEFAULT, NONE

REVERSIBLE = frozenset({"pause", "resume", "cap", "concurrency", "skip", "order", "undo"})
_WHOLE = ("pause", "order", "finish", "cap_tokens_total", "cap_samples_total")
_CONTROL = tuple(DatasetControl.model_fields)
AS_CONFIGURED = "as in run.toml"
TUNED = "tuned"
"""First word of the path of a server's settings; the second is the server's name. They are put back
by another retune, and stand with a command only once its retune is done."""


class Overtaken(ValueError):
    """What a command changed was changed again since; the message says what."""


@dataclass(frozen=True)
class Edit:
    """One field that a command changed. Values are as in JSON."""

    path: tuple[str, ...]
    """A field of the desired state; or `datasets`, a name and a field of its control; or `tuned`
    and a server's name."""
    before: Any
    after: Any


@dataclass(frozen=True)
class Earlier:
    """A command that was accepted, with what it changed."""

    id: str
    words: str
    edits: tuple[Edit, ...]


def no_earlier(_id: str) -> Earlier:
    """Where no commands are kept."""
    raise LookupError("there is no command that can be taken back")


def edits(before: Desired, after: Desired) -> tuple[Edit, ...]:
    """What differs between two desired states, of what can be put back."""
    found = [
        Edit((name,), _json(getattr(before, name)), _json(getattr(after, name)))
        for name in _WHOLE
        if getattr(before, name) != getattr(after, name)
    ]
    for name in {**before.datasets, **after.datasets}:
        old = before.datasets.get(name, DatasetControl())
        new = after.datasets.get(name, DatasetControl())
        found += [
            Edit(("datasets", name, key), getattr(old, key), getattr(new, key))
            for key in _CONTROL
            if getattr(old, key) != getattr(new, key)
        ]
    return tuple(found)


def retuned(server: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Edit:
    """What a retune changed of a server's settings over run.toml."""
    return Edit((TUNED, server), dict(before), dict(after))


def settings_back(edit: Edit) -> dict[str, str]:
    """The order to retune that puts a server's settings back."""
    names = [*edit.before, *(name for name in edit.after if name not in edit.before)]
    changed = (n for n in names if edit.before.get(n, ...) != edit.after.get(n, ...))
    return {
        n: (NONE if edit.before[n] is None else edit.before[n]) if n in edit.before else DEFAULT
        for n in changed
    }


def put_back(desired: Desired, changed: Sequence[Edit]) -> Desired:
    """The desired state with the values before. Overtaken when one was changed again since."""
    for edit in changed:
        if _json(_value(desired, edit.path)) != edit.after:
            raise Overtaken(f"{_name(edit.path)} was changed again since: undo that first")
    for edit in changed:
        desired = _with(desired, edit.path, edit.before)
    return desired


def words(changed: Sequence[Edit], config: RunConfig) -> str:
    """What putting back does, as a sentence without a full stop."""
    return "; ".join(_words(edit, config) for edit in changed)


def tuned_words(changed: Sequence[Edit]) -> str:
    """`words` of what retunes changed."""
    parts = []
    for edit in changed:
        settings = settings_back(edit).items()
        words = (f"{k} {AS_CONFIGURED if v == DEFAULT else v}" for k, v in settings)
        parts.append(f"{edit.path[1]} is retuned: {', '.join(words)}")
    return "; ".join(parts)


def to_json(changed: Sequence[Edit]) -> list[list[Any]]:
    """To be kept; see `from_json`."""
    return [[list(e.path), e.before, e.after] for e in changed]


def from_json(body: list[list[Any]]) -> tuple[Edit, ...]:
    """What `to_json` made."""
    return tuple(Edit(tuple(path), before, after) for path, before, after in body)


def _json(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _value(desired: Desired, path: tuple[str, ...]) -> Any:
    if len(path) == 1:
        return getattr(desired, path[0])
    if path[0] == TUNED:
        return desired.tuned.get(path[1], {})
    return getattr(desired.datasets.get(path[1], DatasetControl()), path[2])


def _with(desired: Desired, path: tuple[str, ...], value: Any) -> Desired:
    if len(path) == 1:
        value = tuple(value) if isinstance(value, list) else value
        return desired.model_copy(update={path[0]: value})
    if path[0] == TUNED:
        return desired.model_copy(update={TUNED: {**desired.tuned, path[1]: value}})
    _, name, key = path
    control = desired.datasets.get(name, DatasetControl()).model_copy(update={key: value})
    return desired.model_copy(update={"datasets": {**desired.datasets, name: control}})


def _name(path: tuple[str, ...]) -> str:
    if path[0] == TUNED:
        return f"what is retuned of {path[1]}"
    field = path[-1].replace("cap_tokens", "cap").replace("cap_samples", "cap in responses")
    field = field.replace("_total", " over all datasets")
    return field if len(path) == 1 else f"{field} of {path[1]}"


def _words(edit: Edit, config: RunConfig) -> str:
    if edit.path[0] == TUNED:
        return tuned_words([edit])
    key, back = edit.path[-1], edit.before
    where = f"{edit.path[1]}: " if len(edit.path) > 1 else ""
    if key == "pause":
        return "generation goes on" if back == "no" else f"generation pauses ({back})"
    if key == "order":
        return f"first: {', '.join(back)}" if back else f"the order {AS_CONFIGURED}"
    if key == "finish":
        ended = [name for name in back if name not in edit.after]
        return f"{', '.join(ended) or 'the phase'} ends with what is there"
    if key == "skip":
        return f"{where}{'left out' if back else 'taken in'} again"
    if key == "concurrency":
        return f"{where}{AS_CONFIGURED if back is None else back} requests in flight"
    unit = "tokens" if "tokens" in key else "responses"
    all_of = "all datasets: " if key.endswith("_total") else where
    if back is None:
        return f"{all_of}cap in {unit} {AS_CONFIGURED}"
    return f"{all_of}no cap in {unit}" if back == 0 else f"{all_of}cap at {back:,} {unit}"
