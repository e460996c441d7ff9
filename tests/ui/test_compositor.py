"""What is painted bit by bit is what would be painted as a whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from textual.screen import Screen
from tiny_terminal import Terminal

from eagle_tui.ui.app import EagleApp


def moved(status: Any, n: int) -> Any:
    """The run some time later: figures changed here and there."""
    gpus = tuple(
        gpu.model_copy(update={"util": 0.5 + (n * (gpu.index + 3) % 7) / 14, "power_w": 500.0 + n})
        for gpu in status.gpus
    )
    rows = tuple(
        row.model_copy(update={"complete": row.complete + n, "tokens": row.tokens + 1000 * n})
        if row.state == "running"
        else row
        for row in status.datasets
    )
    servers = tuple(s.model_copy(update={"tok_s": 800.0 + 17 * n}) for s in status.servers)
    alerts = status.alerts[n % 2 :]
    update = {"gpus": gpus, "datasets": rows, "servers": servers, "alerts": alerts}
    return status.model_copy(update=update)


async def test_partial_updates_add_up_to_the_whole(
    client: Any, make_app: Callable[..., EagleApp], ui: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = Terminal()

    def display(self: EagleApp, screen: Screen[Any], update: Any) -> None:
        if update is not None and self._running and not self._batch_count:
            shown.write(update.render_segments(self.console))

    monkeypatch.setattr(EagleApp, "_display", display)
    app, scene = make_app(client), client.now
    async with ui.run(app, (200, 50)) as pilot:
        await ui.ready(pilot)
        for number, key in enumerate("1234578"):
            await pilot.press(key)
            for n in range(3):
                client.now = moved(scene, 10 * number + n)
                polls = client.polls
                app.poll_soon()
                await ui.until(pilot, lambda polls=polls: client.polls > polls)
                if n == 1:
                    await pilot.press("down")
                if n == 2:
                    app.notify("A toast over some of it", timeout=60)
                await pilot.pause(0.1)
            whole = Terminal()
            whole.write(app.screen._compositor.render_full_update().render_segments(app.console))
            assert shown.cells == whole.cells, f"screen {key}"
