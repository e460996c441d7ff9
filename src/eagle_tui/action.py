"""What an action of the registry is; the registry itself is `eagle_tui.actions`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

ParamType = Literal[
    "int", "tokens", "dataset", "phase", "choice", "datasets", "bool", "server", "settings",
    "text",
]  # fmt: skip


@dataclass(frozen=True)
class Param:
    """One argument of a verb. On the command line it is `--name`, or positional if `positional`."""

    name: str
    type: ParamType
    help: str
    required: bool = False
    positional: bool = False
    choices: tuple[str, ...] = ()
    default: str | None = None
    together: bool = False
    """In place of a dataset, `total` may stand for all of them."""


@dataclass(frozen=True)
class Action:
    """Something the operator can do."""

    id: str
    label: str
    """One or two words, as in the footer."""
    help: str
    """One sentence."""
    key: str | None = None
    verb: str | None = None
    params: tuple[Param, ...] = field(default=())
    footer: bool = True
    confirm: bool = False
    """Ask before sending, with the sentence that the supervisor's preview gives."""
    wait_s: float = 30.0
    """How long the command line waits by itself until it is in effect."""
    screens: tuple[str, ...] = ()
    """Names of the screens on which its key acts; empty: on every one."""
    footer_of: tuple[str, ...] = ()
    """Screens in whose footer it stands although `footer` is false."""
    twins: tuple[str, ...] = ()
    """Commands that show or do the same, of an action without a verb."""
    opens: str = ""
    """Name of the screen that it opens."""
    more_keys: tuple[str, ...] = ()
    """Further keys that do the same; footer and help show `key` alone."""
    modes: tuple[str, ...] = ()
    """Where alone it acts: `replay` (a run is shown as it was), `down` (the same of a run that is
    down and can go on). Empty: wherever the run is shown."""

    def acts_on(self, screen: str, mode: str = "") -> bool:
        """Whether its key acts on the screen of that name; `mode` is empty for a live run."""
        here = not self.screens or screen in self.screens
        return here and (not self.modes or mode in self.modes)


DATASET = Param("dataset", "dataset", "Name of the dataset.", required=True, positional=True)
