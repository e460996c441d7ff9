"""Record what the screen shows of a run now, for pictures and for tests.

    python tools/record_scene.py RUN SCENE.json

The scene is the run's status with its samples, events and throughput beside it; see
`eagle_tui.ui.recorded`. `tools/screenshot.py` draws it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from eagle_tui.client import SocketClient, ensure_supervisor
from eagle_tui.client_api import ClientError
from eagle_tui.rundir.paths import RunDir

SAMPLES = 3
"""Newest samples of each dataset."""


async def record(run: RunDir) -> dict[str, Any]:
    """The scene of the run now."""
    async with SocketClient(run, origin="record") as client:
        status = await client.status()
        samples = []
        for dataset in status.datasets:
            samples += await client.samples(dataset.name, "newest", SAMPLES)
        events = await client.events(0, 50)
        history = await client.history("tok_s", status.at - 900, 1.0)
    return {
        **status.to_json(),
        "samples": [s.model_dump(mode="json") for s in samples],
        "events": [e.model_dump(mode="json") for e in events],
        "history": [p.model_dump(mode="json") for p in history.points],
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
