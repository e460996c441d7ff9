"""API keys of servers that we start: never in an argument list, and on disk for the start alone."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest

from eagle_tui.config import parse_config
from eagle_tui.config.command import command_line, keys_path
from eagle_tui.config.model import RunConfig
from eagle_tui.rundir import keys

BASE = '[target]\nmodel = "org/m"\n[[dataset]]\nname = "a"\nsource = "a.jsonl"\n[[server]]\n'
KEYED = 'command = ["serve"]\napi_key_env = "K"\nadmin_api_key_env = "A"\n'
ENVIRON = {"K": 's3cr:t "quoted" ü 😀 #x', "A": "yes"}


def parse(server: str) -> RunConfig:
    return parse_config(BASE + server)


def hand_over(tmp_path: Path, server: str, environ: dict[str, str] | None = None) -> Path:
    section = parse(server).server[0]
    keys.hand_over(tmp_path, section, tmp_path / "logs/x.log", environ=environ or ENVIRON)
    return keys_path(tmp_path, section)


def test_sglang_reads_them_from_a_file_of_its_owner(tmp_path: Path) -> None:
    config = parse(KEYED)
    words = command_line(config, config.server[0], tmp_path, 1)
    path = hand_over(tmp_path, KEYED)
    at = words.index("--config")
    assert words[at + 1] == str(path) and path.suffix == ".yaml"
    assert not any(key in word for key in ENVIRON.values() for word in words)
    assert json.loads(path.read_text()) == {"api-key": ENVIRON["K"], "admin-api-key": "yes"}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "logs/x.log").stat().st_mode) == 0o600
    keys.take_back(tmp_path, config.server[0])
    assert not path.exists()
    keys.take_back(tmp_path, config.server[0])


def test_a_file_that_others_can_read_is_made_anew(tmp_path: Path) -> None:
    path = keys_path(tmp_path, parse(KEYED).server[0])
    path.touch(mode=0o644)
    hand_over(tmp_path, KEYED)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "server",
    [
        'command = ["serve"]\n',
        'url = "http://h:1"\napi_key_env = "K"\n',
        'command = ["serve", "--config", "mine.yaml"]\napi_key_env = "K"\n',
        'command = ["serve"]\napi_key_env = "K"\nflags = { config = "mine.yaml" }\n',
        'command = ["serve"]\napi_key_env = "K"\nflags = { api_key = "plain" }\n',
    ],
)
def test_nothing_is_written_where_the_operator_does_it_himself(tmp_path: Path, server: str) -> None:
    assert not hand_over(tmp_path, server).exists()
    config = parse(server)
    if not config.server[0].url:
        words = command_line(config, config.server[0], tmp_path, 1)
        assert str(keys_path(tmp_path, config.server[0])) not in words


def test_a_key_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(keys.NoKey, match="variable A, which shall hold the admin-api-key"):
        hand_over(tmp_path, KEYED, {"K": "k"})
    with pytest.raises(keys.NoKey, match="begins with a dash"):
        hand_over(tmp_path, KEYED, {"K": "-k", "A": "a"})
    assert not keys_path(tmp_path, parse(KEYED).server[0]).exists()


def test_the_embedded_engine_takes_it_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from eagle_tui.pipeline.engine.config import parse_arguments

    config = parse('engine = "embedded"\napi_key_env = "K"\n')
    words = command_line(config, config.server[0], tmp_path, 1)
    assert words[-2:] == ["--api-key-env", "K"]
    assert not hand_over(tmp_path, 'engine = "embedded"\napi_key_env = "K"\n').exists()
    monkeypatch.setenv("K", "s3cret")
    assert parse_arguments(words[3:]).api_key == "s3cret"
    monkeypatch.delenv("K")
    with pytest.raises(SystemExit):
        parse_arguments(words[3:])
    assert "K is not set" in capsys.readouterr().err
