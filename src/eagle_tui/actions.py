"""The one registry of actions: from it come keys, footer, help, palette, CLI verbs, docs/keys.md.

What a key can do, a command can do: an action with `verb` is an order to the supervisor and is also
`eagle-tui VERB RUN …`. An action without one concerns the screen alone. `screens` says where its
key acts; `opens` makes it the key of a screen.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

ParamType = Literal[
    "int", "tokens", "dataset", "phase", "choice", "datasets", "bool", "server", "settings"
]


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
    opens: str = ""
    """Name of the screen that it opens."""
    more_keys: tuple[str, ...] = ()
    """Further keys that do the same; footer and help show `key` alone."""

    def acts_on(self, screen: str) -> bool:
        """Whether its key acts on the screen of that name."""
        return not self.screens or screen in self.screens


DATASET = Param("dataset", "dataset", "Name of the dataset.", required=True, positional=True)
PHASE = Param("phase", "phase", "Name of the phase.", positional=True)

DATASET_SCREENS = ("overview", "datasets")
PHASE_SCREENS = ("overview", "phases")
OTHER_SCREENS = ("datasets", "samples", "server", "gpus", "logs", "events", "phases")
"""All but the overview."""

ACTIONS: tuple[Action, ...] = (
    Action(
        "pause",
        "Pause",
        "Pause generation. hold: end what is in flight, keep its tokens and continue it later; "
        "drain: let it finish first; abort: throw it away and generate it again later.",
        key="p",
        verb="pause",
        params=(
            Param(
                "mode",
                "choice",
                "What happens to the requests in flight.",
                choices=("hold", "drain", "abort"),
                default="hold",
            ),
        ),
    ),
    Action("resume", "Resume", "Resume generation after a pause.", key="r", verb="resume"),
    Action(
        "cap",
        "Cap",
        "Cap a dataset (or `total`: all together) by tokens or samples, raise the cap or take it "
        "away.",
        key="c",
        verb="cap",
        params=(
            replace(DATASET, together=True),
            Param("tokens", "tokens", "Cap in tokens, such as 10M or 250k."),
            Param("samples", "int", "Cap in finished responses."),
            Param("none", "bool", "Take the dataset's caps away."),
        ),
        confirm=True,
        screens=DATASET_SCREENS,
    ),
    Action(
        "concurrency",
        "Concurrency",
        "Change how many requests are in flight for one dataset.",
        key="n",
        verb="concurrency",
        params=(DATASET, Param("value", "int", "Requests in flight.", True, True)),
        screens=DATASET_SCREENS,
    ),
    Action(
        "skip",
        "Skip",
        "Leave a dataset out, or take it in again; what it has is kept.",
        key="s",
        verb="skip",
        params=(DATASET, Param("undo", "bool", "Take the dataset in again.")),
        confirm=True,
        footer=False,
        screens=DATASET_SCREENS,
    ),
    Action(
        "order",
        "Order",
        "Put datasets first, in the order given; the others follow as they were.",
        key="o",
        verb="order",
        params=(
            Param("datasets", "datasets", "Names of datasets, the first one first.", True, True),
        ),
        footer=False,
        screens=DATASET_SCREENS,
    ),
    Action(
        "advance",
        "Advance",
        "End the running phase with what is there and go on to the next one.",
        key="a",
        verb="advance",
        params=(PHASE,),
        confirm=True,
        screens=PHASE_SCREENS,
    ),
    Action(
        "retry",
        "Retry",
        "Generate prompts again whose state is final: those that failed, looped, had no answer, …",
        key="t",
        verb="retry",
        params=(
            Param(
                "state",
                "choice",
                "Which prompts.",
                choices=("failed", "over_context", "aborted", "no_answer", "loop", "truncated"),
                default="failed",
            ),
            Param("dataset", "dataset", "Only of this dataset."),
        ),
        confirm=True,
        footer=False,
        screens=DATASET_SCREENS,
    ),
    Action(
        "retune",
        "Retune",
        "Change settings of the servers, such as the KV cache: they are checked, each server is "
        "stopped with its requests held, and started again; what does not start is taken back.",
        key="m",
        verb="retune",
        params=(
            Param("server", "server", "Only this server."),
            Param(
                "settings",
                "settings",
                "Settings as KEY=VALUE, such as mem-fraction-static=0.88; `default`: as in "
                "run.toml again, `none`: without the flag.",
                required=True,
                positional=True,
            ),
        ),
        confirm=True,
        footer=False,
        wait_s=7200.0,
    ),
    Action(
        "rerun",
        "Rerun",
        "Run a failed, stale or finished phase again; finished work is kept and reused.",
        key="R",
        verb="rerun",
        params=(PHASE,),
        confirm=True,
        footer=False,
        screens=PHASE_SCREENS,
    ),
    Action(
        "down",
        "Stop run",
        "Stop the workers and servers and end the supervisor. Nothing is lost; `up` goes on.",
        key="X",
        verb="down",
        confirm=True,
        footer=False,
    ),
    Action("overview", "Overview", "All that matters at one glance.", key="1", opens="overview"),
    Action(
        "events",
        "Events",
        "Events and commands of the run.",
        key="7",
        opens="events",
        more_keys=("e",),
    ),
    Action(
        "next_sample",
        "Older",
        "Show the next older sample.",
        key="right_square_bracket",
        screens=("overview",),
    ),
    Action(
        "previous_sample",
        "Newer",
        "Show the next newer sample.",
        key="left_square_bracket",
        screens=("overview",),
    ),
    Action(
        "sample_kind",
        "Samples",
        "Which samples to show: newest, longest, truncated, no_answer or loop.",
        key="v",
        screens=("overview",),
    ),
    Action(
        "fold",
        "Fold",
        "Fold or unfold the reasoning of the sample.",
        key="f",
        footer=False,
        screens=("overview",),
    ),
    Action("help", "Help", "All keys with what they do.", key="question_mark"),
    Action(
        "quit",
        "Detach",
        "Leave the program; the run goes on. `eagle-tui attach` comes back; ctrl+q leaves from any "
        "screen.",
        key="q",
        screens=("overview",),
    ),
    Action(
        "back",
        "Back",
        "Leave what is open, then the screen, for the overview.",
        key="q",
        more_keys=("escape", "backspace"),
        screens=OTHER_SCREENS,
    ),
)

BY_ID: dict[str, Action] = {action.id: action for action in ACTIONS}
BY_VERB: dict[str, Action] = {action.verb: action for action in ACTIONS if action.verb}


def actions_on(screen: str) -> list[Action]:
    """The actions whose keys act on the screen of that name, in the registry's order."""
    return [action for action in ACTIONS if action.acts_on(screen)]
