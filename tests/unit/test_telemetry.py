"""SGLang's figures from recorded answers of two versions, and from servers that tell less."""

from __future__ import annotations

import json
import math
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eagle_tui.clock import ManualClock
from eagle_tui.sglang import parse_loads, parse_metrics
from eagle_tui.telemetry.server_log import ServerLog
from eagle_tui.telemetry.sglang import ServerPoller

FIXTURES = Path(__file__).parent.parent / "fixtures" / "telemetry"
VERSIONS = ("0.5.17", "0.5.23")


def recorded(version: str, name: str) -> Any:
    return json.loads((FIXTURES / version / name).read_text())


@pytest.mark.parametrize("version", VERSIONS)
def test_recorded_loads(version: str) -> None:
    for exchange in recorded(version, "loads_busy.json")["exchanges"]:
        body = exchange["response"]["body"]
        if (
            not isinstance(body, dict)
            or "loads" not in body
            or "loads" in exchange.get("error", "")
        ):
            continue
        if not body["loads"] or "num_running_reqs" not in body["loads"][0]:
            continue
        loads = parse_loads(body)
        raw = body["loads"][0]
        assert loads.running == raw["num_running_reqs"]
        assert loads.queued == raw["num_waiting_reqs"]
        assert loads.kv_total == raw["max_total_num_tokens"]
        assert loads.at == raw["timestamp"]
        if raw.get("decode_moments"):
            assert loads.generated == raw["decode_moments"][5]


@pytest.mark.parametrize("version", VERSIONS)
def test_recorded_metrics_grow(version: str) -> None:
    first = parse_metrics((FIXTURES / version / "metrics_busy.txt").read_text())
    later = parse_metrics((FIXTURES / version / "metrics_busy_later.txt").read_text())
    assert first.decode_tokens is not None and later.decode_tokens is not None
    assert later.decode_tokens >= first.decode_tokens > 700
    assert later.prefill_tokens is not None and first.prefill_tokens is not None
    assert later.prefill_tokens > first.prefill_tokens > 0
    assert (first.kv_total, first.running, first.retractions) == (16384, 0, 0)


def test_data_parallel_ranks_are_summed_and_tensor_parallel_copies_are_not() -> None:
    def lines(label: str, values: list[float]) -> str:
        return "".join(
            f'sglang:realtime_tokens_total{{mode="decode",{label}="{i}"}} {v}\n'
            for i, v in enumerate(values)
        )

    assert parse_metrics(lines("dp_rank", [10, 20])).decode_tokens == 30
    assert parse_metrics(lines("tp_rank", [10.0] * 8)).decode_tokens == 10
    assert parse_metrics("sglang:num_used_tokens NaN\nsglang:max_total_num_tokens +Inf\n") == (
        parse_metrics("sglang:num_used_tokens 0\nsglang:max_total_num_tokens 0\n")
    )


def test_copies_of_every_kind_of_rank_and_a_hostile_name() -> None:
    def line(labels: str, value: float, name: str = "num_running_reqs") -> str:
        return f"sglang:{name}{{{labels}}} {value}\n"

    copies = "".join(line(f'dp_rank="{d}",tp_rank="{t}",pp_rank="{p}"', 10 * (d + 1))
                     for d in range(2) for t in range(4) for p in range(2))  # fmt: skip
    assert parse_metrics(copies).running == 30
    assert parse_metrics(line('model_name="a} 99 {b",tp_rank="0"', 7)).running == 7
    assert parse_metrics("sglang_num_running_reqs 5\n").running == 5, "without labels, other prefix"
    assert parse_metrics(line("", 1e300)).running == 0


json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5) | st.integers(),
    lambda inner: st.lists(inner, max_size=7) | st.dictionaries(
        st.sampled_from(["loads", "timestamp", "num_running_reqs", "num_used_tokens",
                         "max_total_num_tokens", "decode_moments", "speculative", "accept_length",
                         "total_prefill_uncached_tokens"]), inner, max_size=6),
    max_leaves=30,
)  # fmt: skip


