"""The append-only event log by which a worker reports, and what its lines mean.

Every line holds `e` (kind) and `at` (Unix seconds). Kinds:

- `start`    pid, started (process start time, see eagle_tui.proc), phase, attempt, version
- `progress` done, total, unit, detail: how far the phase is
- `dataset`  name, prompts, states {state: n}, tokens, lengths {tokens: n}, reasoned,
             reasoning_tokens: the whole truth about one dataset as found on opening it; replaces
             what was known before (`lengths` counts responses by completion tokens, `reasoned`
             those with reasoning)
- `result`   ds, id, state, pt, ct, rt (prompt, completion, reasoning tokens), s (seconds), stored
             (false: a dead letter, without tokens): one prompt became final; adds to what was known
- `load`     endpoints {name: {in_flight, limit, answers, tokens, failures}}: what each endpoint did
             for this worker; answers, tokens and failures only grow
- `begun`    datasets {name: {tokens: n}}: answers in flight or held, by tokens so far, rounded
- `flow`     mode, in_flight {dataset: n}, seq, reason, oldest_s, endpoints {name: why it is out,
             or ""}: what the phase does now; `seq` is the desired state it has applied
- `metric`   values {name: number or null}: what the phase measures of itself, such as loss
- `note`     severity, text: for the operator to read
- `end`      outcome (done|stopped|failed|refused), reason
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from eagle_tui.clock import Clock
from eagle_tui.rundir.jsonl import Appender

FlowMode = Literal["running", "draining", "paused", "waiting", "finishing"]
Outcome = Literal["done", "stopped", "failed", "refused"]


class WorkerLog:
    """Writes the event log of one attempt: at once to the file, to disk on `sync` and `close`."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self.path = path
        self._out = Appender(path)
        self._clock = clock

    def emit(self, kind: str, **fields: Any) -> None:
        """Append one event."""
        self._out.append({"e": kind, "at": round(self._clock.wall(), 3), **fields})

    def note(self, text: str, severity: Literal["info", "warning", "error"] = "info") -> None:
        """Say something to the operator."""
        self.emit("note", severity=severity, text=text)

    def sync(self) -> None:
        """Force the log to disk."""
        self._out.sync()

    def close(self) -> None:
        """Force to disk and close."""
        self._out.close()
