"""The one registry of actions: from it come keys, footer, help, palette, CLI verbs, docs/keys.md.

What a key can do, a command can do: an action with `verb` is an order to the supervisor and is also
`eagle-tui VERB RUN …`. An action without one concerns the screen alone. `screens` says where its
key acts; `opens` makes it the key of a screen.
"""

from __future__ import annotations

from dataclasses import replace

from eagle_tui.action import DATASET
from eagle_tui.action import Action as Action
from eagle_tui.action import Param as Param
from eagle_tui.action import ParamType as ParamType
from eagle_tui.reading_actions import READING
from eagle_tui.viewing_actions import VIEWING

PHASE = Param("phase", "phase", "Name of the phase.", positional=True)

DATASET_SCREENS = ("overview", "datasets")
PHASE_SCREENS = ("overview", "phases")
PAST = ("replay", "down")
"""Modes in which a run is shown from its directory, at any time."""
OTHER_SCREENS = ("datasets", "samples", "server", "gpus", "logs", "events", "phases", "result")
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
        "stopped and started again; what does not start is taken back.",
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
            Param(
                "in_flight",
                "choice",
                "Requests in flight: hold: end them, keep their tokens and continue them later; "
                "drain: let them finish first; abort: throw them away and generate them again.",
                choices=("hold", "drain", "abort"),
                default="hold",
            ),
        ),
        confirm=True,
        footer=False,
        wait_s=7200.0,
        footer_of=("server",),
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
        footer_of=("phases",),
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
    Action(
        "overview",
        "Overview",
        "All that matters at one glance.",
        key="1",
        opens="overview",
        twins=("eagle-tui status RUN",),
    ),
    Action(
        "datasets",
        "Datasets",
        "Every dataset: rate, lengths, how its responses ended, caps.",
        key="2",
        opens="datasets",
        twins=("eagle-tui datasets RUN",),
    ),
    Action(
        "samples",
        "Samples",
        "What the target wrote: lists by several orders, to read, search, flag and copy.",
        key="3",
        opens="samples",
        twins=("eagle-tui samples RUN",),
    ),
    Action(
        "server",
        "Server",
        "Load of the servers, their launches with settings, outcome and effect.",
        key="4",
        opens="server",
        twins=("eagle-tui launches RUN",),
    ),
    Action(
        "gpus",
        "GPUs",
        "Every GPU over time, and one in detail.",
        key="5",
        opens="gpus",
        twins=("eagle-tui status RUN",),
    ),
    Action(
        "logs",
        "Logs",
        "The logs of every attempt and server: follow, search, filter.",
        key="6",
        opens="logs",
        twins=("eagle-tui logs RUN",),
    ),
    Action(
        "events",
        "Events",
        "Events and commands of the run.",
        key="7",
        opens="events",
        more_keys=("e",),
        twins=("eagle-tui events RUN --commands",),
    ),
    Action(
        "phases",
        "Phases",
        "What each phase made from what, how long it took, and how long was estimated.",
        key="8",
        opens="phases",
        twins=("eagle-tui phases RUN [PHASE]",),
    ),
    Action(
        "result",
        "Result",
        "What the benchmark found: whether the drafter is a gain, and how it is served.",
        key="9",
        opens="result",
        twins=("eagle-tui result RUN",),
    ),
    Action(
        "next_sample",
        "Older",
        "Show the next older sample.",
        key="right_square_bracket",
        screens=("overview",),
        twins=("eagle-tui samples RUN -n N --whole",),
    ),
    Action(
        "previous_sample",
        "Newer",
        "Show the next newer sample.",
        key="left_square_bracket",
        screens=("overview",),
        twins=("eagle-tui samples RUN -n N --whole",),
    ),
    Action(
        "sample_kind",
        "Samples",
        "Which samples to show: newest, longest, truncated, no_answer or loop.",
        key="v",
        screens=("overview",),
        twins=("eagle-tui samples RUN --order ORDER",),
    ),
    Action(
        "fold",
        "Fold",
        "Fold or unfold the reasoning of the sample.",
        key="f",
        footer=False,
        screens=("overview", "samples"),
    ),
    *VIEWING,
    Action(
        "report",
        "Report",
        "Write a plan document with estimates against actuals into RUN/reports/; `eagle-tui "
        "report` does the same.",
        key="W",
        footer=False,
        twins=("eagle-tui report RUN",),
    ),
    Action(
        "go_on",
        "Up",
        "Start the run again, as `eagle-tui up` does, and show it live.",
        key="U",
        modes=("down",),
        twins=("eagle-tui up RUN",),
    ),
    Action(
        "replay_play",
        "Play",
        "Let the replay run on, or stand; from its end it begins anew.",
        key="space",
        modes=PAST,
        twins=("eagle-tui replay RUN [--still]",),
    ),
    Action(
        "replay_back",
        "Back",
        "Ten seconds back, and stand; a minute where it runs fast.",
        key="comma",
        modes=PAST,
        twins=("eagle-tui replay RUN --at TIME",),
    ),
    Action(
        "replay_on",
        "On",
        "Ten seconds on, and stand; a minute where it runs fast.",
        key="full_stop",
        modes=PAST,
        twins=("eagle-tui replay RUN --at TIME",),
    ),
    Action(
        "replay_slower",
        "Slower",
        "Let the replay run slower.",
        key="less_than_sign",
        footer=False,
        modes=PAST,
        twins=("eagle-tui replay RUN --speed N",),
    ),
    Action(
        "replay_faster",
        "Faster",
        "Let the replay run faster, up to an hour a second.",
        key="greater_than_sign",
        modes=PAST,
        twins=("eagle-tui replay RUN --speed N",),
    ),
    Action(
        "replay_next_mark",
        "Next mark",
        "Go to the next mark: a pause, a retune, a crash, a phase, a cap.",
        key="right_curly_bracket",
        modes=PAST,
        twins=("eagle-tui marks RUN",),
    ),
    Action(
        "replay_previous_mark",
        "Last mark",
        "Go to the mark before.",
        key="left_curly_bracket",
        footer=False,
        modes=PAST,
        twins=("eagle-tui marks RUN",),
    ),
    Action(
        "replay_to",
        "Go to",
        "Go to a time of the run: a time of day, a date, a share of it, or some time before its "
        "end.",
        key="at",
        modes=PAST,
        twins=("eagle-tui replay RUN --at TIME",),
    ),
    *READING,
    Action(
        "help",
        "Help",
        "All keys with what they do.",
        key="question_mark",
        twins=("eagle-tui --help",),
    ),
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


def actions_on(screen: str, mode: str = "") -> list[Action]:
    """The actions whose keys act on the screen of that name, in the registry's order."""
    return [action for action in ACTIONS if action.acts_on(screen, mode)]
