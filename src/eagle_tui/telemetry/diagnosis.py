"""Why a server died, read from its log: a sentence, and what to do.

Pure. The table is the source of the rows in docs/troubleshooting.md. Each rule is recognised from
a recorded log, or from a line as public reports show it (tests/fixtures/server_logs/README.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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


@dataclass(frozen=True)
class Rule:
    """One signature. `pattern` is searched in each line, newest line first."""

    name: str
    pattern: re.Pattern[str]
    sentence: str
    """May use the pattern's named groups as `{group}`."""
    remedy: str
    permanent: bool = False
    seen: str = ""
    """How the table in the documentation names the signature."""


def _rule(name: str, pattern: str, sentence: str, remedy: str, seen: str, **more: object) -> Rule:
    return Rule(name, re.compile(pattern), sentence, remedy, seen=seen, **more)  # type: ignore[arg-type]


RULES: tuple[Rule, ...] = (
    _rule(
        "bad-flag",
        r"error: (?P<what>unrecognized arguments: .*|argument \S+: .*|ambiguous option: .*"
        r"|the following arguments are required: .*|[^:]*expected (?:one|at least one) argument.*)",
        "the server does not take its flags: {what}",
        "correct `[server.flags]` in run.toml, or `retune` the flag away",
        "`error: unrecognized arguments`, `invalid choice`",
        permanent=True,
    ),
    _rule(
        "engine",
        r"^eagle-tui engine: (?P<what>.+)",
        "the embedded engine cannot start as it is asked to: {what}",
        "correct what it names: `target.model`, or `[server.flags]` in run.toml",
        "a line of the embedded engine itself, exit code 2",
        permanent=True,
    ),
    _rule(
        "port",
        r"(?:address already in use|Errno 98\b.*bind|EADDRINUSE"
        r"|while attempting to bind on [^ ]*:\d+)",
        "its port is taken by another program",
        "stop that program, or leave `port` unset so that a free one is chosen",
        "`address already in use`",
    ),
    _rule(
        "kv-pool",
        r"leave no GPU memory for the KV cache under --mem-fraction-static="
        r"(?P<now>-?\d+(?:\.\d+)?).*?above (?P<least>\d+(?:\.\d+)?)",
        "mem-fraction-static {now} leaves no memory for the KV pool; it must be above {least}",
        "raise mem-fraction-static above that, or free GPU memory that others hold",
        "`leave no GPU memory for the KV cache`",
    ),
    _rule(
        "kv-pool",
        r"Not enough memory\. Please try to increase --mem-fraction-static",
        "mem-fraction-static leaves no memory for the KV pool",
        "raise mem-fraction-static, or use more GPUs (tp)",
        "`Please try to increase --mem-fraction-static`",
    ),
    _rule(
        "host-memory-hicache",
        r"Not enough host memory available\. Requesting (?P<asked>[\d.]+) GB but only have "
        r"(?P<free>[\d.]+) GB",
        "the hierarchical cache asks for {asked} GB of host memory per rank, {free} GB are free",
        "lower hicache-size (GB per rank) or hicache-ratio; 10 GiB stay free on each host",
        "`Not enough host memory available`",
    ),
    _rule(
        "oom-load",
        r"(?:OutOfMemoryError|CUDA out of memory|HIP out of memory|cudaErrorMemoryAllocation)"
        r"(?:.*?Tried to allocate (?P<size>[\d.]+ [KMG]iB))?",
        "the GPU ran out of memory while the server started{size_words}",
        "lower mem-fraction-static or cuda-graph-max-bs-decode, or see who else holds GPU memory",
        "`CUDA out of memory` before it was ready",
    ),
    _rule(
        "oom-run",
        r"(?:OutOfMemoryError|CUDA out of memory|HIP out of memory|cudaErrorMemoryAllocation)"
        r"(?:.*?Tried to allocate (?P<size>[\d.]+ [KMG]iB))?",
        "the GPU ran out of memory in {step}{size_words}",
        "lower mem-fraction-static, chunked-prefill-size or max-running-requests",
        "`CUDA out of memory` while it served",
    ),
    _rule(
        "no-gpu",
        r"No accelerator \([^)]*\)[\w ]* is available",
        "the server sees no GPU",
        "correct `gpus` of its [[server]] in run.toml (they count from 0), or see what "
        "`nvidia-smi` shows; CUDA_VISIBLE_DEVICES may hide them",
        "`No accelerator … is available`",
        permanent=True,
    ),
    _rule(
        "driver",
        r"(?P<what>NVIDIA driver on your system is too old[^.]*|driver/library version mismatch"
        r"|CUDA driver version is insufficient[\w ]*|Found no NVIDIA driver on your system"
        r"|Torch not compiled with CUDA enabled|no kernel image is available for execution"
        r"|Error 803: system has unsupported display driver)",
        "GPU driver and this SGLang do not fit: {what}",
        "install an SGLang (torch) that fits the driver, or renew the driver; after a driver "
        "update, reboot or reload its module",
        "`driver on your system is too old`, `Torch not compiled with CUDA enabled`",
        permanent=True,
    ),
    _rule(
        "nccl",
        r"(?P<what>NCCL error[^,]*(?:, [a-z ]+)?|ncclInternalError|ncclUnhandledCudaError"
        r"|ncclSystemError|ncclRemoteError|Watchdog caught collective operation timeout"
        r"|DistBackendError)",
        "the GPUs could not talk to each other: {what}",
        "see `nvidia-smi` and the kernel log for a lost GPU; between hosts check the network "
        "interface (NCCL_SOCKET_IFNAME); `NCCL_DEBUG=INFO` in [server.env] says more",
        "`NCCL error`, `Watchdog caught collective operation timeout`",
    ),
    _rule(
        "cuda-error",
        r"(?P<what>CUDA error: [^\n.]*|device-side assert triggered|CUDA_ERROR_\w+)",
        "a GPU kernel failed: {what}",
        "it is restarted; again and again: see the kernel log for Xid lines, and look for token "
        "ids outside the vocabulary",
        "`CUDA error`, `device-side assert triggered`",
    ),
    _rule(
        "foreign-token",
        r"IndexError: index out of range in self",
        "a request held a token id outside the vocabulary",
        "our prompts are checked for that: see who else uses this server, and whether "
        "`target.model` is the model that it serves",
        "`index out of range in self` (CPU)",
    ),
    _rule(
        "empty-prompt",
        r"cannot reshape tensor of 0 elements",
        "an empty prompt reached the engine, which dies of one",
        "our prompts are checked for that: see who else uses this server",
        "`cannot reshape tensor of 0 elements` (SGLang 0.5.23)",
    ),
    _rule(
        "watchdog",
        r"\w+ watchdog timeout|Watchdog timeout",
        "one step took longer than the watchdog allows: the engine hung",
        "it is restarted; again and again: raise watchdog-timeout if steps may be that long, or "
        "report the stacks in its log",
        "`watchdog timeout`",
    ),
    _rule(
        "host-memory",
        r"[Oo]ut of memory: Killed process|oom-kill|oom_kill|MemoryError\b|Cannot allocate memory"
        r"|DefaultCPUAllocator: can't allocate memory",
        "the host ran out of memory",
        "lower hicache-size, stop what else uses memory, or give the container more",
        "`Killed process`, `Cannot allocate memory`",
    ),
    _rule(
        "disk",
        r"No space left on device",
        "a disk is full",
        "make room; caches are under the home directory and /tmp, shared memory is /dev/shm",
        "`No space left on device`",
    ),
    _rule(
        "model",
        r"(?P<what>Repo id must be in the form .*|is not a local folder and is not a valid .*"
        r"|Repository Not Found.*|does not appear to have a file named \S+"
        r"|Can't load the configuration of .*|Incorrect path_or_model_id: .*"
        r"|Cannot find the requested files in the disk cache.*|outgoing traffic has been disabled"
        r"|Unrecognized model in .*|We couldn't connect to .*)",
        "the model is not there: {what}",
        "check `target.model` in run.toml: a directory with config.json, or a hub id that this "
        "machine can reach",
        "`Repo id must be in the form`, `is not a local folder`",
        permanent=True,
    ),
    _rule(
        "module",
        r"^(?:\S+Error: )?(?:\S*[Pp]ython\S*: )?(?:Error while finding module specification for .*"
        r"\()?(?:ModuleNotFoundError: )?No module named (?P<what>'?[\w.]+'?)",
        "its Python does not have {what}",
        "install SGLang into the virtual environment that `server.command` starts",
        "`No module named`",
        permanent=True,
    ),
    _rule(
        "leak",
        r"memory leak detected",
        "the engine lost count of its KV pool (a bug in it)",
        "it is restarted; again and again: another SGLang version, or page-size 1",
        "`memory leak detected`",
    ),
    _rule(
        "warmup",
        r"Input length \((?P<what>\d+) tokens\) exceeds the maximum allowed length",
        "the KV pool is too small for the warm-up request",
        "raise max-total-tokens or mem-fraction-static",
        "`Initialization failed. warmup error` with a tiny pool",
        permanent=True,
    ),
    _rule(
        "child-killed",
        r"Subprocess (?P<who>[a-z]+)\w* \(pid=(?P<pid>\d+)\) crashed with exit code -9",
        "its {who} process (pid {pid}) was killed with SIGKILL, perhaps by the system for want "
        "of host memory",
        "see the kernel log (`dmesg`) for `oom-kill`; it is restarted",
        "`crashed with exit code -9`",
    ),
    _rule(
        "child-crashed",
        r"Subprocess (?P<who>[a-z]+)\w* \(pid=(?P<pid>\d+)\) crashed with exit code "
        r"(?P<code>-?\d+)",
        "its {who} process (pid {pid}) crashed with exit code {code}",
        "its log has the stack; it is restarted",
        "`crashed with exit code N`",
    ),
)

KILLED = Rule(
    "killed",
    re.compile(""),
    "it was killed with SIGKILL, and not by us: by somebody, or by the system for want of memory",
    "see the kernel log (`dmesg`) for `oom-kill`; it is restarted",
    seen="`killed by SIGKILL` with nothing in the log",
)
TRACEBACK = Rule(
    "exception",
    re.compile(r"^(?P<what>[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit|Assertion)\b.*)"),
    "an exception ended it: {what}",
    "its log has the traceback; a bug or a setting that this version cannot take",
    seen="a Python traceback that none of the above explains",
)
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
        if not passing and not HARMLESS.search(line):
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
    return Diagnosis(
        rule=rule.name,
        sentence=rule.sentence.format(**groups),
        remedy=rule.remedy,
        permanent=rule.permanent,
    )


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
