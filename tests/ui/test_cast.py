"""The recorded cast of the docs: a valid asciicast that does nothing but draw."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

CAST = Path(__file__).parents[2] / "docs" / "demo.cast"
_STRINGS = re.compile(r"\x1b[\]PX^_]|[\x80-\x9f]")
"""Operating system commands (clipboard, title), device control, and the like; and C1 controls."""
_ASKING = re.compile(r"\x1b\[[>=?]?[0-9;]*[cnt]|\x1b\[[?>][0-9;$]*[pqu]")
"""Questions that a terminal answers by typing, and orders to its window."""
_DRAWING = re.compile(r"\x1b(\[[0-9;:]*[A-HJ-MPSTXZ@abdefghlmr`]|[()][A-Z0-9]|[78DEM])")


@pytest.fixture(scope="module")
def cast() -> tuple[dict[str, Any], list[tuple[float, str, str]]]:
    """Its header and its entries."""
    header, *events = (json.loads(line) for line in CAST.read_text(encoding="utf-8").splitlines())
    return header, [(at, kind, text) for at, kind, text in events]


def test_it_is_an_asciicast(cast: Any) -> None:
    header, events = cast
    assert header["version"] == 2
    assert 80 <= header["width"] <= 160 and 24 <= header["height"] <= 50
    times = [at for at, _, _ in events]
    assert times == sorted(times) and times[0] >= 0
    assert {kind for _, kind, _ in events} == {"o", "m"}
    assert 20 <= times[-1] <= 75, "seconds played"
    assert max(b - a for a, b in pairwise(times)) < 5, "nothing happens for long"
    assert CAST.stat().st_size < 400_000


def test_it_only_draws(cast: Any) -> None:
    """No clipboard, no title, no question that the viewer's shell would get the answer to."""
    output = "".join(text for _, kind, text in cast[1] if kind == "o")
    assert not _STRINGS.search(output)
    assert not _ASKING.search(output)
    rest = _DRAWING.sub("", output).replace("\x1b[?25l", "").replace("\x1b[?25h", "")
    assert not re.search(r"\x1b|[\x00-\x07\x0b\x0e-\x1f\x7f]", rest)


def test_it_shows_the_run_from_generation_to_the_end(cast: Any) -> None:
    output = "".join(text for _, kind, text in cast[1] if kind == "o")
    text = _DRAWING.sub("", output)
    for words in ("tok/s", "paused", "tokens", "accept"):
        assert words in text
    labels = [text for _, kind, text in cast[1] if kind == "m"]
    order = ["generate", "paused", "cap", "samples", "training", "the end"]
    found = [next(i for i, label in enumerate(labels) if label.startswith(w)) for w in order]
    assert found == sorted(found)
