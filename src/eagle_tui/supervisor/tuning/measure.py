"""Measuring what a change of settings brought, when it has worked for long enough.

Equal windows before and after, of that server's own figures, in seconds in which generation really
ran on it: no pause, no start, no tail in which the last stragglers drain.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from eagle_tui.clock import Clock
from eagle_tui.history import TIERS
from eagle_tui.protocol import History, HistoryPoint, Severity, Status
from eagle_tui.supervisor.launches import Retune
from eagle_tui.supervisor.store import Store
from eagle_tui.supervisor.tuning.effect import LEAST, Window, effect

LOOK_S = 5.0
LEAST_WAIT = 0.1
"""Share of the window, and of the work since the change, that is waited at least before the history
is read again. It is read from the change on: so all reads together cost no more than some ten times
the last one, however long the effect is waited for."""
BACK = 4
"""How many windows of time are searched for one window of work."""
WARM_SHARE, WARM_MOST_S = 0.2, 60.0
"""After a start the batch fills up first: this share of the window, and no more, is left out."""
KEPT_S = (TIERS[0][1] or 0.0, TIERS[1][1] or 0.0)
"""How long the history keeps single seconds, and ten of them."""
BUSY = 0.5
"""Seconds with fewer requests in flight than this share of the usual are a tail that drains."""

Query = Callable[[str, float, float, float], History]
"""A series in [since, until] in buckets of so many seconds."""


def step_for(window_s: float, age_s: float) -> float:
    """Seconds of a bucket: fine enough for the window, and kept in the history for so long."""
    if window_s < 120 and age_s < KEPT_S[0]:
        return 1.0
    return 10.0 if window_s <= 7200 and age_s < KEPT_S[1] else 60.0


def warm_s(window_s: float) -> float:
    """Seconds after a start that are left out."""
    return min(WARM_MOST_S, WARM_SHARE * window_s)


Series = Mapping[float, float]
"""Value by Unix time at which its bucket begins."""


@dataclass(frozen=True)
class Span:
    """Figures of one server over some time."""

    times: tuple[float, ...]
    """Where the buckets begin in which it worked all the time."""
    step_s: float
    tok_s: Series
    running: Series
    kv_usage: Series
    retractions: Series
    tokens: Mapping[str, Series]
    """Tokens so far, by dataset."""

    def window(self, seconds: Sequence[float]) -> Window:
        """The figures of some of these buckets."""
        retracted = [self.retractions[s] for s in seconds if s in self.retractions]
        mix: dict[str, float] = {}
        for name, series in self.tokens.items():
            found = [series[s] for s in seconds if s in series]
            if found:
                mix[name] = max(0.0, found[-1] - found[0])
        return Window(
            tok_s=tuple(self.tok_s[s] for s in seconds),
            step_s=self.step_s,
            running=tuple(self.running[s] for s in seconds if s in self.running),
            kv_usage=tuple(self.kv_usage[s] for s in seconds if s in self.kv_usage),
            retractions=retracted[-1] - retracted[0] if retracted else None,
            mix=mix,
        )


def span(
    query: Query, server: str, datasets: Sequence[str], since: float, until: float, step_s: float
) -> Span:
    """What the history holds of a server between two times."""

    def points(name: str) -> list[HistoryPoint]:
        found = query(name, since, until, step_s)
        # Buckets that hang over an edge are of both sides.
        return [p for p in found.points if since <= p.t and p.t + step_s <= until]

    def means(name: str) -> Series:
        return {p.t: p.mean for p in points(name)}

    own = {name: points(f"server.{server}.{name}") for name in ("tok_s", "running")}
    phase = means("generate.done")
    flights: defaultdict[float, float] = defaultdict(float)
    for name in datasets:
        for point in points(f"dataset.{name}.in_flight"):
            flights[point.t] += point.mean
    busy = {p.t for p in own["running"] if p.low > 0}
    working = [p.t for p in own["tok_s"] if p.t in busy and p.t in phase and flights[p.t] > 0]
    usual = median(flights[t] for t in working) if working else 0.0
    return Span(
        times=tuple(sorted(t for t in working if flights[t] >= BUSY * usual)),
        step_s=step_s,
        tok_s={p.t: p.mean for p in own["tok_s"]},
        running={p.t: p.mean for p in own["running"]},
        kv_usage=means(f"server.{server}.kv_usage"),
        retractions=means(f"server.{server}.retractions"),
        tokens={name: means(f"dataset.{name}.tokens") for name in datasets},
    )


class Measures:
    """Watches over the changes whose effect is not known yet; `look` gets each snapshot."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        query: Query,
        window_s: float,
        say: Callable[[Severity, str, str], None],
    ) -> None:
        self._store = store
        self._clock = clock
        self._query = query
        self._window_s = window_s
        self._say = say
        self._next = float("-inf")
        self._wanting: dict[int, float] = {}
        """Seconds of work that each change still wants, as of the last read, before another one."""
        self._worked: dict[int, float] = {}
        """Seconds in which its server ran requests since each change."""

    def look(self, status: Status) -> None:
        """Measure what can be measured now."""
        mono = self._clock.monotonic()
        if mono < self._next:
            return
        self._next = mono + LOOK_S
        for retune in self._store.servers.unmeasured():
            self._measure(retune, status)

    def _measure(self, retune: Retune, status: Status) -> None:
        assert retune.paused_at is not None and retune.resumed_at is not None
        now = self._clock.wall()
        warm = warm_s(self._window_s)
        over = self._over(retune, status)
        if not over and not self._due(retune, status, now - retune.resumed_at - warm):
            return
        names = [data.name for data in status.datasets]
        since = retune.paused_at - BACK * self._window_s
        step = step_for(self._window_s, now - since)
        before_it, after_it = self._neighbours(retune)
        until = now if after_it is None or after_it.paused_at is None else after_it.paused_at
        later = span(self._query, retune.server, names, retune.resumed_at + warm, until, step)
        wanting = self._window_s - len(later.times) * step
        if wanting > 0 and not over:
            worked = max(self._window_s, self._worked.get(retune.id, 0.0))
            self._wanting[retune.id] = max(wanting, LEAST_WAIT * worked)
            return
        self._wanting.pop(retune.id, None)
        self._worked.pop(retune.id, None)
        if before_it is not None and before_it.resumed_at is not None:
            since = max(since, before_it.resumed_at + warm)
        earlier = span(self._query, retune.server, names, since, retune.paused_at, step)
        n = min(int(self._window_s / step), len(earlier.times), len(later.times))
        if n < LEAST:
            told = (
                f"not measured: {len(earlier.times) * step:.0f} s of whole work before the change "
                f"and {len(later.times) * step:.0f} s after it are too few"
            )
        else:
            before = earlier.window(earlier.times[len(earlier.times) - n :])
            told = effect(before, later.window(later.times[:n])).sentence()
        sentence = f"{retune.words}: {told}"
        self._store.servers.effect(retune.id, sentence)
        self._say("info", f"server {retune.server}", sentence)

    def _due(self, retune: Retune, status: Status, since_s: float) -> bool:
        """Whether so much work may have been done with the new settings that the history is worth
        reading, which takes long; `since_s`: seconds since work with them counts."""
        generates = any(
            p.name == "generate" and p.state in ("running", "draining") for p in status.phases
        )
        if not generates or not any(s.name == retune.server and s.running for s in status.servers):
            return False
        self._worked[retune.id] = self._worked.get(retune.id, 0.0) + LOOK_S
        if retune.id in self._wanting:
            self._wanting[retune.id] -= LOOK_S
        return since_s >= self._window_s and self._wanting.get(retune.id, 0.0) <= 0

    def _over(self, retune: Retune, status: Status) -> bool:
        """Whether no more time with these settings is to come: they were changed again, or
        generation is done."""
        if self._neighbours(retune)[1] is not None:
            return True
        return any(p.name == "generate" and p.state in ("done", "stale") for p in status.phases)

    def _neighbours(self, retune: Retune) -> tuple[Retune | None, Retune | None]:
        """The changes of the same server before and after it in which the server was stopped."""
        same = [
            r
            for r in self._store.servers.retunes()
            if r.server == retune.server and r.paused_at is not None and r.id != retune.id
        ]
        before = [r for r in same if r.id < retune.id]
        after = [r for r in same if r.id > retune.id]
        return before[-1] if before else None, after[0] if after else None
