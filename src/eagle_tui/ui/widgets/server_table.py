"""The servers, what they do now; and their launches with settings, durations, outcome, effect."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from eagle_tui import fmt
from eagle_tui.protocol import Launch, ServerStatus
from eagle_tui.ui.canvas import Canvas, Line, Pen
from eagle_tui.ui.chart import bar
from eagle_tui.ui.frame import LABEL_AGE_S, Frame
from eagle_tui.ui.grid import Column
from eagle_tui.ui.widgets.table import Cells, Table, drawn, fitted, titles
from eagle_tui.ui.wrap import safe_line, wrap

COLUMNS = (
    Column("name", "server", 10),
    Column("state", "state", 11),
    Column("tok_s", "tok/s", 6, right=True),
    Column("running", "run", 5, right=True),
    Column("queued", "queued", 6, right=True),
    Column("kv", "KV", 4, right=True),
    Column("pool", "KV pool", 7, right=True),
    Column("hit", "hit", 4, right=True),
    Column("accept", "accept", 6, right=True),
    Column("retracted", "retract", 7, right=True),
    Column("flight", "in flight", 9, right=True),
    Column("per_min", "/min", 5, right=True),
    Column("failures", "fail", 4, right=True),
    Column("url", "url", 24),
)
_PRIORITY = (
    "name", "state", "tok_s", "running", "queued", "kv", "retracted", "hit", "accept", "flight",
    "failures", "per_min", "pool", "url",
)  # fmt: skip


class ServerTable(Table):
    """One row per server."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(COLUMNS, id=id)
        self._by_name: dict[str, ServerStatus] = {}

    def show(self, frame: Frame) -> None:
        self._by_name = {server.name: server for server in frame.status.servers}
        self.fill()

    @property
    def server(self) -> ServerStatus | None:
        """The one under the cursor."""
        return self._by_name.get(self.selected or "")

    def keys(self) -> Sequence[str]:
        return list(self._by_name)

    def widths(self) -> dict[str, int]:
        longest = max((len(name) for name in self._by_name), default=6)
        least = {"name": min(longest + 2, 20)}
        return fitted(COLUMNS, _PRIORITY, self.size.width, least, "url")

    def header(self, widths: dict[str, int], hidden: int) -> Cells:
        return titles(COLUMNS, widths, self.canvas.palette.muted, hidden)

    def row(self, key: str, widths: dict[str, int]) -> Cells:
        server, look = self._by_name[key], self.canvas.palette
        old = server.age_s is not None and server.age_s >= LABEL_AGE_S
        plain = look.muted if old else look.text
        client = server.client
        glyph = self.canvas.glyphs.state(server.state)
        return drawn(
            COLUMNS,
            widths,
            {
                "name": (f" {safe_line(server.name)}", look.strong),
                "state": (f"{glyph} {server.state}", look.state(server.state)),
                "tok_s": (fmt.rate(server.tok_s), plain),
                "running": (fmt.count(server.running), plain),
                "queued": (fmt.count(server.queued), plain),
                "kv": (fmt.percent(server.kv_usage), plain),
                "pool": (fmt.count(server.kv_tokens), plain),
                "hit": (fmt.percent(server.cache_hit), plain),
                "accept": (fmt.decimal(server.accept_length), plain),
                "retracted": (
                    fmt.count(server.retractions),
                    look.warn if server.retractions else plain,
                ),
                "flight": (fmt.exact(client.in_flight) if client else fmt.NONE, plain),
                "per_min": (fmt.rate(client.per_min) if client else fmt.NONE, plain),
                "failures": (
                    fmt.count(client.failures) if client else fmt.NONE,
                    look.error if client and client.failures else plain,
                ),
                "url": (f" {safe_line(server.url or '')}", look.muted),
            },
        )


