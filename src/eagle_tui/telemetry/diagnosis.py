"""Why a server died, read from its log: a sentence, and what to do.

Pure. The signatures are in `deaths.py`.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from eagle_tui.telemetry.deaths import KILLED, RULES, TRACEBACK, Rule
from eagle_tui.text import visible

LOOK = 4000
"""Newest lines that are looked at."""
LONGEST = 300
"""Characters of a log line that a sentence quotes."""

HARMLESS = re.compile(
    r"^(?:\[[^\]]*\] *)?server_args=|Ignore import error|OpenAI Responses API|resource_tracker|"
    r"leaked semaphore|nanobind|Fail to set RLIMIT"
)
"""Lines that hold such words and are no errors."""
REQUEST = re.compile(
    r"(?:\[[^\]]*\] *)?(?:(?:Receive|Finish)(?: \w+)?: (?:obj|rid)="
    r'|\{"[^{]{0,80}"event": ?"request\.)'
)
"""How a line of `log-requests` begins. Prompts and answers stand in it: whatever they say is not
said of the server."""
HARMLESS_TRACEBACK = "post-warmup freeze_gc failed"
"""Heads a traceback that means nothing: 0.5.23 without a warm-up asks its own port too early."""
STAMPED = re.compile(r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")


@dataclass(frozen=True)
class Diagnosis:
    """Why a server died."""

    rule: str
    sentence: str
    remedy: str
    permanent: bool
    """Another start with the same settings cannot help. Want of memory is not permanent: others
    may hold it for a while."""


KILLS = ("killed", "child-killed")
SERVED = re.compile(r"The server is fired up|Decode batch|POST /generate HTTP")
STEPS = {"extend": "prefill", "prefill": "prefill", "decode": "decode"}
STEP = re.compile("|".join(STEPS))
BATCH = re.compile(r"(Prefill|Decode) batch")
FRAME = re.compile(r"File \"[^\"]*\", line \d+, in (?P<name>\w+)")
OWN_END = "kill_process_tree called"
"""SGLang's parent ends itself with SIGKILL: then the exit says nothing of who did it."""


def diagnose(
    lines: Sequence[str], exit_words: str, *, oom_killed: bool = False
) -> Diagnosis | None:
    """Why a server with these last log lines died; None when the log does not say.

    `exit_words`: how the process ended, as `Exit.words()` says it. `oom_killed`: the system killed
    a process for want of memory since the server was launched (`memory.oom_kills` grew). Not to be
    asked of a server that was told to stop.
    """
    found = _diagnose(lines, exit_words)
    if oom_killed and (found is None or found.rule in KILLS):
        rule = next(r for r in RULES if r.name == "host-memory")
        return Diagnosis(rule.name, f"{rule.sentence}: the system killed it", rule.remedy, False)
    return found


def _diagnose(lines: Sequence[str], exit_words: str) -> Diagnosis | None:
    wanted = list(_meant(lines[-LOOK:]))
    for rule in RULES:
        if rule.name == "oom-run":
            continue
        for index in range(len(wanted) - 1, -1, -1):
            match = rule.pattern.search(wanted[index])
            if match is not None:
                return _found(_which(rule, wanted, index), match, wanted[:index])
    for line in reversed(wanted):
        if BATCH.search(line):
            break  # it worked on after whatever is before this
        if match := TRACEBACK.pattern.search(line):
            return _found(TRACEBACK, match, ())
    if "SIGKILL" in exit_words and not any(OWN_END in line for line in wanted):
        return Diagnosis(KILLED.name, KILLED.sentence, KILLED.remedy, permanent=False)
    return None


def _meant(lines: Sequence[str]) -> Iterator[str]:
    """The lines without what is harmless."""
    passing = False
    for line in lines:
        if STAMPED.search(line):
            passing = HARMLESS_TRACEBACK in line
        if not passing and not HARMLESS.search(line) and not REQUEST.match(line):
            yield line


def _which(rule: Rule, lines: Sequence[str], index: int) -> Rule:
    """Out of memory while it started, or while it served?"""
    if rule.name == "oom-load" and any(SERVED.search(line) for line in lines[:index]):
        return next(r for r in RULES if r.name == "oom-run")
    return rule


def _found(rule: Rule, match: re.Match[str], before: Sequence[str]) -> Diagnosis:
    groups = {k: _short(v) for k, v in match.groupdict().items() if v is not None}
    size = groups.get("size")
    groups["size_words"] = f" (asked for {size} more)" if size else ""
    groups["step"] = _step(before)
    groups["end"] = _end(groups.get("code", ""))
    return Diagnosis(
        rule=rule.name,
        sentence=rule.sentence.format(**groups),
        remedy=rule.remedy,
        permanent=rule.permanent,
    )


def _end(code: str) -> str:
    """How a process ended, by its exit code as Python tells it: negative is a signal's number."""
    try:
        return signal.Signals(-int(code)).name
    except ValueError:
        return f"exit code {code}"


def _step(before: Sequence[str]) -> str:
    """What the engine computed when it failed: by the frames of the traceback, else by the newest
    batch line."""
    for line in reversed(before[-120:]):
        if (frame := FRAME.search(line)) and (kind := STEP.search(frame["name"])):
            return STEPS[kind[0]]
    for line in reversed(before):
        if kind := BATCH.search(line):
            return STEPS[kind[1].lower()]
    return "a step"


def _short(text: str) -> str:
    text = visible(text.strip()).replace("\n", " ")
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"
