"""The first minute: the program alone, without a run, in the wrong directory."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from eagle_tui.cli.main import main
from eagle_tui.protocol import Status
from eagle_tui.rundir.nearby import MOST, nearby

SCENE = Path(__file__).parents[1] / "ui" / "data" / "laptop.json"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory that is the current one, with an empty one around it."""
    found = tmp_path / "around" / "home"
    found.mkdir(parents=True)
    monkeypatch.chdir(found)
    return found


def make(path: Path, supervisor: str | None = None) -> Path:
    """A run that a status was left in, if `supervisor` says in which state it was."""
    path.mkdir(parents=True)
    (path / "run.toml").write_text("")
    if supervisor is not None:
        status = Status.from_json(json.loads(SCENE.read_text()))
        gone = status.supervisor.model_copy(update={"state": supervisor})
        body = status.model_copy(update={"supervisor": gone}).to_json()
        (path / "status.json").write_text(json.dumps(body))
    return path


def say(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """What a command line prints, and its exit code."""
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    out = capsys.readouterr()
    assert isinstance(ended.value.code, int)
    return ended.value.code, out.out + out.err


def test_alone_where_there_is_no_run_it_says_how_to_begin(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text = say(capsys)
    assert code == 0
    for command in ("demo", "init RUN", "check RUN", "up RUN", "attach RUN", "doctor"):
        assert f"eagle-tui {command}" in text


def test_alone_it_names_the_runs_nearby_with_how_they_stand(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make(home / "new")
    make(home / "deeper" / "old", "stopped")
    make(home.parent / "beside", "running")
    _, text = say(capsys)
    assert f"eagle-tui up {home / 'new'}   (not started yet)" in text
    assert f"eagle-tui attach {home / 'deeper' / 'old'}   (down)" in text
    assert f"eagle-tui attach {home.parent / 'beside'}" in text


def test_alone_inside_a_run_it_says_which(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make(home / "run", "stopped")
    (run / "responses").mkdir()
    monkeypatch.chdir(run / "responses")
    assert f"This lies in the run {run} (down)" in say(capsys)[1]
    monkeypatch.chdir(run)
    assert f"This is the run {run} (down)" in say(capsys)[1]


def test_a_command_takes_the_run_one_is_in(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make(home / "run")
    monkeypatch.chdir(run)
    code, text = say(capsys, "attach")
    assert code == 3 and f"{run}: not started yet" in text
    assert say(capsys, "attach", "run.toml") == (code, text)


def test_the_wrong_directory_is_told_with_the_right_ones(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text = say(capsys, "attach", "nowhere")
    assert code == 4 and "there is no such directory" in text and "eagle-tui init" in text
    run = make(home / "deeper" / "run")
    code, text = say(capsys, "status", "deeper")
    assert code == 4 and "no run.toml there" in text and f"Runs nearby: {run}" in text
    (run / "logs").mkdir()
    code, text = say(capsys, "attach", str(run / "logs"))
    assert code == 4 and f"lies in one: {run}" in text


def test_a_directory_of_many_runs_is_no_list_to_search(home: Path) -> None:
    for index in range(MOST + 3):
        make(home / f"run{index}")
    assert nearby(home) == [home / f"run{index}" for index in range(MOST)]
    assert nearby(home / "no" / "such" / "place") == []
