"""Which class draws which screen. The registry's actions with `opens` name these screens."""

from __future__ import annotations

from eagle_tui.ui.screens.base import RunScreen
from eagle_tui.ui.screens.datasets import DatasetsScreen
from eagle_tui.ui.screens.events import EventsScreen
from eagle_tui.ui.screens.gpus import GpusScreen
from eagle_tui.ui.screens.logs import LogsScreen
from eagle_tui.ui.screens.overview import OverviewScreen
from eagle_tui.ui.screens.phases import PhasesScreen
from eagle_tui.ui.screens.samples import SamplesScreen
from eagle_tui.ui.screens.server import ServerScreen

SCREENS: dict[str, type[RunScreen]] = {
    screen.NAME: screen
    for screen in (
        OverviewScreen,
        DatasetsScreen,
        SamplesScreen,
        ServerScreen,
        GpusScreen,
        LogsScreen,
        EventsScreen,
        PhasesScreen,
    )
}
"""By name, in the order of their keys. The first one lies at the bottom of the stack."""
