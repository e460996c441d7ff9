"""Actions of the screens that are watched: what is open, sorted and filtered, and the time that the
charts show. A part of the registry."""

from __future__ import annotations

from eagle_tui.action import Action

CHART_SCREENS = ("overview", "datasets", "server", "gpus")

VIEWING: tuple[Action, ...] = (
    Action(
        "open",
        "Open",
        "Show what is selected alone, and back.",
        key="enter",
        screens=("datasets",),
        twins=("eagle-tui datasets RUN DATASET",),
    ),
    Action(
        "sort",
        "Sort",
        "Sort by the next column: name, state, done, tokens, rate, mean, failed, time left.",
        key="S",
        screens=("datasets",),
        twins=("eagle-tui datasets RUN --sort COLUMN",),
    ),
    Action(
        "filter",
        "Filter",
        "Show only what holds the words that are typed; empty: everything.",
        key="slash",
        screens=("datasets",),
        twins=("eagle-tui datasets RUN --filter WORDS",),
    ),
    Action(
        "next_server",
        "Next server",
        "Show the next server.",
        key="enter",
        screens=("server",),
        twins=("eagle-tui launches RUN --server NAME",),
    ),
    Action(
        "figure",
        "Figure",
        "What the strips show: utilization, memory, power or temperature.",
        key="v",
        screens=("gpus",),
        twins=("eagle-tui history RUN METRIC",),
    ),
    Action(
        "zoom_in",
        "Zoom",
        "Show a shorter time in the charts.",
        key="plus",
        more_keys=("equals_sign",),
        screens=CHART_SCREENS,
        twins=("eagle-tui history RUN METRIC --step S",),
    ),
    Action(
        "zoom_out",
        "Zoom out",
        "Show a longer time in the charts.",
        key="minus",
        footer=False,
        screens=CHART_SCREENS,
        twins=("eagle-tui history RUN METRIC --step S",),
    ),
    Action(
        "earlier",
        "Earlier",
        "Scroll the charts to the past.",
        key="left",
        footer=False,
        screens=CHART_SCREENS,
        twins=("eagle-tui history RUN METRIC --since TIME",),
    ),
    Action(
        "later",
        "Later",
        "Scroll the charts towards now.",
        key="right",
        footer=False,
        screens=CHART_SCREENS,
        twins=("eagle-tui history RUN METRIC --until TIME",),
    ),
    Action(
        "now",
        "Now",
        "Let the charts go along with now again.",
        key="0",
        footer=False,
        screens=CHART_SCREENS,
        twins=("eagle-tui history RUN METRIC",),
    ),
    Action(
        "mark",
        "Marks",
        "Show what the next older mark in the charts stands for: a pause, a retune, a crash, a "
        "phase, a cap.",
        key="M",
        screens=CHART_SCREENS,
        twins=("eagle-tui marks RUN",),
    ),
    Action(
        "redraw",
        "Redraw",
        "Draw the whole screen anew, when something else has written to the terminal.",
        key="ctrl+l",
        footer=False,
    ),
)
