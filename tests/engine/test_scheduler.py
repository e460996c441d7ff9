"""Queue, pool and finish reasons, with a model that counts upwards."""

from __future__ import annotations

import itertools
from random import Random
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from eagle_tui.pipeline.engine.detokenizer import Detokenizer
from eagle_tui.pipeline.engine.kvpool import TokenBudget
from eagle_tui.pipeline.engine.requests import Limits, Prompt, check_prompt
from eagle_tui.pipeline.engine.sampling import SamplingParams
from eagle_tui.pipeline.engine.scheduler import Scheduler
from eagle_tui.pipeline.engine.state import (
    ABORTED,
    ABORTED_IN_QUEUE,
    QUEUE_FULL,
    Finish,
    Request,
    Update,
)
from eagle_tui.pipeline.engine.stats import Counters

EOS = 99


class Letters:
    """Decodes token t as one letter."""

    def decode(self, token_ids: list[int], *, skip_special_tokens: bool) -> str:
        return "".join(chr(97 + token % 26) for token in token_ids)


class Counting:
    """Next token = last + 1. Checks that the scheduler keeps rows and requests in step."""

    def __init__(self) -> None:
        self.rows: list[list[int]] = []
        self.prefills: list[int] = []

    def prefill(self, first_row: int, requests: list[Request]) -> list[int]:
        self.prefills.append(len(requests))
        self.rows = self.rows[:first_row] + [list(r.tokens) for r in requests]
        return [r.tokens[-1] + 1 for r in requests]

    def decode(self, requests: list[Request]) -> list[int]:
        for row, request in enumerate(requests):
            self.rows[row].append(request.output_ids[-1])
            assert self.rows[row] == request.tokens
        return [r.output_ids[-1] + 1 for r in requests]

    def move_row(self, source: int, target: int, length: int) -> None:
        self.rows[target] = list(self.rows[source])


def make(**options: Any) -> Scheduler:
    ticks = itertools.count()
    settings_ = {
        "budget": TokenBudget(options.pop("pool", 1000), options.pop("conservativeness", 1.0)),
        "max_running": 8,
        "max_queued": None,
        "prefill_tokens": 256,
        "markers": None,
        "clock": lambda: float(next(ticks)),
        "counters": Counters(),
    } | options
    return Scheduler(Counting(), **settings_)


def request(
    rid: str, prompt: int = 3, new: int | None = 5, *, pool: int = 1000, **params: Any
) -> Request:
    stream = params.pop("stream", False)
    sampling = SamplingParams(max_new_tokens=new, temperature=0, **params)
    ids = tuple(range(prompt))
    limits = Limits(vocab_size=10_000, context_len=500, max_total_num_tokens=pool)
    return Request(
        prompt=Prompt(rid, ids, sampling, check_prompt(ids, sampling, limits), stream=stream),
        received=0.0,
        rng=Random(0),
        stop_ids=sampling.stop_token_ids | {EOS},
        detokenizer=Detokenizer(Letters(), skip_special_tokens=True),
    )


def run_out(scheduler: Scheduler, limit: int = 2000) -> list[Update]:
    news: list[Update] = []
    for _ in range(limit):
        if not scheduler.has_work:
            return news
        news += scheduler.step()
    raise AssertionError("the scheduler does not come to an end")


def finals(news: list[Update]) -> dict[str, Finish]:
    done = [u for u in news if u.finish is not None]
    assert len({u.prompt.rid for u in done}) == len(done)
    return {u.prompt.rid: u.finish for u in done if u.finish is not None}


def test_length() -> None:
    scheduler = make()
    scheduler.submit(request("a", prompt=3, new=4))
    (update,) = run_out(scheduler)
    assert update.output_ids == (3, 4, 5, 6)
    assert update.text == "defg"
    assert update.finish == Finish("length", length=4)


def test_nothing_asked_for_is_one_prefill() -> None:
    scheduler = make()
    scheduler.submit(request("a", new=0))
    (update,) = scheduler.step()
    assert (update.output_ids, update.text) == ((), "")
    assert update.finish == Finish("length", length=0)


