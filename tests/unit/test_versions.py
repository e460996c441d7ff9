"""A status of another version is read as far as it can be, and the rest is named."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eagle_tui.protocol import SCHEMA, Status
from eagle_tui.versions import RULE, read_status

SCENE = json.loads((Path(__file__).parents[1] / "ui" / "data" / "kimi.json").read_text())
BODY: dict[str, Any] = Status.from_json(SCENE).to_json()


def changed(**parts: Any) -> dict[str, Any]:
    return {**copy.deepcopy(BODY), **parts}


def test_one_of_our_version_is_read_as_it_is() -> None:
    assert read_status(copy.deepcopy(BODY)) == Status.from_json(BODY)


def test_a_newer_one_is_shown_with_a_sentence_in_front() -> None:
    status = read_status(changed(schema=SCHEMA + 1, novelty={"x": 1}))
    assert status.datasets == Status.from_json(BODY).datasets
    first = status.alerts[0]
    assert first.rule == RULE and "newer than this program (schema 2 and 1)" in first.sentence
    assert "attach with the version that started it" in first.remedy
    assert status.alerts[1:] == Status.from_json(BODY).alerts


def test_an_older_one_says_how_to_renew_it() -> None:
    status = read_status(changed(schema=0))
    assert "older than this program" in status.alerts[0].sentence
    assert f"kill {status.supervisor.pid}" in status.alerts[0].remedy


def test_rows_that_cannot_be_read_are_left_out_alone() -> None:
    body = changed()
    body["phases"][1]["state"] = "levitating"
    body["gpus"][0]["index"] = "first"
    body["host"] = [1, 2]
    status = read_status(body)
    assert [p.name for p in status.phases] == [
        p["name"] for i, p in enumerate(BODY["phases"]) if i != 1
    ]
    assert len(status.gpus) == len(BODY["gpus"]) - 1
    assert status.alerts[0].sentence.endswith("left out: gpus, host, phases")


def test_what_is_no_status_at_all_is_an_error_or_empty_but_never_a_crash() -> None:
    status = read_status({"hello": "world"})
    assert status.run.name == "?" and status.phases == ()


def paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    items = value.items() if isinstance(value, dict) else ()
    if isinstance(value, list):
        items = enumerate(value)
    for key, item in items:
        found += paths(item, (*path, key))
    return found


PATHS = paths(BODY)
junk = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5),
    st.just([]), st.just({}), st.just([{}]), st.just({"a": [1]}),
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(PATHS), junk), min_size=1, max_size=5))
def test_no_answer_whatsoever_takes_the_screen_away(faults: list[tuple[Any, Any]]) -> None:
    body = changed()
    touched = set()
    for path, value in faults:
        touched.add(path[0])
        place: Any = body
        for step in path[:-1]:
            known = isinstance(place, dict) and step in place
            listed = isinstance(place, list) and isinstance(step, int) and step < len(place)
            if not known and not listed:
                break
            place = place[step]
        else:
            last = path[-1]
            if isinstance(place, dict) or (
                isinstance(place, list) and isinstance(last, int) and last < len(place)
            ):
                place[last] = value
    status = read_status(body)
    whole = Status.from_json(BODY)
    for part in ("phases", "datasets", "servers", "gpus", "host", "run"):
        if part not in touched:
            assert getattr(status, part) == getattr(whole, part)


def test_reading_does_not_change_the_answer() -> None:
    body = changed(gpus=[{"index": "x"}])
    before = copy.deepcopy(body)
    read_status(body)
    assert body == before


@pytest.mark.parametrize("schema", [None, "two", 1.5, [], SCHEMA + 5])
def test_any_schema_number_is_survived(schema: Any) -> None:
    assert read_status(changed(schema=schema)).datasets