class ServerNews(Canvas):
    """What the selected server is at: its start with a bar, a change of its settings, a reason."""

    server: ServerStatus | None = None

    def lines(self, width: int) -> list[Line]:
        """All that there is to say; nothing for one that simply serves."""
        server, look = self.server, self.palette
        if server is None:
            return []
        found: list[Line] = []
        if server.state == "starting":
            found.append(self._start(server, width))
        if server.retune is not None:
            tune = server.retune
            pen = Pen().add(" settings  ", look.muted).add(safe_line(tune.changes), look.text)
            pen.add(f"  {tune.step.replace('_', ' ')}", look.accent)
            if tune.reason:
                pen.add(f"  {safe_line(tune.reason)}", look.warn)
            found.append(pen.segments)
        if server.reason:
            style = look.state(server.state)
            parts = wrap(server.reason, max(width - 12, 20))
            for index, part in enumerate(parts):
                label = " reason    " if index == 0 else " " * 11
                found.append(Pen().add(label, look.muted).add(part, style).segments)
        if server.remedy:
            for index, part in enumerate(wrap(server.remedy, max(width - 12, 20))):
                label = " remedy    " if index == 0 else " " * 11
                found.append(Pen().add(label, look.muted).add(part, look.accent).segments)
        if server.age_s is not None and server.age_s >= LABEL_AGE_S:
            text = f" its figures are {fmt.age(server.age_s)} old"
            found.append(Pen().add(text, look.warn).segments)
        return found

    def draw(self, width: int, height: int) -> Iterable[Line]:
        return self.lines(width)[:height]

    def _start(self, server: ServerStatus, width: int) -> Line:
        look = self.palette
        pen = Pen().add(" start     ", look.muted)
        pen.add(server.stage.replace("_", " ") or "launched", look.text)
        if server.progress is not None:
            filled, track = bar(server.progress, min(max(width - 50, 8), 40), self.glyphs)
            pen.add("  ").add(filled, look.warn).add(track, look.track)
            pen.add(f" {fmt.percent(server.progress)}", look.strong)
        if server.eta_s is not None:
            pen.add("  ready in about ", look.muted).add(fmt.duration(server.eta_s), look.text)
        return pen.segments


LAUNCHES = (
    Column("attempt", "launch", 8),
    Column("server", "server", 10),
    Column("at", "at", 9),
    Column("start", "start", 8, right=True),
    Column("ran", "ran", 8, right=True),
    Column("outcome", "outcome", 11),
    Column("pool", "KV pool", 7, right=True),
    Column("settings", "settings over run.toml", 30),
)
_LAUNCH_PRIORITY = ("attempt", "at", "outcome", "start", "ran", "settings", "server", "pool")
_STATES = {"running": "ready", "stopped": "stopped", "failed": "failed", "hung": "stalled"}


class LaunchTable(Table):
    """The launches, the newest first."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(LAUNCHES, id=id)
        self._by_key: dict[str, Launch] = {}
        self._now = 0.0

    def show(self, launches: Sequence[Launch], now: float) -> None:
        """Draw the launches given oldest first."""
        self._by_key = {f"{item.server} {item.attempt}": item for item in reversed(launches)}
        self._now = now
        self.fill()

    @property
    def launch(self) -> Launch | None:
        """The one under the cursor."""
        return self._by_key.get(self.selected or "")

    def keys(self) -> Sequence[str]:
        return list(self._by_key)

    def widths(self) -> dict[str, int]:
        return fitted(LAUNCHES, _LAUNCH_PRIORITY, self.size.width, {}, "settings")

    def header(self, widths: dict[str, int], hidden: int) -> Cells:
        return titles(LAUNCHES, widths, self.canvas.palette.muted, hidden)

    def row(self, key: str, widths: dict[str, int]) -> Cells:
        launch, look = self._by_key[key], self.canvas.palette
        ended = launch.ended_at if launch.ended_at is not None else self._now
        state = _STATES.get(launch.outcome, "")
        outcome = launch.outcome or fmt.NONE
        glyph = f"{self.canvas.glyphs.state(state)} " if state else "  "
        texts = {
            "attempt": (f" {launch.attempt}", look.strong),
            "server": (safe_line(launch.server), look.text),
            "at": (fmt.moment(launch.launched_at, self._now), look.muted),
            "start": (fmt.duration(launch.start_s), look.text),
            "ran": (fmt.duration(ended - launch.launched_at), look.text),
            "outcome": (glyph + outcome, look.state(state) if state else look.text),
            "pool": (fmt.count(launch.kv_tokens), look.text),
            "settings": (f" {settings_text(launch)}", look.text),
        }
        return drawn(LAUNCHES, widths, texts)


def settings_text(launch: Launch) -> str:
    """The settings that were changed over run.toml: `mem-fraction-static=0.88`."""
    parts = [
        f"{key}={value}" if value is not None else f"{key} left out"
        for key, value in launch.settings.items()
    ]
    return safe_line(", ".join(parts)) or "as in run.toml"


class LaunchNews(Canvas):
    """The selected launch in full: settings, effect, reason and remedy."""

    launch: Launch | None = None

    def draw(self, width: int, height: int) -> Iterable[Line]:
        launch, look = self.launch, self.palette
        if launch is None:
            yield Pen().add(" No launch is recorded: the server is not ours.", look.muted).segments
            return
        texts = [("settings", settings_text(launch), look.text)]
        for label, text, style in (
            ("effect", launch.effect, look.accent),
            ("reason", launch.reason, look.warn),
            ("remedy", launch.remedy, look.accent),
        ):
            if text:
                texts.append((label, text, style))
        lines: list[Line] = []
        for label, text, style in texts:
            for index, part in enumerate(wrap(text, max(width - 12, 20))):
                pen = Pen().cell(f" {label}" if index == 0 else "", 11, look.muted)
                lines.append(pen.add(part, style).segments)
        yield from lines[:height]
