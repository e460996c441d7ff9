"""Several ranks that share an extraction: who am I, what is agreed, how far is everybody.

Only torchrun's key-value store is used. There is no collective call in which a rank would hang
when another one dies: torchrun sees the death and ends them all, and what is on disk stays.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol

from ..torchrun.rank import under_torchrun
from ..worker import Stopped

_AGREE_S = 3600.0
"""The first rank may take long to look through a large run before it says what is to be done."""
_POLL_S = 0.2


class Store(Protocol):
    """The part of torch.distributed.Store that is used."""

    def set(self, key: str, value: str) -> None: ...
    def get(self, key: str) -> bytes: ...
    def add(self, key: str, amount: int) -> int: ...
    def check(self, keys: list[str]) -> bool: ...


class LocalStore:
    """The store of a rank that is alone; its threads may share it."""

    def __init__(self) -> None:
        self._values: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def set(self, key: str, value: str) -> None:
        self._values[key] = value.encode()

    def get(self, key: str) -> bytes:
        return self._values[key]

    def add(self, key: str, amount: int) -> int:
        with self._lock:
            total = int(self._values.get(key, b"0")) + amount
            self._values[key] = str(total).encode()
            return total

    def check(self, keys: list[str]) -> bool:
        return all(key in self._values for key in keys)


@dataclass(frozen=True)
class Team:
    """The ranks of one attempt, and this one's place among them."""

    rank: int
    world: int
    local_rank: int
    store: Store

    @classmethod
    def join(cls) -> Team:
        """Take the place that torchrun gave; alone when it did not start us."""
        if not under_torchrun():
            return cls(0, 1, 0, LocalStore())
        from torch.distributed.rendezvous import rendezvous

        # TORCHELASTIC_USE_AGENT_STORE makes this the store of torchrun itself.
        store, rank, world = next(iter(rendezvous("env://", timeout=timedelta(seconds=_AGREE_S))))
        return cls(rank, world, int(os.environ.get("LOCAL_RANK", "0")), store)

    @property
    def first(self) -> bool:
        """This rank plans, reports and writes the manifest."""
        return self.rank == 0

    def tell(self, key: str, value: Any) -> None:
        """Make something known to all."""
        self.store.set(key, json.dumps(value))

    def ask(self, key: str, stopped: Callable[[], bool]) -> Any:
        """Wait for what another rank tells. Stopped when this one is asked to stop meanwhile."""
        while not self.store.check([key]):
            if stopped():
                raise Stopped
            time.sleep(_POLL_S)
        return json.loads(self.store.get(key))

    def end_early(self) -> None:
        """Let all ranks end with what is there."""
        self.store.set("early", "1")

    @property
    def over(self) -> bool:
        """The first rank wants all to end with what is there."""
        return self.store.check(["early"])

    def count(self, key: str, amount: int = 0) -> int:
        """Add to a counter of all ranks; gives what it is then."""
        return self.store.add(f"count/{key}", amount)
