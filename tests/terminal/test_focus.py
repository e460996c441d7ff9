"""A screen that nobody looks at is drawn less, and at once when somebody does."""

from __future__ import annotations

from .rig import PLAIN, screen

CHANGING = (
    PLAIN
    + """
import itertools
count = itertools.count(100)

async def status():
    run = client.now.run.model_copy(update={"name": f"poll{next(count)}"})
    return client.now.model_copy(update={"run": run})

client.status = status
app.run()
"""
)
IN, OUT = b"\x1b[I", b"\x1b[O"


def test_less_is_drawn_while_the_focus_is_elsewhere() -> None:
    with screen(CHANGING, ready="poll100") as shown:
        shown.read(1.0)
        looked_at = len(shown.read(3.0))
        shown.press(OUT)
        shown.read(0.5)
        elsewhere = len(shown.read(3.0))
        assert elsewhere < looked_at / 2, (looked_at, elsewhere)
        shown.press(IN)
        assert shown.read(1.0), "the newest figures are drawn at once"
