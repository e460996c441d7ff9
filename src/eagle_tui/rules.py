"""The rules that name problems, and the one line that says what the bottleneck is now.

Pure: a status goes in, alerts come out, the most severe first.
"""

from __future__ import annotations

from collections.abc import Iterator

from eagle_tui.protocol import Alert, ServerStatus, Severity, Status
from eagle_tui.troubles import Trouble

MIN_FINISHED = 20
"""Responses after which shares of a dataset are worth judging."""
LOW_DISK = 5 << 30
"""Bytes of free disk below which there is a warning."""
DISK_SOON_S = 6 * 3600.0
MANY_TRUNCATED = 0.3
KV_FULL = 0.75
"""From this share of the KV pool on, requests that wait wait for memory: the server keeps a reserve
for the tokens to come."""
ACCEPT_USELESS = 1.05
"""Accept length counts the bonus token: at 1.0 nothing that the drafter says is accepted."""
STALE_S = 10.0

ORDER: dict[Severity, int] = {"error": 0, "warning": 1, "info": 2}

Found = tuple[str, Severity, str, str]
"""(rule, severity, sentence, remedy)"""


def alerts(
    status: Status, since: dict[str, float], reasoning: bool, trouble: Trouble | None = None
) -> tuple[Alert, ...]:
    """Alerts for `status`. `since` remembers when each began and is brought up to date.
    `reasoning`: the target is a reasoning model. `trouble`: what ails the supervisor itself."""
    found = {
        rule: Alert(
            rule=rule,
            severity=severity,
            sentence=sentence,
            remedy=remedy,
            since=since.get(rule, status.at),
        )
        for rule, severity, sentence, remedy in _all(status, reasoning, trouble)
    }
    since.clear()
    since.update({rule: alert.since for rule, alert in found.items()})
    return tuple(sorted(found.values(), key=lambda a: (ORDER[a.severity], a.since)))


def _all(status: Status, reasoning: bool, trouble: Trouble | None) -> Iterator[Found]:
    if trouble is not None:
        sentence = f"the supervisor cannot keep the run's state: {trouble.what}"
        again = "it tries again by itself"
        remedy = f"{trouble.remedy}; {again}" if trouble.remedy else again
        yield "supervisor", "error", sentence, remedy
    yield from _phases(status)
    yield from _servers(status)
    yield from _datasets(status, reasoning)
    yield from _machine(status)
    yield from _bottleneck(status)
    yield from _done(status)


def _phases(status: Status) -> Iterator[Found]:
    for phase in status.phases:
        rule = f"phase-{phase.name}"
        if phase.state == "failed":
            remedy = f"mend it, then R, or `eagle-tui rerun RUN {phase.name}`; see logs/"
            yield rule, "error", f"{phase.name} failed: {phase.reason}", remedy
        elif phase.state == "paused":
            why = f": {phase.reason}" if phase.reason else ""
            yield rule, "warning", f"{phase.name} is paused{why}", "r, or `eagle-tui resume`"
        elif phase.state == "stalled" and _explained(status, phase.name):
            continue
        elif phase.state == "stalled":
            yield rule, "warning", f"{phase.name} stands still: {phase.reason}", ""
        elif phase.state == "stale":
            remedy = f"R, or `eagle-tui rerun RUN {phase.name}`"
            yield rule, "warning", f"{phase.name} is stale: {phase.reason}", remedy


def _explained(status: Status, phase: str) -> bool:
    """Generation waits for a server whose settings are being changed: that is said already."""
    serving = any(s.state in ("ready", "attached") for s in status.servers)
    return phase == "generate" and not serving and any(s.retune for s in status.servers)


def _retune(server: ServerStatus, supervisor: int | None) -> Found:
    """How far a change of settings is. `supervisor`: its pid."""
    assert server.retune is not None
    if server.retune.waits:
        sentence = f"the retune of server {server.name} waits: {server.retune.waits}"
        remedy = (
            f"`kill {supervisor or 'PID'}` (ends the supervisor alone), then `eagle-tui up RUN`"
        )
        return f"retune-{server.name}", "error", sentence, f"{remedy} where it is set"
    words = {"reverting": "going back: "}.get(server.retune.step, "")
    sentence = f"server {server.name} is retuned ({server.retune.changes}): {words}"
    if server.state != "starting":
        sentence += (server.reason or server.retune.step) if not words else "stopped"
    else:
        sentence += server.reason or "starting"
        if server.eta_s:
            sentence += f", about {server.eta_s:.0f} s left"
    return f"retune-{server.name}", "info", sentence, ""


def _done(status: Status) -> Iterator[Found]:
    wanted = [p for p in status.phases if p.state != "blocked" or p.attempt]
    if wanted and all(p.state == "done" for p in wanted):
        remedy = "q leaves; `eagle-tui down RUN` ends its supervisor"
        if status.result:
            yield "done", "info", f"done: {status.result}", f"9, or `eagle-tui result`; {remedy}"
        else:
            yield "done", "info", "every phase of this run is done", remedy


