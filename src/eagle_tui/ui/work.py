"""Work that goes on beside the screen, as Textual's workers."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from textual.dom import DOMNode
from textual.worker import Worker


def begin(
    node: DOMNode,
    work: Callable[..., Coroutine[Any, Any, None]],
    *args: Any,
    group: str,
    exclusive: bool = False,
    exit_on_error: bool = True,
) -> Worker[None]:
    """Run `work(*args)` for as long as `node` is there; `exclusive` ends what is going on in the
    group. The worker makes the coroutine itself: one that was made before, for a worker that is
    replaced before it begins, would never be awaited."""
    return node.run_worker(
        partial(work, *args), group=group, exclusive=exclusive, exit_on_error=exit_on_error
    )
