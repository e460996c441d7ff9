"""A disk that is full when a change of settings is to be ended: it is ended later, as a whole."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from eagle_tui.clock import ManualClock
from eagle_tui.protocol import CommandStatus
from eagle_tui.supervisor.launches import Settings
from eagle_tui.supervisor.server.managed import ManagedServer
from eagle_tui.supervisor.store import Store
from eagle_tui.supervisor.tuning.order import RetuneOrder
from eagle_tui.supervisor.tuning.retunes import Retunes
from eagle_tui.supervisor.tuning.surroundings import Run

BEFORE: Settings = {"flag": "1"}
AFTER: Settings = {"flag": "2"}


class Full:
    """A connection that fails to commit, and leaves the transaction open or ends it itself."""

    def __init__(self, db: sqlite3.Connection, ends: bool) -> None:
        self._db, self._ends = db, ends

    def execute(self, sql: str, *args: Any) -> sqlite3.Cursor:
        if sql != "COMMIT":
            return self._db.execute(sql, *args)
        if self._ends:
            self._db.execute("ROLLBACK")
        raise sqlite3.OperationalError("database or disk is full")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._db, name)


class World:
    """Two servers that are retuned by one order, and the run around them."""

    root, help_argv = Path("/"), None

    def __init__(self, root: Path) -> None:
        self.store = Store(root / "state.sqlite")
        command = CommandStatus(id="1", verb="retune", args={}, state="requested", at=1.0)
        self.store.request(command)
        for name in ("one", "two"):
            order = RetuneOrder(name, AFTER, BEFORE, AFTER, "flag 1 → 2")
            self.store.servers.add_retune("1", order, 1.0)
        self.said: list[str] = []
        server = SimpleNamespace(state="ready", idle=False, forgive=lambda: None)
        servers = {name: cast(ManagedServer, server) for name in ("one", "two")}
        self.server = server
        self.retunes = Retunes(cast(Run, self), self.store, ManualClock(9.0), servers, self._say)

    def _say(self, _severity: str, _source: str, text: str) -> None:
        self.said.append(text)

    def down(self) -> bool:
        return False

    def no_key(self, _: str) -> str:
        return ""

    def sending(self, _: str) -> bool:
        return True

    def tuned(self, _: str) -> Settings:
        return AFTER

    def in_force(self, _server: str, _settings: Settings, also: Callable[[], None]) -> None:
        with self.store.transaction():
            also()

    def steps(self) -> list[str]:
        return [retune.step for retune in self.store.servers.retunes()]


@pytest.mark.parametrize("ends", [False, True])
@pytest.mark.parametrize(
    ("reason", "then"), [("", ["done", "requested"]), ("no", ["rolled_back", "refused"])]
)
def test_it_is_ended_when_there_is_room_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: bool, reason: str, then: list[str]
) -> None:
    world = World(tmp_path)
    world.store.servers.step(1, "resuming", 1.0, reason=reason)
    world.retunes.reload()
    with monkeypatch.context() as patch:
        patch.setattr(world.store, "_db", Full(world.store._db, ends))
        with pytest.raises(sqlite3.OperationalError, match="is full"):
            world.retunes.tick()
        assert world.steps() == ["resuming", "requested"] and world.said == []
    world.retunes.tick()
    assert world.steps() == then and len(world.said) == 1


def test_settings_are_taken_back_when_there_is_room_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path)
    world.store.servers.step(1, "ready", 1.0)
    world.retunes.reload()
    world.server.state, world.server.reason = "failed", "it died"
    with monkeypatch.context() as patch:
        patch.setattr(world.store, "_db", Full(world.store._db, False))
        with pytest.raises(sqlite3.OperationalError, match="is full"):
            world.retunes.tick()
        assert world.steps() == ["ready", "requested"] and world.said == []
    world.retunes.tick()
    assert world.steps() == ["reverting", "requested"]
    assert world.said == ["back to the settings before: it died"]
