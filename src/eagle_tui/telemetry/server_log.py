"""What the log of a starting or working SGLang says: how far its start is, and its load.

The load is for servers whose HTTP says nothing of it. Grammar of the lines as recorded of SGLang
0.5.17 and 0.5.23 (CPU and H200); our own engine writes the same markers.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Literal

from eagle_tui.clock import Clock
from eagle_tui.telemetry.diagnosis import REQUEST
from eagle_tui.telemetry.log_file import LogFile

StageName = Literal["imports", "weights", "kv_pool", "graphs", "warmup", "ready"]

TAIL_LINES = 1000
"""Lines kept for a diagnosis; those of requests and progress bars are left out."""
RANK_STALE_S = 30.0
"""A data-parallel rank that wrote no batch line for so long counts as idle."""
CATCH_UP_S = 86_400.0

STAMP = re.compile(
    r"\[(?P<ts>\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?:\.\d{3})?(?P<rank>(?: [A-Z]+\d+)*)\] "
)
BATCH = re.compile(
    STAMP.pattern + r"(?P<kind>Prefill|Decode) batch(?: \[\d+\])?, (?P<rest>.*)$", re.ASCII
)
PAIR = re.compile(
    r"(?:^|, )(?P<k>#?[A-Za-z][A-Za-z ./()-]*?): (?P<v>-?[\d.]+%?|True|False|nan|inf)(?=, |$)"
)
ACCESS = re.compile(r'- "[A-Z]+ \S+ HTTP/\d')
BAR = re.compile(r"\| (\d+)/(\d+) \[")
RETRACTED = re.compile(r"#retracted_reqs: (\d+)")
POOL = re.compile(r"#tokens: (\d+)(?:, K size: ([\d.]+) GB, V size: ([\d.]+) GB)?")
SUMMARY = re.compile(r"max_total_num_tokens=(\d+)")
GRAPH = re.compile(r"Capture (?:(?P<what>.*?) )?cuda graph (?P<edge>begin|end)", re.IGNORECASE)

DYING = re.compile(
    rf"(?:{STAMP.pattern})?(?:"
    r"Scheduler hit an exception|DetokenizerManager hit an exception|SIGQUIT received"
    r"|Received sigquit from a child process|Initialization failed\. warmup error"
    r"|Subprocess \S+ \(pid=\d+\) crashed with exit code|\w+ watchdog timeout \(.*soft=False"
    r"|(?:ERROR: *|[\w.]+Error: |\[Errno \d+\] ).*address already in use)"
)
"""How a line begins after which the server is lost, though its parent may sit over dumps for long.
Only how they begin: further on may stand what a client sent."""


@dataclass(frozen=True)
class Stage:
    """How far a start is."""

    name: StageName
    progress: float | None
    """Share of this stage that is done, 0..1; None: not known."""
    sentence: str


@dataclass(frozen=True)
class LogLoad:
    """The newest batch lines, summed over data-parallel ranks. None: not said (yet)."""

    tok_s: float | None
    running: int | None
    queued: int | None
    kv_usage: float | None
    """Share of the KV pool in use, 0..1; the mean over ranks."""
    at_mono: float
    """Monotonic time of the newest line."""
    accept_length: float | None = None
    retractions: int = 0
    """Requests retracted since the log began."""


class ServerLog:
    """Follows one server's log. `poll` reads what is new; the rest is what it says so far."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._file = LogFile(path)
        self._clock = clock
        self._first = True
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)
        self._ranks: dict[str, LogLoad] = {}
        self._gap: set[str] = set()
        self._retractions = 0
        self._lead = ""
        self.stage: Stage | None = None
        """None before the first line, and for a log whose beginning was too long to be read."""
        self.dying = ""
        """The line that says that this server is lost, before its process ends; empty: none."""
        self.kv_tokens: int | None = None
        """Size of the KV pool in tokens that the server really took."""

    @property
    def tail(self) -> tuple[str, ...]:
        """The newest lines, for `diagnose`."""
        return tuple(self._tail)

    @property
    def load(self) -> LogLoad | None:
        """The load by the newest batch lines; None before the first."""
        if not self._ranks:
            return None
        newest = max(r.at_mono for r in self._ranks.values())
        ranks = [r for r in self._ranks.values() if newest - r.at_mono <= RANK_STALE_S]
        speeds = [r.tok_s for r in ranks if r.tok_s is not None]
        usages = [r.kv_usage for r in ranks if r.kv_usage is not None]
        accepts = [r.accept_length for r in ranks if r.accept_length]
        return LogLoad(
            tok_s=sum(speeds) if speeds else None,
            running=sum(r.running or 0 for r in ranks),
            queued=sum(r.queued or 0 for r in ranks),
            kv_usage=sum(usages) / len(usages) if usages else None,
            at_mono=newest,
            accept_length=sum(accepts) / len(accepts) if accepts else None,
            retractions=self._retractions,
        )

    def poll(self) -> None:
        """Read what is new. Never raises: a log that cannot be read says nothing."""
        lines, rest = self._file.read()
        for line in lines:
            self._take(line)
        if rest:
            self._bar(rest)
        self._first = self._first and not lines

    def _take(self, line: str) -> None:
        if (" HTTP/" in line and ACCESS.search(line)) or REQUEST.match(line):
            return
        if self._bar(line):
            return
        self._tail.append(line)
        if not self.dying and DYING.match(line):
            self.dying = line.strip()
        self._batch(line)
        self._marker(line)

    def _bar(self, line: str) -> bool:
        """Take a progress bar in; whether it was one."""
        if "| " not in line:
            return False
        match = None
        for match in BAR.finditer(line):  # noqa: B007 - the newest one is wanted
            pass
        if match is None:
            return False
        done, total = int(match[1]), int(match[2])
        if self.stage is None or total <= 0 or done > total:
            return True
        if self.stage.name == "weights":
            self._progress(done / total, f"loading weights, {done} of {total} files")
        elif self.stage.name == "graphs":
            self._progress(done / total, f"capturing CUDA graphs, {done} of {total}")
        return True

    def _progress(self, share: float, sentence: str) -> None:
        assert self.stage is not None
        # Bars of several ranks may be mixed: the one that is ahead counts.
        if self.stage.progress is None or share >= self.stage.progress:
            self.stage = replace(self.stage, progress=share, sentence=sentence)

    def _marker(self, line: str) -> None:
        if not self._leads(line):
            return
        for stage in _stages(line):
            if self.stage is not None and self.stage.name == "ready":
                return
            if stage.name == "imports" and self.stage and self.stage.name != "imports":
                return
            self.stage = stage
        if summary := SUMMARY.search(line):
            self.kv_tokens = int(summary[1])
        if self.stage is None and not self._file.passed_over:
            self.stage = Stage("imports", None, "its program is being loaded")

    def _leads(self, line: str) -> bool:
        """Whether the line counts for the stage. Every rank writes its own markers, not in step
        with the others; the first one is followed, which may load a second model, too."""
        stamp = STAMP.search(line)
        rank = stamp["rank"] if stamp else ""
        if not rank:
            return True
        if not self._lead:
            self._lead = rank
        return rank == self._lead

    def _batch(self, line: str) -> None:
        if retracted := RETRACTED.search(line):
            self._retractions += int(retracted[1])
        match = BATCH.search(line)
        if match is None:
            return
        pairs = {m["k"]: m["v"] for m in PAIR.finditer(match["rest"])}
        rank = next((w for w in match["rank"].split() if w.startswith("DP")), "")
        before = self._ranks.get(rank)
        running = _whole(pairs.get("#running-req"))
        tok_s = before.tok_s if before else None
        if match["kind"] == "Prefill":
            if running == 0:
                # Nothing ran: the next decode line's rate would count the idle time in.
                self._gap.add(rank)
                tok_s = None
            running = (running or 0) + (_whole(pairs.get("#new-seq")) or 0)
        elif rank in self._gap:
            self._gap.discard(rank)
            tok_s = None
        else:
            tok_s = _number(pairs.get("gen throughput (token/s)"))
        self._ranks[rank] = LogLoad(
            tok_s=tok_s,
            running=running,
            queued=_whole(pairs.get("#queue-req")),
            kv_usage=_number(pairs.get("token usage") or pairs.get("full token usage")),
            at_mono=self._at(match["ts"]),
            accept_length=_number(pairs.get("accept len")),
        )

    def _at(self, stamp: str) -> float:
        """When a line was written. What is new was written now, but for the first look: its lines
        may be old, and their stamps (local time) say how old."""
        mono = self._clock.monotonic()
        if not self._first:
            return mono
        try:
            age = self._clock.wall() - datetime.fromisoformat(stamp).timestamp()
        except (ValueError, OverflowError, OSError):
            return mono
        return mono - age if 0.0 <= age <= CATCH_UP_S else mono


