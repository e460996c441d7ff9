"""What a server's own `--help` says, and flags in a command line changed by it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle_tui.supervisor.tuning import flags as flags_module
from eagle_tui.supervisor.tuning.arguments import apply, value_of
from eagle_tui.supervisor.tuning.flags import Flags, HelpError, parse_help, read_help
from eagle_tui.supervisor.tuning.settings import SETTINGS

HELP = Path(__file__).parents[1] / "fixtures" / "server_help"
VERSIONS = ("0.5.17", "0.5.23")


def known(version: str) -> Flags:
    return parse_help((HELP / f"sglang-{version}.txt").read_text())


@pytest.mark.parametrize("version", VERSIONS)
def test_every_setting_is_a_flag_of_the_recorded_versions(version: str) -> None:
    flags = known(version)
    assert len(flags.by_name) == {"0.5.17": 490, "0.5.23": 559}[version]
    for one in SETTINGS:
        flag = flags.get(one.key)
        assert flag is not None, one.key
        assert flag.takes_value == (one.kind != "bool")
        assert bool(flag.choices) == (one.kind == "choice")


def test_versions_differ_and_the_help_tells() -> None:
    old, new = known("0.5.17"), known("0.5.23")
    assert old.get("enable-hicache") is None
    assert new.get("enable_hicache") is new.get("--enable-hierarchical-cache")
    policy = new.get("schedule-policy")
    assert policy is not None and "hrrn" in policy.choices
    tokens, running = new.get("max-total-tokens"), new.get("max-running-requests")
    assert tokens is not None and running is not None
    assert tokens.suffixes and not running.suffixes
    names = new.get("uvicorn-access-log-exclude-prefixes")
    assert names is not None and names.many
    assert new.get("tp") is new.get("tensor-parallel-size"), "a beginning is enough for argparse"
    assert new.get("max-") is None, "but not one that several have"
    assert new.nearest("mem-fraction") == "mem-fraction-static"
    assert new.nearest("zzzzzz") is None


def test_a_python_without_two_lines_per_flag() -> None:
    """Python 3.13 names the value once, after the last name; short ones stand beside long ones."""
    text = "usage: x\n\noptions:\n  -h, --help  show this\n  -t, --tp-size N  ranks\n  --on\n"
    flags = parse_help(text)
    one = flags.get("tp-size")
    assert one is not None and one.takes_value and one.names == ("tp-size", "t")
    assert one.help == "ranks"
    on = flags.get("on")
    assert on is not None and not on.takes_value


def test_what_is_no_help_is_an_error() -> None:
    for text in ("", "Segmentation fault\n", "  -x\n", "usage: x [--flag]\n"):
        with pytest.raises(ValueError):
            parse_help(text)


@given(st.text(max_size=300))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        flags = parse_help(text + "\n  --sure VALUE\n")
    except ValueError:
        pytest.fail("a flag stands there")
    assert flags.get("sure") is not None


SPELLINGS = [
    ["--max-total-tokens", "9000"],
    ["--max-total-tokens=9000"],
    ["--max_total_tokens", "9000"],
    ["--max-total-tokens", "1", "--max_total_tokens=9000"],
]


@pytest.mark.parametrize("words", SPELLINGS)
@pytest.mark.parametrize("flags", [None, known("0.5.23")])
def test_every_spelling_is_found_and_replaced(words: list[str], flags: Flags | None) -> None:
    argv = ["python", "-m", "x", "--port", "1", *words, "--enable-metrics"]
    assert value_of(argv, "max-total-tokens", flags) == "9000"
    new = apply(argv, {"max_total_tokens": "5000"}, flags)
    assert new == [
        *("python", "-m", "x", "--port", "1", "--max-total-tokens", "5000", "--enable-metrics")
    ]
    gone = apply(argv, {"max-total-tokens": None}, flags)
    assert gone == ["python", "-m", "x", "--port", "1", "--enable-metrics"]
    assert apply(gone, {"max-total-tokens": "7"}, flags)[-2:] == ["--max-total-tokens", "7"]


def test_other_names_of_the_same_flag_are_replaced() -> None:
    flags = known("0.5.23")
    argv = ["x", "--tp", "2", "--enable-hicache", "--tensor-parallel-size", "4"]
    assert value_of(argv, "tp-size", flags) == "4"
    assert apply(argv, {"tp-size": "8"}, flags) == ["x", "--tp-size", "8", "--enable-hicache"]
    assert apply(argv, {"enable-hierarchical-cache": "false", "tp-size": None}, flags) == ["x"]
    assert apply(["x", "--enable-hicache"], {"enable-hierarchical-cache": None}, None) == ["x"]


def test_switches_and_their_opposites() -> None:
    flags = known("0.5.23")
    assert apply(["x"], {"enable-hierarchical-cache": "true"}, None)[1:] == [
        "--enable-hierarchical-cache"
    ]
    assert apply(["x"], {"enable-dsa-fused-indexer": "false"}, flags)[1:] == [
        "--no-enable-dsa-fused-indexer"
    ]
    argv = ["x", "--enable-dsa-fused-indexer", "y"]
    assert apply(argv, {"enable-dsa-fused-indexer": "off"}, flags) == [
        *("x", "--no-enable-dsa-fused-indexer", "y")
    ]


def test_several_words_and_negative_numbers_are_values() -> None:
    flags = known("0.5.23")
    name = "uvicorn-access-log-exclude-prefixes"
    argv = ["x", f"--{name}", "/health", "/metrics", "--chunked-prefill-size", "-1", "--tp", "2"]
    assert value_of(argv, name, flags) == "/health /metrics"
    assert value_of(argv, "chunked-prefill-size") == "-1"
    assert apply(argv, {name: "/a /b", "chunked-prefill-size": None}, flags) == [
        *("x", f"--{name}", "/a", "/b", "--tp", "2")
    ]
    assert apply(argv, {"tp": None}, None)[-2:] == ["--chunked-prefill-size", "-1"]


settings = st.sampled_from([s.key for s in SETTINGS if s.kind != "bool"])


@given(
    st.lists(st.tuples(settings, st.integers(1, 99), st.booleans()), max_size=8),
    st.dictionaries(settings, st.none() | st.integers(100, 199).map(str), max_size=6),
)
def test_after_a_change_the_line_says_what_was_asked(
    have: list[tuple[str, int, bool]], changes: dict[str, str | None]
) -> None:
    argv = ["x"]
    for name, number, equals in have:
        argv += [f"--{name}={number}"] if equals else [f"--{name}", str(number)]
    new = apply(argv, changes)
    for name in {n for n, _, _ in have} | set(changes):
        wanted = changes[name] if name in changes else value_of(argv, name)
        assert value_of(new, name) == wanted
    assert apply(new, changes) == new


def script(tmp_path: Path, body: str) -> list[str]:
    path = tmp_path / "serve.py"
    path.write_text(body)
    return [sys.executable, str(path)]


async def test_the_server_itself_is_asked_once(tmp_path: Path) -> None:
    body = (
        "import argparse, os, pathlib\n"
        f"log = pathlib.Path({str(tmp_path / 'asked')!r})\n"
        "log.write_text((log.read_text() if log.exists() else '') + 'x')\n"
        "assert os.environ['CUDA_VISIBLE_DEVICES'] == ''\n"
        "p = argparse.ArgumentParser()\n"
        "p.add_argument('--model', required=True); p.add_argument('--port')\n"
        "p.add_argument('--speed', type=int, choices=[1, 2], help='how fast')\n"
        "p.parse_args()\n"
    )
    argv = [*script(tmp_path, body), "--model", "m"]
    flags = await read_help([*argv, "--port", "1"])
    speed = flags.get("speed")
    assert speed is not None and speed.choices == ("1", "2")
    assert await read_help([*argv, "--port", "2"]) is flags
    assert (tmp_path / "asked").read_text() == "x"


async def test_a_program_that_needs_a_gpu_to_explain_itself_gets_it(tmp_path: Path) -> None:
    body = (
        "import argparse, os\n"
        "assert os.environ.get('CUDA_VISIBLE_DEVICES') == '3', 'no GPU'\n"
        "p = argparse.ArgumentParser(); p.add_argument('--speed'); p.parse_args()\n"
    )
    argv = script(tmp_path, body)
    flags = await read_help(argv, env={"CUDA_VISIBLE_DEVICES": "3"})
    assert flags.get("speed") is not None


async def test_why_there_is_no_help_is_said(tmp_path: Path) -> None:
    with pytest.raises(HelpError, match="cannot be started: No such file"):
        await read_help([str(tmp_path / "nothing")])
    with pytest.raises(HelpError, match=r"last line: .*No module named"):
        await read_help([sys.executable, "-m", "eagle_tui_no_such_module"])
    pid = tmp_path / "pid"
    body = f"import os, time\nopen({str(pid)!r}, 'w').write(str(os.getpid()))\ntime.sleep(60)\n"
    with pytest.raises(HelpError, match="within 1 s"):
        await read_help(script(tmp_path, body), deadline_s=1.0)
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


async def test_help_that_does_not_end_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flags_module, "HELP_MOST", 1000)
    with pytest.raises(HelpError, match="does not end"):
        await read_help(script(tmp_path, "while True: print('x' * 100)\n"))
