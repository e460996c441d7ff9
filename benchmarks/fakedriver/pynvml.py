"""NVML of a machine with eight busy GPUs, for benchmarks: with this directory first in PYTHONPATH
the supervisor's own sampler reads figures that move every second. Constants and types are those of
the real module."""

from __future__ import annotations

import importlib.util
import random
import sys
import time
from importlib.machinery import PathFinder
from pathlib import Path
from types import SimpleNamespace
from typing import Any

GPUS = 8
TOTAL = 96 * 2**30
_HERE = str(Path(__file__).parent)

_spec = PathFinder.find_spec("pynvml", [p for p in sys.path if p != _HERE])
assert _spec is not None and _spec.loader is not None, "nvidia-ml-py is not installed"
_real = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_real)
globals().update({name: value for name, value in vars(_real).items() if name[:2] != "__"})

_chance = random.Random(1)
_began = time.monotonic()


def nvmlInit() -> None:
    """There is a driver."""


def nvmlDeviceGetCount() -> int:
    return GPUS


def nvmlDeviceGetHandleByIndex(index: int) -> int:
    return index


def nvmlDeviceGetName(handle: int) -> str:
    return "NVIDIA RTX PRO 6000"


def nvmlDeviceGetUUID(handle: int) -> str:
    return f"GPU-{handle:08d}"


def nvmlDeviceGetUtilizationRates(handle: int) -> Any:
    return SimpleNamespace(gpu=_chance.randint(90, 100), memory=_chance.randint(40, 60))


def nvmlDeviceGetMemoryInfo(handle: int) -> Any:
    return SimpleNamespace(used=TOTAL - (6 + handle) * 2**30, total=TOTAL)


def nvmlDeviceGetPowerUsage(handle: int) -> int:
    return int(1000 * min(600.0, _chance.gauss(570 + 2 * handle, 8)))


def nvmlDeviceGetEnforcedPowerLimit(handle: int) -> int:
    return 600_000


def nvmlDeviceGetTotalEnergyConsumption(handle: int) -> int:
    return int((time.monotonic() - _began) * 570_000)


def nvmlDeviceGetTemperature(handle: int, sensor: int) -> int:
    return 66 + handle + _chance.choice((-1, 0, 0, 1))


def nvmlDeviceGetClockInfo(handle: int, clock: int) -> int:
    return 2400 + _chance.randint(-40, 40)


def nvmlDeviceGetMaxClockInfo(handle: int, clock: int) -> int:
    return 2617


def nvmlDeviceGetCurrentClocksEventReasons(handle: int) -> int:
    return 0x4 if _chance.random() < 0.02 else 0


nvmlDeviceGetCurrentClocksThrottleReasons = nvmlDeviceGetCurrentClocksEventReasons


def nvmlDeviceGetCurrPcieLinkGeneration(handle: int) -> int:
    return 5


def nvmlDeviceGetCurrPcieLinkWidth(handle: int) -> int:
    return 16


def nvmlDeviceGetTotalEccErrors(handle: int, kind: int, counter: int) -> int:
    return 0


def _unsupported(*arguments: Any) -> Any:
    raise _real.NVMLError(_real.NVML_ERROR_NOT_SUPPORTED)


for _name in [name for name in dir(_real) if name.startswith(("nvmlDeviceGet", "nvmlGpm"))]:
    if globals()[_name] is getattr(_real, _name):
        globals()[_name] = _unsupported
nvmlEventSetCreate = nvmlDeviceRegisterEvents = _unsupported
