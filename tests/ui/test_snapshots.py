"""Every screen as it looks, at several sizes and in several themes, from recorded runs.

Two runs: a real one on an H200 by SGLang, replayed, and a scene of the run that this program is
made for (ten datasets, eight GPUs), with files whose texts are hostile. `pytest --snapshot-update`
writes the pictures anew; `tools/screenshot.py` shows one as SVG.
"""

from __future__ import annotations

import asyncio
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import scene_files
from pictures import (
    HUGE,
    SIZES,
    SMALL,
    Picture,
    Shot,
    Size,
    settled,
    styles_of,
    take,
    text_of,
)
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from eagle_tui.clock import ManualClock
from eagle_tui.protocol import Setting, Tuning
from eagle_tui.reader.files import RunFiles
from eagle_tui.replay.client import ReplayClient
from eagle_tui.replay.timeline import ReplayClock, Timeline
from eagle_tui.result import ResultRecord
from eagle_tui.rundir.paths import RunDir
from eagle_tui.ui.app import EagleApp
from eagle_tui.ui.recorded import RecordedClient
from eagle_tui.ui.replay import ReplayApp

SCENES = Path(__file__).parent / "data"
H200 = Path(__file__).parents[1] / "replay" / "data" / "h200-smollm2.tar.xz"
GENERATING_S = 300.0
"""When, in that run, SGLang serves at its full rate."""
FRAMED = (120, 40)
OTHERS = ("eagle-contrast", "eagle-colorblind")
DARK = ("eagle-dark",)
TUNING = Tuning(
    server="sglang",
    settings=(
        Setting(key="mem-fraction-static", kind="float", value="0.88", source="retune",
                help="The fraction of the memory used for static allocation (model weights and "
                "KV cache memory pool)."),
        Setting(key="max-running-requests", kind="int", help="The most requests that run at once."),
        Setting(key="hicache-size", kind="int", value="48", source="run.toml",
                help="The size of host KV cache memory pool in gigabytes."),
        Setting(key="schedule-policy", kind="choice", choices=("lpm", "fcfs"), value="fcfs",
                source="default", help="The scheduling policy of the requests."),
    ),
)  # fmt: skip


def words(*wanted: str) -> Callable[[Any, str], bool]:
    """Whether all of these are on the screen."""
    return lambda _, text: all(word in text for word in wanted)


def sampled(app: Any, _: str) -> bool:
    """Whether the overview has its sample."""
    return bool(app.main.samples.current)


def drawn(app: Any, _: str) -> bool:
    """Whether the samples screen has a text laid out."""
    return bool(app.shown.reader.lines)


def of_bench(app: Any, text: str) -> bool:
    """Whether the phases screen shows what the benchmark left."""
    return app.shown.table.selected == "bench" and "output" in text and "none yet" not in text


OVERVIEW = Shot("overview", ("1",), sampled, sizes=(*SIZES, HUGE))
OF_THE_SCENE = (
    OVERVIEW,
    Shot("overview", ("1",), sampled, sizes=(FRAMED,), themes=("eagle-dark", *OTHERS)),
    Shot("datasets", ("2",), words("b2_")),
    Shot("dataset", ("2", "enter"), words("tokens per response"), ("enter",)),
    Shot("samples", ("3",), drawn),
    Shot("tokens", ("3", "t"), words("predicted"), ("t",)),
    Shot("server", ("4",), words("launches")),
    Shot("gpus", ("5",), words("utilization")),
    Shot("logs", ("6",), words("Decode batch")),
    Shot("events", ("7",), words("operator")),
    Shot("phases", ("8",), words("estimates")),
    Shot("result", ("9",), words("bench has not run"), sizes=(SMALL,), themes=DARK),
    Shot("retune", ("1", "m"), words("The fraction"), ("escape",)),
    Shot(
        "cap", ("2", "c", "5", "M"), words("5M", "saves"), ("escape",), sizes=(SMALL,), themes=DARK
    ),
    Shot("pause", ("1", "p"), words("end early"), ("escape",), sizes=(SMALL,), themes=DARK),
    Shot("advance", ("1", "a"), words("throws"), ("escape",), sizes=(SMALL,), themes=DARK),
    Shot("help", ("1", "question_mark"), words("Orders to the run"), ("q",)),
    Shot("palette", ("1", "ctrl+p"), words("An action", "Resume"), ("escape",)),
)
OF_THE_REPLAY = (
    Shot("h200-overview", ("1",), words("gsm8k"), themes=DARK),
    Shot("h200-server", ("4",), words("launches"), themes=DARK),
    Shot("h200-gpus", ("5",), words("utilization"), themes=DARK),
)
OF_ITS_END = (
    Shot("h200-events", ("7",), words("bench"), themes=DARK),
    Shot("h200-phases", ("8", *("down",) * 5), of_bench, themes=DARK),
    Shot("h200-result", ("9",), words("a loss: 0.94")),
    Shot("h200-result-end", ("9", "end"), words("for SGLang"), sizes=(SMALL,), themes=DARK),
)
OF_A_LAPTOP = (Shot("laptop", ("1",), sampled, sizes=(SMALL, FRAMED), themes=DARK),)
IN_ASCII = (
    Shot("ascii-overview", ("1",), sampled, sizes=(FRAMED,), themes=DARK),
    Shot("ascii-server", ("4",), words("launches"), sizes=(SMALL,), themes=DARK),
    Shot("ascii-gpus", ("5",), words("utilization"), sizes=(SMALL,), themes=DARK),
)
ALL = (*OF_THE_SCENE, *OF_THE_REPLAY, *OF_ITS_END, *OF_A_LAPTOP, *IN_ASCII)
TAKEN = [(shot.name, size) for shot in ALL for size in shot.sizes]


