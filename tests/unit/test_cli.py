"""The command line without a run: exit codes, sentences, what `init` makes; and the packages."""

from __future__ import annotations

import json
import runpy
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
import setuptools

from eagle_tui.cli import main as cli
from eagle_tui.cli.common import again
from eagle_tui.config import load_config, parse_config
from eagle_tui.config.presets import preset_text
from eagle_tui.protocol import RunStatus, Status, SupervisorStatus
from eagle_tui.rundir.paths import RunDir

ROOT = Path(__file__).parent.parent.parent


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        cli.main(list(words))
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_exit_codes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    there = str(tmp_path / "run")
    assert run("status", there) == 4
    assert "eagle-tui init" in capsys.readouterr().err
    assert run("init", there, "--preset", "kimi-k2.5-8gpu") == 0
    assert run("init", there, "--preset", "kimi-k2.5-8gpu") == 3
    assert "is there already" in capsys.readouterr().err
    assert run("check", there) == 2
    said = capsys.readouterr().err
    assert said.count("there is no file") == 10 and "no program '/opt/sglang" in said
    assert "no directory /models/Kimi-K2.5" in said
    for verb in (("pause",), ("resume",), ("cap", "x", "--tokens", "1M"), ("down",)):
        assert run(verb[0], there, *verb[1:], "--yes") == 3
        assert "not started yet" in capsys.readouterr().err
    assert run("status", there) == 3
    assert run("nonsense") == 2
    assert run("cap", there) == 2
    small = str(tmp_path / "small")
    assert run("init", small) == 0 and run("check", small) == 0
    assert "7 datasets, 1 server, phases" in capsys.readouterr().out
    assert run("attach", there) in (2, 3)
    (tmp_path / "run" / "run.toml").write_text("[run]\nnam = 1\n")
    capsys.readouterr()
    assert run("check", there) == 2
    said = capsys.readouterr().err
    assert "did you mean 'name'" in said and "target: missing" in said
    assert run("up", there, "--detach") == 2


def test_a_home_that_nobody_has_is_a_place_that_is_not_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("status", "~nosuchuser/run") == 4
    assert "~nosuchuser/run: there is no such directory" in capsys.readouterr().err
    there = RunDir.at(tmp_path / "run")
    assert run("init", str(there.root)) == 0
    text = there.config.read_text()
    model = 'model = "~nosuchuser/m"\nchat_template = "~nosuchuser/t"'
    there.config.write_text(text.replace('model = "builtin:tiny"', model, 1))
    capsys.readouterr()
    assert run("check", str(there.root)) == 2
    said = capsys.readouterr().err
    assert "no directory" in said and "~nosuchuser/m" in said
    assert "target.chat_template: there is no file" in said


def test_init_with_settings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    there = tmp_path / "r"
    words = ("--set", "generate.concurrency=64", "--set", "dataset[b1-glaive].samples=7")
    assert run("init", str(there), "--preset", "kimi-k2.5-8gpu", *words) == 0
    config = load_config(there / "run.toml")
    assert (config.generate.concurrency, config.dataset_named("b1-glaive").samples) == (64, 7)
    assert "b8" in (there / "run.toml").read_text(), "comments and the rest are kept"
    assert run("init", str(tmp_path / "s"), "--set", "generate.concurency=1") == 2
    assert "did you mean 'concurrency'" in capsys.readouterr().err
    assert not (tmp_path / "s").exists()


def test_a_demo_that_cannot_be_made_touches_nothing_of_the_user(tmp_path: Path) -> None:
    mine = tmp_path / "data" / "mine.jsonl"
    mine.parent.mkdir()
    mine.write_text("{}\n")
    assert run("demo", str(tmp_path), "--headless", "--set", "generate.concurency=1") == 2
    assert mine.read_text() == "{}\n"


def test_counts_are_read_as_people_write_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("cap", "nowhere", "x", "--tokens", "10X") == 2
    assert "'10X' is not a count" in capsys.readouterr().err


def test_everything_is_installed_inside_the_one_package(monkeypatch: pytest.MonkeyPatch) -> None:
    made: dict[str, Any] = {}
    monkeypatch.setattr(setuptools, "setup", lambda **words: made.update(words))
    monkeypatch.chdir(ROOT)
    runpy.run_path(str(ROOT / "setup.py"))
    packages = set(made["packages"])
    assert {name.split(".")[0] for name in packages} == {"eagle_tui"}
    for top, name in (("src/eagle_tui", "eagle_tui"), ("pipeline", "eagle_tui.pipeline")):
        for file in (ROOT / top).rglob("*.py"):
            parts = file.parent.relative_to(ROOT / top).parts
            assert ".".join((name, *parts)) in packages, f"{file} would not be installed"
    assert "eagle_tui.themes" in packages


