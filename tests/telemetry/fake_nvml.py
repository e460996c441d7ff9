"""A pynvml without a driver: GPUs whose every metric can answer, fail or be missing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

OK: dict[str, Any] = {
    "Name": b"NVIDIA H200",
    "UUID": "GPU-1",
    "UtilizationRates": SimpleNamespace(gpu=97, memory=40),
    "MemoryInfo": SimpleNamespace(used=100 * 2**30, total=141 * 2**30),
    "PowerUsage": 612_500,
    "EnforcedPowerLimit": 700_000,
    "TotalEnergyConsumption": 5_000_000,
    "Temperature": 61,
    "ClockInfo": 1755,
    "MaxClockInfo": 1980,
    "CurrentClocksEventReasons": 0x4,
    "CurrentClocksThrottleReasons": 0x4,
    "CurrPcieLinkGeneration": 5,
    "CurrPcieLinkWidth": 16,
    "TotalEccErrors": 0,
    "MigMode": [0, 0],
    "ComputeRunningProcesses": [SimpleNamespace(pid=4711, usedGpuMemory=99 * 2**30)],
    "FieldValues": [
        SimpleNamespace(nvmlReturn=pynvml.NVML_SUCCESS, value=SimpleNamespace(uiVal=70))
    ],
}
GPM = {
    pynvml.NVML_GPM_METRIC_SM_UTIL: 80.0,
    pynvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL: 30.0,
    pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL: 55.0,
    pynvml.NVML_GPM_METRIC_PCIE_TX_PER_SEC: 2.0,
    pynvml.NVML_GPM_METRIC_PCIE_RX_PER_SEC: float("nan"),
    pynvml.NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC: 1.0,
}


class FakeNvml:
    """`metrics[gpu][name]` is what a call answers; `fail` makes it an error, `remove` takes the
    function away. Calls are kept in `asked`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, count: int = 1, gpm: bool = True) -> None:
        self.metrics: list[dict[str, Any]] = [dict(OK) for _ in range(count)]
        self.asked: list[tuple[int, str]] = []
        self.count = count
        self.init_error: int | None = None
        self.events: list[tuple[int, int]] = []
        self.absent: dict[int, int] = {}
        self._patch = monkeypatch
        for name in OK:
            self._set(f"nvmlDeviceGet{name}", self._getter(name))
        self._set("nvmlInit", self._init)
        self._set("nvmlDeviceGetCount", lambda: self.count)
        self._set("nvmlDeviceGetHandleByIndex", self._handle)
        self._set("nvmlEventSetCreate", lambda: "events")
        self._set("nvmlDeviceRegisterEvents", lambda *a: None)
        self._set("nvmlEventSetWait_v2", self._event)
        self._set("nvmlGpmQueryDeviceSupport", lambda h: SimpleNamespace(isSupportedDevice=gpm))
        self._set("nvmlGpmSampleAlloc", pynvml.c_nvmlGpmSample_t)
        self._set("nvmlGpmSampleGet", lambda handle, sample: sample)
        self._set("nvmlGpmMetricsGet", self._gpm_metrics)

    def _set(self, name: str, value: Any) -> None:
        self._patch.setattr(pynvml, name, value)

    def remove(self, name: str) -> None:
        """This nvidia-ml-py does not have the function."""
        self._patch.delattr(pynvml, name)

    def fail(self, gpu: int, code: int, *names: str) -> None:
        """From now on these metrics (all, when none is named) of a GPU answer with an error."""
        for name in names or OK:
            self.metrics[gpu][name] = Failure(code)

    def times(self, name: str) -> int:
        """How often a metric was asked for, of all GPUs."""
        return sum(n == name for _, n in self.asked)

    def _init(self) -> None:
        if self.init_error is not None:
            raise pynvml.NVMLError(self.init_error)

    def _handle(self, index: int) -> int:
        if index in self.absent:
            raise pynvml.NVMLError(self.absent[index])
        return index

    def _event(self, events: Any, timeout: int) -> Any:
        if not self.events:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_TIMEOUT)
        gpu, xid = self.events.pop(0)
        return SimpleNamespace(device=gpu, eventData=xid)

    def _getter(self, name: str) -> Any:
        def get(handle: int, *arguments: Any) -> Any:
            self.asked.append((handle, name))
            answer = self.metrics[handle][name]
            if isinstance(answer, Failure):
                raise pynvml.NVMLError(answer.code)
            return answer

        return get

    def _gpm_metrics(self, query: Any) -> Any:
        for one in query.metrics[: query.numMetrics]:
            found = GPM.get(one.metricId)
            one.nvmlReturn = (
                pynvml.NVML_ERROR_NOT_SUPPORTED if found is None else pynvml.NVML_SUCCESS
            )
            one.value = found or 0.0
        return query


class Failure:
    """An answer that is an NVML error."""

    def __init__(self, code: int) -> None:
        self.code = code