@given(json_values, st.text(max_size=80))
def test_any_answer_is_figures_or_refused(body: Any, text: str) -> None:
    try:
        loads = parse_loads(body)
    except ValueError:
        pass
    else:
        assert loads.kv_usage is None or math.isfinite(loads.kv_usage)
    parse_metrics(f"sglang:num_used_tokens{{{text}}} 5\nsglang:{text}\n{text}")


@pytest.mark.parametrize("body", [None, [], {}, {"loads": 3}, {"loads": ["x"]}])
def test_something_else_than_loads(body: Any) -> None:
    with pytest.raises(ValueError, match="/v1/loads"):
        parse_loads(body)


class Fake:
    """A server that answers from a script."""

    def __init__(self) -> None:
        self.loads: dict[str, Any] = {"num_running_reqs": 0, "max_total_num_tokens": 100}
        self.metrics: tuple[int, str] = (200, "")
        self.asked: list[str] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request.url.path)
        if request.url.path == "/v1/loads":
            return httpx.Response(200, json={"loads": [self.loads]})
        if request.url.path == "/metrics":
            return httpx.Response(self.metrics[0], text=self.metrics[1])
        return httpx.Response(404)


def poller(fake: Any, clock: ManualClock) -> ServerPoller:
    client = httpx.AsyncClient(transport=httpx.MockTransport(fake))
    return ServerPoller(client, "http://s", None, clock)


async def test_a_sticky_gauge_with_nothing_running_is_zero() -> None:
    fake, clock = Fake(), ManualClock()
    counter = 'sglang:realtime_tokens_total{mode="decode"} 500\nsglang:gen_throughput 386.0\n'
    fake.metrics = (200, counter)
    p = poller(fake, clock)
    assert await p.poll() == ""
    clock.advance(1.0)
    assert await p.poll() == ""
    assert p.last is not None and p.last.tok_s == 0.0


async def test_rate_from_counter_deltas_and_a_restart_is_no_negative_rate() -> None:
    fake, clock = Fake(), ManualClock()
    p = poller(fake, clock)
    rates = []
    for value in (100, 350, 30, 80):
        fake.metrics = (200, f'sglang:realtime_tokens_total{{mode="decode"}} {value}\n')
        assert await p.poll() == ""
        assert p.last is not None
        rates.append(p.last.tok_s)
        clock.advance(0.5)
    assert rates == [None, 500.0, None, 100.0]


@pytest.mark.parametrize(("code", "said"), [(404, "--enable-metrics"), (401, "key")])
async def test_without_metrics_it_works_on_from_loads(code: int, said: str) -> None:
    fake, clock = Fake(), ManualClock()
    fake.metrics = (code, "")
    p = poller(fake, clock)
    for generated in (0.0, 40.0):
        fake.loads = {"num_running_reqs": 3, "decode_moments": [1, 1, 1, 1, 1, generated]}
        assert await p.poll() == ""
        clock.advance(2.0)
    assert p.last is not None
    assert p.last.tok_s == 20.0
    assert said in p.last.note
    assert fake.asked.count("/metrics") == 1


async def test_metrics_that_come_back_are_asked_again_and_counters_are_not_mixed() -> None:
    """The counter of /metrics and that of /v1/loads differ: no rate across the two."""
    fake, clock = Fake(), ManualClock()
    p = poller(fake, clock)
    fake.metrics = (404, "")
    fake.loads = {"decode_moments": [1, 1, 1, 1, 1, 5000.0]}
    assert await p.poll() == "" and p.last is not None and "off" in p.last.note
    clock.advance(61.0)
    fake.metrics = (200, 'sglang:realtime_tokens_total{mode="decode"} 9000\n')
    assert await p.poll() == ""
    assert (p.last.tok_s, p.last.note) == (None, "")
    clock.advance(1.0)
    fake.metrics = (200, 'sglang:realtime_tokens_total{mode="decode"} 9100\n')
    assert await p.poll() == ""
    assert p.last.tok_s == 100.0


