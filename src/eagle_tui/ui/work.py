"""Work that goes on beside the screen, as Textual's workers."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from textual.dom import DOMNode
from textual.worker import Worker

from eagle_tui.text import visible


def begin(
    node: DOMNode,
    work: Callable[..., Coroutine[Any, Any, None]],
    *args: Any,
    group: str,
    exclusive: bool = False,
    told: bool = True,
) -> Worker[None]:
    """Run `work(*args)` for as long as `node` is there; `exclusive` ends what is going on in the
    group. The worker makes the coroutine itself: one that was made before, for a worker that is
    replaced before it begins, would never be awaited.

    A fault in it is told, and the rest of the screen goes on; Textual's log has the traceback.
    Without a terminal, as under tests, it ends the app. Not `told`: the caller sees to faults.
    """
    return node.run_worker(
        partial(_telling, node, work, *args) if told else partial(work, *args),
        group=group,
        exclusive=exclusive,
        exit_on_error=told and node.app.is_headless,
    )


async def _telling(
    node: DOMNode, work: Callable[..., Coroutine[Any, Any, None]], *args: Any
) -> None:
    try:
        await work(*args)
    except Exception as error:
        sentence = f"This screen has a fault ({visible(repr(error))}); the run is not concerned."
        node.app.notify(sentence, severity="error", markup=False)
        raise
