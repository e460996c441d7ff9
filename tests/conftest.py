"""What holds for all tests.

Examples of property tests are the same in every run, whatever ran before, and no time limit is set
for one: neither luck nor a busy machine may decide. `--hypothesis-profile=explore` looks for new
ones.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

TIMELESS = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

settings.register_profile("same", TIMELESS, derandomize=True, database=None)
settings.register_profile("explore", TIMELESS)
settings.load_profile("same")

HERE = Path(__file__).parent
LONG = [
    HERE / name
    for name in (
        "run/test_retune.py",
        "run/test_kill.py",
        "extraction/test_ranks.py",
        "run/test_demo.py",
        "bench/test_served.py",
        "engine/test_server.py",
        "ui/test_orders.py",
        "ui/test_snapshots.py",
        "training/test_ranks.py",
        "generation/test_kill.py",
        "run/test_tmux.py",
        "extraction/test_modes.py",
        "run/test_total_cap.py",
        "run/test_undo_and_read.py",
        "extraction/test_served.py",
    )
]
"""Files that take half a minute and more, the longest first."""
assert all(path.exists() for path in LONG), "one was renamed"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files come first, so that no worker has one left when the others are done."""
    ranks = {path: rank for rank, path in enumerate(LONG)}
    items.sort(key=lambda item: ranks.get(item.path, len(LONG)))
