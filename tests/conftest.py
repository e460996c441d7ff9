"""Which tests go first: those of real processes, which take longest, so that no worker is left
alone with them at the end."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parent
LONG = ("run", "extraction", "training", "generation", "bench", "terminal", "ui", "engine")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def place(item: pytest.Item) -> int:
        part = item.path.relative_to(ROOT).parts[0]
        return LONG.index(part) if part in LONG else len(LONG)

    items.sort(key=place)
