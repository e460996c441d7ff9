"""A real run: commands outlive the supervisor and are taken back; responses are flagged, files read
by the client."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from harness import Run

from eagle_tui import proc
from eagle_tui.client import SocketClient
from eagle_tui.protocol import Status
from eagle_tui.records import JournalQuery, LogQuery, SampleQuery
from eagle_tui.rundir import flags

T = TypeVar("T")


def caps(status: Status) -> dict[str, int | None]:
    """By dataset: its cap in responses."""
    return {dataset.name: dataset.cap_samples for dataset in status.datasets}


def ask(run: Run, what: Callable[[SocketClient], Coroutine[Any, Any, T]]) -> T:
    """Ask the run by its client."""

    async def look() -> T:
        async with SocketClient(run.dir, origin="test") as client:
            return await what(client)

    return asyncio.run(look())


def test_commands_last_are_undone_and_files_are_read(new_run: Callable[..., Run]) -> None:
    run = new_run("generate.concurrency=2", rows=7)
    run.up()
    run.wait("a response", lambda s: (s.phases[1].done or 0) >= 1)
    run.verb("cap", "b6-sort", "--samples", "3")
    run.verb("pause")
    run.verb("cap", "b1-arith", "--samples", "3")
    # The status is made once a second.
    paused = run.wait("the cap", lambda s: caps(s)["b1-arith"] == 3)
    (pause,) = [c for c in paused.commands if c.verb == "pause"]
    assert pause.undo == "generation goes on" and pause.accepted_at is not None

    # The supervisor is killed: what was ordered still holds.
    (supervisor,) = run.processes("supervisor")
    proc.send(supervisor, signal.SIGKILL)
    status = run.wait("paused again", lambda s: s.phases[1].state == "paused")
    assert (caps(status)["b6-sort"], caps(status)["b1-arith"]) == (3, 3)
    assert [c.state for c in status.commands] == ["in_effect"] * 3
    before = status.phases[1].done
    time.sleep(1.5)
    assert run.status().phases[1].done == before

    # So is what is kept with the commands.
    said = run.verb("undo").stdout
    assert "b1-arith: cap in responses as in run.toml" in said
    run.wait("its cap is gone", lambda s: caps(s)["b1-arith"] is None)
    # The undo is a command, and is taken back by its id.
    undone = run.wait("the undo in effect", lambda s: s.commands[-1].state == "in_effect")
    undo = undone.commands[-1]
    assert undo.verb == "undo"
    run.verb("undo", undo.id[:8])
    run.wait("its cap is back", lambda s: caps(s)["b1-arith"] == 3)
    refused = run.verb("undo", undo.id[:8], check=False)
    assert refused.returncode == 3 and "changed again since" in refused.stdout + refused.stderr
    run.verb("undo", pause.id)
    run.wait("going on", lambda s: s.phases[1].state != "paused")

    # A response is flagged, and found again by the flag.
    page = ask(run, lambda client: client.find_samples(SampleQuery(limit=5)))
    head = page.heads[0]
    run.verb("flag", head.dataset, head.id, "--note", "odd \x1b[2J")
    (flag,) = flags.read(run.dir)
    assert (flag.dataset, flag.id, flag.note) == (head.dataset, head.id, "odd \x1b[2J")
    found = ask(run, lambda client: client.find_samples(SampleQuery(order="flagged")))
    assert [(h.id, h.flagged) for h in found.heads] == [(head.id, True)]
    run.verb("flag", head.dataset, head.id, "--undo")
    nobody = run.verb("flag", head.dataset, "nobody", check=False)
    assert nobody.returncode == 4 and "nobody" in nobody.stderr
    assert flags.read(run.dir) == ()

    # Its tokens are those that merge will train on.
    view = ask(run, lambda client: client.sample_tokens(head.dataset, head.id, head.offset))
    sample = ask(run, lambda client: client.sample(head.dataset, head.id))
    assert view.prompt == sample.prompt_tokens and view.note == ""
    assert sum(view.mask) == len(view.ids) - view.prompt and view.pieces is not None
    assert (sample.content or sample.reasoning)[:5] in "".join(view.pieces)

    # The journal and the logs tell all of it.
    journal = ask(run, lambda client: client.journal(JournalQuery(text="undo", limit=500)))
    verbs = [e.command.verb for e in journal.entries if e.command is not None]
    assert verbs.count("undo") == 3
    logs = ask(run, lambda client: client.log_files())
    assert {"supervisor-0001.log", "generate-0001.log"} <= {file.name for file in logs}
    engine = next(file.name for file in logs if file.name.startswith("server-"))
    tail = ask(run, lambda client: client.log_page(LogQuery(name=engine, backward=True, rows=5)))
    assert len(tail.lines) == 5 and any(line.at for line in tail.lines)

    # The cap that was not taken back holds to the end.
    status = run.wait_done()
    capped = next(d for d in status.datasets if d.name == "b6-sort")
    assert (capped.state, capped.done) == ("capped", 3)
