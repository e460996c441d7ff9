"""Where to go in a log or a replay, as people type it: a share, a time of day, a date, some time
ago. Pure."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, tzinfo

_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_SHARE = re.compile(r"(\d+(?:\.\d+)?)\s*%")
_AGO = re.compile(r"-\s*(\d+(?:\.\d+)?)\s*([smhd])")
_CLOCK = re.compile(r"(?:([a-z]{3})[a-z]*\s+)?(\d{1,2}):(\d\d)(?::(\d\d))?")
_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)(?:[ t](\d{1,2}):(\d\d)(?::(\d\d))?)?")
_UNIX = re.compile(r"\d{9,11}(?:\.\d+)?")
_UNIT = {"s": 1, "m": 60, "h": 3600, "d": 86400}
EXAMPLES = "50%, 14:20, Tue 14:20, 2026-11-30 14:20:05 or -30m"


def share_of(text: str) -> float | None:
    """`50%` as 0.5; None when the text is no share. ValueError: more than 100 %."""
    match = _SHARE.fullmatch(text.strip())
    if match is None:
        return None
    share = float(match[1]) / 100
    if share > 1:
        raise ValueError(f"{text.strip()} is more than the whole: write a share up to 100%")
    return share


def time_of(text: str, now: float, zone: tzinfo | None = None) -> float:
    """Unix time of what was typed, in local time or that of `zone`: a clock time is the last one
    before now. ValueError, with a sentence, for what is no time."""
    text = text.strip().lower()
    here = datetime.fromtimestamp(now, zone)
    try:
        if _UNIX.fullmatch(text):
            return float(text)
        if match := _AGO.fullmatch(text):
            return now - float(match[1]) * _UNIT[match[2]]
        if match := _DATE.fullmatch(text):
            parts = [int(part or 0) for part in match.groups()]
            year, month, day, hour, minute, second = parts
            return here.replace(
                year=year, month=month, day=day, hour=hour, minute=minute, second=second,
                microsecond=0,
            ).timestamp()  # fmt: skip
        if match := _CLOCK.fullmatch(text):
            at = here.replace(
                hour=int(match[2]), minute=int(match[3]), second=int(match[4] or 0), microsecond=0
            )
            if match[1] is not None:
                at -= timedelta(days=(at.weekday() - _DAYS.index(match[1])) % 7)
            while at > here:
                at -= timedelta(days=7 if match[1] is not None else 1)
            return at.timestamp()
    except (ValueError, OverflowError):
        pass
    raise ValueError(f"{text!r} is no place in time: write {EXAMPLES}")
