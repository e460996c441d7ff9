"""Between the event loop and the model thread: live request ids, the pause gate, deliveries."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import TypeVar

from .engine import Engine, PauseMode
from .errors import Refusal
from .requests import GenerateCall, Prompt, build_prompts
from .state import Update

T = TypeVar("T")


class Service:
    """Used from the event loop only.

    A request lives from the moment it passed the pause gate until its final `Update` arrived.
    While the gate is closed, requests are held here, uncounted and unknown to abort, as SGLang's
    HTTP process holds them.
    """

    def __init__(self, engine: Engine, loop: asyncio.AbstractEventLoop) -> None:
        self.engine = engine
        self._loop = loop
        self._live: dict[str, asyncio.Queue[Update]] = {}
        self._gate = asyncio.Event()
        self._gate.set()
        self._emptied = asyncio.Event()
        self._emptied.set()
        engine.deliver = lambda news: _post(loop, self._dispatch, news)

    @property
    def paused(self) -> bool:
        """Whether generation is paused, in any mode."""
        return not self._gate.is_set()

    def prompts(self, call: GenerateCall) -> list[Prompt]:
        """Tokenize and check; raises `Refusal`."""
        return build_prompts(call, self.engine.limits, self.engine.encode)

    async def run(self, prompts: list[Prompt]) -> AsyncGenerator[tuple[int, Update], None]:
        """Submit prompts and yield (row, update) until each had its final one.

        Leaving early (the client has gone) aborts what still runs. Raises `Refusal` for an id
        that is live already.
        """
        await self._gate.wait()
        for prompt in prompts:
            if prompt.rid in self._live:
                raise Refusal(f"Duplicate request ID detected: {prompt.rid}")
        queue: asyncio.Queue[Update] = asyncio.Queue()
        row_of = {prompt.rid: row for row, prompt in enumerate(prompts)}
        for prompt in prompts:
            self._live[prompt.rid] = queue
            self._emptied.clear()
            self.engine.submit(prompt)
        missing = set(row_of)
        try:
            while missing:
                update = await queue.get()
                if update.finish is not None:
                    missing.discard(update.prompt.rid)
                yield row_of[update.prompt.rid], update
        finally:
            for rid in missing & self._live.keys():
                self.engine.abort(rid)

    def abort(self, rid: str) -> None:
        """Abort a live request. As in SGLang the id must be exactly a live one, and then every
        request whose id begins with it ends too. An empty id does nothing."""
        if rid and rid in self._live:
            self.engine.abort(rid)

    def abort_all(self) -> None:
        """Abort every request, whoever sent it."""
        self.engine.abort_all()

    async def pause(self, mode: PauseMode) -> None:
        """Close the gate; in mode ``abort`` wait until everything has ended."""
        self._gate.clear()
        self.engine.pause(mode)
        if mode is PauseMode.ABORT:
            await self._emptied.wait()

    def resume(self) -> None:
        """Let the engine go on and the held requests in."""
        self.engine.resume()
        self._gate.set()

    async def ask(self, question: Callable[[], T]) -> T:
        """Answer of the model thread, given between two steps."""
        future: asyncio.Future[T] = self._loop.create_future()

        def settle(result: T) -> None:
            if not future.done():
                future.set_result(result)

        self.engine.ask(question, lambda result: _post(self._loop, settle, result))
        return await future

    def _dispatch(self, news: list[Update]) -> None:
        for update in news:
            queue = self._live.get(update.prompt.rid)
            if queue is None:
                continue
            if update.finish is not None:
                del self._live[update.prompt.rid]
            queue.put_nowait(update)
        if not self._live:
            self._emptied.set()


def _post(loop: asyncio.AbstractEventLoop, function: Callable[[T], None], argument: T) -> None:
    """Call ``function`` in the loop from another thread; nothing once the loop is closed."""
    if not loop.is_closed():
        loop.call_soon_threadsafe(function, argument)
