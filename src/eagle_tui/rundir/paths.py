"""Where everything lies in a run directory."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

_EVENTS = re.compile(r"[a-z]+-(\d{4,9})\.jsonl")


@dataclass(frozen=True)
class RunDir:
    """Paths of a run. Makes nothing by itself."""

    root: Path

    @classmethod
    def at(cls, path: str | Path) -> RunDir:
        """The run directory at `path`, made absolute, symbolic links resolved; `~nobody` stays as
        it is."""
        return cls(Path(os.path.expanduser(path)).resolve())  # noqa: PTH111 - raises nothing

    @property
    def config(self) -> Path:
        return self.root / "run.toml"

    @property
    def accepted(self) -> Path:
        """run.toml as the supervisor took it."""
        return self.root / "run.accepted.toml"

    @property
    def state(self) -> Path:
        return self.root / "state.sqlite"

    @property
    def desired(self) -> Path:
        return self.root / "desired.json"

    @property
    def flagged(self) -> Path:
        """The responses that the operator marked."""
        return self.root / "flagged.json"

    @property
    def environment(self) -> Path:
        """Where the run was brought up: its environment variables, none of them a secret."""
        return self.root / ".environment.json"

    @property
    def lock(self) -> Path:
        return self.root / "supervisor.lock"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def reports(self) -> Path:
        return self.root / "reports"

    @property
    def socket(self) -> Path:
        """The supervisor's socket; its address is had from `unixsocket.address`."""
        return self.root / "supervisor.sock"

    def phase(self, name: str) -> Path:
        """Directory of a phase's output."""
        return self.root / PHASE_DIRS[name]

    def manifest(self, phase: str) -> Path:
        """The manifest that a finished phase leaves."""
        return self.phase(phase) / "manifest.json"

    def events(self, phase: str, attempt: int) -> Path:
        """The event log of one worker attempt."""
        return self.root / "events" / f"{phase}-{attempt:04d}.jsonl"

    def event_logs(self, phase: str) -> dict[int, Path]:
        """The event logs of a phase by the number of the attempt, the first first. What else lies
        there, such as a copy that somebody put beside one, is none."""
        paths = (self.root / "events").glob(f"{phase}-*.jsonl")
        found = {int(name[1]): path for path in paths if (name := _EVENTS.fullmatch(path.name))}
        return dict(sorted(found.items()))

    def log(self, name: str, attempt: int) -> Path:
        """Standard output and error of one process attempt."""
        return self.logs / f"{name}-{attempt:04d}.log"

    def worker_lock(self, phase: str) -> Path:
        """Held by the one worker of a phase while it lives."""
        return self.phase(phase) / ".lock"

    def prompts(self, dataset: str) -> Path:
        return self.phase("prepare") / f"{dataset}.jsonl"

    def rejected(self, dataset: str) -> Path:
        """Rows that prepare left out, each with its reason."""
        return self.phase("prepare") / f"{dataset}.rejected.jsonl"

    def responses(self, dataset: str) -> Path:
        return self.phase("generate") / f"{dataset}.jsonl"

    def dead(self, dataset: str) -> Path:
        """Attempts that did not become a row of `responses`, each with its reason."""
        return self.phase("generate") / f"{dataset}.dead.jsonl"

    def partial(self, dataset: str) -> Path:
        """Token ids of answers that a pause ended half-way, to be continued."""
        return self.phase("generate") / f"{dataset}.partial.jsonl"


PHASE_DIRS: dict[str, str] = {
    "prepare": "prompts",
    "generate": "responses",
    "merge": "tokens",
    "extract": "hidden",
    "train": "drafter",
    "bench": "bench",
}
