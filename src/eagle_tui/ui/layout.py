"""Where the main screen's panels go for a terminal's size: pure arithmetic, no widgets.

Three shapes: *framed* (120×36 and more) with panels side by side; *dense* (80×24) where everything
essential is one line or a table; *narrow* (under 70 columns), the same stacked with less in it.
"""

from __future__ import annotations

from dataclasses import dataclass

FRAMED_WIDTH, FRAMED_HEIGHT = 120, 36
NARROW_WIDTH = 70
SAMPLE_LEAST = 4
EVENT_ROWS = 3


@dataclass(frozen=True)
class Plan:
    """Rows of content per panel; borders come on top where `framed`."""

    framed: bool
    narrow: bool
    phase_rows: int
    gpu_rows: int
    throughput_rows: int
    table_rows: int
    """Header, datasets shown, total."""
    event_rows: int
    """0: the rest of the bottom, beside the sample."""


def plan(
    width: int, height: int, gpus: int, datasets: int, server_rows: int, footer_rows: int = 1
) -> Plan:
    """The layout for a terminal of `width`×`height` cells.

    `gpus` and `datasets` are how many there are; `server_rows` how many lines the servers need
    beside the figures; `footer_rows` what the footer takes. The sample pane always gets what is
    left.
    """
    height -= max(footer_rows - 1, 0)
    if width >= FRAMED_WIDTH and height >= FRAMED_HEIGHT:
        return _framed(height, gpus, datasets, server_rows)
    return _dense(width, height, gpus, datasets, server_rows)


def _framed(height: int, gpus: int, datasets: int, server_rows: int) -> Plan:
    fixed = 1 + 2 + 1 + 1  # header, phases, alert, footer
    borders = 3 * 2
    room = height - fixed - borders
    table = min(datasets + 2, max(room // 2, 6))
    sample = max(room // 4, SAMPLE_LEAST)
    top = min(max(gpus + 1, 2 + server_rows + 6), max(room - table - sample, 4))
    return Plan(True, False, 2, top, top, table, 0)


def _dense(width: int, height: int, gpus: int, datasets: int, server_rows: int) -> Plan:
    narrow = width < NARROW_WIDTH
    fixed = 1 + 1 + 1 + 1  # header, phases, alert, footer
    tall = height >= FRAMED_HEIGHT
    gpu_rows = gpus + 1 if tall and gpus else 1
    events = EVENT_ROWS if tall else 1 if height >= 22 else 0
    throughput = 1 + min(server_rows, 2 if tall else 1) + (6 if tall else 1 if height >= 24 else 0)
    room = height - fixed - gpu_rows - throughput - max(events, 0)
    table = max(min(datasets + 2, room - SAMPLE_LEAST), min(4, room))
    return Plan(False, narrow, 1, gpu_rows, throughput, table, max(events, 0))
