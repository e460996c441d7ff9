"""GPM: what the parts of a GPU really do, on Hopper and later.

The plain utilization is the share of time in which *any* kernel ran, 100 % for a starved GPU as
well. GPM says how many of the multiprocessors were busy, and how much of the memory bandwidth was
used, between two samples.
"""

from __future__ import annotations

from typing import Any

import pynvml

METRICS: tuple[tuple[str, int, float], ...] = (
    ("sm_util", pynvml.NVML_GPM_METRIC_SM_UTIL, 0.01),
    ("tensor_util", pynvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL, 0.01),
    ("mem_bw_util", pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL, 0.01),
    ("pcie_tx", pynvml.NVML_GPM_METRIC_PCIE_TX_PER_SEC, 1 << 20),
    ("pcie_rx", pynvml.NVML_GPM_METRIC_PCIE_RX_PER_SEC, 1 << 20),
    ("nvlink_tx", pynvml.NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC, 1 << 20),
    ("nvlink_rx", pynvml.NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC, 1 << 20),
)
"""Name, metric, and factor to a share or to bytes a second (NVML gives per cent and MiB/s)."""


class Gpm:
    """GPM of one device. NVMLError when it has none."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle
        if not pynvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        self._before: Any | None = None
        self._spare: Any = pynvml.nvmlGpmSampleAlloc()
        self._second: Any = pynvml.nvmlGpmSampleAlloc()

    def look(self) -> dict[str, float | None]:
        """Figures since the look before; null in the first one, and where there is none."""
        now, self._spare = self._spare, self._before or self._second
        pynvml.nvmlGpmSampleGet(self._handle, now)
        before, self._before = self._before, now
        found: dict[str, float | None] = {name: None for name, _, _ in METRICS}
        if before is None:
            return found
        query = pynvml.c_nvmlGpmMetricsGet_t()
        query.version = pynvml.NVML_GPM_METRICS_GET_VERSION
        query.numMetrics = len(METRICS)
        query.sample1, query.sample2 = before, now
        for index, (_, metric, _) in enumerate(METRICS):
            query.metrics[index].metricId = metric
        pynvml.nvmlGpmMetricsGet(query)
        for index, (name, _, factor) in enumerate(METRICS):
            one = query.metrics[index]
            if one.nvmlReturn == pynvml.NVML_SUCCESS and 0 <= one.value < 1e9:
                found[name] = one.value * factor
        return found