async def test_a_failure_of_metrics_alone_leaves_the_loads() -> None:
    fake, clock = Fake(), ManualClock()
    fake.loads = {"num_running_reqs": 3, "decode_moments": [1, 1, 1, 1, 1, 7.0]}

    def half(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/metrics":
            raise httpx.ReadTimeout("late")
        return fake(request)

    p = poller(half, clock)
    assert await p.poll() == ""
    assert p.last is not None and p.last.running == 3


async def test_gauges_of_a_scheduler_that_stands_still_are_not_shown() -> None:
    """Paused in place or stuck, /v1/loads goes on telling the last snapshot."""
    fake, clock = Fake(), ManualClock()
    counter = 'sglang:realtime_tokens_total{mode="decode"} 70\n'
    fake.metrics = (200, counter)
    fake.loads = {
        **{"timestamp": 17.0, "num_running_reqs": 3, "num_waiting_reqs": 0},
        **{"num_used_tokens": 50, "max_total_num_tokens": 100},
    }
    p = poller(fake, clock)
    for _ in range(3):
        assert await p.poll() == ""
        clock.advance(7.0)
    assert p.last is not None and p.last.running == 3 and p.last.kv_usage == 0.5
    clock.advance(1.0)
    assert await p.poll() == ""
    assert [p.last.running, p.last.queued, p.last.kv_usage] == [None, None, None]
    assert p.last.tok_s == 0.0 and "nothing new for 22 s" in p.last.note
    fake.loads = {**fake.loads, "timestamp": 39.0}
    assert await p.poll() == ""
    assert p.last.running == 3 and p.last.note == ""
    fake.loads = {**fake.loads, "num_running_reqs": 0}
    for _ in range(5):
        clock.advance(60.0)
        assert await p.poll() == ""
    assert p.last.running == 0, "an idle scheduler may sleep"


async def test_what_http_does_not_tell_comes_from_the_log(tmp_path: Path) -> None:
    """An old version without /v1/loads, its metrics off."""
    clock = ManualClock()
    path = tmp_path / "log"
    path.write_text("its first line\n")
    log = ServerLog(path, clock)
    log.poll()
    client = httpx.AsyncClient(transport=httpx.MockTransport(lambda r: httpx.Response(404)))
    p = ServerPoller(client, "http://s", None, clock, log)
    assert "no /v1/loads" in await p.poll()
    with path.open("a") as file:
        file.write(
            "[2026-11-30 09:44:02] Decode batch, #running-req: 3, #token: 164, token usage: 0.82, "
            "cpu graph: False, gen throughput (token/s): 3.74, #queue-req: 2\n"
        )
    log.poll()
    assert await p.poll() == ""
    assert p.last is not None
    assert (p.last.tok_s, p.last.running, p.last.queued, p.last.kv_usage) == (3.74, 3, 2, 0.82)
    assert "tok/s, running, queued, KV use from its log" in p.last.note
    clock.advance(11.0)
    assert "no /v1/loads" in await p.poll(), "old lines are no figures"


async def test_loads_of_a_version_that_does_not_count_are_filled_from_the_log(
    tmp_path: Path,
) -> None:
    clock = ManualClock()
    path = tmp_path / "log"
    path.write_text(
        "[2026-11-30 09:44:02] Decode batch, #running-req: 3, #token: 164, token usage: 0.82, "
        "gen throughput (token/s): 3.74, #queue-req: 2\n"
    )
    clock.set_wall(datetime(2026, 11, 30, 9, 44, 3).timestamp())
    log = ServerLog(path, clock)
    log.poll()
    fake = Fake()
    fake.metrics = (404, "")
    fake.loads = {"num_running_reqs": 4, "num_waiting_reqs": 0}
    client = httpx.AsyncClient(transport=httpx.MockTransport(fake))
    p = ServerPoller(client, "http://s", None, clock, log)
    assert await p.poll() == ""
    assert p.last is not None
    assert (p.last.tok_s, p.last.running, p.last.kv_usage) == (3.74, 4, 0.82)


async def test_failures_are_words() -> None:
    def broken(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    assert "ConnectError" in await poller(broken, ManualClock()).poll()

    def denied(request: httpx.Request) -> httpx.Response:
        return httpx.Response(401)

    assert "api_key_env" in await poller(denied, ManualClock()).poll()
