"""The rules that name problems."""

from __future__ import annotations

from typing import Any

from eagle_tui import rules
from eagle_tui.protocol import (
    DatasetStatus,
    GpuStatus,
    HostStatus,
    PhaseStatus,
    RetuneStatus,
    RunStatus,
    ServerStatus,
    Status,
    SupervisorStatus,
)


def status(**changes: Any) -> Status:
    base: dict[str, Any] = {
        "at": 1000.0,
        "run": RunStatus(name="r", dir="/r", target="m"),
        "supervisor": SupervisorStatus(pid=1),
        "phases": (PhaseStatus(name="generate", state="running"),),
    }
    return Status(**{**base, **changes})


def rules_of(s: Status, reasoning: bool = True) -> dict[str, str]:
    return {a.rule: f"{a.severity}: {a.sentence}" for a in rules.alerts(s, {}, reasoning)}


def test_all_well_is_silent() -> None:
    assert rules_of(status()) == {}


def test_a_reasoning_model_without_reasoning() -> None:
    data = DatasetStatus(name="b1", complete=25, reasoning_share=0.0)
    assert "none of 25 responses" in rules_of(status(datasets=(data,)))["reasoning-b1"]
    assert "reasoning-b1" not in rules_of(status(datasets=(data,)), reasoning=False)
    few = data.model_copy(update={"complete": 5})
    assert "reasoning-b1" not in rules_of(status(datasets=(few,)))


def test_the_wrong_speculative_algorithm_shows_as_accept_length_one() -> None:
    server = ServerStatus(name="s", state="ready", accept_length=1.0)
    assert "accept length 1.00" in rules_of(status(servers=(server,)))["accept-s"]
    good = ServerStatus(name="s", state="ready", accept_length=2.1)
    assert "accept-s" not in rules_of(status(servers=(good,)))


def test_the_bottleneck_in_one_line() -> None:
    data = DatasetStatus(name="b1", in_flight=150)
    full = ServerStatus(name="s", state="ready", running=47, queued=103, kv_usage=0.81)
    said = rules_of(status(servers=(full,), datasets=(data,)))["bottleneck"]
    assert "the KV cache is the limit: 81 % full, 47 running, 103 queued of 150" in said
    idle = full.model_copy(update={"kv_usage": 0.2, "queued": 0})
    assert "generating: 150" in rules_of(status(servers=(idle,), datasets=(data,)))["bottleneck"]
    starting = ServerStatus(name="s", state="starting", reason="12 s so far")
    assert "is starting" in rules_of(status(servers=(starting,)))["bottleneck"]


def test_machine_and_phases() -> None:
    found = rules_of(
        status(
            phases=(PhaseStatus(name="merge", state="failed", reason="died 6 times"),),
            servers=(ServerStatus(name="s", state="failed", reason="died 6 times"),),
            gpus=(
                GpuStatus(index=3, name="X", state="lost"),
                GpuStatus(index=4, name="X", throttle="thermal", age_s=30.0),
                GpuStatus(index=5, name="X", throttle="power cap"),
            ),
            host=HostStatus(disk_free=1 << 30),
        )
    )
    assert found["phase-merge"].startswith("error: merge failed")
    assert found["server-s"].startswith("error")
    assert "GPU 3 is lost" in found["gpu-3"]
    assert "thermal" in found["gpu-4"]
    assert "gpu-5" not in found, "a power cap is how such machines are run"
    assert "30 s old" in found["gpu-age"]
    assert "1.0 GiB" in found["disk"]
    full = rules_of(status(host=HostStatus(disk_free=3 << 20)))
    assert "only 3.0 MiB of disk" in full["disk"]
    soon = status(host=HostStatus(disk_free=1 << 40, disk_full_at=1000.0 + 7200))
    assert "full in 2.0 h" in rules_of(soon)["disk"]


def test_errors_come_first_and_since_is_remembered() -> None:
    since: dict[str, float] = {}
    low = status(host=HostStatus(disk_free=1))
    rules.alerts(low, since, True)
    both = low.model_copy(
        update={"at": 2000.0, "phases": (PhaseStatus(name="merge", state="failed", reason="x"),)}
    )
    first, second = rules.alerts(both, since, True)
    assert (first.rule, first.since) == ("phase-merge", 2000.0)
    assert (second.rule, second.since) == ("disk", 1000.0)
    rules.alerts(status(at=3000.0), since, True)
    assert since == {}


def test_a_retune_is_said_instead_of_the_stand_still_that_it_causes() -> None:
    retune = RetuneStatus(
        id=1, server="one", step="starting", changes="f 1 → 2", at=0.0, updated=0.0
    )
    server = ServerStatus(
        name="one", state="starting", reason="loading weights; 9 s so far", eta_s=40.0
    )
    phase = PhaseStatus(name="generate", state="stalled", reason="no server is ready yet")
    without = rules_of(status(servers=(server,), phases=(phase,)))
    assert "phase-generate" in without
    found = rules_of(
        status(servers=(server.model_copy(update={"retune": retune}),), phases=(phase,))
    )
    assert "phase-generate" not in found
    assert found["retune-one"] == (
        "info: server one is retuned (f 1 → 2): loading weights; 9 s so far, about 40 s left"
    )
    # One that drains says how many requests are to come; one that waits says for what.
    draining = server.model_copy(
        update={
            "state": "stopping",
            "reason": "3 requests in flight finish first",
            "retune": retune.model_copy(update={"step": "pausing"}),
        }
    )
    assert "(f 1 → 2): 3 requests in flight" in rules_of(status(servers=(draining,)))["retune-one"]
    waiting = server.model_copy(
        update={"retune": retune.model_copy(update={"waits": "the variable KEY is not set"})}
    )
    assert rules_of(status(servers=(waiting,)))["retune-one"] == (
        "error: the retune of server one waits: the variable KEY is not set"
    )


def test_a_servers_own_remedy_is_given() -> None:
    server = ServerStatus(name="one", state="failed", reason="out of memory", remedy="lower it")
    alert = rules.alerts(status(servers=(server,)), {}, True)[0]
    assert alert.remedy == "lower it. Then `eagle-tui up` or `retune`"
