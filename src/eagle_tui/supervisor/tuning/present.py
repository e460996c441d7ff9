"""The settings of a server as a dialog shows them: what is in force, from where, and its bounds.
Pure."""

from __future__ import annotations

from typing import Literal

from eagle_tui.protocol import Setting, Tuning
from eagle_tui.supervisor.tuning.arguments import apply, main_name, value_of
from eagle_tui.supervisor.tuning.order import ServerView, present
from eagle_tui.supervisor.tuning.settings import SETTINGS

FALSE = "false"


def tuning(view: ServerView, note: str) -> Tuning:
    """The settings worth changing, and those that were retuned beside them. `note`: why something
    is not known yet."""
    tuned = {main_name(key, view.flags) for key in view.tuned}
    named = {known.key for known in SETTINGS}
    now = apply(view.argv, view.tuned, view.flags)
    found: list[Setting] = []
    for known in SETTINGS:
        flag = view.flags.get(known.key) if view.flags else None
        value = present(view, now, known.key)
        if value is None and known.kind == "bool":
            value = FALSE
        found.append(
            Setting(
                key=known.key,
                kind=known.kind,
                value=value,
                source=_source(view, known.key, tuned),
                choices=(flag.choices if flag else ()) or known.choices,
                help=known.explanation,
                known=flag is not None or view.flags is None,
            )
        )
    found += [
        Setting(key=key, value=present(view, now, key), source="retune", help="an extra flag")
        for key in view.tuned
        if main_name(key, view.flags) not in named
    ]
    return Tuning(server=view.name, settings=tuple(found), note=view.refusal or note)


def _source(
    view: ServerView, key: str, tuned: set[str]
) -> Literal["default", "run.toml", "retune"]:
    if key in tuned:
        return "retune"
    return "run.toml" if value_of(view.argv, key, view.flags) is not None else "default"
