"""The table of ways in which a server dies: by which line each is known, and what helps.

The source of the rows in docs/troubleshooting.md. Each rule is recognised from a recorded log, or
from a line as public reports show it (tests/fixtures/server_logs/README.md).
"""

from __future__ import annotations

import re
from dataclasses import dataclass


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
        "flag-value",
        r"(?:ValueError|AssertionError|RuntimeError): (?P<what>--\S+ \S+ is not supported .*"
        r"|chunked_prefill_size must be divisible by page_size"
        r"|Chat template \S+ is not a built-in template name .*)",
        "the server cannot do what its flags ask for: {what}",
        "correct `[server.flags]` in run.toml, or `retune` the flag away",
        "`is not supported on …`, `must be divisible by page_size`",
        permanent=True,
    ),
    _rule(
        "context-length",
        r"ValueError: Warning: User-specified context_length \((?P<asked>\d+)\) is greater than "
        r"the derived context_length \((?P<most>\d+)\)",
        "context-length {asked} is more than the {most} that the model was made for",
        "lower context-length to what the model has, or leave it out",
        "`is greater than the derived context_length`",
        permanent=True,
    ),
    _rule(
        "dist-port",
        r"server socket has failed to listen on any local network address\. port: (?P<port>\d+)",
        "port {port}, by which the ranks of the server find each other, is taken",
        "stop what listens there, or choose another dist-init-addr (or nccl-port)",
        "`server socket has failed to listen` (torch's rendezvous)",
    ),
    _rule(
        "ranks",
        r"DistStoreError: Timed out after \d+ seconds waiting for clients\. "
        r"(?P<came>\d+)/(?P<all>\d+) clients joined",
        "only {came} of {all} ranks came together",
        "start the server on every node (`nnodes`, `node-rank`) and see that they reach "
        "dist-init-addr",
        "`Timed out … waiting for clients`",
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
        r"CUDA error: invalid device ordinal",
        "the server asks for a GPU that is not there",
        "correct `gpus` of its [[server]] in run.toml (they count from 0), `tp`, `dp` or "
        "`base-gpu-id`; `nvidia-smi` shows what is there, CUDA_VISIBLE_DEVICES may hide some",
        "`invalid device ordinal`",
        permanent=True,
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
        "check `target.model` in run.toml (or the path of the drafter, when it is that one): a "
        "directory with config.json, or a hub id that this machine can reach",
        "`Repo id must be in the form`, `is not a local folder`",
        permanent=True,
    ),
    _rule(
        "model-file",
        r"(?P<what>SafetensorError: Error while deserializing header: .*"
        r"|Cannot find any model weights with .*"
        r"|the config file at '[^']+' is not a valid JSON file)",
        "a file of the model is missing or torn: {what}",
        "copy or download the model again, and compare sizes or checksums",
        "`Error while deserializing header`, `Cannot find any model weights`",
        permanent=True,
    ),
    _rule(
        "architecture",
        r"(?:Cannot find model module\. |Model architectures \[)'(?P<what>[^']+)'",
        "this SGLang does not know models of the architecture {what}",
        "a newer SGLang, or correct `architectures` in the model's config.json",
        "`Cannot find model module`, `Model architectures … are not supported`",
        permanent=True,
    ),
    _rule(
        "weights",
        r"line \d+, in (?:_legacy_)?load_weights$",
        "the model's weights do not fit its config.json",
        "see that config.json and weights are of the same model; the traceback in the log names "
        "the first that does not fit",
        "a traceback through `load_weights`",
        permanent=True,
    ),
    _rule(
        "tokenizer",
        r"line \d+, in get_tokenizer$",
        "the model's tokenizer cannot be loaded: a file of it is missing or torn",
        "copy tokenizer.json and tokenizer_config.json of the model again; the end of the log "
        "says what is wrong with them",
        "a traceback through `get_tokenizer`",
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
        "backend",
        r"NameError: name '(?:Batch(?:Prefill|Decode)\w+|\w*[Ff]lash_?[Ii]nfer\w*)' is not defined",
        "its attention backend needs flashinfer, which is not installed there or switched off",
        "choose another attention-backend, or install flashinfer where SGLang is and take "
        "SGLANG_IS_FLASHINFER_AVAILABLE away",
        "`NameError: name 'BatchPrefill…' is not defined`",
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
        "its {who} process (pid {pid}) crashed with {end}",
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
