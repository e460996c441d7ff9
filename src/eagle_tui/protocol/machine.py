"""Snapshots of the machine: GPUs and host."""

from __future__ import annotations

from .base import Frozen


class GpuStatus(Frozen):
    """One GPU. Null: the device or its driver does not say."""

    index: int
    name: str
    util: float | None = None
    """Share of time in which any kernel ran: 1 for a starved GPU as well."""
    mem_used: int | None = None
    mem_total: int | None = None
    power_w: float | None = None
    temp_c: float | None = None
    throttle: str | None = None
    """Why the clocks are held down, in words; None: not known; empty: not throttled."""
    state: str = "ok"
    age_s: float | None = None
    uuid: str | None = None
    sm_util: float | None = None
    """Share of the multiprocessors that were busy (NVIDIA from Hopper on)."""
    tensor_util: float | None = None
    """Share of time in which tensor cores worked (NVIDIA from Hopper on)."""
    mem_bw_util: float | None = None
    """Share of the memory bandwidth in use (NVIDIA from Hopper on; AMD: of the controller)."""
    power_limit_w: float | None = None
    energy_j: float | None = None
    """Energy since the driver was loaded, in joules: differences give exact mean power."""
    mem_temp_c: float | None = None
    sm_clock: int | None = None
    """MHz now."""
    sm_clock_max: int | None = None
    pcie: str | None = None
    """Link as it is now, such as `gen5 x16`; an idle one runs slower."""
    pcie_tx: float | None = None
    """Bytes a second over PCIe, from the GPU (rx: to it)."""
    pcie_rx: float | None = None
    nvlink_tx: float | None = None
    """Bytes a second over all NVLinks."""
    nvlink_rx: float | None = None
    ecc_errors: int | None = None
    """Uncorrectable memory errors since the driver was loaded."""
    xid: int | None = None
    """Newest Xid error of the driver since the sampler began."""
    mig: str | None = None
    """Instances of a partitioned GPU, in words; null when it is not partitioned."""
    processes: tuple[tuple[int, int | None], ...] | None = None
    """Pid and bytes of what computes on it. In a container the pids may be those of the host."""
    owners: tuple[str, ...] | None = None
    """Whose each of these processes is: `server NAME`, a phase, or `other` for what is not ours."""


class HostStatus(Frozen):
    cpu: float | None = None
    mem: float | None = None
    mem_used: int | None = None
    mem_total: int | None = None
    disk_free: int | None = None
    disk_full_at: float | None = None
    gpu_note: str = ""
    """Why there are no GPU figures, or no new ones, in words; empty when there are."""
