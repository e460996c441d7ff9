"""What is decided about servers without looking at any: hangs, restarts, memory, keys."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle_tui.config.model import SupervisorSection
from eagle_tui.protocol import GpuStatus
from eagle_tui.supervisor.phases import Deaths
from eagle_tui.supervisor.server import memory
from eagle_tui.supervisor.server.hang import HangWatch
from eagle_tui.supervisor.server.resolved import footprint, parse
from eagle_tui.supervisor.server.restart import verdict
from eagle_tui.telemetry.diagnosis import Diagnosis
from eagle_tui.text import redact

SETTINGS = SupervisorSection(restarts=2, restart_window_s=100.0, backoff_s=1.0)


def test_a_busy_prefill_is_no_hang() -> None:
    # The token counter stands still for ten minutes, the scheduler's snapshot moves on.
    watch = HangWatch(0.0)
    for second in range(0, 600, 5):
        watch.see((1000.0, float(second // 20)), float(second))
        assert watch.still_s(float(second)) < 20.0


def test_no_answer_and_no_movement_are_hangs() -> None:
    watch = HangWatch(0.0)
    watch.see((5.0, 1.0), 10.0)
    watch.see((5.0, 1.0), 50.0)
    watch.see(None, 90.0)
    assert watch.still_s(100.0) == 90.0
    watch.idle(101.0)
    assert watch.still_s(101.0) == 0.0


@given(st.lists(st.sampled_from(["idle", "move", "still", "silent"]), max_size=40))
def test_time_is_counted_since_the_last_sign_of_life(looks: list[str]) -> None:
    watch, counter, alive_at = HangWatch(0.0), 0, 0
    for now, look in enumerate(looks, 1):
        if look == "idle":
            watch.idle(now)
        elif look == "silent":
            watch.see(None, now)
        else:
            moved = look == "move" or counter == 0
            counter += moved
            watch.see(counter, now)
            alive_at = now if moved else alive_at
        alive_at = now if look == "idle" else alive_at
    assert watch.still_s(len(looks)) == len(looks) - alive_at


def test_deaths_of_a_server() -> None:
    deaths = Deaths()
    waits = []
    for now in (0.0, 1.0, 2.0):
        said = verdict(
            deaths, "x", None, SETTINGS, now=now, started=now, was_ready=True, trial=False
        )
        deaths = said.deaths
        waits.append(said.wait_s)
    assert waits == [1.0, 2.0, None] and said.failed
    assert said.sentence == "died 3 times, given up: x"


def test_what_cannot_help_is_not_tried_but_for_one_that_was_ready() -> None:
    found = Diagnosis("bad-flag", "s", "r", permanent=True)
    for was_ready, failed in ((False, True), (True, False)):
        said = verdict(
            Deaths(), "x", found, SETTINGS, now=0.0, started=0.0, was_ready=was_ready, trial=False
        )
        assert said.failed is failed


def test_memory() -> None:
    gpus = [GpuStatus(index=i, name="g", mem_used=i << 30, age_s=1.0) for i in range(4)]
    assert memory.in_use(gpus, [1, 2]) == {1: 1 << 30, 2: 2 << 30}
    assert memory.in_use(gpus, [7]) is None
    old = [gpu.model_copy(update={"age_s": 60.0}) for gpu in gpus]
    assert memory.in_use(old, []) is None
    assert memory.still_held({0: 0, 1: 1 << 30}, {0: 400 << 20, 1: 4 << 30}) == (
        "GPU 1 holds 3.0 GiB more than before the launch"
    )


def test_keys_are_not_saved() -> None:
    line = "server_args=ServerArgs(api_key='s3cret', admin_api_key=\"s4cret\", x=1) --api-key s5 -y"
    assert redact(line) == (
        "server_args=ServerArgs(api_key='***', admin_api_key=\"***\", x=1) --api-key *** -y"
    )
    info = {"api_key": "s3cret", "max_running_requests": 4, "disable_x": False, "list": [1]}
    found = parse(info | {"max_total_num_tokens": 9})
    assert dict(found.flags) == {
        "max-running-requests": "4",
        "disable-x": "false",
        "max-total-num-tokens": "9",
    }
    assert found.pool == 9


@pytest.mark.parametrize("version", ["0.5.17", "0.5.23"])
def test_what_a_server_holds_by_its_own_account(version: str) -> None:
    recorded = {"0.5.17": (0.286, 0.352, 16.877), "0.5.23": (0.257, 0.352, 18.081)}
    weight, kv, left = recorded[version]
    graph = {"prefill": 0.0, "decode": 0.5}
    use = {"weight": weight, "kvcache": kv, "startup_available": left, "graph": graph}
    info = {"internal_states": [{"memory_usage": use}, {"memory_usage": {**use, "weight": 0.1}}]}
    found = footprint(info)
    assert found is not None
    assert found.weights == int(weight * 2**30) and found.kv == int(kv * 2**30)
    assert found.free_before == pytest.approx((weight + kv + left + 0.5) * 2**30, abs=2)
    for nothing in ({}, {"internal_states": [{"memory_usage": {"weight": 1}}, 3]}):
        assert footprint(nothing) is None
