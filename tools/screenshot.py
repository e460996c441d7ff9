"""Draw the main screen from a recorded scene as SVG.

    python tools/screenshot.py SCENE.json docs/screen.svg --size 200x50 --theme eagle-dark

A scene is what `eagle-tui status --json` prints, optionally with samples, events and history beside
it (see `eagle_tui.ui.recorded`). `--run` names a run whose responses and logs are shown with it.
`--press` presses keys first, such as `c` for the cap dialog.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from pathlib import Path

from eagle_tui.clock import ManualClock
from eagle_tui.reader.files import RunFiles
from eagle_tui.rundir.paths import RunDir
from eagle_tui.ui.app import EagleApp
from eagle_tui.ui.recorded import RecordedClient

SETTLE_S = 0.5
"""Long enough for the first poll, the history, the samples and a dialog's preview."""


def main(arguments: list[str]) -> int:
    """Returns an exit code: 0 done, 2 for a scene or size that cannot be read."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("scene", type=Path, help="JSON file of the scene")
    parser.add_argument("output", type=Path, help="SVG file to write")
    parser.add_argument("--size", default="200x50", help="columns x rows (default: 200x50)")
    parser.add_argument("--theme", default="eagle-dark", help="name of a theme")
    parser.add_argument("--glyphs", default="braille", choices=("braille", "block", "ascii"))
    parser.add_argument("--run", type=Path, help="a run directory: its responses and logs")
    parser.add_argument("--press", nargs="*", default=[], help="keys to press first")
    options = parser.parse_args(arguments)
    os.environ["TZ"] = "UTC"
    time.tzset()
    try:
        width, height = (int(part) for part in options.size.split("x"))
        files = RunFiles(RunDir.at(options.run)) if options.run else None
        client = RecordedClient.load(options.scene, files)
    except (OSError, ValueError) as error:
        print(f"screenshot: {error}", file=sys.stderr)
        return 2
    app = EagleApp(
        client,
        clock=ManualClock(wall=client.now.at),
        theme=options.theme,
        glyphs_mode=options.glyphs,
        theme_dir=options.scene.parent / "no-user-themes",
    )

    async def draw() -> str:
        async with app.run_test(size=(width, height)) as pilot:
            await pilot.pause(SETTLE_S)
            await pilot.press(*options.press)
            await pilot.pause(SETTLE_S)
            return app.export_screenshot(title="eagle-tui")

    options.output.write_text(asyncio.run(draw()), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
