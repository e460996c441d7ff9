"""Keys that are typed ahead act where the keys before them lead.

Textual hands a key to whatever has the focus when it arrives, and runs a binding only when the key
has climbed from there to the app. Keys that arrive together (a slow SSH link, tmux, quick fingers)
would all go to the screen that the first of them is about to leave: `c` and then `5` would be a cap
dialog without a 5, and another screen behind it; Backspace and then 5 in a field would be 5 and
then Backspace. So a key waits until the one before it has been dealt with, and until a screen that
it opened has its focus.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from textual import events
from textual.app import App
from textual.message import Message
from textual.screen import Screen
from textual.timer import Timer

LONGEST_S = 0.5
"""After this long the next key goes on, whatever became of the one before: a widget that is taken
down never says that it is done."""


class KeyDone(Message):
    """Follows a key on its way up from the widget that got it; when it arrives at the app, every
    handler and binding of the key has run."""

    def __init__(self, serial: int) -> None:
        super().__init__()
        self.serial = serial


class KeyOrder:
    """Hands keys on one by one."""

    def __init__(self, app: App[Any], deliver: Callable[[events.Key], Awaitable[None]]) -> None:
        """`deliver` is what the app does with a key by itself."""
        self._app, self._deliver = app, deliver
        self._held: deque[events.Key] = deque()
        self._serial = 0
        self._busy = False
        self._screen: Screen[Any] | None = None
        self._failsafe: Timer | None = None

    async def take(self, event: events.Key) -> None:
        """A key has arrived."""
        if self._busy:
            self._held.append(event)
        else:
            await self._hand_on(event)

    def done(self, message: KeyDone) -> None:
        """A key has been dealt with. What it left behind (a screen to be mounted, a focus to be
        set) stands in the queues before the next key."""
        screen = self._app.screen
        if screen is self._screen:
            self._app.call_later(self._go_on, message.serial)
        else:
            screen.call_after_refresh(self._app.call_later, self._go_on, message.serial)

    async def _hand_on(self, event: events.Key) -> None:
        self._busy = True
        self._serial += 1
        self._screen = self._app.screen
        target = self._app.focused or self._screen
        self._failsafe = self._app.set_timer(LONGEST_S, self._late)
        await self._deliver(event)
        target.post_message(KeyDone(self._serial).set_sender(self._app))

    async def _late(self) -> None:
        await self._go_on(self._serial)

    async def _go_on(self, serial: int) -> None:
        if not self._busy or serial != self._serial:
            return
        self._busy = False
        if self._failsafe is not None:
            self._failsafe.stop()
        if self._held:
            await self._hand_on(self._held.popleft())
