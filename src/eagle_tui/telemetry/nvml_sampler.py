"""Child process that asks NVML and prints one JSON line a second.

NVML calls can hang in the driver or crash the process, so nobody else makes them: the supervisor
reads these lines, and kills and restarts this child when they stop. It ends when its standard
output is closed. By hand: `python -m eagle_tui.telemetry.nvml_sampler [--once]`.

Each line: `{"gpus": [{index, name, util, …}]}` with the fields of `GpuStatus`, or `{"note": "why
there are none"}`. A metric that the device does not support is null for ever; one that needs rights
says so in `state`.
"""

from __future__ import annotations

import sys
from typing import Any

import pynvml

from eagle_tui.telemetry.gpu_child import run
from eagle_tui.telemetry.nvml_device import Device

RECOUNT_LOOKS = 60
"""Looks between two counts of the GPUs: one can vanish without a word."""

NOTES: dict[int, str] = {
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: "no NVIDIA driver on this machine",
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: "the NVIDIA driver is not loaded",
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: (
        "NVIDIA library and kernel module differ in version: reboot or reload the driver"
    ),
    pynvml.NVML_ERROR_NO_PERMISSION: "no permission to use the NVIDIA driver",
}


def note_of(error: pynvml.NVMLError) -> str:
    """Why NVML cannot be used, in words."""
    return NOTES.get(error.value, f"NVML: {error}")


class Sampler:
    """All GPUs of the machine."""

    def __init__(self) -> None:
        self._looks = 0
        self._devices: list[Device] = []
        self._absent: list[dict[str, Any]] = []
        self._events: Any | None = None
        self.note = ""
        self._absent_driver = False
        try:
            pynvml.nvmlInit()
            self._events = self._event_set()
            count = pynvml.nvmlDeviceGetCount()
        except pynvml.NVMLError as error:
            self.note = note_of(error)
            self._absent_driver = error.value == pynvml.NVML_ERROR_LIBRARY_NOT_FOUND
            return
        for index in range(count):
            try:
                self._devices.append(Device(index, self._events))
            except pynvml.NVMLError as error:
                # One that fell off the bus must not hide the others.
                self._absent.append({"index": index, "name": "GPU", "state": f"lost ({error})"})
        if not count:
            self.note = "the NVIDIA driver sees no GPU"

    def look(self) -> dict[str, Any]:
        """One line. `again`: the child should be started anew, since the driver tells otherwise."""
        if self.note:
            return {"note": self.note, "absent": self._absent_driver}
        self._see_events()
        gpus = [device.look() for device in self._devices]
        self._looks += 1
        body: dict[str, Any] = {"gpus": sorted([*gpus, *self._absent], key=lambda g: g["index"])}
        silent = bool(self._devices) and all(d.silent for d in self._devices)
        if silent or (self._looks % RECOUNT_LOOKS == 0 and self._count_changed()):
            body["again"] = True
        return body

    def _event_set(self) -> Any | None:
        try:
            return pynvml.nvmlEventSetCreate()
        except (pynvml.NVMLError, AttributeError):
            return None

    def _see_events(self) -> None:
        """Take the Xid errors in that came since the look before."""
        while self._events is not None:
            try:
                event = pynvml.nvmlEventSetWait_v2(self._events, 0)
            except (pynvml.NVMLError, AttributeError) as error:
                if getattr(error, "value", None) != pynvml.NVML_ERROR_TIMEOUT:
                    self._events = None
                return
            for device in self._devices:
                if device.is_handle(event.device):
                    device.xid = int(event.eventData)

    def _count_changed(self) -> bool:
        """Whether the machine has another number of GPUs than in the beginning."""
        try:
            return bool(pynvml.nvmlDeviceGetCount() != len(self._devices) + len(self._absent))
        except pynvml.NVMLError:
            return True


def main() -> int:
    """Print lines until standard output is closed."""
    return run(Sampler().look)


if __name__ == "__main__":
    sys.exit(main())