@pytest.mark.parametrize("ignore", [False, True])
def test_eos(ignore: bool) -> None:
    scheduler = make()
    scheduler.submit(request("a", prompt=EOS - 1, new=6, ignore_eos=ignore))
    (update,) = run_out(scheduler)
    if ignore:
        assert update.finish == Finish("length", length=6)
    else:
        assert update.finish == Finish("stop", matched=EOS)
        assert update.output_ids == (EOS - 1, EOS)
        assert update.text == chr(97 + (EOS - 1) % 26)


def test_stop_string_spans_tokens_and_wins_over_length() -> None:
    scheduler = make()
    scheduler.submit(request("a", new=4, stop=("zz", "fg")))
    (update,) = run_out(scheduler)
    assert update.finish == Finish("stop", matched="fg")
    assert update.text == "de"
    assert update.output_ids == (3, 4, 5, 6)


def test_stream_interval() -> None:
    scheduler = make()
    scheduler.submit(request("a", new=10, stream=True, stream_interval=3))
    assert [len(u.output_ids) for u in run_out(scheduler)] == [1, 4, 7, 10]


def test_rows_are_limited_and_the_queue_is_fair() -> None:
    scheduler = make(max_running=2)
    for name in "abcde":
        scheduler.submit(request(name, new=3))
    scheduler.step()
    assert [r.prompt.rid for r in scheduler.running] == ["a", "b"]
    assert list(finals(run_out(scheduler))) == list("abcde")


def test_a_prefill_is_limited_in_padded_tokens() -> None:
    scheduler = make(prefill_tokens=40)
    for i in range(5):
        scheduler.submit(request(f"r{i}", prompt=10))
    run_out(scheduler)
    assert scheduler._stepper.prefills == [4, 1]  # type: ignore[attr-defined]


def test_a_full_queue_refuses_the_next() -> None:
    scheduler = make(max_running=1, max_queued=1)
    scheduler.submit(request("a"))
    scheduler.step()
    assert scheduler.submit(request("b")) == []
    (update,) = scheduler.submit(request("c"))
    assert update.finish == QUEUE_FULL
    assert finals(run_out(scheduler)).keys() == {"a", "b"}


def test_abort_waits_for_no_step_in_the_queue_and_for_one_when_running() -> None:
    scheduler = make(max_running=1)
    scheduler.submit(request("x-1", new=50))
    scheduler.submit(request("x-10", new=50))
    scheduler.submit(request("y", new=2))
    for _ in range(3):
        scheduler.step()
    (queued,) = scheduler.abort("x-1")
    assert (queued.prompt.rid, queued.finish) == ("x-10", ABORTED_IN_QUEUE)
    (update,) = [u for u in scheduler.step() if u.finish]
    assert (update.prompt.rid, update.finish) == ("x-1", ABORTED)
    assert update.output_ids == (3, 4, 5)
    assert finals(run_out(scheduler)) == {"y": Finish("length", length=2)}


def test_an_empty_id_aborts_nobody_else() -> None:
    scheduler = make()
    for rid in ("", "a"):
        scheduler.submit(request(rid))
    (update,) = scheduler.abort("")
    assert update.prompt.rid == ""


@pytest.mark.parametrize(("stream", "kept"), [(True, 61), (False, 50)])
def test_abort_of_a_retracted_request_keeps_what_was_reported(stream: bool, kept: int) -> None:
    scheduler = make()
    scheduler.submit(request("a", new=90, stream=stream))
    for _ in range(61):
        scheduler.step()
    scheduler.retract_all()
    (update,) = scheduler.abort("a")
    assert update.finish == ABORTED_IN_QUEUE
    assert update.output_ids == tuple(range(3, 3 + kept))
    assert len(update.text) == kept


def test_a_small_pool_retracts_and_finishes_all_the_same() -> None:
    scheduler = make(pool=60, conservativeness=0.0)
    for i in range(3):
        scheduler.submit(request(f"r{i}", prompt=5, new=40, pool=60))
    news = run_out(scheduler)
    assert finals(news) == {f"r{i}": Finish("length", length=40) for i in range(3)}
    assert scheduler.counters.retractions > 0
    assert all(u.output_ids == tuple(range(5, 45)) for u in news)


