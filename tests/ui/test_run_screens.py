"""The screens GPUs, Server and Phases: what they tell, also of a run that has little to tell."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle_tui.protocol import Estimate, GpuStatus, Launch, PhaseStatus, RetuneStatus
from eagle_tui.records import AttemptRecord
from eagle_tui.ui.app import EagleApp
from eagle_tui.ui.chart import strip
from eagle_tui.ui.glyphs import GlyphMode
from eagle_tui.ui.phase_lines import foretold, outcome
from eagle_tui.ui.screens.gpus import gpu_facts
from eagle_tui.ui.screens.retune import RetuneDialog
from eagle_tui.ui.widgets.server_table import settings_text

MakeApp = Callable[..., EagleApp]


def _change(client: Any, part: str, index: int, **values: Any) -> None:
    rows = list(getattr(client.now, part))
    rows[index] = rows[index].model_copy(update=values)
    client.now = client.now.model_copy(update={part: tuple(rows)})


# GPUs


@given(
    st.lists(st.none() | st.floats(allow_nan=True, allow_infinity=True), max_size=50),
    st.floats(0, 2000),
    st.sampled_from(["braille", "block", "ascii"]),
)
def test_a_strip_has_one_cell_per_value(
    values: list[float | None], top: float, mode: GlyphMode
) -> None:
    parts = strip(values, top, mode)
    assert sum(len(text) for text, _ in parts) == len(values)
    assert all(share is None or 0 <= share <= 1 for _, share in parts)
    assert mode != "ascii" or "".join(text for text, _ in parts).isascii()


def test_a_strip_is_high_where_the_value_is() -> None:
    assert strip([0.0, 0.5, 1.0, None], 1.0, "block") == [
        (" ", 0.0), ("▄", 0.5), ("█", 1.0), ("·", None),
    ]  # fmt: skip


def test_a_gpu_tells_only_what_it_knows_and_what_is_bad() -> None:
    plain = gpu_facts(GpuStatus(index=0, name="H200"))
    assert [label for label, _, _ in plain] == ["GPU", "state"]
    ill = GpuStatus(
        index=3, name="H200\x1b[2J", state="lost", throttle="power cap", ecc_errors=2, xid=79,
        sm_clock=1200, sm_clock_max=1980, energy_j=7.2e6, processes=((41, 2**30),),
    )  # fmt: skip
    told = {label: (value, bad) for label, value, bad in gpu_facts(ill)}
    assert told["state"] == ("lost", True) and told["Xid"] == ("79", True)
    assert told["memory errors"] == ("2", True) and told["clock"] == ("1200/1980 MHz", False)
    assert told["energy"] == ("2.00 kWh", False) and told["process"] == ("pid 41 1.00 GiB", False)
    assert "\x1b" not in told["GPU"][0]


async def test_gpus_over_time_and_one_in_detail(client: Any, make_app: MakeApp, ui: Any) -> None:
    app = make_app(client)
    async with ui.run(app, size=(200, 50)) as pilot:
        await ui.ready(pilot)
        await pilot.press("5")
        await ui.until(pilot, lambda: "GPU 0 utilization" in ui.text(app))
        await ui.until(pilot, lambda: "█" in ui.text(app))
        assert "thermal slowdown" in ui.text(app)
        await pilot.press("down", "down", "down", "down")
        await ui.until(pilot, lambda: "GPU 4 temperature" in ui.text(app))
        assert "throttled by" in ui.text(app)
        await ui.until(pilot, lambda: not app.past.lacks(app.screen.metrics()))
        assert "gpu4.temp_c" in app.screen.metrics() and "gpu7.util" in app.screen.metrics()
        await pilot.press("v")
        await ui.until(pilot, lambda: "gpu7.mem" in app.screen.metrics())


@pytest.mark.parametrize("size", [(60, 20), (160, 40)])
async def test_without_a_gpu_the_machine_is_shown(
    size: tuple[int, int], laptop: Any, make_app: MakeApp, ui: Any
) -> None:
    app = make_app(laptop)
    async with ui.run(app, size=size) as pilot:
        await ui.ready(pilot)
        await pilot.press("5")
        await ui.until(pilot, lambda: "memory of the machine" in ui.text(app))
        assert "CPU" in ui.text(app) and "disk" in ui.text(app)
        await pilot.press("down", "v", "plus", "M", "end")
        assert app.is_running


# Server


async def test_launches_with_settings_outcome_and_effect(
    client: Any, make_app: MakeApp, ui: Any
) -> None:
    app = make_app(client)
    async with ui.run(app, size=(160, 40)) as pilot:
        await ui.ready(pilot)
        await pilot.press("4")
        await ui.until(pilot, lambda: "mem-fraction-static=0.88" in ui.text(app))
        text = ui.text(app)
        for shown in ("862 → 1,187 tok/s (+38 % ± 4)", "as in run.toml", "14m 30s", "1.42M", "82%"):
            assert shown in text, shown
        await pilot.press("end")
        await ui.until(pilot, lambda: "CUDA out of memory in prefill" in ui.text(app))
        assert "lower mem-fraction-static" in ui.text(app)
        await ui.until(pilot, lambda: "nothing measured here" not in ui.text(app))
        await pilot.press("m")
        await ui.until(pilot, lambda: isinstance(app.screen, RetuneDialog))


async def test_a_start_shows_its_stage_and_a_retune_its_step(
    client: Any, make_app: MakeApp, ui: Any
) -> None:
    tune = RetuneStatus(
        id=1, server="sglang", step="starting", changes="mem-fraction-static 0.85 → 0.88",
        at=client.now.at, updated=client.now.at,
    )  # fmt: skip
    _change(
        client, "servers", 0, state="starting", stage="weights", progress=0.41, eta_s=510.0,
        reason="loading weights, 41 of 64 shards", retune=tune,
    )  # fmt: skip
    app = make_app(client)
    async with ui.run(app, size=(120, 30)) as pilot:
        await ui.ready(pilot)
        await pilot.press("4")
        await ui.until(pilot, lambda: "ready in about 8m 30s" in ui.text(app))
        text = ui.text(app)
        for shown in ("weights", "41%", "41 of 64 shards", "0.85 → 0.88  starting"):
            assert shown in text, shown
        _change(client, "servers", 0, state="ready", reason="", retune=None)
        await ui.until(pilot, lambda: "ready in about" not in ui.text(app))


async def test_servers_are_gone_through(client: Any, make_app: MakeApp, ui: Any) -> None:
    servers = [*client.now.servers, client.now.servers[0].model_copy(update={"name": "second"})]
    client.now = client.now.model_copy(update={"servers": tuple(servers)})
    app = make_app(client)
    async with ui.run(app, size=(120, 30)) as pilot:
        await ui.ready(pilot)
        await pilot.press("4")
        await ui.until(pilot, lambda: "server.sglang.tok_s" in app.screen.metrics())
        await pilot.press("enter")
        await ui.until(pilot, lambda: "server.second.tok_s" in app.screen.metrics())
        await pilot.press("enter")
        await ui.until(pilot, lambda: "server.sglang.tok_s" in app.screen.metrics())


def test_settings_are_written_as_they_are_asked_for() -> None:
    launch = Launch(server="s", attempt=1, launched_at=0.0)
    assert settings_text(launch) == "as in run.toml"
    changed = launch.model_copy(update={"settings": {"a": "1", "b": None}})
    assert settings_text(changed) == "a=1, b left out"


# Phases


def _estimate(elapsed_s: float, *eta_s: float) -> Estimate:
    return Estimate(phase="merge", at=0.0, attempt=1, elapsed_s=elapsed_s, eta_s=eta_s)  # type: ignore[arg-type]


def test_estimates_are_held_against_what_came() -> None:
    done = PhaseStatus(name="merge", state="done", elapsed_s=200.0)
    early, late = foretold([_estimate(10, 90, 230, 400), _estimate(100, 10, 50, 90)], done)
    assert (early.middle_s, early.within, early.final) == (240, True, True)
    assert early.error == pytest.approx(0.2)
    assert (late.error, late.within) == (pytest.approx(-0.25), False)
    running = PhaseStatus(name="merge", state="running", elapsed_s=50.0, eta_s=(10, 50, 90))
    assert foretold([_estimate(10, 90, 90, 90)], running)[0].actual_s == 100
    assert not foretold([_estimate(10, 90, 90, 90)], running)[0].final
    assert foretold([], running) == []


def test_an_attempt_without_an_end_was_killed_unless_it_may_run() -> None:
    torn = AttemptRecord(number=1, began_at=0.0, last_at=5.0)
    assert outcome(torn, newest=False)[0] == "killed"
    assert outcome(torn, newest=True)[0] == "no end yet"
    assert outcome(torn.model_copy(update={"ended": True, "outcome": "done"}), True)[1] == "done"


async def test_a_phase_tells_what_it_made_from_what(
    client: Any, make_app: MakeApp, ui: Any
) -> None:
    _change(client, "phases", 0, state="stale", reason="changed: dataset b1_glaive")
    app = make_app(client)
    async with ui.run(app, size=(120, 30)) as pilot:
        await ui.ready(pilot)
        await pilot.press("8", "up", "up")
        await ui.until(pilot, lambda: "20 files, 393 MiB" in ui.text(app))
        text = ui.text(app)
        for shown in (
            "changed: dataset b1_glaive", "prompts: 88,088", "dataset b1_glaive  aa01", "25m 00s",
        ):  # fmt: skip
            assert shown in text, shown
        await pilot.press("down")
        await ui.until(pilot, lambda: "29% too long, within the range" in ui.text(app))
        assert "killed" in ui.text(app) and "no end yet" in ui.text(app)
        await pilot.press("a")
        await ui.until(pilot, lambda: app.screen.is_modal)


# All


@pytest.mark.parametrize(
    ("size", "mode", "scene"),
    [
        ((1, 1), "braille", "client"),
        ((60, 20), "ascii", "client"),
        ((60, 20), "ascii", "laptop"),
        ((300, 80), "braille", "client"),
    ],
)
async def test_no_size_breaks_a_screen(
    size: tuple[int, int], mode: str, scene: str, request: Any, make_app: MakeApp, ui: Any
) -> None:
    app = make_app(request.getfixturevalue(scene), glyphs_mode=mode)
    async with ui.run(app, size=(120, 40)) as pilot:
        await ui.ready(pilot)
        await pilot.resize_terminal(*size)
        for key in ("2", "enter", "4", "5", "8", "9"):
            await pilot.press(key, "down", "pagedown", "end")
            await pilot.pause(0.05)
            if mode == "ascii" and size[0] >= 60:
                assert ui.text(app).isascii(), [c for c in ui.text(app) if not c.isascii()]
        assert app.is_running


async def test_hidden_screens_draw_nothing(
    client: Any, make_app: MakeApp, ui: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = make_app(client)
    async with ui.run(app, size=(120, 40)) as pilot:
        await ui.ready(pilot)
        await pilot.press("8")
        await ui.until(pilot, lambda: app.shown.NAME == "phases" and app.shown.table.keys())
        drawn: list[str] = []
        monkeypatch.setattr(type(app.main), "show", lambda self, frame: drawn.append("overview"))
        polls = client.polls
        await ui.until(pilot, lambda: client.polls > polls + 3)
        assert drawn == []
        await pilot.press("1")
        await ui.until(pilot, lambda: drawn)
