"""Settings that cannot work are refused before anything is stopped."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle_tui.supervisor.tuning.constraints import HostFacts, Problem, apply, check
from eagle_tui.supervisor.tuning.flags import Flags, parse_help

HELP = Path(__file__).parents[1] / "fixtures" / "server_help"
NEW = parse_help((HELP / "sglang-0.5.23.txt").read_text())
OLD = parse_help((HELP / "sglang-0.5.17.txt").read_text())
ARGV = ("python", "-m", "sglang.launch_server", "--model-path", "/m", "--tp", "8", "--page-size",
        "64", "--context-length", "8192")  # fmt: skip
GIB = 2**30
HOST = HostFacts(mem_free=500 * GIB)


def fatal(
    changes: dict[str, str | None],
    argv: tuple[str, ...] = ARGV,
    flags: Flags | None = NEW,
    host: HostFacts = HOST,
) -> list[str]:
    return [p.sentence for p in check(changes, argv, flags, host) if p.fatal]


def said(changes: dict[str, str | None], **more: object) -> list[str]:
    return [p.sentence for p in check(changes, ARGV, NEW, HOST, **more) if not p.fatal]


GOOD: list[dict[str, str | None]] = [
    {"mem-fraction-static": "0.88", "max-running-requests": "256"},
    {"mem_fraction_static": "0.5"},
    {"max-total-tokens": "100k"},
    {"max-total-tokens": "64Ki"},
    {"chunked-prefill-size": "4096"},
    {"chunked-prefill-size": "-1"},
    {"schedule-policy": "lpm", "schedule-conservativeness": "0.3"},
    {"kv-cache-dtype": "fp8_e4m3"},
    {"enable-hierarchical-cache": "true", "hicache-size": "48"},
    {"enable-hicache": "true", "hicache-size": "48", "hicache-write-policy": "write_back"},
    {"mem-fraction-static": None},
    {"cuda-graph-max-bs-decode": "64"},
]


@pytest.mark.parametrize("changes", GOOD)
def test_what_works_is_let_through(changes: dict[str, str | None]) -> None:
    assert fatal(changes) == []


BAD: list[tuple[dict[str, str | None], str]] = [
    ({"mem-fraction-static": "1"}, "between 0 and 1"),
    ({"mem-fraction-static": "0"}, "between 0 and 1"),
    ({"mem-fraction-static": "88 %"}, "no number"),
    ({"mem-fraction-static": "nan"}, "no number"),
    ({"max-total-tokens": "1e300"}, "no number"),
    ({"max-total-tokens": "9" * 400 + "k"}, "no number"),
    ({"max-running-requests": "0"}, "less than 1"),
    ({"max-running-requests": "2.5"}, "no whole number"),
    ({"max-running-requests": "1k"}, "no number"),
    ({"max-total-tokens": "3"}, "warm-up"),
    ({"max-total-tokens": "50"}, "less than one page of 64"),
    ({"chunked-prefill-size": "0"}, "-1 for whole prompts"),
    ({"chunked-prefill-size": "1000"}, "no multiple of page-size 64"),
    ({"page-size": "100", "chunked-prefill-size": "4096"}, "no multiple of page-size 100"),
    ({"schedule-policy": "best"}, "none of lpm"),
    ({"schedule-conservativeness": "-1"}, "less than 0"),
    ({"kv-cache-dtype": "fp8"}, "none of auto"),
    ({"enable-hierarchical-cache": "maybe"}, "true or false"),
    ({"enable-hierarchical-cache": "true", "hicache-size": "60"}, "at most hicache-size 65"),
    ({"enable-hierarchical-cache": "true", "hicache-ratio": "1.0"}, "no larger than the GPU pool"),
    ({"enable-hierarchical-cache": "true", "hicache-size": "48.5"}, "no whole number"),
    ({"hicache-write-policy": "later"}, "none of write_back"),
    ({"enable-hierarchical-cache": "true", "disable-radix-cache": "true"}, "together with"),
    ({"mem-fraction": "0.8"}, ""),
    ({"mem-fractoin-static": "0.8"}, "the nearest is mem-fraction-static"),
    ({"no-such-flag": "1"}, "does not know --no-such-flag"),
    ({"port": "1"}, "`port` of [[server]]"),
    ({"model": "x"}, "`target.model`"),
    ({"api_key": "x"}, "api_key_env"),
    ({"schedule-policy": ""}, "empty"),
    ({"schedule-policy": "lpm\n--evil"}, "control characters"),
    ({"max-running-requests": "--evil"}, "another flag"),
    ({"$(evil)": "1"}, "no name of a flag"),
    ({"watchdog-timeout": "true"}, "needs a value"),
]


@pytest.mark.parametrize(("changes", "words"), BAD)
def test_what_cannot_work_is_refused_with_the_reason(
    changes: dict[str, str | None], words: str
) -> None:
    if "mem-fraction" in changes:
        assert fatal(changes) == [], "argparse takes a beginning that only one flag has"
        return
    host = HostFacts(mem_free=450 * GIB) if "hicache-size" in changes else HOST
    if words.startswith("at most"):
        host = HostFacts(mem_free=500 * GIB)
        changes = {**changes, "hicache-size": "66"}
    sentences = fatal(changes, host=host)
    assert sentences and words in sentences[0]


def test_hicache_size_counts_for_every_rank_of_a_host() -> None:
    on: dict[str, str | None] = {"enable-hierarchical-cache": "true", "hicache-size": "48"}
    need = 8 * 48 * 10**9 + 10 * GIB
    assert fatal(on, host=HostFacts(mem_free=need)) == []
    assert "48 GB of host pool for each of 8 ranks" in fatal(on, host=HostFacts(need - 1))[0]
    nodes = (*ARGV, "--nnodes", "2")
    assert fatal(on, nodes, host=HostFacts(4 * 48 * 10**9 + 10 * GIB)) == []
    copies = (*ARGV, "--dp-size", "2")
    assert fatal(on, copies, host=HostFacts(need)) != []
    attention = (*copies, "--enable-dp-attention")
    assert fatal(on, attention, host=HostFacts(need)) == []


def test_sizes_beyond_all_reason_are_left_to_the_server_to_refuse() -> None:
    sizes = {"tp-size": "1e200", "dp-size": "1e200"}
    assert fatal({"enable-hierarchical-cache": "true", "hicache-size": "48", **sizes}) == []


def test_what_the_running_server_holds_comes_back() -> None:
    argv = (*ARGV, "--enable-hierarchical-cache", "--hicache-size", "40")
    host = HostFacts(mem_free=80 * GIB)
    more: dict[str, str | None] = {"hicache-size": "48"}
    assert fatal(more, argv, host=host) == []
    assert fatal(more, argv, host=HostFacts(80 * GIB, running=False)) != []


def test_a_ratio_is_checked_against_the_present_pool() -> None:
    on: dict[str, str | None] = {"enable-hierarchical-cache": "true", "hicache-ratio": "4"}
    pool = 20 * 10**9
    assert fatal(on, host=HostFacts(700 * GIB, kv_bytes=pool)) == []
    assert "do not fit" in fatal(on, host=HostFacts(500 * GIB, kv_bytes=pool))[0]
    assert said(on) == ["whether the host pools fit in host memory is not known"]


def test_the_weights_must_fit_under_the_fraction() -> None:
    host = HostFacts(weight_share=0.62)
    assert fatal({"mem-fraction-static": "0.7"}, host=host) == []
    assert "the weights alone take 0.620" in fatal({"mem-fraction-static": "0.6"}, host=host)[0]
    argv = (*ARGV, "--mem-fraction-static", "0.6")
    assert fatal({"schedule-policy": "lpm"}, argv, host=host) == [], "it is not what is changed"


def test_on_the_cpu_there_is_no_hierarchical_cache() -> None:
    argv = (*ARGV, "--device", "cpu")
    assert "needs a GPU" in fatal({"enable-hierarchical-cache": "true"}, argv)[0]


def test_what_is_only_unwise_is_said_and_let_through() -> None:
    assert "hardly any memory" in said({"mem-fraction-static": "0.97"})[0]
    assert "does nothing while" in said({"hicache-size": "10"})[0]
    assert "long requests would be cut" in said({"max-total-tokens": "4096"})[0]


def test_versions_differ() -> None:
    on: dict[str, str | None] = {"enable-hicache": "true", "hicache-size": "1"}
    assert fatal(on, flags=OLD) == [], "0.5.17 has it under another name only"
    assert apply(["x"], on, OLD) == ["x", "--enable-hierarchical-cache", "--hicache-size", "1"]
    assert "does not know" in fatal({"hicache-host-memory-fraction": "0.5"}, flags=OLD)[0]
    assert fatal({"schedule-policy": "hrrn"}, flags=NEW) == []
    assert "none of" in fatal({"schedule-policy": "hrrn"}, flags=OLD)[0]


def test_without_the_help_only_our_table_counts() -> None:
    assert fatal({"no-such-flag": "1"}, flags=None) == []
    found = check({"no-such-flag": "1"}, ARGV, None, HOST)
    assert found == [
        Problem("no-such-flag", "whether the server knows --no-such-flag could not be found out",
                fatal=False)
    ]  # fmt: skip
    assert "between 0 and 1" in fatal({"mem-fraction-static": "2"}, flags=None)[0]
    assert fatal({"schedule-policy": "newest"}, flags=None) == [], "a newer SGLang may have it"


def test_all_problems_are_told_at_once() -> None:
    changes: dict[str, str | None] = {"mem-fraction-static": "2", "no-such": "1", "tp-size": "4"}
    assert len(fatal(changes)) == 2


names = st.sampled_from([*NEW.by_name][:200]) | st.text(max_size=20)


@given(st.dictionaries(names, st.none() | st.text(max_size=20), max_size=4), st.booleans())
def test_any_change_gets_an_answer(changes: dict[str, str | None], with_help: bool) -> None:
    for problem in check(changes, ARGV, NEW if with_help else None, HOST):
        assert problem.sentence and problem.key in changes
        assert problem.sentence.isprintable()
