"""Metric history in tiers: every second for 15 minutes, then 10 s, 1 min and 10 min buckets.

One row holds all series of one bucket of time, so that a round of the recorder touches one or two
pages of the state file however many series there are; a row is packed columns, compressed. Buckets
are aligned to the wall clock, so that a chart's bars do not jitter, and hold number, mean, smallest
and largest value. Storage is behind a protocol; the supervisor's state file implements it.

With 110 series (8 GPUs, 10 datasets, one server) a row takes 0.5 to 0.9 kB: all tiers together stay
below 12 MB, plus 0.13 MB a day for the last tier, which is kept for ever.
"""

from __future__ import annotations

import struct
import sys
import zlib
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from eagle_tui.protocol import History, HistoryPoint

TIERS: tuple[tuple[int, float | None], ...] = (
    (1, 900.0),
    (10, 6 * 3600.0),
    (60, 7 * 86400.0),
    (600, None),
)
"""(seconds of a bucket, seconds for which it is kept; None: for ever)."""

SLACK_S = 10.0
"""Asked for a moment more than a tier keeps, its finer points are still the better answer."""

FLUSH_S = 10.0
"""Buckets go to disk at least this often: what a kill -9 of the supervisor may lose."""

DROP_S = 60.0
"""Seconds between two looks for buckets that are past their time."""

UNWRITTEN = 120
"""Buckets of each tier that wait at most while they cannot be written."""

MOST_SERIES = 4096
"""A supervisor that meets more names than this (servers renamed for weeks) stores no new ones."""

LARGEST = 3e38
"""Of a float32; what is larger, infinite or no number is not recorded."""

Cell = tuple[int, float, float, float]
"""(number of values, mean, smallest, largest) of one series in one bucket."""


CELL_BYTES = 16
_COUNT, _VALUE = struct.Struct("<H"), struct.Struct("<f")


class TickStore(Protocol):
    """Where rows are kept."""

    def series(self) -> dict[str, int]: ...

    def add_series(self, name: str) -> int: ...

    def put_ticks(self, rows: list[tuple[int, int, bytes]]) -> None: ...

    def ticks(self, step: int, since: float, until: float) -> Iterable[tuple[int, bytes]]: ...

    def drop_ticks(self, step: int, before: float) -> None: ...


def pack(cells: Mapping[int, Cell]) -> bytes:
    """A row from cells by the number of their series (below 65,536): columns of numbers uint16,
    counts uint16, then means, lows and highs float32, little-endian, compressed."""
    ids = sorted(cells)
    columns: list[array[int] | array[float]] = [
        array("H", ids),
        array("H", (min(cells[i][0], 0xFFFF) for i in ids)),
        *(array("f", (cells[i][k] for i in ids)) for k in (1, 2, 3)),
    ]
    return zlib.compress(b"".join(_little(column).tobytes() for column in columns), 1)


def _little(column: array[int] | array[float]) -> array[int] | array[float]:
    if sys.byteorder == "big":
        column.byteswap()
    return column


def unpack(row: bytes) -> dict[int, Cell]:
    """All cells of a row by the number of their series. ValueError when it is no row."""
    ids, body = _open(row)
    return {number: _cell(body, len(ids), k) for k, number in enumerate(ids)}


def unpack_one(row: bytes, number: int) -> Cell | None:
    """The cell of one series, without making those of the others; None when there is none."""
    ids, body = _open(row)
    try:
        k = ids.index(number)
    except ValueError:
        return None
    return _cell(body, len(ids), k)


def _open(row: bytes) -> tuple[array[int], bytes]:
    """The numbers of a row's series, and its columns."""
    try:
        body = zlib.decompress(row)
    except zlib.error as error:
        raise ValueError(f"a row of the history cannot be read: {error}") from error
    n, rest = divmod(len(body), CELL_BYTES)
    if rest:
        raise ValueError(f"a row of the history cannot be read: {len(body)} bytes")
    ids = array("H", body[: 2 * n])
    _little(ids)
    return ids, body


def _cell(body: bytes, n: int, k: int) -> Cell:
    (count,) = _COUNT.unpack_from(body, 2 * n + 2 * k)
    mean, low, high = (_VALUE.unpack_from(body, (4 + 4 * c) * n + 4 * k)[0] for c in range(3))
    return count, mean, low, high


def tier_for(since: float, step_s: float, now: float) -> int:
    """The coarsest tier not coarser than `step_s` that reaches back to `since`; where none does,
    the finest that does."""
    reaching = [step for step, kept in TIERS if kept is None or since >= now - kept - SLACK_S]
    fine_enough = [step for step in reaching if step <= step_s]
    return max(fine_enough) if fine_enough else min(reaching)


def fold(points: Iterable[tuple[int, Cell]], step: int) -> list[tuple[int, Cell]]:
    """Buckets joined to larger ones of `step` seconds, aligned to the wall clock; in order."""
    found: dict[int, Cell] = {}
    for t, cell in points:
        start = t // step * step
        before = found.get(start)
        found[start] = cell if before is None else join(before, cell)
    return sorted(found.items())