def test_one_long_row_does_not_pad_many_short_ones_without_limit() -> None:
    scheduler = make(pool=100, conservativeness=0.0, max_running=32)
    scheduler.submit(request("long", prompt=60, new=1, pool=100))
    scheduler.submit(request("long-2", prompt=60, new=20, pool=100))
    for i in range(20):
        scheduler.submit(request(f"short-{i}", prompt=1, new=3, pool=100))
    news: list[Update] = []
    while scheduler.has_work:
        news += scheduler.step()
        rows = scheduler.running
        assert len(rows) * max((r.length for r in rows), default=0) <= 3 * 100 + len(rows)
    assert len(finals(news)) == 22


def test_a_request_alone_is_cut_to_the_pool() -> None:
    scheduler = make(pool=60)
    scheduler.submit(request("a", prompt=20, new=200, pool=60))
    (update,) = run_out(scheduler)
    assert update.finish == Finish("length", length=60 - 1 - 20 - 1)


def test_counters() -> None:
    scheduler = make()
    scheduler.submit(request("a", prompt=3, new=5))
    scheduler.submit(request("b", prompt=4, new=1, stream=True))
    run_out(scheduler)
    c = scheduler.counters
    assert (c.prefill_tokens, c.decode_tokens) == (7, 4)
    assert c.requests == {False: 1, True: 1}
    assert c.prompt_tokens == {False: 3, True: 4}
    assert c.generated_tokens == {False: 5, True: 1}
    assert (c.running, c.queued, c.used_tokens) == (0, 0, 0)
    assert c.moments.as_list()[5] == 4  # type: ignore[index]


class Life(RuleBasedStateMachine):
    """Any order of submit, abort, retract and step: one final answer per request, in the end."""

    requests = Bundle("requests")

    def __init__(self) -> None:
        super().__init__()
        self.pool = 80
        self.scheduler = make(pool=self.pool, max_running=4, max_queued=6, conservativeness=0.2)
        self.numbers = itertools.count()
        self.sent: set[str] = set()
        self.ended: dict[str, Finish] = {}

    def take(self, news: list[Update]) -> None:
        for update in news:
            if update.finish is not None:
                assert update.prompt.rid not in self.ended
                self.ended[update.prompt.rid] = update.finish

    @rule(
        target=requests,
        prompt=st.integers(1, 40),
        new=st.integers(0, 60),
        stream=st.booleans(),
        stop=st.sampled_from([(), ("hi",)]),
    )
    def submit(self, prompt: int, new: int, stream: bool, stop: tuple[str, ...]) -> str:
        rid = f"{next(self.numbers)};"
        self.sent.add(rid)
        made = request(rid, prompt, new, pool=self.pool, stream=stream, stop=stop)
        self.take(self.scheduler.submit(made))
        return rid

    @rule(rid=requests)
    def abort(self, rid: str) -> None:
        self.take(self.scheduler.abort(rid))

    @rule()
    def abort_all(self) -> None:
        self.take(self.scheduler.abort_all())

    @rule()
    def pause_by_retraction(self) -> None:
        self.scheduler.retract_all()
        assert not self.scheduler.running

    @rule(steps=st.integers(1, 10))
    def step(self, steps: int) -> None:
        for _ in range(steps):
            self.take(self.scheduler.step())

    @invariant()
    def the_pool_holds(self) -> None:
        assert sum(r.length - 1 for r in self.scheduler.running) <= self.pool
        assert len(self.scheduler.running) <= 4

    @invariant()
    def nobody_is_lost_or_doubled(self) -> None:
        inside = [r.prompt.rid for r in (*self.scheduler.running, *self.scheduler.waiting)]
        assert sorted([*inside, *self.ended]) == sorted(self.sent)

    def teardown(self) -> None:
        self.take(run_out(self.scheduler))
        assert self.ended.keys() == self.sent


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=120, stateful_step_count=40, deadline=None)
