"""AMD GPUs through amd-smi and rocm-smi; shapes of their JSON as public reports show them
(AMD SMI 24 to 26, ROCm-SMI 1.4 to 4)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle_tui.protocol import GpuStatus
from eagle_tui.telemetry import amd_sampler
from eagle_tui.telemetry.amd_sampler import Sampler, number, parse_amd_smi, parse_rocm_smi

MI355X = {
    "gpu": 0,
    "mem_usage": {
        "total_vram": {"value": 294896, "unit": "MB"},
        "used_vram": {"value": 283, "unit": "MB"},
    },
    "usage": {
        "gfx_activity": {"value": 40, "unit": "%"},
        "umc_activity": {"value": 7, "unit": "%"},
        "vcn_activity": [{"value": 0, "unit": "%"}, "N/A"],
    },
    "power": {"socket_power": {"value": 239, "unit": "W"}, "throttle_status": "UNTHROTTLED"},
    "temperature": {"edge": "N/A", "hotspot": {"value": 36, "unit": "C"}, "mem": "N/A"},
    "clock": {"gfx_0": {"clk": {"value": 132, "unit": "MHz"}}},
    "energy": {"total_energy_consumption": {"value": 12345.5, "unit": "J"}},
    "ecc": {"total_uncorrectable_count": 0},
}
STATIC = [{"gpu": 0, "asic": {"market_name": "AMD Instinct MI355X"}}]
ROCM = {
    "card1": {"GPU use (%)": "83", "VRAM Total Memory (B)": "17163091968"},
    "card0": {
        "Temperature (Sensor edge) (C)": "47.0",
        "Current Socket Graphics Package Power (W)": "9.215",
        "GPU use (%)": "12",
        "VRAM Total Memory (B)": "536870912",
        "VRAM Total Used Memory (B)": "482263040",
        "Card Series": "Rembrandt [Radeon 680M]",
    },
    "system": {"Driver version": "6.16.6"},
}


@pytest.mark.parametrize("wrapped", [False, True])
def test_amd_smi_in_both_wrappings(wrapped: bool) -> None:
    metric: Any = {"gpu_data": [MI355X]} if wrapped else [MI355X]
    static: Any = {"gpu_data": STATIC} if wrapped else STATIC
    (gpu,) = (GpuStatus.model_validate(row) for row in parse_amd_smi(metric, static))
    assert (gpu.index, gpu.name, gpu.util, gpu.power_w) == (0, "AMD Instinct MI355X", 0.4, 239.0)
    assert (gpu.mem_used, gpu.mem_total) == (283 * 2**20, 294896 * 2**20)
    assert (gpu.temp_c, gpu.mem_temp_c, gpu.sm_clock) == (36, None, 132)
    assert (gpu.energy_j, gpu.throttle, gpu.ecc_errors) == (12345.5, "", 0)


def test_what_amd_smi_does_not_say_is_null() -> None:
    (row,) = parse_amd_smi([{"gpu": 3, "usage": "N/A", "mem_usage": "N/A"}])
    gpu = GpuStatus.model_validate(row)
    assert (gpu.index, gpu.name, gpu.util, gpu.mem_used) == (3, "AMD GPU", None, None)
    assert gpu.throttle is None


def test_rocm_smi() -> None:
    first, second = (GpuStatus.model_validate(row) for row in parse_rocm_smi(ROCM))
    assert (first.index, first.name, first.util) == (0, "Rembrandt [Radeon 680M]", 0.12)
    assert (first.power_w, first.temp_c, first.mem_used) == (9.215, 47.0, 482263040)
    assert (second.index, second.util, second.power_w) == (1, 0.83, None)


def tool(folder: Path, name: str, body: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def test_whichever_tool_is_there_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert Sampler().look() == {"note": amd_sampler.NONE, "absent": True}
    tool(tmp_path, "rocm-smi", f"echo '{json.dumps(ROCM)}'")
    assert [g["index"] for g in Sampler().look()["gpus"]] == [0, 1]
    answers = {"metric": [MI355X], "static": STATIC}
    tool(tmp_path, "amd-smi", "\n".join(
        f"[ $1 = {name} ] && echo '{json.dumps(body)}'" for name, body in answers.items()
    ) + "\ntrue")  # fmt: skip
    assert Sampler().look()["gpus"][0]["name"] == "AMD Instinct MI355X"
    tool(tmp_path, "amd-smi", "echo 'Unable to open /dev/kfd' >&2; exit 1")
    assert Sampler().look() == {"note": "amd-smi: Unable to open /dev/kfd"}
    tool(tmp_path, "amd-smi", "echo '[]'")
    assert Sampler().look() == {"note": "amd-smi sees no GPU"}


def test_numbers_with_units() -> None:
    assert number({"value": 2, "unit": "GB"}) == 2 * 2**30
    assert number({"value": "N/A", "unit": "MB"}) is None
    assert number("12.5") == 12.5
    assert number(float("nan")) is None and number("inf") is None


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["gpu", "gpu_data", "usage", "gfx_activity", "value", "unit", "power",
                         "socket_power", "temperature", "card0", "GPU use (%)", "mem_usage",
                         "used_vram", "clock", "gfx_0", "asic"]), inner, max_size=5),
    max_leaves=20,
)  # fmt: skip


@given(json_values, json_values)
def test_any_json_is_taken(metric: Any, static: Any) -> None:
    for row in [*parse_amd_smi(metric, static), *parse_rocm_smi(metric)]:
        GpuStatus.model_validate(row)
        json.dumps(row, allow_nan=False)