def join(a: Cell, b: Cell) -> Cell:
    """Two buckets of one series as one."""
    n = a[0] + b[0]
    return n, (a[1] * a[0] + b[1] * b[0]) / n, min(a[2], b[2]), max(a[3], b[3])


def query(
    store: TickStore,
    series: str,
    since: float,
    step_s: float,
    now: float,
    until: float | None = None,
) -> History:
    """Points of `series` whose buckets begin in [since, until], in buckets of `step_s` seconds as
    nearly as the tiers allow: never finer than a tier, folded to a whole multiple of one."""
    tier = tier_for(since, step_s, now)
    step = tier * max(1, int(step_s // tier))
    number = store.series().get(series)
    if number is None:
        return History(series=series, step_s=float(step))
    # The first bucket is had whole.
    rows = store.ticks(tier, since // step * step, now if until is None else until)
    cells = ((t, cell) for t, row in rows if (cell := unpack_one(row, number)) is not None)
    points = fold(cells, step) if step != tier else cells
    return History(
        series=series,
        step_s=float(step),
        points=tuple(
            HistoryPoint(t=float(t), mean=mean, low=low, high=high)
            for t, (_, mean, low, high) in points
            if t >= since or step != tier
        ),
    )


@dataclass
class _Bucket:
    n: int = 0
    total: float = 0.0
    low: float = float("inf")
    high: float = float("-inf")

    def add(self, value: float) -> None:
        self.n += 1
        self.total += value
        # Some hundred times a second: min and max take more than twice as long.
        if value < self.low:
            self.low = value
        if value > self.high:
            self.high = value

    def cell(self) -> Cell:
        return self.n, self.total / self.n, self.low, self.high


class Recorder:
    """Collects values into buckets and hands them to the store from time to time."""

    def __init__(self, store: TickStore) -> None:
        self._store = store
        self._numbers = store.series()
        self._open: dict[tuple[int, int], dict[int, _Bucket]] = {}
        """Series' buckets by (step, start)."""
        self._changed: set[tuple[int, int]] = set()
        self._flushed = self._dropped = float("-inf")

    def add(self, t: float, values: Mapping[str, float | None]) -> None:
        """Record values at Unix time `t`; None (not known now) leaves a gap."""
        numbered = [
            (number, value)
            for series, value in values.items()
            if value is not None
            and abs(value) <= LARGEST
            and (number := self._number(series)) is not None
        ]
        for step, _ in TIERS if numbered else ():
            key = (step, int(t // step) * step)
            row = self._open.get(key)
            if row is None:
                row = self._open[key] = self._stored(key)
            for number, value in numbered:
                bucket = row.get(number)
                if bucket is None:
                    bucket = row[number] = _Bucket()
                bucket.add(value)
            self._changed.add(key)
        if t - self._flushed >= FLUSH_S or t < self._flushed:
            self.flush(t)

    def _number(self, series: str) -> int | None:
        number = self._numbers.get(series)
        if number is None and len(self._numbers) < MOST_SERIES:
            number = self._numbers[series] = self._store.add_series(series)
        return number

    def _stored(self, key: tuple[int, int]) -> dict[int, _Bucket]:
        """Buckets that an earlier supervisor began are gone on with."""
        step, start = key
        found: dict[int, _Bucket] = {}
        if step > 1:
            for _, row in self._store.ticks(step, start, start):
                for number, (n, mean, low, high) in unpack(row).items():
                    found[number] = _Bucket(n, mean * n, low, high)
        return found

    def query(
        self, series: str, since: float, step_s: float, now: float, until: float | None = None
    ) -> History:
        """As `query`, with what is not written yet."""
        self.flush(now)
        return query(self._store, series, since, step_s, now, until)

    def flush(self, now: float) -> None:
        """Write what changed, and forget what is past its time."""
        self._flushed = now
        if self._changed:
            rows = [
                (*key, pack({i: b.cell() for i, b in self._open[key].items()}))
                for key in sorted(self._changed)
            ]
            try:
                self._store.put_ticks(rows)
            except BaseException:
                # A disk that stays full must not cost memory for as long as it does.
                self._keep_newest(UNWRITTEN)
                raise
            self._changed.clear()
        self._open = {key: row for key, row in self._open.items() if sum(key) > now - FLUSH_S}
        if now - self._dropped >= DROP_S or now < self._dropped:
            self._dropped = now
            for step, kept in TIERS:
                if kept is not None:
                    self._store.drop_ticks(step, now - kept)

    def _keep_newest(self, most: int) -> None:
        """Forget all but the newest buckets of each tier."""
        for step, _ in TIERS:
            starts = sorted(key for key in self._open if key[0] == step)
            for key in starts[:-most]:
                del self._open[key]
                self._changed.discard(key)
