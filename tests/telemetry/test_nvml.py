"""The NVIDIA sampler: each metric by itself, and GPUs that fall silent, are lost or vanish."""

from __future__ import annotations

import json

import pynvml
import pytest

from eagle_tui.protocol import GpuStatus
from eagle_tui.telemetry import gpu_child, nvml_sampler
from eagle_tui.telemetry.nvml_device import DEAD_LOOKS, Device, throttle_words
from eagle_tui.telemetry.nvml_sampler import RECOUNT_LOOKS, Sampler

from .fake_nvml import OK, FakeNvml


def test_everything_that_an_h200_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeNvml(monkeypatch, count=2)
    sampler = Sampler()
    sampler.look()
    body = json.loads(json.dumps(sampler.look(), allow_nan=False))
    assert [g["index"] for g in body["gpus"]] == [0, 1]
    gpu = GpuStatus.model_validate(body["gpus"][0])
    assert (gpu.name, gpu.util, gpu.temp_c, gpu.state) == ("NVIDIA H200", 0.97, 61, "ok")
    assert (gpu.power_w, gpu.power_limit_w, gpu.energy_j) == (612.5, 700.0, 5000.0)
    assert (gpu.sm_util, gpu.tensor_util, gpu.mem_bw_util) == (0.8, 0.3, 0.55)
    assert (gpu.pcie_tx, gpu.pcie_rx, gpu.nvlink_rx) == (2 * 2**20, None, 2**20)
    assert gpu.nvlink_tx is None, "this device does not have that metric"
    assert (gpu.sm_clock, gpu.sm_clock_max, gpu.pcie) == (1755, 1980, "gen5 x16")
    assert (gpu.throttle, gpu.mig, gpu.xid, gpu.mem_temp_c) == ("power cap", None, None, 70)
    assert gpu.processes == ((4711, 99 * 2**30),)


def test_the_first_look_has_no_differences_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeNvml(monkeypatch)
    assert Device(0).look()["sm_util"] is None


def test_what_is_not_supported_is_never_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeNvml(monkeypatch, gpm=False)
    fake.fail(
        0, pynvml.NVML_ERROR_NOT_SUPPORTED, *(n for n in OK if n not in ("Name", "PowerUsage"))
    )
    device = Device(0)
    found = device.look()
    assert (found["power_w"], found["state"]) == (612.5, "ok")
    assert [k for k, v in found.items() if v is not None] == ["index", "name", "power_w", "state"]
    asked = len(fake.asked)
    device.look()
    assert fake.asked[asked:] == [(0, "PowerUsage")]


def test_an_older_library_lacks_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeNvml(monkeypatch)
    for name in ("CurrentClocksEventReasons", "TotalEnergyConsumption", "FieldValues"):
        fake.remove(f"nvmlDeviceGet{name}")
    fake.remove("nvmlEventSetWait_v2")
    sampler = Sampler()
    (found,) = sampler.look()["gpus"]
    assert (found["throttle"], found["energy_j"], found["mem_temp_c"]) == ("power cap", None, None)
    assert found["state"] == "ok"


def test_a_metric_that_needs_rights_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeNvml(monkeypatch)
    fake.fail(0, pynvml.NVML_ERROR_NO_PERMISSION, "PowerUsage")
    device = Device(0)
    assert device.look()["state"] == "some metrics need permission"
    device.look()
    assert fake.times("PowerUsage") == 1


@pytest.mark.parametrize(
    ("code", "word"),
    [
        (pynvml.NVML_ERROR_GPU_IS_LOST, "lost"),
        (pynvml.NVML_ERROR_RESET_REQUIRED, "reset required"),
    ],
)
def test_a_lost_gpu_is_never_touched_again(
    monkeypatch: pytest.MonkeyPatch, code: int, word: str
) -> None:
    fake = FakeNvml(monkeypatch, count=2)
    sampler = Sampler()
    sampler.look()
    fake.fail(1, code)
    assert [g["state"] for g in sampler.look()["gpus"]] == ["ok", word]
    asked = fake.times("UtilizationRates")
    body = sampler.look()
    assert [g["state"] for g in body["gpus"]] == ["ok", word] and "again" not in body
    assert fake.times("UtilizationRates") == asked + 1, "only the other one is asked"


