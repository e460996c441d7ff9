"""Orders that meet a fault of the program, or that hold what cannot be written: refused, once."""

from __future__ import annotations

import errno
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from eagle_tui.clock import Clock, ManualClock
from eagle_tui.protocol import CommandRequest, CommandStatus
from eagle_tui.supervisor import commands
from eagle_tui.supervisor.app import make_app
from eagle_tui.supervisor.core import Supervisor

Supervise = Callable[[Path, Clock], Supervisor]


@pytest.fixture
def supervisor(tmp_path: Path, supervise: Supervise) -> Supervisor:
    return supervise(tmp_path, ManualClock(1.0))


def order(supervisor: Supervisor, verb: str, **args: Any) -> CommandStatus:
    return supervisor.orders.request(CommandRequest(id=f"{verb}-1", verb=verb, args=args))


def told(supervisor: Supervisor) -> list[str]:
    return [event.text for event in supervisor.store.events(0, 100)]


def test_an_order_that_meets_a_fault_is_refused(
    supervisor: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fault(*_: object) -> None:
        raise OverflowError("too large")

    monkeypatch.setattr(commands, "apply", fault)
    left = CommandStatus(id="left", verb="skip", args={}, state="requested", at=1.0)
    supervisor.store.request(left)  # a supervisor before died of it
    found = order(supervisor, "cap", dataset="a", tokens=5)
    assert found.state == "refused"
    assert "a fault of eagle-tui: OverflowError('too large')" in found.reason
    assert any(text.startswith("cap refused: ") for text in told(supervisor))
    assert not supervisor._round()
    kept = supervisor.store.command("left")
    assert kept is not None and kept.status.state == "refused"
    preview = supervisor.orders.preview("cap", {})
    assert not preview.allowed and "OverflowError" in preview.sentence


def deep(levels: int) -> Any:
    return [deep(levels - 1)] if levels else []


@pytest.mark.parametrize(
    ("verb", "args"),
    [
        ("flag", {"dataset": "a", "id": "r", "note": "gr\udcfcn"}),
        ("flag", {"dataset": "a", "id": "r\udcfc"}),
        ("cap", {"dataset": "a", "tokens": math.nan}),
        ("cap", {"dataset": "a", "tokens": deep(400)}),
        ("retune", {"settings": {"tp\udcfc": -math.inf}}),
    ],
)
async def test_what_cannot_be_written_is_not_in_the_status(
    supervisor: Supervisor, verb: str, args: dict[str, Any]
) -> None:
    transport = httpx.ASGITransport(app=make_app(supervisor))
    async with httpx.AsyncClient(transport=transport, base_url="http://run") as client:
        body = json.dumps({"id": "1", "verb": verb, "args": args, "origin": "test"})
        stored = await client.post("/v1/commands", content=body)
        assert stored.status_code == 200 and stored.json()["state"] != "requested"
        asked = await client.post("/v1/preview", content=json.dumps({"verb": verb, "args": args}))
        assert asked.status_code == 200
        assert not supervisor._round()
        answer = await client.get("/v1/status")
    (command,) = answer.json()["commands"]
    assert command["verb"] == verb


def test_a_cap_beyond_all_reason_is_refused(supervisor: Supervisor) -> None:
    for args in ({"tokens": 10**400}, {"samples": 2**63}):
        with pytest.raises(commands.Refusal, match="more than the most allowed"):
            commands.apply(supervisor.orders._view(), "cap", {"dataset": "a", **args})


def test_what_an_order_cannot_do_beside_it_keeps_no_other_order_up(
    supervisor: Supervisor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def remake(_: str) -> None:
        raise PermissionError(errno.EACCES, "no", "bench")

    monkeypatch.setattr(supervisor.board, "remake", remake)
    (tmp_path / "flagged.json").symlink_to("flagged.json")  # ELOOP, whoever asks
    assert order(supervisor, "flag", dataset="a", id="r").state == "accepted"
    supervisor.store.put(
        "todo", [{"again": ["bench"], "forgive": [], "intent": None, "flag": None}]
    )
    assert order(supervisor, "down").state == "accepted"
    assert supervisor._round(), "the run is down"
    said = ("the flag could not be kept: ", "the manifest of bench cannot be put away: ")
    assert sum(text.startswith(said) for text in told(supervisor)) == 2
