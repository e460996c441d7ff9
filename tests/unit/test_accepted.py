"""run.toml as it was accepted: what a run goes by while its file is being edited."""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

import pytest

from eagle_tui import proc
from eagle_tui.cli.make import make_run
from eagle_tui.config import ConfigError
from eagle_tui.proc import TOKEN_ENV
from eagle_tui.reach import NotARun, require_run
from eagle_tui.rundir import accepted
from eagle_tui.rundir.paths import RunDir
from eagle_tui.supervisor.__main__ import settings as supervised
from eagle_tui.supervisor.store import Store

TEXT = """[target]
model = "m"
[[server]]
engine = "embedded"
[[dataset]]
name = "a"
source = "a.jsonl"
[[dataset]]
name = "b"
source = "b.jsonl"
"""


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    (tmp_path / "run.toml").write_text(TEXT)
    return RunDir.at(tmp_path)


def test_before_anything_was_accepted_run_toml_holds(run: RunDir) -> None:
    assert len(accepted.settings(run)[0].dataset) == 2
    run.config.write_text("[")
    with pytest.raises(ConfigError):
        accepted.settings(run)
    with pytest.raises(ConfigError):
        accepted.take(run)
    assert not run.accepted.exists()


def test_half_saved_the_accepted_one_holds_and_it_is_said(run: RunDir) -> None:
    taken = accepted.take(run)
    assert accepted.settings(run) == (taken, "")
    run.config.write_text("# a comment changes nothing\n" + TEXT)
    assert accepted.settings(run) == (taken, "")
    for cut in range(0, len(TEXT) - 3, 3):  # some of these are no TOML, some miss only a dataset
        run.config.write_text(TEXT[:cut])
        config, notice = accepted.settings(run)
        assert config == taken
        assert "eagle-tui up" in notice
    run.config.write_text(TEXT[: TEXT.rindex("[[")])
    assert "run.toml was changed" in accepted.settings(run)[1]
    run.config.write_text("[generate]\nx = 1\n")
    assert "not usable now: " in accepted.settings(run)[1]
    run.config.unlink()
    config, notice = accepted.settings(run)
    assert config == taken and "no such file" in notice
    run.config.write_text("[")
    with pytest.raises(ConfigError):
        accepted.take(run)
    assert run.accepted.read_text() == TEXT


def test_who_may_read_it_is_as_with_run_toml(run: RunDir) -> None:
    run.config.chmod(0o600)
    accepted.take(run)
    assert stat.S_IMODE(run.accepted.stat().st_mode) == 0o600


def test_only_what_the_supervisor_starts_goes_by_it(
    run: RunDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    from eagle_tui.pipeline.worker import settings

    accepted.take(run)
    run.config.write_text(TEXT.replace('"m"', '"other"'))
    monkeypatch.delenv(TOKEN_ENV, raising=False)
    assert settings(run)[0].target.model == "other"
    monkeypatch.setenv(TOKEN_ENV, "t")
    config, notice = settings(run)
    assert config.target.model == "m" and "run.toml was changed" in notice


def test_a_run_whose_run_toml_is_gone_is_still_one(run: RunDir) -> None:
    accepted.take(run)
    run.config.unlink()
    require_run(run)
    with pytest.raises(ConfigError, match=r"`cp \S+run.accepted.toml \S+run.toml` brings back"):
        accepted.take(run)
    with pytest.raises(ConfigError, match="brings back"):
        make_run(run.root, "kimi-k2.5-8gpu", ())
    assert not run.config.exists(), "a preset is not laid over what was done"
    run.accepted.unlink()
    with pytest.raises(NotARun, match="eagle-tui init"):
        require_run(run)


def test_a_directory_whose_name_is_no_text_is_told(tmp_path: Path) -> None:
    odd = tmp_path / os.fsdecode(b"bad\xff")
    with pytest.raises(NotARun, match="its name is not UTF-8; rename it"):
        make_run(odd, "kimi-k2.5-8gpu", ())
    assert not odd.exists()
    with pytest.raises(NotARun, match="rename it"):
        require_run(RunDir.at(odd))


def test_what_still_runs_is_neither_orphaned_nor_told_to_run_otherwise(run: RunDir) -> None:
    """The supervisor was killed, its server lives, and run.toml names another one now."""
    store = Store(run.state)
    taken, _ = supervised(run, store, up=True)
    store.begin("server", taken.server[0].name, "a-token", 1.0)
    server = subprocess.Popen(["sleep", "60"], env={**os.environ, TOKEN_ENV: "a-token"})
    try:
        found = proc.identify(server.pid)
        assert found is not None
        store.launched("a-token", found)
        run.config.write_text(TEXT.replace("[[server]]", '[[server]]\nname = "other"'))
        with pytest.raises(ConfigError, match=r"\[server\] of run.toml changed: .*down .* first"):
            supervised(run, store, up=True)
        for intent in ("up", "down"):  # it may have been killed in the middle of `down`
            store.put("intent", intent)
            assert supervised(run, store, up=False)[0] == taken
        run.config.write_text(TEXT.replace('"b"', '"c"'))
        assert supervised(run, store, up=True)[0].dataset[1].name == "c"
        run.config.write_text(TEXT.replace("[[server]]", '[[server]]\nname = "other"'))
        server.kill()
        server.wait()
        child = subprocess.Popen(["sleep", "60"], env={**os.environ, TOKEN_ENV: "a-token"})
        try:
            assert supervised(run, store, up=True)[0].server[0].name == "other"
            assert store.open_attempts("server") == []
            assert child.wait(timeout=60) == -9, "what it left behind is ended"
        finally:
            child.kill()
    finally:
        server.kill()
        server.wait()
        store.close()
