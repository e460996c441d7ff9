"""Numbers, durations and times as short text. Pure; unknown is an en dash, never NaN or negative.

Every function takes None, NaN, infinities and negative numbers and answers `NONE` for them, so that
a widget can never print a figure that is not one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import datetime, tzinfo

NONE = "–"
"""What stands where nothing is known."""

_LARGEST = float(2**63)
"""Beyond this a figure is a fault of whoever sent it."""

MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0

_SUFFIXES = (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3))
_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_COUNT = re.compile(r"(\d+(?:[_,]\d{3})*|\d*\.\d+|\d+\.)\s*([kKmMgG]?)")
_MULTIPLIER = {"": 1, "k": 1_000, "m": 1_000_000, "g": 1_000_000_000}
_ETA_UNITS = (
    (90.0, 1.0, "s", 0),
    (90 * MINUTE, MINUTE, "min", 0),
    (10 * HOUR, HOUR, "h", 1),
    (48 * HOUR, HOUR, "h", 0),
    (10 * DAY, DAY, "d", 1),
    (math.inf, DAY, "d", 0),
)
"""(upper end below, seconds per unit, its name, decimals): what a range is written in."""
_WEEKDAY_WITHIN = 6 * DAY
"""Beyond this a weekday alone would be ambiguous: show the date."""


def known(value: float | None) -> bool:
    """Whether `value` is a number that may be shown: finite, not negative, not absurdly large."""
    # Comparing is exact for whole numbers of any size, and false for NaN.
    return value is not None and 0 <= value <= _LARGEST


def _number(value: float | None) -> float | None:
    """`value` where it is `known`, with a negative zero made plain; else None."""
    return value + 0.0 if value is not None and known(value) else None


def _three_digits(value: float) -> str:
    """`value` in 0..999.5 with three significant digits, no exponent."""
    if value < 9.995:
        return f"{value:.2f}"
    if value < 99.95:
        return f"{value:.1f}"
    return f"{value:.0f}"


def exact(value: float | None) -> str:
    """Every digit, grouped: `88,088`."""
    number = _number(value)
    return NONE if number is None else f"{number:,.0f}"


def count(value: float | None) -> str:
    """A count in at most five characters: `999`, `1.23k`, `12.3k`, `10.0M`."""
    number = _number(value)
    if number is None:
        return NONE
    for suffix, unit in _SUFFIXES:
        if number >= unit * 0.9995:
            return _three_digits(number / unit) + suffix
    return f"{number:.0f}"


def size(value: float | None) -> str:
    """Bytes in binary units, as nvidia-smi and df -h count them: `88.1 GiB`."""
    number = _number(value)
    if number is None:
        return NONE
    step = 0
    while number >= 999.5 and step < len(_BINARY) - 1:
        number /= 1024
        step += 1
    return f"{number:.0f} B" if step == 0 else f"{_three_digits(number)} {_BINARY[step]}"


def gib(value: float | None) -> str:
    """Bytes as GiB, one decimal and no unit, for columns: `88.1`."""
    number = _number(value)
    return decimal(None if number is None else number / 2**30, 1)


def rate(value: float | None) -> str:
    """A rate in at most five characters: `0.42`, `26.0`, `860`, `1.35k`."""
    number = _number(value)
    if number is None:
        return NONE
    return _three_digits(number) if number < 999.5 else count(number)


def decimal(value: float | None, digits: int = 2) -> str:
    """A plain decimal number."""
    number = _number(value)
    return NONE if number is None else f"{number:.{digits}f}"


def percent(share: float | None) -> str:
    """A share 0..1 as a whole per cent, rounded down: never 100 % before it is all done."""
    number = _number(share)
    if number is None:
        return NONE
    if 0 < number < 0.01:
        return "<1%"
    return f"{math.floor(number * 100 + 1e-9)}%"


def share(part: float | None, whole: float | None) -> float | None:
    """`part`/`whole` within 0..1, or None when either is unknown or there is no whole."""
    if part is None or whole is None or not known(part) or not known(whole) or whole == 0:
        return None
    return min(part / whole, 1.0)


def progress(done: int | None, total: int | None) -> str:
    """`4,210/10,000`; only the part that is known."""
    return exact(done) if total is None else f"{exact(done)}/{exact(total)}"


def duration(seconds: float | None) -> str:
    """Two units at most: `45s`, `3m 12s`, `2h 05m`, `2d 4h`."""
    if seconds is None or not known(seconds):
        return NONE
    whole = int(seconds)
    if whole < MINUTE:
        return f"{whole}s"
    if whole < HOUR:
        return f"{whole // 60}m {whole % 60:02d}s"
    if whole < DAY:
        return f"{whole // 3600}h {whole % 3600 // 60:02d}m"
    return f"{whole // 86400}d {whole % 86400 // 3600}h"


def elapsed(seconds: float | None, down_s: float = 0.0) -> str:
    """How long a run was up, and how long it was down beside that: `2d 4h (and 3h 10m down)`."""
    beside = f" (and {duration(down_s)} down)" if known(down_s) and down_s >= MINUTE else ""
    return duration(seconds) + beside


def age(seconds: float | None) -> str:
    """One unit: `4s`, `3m`, `2h`, `5d`."""
    if seconds is None or not known(seconds):
        return NONE
    for unit, letter in ((DAY, "d"), (HOUR, "h"), (MINUTE, "m")):
        if seconds >= unit:
            return f"{int(seconds / unit)}{letter}"
    return f"{int(seconds)}s"


def clock(at: float | None, tz: tzinfo | None = None) -> str:
    """Unix time as local `14:20:05`."""
    return _local(at, "%H:%M:%S", tz)


def day(at: float | None, tz: tzinfo | None = None) -> str:
    """Unix time as a local day: `Mon Nov 30`."""
    return _local(at, "%a %b %d", tz)


def stamp(at: float | None, now: float | None, tz: tzinfo | None = None) -> str:
    """Unix time as local `14:20`, `Tue 14:20` or `Dec 03 14:20`, as far as `now` needs."""
    if at is None or now is None or not known(at) or not known(now):
        return NONE
    if _local(at, "%Y%m%d", tz) == _local(now, "%Y%m%d", tz):
        return _local(at, "%H:%M", tz)
    return _local(at, "%a %H:%M" if abs(at - now) < _WEEKDAY_WITHIN else "%b %d %H:%M", tz)


def moment(at: float | None, now: float | None, tz: tzinfo | None = None) -> str:
    """Unix time in at most nine characters: `14:20:05` today, `Tue 14:20` lately, else `Dec 03`."""
    if at is None or now is None or not known(at) or not known(now):
        return NONE
    if _local(at, "%Y%m%d", tz) == _local(now, "%Y%m%d", tz):
        return clock(at, tz)
    return _local(at, "%a %H:%M" if abs(at - now) < _WEEKDAY_WITHIN else "%b %d", tz)


def eta(seconds: tuple[float, float, float] | None) -> str:
    """(low, middle, high) seconds left as a range: `17–26 h`, `12–18 min`, `2.1–3.4 d`."""
    if seconds is None or not all(known(value) for value in seconds):
        return NONE
    low, _, high = seconds
    low, high = min(low, high) + 0.0, max(low, high) + 0.0
    unit, name, digits = next(
        (unit, name, digits) for limit, unit, name, digits in _ETA_UNITS if high < limit
    )
    ends = [_trim(f"{value / unit:.{digits}f}") for value in (low, high)]
    return f"{ends[0]} {name}" if ends[0] == ends[1] else f"{ends[0]}–{ends[1]} {name}"


def eta_finish(
    seconds: tuple[float, float, float] | None, now: float | None, tz: tzinfo | None = None
) -> str:
    """The range and the local time of its middle: `17–26 h → Tue 14:20`."""
    text = eta(seconds)
    if text == NONE or seconds is None or now is None:
        return text
    return f"{text} → {stamp(now + seconds[1], now, tz)}"


def caps(tokens: int | None, samples: int | None) -> str:
    """Caps of a dataset: `10.0M`, `500 resp.`, `10.0M, 500 resp.`."""
    if samples is None:
        return count(tokens)
    return (
        f"{count(samples)} resp." if tokens is None else f"{count(tokens)}, {count(samples)} resp."
    )


def beside(names: Sequence[str], most: int = 3) -> str:
    """What a sum leaves out: ` + extract, train`, ` + 4 phases`; empty for nothing."""
    if len(names) <= most:
        return f" + {', '.join(names)}" if names else ""
    return f" + {len(names)} phases" if len(names) > 1 else " + 1 phase"


def parse_count(text: str) -> int:
    """A count as people type it: `10M`, `250k`, `1.5M`, `88,088`, `10_000`.

    Raises ValueError with a sentence when it is no count or not a whole, positive number.
    """
    match = _COUNT.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a count: write a number such as 10M, 250k or 88088")
    digits, suffix = match.groups()
    value = float(digits.replace("_", "").replace(",", "")) * _MULTIPLIER[suffix.lower()]
    if value > _LARGEST:
        raise ValueError(f"{text[:40]!r} is too large a count")
    whole = round(value)
    if abs(value - whole) > 1e-6 or whole <= 0:
        raise ValueError(f"{text!r} is not a whole number above zero")
    return whole


def _trim(text: str) -> str:
    return text[:-2] if text.endswith(".0") else text


def _local(at: float | None, pattern: str, tz: tzinfo | None) -> str:
    if at is None or not known(at):
        return NONE
    try:
        return datetime.fromtimestamp(at, tz).strftime(pattern)
    except (OverflowError, OSError, ValueError):
        return NONE
