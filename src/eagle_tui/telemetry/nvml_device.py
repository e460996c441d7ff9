"""One NVIDIA GPU, asked through NVML, metric by metric."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import pynvml

from eagle_tui.telemetry.nvml_gpm import METRICS, Gpm

THROTTLE_WORDS: tuple[tuple[int, str], ...] = (
    (0x4, "power cap"),
    (0x8, "hardware slowdown"),
    (0x20, "thermal"),
    (0x40, "thermal (hardware)"),
    (0x80, "power brake"),
)
"""Bits of the clocks-event reasons that hold the clocks down (NVML API reference)."""

LOST = {
    pynvml.NVML_ERROR_GPU_IS_LOST: "lost",
    pynvml.NVML_ERROR_RESET_REQUIRED: "reset required",
}
NEVER = (pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
DEAD_LOOKS = 3
"""Looks in a row in which not one metric came back: the device does not answer."""


def throttle_words(reasons: int) -> str:
    """The reasons that hold clocks down, in words; empty when there are none."""
    return ", ".join(word for bit, word in THROTTLE_WORDS if reasons & bit)


class Device:
    """One GPU. A metric that is not supported is never asked for again; a lost GPU never at all.

    `events`: an NVML event set in which Xid errors of this device are to be reported.
    """

    def __init__(self, index: int, events: Any | None = None) -> None:
        self.index = index
        self.lost = ""
        self.xid: int | None = None
        self._dead = 0
        self._never: set[str] = set()
        self._denied = False
        self._answered = False
        self._handle = pynvml.nvmlDeviceGetHandleByIndex(index)
        self.name = self._text("name", pynvml.nvmlDeviceGetName) or "GPU"
        self.uuid = self._text("uuid", pynvml.nvmlDeviceGetUUID)
        self._gpm: Gpm | None = self._ask("gpm", lambda: Gpm(self._handle))
        if events is not None:
            kind = pynvml.nvmlEventTypeXidCriticalError
            self._ask("events", lambda: pynvml.nvmlDeviceRegisterEvents(self._handle, kind, events))
        self._sm_clock_max = self._call("clock_max", "nvmlDeviceGetMaxClockInfo", _SM)

    @property
    def silent(self) -> bool:
        """It has not answered for some looks, and did not say that it is lost."""
        return not self.lost and self._dead >= DEAD_LOOKS

    def is_handle(self, handle: Any) -> bool:
        """Whether an event is of this device. Handles are pointers: equal by address."""
        return bool(_address(handle) == _address(self._handle))

    def look(self) -> dict[str, Any]:
        """All metrics; null where there is none."""
        self._answered = False
        rates = self._call("util", "nvmlDeviceGetUtilizationRates")
        memory = self._memory()
        gpm = self._ask("gpm", self._gpm.look) if self._gpm else None
        figures = {
            "index": self.index,
            "name": self.name,
            "uuid": self.uuid,
            "util": None if rates is None else rates.gpu / 100,
            "mem_used": None if memory is None else memory.used,
            "mem_total": None if memory is None else memory.total,
            "power_w": _scaled(self._call("power", "nvmlDeviceGetPowerUsage"), 1e-3),
            "power_limit_w": _scaled(self._call("limit", "nvmlDeviceGetEnforcedPowerLimit"), 1e-3),
            "energy_j": _scaled(self._call("energy", "nvmlDeviceGetTotalEnergyConsumption"), 1e-3),
            "temp_c": self._call(
                "temperature", "nvmlDeviceGetTemperature", pynvml.NVML_TEMPERATURE_GPU
            ),
            "mem_temp_c": self._field("mem_temp", pynvml.NVML_FI_DEV_MEMORY_TEMP),
            "sm_clock": self._call("clock", "nvmlDeviceGetClockInfo", _SM),
            "sm_clock_max": self._sm_clock_max,
            "throttle": self._throttle(),
            "pcie": self._pcie(),
            "ecc_errors": self._call(
                "ecc",
                "nvmlDeviceGetTotalEccErrors",
                pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED,
                pynvml.NVML_VOLATILE_ECC,
            ),
            "mig": self._mig(),
            "processes": self._processes(),
            **(gpm or {name: None for name, _, _ in METRICS}),
        }
        self._dead = 0 if self._answered else self._dead + 1
        return {**figures, "xid": self.xid, "state": self._state()}

    def _state(self) -> str:
        if self.lost:
            return self.lost
        if self.silent:
            return "not answering"
        return "some metrics need permission" if self._denied else "ok"

    def _call(self, metric: str, function: str, *arguments: Any) -> Any | None:
        """One NVML function of this device, looked up each time: an older library lacks some."""
        return self._ask(metric, lambda: getattr(pynvml, function)(self._handle, *arguments))

    def _ask(self, metric: str, call: Callable[[], Any]) -> Any | None:
        if self.lost or metric in self._never:
            return None
        try:
            found = call()
        except pynvml.NVMLError as error:
            code = error.value
            if code in LOST:
                self.lost = LOST[code]
            elif code in NEVER:
                self._never.add(metric)
                self._answered = True
            elif code == pynvml.NVML_ERROR_NO_PERMISSION:
                self._never.add(metric)
                self._denied = self._answered = True
            return None
        except (AttributeError, TypeError):
            # This nvidia-ml-py does not have the function.
            self._never.add(metric)
            return None
        self._answered = True
        return found

    def _text(self, metric: str, call: Callable[[Any], Any]) -> str | None:
        found = self._ask(metric, lambda: call(self._handle))
        return found.decode("utf-8", "replace") if isinstance(found, bytes) else found

    def _memory(self) -> Any | None:
        # The second version does not count what the driver reserves for itself as used.
        second = self._call("memory2", "nvmlDeviceGetMemoryInfo", pynvml.nvmlMemory_v2)
        return second or self._call("memory", "nvmlDeviceGetMemoryInfo")

    def _throttle(self) -> str | None:
        reasons = self._call("reasons", "nvmlDeviceGetCurrentClocksEventReasons")
        if reasons is None:
            reasons = self._call("throttle", "nvmlDeviceGetCurrentClocksThrottleReasons")
        return None if reasons is None else throttle_words(int(reasons))

    def _field(self, metric: str, field: int) -> int | None:
        found = self._call(metric, "nvmlDeviceGetFieldValues", [field])
        if not found or found[0].nvmlReturn != pynvml.NVML_SUCCESS:
            self._never.add(metric)
            return None
        return int(found[0].value.uiVal) or None

    def _pcie(self) -> str | None:
        """The link as it is now; an idle one runs slower."""
        speed = self._call("pcie_gen", "nvmlDeviceGetCurrPcieLinkGeneration")
        width = self._call("pcie_width", "nvmlDeviceGetCurrPcieLinkWidth")
        return f"gen{speed} x{width}" if speed and width else None

    def _mig(self) -> str | None:
        """The instances of a partitioned GPU, in words; null when it is not partitioned."""
        mode = self._call("mig", "nvmlDeviceGetMigMode")
        if not mode or not mode[0]:
            return None
        used = []
        for index in range(self._call("mig_count", "nvmlDeviceGetMaxMigDeviceCount") or 0):
            try:
                part = pynvml.nvmlDeviceGetMigDeviceHandleByIndex(self._handle, index)
                memory = pynvml.nvmlDeviceGetMemoryInfo(part)
            except pynvml.NVMLError:
                continue  # no instance has this number
            used.append(f"{memory.used / 2**30:.0f}/{memory.total / 2**30:.0f}")
        plural = "instance" if len(used) == 1 else "instances"
        return f"{len(used)} {plural}" + (f": {', '.join(used)} GiB" if used else "")

    def _processes(self) -> list[list[int | None]] | None:
        """Pid and bytes of each process that computes on it. Inside a container the pids may be
        those of the host."""
        found = self._call("processes", "nvmlDeviceGetComputeRunningProcesses")
        if found is None:
            return None
        return [[p.pid, p.usedGpuMemory] for p in found]


_SM = pynvml.NVML_CLOCK_SM


def _address(handle: Any) -> Any:
    return ctypes.cast(handle, ctypes.c_void_p).value if hasattr(handle, "contents") else handle


def _scaled(number: Any | None, factor: float) -> float | None:
    return None if number is None else number * factor