def test_a_gpu_that_is_lost_at_the_start_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeNvml(monkeypatch, count=3)
    fake.absent[1] = pynvml.NVML_ERROR_GPU_IS_LOST
    gpus = Sampler().look()["gpus"]
    assert [g["index"] for g in gpus] == [0, 1, 2]
    assert gpus[1]["state"].startswith("lost") and gpus[2]["state"] == "ok"


def test_a_driver_that_fails_in_mid_run_is_asked_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unknown error (999) from one moment on, as in containers that lost their devices."""
    fake = FakeNvml(monkeypatch, gpm=False)
    sampler = Sampler()
    sampler.look()
    fake.fail(0, pynvml.NVML_ERROR_UNKNOWN)
    bodies = [sampler.look() for _ in range(DEAD_LOOKS)]
    assert bodies[0]["gpus"][0]["state"] == "ok" and "again" not in bodies[0]
    assert bodies[-1]["gpus"][0]["state"] == "not answering" and bodies[-1]["again"]


def test_a_gpu_that_vanishes_without_a_word_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeNvml(monkeypatch, count=2)
    sampler = Sampler()
    fake.count = 1
    found = [sampler.look().get("again", False) for _ in range(RECOUNT_LOOKS)]
    assert found == [False] * (RECOUNT_LOOKS - 1) + [True]


def test_an_xid_is_kept_with_its_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeNvml(monkeypatch, count=2)
    sampler = Sampler()
    fake.events = [(1, 31), (1, 79)]
    assert [g["xid"] for g in sampler.look()["gpus"]] == [None, 79]
    assert [g["xid"] for g in sampler.look()["gpus"]] == [None, 79]


def test_a_partitioned_gpu_names_its_instances(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeNvml(monkeypatch)
    fake.metrics[0]["MigMode"] = [1, 1]
    fake.fail(0, pynvml.NVML_ERROR_NOT_SUPPORTED, "UtilizationRates")

    def part(handle: int, index: int) -> int:
        if index > 1:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return handle

    monkeypatch.setattr(pynvml, "nvmlDeviceGetMaxMigDeviceCount", lambda h: 7)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetMigDeviceHandleByIndex", part)
    found = Device(0).look()
    assert found["mig"] == "2 instances: 100/141, 100/141 GiB"
    assert found["util"] is None and found["state"] == "ok"


@pytest.mark.parametrize(
    ("code", "words", "absent"),
    [
        (pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, "no NVIDIA driver", True),
        (pynvml.NVML_ERROR_DRIVER_NOT_LOADED, "not loaded", False),
        (pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH, "reboot or reload", False),
        (pynvml.NVML_ERROR_NO_PERMISSION, "no permission", False),
        (pynvml.NVML_ERROR_UNKNOWN, "NVML: Unknown Error", False),
    ],
)
def test_why_there_is_nothing_is_said_in_words(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    code: int,
    words: str,
    absent: bool,
) -> None:
    FakeNvml(monkeypatch).init_error = code
    assert nvml_sampler.main() == 0
    body = json.loads(capsys.readouterr().out)
    assert words in body["note"] and body["absent"] == absent


def test_no_gpu_is_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeNvml(monkeypatch, count=0)
    assert "sees no GPU" in Sampler().look()["note"]


def test_once_prints_one_line_with_differences(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    FakeNvml(monkeypatch)
    monkeypatch.setattr("sys.argv", ["nvml_sampler", "--once"])
    assert gpu_child.run(Sampler().look, period_s=0.0) == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["gpus"][0]["sm_util"] == 0.8


def test_throttle_reasons_are_words() -> None:
    assert throttle_words(0x4 | 0x20) == "power cap, thermal"
    assert throttle_words(0x1) == ""
