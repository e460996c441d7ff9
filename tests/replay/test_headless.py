"""Without a screen: what a run that is down still tells, and a line only when something changes."""

from __future__ import annotations

import json
import re

import pytest

from eagle_tui.cli import main as cli
from eagle_tui.cli.headless import Changes, outcome
from eagle_tui.protocol import Alert, CommandStatus, Event, Status
from eagle_tui.replay.client import ReplayClient
from eagle_tui.rundir.paths import RunDir
from eagle_tui.supervisor.store import Store

START = 1_800_000_000.0


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        cli.main(list(words))
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_a_run_that_is_down_still_tells(
    recorded: RunDir, capsys: pytest.CaptureFixture[str]
) -> None:
    root = str(recorded.root)
    assert run("status", root) == 0
    assert "stopped" in capsys.readouterr().out
    assert run("status", root, "--json") == 0
    assert json.loads(capsys.readouterr().out)["supervisor"]["state"] == "stopped"
    assert run("status", root, "--markdown") == 0
    said = capsys.readouterr().out
    assert re.search(r"^\| b1_glaive +\| capped +\|", said, re.M)
    assert re.search(r"^\| generate .*first 0\.8–2\.5 h, now 1\.8–2\.1 h", said, re.M)
    assert run("events", root) == 0
    assert "something was odd" in capsys.readouterr().out
    assert run("events", root, "--json") == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["source"] for line in lines] == ["generate", "operator", "operator", "generate"]
    assert run("events", root, "--follow") == 3
    assert run("watch", root, "--plain") == 3
    assert "the run is down" in capsys.readouterr().err
    assert not recorded.lock.exists(), "no supervisor was started"