class Placed(ReplayClient):
    """Tells of the run as if it lay where it does on every machine."""

    async def result(self) -> ResultRecord:
        found = (await super().result()).model_dump_json()
        return ResultRecord.model_validate_json(found.replace(str(self._run.root), "/runs/h200"))


class Pictures(SingleFileSnapshotExtension):
    """One text file for each screen and size."""

    _write_mode = WriteMode.TEXT
    _file_extension = "txt"


async def _take_all(root: Path) -> dict[tuple[str, Size], Picture]:
    found: dict[tuple[str, Size], Picture] = {}
    files: dict[str, Any] = {
        "theme_dir": root / "themes", "keys_file": root / "keys.toml", "poll_s": 3600.0,
    }  # fmt: skip

    def scene(name: str, records: RunFiles | None = None, **options: Any) -> EagleApp:
        client = RecordedClient.load(SCENES / name, records)
        client.tunings = {client.now.servers[0].name: TUNING}
        return EagleApp(client, clock=ManualClock(wall=client.now.at), **files, **options)

    def replay(run: RunDir, at: float | None) -> EagleApp:
        clock = ManualClock()

        def timeline(start: float, end: float) -> Timeline:
            return Timeline(clock, start, end, end if at is None else start + at)

        client = Placed.open(run, timeline)
        return ReplayApp(client, clock=ReplayClock(clock, client.timeline), **files)

    records = RunFiles(scene_files.build(root / "scene"))
    await take(scene("kimi.json", records), OF_THE_SCENE, found)
    await records.close_files()
    with tarfile.open(H200) as archive:
        archive.extractall(root / "h200", filter="data")
    run = RunDir.at(root / "h200")
    await take(replay(run, GENERATING_S), OF_THE_REPLAY, found)
    await take(replay(run, None), OF_ITS_END, found)
    await take(scene("laptop.json"), OF_A_LAPTOP, found)
    await take(scene("kimi.json", glyphs_mode="ascii"), IN_ASCII, found)
    return found


@pytest.fixture(scope="module")
def taken(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, Size], Picture]:
    """All pictures, taken once, as in a place whose time is UTC."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        found = asyncio.run(_take_all(tmp_path_factory.mktemp("pictures")))
    time.tzset()
    return found


@pytest.fixture
def stored(snapshot: SnapshotAssertion) -> Iterator[SnapshotAssertion]:
    """The pictures as they were."""
    yield snapshot.use_extension(Pictures)


@pytest.mark.parametrize(
    ("name", "size"),
    TAKEN,
    ids=lambda part: part if isinstance(part, str) else f"{part[0]}x{part[1]}",
)
def test_looks(
    name: str, size: Size, taken: dict[tuple[str, Size], Picture], stored: SnapshotAssertion
) -> None:
    assert str(taken[name, size]) == stored


async def test_a_supervisor_that_is_gone(
    client: Any, make_app: Callable[..., EagleApp], stored: SnapshotAssertion
) -> None:
    """The last figures stay, dimmed, and a line says since when nobody answers."""
    app = make_app(client, poll_s=3600)
    async with app.run_test(size=FRAMED) as pilot:
        await settled(pilot, sampled)
        client.gone = "The supervisor of /runs/kimi is gone; start it with `eagle-tui up`."
        app.clock.advance(125)  # type: ignore[attr-defined]
        await app.poll_once()
        app.main.tick()
        strips = await settled(pilot, words("Figures are 2m"))
    assert str(Picture(text_of(strips), {app.theme: styles_of(strips)})) == stored
