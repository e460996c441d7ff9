"""Child process that asks NVML and prints one JSON line a second.

NVML calls can hang in the driver or crash the process, so nobody else makes them: the supervisor
reads these lines, and kills and restarts this child when they stop. It ends when its standard
output is closed.

Each line: `{"gpus": [{index, name, util, mem_used, mem_total, power_w, temp_c, throttle, state}]}`
or `{"note": "why there are none"}`. A metric that the device does not support is null for ever; one
that needs rights says so in `state`.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from typing import Any

import pynvml

PERIOD_S = 1.0

THROTTLE_WORDS: tuple[tuple[int, str], ...] = (
    (0x4, "power cap"),
    (0x8, "hardware slowdown"),
    (0x20, "thermal"),
    (0x40, "thermal (hardware)"),
    (0x80, "power brake"),
)
"""Bits of the clocks-event reasons that hold the clocks down (NVML API reference)."""

NOTES: dict[int, str] = {
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: "no NVIDIA driver on this machine",
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: "the NVIDIA driver is not loaded",
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: (
        "NVIDIA library and kernel module differ in version: reboot or reload the driver"
    ),
    pynvml.NVML_ERROR_NO_PERMISSION: "no permission to use the NVIDIA driver",
}
LOST = (pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED)
NEVER = (pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)


def throttle_words(reasons: int) -> str:
    """The reasons that hold clocks down, in words; empty when there are none."""
    return ", ".join(word for bit, word in THROTTLE_WORDS if reasons & bit)


class Device:
    """One GPU. A metric that is not supported is never asked for again; a lost GPU never at all."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.lost = ""
        self._never: set[str] = set()
        self._denied = False
        self._handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        name = pynvml.nvmlDeviceGetName(self._handle)
        self.name = name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name)

    def _ask(self, metric: str, call: Callable[[], Any]) -> Any | None:
        if self.lost or metric in self._never:
            return None
        try:
            return call()
        except pynvml.NVMLError as error:
            code = error.value
            if code in LOST:
                self.lost = "lost" if code == pynvml.NVML_ERROR_GPU_IS_LOST else "reset required"
            elif code in NEVER:
                self._never.add(metric)
            elif code == pynvml.NVML_ERROR_NO_PERMISSION:
                self._never.add(metric)
                self._denied = True
            return None

    def look(self) -> dict[str, Any]:
        """All metrics; null where there is none."""
        handle = self._handle
        util = self._ask("util", lambda: pynvml.nvmlDeviceGetUtilizationRates(handle).gpu)
        memory = self._ask("memory", lambda: pynvml.nvmlDeviceGetMemoryInfo(handle))
        power = self._ask("power", lambda: pynvml.nvmlDeviceGetPowerUsage(handle))
        temperature = self._ask(
            "temperature",
            lambda: pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU),
        )
        reasons = self._ask(
            "throttle", lambda: pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)
        )
        return {
            "index": self.index,
            "name": self.name,
            "util": None if util is None else util / 100,
            "mem_used": None if memory is None else memory.used,
            "mem_total": None if memory is None else memory.total,
            "power_w": None if power is None else power / 1000,
            "temp_c": temperature,
            "throttle": None if reasons is None else throttle_words(int(reasons)),
            "state": self.lost or ("some metrics need permission" if self._denied else "ok"),
        }


def note_of(error: pynvml.NVMLError) -> str:
    """Why NVML cannot be used, in words."""
    return NOTES.get(error.value, f"NVML: {error}")


def main() -> int:
    """Print lines until standard output is closed."""
    devices: list[Device] = []
    try:
        pynvml.nvmlInit()
        devices = [Device(i) for i in range(pynvml.nvmlDeviceGetCount())]
        note = "" if devices else "the NVIDIA driver sees no GPU"
    except pynvml.NVMLError as error:
        note = note_of(error)
    try:
        while True:
            started = time.monotonic()
            body: dict[str, Any] = {"note": note} if note else {"gpus": [d.look() for d in devices]}
            print(json.dumps(body), flush=True)
            if note:
                return 0
            time.sleep(max(0.0, PERIOD_S - (time.monotonic() - started)))
    except BrokenPipeError:
        return 0


if __name__ == "__main__":
    sys.exit(main())