def test_a_look_at_a_copy_starts_nothing(
    recorded: RunDir, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run that was copied while it went on: its supervisor is another machine's business."""
    path = recorded.root / "status.json"
    body = json.loads(path.read_text())
    body["supervisor"]["state"] = "running"
    path.write_text(json.dumps(body))
    root = str(recorded.root)
    assert run("status", root, "--json") == 0
    assert json.loads(capsys.readouterr().out)["supervisor"]["state"] == "gone"
    assert run("events", root) == 0
    capsys.readouterr()
    assert run("pause", root) == 3
    assert "copied or moved from /" in capsys.readouterr().err
    assert not recorded.lock.exists() and not recorded.logs.exists()


def test_the_report_of_a_run_that_is_down(
    recorded: RunDir, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("report", str(recorded.root), "--stdout") == 0
    shown = capsys.readouterr().out
    assert not recorded.reports.exists()
    assert "## Estimates against actuals" in shown and "pause hold" in shown
    assert "(5m 00s of pauses in the run)" in shown
    assert run("report", str(recorded.root)) == 0
    path = capsys.readouterr().out.strip()
    (written,) = recorded.reports.iterdir()
    assert str(written) == path and written.read_text() == shown


def test_screens_need_a_terminal_and_replays_something_to_show(
    recorded: RunDir, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("attach", str(recorded.root)) == 2
    assert run("replay", str(recorded.root)) == 2
    assert "needs a terminal" in capsys.readouterr().err
    assert run("replay", str(recorded.root / "logs")) == 4
    assert run("replay", str(recorded.root), "--speed", "0") == 2


async def test_a_line_only_when_something_changes(recorded: RunDir) -> None:
    from eagle_tui.cli.look import at_end

    client = ReplayClient.open(recorded, at_end)
    now = await client.status()
    await client.close()
    changes = Changes(every_s=60.0)
    first = changes.lines(now, [], 0.0)
    assert any("generate" in line for line in first)
    assert changes.lines(now, [], 1.0) == []

    def generate(status: Status, **update: object) -> Status:
        phases = tuple(
            p.model_copy(update=update) if p.name == "generate" else p for p in status.phases
        )
        return status.model_copy(update={"phases": phases})

    assert changes.lines(generate(now, done=4000), [], 2.0) == [], "too soon for progress alone"
    (line,) = changes.lines(generate(now, done=4000), [], 61.0)
    assert "4,000/7,200" in line
    (line,) = changes.lines(generate(now, done=4000, state="paused"), [], 62.0)
    assert "paused" in line
    paused = generate(now, done=4000, state="paused")
    alert = Alert(rule="x", severity="error", sentence="it \x1b[2Jburns", remedy="", since=0.0)
    (line,) = changes.lines(paused.model_copy(update={"alerts": (alert,)}), [], 63.0)
    assert "error: it \u241b[2Jburns" in line
    (line,) = changes.lines(paused, [], 64.0)
    assert "over: it" in line
    event = Event(id=1, at=0.0, severity="warning", source="merge", text="odd\nrow")
    quiet = event.model_copy(update={"severity": "info"})
    (line,) = changes.lines(paused, [event, quiet], 65.0)
    assert line.endswith("warning: merge: odd row")
    server = paused.servers[0].model_copy(update={"state": "stopped", "reason": "died"})
    (line,) = changes.lines(paused.model_copy(update={"servers": (server,)}), [], 66.0)
    assert line.endswith("server sglang: stopped (died)")


async def test_when_following_ends(recorded: RunDir) -> None:
    from eagle_tui.cli.look import at_end

    client = ReplayClient.open(recorded, at_end)
    now = await client.status()
    await client.close()
    assert outcome(now) is None
    done = tuple(p.model_copy(update={"state": "done"}) for p in now.phases)
    assert outcome(now.model_copy(update={"phases": done})) == 0
    failed = (now.phases[0].model_copy(update={"state": "failed"}), *now.phases[1:])
    assert outcome(now.model_copy(update={"phases": failed})) == 1


def test_every_screen_has_a_twin_that_reads_a_run_that_is_down(
    recorded: RunDir, capsys: pytest.CaptureFixture[str]
) -> None:
    root = str(recorded.root)

    def told(*words: str, code: int = 0) -> str:
        assert run(*words) == code
        said = capsys.readouterr()
        return said.out if code == 0 else said.err

    assert "GPU" in told("status", root) and "disk " in told("status", root)
    names = told("datasets", root, "--sort", "name", "--filter", "glaive").split()
    assert "b1_glaive" in names and "b2_opencode" not in names
    body = json.loads(told("datasets", root, "b1_glaive", "--json"))
    assert body["name"] == "b1_glaive" and body["reasons"] == []
    assert "last hour" in told("datasets", root, "b1_glaive")
    assert "there are: " in told("datasets", root, "nope", code=4)
    assert "first 0.8–2.5 h" in told("phases", root)
    generate = told("phases", root, "generate")
    assert generate.startswith("generate  running") and "estimates" in generate
    assert re.search(r"output +none yet", generate)
    body = json.loads(told("phases", root, "generate", "--json"))
    assert [e["done"] for e in body["estimates"]] == [60, 720] and body["manifest"] is None
    assert "no phase is named 'x'" in told("phases", root, "x", code=4)
    assert told("result", root).startswith("bench has not run: generate runs, 3,600/7,200")
    assert json.loads(told("result", root, "--json"))["report"] is None
    assert "tok_s" in told("history", root).splitlines()
    # The run's own last hour, though it ended years before or after now.
    points = json.loads(told("history", root, "tok_s", "--since", "-10m", "--json"))["points"]
    assert points[0]["t"] >= START + 3000 - 60 and points[-1]["mean"] > 1100
    lines = told("history", root, "tok_s", "--since", "-10m", "--step", "60").splitlines()
    assert 9 <= len(lines) <= 11 and lines[0].startswith("2027-01-15 08:5")
    assert told("history", root, "tok_s", "--until", "-20d", "--since", "-21d") == ""
    told("history", root, "tok_s", "--since", "-1m", "--until", "-2m", code=2)
    told("history", root, "tok_s", "--since", "soon", code=2)
    told("history", root, "nonsense", code=4)
    assert [line.split()[-1] for line in told("marks", root).splitlines()] == [
        "starts", "hold", "resume",
    ]  # fmt: skip
    assert len(told("marks", root, "--since", "-26m").splitlines()) == 1


def test_events_are_filtered_and_orders_told_with_their_ids(
    recorded: RunDir, capsys: pytest.CaptureFixture[str]
) -> None:
    store = Store(recorded.state)
    for number in range(3):
        asked = CommandStatus(
            id=f"order{number}", verb="pause", args={"mode": "hold"}, state="requested",
            at=1_800_000_000.0 + number, origin="cli:\x1b[1mme",
        )  # fmt: skip
        store.request(asked)
    store.settle("order2", "refused", "nothing runs", 1_800_000_009.0)
    store.close()
    root = str(recorded.root)

    def told(*words: str) -> list[str]:
        assert run("events", root, *words) == 0
        return capsys.readouterr().out.splitlines()

    assert len(told()) == 4
    (line,) = told("--level", "warning")
    assert line.endswith("warning generate: something was odd")
    assert len(told("--search", "PAUSE")) == 1 and len(told("--source", "operator")) == 2
    assert len(told("--limit", "3")) == 3 and told("--limit", "1") == told()[-1:]
    both = told("--commands")
    assert len(both) == 7
    (refused,) = [line for line in both if "order2" in line]
    assert "cli:\u241b[1mme: pause hold: nothing runs" in refused and "refused +7.0 s" in refused
    assert {json.loads(line).get("id") for line in told("--commands", "--json", "-n", "7")} >= {
        "order0", "order2", 1,
    }  # fmt: skip
