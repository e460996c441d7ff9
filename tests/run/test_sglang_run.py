"""The whole of phases 1 to 3 with a real SGLang server that our supervisor launches."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import harness
import httpx
import psutil
import pytest
from harness import Run

from eagle_tui import proc

pytestmark = pytest.mark.sglang

SERVE = Path(__file__).parent.parent.parent / "tools" / "sglang-cpu" / "serve.sh"
VERSION = os.environ.get("EAGLE_TUI_SGLANG_VERSION", "0.5.23")


KEYS = {"EAGLE_TUI_TEST_KEY": "k-4711", "EAGLE_TUI_TEST_ADMIN": "a-4712"}


def test_prepare_generate_merge_on_real_sglang(
    new_run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, key in KEYS.items():
        monkeypatch.setitem(harness.ENV, name, key)
        monkeypatch.setenv(name, key)
    command = f'["{SERVE}", "--version", "{VERSION}", "--model", "{{model}}", "--port", "{{port}}"]'
    run = new_run(
        "server[engine].engine=sglang",
        f"server[engine].command={command}",
        "server[engine].flags={dtype = 'float32'}",
        "server[engine].stop_timeout_s=60.0",
        "server[engine].start_timeout_s=400.0",
        "server[engine].api_key_env=EAGLE_TUI_TEST_KEY",
        "server[engine].admin_api_key_env=EAGLE_TUI_TEST_ADMIN",
        rows=20,
    )
    run.up()
    run.wait("responses come", lambda s: (s.phases[1].done or 0) >= 10, 500)

    # The keys hold, and nobody sees them.
    server = run.status().servers[0]
    assert server.url is not None and server.pid is not None
    assert httpx.get(f"{server.url}/model_info", timeout=30).status_code == 401
    assert not list(run.root.glob(".*.keys.yaml"))
    for process in (parent := psutil.Process(server.pid), *parent.children(recursive=True)):
        assert not any(key in word for word in process.cmdline() for key in KEYS.values())

    # Hold: what is in flight is ended on the server, and continued later from where it was.
    asked = time.monotonic()
    run.verb("pause")
    status = run.wait("paused", lambda s: s.phases[1].state == "paused", 30)
    print(f"held after {time.monotonic() - asked:.1f} s")
    assert sum(d.in_flight for d in status.datasets) == 0
    run.verb("resume")
    done = status.phases[1].done or 0
    run.wait("resumed", lambda s: (s.phases[1].done or 0) > done, 60)

    # The server dies: it is started again, and the run goes on by itself.
    victim = proc.identify(server.pid)
    assert victim is not None and proc.send(victim, signal.SIGKILL)
    run.wait_done(500)
    run.assert_each_once()
    rows = [row for rows in run.rows().values() for row in rows]
    complete = [row for row in rows if row["state"] == "complete"]
    assert len(complete) >= 0.9 * len(rows)
    assert all(row["reasoning"] and row["content"] for row in complete)
    assert all(row["usage"]["completion_tokens"] == len(row["output_ids"]) for row in rows)
    assert any(row["finish_reason"] == "stop" for row in rows)
