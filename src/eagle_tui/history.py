"""Metric history in tiers: 1 s for 15 minutes, 10 s for 6 hours, 60 s for ever.

Buckets are aligned to the wall clock, so that a chart's bars do not jitter, and hold number, sum,
smallest and largest value. Storage is behind a protocol; the supervisor's state file implements it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from eagle_tui.protocol import History, HistoryPoint

TIERS: tuple[tuple[int, float | None], ...] = ((1, 900.0), (10, 6 * 3600.0), (60, None))
"""(seconds of a bucket, seconds for which it is kept; None: for ever)."""

SLACK_S = 10.0
"""Asked for a moment more than a tier keeps, its finer points are still the better answer."""

FLUSH_S = 10.0
"""Buckets go to disk at least this often: what a kill -9 of the supervisor may lose."""


class BucketStore(Protocol):
    """Where buckets are kept."""

    def add_buckets(self, rows: list[tuple[str, int, int, int, float, float, float]]) -> None: ...

    def buckets(
        self, series: str, step: int, since: float
    ) -> list[tuple[int, int, float, float, float]]: ...

    def drop_buckets(self, step: int, before: float) -> None: ...


@dataclass
class _Bucket:
    n: int = 0
    total: float = 0.0
    low: float = float("inf")
    high: float = float("-inf")

    def add(self, value: float) -> None:
        self.n += 1
        self.total += value
        self.low = min(self.low, value)
        self.high = max(self.high, value)


class Recorder:
    """Collects values into buckets and hands them to the store from time to time."""

    def __init__(self, store: BucketStore) -> None:
        self._store = store
        self._open: dict[tuple[str, int, int], _Bucket] = {}
        self._changed: set[tuple[str, int, int]] = set()
        self._flushed = float("-inf")

    def add(self, t: float, values: dict[str, float | None]) -> None:
        """Record values at Unix time `t`; None (not known now) leaves a gap."""
        for series, value in values.items():
            if value is None:
                continue
            for step, _ in TIERS:
                key = (series, step, int(t // step) * step)
                bucket = self._open.get(key)
                if bucket is None:
                    bucket = self._open[key] = self._stored(key)
                bucket.add(value)
                self._changed.add(key)
        if t - self._flushed >= FLUSH_S or t < self._flushed:
            self.flush(t)

    def _stored(self, key: tuple[str, int, int]) -> _Bucket:
        """A bucket that an earlier supervisor began is gone on with."""
        series, step, start = key
        if step > 1:
            for t, n, total, low, high in self._store.buckets(series, step, start):
                if t == start:
                    return _Bucket(n, total, low, high)
        return _Bucket()

    def flush(self, now: float) -> None:
        """Write what changed, and forget what is past its time."""
        self._flushed = now
        if self._changed:
            rows = []
            for key in self._changed:
                b = self._open[key]
                rows.append((*key, b.n, b.total, b.low, b.high))
            self._store.add_buckets(rows)
            self._changed.clear()
        self._open = {key: b for key, b in self._open.items() if key[2] + key[1] > now - FLUSH_S}
        for step, kept in TIERS:
            if kept is not None:
                self._store.drop_buckets(step, now - kept)

    def query(self, series: str, since: float, step_s: float, now: float) -> History:
        """Points of `series` from `since` on, from the finest tier that reaches back so far and is
        not finer than `step_s`."""
        step = TIERS[-1][0]
        for tier, kept in TIERS:
            if tier >= step_s and (kept is None or since >= now - kept - SLACK_S):
                step = tier
                break
        self.flush(now)
        points = tuple(
            HistoryPoint(t=float(t), mean=total / n, low=low, high=high)
            for t, n, total, low, high in self._store.buckets(series, step, since)
        )
        return History(series=series, step_s=float(step), points=points)
