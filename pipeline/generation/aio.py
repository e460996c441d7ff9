"""Two small things that asyncio lacks."""

from __future__ import annotations

import asyncio
from typing import Any


async def wait(event: asyncio.Event, timeout_s: float) -> bool:
    """Wait for an event, so long at most; was it set?"""
    try:
        async with asyncio.timeout(timeout_s):
            await event.wait()
    except TimeoutError:
        return False
    return True


async def gather_quietly(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks and wait until they are gone; what they raised meanwhile is not of interest."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
