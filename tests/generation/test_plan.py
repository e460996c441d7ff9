"""Budget, order and caps, as rules and as a simulated run."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from eagle_tui.pipeline.generation.jobs import Job, JobQueue
from eagle_tui.pipeline.generation.plan import (
    Standing,
    budget_used,
    capped,
    choose,
    exhausted,
    expected_tokens,
    may_send,
    total_capped,
)
from eagle_tui.rundir.desired import TotalCaps

PLAIN = Standing(concurrency=4, in_flight=0, ready=10, rows=0, tokens=0, max_new_tokens=1000)


def test_in_order_and_the_next_one_fills_up() -> None:
    last = replace(PLAIN, ready=0, in_flight=1)
    assert choose([PLAIN, PLAIN]) == 0
    assert choose([last, PLAIN]) == 1
    assert choose([replace(last, in_flight=4), PLAIN]) is None
    assert choose([replace(PLAIN, skip=True), PLAIN]) == 1
    assert choose([]) is None


def test_one_that_does_not_fit_is_waited_for() -> None:
    last = replace(PLAIN, concurrency=100, ready=0, in_flight=98)
    wide = replace(PLAIN, concurrency=100)
    assert choose([last, PLAIN, wide]) is None
    assert choose([last, wide]) == 1


def test_lowered_concurrency_waits_until_it_fits() -> None:
    assert choose([replace(PLAIN, in_flight=9)]) is None
    assert choose([replace(PLAIN, in_flight=3)]) == 0


def test_full_budget_is_exactly_the_concurrency() -> None:
    for concurrency in range(1, 400):
        standing = replace(PLAIN, concurrency=concurrency, ready=1000)
        assert choose([replace(standing, in_flight=concurrency - 1)]) == 0
        assert choose([replace(standing, in_flight=concurrency)]) is None


def test_answers_not_counted_yet_are_reserved_but_take_no_place() -> None:
    late = replace(PLAIN, in_flight=1, unsettled=3)
    assert choose([late]) == 0
    assert choose([replace(late, cap_samples=4)]) is None
    assert choose([replace(late, cap_samples=5)]) == 0
    assert not may_send(replace(late, cap_tokens=2048))
    assert may_send(replace(late, cap_tokens=2049))
    assert choose([late], TotalCaps(samples=4)) is None
    assert choose([late], TotalCaps(tokens=2048)) is None
    assert not exhausted(replace(PLAIN, unsettled=1), left=0)


def test_expected_length_leans_on_a_guess_at_first() -> None:
    assert expected_tokens(PLAIN) == 512
    assert expected_tokens(replace(PLAIN, max_new_tokens=100)) == 100
    assert abs(expected_tokens(replace(PLAIN, rows=10_000, tokens=7_000_000)) - 700) < 1


def test_one_is_sent_as_long_as_the_cap_is_not_reached() -> None:
    nearly = replace(PLAIN, rows=5, tokens=999, cap_tokens=1000)
    assert may_send(nearly) and not may_send(replace(nearly, in_flight=1))
    assert not may_send(replace(nearly, tokens=1000)) and capped(replace(nearly, tokens=1000))


def test_caps_over_all_datasets_reserve_what_is_in_flight() -> None:
    one = replace(PLAIN, rows=6, tokens=3000, in_flight=2)
    two = replace(PLAIN, rows=1, tokens=100)
    assert choose([one, two], TotalCaps(samples=10)) == 0
    assert choose([one, two], TotalCaps(samples=9)) is None
    # 2 in flight of about 512 each.
    assert choose([one, two], TotalCaps(tokens=4200)) == 0
    assert choose([one, two], TotalCaps(tokens=3900)) is None
    assert not total_capped([one, two], TotalCaps(samples=8, tokens=3101))
    assert total_capped([one, two], TotalCaps(samples=7))
    assert total_capped([one, two], TotalCaps(tokens=3100))


def test_exhausted() -> None:
    assert exhausted(PLAIN, 0)
    assert not exhausted(PLAIN, 3)
    assert exhausted(replace(PLAIN, skip=True), 3)
    assert not exhausted(replace(PLAIN, skip=True, in_flight=1), 3)
    assert exhausted(replace(PLAIN, rows=3, cap_samples=3), 3)


@dataclass
class Simulated:
    """A dataset in a simulated run: lengths of its answers, in prompt order."""

    lengths: list[int]
    concurrency: int
    cap_tokens: int | None
    cap_samples: int | None
    sent: int = 0
    flights: list[int] = field(default_factory=list)
    done: list[int] = field(default_factory=list)
    at_cap: int | None = None
    """Tokens in flight when the token cap was reached."""

    def standing(self) -> Standing:
        return Standing(
            concurrency=self.concurrency,
            in_flight=len(self.flights),
            ready=len(self.lengths) - self.sent,
            rows=len(self.done),
            tokens=sum(self.done),
            max_new_tokens=1000,
            cap_tokens=self.cap_tokens,
            cap_samples=self.cap_samples,
        )


datasets = st.lists(
    st.builds(
        Simulated,
        lengths=st.lists(st.integers(1, 1000), max_size=60),
        concurrency=st.integers(1, 20),
        cap_tokens=st.none() | st.integers(1, 20_000),
        cap_samples=st.none() | st.integers(1, 60),
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=150, deadline=None)
@given(datasets, st.integers(0, 1 << 30))
def test_a_simulated_run_keeps_budget_and_caps_and_comes_to_its_end(
    world: list[Simulated], seed: int
) -> None:
    rng = random.Random(seed)
    while True:
        while (place := choose([d.standing() for d in world])) is not None:
            chosen = world[place]
            chosen.flights.append(chosen.lengths[chosen.sent])
            chosen.sent += 1
            assert budget_used([d.standing() for d in world]) <= 1 + 1e-6
        busy = [d for d in world if d.flights]
        if not busy:
            break
        one = rng.choice(busy)
        one.done.append(one.flights.pop(rng.randrange(len(one.flights))))
        if one.at_cap is None and one.cap_tokens and sum(one.done) >= one.cap_tokens:
            one.at_cap = sum(one.flights) + one.done[-1]
    for one in world:
        assert exhausted(one.standing(), len(one.lengths) - one.sent)
        if one.cap_samples is not None:
            assert len(one.done) <= one.cap_samples
        if one.cap_tokens is not None and one.at_cap is not None:
            assert sum(one.done) - one.cap_tokens <= one.at_cap
        if not capped(one.standing()):
            assert sorted(one.done) == sorted(one.lengths)


@given(
    st.lists(st.integers(0, 100), unique=True),
    st.lists(st.tuples(st.sampled_from(["take", "front", "later", "wait"]), st.floats(0, 9))),
)
def test_queue_gives_each_job_exactly_once(
    fresh: list[int], steps: list[tuple[str, float]]
) -> None:
    queue, now = JobQueue(fresh), 0.0
    out: dict[int, Job] = {}
    for what, amount in steps:
        if what == "wait":
            now += amount
        elif what == "take":
            if queue.ready(now):
                found = queue.take()
                job = found if isinstance(found, Job) else Job(found, str(found))
                assert job.index not in out
                out[job.index] = job
        elif out:
            job = out.pop(next(iter(out)))
            queue.put(job, now + amount if what == "later" else None)
        assert queue.left() + len(out) == len(fresh)
        assert queue.ready(now) <= queue.left()
    now += 10.0
    while queue.ready(now):
        found = queue.take()
        index = found.index if isinstance(found, Job) else found
        assert index not in out
        out[index] = Job(index, "")
    assert set(out) == set(fresh)


def test_jobs_that_wait_are_not_due_before_their_time() -> None:
    queue = JobQueue([])
    queue.put(Job(1, "a"), due=5.0)
    assert (queue.ready(4.9), queue.left()) == (0, 1)
    assert queue.ready(5.0) == 1
