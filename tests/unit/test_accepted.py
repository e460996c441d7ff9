"""run.toml as it was accepted: what a run goes by while its file is being edited."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from eagle_tui.config import ConfigError
from eagle_tui.proc import TOKEN_ENV
from eagle_tui.rundir import accepted
from eagle_tui.rundir.paths import RunDir

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
