"""From what was typed to what changes on each server, or why not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle_tui.supervisor.tuning.arguments import apply, value_of
from eagle_tui.supervisor.tuning.constraints import HostFacts
from eagle_tui.supervisor.tuning.flags import parse_help
from eagle_tui.supervisor.tuning.order import (
    CannotRetune,
    ServerView,
    order_for,
    orders,
    others,
    parse,
    sentence,
)
from eagle_tui.supervisor.tuning.present import tuning
from eagle_tui.supervisor.tuning.settings import SETTINGS

HELP = """usage: server [-h]

options:
  --mem-fraction-static F       share
  --max-running-requests N      requests
  --enable-hierarchical-cache   host copies
  --tp-size N, --tp N           ranks
  --schedule-policy {lpm,fcfs}  order
"""
FLAGS = parse_help(HELP)
ONE = ServerView(
    "one",
    ("server", "--mem-fraction-static", "0.85", "--tp", "2"),
    in_force={"schedule-policy": "fcfs", "max-running-requests": "48"},
    flags=FLAGS,
)


def test_words_say_what_is_in_force_and_what_comes() -> None:
    (order,) = orders([ONE], None, {"mem_fraction_static": 0.88, "max-running-requests": "64"})
    assert order.words == "mem-fraction-static 0.85 → 0.88, max-running-requests 48 → 64"
    assert order.before == {}
    assert order.after == {"mem-fraction-static": "0.88", "max-running-requests": "64"}


def test_default_takes_an_override_away_and_none_leaves_a_flag_out() -> None:
    tuned = replace(ONE, tuned={"mem-fraction-static": "0.88", "max-running-requests": "64"})
    (order,) = orders([tuned], "one", {"mem-fraction-static": "default"})
    assert order.after == {"max-running-requests": "64"}
    assert order.words == "mem-fraction-static 0.88 → 0.85"
    (order,) = orders([ONE], "one", {"mem-fraction-static": "none"})
    assert order.after == {"mem-fraction-static": None}
    assert apply(ONE.argv, order.after) == ["server", "--tp", "2"]
    # What run.toml says anyway is no change over it.
    (order,) = orders([tuned], "one", {"mem-fraction-static": "0.85"})
    assert order.after == {"max-running-requests": "64"}


def test_another_name_of_the_same_flag_replaces_it() -> None:
    tuned = replace(ONE, tuned={"tp": "4"})
    (order,) = orders([tuned], "one", {"tp-size": "8"})
    # By the name that run.toml has, so that it is found without the server's help.
    assert order.after == {"tp": "8"} and order.words == "tp 4 → 8"
    (order,) = orders([ONE], "one", {"tp-size": "none"})
    assert apply(ONE.argv, order.after) == ["server", "--mem-fraction-static", "0.85"]


@pytest.mark.parametrize(
    ("settings", "sentences"),
    [
        ({}, ["say what to change"]),
        ({"mem-fraction-static": 0.85}, ["nothing would change"]),
        (
            {"mem-fraction-static": "7", "max-running-reqests": "4", "port": "1"},
            ["a share between 0 and 1", "nearest is max-running-requests", "`port` of [[server]]"],
        ),
        ({"schedule-policy": "best"}, ["best is none of lpm, fcfs"]),
        ({"mem-fraction-static": ["0.8"]}, ["expected a setting and its value"]),
        ("mem-fraction-static=0.8", ["say what to change"]),
        ({f"a{i}": "1" for i in range(40)}, ["more than 32"]),
    ],
)
def test_a_refusal_names_every_problem(settings: Any, sentences: list[str]) -> None:
    with pytest.raises(CannotRetune) as refusal:
        orders([ONE], None, settings)
    for words in sentences:
        assert words in str(refusal.value)


def test_servers_of_others_are_left_out_unless_named() -> None:
    theirs = ServerView("theirs", refusal="somebody else runs it")
    assert [o.server for o in orders([theirs, ONE], None, {"tp": "4"})] == ["one"]
    with pytest.raises(CannotRetune, match="theirs: somebody else runs it"):
        orders([theirs, ONE], "theirs", {"tp": "4"})
    with pytest.raises(CannotRetune, match="somebody else runs it"):
        orders([theirs], None, {"tp": "4"})


def test_what_it_costs_is_said() -> None:
    two = replace(ONE, name="two", flags=None, last_start_s=80.0)
    (order,) = orders([ONE], None, {"tp": "4"})
    assert sentence([order], [ONE], 0) == (
        "one: tp 2 → 4. It is stopped and started again; settings that do not start are taken back"
    )
    found = orders([ONE, two], None, {"tp": "4"})
    assert sentence(found, [ONE, two], 9) == (
        "one, two: tp 2 → 4. They are stopped one after the other with what is in flight on them "
        "held and started again (the last start took 80 s); settings that do not start are taken "
        "back. What the installed server knows is looked up first. Note: whether the server knows "
        "--tp could not be found out"
    )


@given(
    st.dictionaries(
        st.sampled_from(["mem-fraction-static", "max-running-requests", "tp-size"]),
        st.sampled_from(["1", "0.5", "default", "none", "4"]),
        max_size=4,
    ),
    st.dictionaries(
        st.sampled_from(["mem-fraction-static", "max-running-requests", "tp"]),
        st.sampled_from(["0.7", "4", None]),
        max_size=3,
    ),
)
def test_after_is_what_the_command_line_becomes(
    typed: dict[str, str], tuned: dict[str, str | None]
) -> None:
    server = replace(ONE, tuned=tuned)
    order, _ = order_for(server, {k: None if v == "none" else v for k, v in typed.items()})
    if order is None:
        return
    again, _ = order_for(replace(server, tuned=order.after), order.changes)
    assert again is None, "asked for again it changes nothing"
    then = apply(server.argv, order.after)
    for key, value in order.changes.items():
        assert value_of(then, key, FLAGS) == value


def test_parse_takes_numbers_and_switches() -> None:
    assert parse({"--a_b": 3, "c": True, "d": "none", "e": " x "}) == {
        "a-b": "3",
        "c": "true",
        "d": None,
        "e": "x",
    }


def test_a_dialog_is_told_what_is_in_force_and_from_where() -> None:
    found = tuning(replace(ONE, tuned={"max-running-requests": "64", "page-size": "16"}), "")
    by_key = {setting.key: setting for setting in found.settings}
    assert (by_key["mem-fraction-static"].value, by_key["mem-fraction-static"].source) == (
        "0.85",
        "run.toml",
    )
    assert (by_key["max-running-requests"].value, by_key["max-running-requests"].source) == (
        "64",
        "retune",
    )
    assert (by_key["schedule-policy"].value, by_key["schedule-policy"].choices) == (
        "fcfs",
        ("lpm", "fcfs"),
    )
    assert by_key["enable-hierarchical-cache"].value == "false"
    assert by_key["page-size"].source == "retune"
    assert not by_key["hicache-size"].known
    assert by_key["hicache-size"].help


@given(
    st.dictionaries(
        st.text(max_size=12) | st.sampled_from([s.key for s in SETTINGS]),
        st.text(max_size=8)
        | st.integers()
        | st.floats()
        | st.booleans()
        | st.sampled_from(["none", "default", "16k", "1e999", "-1", "nan", "--tp=3"]),
        max_size=4,
    ),
    st.booleans(),
)
def test_whatever_is_typed_is_taken_or_refused_in_words(
    settings: dict[str, Any], known: bool
) -> None:
    server = ONE if known else replace(ONE, flags=None)
    try:
        (order,) = orders([server], None, settings)
    except CannotRetune as refusal:
        assert str(refusal)
        return
    argv = apply(server.argv, order.after)
    assert argv[0] == "server" and all(isinstance(word, str) and word for word in argv)
    assert sentence([order], [server], 1)


HICACHE = parse_help(
    HELP + "  --hicache-size N              GB per rank\n  --hicache-ratio R             share\n"
)


def host(name: str, gib: int, *, size: int = 0, running: bool = True, tp: int = 2) -> ServerView:
    """A server with a host pool of so many GB for each of its ranks (0: none)."""
    words = ["--enable-hierarchical-cache", "--hicache-size", str(size)] if size else []
    argv = ("server", "--tp", str(tp), *words)
    facts = HostFacts(mem_free=gib << 30, running=running)
    return ServerView(name, argv, flags=HICACHE, host=facts)


def test_the_host_pools_of_all_servers_of_a_host_have_to_fit() -> None:
    on = {"enable-hierarchical-cache": "true", "hicache-size": "48"}
    # 2 servers of 2 ranks of 48 GB are 179 GiB, and 10 are to spare.
    two = [host("a", 189), host("b", 189)]
    assert len(orders(two, None, on)) == 2
    with pytest.raises(CannotRetune, match="that the other servers of this host leave"):
        orders([host("a", 188), host("b", 188)], None, on)
    assert len(orders([host("a", 188), host("b", 188)], "a", on)) == 1, "b gets none"
    # What the other one holds already is no longer free, and counts no second time.
    assert len(orders([host("a", 100), host("b", 100, size=48)], "a", on)) == 1
    # One that is not up holds nothing yet, and will.
    down = host("b", 100, size=48, running=False)
    with pytest.raises(CannotRetune, match="do not fit in"):
        orders([host("a", 100), down], "a", on)


@given(
    size=st.integers(0, 64), other=st.integers(0, 64), running=st.booleans(), tp=st.integers(1, 8)
)
def test_what_others_take_is_what_they_want_and_do_not_hold(
    size: int, other: int, running: bool, tp: int
) -> None:
    servers = [host("a", 500), host("b", 500, size=other, running=running, tp=tp)]
    then = {"b": {"enable-hierarchical-cache": "true", "hicache-size": str(size)} if size else {}}
    wanted = (size or other) * tp * 10**9
    assert others(servers, "a", then) == wanted - (other * tp * 10**9 if running else 0)
    assert others(servers, "b", {}) == 0


def test_how_requests_in_flight_are_left() -> None:
    for how, words in (
        ("hold", "with what is in flight on it held"),
        ("drain", "when what is in flight on it has finished"),
        ("abort", "is thrown away"),
    ):
        found = orders([ONE], None, {"mem-fraction-static": "0.9"}, how)
        assert found[0].in_flight == how and words in sentence(found, [ONE], 3)
        assert words not in sentence(found, [ONE], 0)
    with pytest.raises(CannotRetune, match="expected hold, drain or abort; found 'kill'"):
        orders([ONE], None, {"mem-fraction-static": "0.9"}, "kill")