def _servers(status: Status) -> Iterator[Found]:
    for server in status.servers:
        rule = f"server-{server.name}"
        if server.state == "failed":
            remedy = server.remedy or "mend it; its log is under logs/"
            remedy += ". Then `eagle-tui up` or `retune`"
            yield rule, "error", f"server {server.name}: {server.reason}", remedy
        elif server.retune is not None:
            yield _retune(server, status.supervisor.pid)
        elif server.state == "unready":
            sentence = f"server {server.name} is not ready: {server.reason}"
            yield rule, "warning", sentence, server.remedy
        elif server.state == "stopped" and server.reason:
            yield rule, "warning", f"server {server.name}: {server.reason}", server.remedy
        if server.accept_length is not None and server.accept_length <= ACCEPT_USELESS:
            yield (
                f"accept-{server.name}",
                "error",
                f"server {server.name}: accept length {server.accept_length:.2f}: the drafter "
                "is of no use",
                "check --speculative-algorithm EAGLE3 (not EAGLE) and the drafter's layer ids",
            )


def _datasets(status: Status, reasoning: bool) -> Iterator[Found]:
    for data in status.datasets:
        finished = data.complete + data.truncated + data.no_answer + data.loop
        if finished < MIN_FINISHED:
            continue
        if reasoning and data.reasoning_share == 0:
            yield (
                f"reasoning-{data.name}",
                "error",
                f"{data.name}: none of {finished} responses holds reasoning",
                "check target.reasoning in run.toml and the chat template",
            )
        if data.truncated > MANY_TRUNCATED * finished:
            share = 100 * data.truncated / finished
            yield (
                f"truncated-{data.name}",
                "warning",
                f"{data.name}: {share:.0f} % of the responses are truncated",
                "raise max_new_tokens, or look at the samples for loops",
            )
        if data.failed > 0.1 * (finished + data.failed):
            yield (
                f"failed-{data.name}",
                "warning",
                f"{data.name}: {data.failed} prompts failed",
                f"reasons are in responses/{data.name}.dead.jsonl",
            )


def _machine(status: Status) -> Iterator[Found]:
    host = status.host
    if host.disk_free is not None and host.disk_free < LOW_DISK:
        mib = host.disk_free / 2**20
        free = f"{mib / 1024:.1f} GiB" if mib >= 1024 else f"{mib:.1f} MiB"
        yield "disk", "warning", f"only {free} of disk are free", "make room"
    elif host.disk_full_at is not None and host.disk_full_at - status.at < DISK_SOON_S:
        hours = max(0.0, host.disk_full_at - status.at) / 3600
        yield "disk", "warning", f"at this pace the disk is full in {hours:.1f} h", "make room"
    for gpu in status.gpus:
        if gpu.state not in ("ok", "some metrics need permission"):
            remedy = "see the kernel log; the others go on"
            yield f"gpu-{gpu.index}", "error", f"GPU {gpu.index} is {gpu.state}", remedy
        elif gpu.throttle and gpu.throttle != "power cap":
            sentence = f"GPU {gpu.index} is slowed down: {gpu.throttle}"
            yield f"gpu-{gpu.index}", "warning", sentence, "check cooling and power"
        if gpu.xid is not None and gpu.state == "ok":
            remedy = "Xid numbers are explained in NVIDIA's documentation; see the kernel log"
            sentence = f"the driver reported Xid {gpu.xid} for GPU {gpu.index}"
            yield f"xid-{gpu.index}", "warning", sentence, remedy
        if gpu.age_s is not None and gpu.age_s > STALE_S:
            why = host.gpu_note or "the driver does not answer"
            sentence = f"GPU figures are {gpu.age_s:.0f} s old: {why}"
            yield "gpu-age", "warning", sentence, ""


def _bottleneck(status: Status) -> Iterator[Found]:
    generate = next((p for p in status.phases if p.name == "generate"), None)
    if generate is None or generate.state != "running":
        return
    ready = [s for s in status.servers if s.state in ("ready", "attached")]
    if not ready:
        starting = next((s for s in status.servers if s.state == "starting"), None)
        if starting:
            sentence = f"server {starting.name} is starting: {starting.reason}"
            yield "bottleneck", "info", sentence, ""
        return
    in_flight = sum(d.in_flight for d in status.datasets)
    running = sum(s.running or 0 for s in ready)
    queued = sum(s.queued or 0 for s in ready)
    fullest = max((s.kv_usage or 0.0 for s in ready), default=0.0)
    if fullest >= KV_FULL and queued:
        sentence = (
            f"the KV cache is the limit: {100 * fullest:.0f} % full, {running} running, "
            f"{queued} queued of {in_flight} in flight"
        )
        yield "bottleneck", "info", sentence, "a larger KV pool, or less concurrency"
    elif queued > running and running:
        sentence = f"the server is the limit: {running} running, {queued} queued"
        yield "bottleneck", "info", sentence, ""
    elif in_flight and running:
        sentence = f"generating: {in_flight} in flight, {running} running, {queued} queued"
        yield "bottleneck", "info", sentence, ""
