"""What doctor found, and how it is printed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

from eagle_tui.text import visible

Level = Literal["ok", "lack", "bad"]
"""`lack`: works, but less well than it could; `bad`: does not work."""

_MARKS = {"ok": "ok  ", "lack": "lack", "bad": "BAD "}


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    level: Level
    what: str
    """Two or three words."""
    detail: str
    """What was found and, for a lack, what it costs."""
    remedy: tuple[str, ...] = ()
    """Lines to run or to write somewhere, exactly."""
    place: str = ""
    """Where the lines belong: a file, or empty for a shell."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def as_text(findings: Iterable[Finding]) -> list[str]:
    """Lines for a person: each finding, and under a lack what to do."""
    lines: list[str] = []
    for item in findings:
        lines.append(visible(f"{_MARKS[item.level]}  {item.what:<16} {item.detail}"))
        if item.remedy:
            where = f"in {item.place}" if item.place else "run"
            lines.append(f"      {where}:")
            lines += [visible(f"          {line}") for line in item.remedy]
    return lines


def worst(findings: Iterable[Finding]) -> Level:
    """The most serious level among them; ok for none."""
    levels = {item.level for item in findings}
    return "bad" if "bad" in levels else "lack" if "lack" in levels else "ok"
