"""The worker's events: none is lost or torn, whichever thread tells it."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from pathlib import Path

from eagle_tui.clock import SystemClock
from eagle_tui.pipeline.generation.report import Report
from eagle_tui.rundir import jsonl
from eagle_tui.rundir.events import WorkerLog

EACH = 500


def test_two_threads_tell_all_that_they_have_to(tmp_path: Path) -> None:
    log = WorkerLog(tmp_path / "generate-0001.jsonl", SystemClock())
    report = Report(log, SystemClock())

    def tell(name: str) -> None:
        for number in range(EACH):
            report.note(f"{name} {number} " + "x" * 200)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=tell, args=(name,)) for name in ("pool", "retry")]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    log.close()
    rows = list(jsonl.rows(log.path))
    assert len({row["text"] for row in rows}) == len(rows) == 2 * EACH
    assert Counter(row["text"].split()[0] for row in rows) == {"pool": EACH, "retry": EACH}