def test_what_is_told_to_type_next_can_be_pasted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["/opt/bin/eagle-tui"])
    there = tmp_path / "my run $(x) 'y'"
    assert run("init", str(there)) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    words = shlex.split(last.partition("then: ")[2])
    assert words[1:3] == ["check", str(there)] and words[-2:] == ["up", str(there)]


def bare(tmp_path: Path) -> RunDir:
    """A run.toml without the data that it names."""
    made = RunDir.at(tmp_path / "run")
    made.root.mkdir()
    made.config.write_text(preset_text("demo", "r"))
    return made


def test_a_path_in_place_of_a_command_or_a_run_is_understood(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there = bare(tmp_path).root

    def told(*words: str, code: int) -> str:
        assert run(*words) == code
        return capsys.readouterr().err

    assert told(str(there), code=2).rstrip().endswith(f"up {there}")
    (there / "state.sqlite").touch()
    assert told(str(there / "run.toml"), code=2).rstrip().endswith(f"attach {there}")
    assert "did you mean 'status'?" in told("statsu", code=2)
    assert "\x1b" not in told("x\x1b[2J", code=2)
    assert "run.toml: 7 problems" in told("check", str(there / "run.toml"), code=2)
    assert f"lies in one: {there}" in told("status", str(there / "logs"), code=4)
    (tmp_path / "file").touch()
    assert "file: a file; a run is a directory" in told("status", str(tmp_path / "file"), code=4)
    assert "needs a terminal" in told("replay", str(there / "state.sqlite"), code=2)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ("# é\n".encode("utf-16"), "it is UTF-16; save it as UTF-8"),
        ("[run]\n".encode("utf-16-be"), "it is UTF-16; save it as UTF-8"),
        ("[run]\n".encode("utf-32"), "it is UTF-32; save it as UTF-8"),
        (b"[run]\n# caf\xe9\n", "line 2: byte 0xe9 is not UTF-8; save it as UTF-8"),
        (b"[run]\nname = 'a\0'\n", "damaged: it holds NUL bytes"),
        (b"", "target: missing"),
    ],
)
def test_a_run_toml_in_another_encoding(
    data: bytes, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run.toml").write_bytes(data)
    assert run("check", str(tmp_path)) == 2
    assert words in capsys.readouterr().err


def test_a_run_toml_of_windows_is_read(tmp_path: Path) -> None:
    text = preset_text("demo", "r")
    (tmp_path / "run.toml").write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    assert load_config(tmp_path / "run.toml") == parse_config(text)


def test_what_stands_in_a_file_s_place_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there = bare(tmp_path)

    def told(*words: str, code: int) -> str:
        assert run(*words) == code
        said = capsys.readouterr().err
        assert "Errno" not in said and "Traceback" not in said
        return said

    there.logs.write_text("")
    assert "logs: something else stands there already; move it away" in told(
        "up", str(there.root), "-d", code=1
    )
    there.logs.unlink()
    (there.root / "status.json").write_text("{")
    said = told("status", str(there.root), code=1)
    assert said.count("status.json") == 1 and "`eagle-tui up` writes it anew" in said
    (there.root / "status.json").unlink()
    there.config.unlink()
    there.config.mkdir()
    assert "run.toml: no file that can be read" in told("status", str(there.root), code=4)


def test_another_user_s_run_is_told_apart_from_one_that_is_gone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its last snapshot can be read all the same; no order is taken."""
    there = bare(tmp_path)
    there.socket.touch()
    status = Status(
        at=1_800_000_000.0,
        run=RunStatus(name="r", dir=str(there.root), target="t"),
        supervisor=SupervisorStatus(),
    )
    (there.root / "status.json").write_text(json.dumps(status.to_json()))
    monkeypatch.setattr("os.access", lambda path, _mode: Path(path) != there.socket)
    assert run("status", str(there.root), "--json") == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["supervisor"]["state"] == "running"
    assert "answers that user alone; as it was told at" in said.err
    assert run("pause", str(there.root), "-y") == 3
    assert "belongs to the user with uid" in capsys.readouterr().err


def test_a_command_line_to_copy_calls_this_program_as_it_was_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "eagle-tui").touch(mode=0o755)
    there = RunDir.at(tmp_path / "my run")

    def told(path: Path, argv0: str) -> list[str]:
        monkeypatch.setenv("PATH", str(path))
        monkeypatch.setattr(sys, "argv", [argv0])
        return shlex.split(again("attach", there))

    rest = ["attach", str(there.root)]
    assert told(tmp_path, "/elsewhere/eagle-tui") == ["eagle-tui", *rest]
    assert told(tmp_path / "none", "/opt/bin/eagle-tui") == ["/opt/bin/eagle-tui", *rest]
    module = [sys.executable, "-m", "eagle_tui"]
    assert told(tmp_path / "none", "/src/eagle_tui/__main__.py") == [*module, *rest]
