"""Actions of the screens that are read: samples, logs, events. A part of the registry."""

from __future__ import annotations

from eagle_tui.action import DATASET, Action, Param

READING: tuple[Action, ...] = (
    Action(
        "search",
        "Search",
        "Search for a text; nothing typed takes the search away. In events `@name` means a source.",
        key="slash",
        screens=("samples",),
    ),
    Action(
        "sample_order",
        "Order",
        "Which samples: newest, longest, truncated, loop, no_answer or flagged.",
        key="v",
        screens=("samples",),
    ),
    Action(
        "sample_dataset",
        "Dataset",
        "Samples of the next dataset alone; after the last one of all.",
        key="d",
        screens=("samples",),
    ),
    Action(
        "tokens",
        "Tokens",
        "Every token with its id, and which of them training predicts.",
        key="t",
        screens=("samples",),
    ),
    Action(
        "flag",
        "Flag",
        "Mark a response to come back to it, or take the mark away.",
        key="x",
        verb="flag",
        params=(
            DATASET,
            Param("id", "text", "Id of the response.", required=True, positional=True),
            Param("note", "text", "A few words on why."),
            Param("undo", "bool", "Take the mark away."),
        ),
        screens=("samples",),
    ),
    Action(
        "copy",
        "Copy",
        "Copy the sample to the terminal's clipboard (OSC 52) and to a file, whose path is told.",
        key="y",
        screens=("samples",),
    ),
    Action(
        "read",
        "Read",
        "Give the text the whole screen, or the list its place again.",
        key="enter",
        screens=("samples",),
    ),
    Action(
        "undo",
        "Undo",
        "Take a command back: a pause, resume, cap, concurrency, skip, order or undo, as long as "
        "what it changed was not changed again.",
        key="u",
        verb="undo",
        params=(
            Param(
                "command",
                "text",
                "Id of the command, or how it begins; none: the newest that can be taken back.",
                positional=True,
            ),
        ),
        confirm=True,
        screens=("events",),
    ),
    Action(
        "fresh",
        "Newer",
        "Take in what came while you read, and go to the newest.",
        key="n",
        footer=False,
        screens=("samples",),
    ),
    Action(
        "prompt",
        "Prompt",
        "Show all of the prompt, or its beginning.",
        key="P",
        footer=False,
        screens=("samples",),
    ),
    Action(
        "fold_answer",
        "Fold answer",
        "Fold or unfold the answer.",
        key="F",
        footer=False,
        screens=("samples",),
    ),
)
