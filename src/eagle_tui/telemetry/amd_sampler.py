"""Child process for AMD GPUs: asks `amd-smi`, or else `rocm-smi`, and prints JSON lines.

The same lines as of the NVIDIA sampler. Both tools take about a second to answer, so the period is
longer. By hand: `python -m eagle_tui.telemetry.amd_sampler [--once]`.
"""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from eagle_tui.telemetry.gpu_child import run

PERIOD_S = 5.0
ASK_S = 8.0
"""The tool gets so long; less than what the supervisor waits for a line."""
BYTES = {"B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
"""Units of amd-smi are binary."""
NONE = "no AMD tool (amd-smi, rocm-smi) on this machine"

AMD_METRIC = ("amd-smi", "metric", "--json")
AMD_STATIC = ("amd-smi", "static", "--asic", "--json")
ROCM = (
    *("rocm-smi", "--showuse", "--showmeminfo", "vram", "--showpower", "--showtemp"),
    *("--showproductname", "--showmaxpower", "--json"),
)


def number(value: Any) -> float | None:
    """`{"value": 40, "unit": "%"}`, `"40.0"` or 40; None for N/A."""
    if isinstance(value, dict):
        found = number(value.get("value"))
        unit = str(value.get("unit", "")).upper()
        return None if found is None else found * BYTES.get(unit, 1)
    try:
        found = float(value)
    except (TypeError, ValueError):
        return None
    return found if math.isfinite(found) else None


def _at(body: Any, *path: str) -> Any:
    for key in path:
        body = body.get(key) if isinstance(body, dict) else None
    return body


def _first(values: Iterable[Any]) -> float | None:
    return next((n for v in values if (n := number(v)) is not None), None)


def _share(value: Any) -> float | None:
    found = number(value)
    return None if found is None else found / 100


def _whole(value: Any) -> int | None:
    found = number(value)
    return None if found is None else int(found)


def _items(body: Any) -> Iterator[dict[str, Any]]:
    """GPUs of an amd-smi answer: a list, or from ROCm 6.4 on `{"gpu_data": [...]}`."""
    rows = body.get("gpu_data") if isinstance(body, dict) else body
    if isinstance(rows, list):
        yield from (row for row in rows if isinstance(row, dict))


def parse_amd_smi(metric: Any, static: Any = None) -> list[dict[str, Any]]:
    """`amd-smi metric --json`, with the names of `amd-smi static --json`."""
    names = {_whole(row.get("gpu")): _at(row, "asic", "market_name") for row in _items(static)}
    found = []
    for index, row in enumerate(_items(metric)):
        gpu = _whole(row.get("gpu"))
        power = (_at(row, "power", "socket_power"), _at(row, "power", "average_socket_power"))
        temperature = _at(row, "temperature") or {}
        found.append(
            {
                "index": index if gpu is None else gpu,
                "name": str(names.get(gpu) or "AMD GPU"),
                "util": _share(_at(row, "usage", "gfx_activity")),
                "mem_bw_util": _share(_at(row, "usage", "umc_activity")),
                "mem_used": _whole(_at(row, "mem_usage", "used_vram")),
                "mem_total": _whole(_at(row, "mem_usage", "total_vram")),
                "power_w": _first(power),
                "energy_j": number(_at(row, "energy", "total_energy_consumption")),
                "temp_c": _first(_at(temperature, k) for k in ("hotspot", "edge")),
                "mem_temp_c": number(_at(temperature, "mem")),
                "sm_clock": _whole(_at(row, "clock", "gfx_0", "clk")),
                "ecc_errors": _whole(_at(row, "ecc", "total_uncorrectable_count")),
                "throttle": _amd_throttle(row),
                "state": "ok",
            }
        )
    return found


def _amd_throttle(row: dict[str, Any]) -> str | None:
    status = _at(row, "power", "throttle_status")
    if not isinstance(status, str) or status.upper() == "N/A":
        return None
    return "throttled" if status.upper() == "THROTTLED" else ""


def parse_rocm_smi(body: Any) -> list[dict[str, Any]]:
    """`rocm-smi --json`: `{"card0": {"GPU use (%)": "0", …}}`."""
    found: list[dict[str, Any]] = []
    for card, row in body.items() if isinstance(body, dict) else ():
        if not card.startswith("card") or not card[4:].isdigit() or not isinstance(row, dict):
            continue
        powers = (v for k, v in row.items() if k.endswith("Graphics Package Power (W)"))
        sensors = ("junction", "edge")
        heat = (row.get(f"Temperature (Sensor {s}) (C)") for s in sensors)
        series = row.get("Card Series") or row.get("Card series")
        found.append(
            {
                "index": int(card[4:]),
                "name": str(series or "AMD GPU"),
                "util": _share(row.get("GPU use (%)")),
                "mem_used": _whole(row.get("VRAM Total Used Memory (B)")),
                "mem_total": _whole(row.get("VRAM Total Memory (B)")),
                "power_w": _first(v for v in powers),
                "power_limit_w": number(row.get("Max Graphics Package Power (W)")),
                "temp_c": _first(heat),
                "mem_temp_c": number(row.get("Temperature (Sensor memory) (C)")),
                "state": "ok",
            }
        )
    return sorted(found, key=lambda gpu: gpu["index"])


class Sampler:
    """Asks whichever tool is there."""

    def __init__(self) -> None:
        self._static: Any = None
        if shutil.which("amd-smi"):
            self._tool = "amd-smi"
            self._static = _ask(AMD_STATIC)[0]
        else:
            self._tool = "rocm-smi" if shutil.which("rocm-smi") else ""

    def look(self) -> dict[str, Any]:
        """One line."""
        if not self._tool:
            return {"note": NONE, "absent": True}
        body, why_not = _ask(AMD_METRIC if self._tool == "amd-smi" else ROCM)
        if why_not:
            return {"note": f"{self._tool}: {why_not}"}
        gpus = (
            parse_amd_smi(body, self._static) if self._tool == "amd-smi" else parse_rocm_smi(body)
        )
        return {"gpus": gpus} if gpus else {"note": f"{self._tool} sees no GPU"}


def _ask(command: tuple[str, ...]) -> tuple[Any, str]:
    """The JSON that the tool prints, and why there is none."""
    try:
        done = subprocess.run(command, capture_output=True, timeout=ASK_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return None, "no answer" if isinstance(error, subprocess.TimeoutExpired) else str(error)
    try:
        return json.loads(done.stdout), ""
    except ValueError:
        last = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2][:200]
        return None, last or f"exit code {done.returncode}, and no JSON"


def main() -> int:
    """Print lines until standard output is closed."""
    return run(Sampler().look, PERIOD_S)


if __name__ == "__main__":
    sys.exit(main())
