"""The argument list that starts a server."""

from __future__ import annotations

import sys
from pathlib import Path

from eagle_tui.config import parse_config
from eagle_tui.config.command import command_line, flag_words

BASE = '[target]\nmodel = "org/m"\n[[dataset]]\nname = "a"\nsource = "a.jsonl"\n[[server]]\n'


def words(server: str) -> list[str]:
    config = parse_config(BASE + server)
    return command_line(config, config.server[0], Path("/r"), 31000)


def test_flags() -> None:
    flags = {"tp": 2, "enable_metrics": True, "off": False, "ids": [1, 2], "mem-fraction": 0.88}
    assert flag_words(flags) == [
        *("--tp", "2", "--enable-metrics", "--ids", "1", "2", "--mem-fraction", "0.88")
    ]


def test_what_the_command_does_not_say_is_appended() -> None:
    assert words('command = ["python", "-m", "x"]\nflags = { tp = 2 }\n') == [
        *("python", "-m", "x", "--model-path", "org/m"),
        *("--host", "127.0.0.1", "--port", "31000", "--tp", "2"),
    ]


def test_what_the_command_says_is_filled_in() -> None:
    found = words('command = ["serve", "--m={model}", "{port}"]\n')
    assert found == ["serve", "--m=org/m", "31000", "--host", "127.0.0.1"]


def test_the_embedded_engine_is_our_own_program() -> None:
    found = words('engine = "embedded"\n')
    assert found[:5] == [sys.executable, "-m", "eagle_tui.pipeline.engine", "--model", "org/m"]
