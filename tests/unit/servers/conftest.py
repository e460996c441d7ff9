"""Benches for the tests of servers; what their servers leave is ended afterwards."""

from __future__ import annotations

import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from eagle_tui import proc

sys.path.insert(0, str(Path(__file__).parent))
from server_bench import Bench


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eagle_tui.supervisor.server.closing.CHILDREN_S", 0.2)


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Callable[..., Bench]]:
    """Makes benches; what is left of their servers afterwards is ended."""
    made: list[Bench] = []
    async with httpx.AsyncClient(trust_env=False) as http:

        def new(flags: dict[str, Any] | None = None, **settings: Any) -> Bench:
            root = tmp_path / f"run{len(made)}"
            (root / "logs").mkdir(parents=True)
            (root / "config.json").write_text("{}")
            made.append(Bench(root, http, settings, flags or {}))
            return made[-1]

        yield new
    for one in made:
        for attempt in one.store.attempts("server", "one"):
            if attempt.process is not None:
                for process in proc.family(attempt.token, attempt.process):
                    proc.send(process, signal.SIGKILL)
        one.store.close()
