"""What doctor concludes from what it sees."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle_tui.cli.doctor import machine, probe, terminal, tmux
from eagle_tui.cli.doctor.findings import Finding, as_text, worst
from eagle_tui.cli.main import main

REPORTS = "".join(f"\x1b[5;{2}R" for _ in probe.GLYPHS)
KITTY = (
    REPORTS
    + "\x1bP>|kitty(0.31.0)\x1b\\\x1b[?2026;2$y\x1b[?0u\x1b]11;rgb:1e1e/1e1e/2e2e\x1b\\"
    + "\x1bP1$r0;48:2:1:2:3m\x1b\\\x1b[?62;c"
)
XTERM = (
    REPORTS
    + "\x1bP>|XTerm(370)\x1b\\\x1b]11;rgb:ff/ff/ff\x07"
    + "\x1bP1$r48;2;1;2;3m\x1b\\\x1b[?64;1;22c"
)
FEW = REPORTS + "\x1bP1$r0m\x1b\\\x1b[?6c"


def test_answers_are_understood() -> None:
    kitty = probe.understand(KITTY)
    assert kitty.name == "kitty(0.31.0)" and kitty.sync and kitty.rgb
    assert kitty.ground == (30, 30, 46)
    assert kitty.widths == dict.fromkeys(probe.GLYPHS, 1) and kitty.answered
    xterm = probe.understand(XTERM)
    assert xterm.sync is None and xterm.rgb and xterm.ground == (255, 255, 255)
    assert probe.understand(FEW).rgb is False
    silent = probe.understand("")
    assert not silent.answered and silent.rgb is None and silent.widths == {}


@given(st.text(alphabet=st.sampled_from("\x1b[]?;0123456789RrPcyu$/>|mrgb:\x07\\"), max_size=60))
def test_no_answer_confuses_it(text: str) -> None:
    probe.understand(text)


def facts(answers: str | None = KITTY, **parts: Any) -> terminal.Facts:
    base = {
        "environ": {"TERM": "xterm-kitty", "COLORTERM": "truecolor", "LANG": "C.UTF-8"},
        "size": (200, 50),
        "interactive": True,
        "answers": None if answers is None else probe.understand(answers),
    }
    return terminal.Facts(**{**base, **parts})


def about(found: list[Finding], what: str) -> Finding:
    return next(item for item in found if item.what == what)


def test_a_good_terminal_lacks_nothing() -> None:
    found = terminal.findings(facts())
    assert worst(found) == "ok"
    assert "eagle-dark" in about(found, "ground").detail
    assert "eagle-light" in about(terminal.findings(facts(XTERM)), "ground").detail


@pytest.mark.parametrize(
    ("parts", "what", "level", "line"),
    [
        ({"environ": {"TERM": "dumb"}}, "terminal", "bad", "export TERM=xterm-256color"),
        ({"interactive": False, "answers": None}, "terminal", "bad", ""),
        ({"size": (50, 15)}, "size", "lack", ""),
        ({"environ": {"TERM": "xterm-256color"}}, "colours", "lack", "COLORTERM=truecolor"),
        ({"environ": {"TERM": "xterm", "LC_ALL": "C"}}, "characters", "lack", "LC_ALL=C.UTF-8"),
        (
            {"answers": KITTY.replace("\x1b[5;2R", "\x1b[5;3R", 1)},
            "characters",
            "lack",
            "EAGLE_TUI_GLYPHS=ascii",
        ),
        (
            {"environ": {"TERM": "xterm-kitty", "SSH_CONNECTION": "1 2 3 4"}},
            "SSH without tmux",
            "lack",
            "tmux new",
        ),
        ({"environ": {"TERM": "screen", "STY": "1.pts"}}, "GNU screen", "lack", ""),
    ],
)
def test_each_lack_is_named(parts: dict[str, Any], what: str, level: str, line: str) -> None:
    found = about(terminal.findings(facts(**parts)), what)
    assert found.level == level
    assert line in " ".join(found.remedy)


GOOD = tmux.Tmux(
    version="3.4",
    options={
        "default-terminal": "tmux-256color", "escape-time": "10", "focus-events": "on",
        "set-clipboard": "on", "allow-passthrough": "off",
    },
    client={
        "client_termname": "xterm-kitty", "client_termfeatures": "256,RGB,clipboard,sync",
        "client_utf8": "1",
    },
)  # fmt: skip
COLORTERM = {"COLORTERM": "truecolor"}


def changed(**parts: Any) -> tmux.Tmux:
    """The good one with other options or client variables, or another version."""
    version = parts.pop("version", GOOD.version)
    options = {**GOOD.options, **parts.pop("options", {})}
    return tmux.Tmux(version, options, {**GOOD.client, **parts})


def test_a_good_tmux_lacks_nothing() -> None:
    assert worst(tmux.findings(GOOD, COLORTERM)) == "ok"


@pytest.mark.parametrize(
    ("seen", "environ", "what", "line"),
    [
        (changed(client_termfeatures="256"), {}, "24-bit colour",
         'set -as terminal-features ",xterm-kitty:RGB"'),
        (changed(client_termfeatures="256", version="3.1c"), {}, "24-bit colour",
         'set -ga terminal-overrides ",xterm-kitty:Tc"'),
        (GOOD, {}, "24-bit colour", "set-environment -g COLORTERM truecolor"),
        (changed(options={"set-clipboard": "external"}), COLORTERM, "set-clipboard",
         "set -s set-clipboard on"),
        (changed(client_termfeatures="RGB"), COLORTERM, "set-clipboard",
         'set -as terminal-features ",xterm-kitty:clipboard"'),
        (changed(options={"escape-time": "500"}), COLORTERM, "escape-time",
         "set -sg escape-time 10"),
        (changed(options={"focus-events": "off"}), COLORTERM, "focus-events",
         "set -g focus-events on"),
        (changed(client_utf8="0"), COLORTERM, "UTF-8", "tmux -u attach"),
    ],
)  # fmt: skip
def test_each_lack_of_tmux_has_its_line(
    seen: tmux.Tmux, environ: dict[str, str], what: str, line: str
) -> None:
    found = about(tmux.findings(seen, environ), what)
    assert found.level != "ok" and found.remedy == (line,)


def test_a_tmux_that_nobody_looks_at_is_not_judged_by_its_terminal() -> None:
    unseen = tmux.Tmux(GOOD.version, GOOD.options, {})
    assert worst(tmux.findings(unseen, {})) == "ok"


def test_packages_that_are_missing_are_named_by_what_needs_them() -> None:
    requires = ["click>=8.1", 'torch>=2.6; extra == "pipeline"', 'pytest>=8; extra == "dev"']
    [core, pipeline] = machine.packages(requires, lambda name: None)
    assert core.level == "bad" and "click" in core.detail and "pytest" not in core.detail
    assert pipeline.level == "lack" and "torch" in pipeline.detail
    [fine] = machine.packages(requires, lambda name: "1.0")
    assert fine.level == "ok"


@pytest.mark.parametrize(
    ("code", "level", "words"),
    [
        ('print(\'{"note": "no NVIDIA driver on this machine"}\')', "ok", "no NVIDIA driver"),
        ("import time; time.sleep(30)", "lack", "does not answer"),
        ("print('rubbish')", "lack", "cannot be read"),
        (
            'print(\'{"gpus": [{"index": 0, "name": "H200", "mem_total": 150323855360, '
            '"state": "ok"}, {"index": 1, "name": "H200", "mem_total": 150323855360, '
            '"state": "lost"}]}\')',
            "lack",
            "2 × H200, 140 GiB each; 1: lost",
        ),
    ],
)
def test_gpus_are_asked_in_a_child_that_may_hang(code: str, level: str, words: str) -> None:
    found = machine.gpus([[sys.executable, "-u", "-c", code]], wait_s=2.0)
    assert found.level == level and words in found.detail


def test_the_next_maker_is_asked_when_the_first_one_has_no_gpus() -> None:
    def says(body: str) -> list[str]:
        return [sys.executable, "-c", f"print({body!r})"]

    none = says('{"note": "no NVIDIA driver", "absent": true}')
    amd = says('{"gpus": [{"index": 0, "name": "MI300X", "mem_total": null, "state": "ok"}]}')
    assert machine.gpus([none, amd]).detail == "1 × MI300X"
    assert machine.gpus([none, says('{"note": "no AMD driver"}')]).detail == "no NVIDIA driver"


def test_a_run_is_examined_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    with pytest.raises(SystemExit):
        main(["init", str(run), "--preset", "kimi-k2.5-8gpu"])
    text = (run / "run.toml").read_text()
    python = json.dumps(sys.executable)
    text = re.sub(r'(?m)^command = \[\s*"[^"]*"', f"command = [{python}", text)
    (run / "run.toml").write_text(text)
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(["doctor", str(run), "--json"])
    assert ended.value.code == 1, "the model of the preset is not there"
    found = {item["what"]: item for item in json.loads(capsys.readouterr().out)}
    assert found["run.toml"]["level"] == "bad"
    servers = [item for what, item in found.items() if what.startswith("server ")]
    assert servers and "no SGLang in the environment of" in servers[0]["detail"]
    assert "pip install 'sglang>=" in servers[0]["remedy"][0]


def test_nothing_of_what_is_printed_reaches_the_terminal_raw() -> None:
    lines = as_text([Finding("lack", "name", "says \x1b[2J", ("echo \x07",), "file")])
    assert not any("\x1b" in line or "\x07" in line for line in lines)
