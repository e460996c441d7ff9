"""Each way in which a server dies, recognised in a recorded, reproduced or reported log."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from eagle_tui.telemetry.deaths import RULES
from eagle_tui.telemetry.diagnosis import HARMLESS, diagnose

LOGS = Path(__file__).parents[1] / "fixtures" / "server_logs"

EXPECTED = {
    "bad_flag-0.5.17": ("bad-flag", "--no-such-flag"),
    "bad_flag-0.5.23": ("bad-flag", "--no-such-flag"),
    "crash_empty_prompt-0.5.23": ("empty-prompt", "an empty prompt"),
    "hicache-0.5.17": ("driver", "Found no NVIDIA driver"),
    "hicache-0.5.23": ("driver", "not compiled with CUDA"),
    "hicache_size-0.5.17": ("host-memory-hicache", "asks for 500.00 GB"),
    "hicache_size-0.5.23": ("host-memory-hicache", "6.44 GB are free"),
    "max_total_tokens_tiny-0.5.17": ("warmup", "too small"),
    "max_total_tokens_tiny-0.5.23": ("warmup", "too small"),
    "model_missing-0.5.17": ("model", "/models/does-not-exist"),
    "model_missing-0.5.23": ("model", "/models/does-not-exist"),
    "not_enough_memory-0.5.17": ("kv-pool", "above 0.006"),
    "not_enough_memory-0.5.23": ("kv-pool", "above 0.053"),
    "not_enough_memory_neighbour-0.5.23": ("kv-pool", "mem-fraction-static 0.3 leaves"),
    "port_in_use-0.5.17": ("port", "taken"),
    "port_in_use-0.5.23": ("port", "taken"),
    "port_in_use_by_http_server-0.5.17": ("port", "taken"),
    "port_in_use_by_http_server-0.5.23": ("port", "taken"),
    "scheduler_sigkill-0.5.17": ("child-killed", "scheduler process (pid 10008)"),
    "scheduler_sigkill-0.5.23": ("child-killed", "scheduler process (pid 8719)"),
    "reproduced/bad_choice-0.5.17": ("bad-flag", "invalid choice: 'best'"),
    "reproduced/bad_choice-0.5.23": ("bad-flag", "invalid choice: 'best'"),
    "reproduced/no_value-0.5.23": ("bad-flag", "--page-size: expected one argument"),
    "reproduced/no_kv_memory-0.5.17": ("kv-pool", "0.0001 leaves no memory"),
    "reproduced/no_kv_memory-0.5.23": ("kv-pool", "0.0001 leaves no memory"),
    "reproduced/port_taken-0.5.23": ("port", "taken"),
    "reproduced/model_missing-0.5.23": ("model", "/models/not-there"),
    "reproduced/no_config-0.5.23": ("model", "Unrecognized model in /models/empty"),
    "reproduced/no_gpu-0.5.17": ("no-gpu", "sees no GPU"),
    "reproduced/no_module": ("module", "does not have 'sglang'"),
    "reproduced/watchdog-0.5.23": ("watchdog", "longer than the watchdog allows"),
    "reproduced/detokenizer_sigkill-0.5.17": ("child-killed", "its detokenizer process"),
    "reproduced/detokenizer_sigkill-0.5.23": ("child-killed", "its detokenizer process"),
    "reproduced/foreign_token-0.5.23": ("foreign-token", "outside the vocabulary"),
    "reproduced/parent_sigkill-0.5.23": ("killed", "not by us"),
    "reproduced/cgroup_memory-0.5.23": ("killed", "want of memory"),
    "reproduced/torn_weights-0.5.17": ("model-file", "incomplete metadata"),
    "reproduced/no_weights-0.5.17": ("model-file", "any model weights with `/models/no_weights`"),
    "reproduced/torn_config-0.5.17": ("model-file", "config.json' is not a valid JSON file"),
    "reproduced/unknown_architecture-0.5.17": ("architecture", "FooForCausalLM"),
    "reproduced/torn_tokenizer-0.5.17": ("tokenizer", "missing or torn"),
    "reproduced/no_tokenizer-0.5.17": ("tokenizer", "missing or torn"),
    "reproduced/too_long_context-0.5.17": ("context-length", "99999999 is more than the 4096"),
    "reproduced/no_chat_template-0.5.17": ("flag-value", "/models/not-there.jinja"),
    "reproduced/chunk_not_pages-0.5.17": ("flag-value", "divisible by page_size"),
    "reproduced/torn_weights-0.5.23": ("model-file", "incomplete metadata"),
    "reproduced/no_weights-0.5.23": ("model-file", "any model weights with `/models/no_weights`"),
    "reproduced/torn_config-0.5.23": ("model-file", "config.json' is not a valid JSON file"),
    "reproduced/other_shape-0.5.23": ("weights", "do not fit its config.json"),
    "reproduced/unknown_architecture-0.5.23": ("architecture", "FooForCausalLM"),
    "reproduced/torn_tokenizer-0.5.23": ("tokenizer", "missing or torn"),
    "reproduced/no_tokenizer-0.5.23": ("tokenizer", "missing or torn"),
    "reproduced/too_long_context-0.5.23": ("context-length", "99999999 is more than the 4096"),
    "reproduced/kv_dtype-0.5.23": ("flag-value", "fp8_e5m2 is not supported on CPU"),
    "reproduced/no_chat_template-0.5.23": ("flag-value", "/models/not-there.jinja"),
    "reproduced/chunk_not_pages-0.5.23": ("flag-value", "divisible by page_size"),
    "reproduced/dist_port_taken-0.5.23": ("dist-port", "port 44255, by which the ranks"),
    "reproduced/no_drafter-0.5.23": ("model", "'/models/not-there'"),
    "reproduced/oom_load-0.5.17": ("oom-load", "while the server started (asked for 32.00 MiB"),
    "reproduced/oom_prefill-0.5.17": ("oom-run", "in prefill (asked for 192.00 MiB more)"),
    "reproduced/neighbour_took_memory-0.5.17": ("kv-pool", "0.1 leaves no memory"),
    "reproduced/no_such_gpu-0.5.17": ("no-gpu", "asks for a GPU that is not there"),
    "reproduced/no_flashinfer-0.5.17": ("backend", "needs flashinfer"),
    "reproduced/bad_override-0.5.23": ("exception", "Expecting property name"),
    "reproduced/lone_node-0.5.23": ("ranks", "only 1 of 2 ranks came together"),
    "reproduced/address_space-0.5.23": ("host-memory", "the host ran out of memory"),
    "reproduced/scheduler_segv-0.5.23": ("child-crashed", "crashed with SIGSEGV"),
    "reproduced/scheduler_abort-0.5.23": ("child-crashed", "crashed with SIGABRT"),
    "reported/oom_load": ("oom-load", "while the server started (asked for 896.00 MiB more)"),
    "reported/oom_prefill": ("oom-run", "in prefill (asked for 1.75 GiB more)"),
    "reported/oom_decode": ("oom-run", "in decode"),
    "reported/nccl": ("nccl", "unhandled system error"),
    "reported/nccl_timeout": ("nccl", "collective operation timeout"),
    "reported/device_assert": ("cuda-error", "device-side assert"),
    "reported/driver_too_old": ("driver", "too old"),
    "reported/kv_pool_old": ("kv-pool", "no memory for the KV pool"),
}
NO_DEATH = {
    "freeze_gc-0.5.23",
    "start-0.5.17",
    "start-0.5.23",
    "start_gpu-0.5.17",
    "decode-0.5.17",
    "decode-0.5.23",
}


def lines(name: str) -> list[str]:
    return (LOGS / f"{name}.log").read_text(encoding="utf-8").replace("\r", "\n").split("\n")


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_the_signature_is_recognised(name: str) -> None:
    rule, words = EXPECTED[name]
    found = diagnose(lines(name), "killed by SIGKILL")
    assert found is not None and found.rule == rule
    assert words in found.sentence and found.remedy
    assert "{" not in found.sentence


def test_every_recorded_death_is_expected() -> None:
    names = {str(p.relative_to(LOGS))[:-4] for p in LOGS.rglob("*.log")}
    assert names - NO_DEATH - {"retract-0.5.17"} == set(EXPECTED)


@pytest.mark.parametrize("name", sorted(NO_DEATH))
def test_a_healthy_log_says_nothing(name: str) -> None:
    assert diagnose(lines(name), "exit code 0") is None


def test_permanent_is_what_another_start_cannot_help() -> None:
    assert {r.name for r in RULES if r.permanent} == {
        "architecture", "backend", "bad-flag", "context-length", "driver", "engine", "flag-value",
        "model", "model-file", "module", "no-gpu", "tokenizer", "warmup", "weights",
    }  # fmt: skip


def test_killed_with_nothing_said() -> None:
    found = diagnose(["[2026-11-30 08:14:03] ready"], "killed by SIGKILL")
    assert found is not None and found.rule == "killed" and "dmesg" in found.remedy
    own_end = [
        *lines("start-0.5.17"),
        "kill_process_tree called: parent_pid=1, include_parent=True",
    ]
    assert diagnose(own_end, "killed by SIGKILL") is None, "SGLang ends itself like that"
    found = diagnose(lines("scheduler_sigkill-0.5.23"), "killed by SIGKILL", oom_killed=True)
    assert found is not None and found.rule == "host-memory"
    found = diagnose(lines("reproduced/cgroup_memory-0.5.23"), "killed by SIGKILL", oom_killed=True)
    assert found is not None and "the system killed it" in found.sentence
    found = diagnose(lines("bad_flag-0.5.23"), "exit code 2", oom_killed=True)
    assert found is not None and found.rule == "bad-flag", "the log knows better"


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("sglang serve: error: argument --schedule-policy: invalid choice: 'x'", "bad-flag"),
        ("server.py: error: argument --tp-size: expected one argument", "bad-flag"),
        ("server.py: error: the following arguments are required: --model-path", "bad-flag"),
        ("eagle-tui engine: /m has no config.json: --model takes a model directory.", "engine"),
        ("/opt/x/python: No module named sglang.launch_server", "module"),
        ("ModuleNotFoundError: No module named 'flashinfer'", "module"),
        ("OSError: /m is not a local folder and is not a valid model identifier", "model"),
        ("torch.OutOfMemoryError: HIP out of memory. Tried to allocate 2.00 GiB.", "oom-load"),
        ("RuntimeError: NCCL error: unhandled cuda error (run with NCCL_DEBUG", "nccl"),
        ("OSError: [Errno 28] No space left on device: '/dev/shm/x'", "disk"),
        ("OSError: [Errno 12] Cannot allocate memory", "host-memory"),
        ("ValueError: req_to_token_pool memory leak detected!", "leak"),
        ("[2026-11-30 08:14:03] [Errno 98] Address already in use while attempting to bind on "
         "127.0.0.1:3000", "port"),
        ("Subprocess detokenizer (pid=7) crashed with exit code 1. Triggering", "child-crashed"),
        ("sglang.srt.x.OddException: it broke", "exception"),
    ],
)  # fmt: skip
def test_neighbours_of_the_recorded_ones(line: str, rule: str) -> None:
    found = diagnose(["Traceback (most recent call last):", line, ""], "exit code 1")
    assert found is not None and found.rule == rule


def test_an_exception_that_it_outlived_is_no_reason() -> None:
    log = [
        "[2026-11-30 09:44:09] Exception in ASGI application",
        "ValueError: one request was odd",
        "[2026-11-30 09:44:10] Decode batch, #running-req: 2, #token: 143, token usage: 0.71",
    ]
    assert diagnose(log, "exit code 1") is None
    found = diagnose(log, "killed by SIGKILL")
    assert found is not None and found.rule == "killed"


def test_a_harmless_line_is_no_reason() -> None:
    log = [
        "[2026-11-30 08:47:14] Ignore import error when loading x: No module named 'cutlass'",
        "(/v1/responses) disabled: init failed (ModuleNotFoundError: No module named 'harmony')",
        "server_args=ServerArgs(watchdog_timeout=300, x='CUDA out of memory')",
    ]
    assert diagnose(log, "exit code 1") is None


@given(st.lists(st.text(max_size=80), max_size=30))
def test_any_log_is_taken_and_what_is_quoted_is_safe(log: list[str]) -> None:
    assume(not HARMLESS.search("".join(log)))
    found = diagnose([*log, "ValueError: \x1b]0;evil\x07 " + "".join(log)], "exit code 1")
    assert found is not None
    assert "\x1b" not in found.sentence and "\x07" not in found.sentence
    assert len(found.sentence) < 500
