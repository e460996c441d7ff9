"""Record what the screen shows of a run now, for pictures and for tests.

    python tools/record_scene.py RUN SCENE.json

The scene is the run's status with its samples, events, metrics and marks beside it; see
`eagle_tui.ui.recorded`. `tools/screenshot.py` draws it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from eagle_tui.client import SocketClient
from eagle_tui.client_api import ClientError
from eagle_tui.reach import ensure_supervisor
from eagle_tui.rundir.paths import RunDir

SAMPLES = 3
"""Newest samples of each dataset."""
KEPT_S, STEP_S = 1800.0, 10.0
"""How far back metrics and marks go, and how fine."""


async def record(run: RunDir) -> dict[str, Any]:
    """The scene of the run now."""
    async with SocketClient(run, origin="record") as client:
        status = await client.status()
        samples = []
        for dataset in status.datasets:
            samples += await client.samples(dataset.name, "newest", SAMPLES)
        events = await client.events(0, 50)
        marks = await client.marks(status.at - KEPT_S)
        estimates = await client.estimates()
        launches = await client.launches()
        histories = {
            name: (await client.history(name, status.at - KEPT_S, STEP_S)).points
            for name in await client.series()
        }
    return {
        **status.to_json(),
        "samples": [s.model_dump(mode="json") for s in samples],
        "events": [e.model_dump(mode="json") for e in events],
        "history": {
            name: [p.model_dump(mode="json") for p in points] for name, points in histories.items()
        },
        "marks": [m.model_dump(mode="json") for m in marks],
        "estimates": [e.model_dump(mode="json") for e in estimates],
        "launches": [launch.model_dump(mode="json") for launch in launches],
    }


def main() -> int:
    """Write the scene; gives the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("scene", type=Path)
    options = parser.parse_args()
    run = RunDir.at(options.run)
    try:
        ensure_supervisor(run)
        scene = asyncio.run(record(run))
    except ClientError as error:
        print(error, file=sys.stderr)
        return 1
    text = json.dumps(scene, indent=1, ensure_ascii=False)
    options.scene.write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