def _stages(line: str) -> Iterator[Stage]:
    """The stages that begin with this line."""
    if "server_args=" in line:
        yield Stage("imports", None, "its arguments are read; its processes start")
    elif "Load weight begin" in line:
        yield Stage("weights", 0.0, "loading weights")
    elif "Load weight end" in line:
        yield Stage("kv_pool", None, "weights are loaded; the KV pool is made")
    elif "KV Cache is allocated" in line and (pool := POOL.search(line)):
        size = f", {float(pool[2]) + float(pool[3]):.1f} GB" if pool[2] else ""
        yield Stage("kv_pool", 1.0, f"the KV pool holds {int(pool[1]):,} tokens{size}")
    elif graph := GRAPH.search(line):
        end = graph["edge"].lower() == "end"
        words = "CUDA graphs are captured" if end else "capturing CUDA graphs"
        yield Stage("graphs", 1.0 if end else 0.0, words)
    elif SUMMARY.search(line):
        yield Stage("warmup", None, "its memory is laid out; HTTP is opened")
    elif "Uvicorn running on" in line:
        yield Stage("warmup", None, "HTTP is open; the warm-up request runs")
    elif "The server is fired up and ready to roll" in line:
        yield Stage("ready", 1.0, "ready")


def _number(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        number = float(text.removesuffix("%"))
    except ValueError:
        return None
    return number if abs(number) < 1e12 else None


def _whole(text: str | None) -> int | None:
    number = _number(text)
    return None if number is None else int(number)
