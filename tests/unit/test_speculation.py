"""An EAGLE-3 drafter under `--speculative-algorithm EAGLE`: refused before anything is loaded, with
the fix, however the flag is given."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from eagle_tui.cli import main as cli
from eagle_tui.config import ConfigError, parse_config
from eagle_tui.config.speculation import algorithm_fault, command_fault
from eagle_tui.rundir.lookup import missing
from eagle_tui.rundir.paths import RunDir
from eagle_tui.supervisor.server.context import Plan
from eagle_tui.supervisor.server.launching import obstacle
from eagle_tui.supervisor.tuning.order import CannotRetune, ServerView, orders

FIX = "Use --speculative-algorithm EAGLE3"
EAGLE3 = {"architectures": ["LlamaForCausalLMEagle3"]}


@pytest.fixture
def drafter(tmp_path: Path) -> Path:
    path = tmp_path / "drafter"
    path.mkdir()
    (path / "config.json").write_text(json.dumps(EAGLE3))
    return path


@pytest.mark.parametrize(
    ("algorithm", "fault"), [("EAGLE", True), ("eagle", True), ("EAGLE3", False), ("NGRAM", False)]
)
def test_the_algorithm_that_feeds_one_state(algorithm: str, fault: bool) -> None:
    found = algorithm_fault(EAGLE3, algorithm)
    assert (FIX in found) is fault and bool(found) is fault


@pytest.mark.parametrize("config", [{}, {"architectures": None}, {"architectures": "Eagle3"}])
def test_another_drafter_may(config: dict[str, object]) -> None:
    assert algorithm_fault(config, "EAGLE") == ""


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["--speculative-algorithm", "EAGLE", "--speculative-draft-model-path", "drafter"], True),
        (["--speculative_algorithm=EAGLE", "--speculative-draft-model-path=./drafter"], True),
        (["--speculative-draft-model-path", "drafter", "--speculative-algorithm", "EAGLE3",
          "--speculative-algorithm", "EAGLE"], True),
        (["--speculative-draft-model-path", "drafter", "--speculative-algorithm", "EAGLE",
          "--speculative-algorithm", "EAGLE3"], False),
        (["--speculative-algorithm", "EAGLE", "--speculative-draft-model-path", "org/hub"], False),
        (["--speculative-algorithm", "EAGLE", "--speculative-draft-model-path"], False),
        (["--speculative-algorithm", "EAGLE"], False),
        ([], False),
    ],
)  # fmt: skip
def test_a_command_line(words: list[str], fault: bool, tmp_path: Path, drafter: Path) -> None:
    assert (FIX in command_fault(words, tmp_path)) is fault


@pytest.mark.parametrize("text", ["", "{", "[1]", '"Eagle3"', "\0"])
def test_a_config_that_cannot_be_read_is_the_server_s_to_tell(
    text: str, tmp_path: Path, drafter: Path
) -> None:
    (drafter / "config.json").write_text(text)
    words = ["--speculative-algorithm=EAGLE", "--speculative-draft-model-path=drafter"]
    assert command_fault(words, tmp_path) == ""


def run_toml(flags: str) -> str:
    return (
        '[run]\nname = "r"\n[target]\nmodel = "builtin:tiny"\n'
        '[[dataset]]\nname = "a"\nsource = "org/hub"\n'
        f'[[server]]\nname = "s"\ncommand = ["python"]\n[server.flags]\n{flags}'
    )


WRONG = 'speculative-algorithm = "EAGLE"\nspeculative-draft-model-path = "drafter"\n'


def test_it_is_told_by_check_and_the_launch_is_refused(
    tmp_path: Path, drafter: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = RunDir.at(tmp_path)
    run.config.write_text(run_toml(WRONG))
    with pytest.raises(SystemExit) as ended:
        cli.main(["check", str(tmp_path)])
    assert ended.value.code == 2 and "server s: The drafter is an" in capsys.readouterr().err
    config = parse_config(run_toml(WRONG))
    found = obstacle(config, config.server[0], run.root, Plan())
    assert found is not None and found.permanent and FIX in found.reason
    # What was retuned over it counts.
    right = Plan(settings={"speculative-algorithm": "EAGLE3"})
    assert obstacle(config, config.server[0], run.root, right) is None
    assert missing(parse_config(run_toml(WRONG.replace("EAGLE", "EAGLE3"))), run) == []


def test_a_retune_to_it_is_refused_before_anything_is_stopped(
    tmp_path: Path, drafter: Path
) -> None:
    view = ServerView(
        name="s",
        argv=("python", "--speculative-draft-model-path", "drafter"),
        fault=lambda argv: command_fault(argv, tmp_path),
    )
    with pytest.raises(CannotRetune, match="s: The drafter is an EAGLE-3 one"):
        orders([view], None, {"speculative-algorithm": "EAGLE"})
    (order,) = orders([view], None, {"speculative-algorithm": "EAGLE3"})
    assert order.changes == {"speculative-algorithm": "EAGLE3"}


def test_two_servers_cannot_have_one_port() -> None:
    def toml(*ports: str) -> str:
        servers = [
            f'[[server]]\nname = "s{n}"\nengine = "embedded"\n{port}\n'
            for n, port in enumerate(ports)
        ]
        return run_toml("").split("[[server]]")[0] + "".join(servers)

    with pytest.raises(ConfigError, match="two servers want port 3000; ports must differ"):
        parse_config(toml("port = 3000", "port = 3000"))
    assert len(parse_config(toml("port = 3000", "port = 3001", "", "")).server) == 4
