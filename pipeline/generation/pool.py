"""All endpoints: which takes the next request, which is out and why, and when it comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from eagle_tui.clock import Clock
from eagle_tui.rundir.desired import Endpoint

from .adaptive import Governor
from .aio import gather_quietly
from .answers import Trouble
from .blame import KINDS, Blame
from .client import Client, KeyMissingError
from .pace import Pace
from .policy import backoff

PULSE_S = 5.0
"""How often the token counter of a server with requests in flight is read."""
STILL_S = 30.0
"""A counter stands still only after so long: a long prompt takes a while to read."""
LOOK_AGAIN_S = 1.0
"""Between two readings of the token counter of a server that says it is not healthy."""
SLOW_PROBE_S = 30.0
"""How often an endpoint is looked at that refused our key, or is no SGLang."""


class Pulse:
    """Whether a server makes progress, from its token counter. Pure."""

    def __init__(self, now: float) -> None:
        self._counter: float | None = None
        self._moved_at = now
        self.told = False
        """Does the server tell a counter (or fail to answer) at all?"""

    def note(self, told: bool, counter: float | None, now: float) -> None:
        """One reading; a server that should have told and did not has not moved."""
        self.told = told
        if not told or (counter is not None and counter != self._counter):
            self._counter = counter
            self._moved_at = now

    def reset(self, now: float) -> None:
        """There was nothing to do until now."""
        self._moved_at = now

    def still_s(self, now: float) -> float:
        """Seconds since it last moved."""
        return now - self._moved_at


@dataclass(slots=True)
class Count:
    """What an endpoint did for this worker. Cumulative."""

    answers: int = 0
    tokens: int = 0
    """As they come in, also of answers that were ended half-way."""
    failures: int = 0
    """Requests without an answer, for whatever reason but our own wish."""


@dataclass(eq=False)
class Member:
    """One endpoint in use."""

    endpoint: Endpoint
    client: Client | None
    pulse: Pulse
    governor: Governor
    out: str = "connecting"
    """Why it takes no requests; empty when it does."""
    in_flight: int = 0
    answered_at: float = float("-inf")
    """When it last gave an answer, by the monotonic clock."""
    count: Count = field(default_factory=Count)
    pace: Pace = field(default_factory=Pace)
    blame: Blame = field(default_factory=Blame)
    context: int | None = None
    fresh: bool = True
    """Not probed yet since we know of it."""
    slow: bool = False
    failures: int = 0
    next_probe: float = 0.0
    next_pulse: float = 0.0
    retired: bool = False
    """No longer wanted; what is in flight on it may still come."""
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def name(self) -> str:
        return self.endpoint.name


class Pool:
    """The endpoints of the desired state. `on_change` is called when one goes out or comes back;
    `say` tells the operator a sentence."""

    def __init__(
        self,
        clock: Clock,
        rng: Random,
        on_change: Callable[[], None],
        say: Callable[[str, Any], None],
        *,
        adaptive: bool = False,
    ) -> None:
        self._adaptive = adaptive
        self._clock = clock
        self._rng = rng
        self._on_change = on_change
        self._say = say
        self.members: list[Member] = []
        self._retired: list[Member] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def update(self, wanted: Sequence[Endpoint]) -> None:
        """Take over the endpoints of the desired state; those that stay keep their connections."""
        now = self._clock.monotonic()
        kept = {m.endpoint: m for m in self.members}
        members: list[Member] = []
        for endpoint in wanted:
            member = kept.pop(endpoint, None)
            if member is None:
                governor = Governor(adaptive=self._adaptive)
                member = Member(endpoint, None, Pulse(now), governor, next_probe=now)
                try:
                    member.client = Client(endpoint)
                except KeyMissingError as error:
                    member.out, member.next_probe = str(error), float("inf")
                    self._say(f"{endpoint.name}: {error}", "error")
            members.append(member)
        for member in kept.values():
            member.retired, member.out = True, "no longer wanted"
            self._retired.append(member)
        self.members = members
        self._on_change()

    def pick(self) -> Member | None:
        """The endpoint with the fewest requests in flight that takes one more."""
        best: Member | None = None
        for member in self.members:
            if member.out or member.governor.full(member.in_flight):
                continue
            if best is None or member.in_flight < best.in_flight:
                best = member
        return best

    def reason(self) -> str:
        """Why there is nobody to send to; empty when there is."""
        if any(not m.out for m in self.members):
            return ""
        if not self.members:
            return "no server is ready yet"
        return "no server: " + "; ".join(f"{m.name}: {m.out}" for m in self.members)

    def counts(self) -> dict[str, dict[str, float | None]]:
        """What each endpoint did and has in flight now; those that leave, too, while they have."""
        leaving = [m for m in self._retired if m.in_flight]
        return {
            m.name: {
                "in_flight": m.in_flight,
                "limit": m.governor.limit and round(m.governor.limit, 1),
                "answers": m.count.answers,
                "tokens": m.count.tokens,
                "failures": m.count.failures,
            }
            for m in (*leaving, *self.members)
        }

    def notes(self) -> dict[str, str]:
        """Each endpoint's name and why it is out, or empty; also of those that are not wanted any
        more and still have requests in flight."""
        leaving = {m.name: m.out for m in self._retired if m.in_flight}
        return leaving | {m.name: m.out for m in self.members}

    def trouble(self, member: Member, trouble: Trouble, prompt: str, *, others: bool) -> bool:
        """Draw the consequences of a request that got no answer; true when that is the endpoint's
        fault, and no try of the prompt. `others`: there are prompts that were not tried yet."""
        if trouble.kind in ("refused", "dropped", "lost"):
            self.take_out(member, trouble.message)
        elif trouble.kind in ("unauthorised", "wrong_server"):
            self.take_out(member, _refusal(trouble.status, trouble.message), slow=True)
        elif trouble.kind in ("busy", "unavailable"):
            member.governor.refused(member.in_flight, self._clock.monotonic())
        elif trouble.kind in KINDS:
            first = not member.blame.sick
            member.blame.failed(prompt)
            if member.blame.sick and others:
                self._suspend(member, trouble.message, first=first)
                return True
        return False

    def _suspend(self, member: Member, message: str, *, first: bool) -> None:
        """It answers nothing but errors: now and then one prompt is tried on it."""
        if member.retired or member.out:
            return
        count = member.blame.prompts
        member.out = f"answers nothing but errors, to {count:,} prompts in a row; last: {message}"
        member.slow, member.failures = False, 0
        member.next_probe = self._clock.monotonic() + member.blame.next_trial_s()
        if first:
            self._say(
                f"{member.name}: {member.out}. No prompt is given up for that; single ones are "
                "tried until it answers. See its log, and [generate] for settings that it refuses",
                "error",
            )
        self._on_change()

    def success(self, member: Member) -> None:
        """It answered."""
        if member.blame.answered():
            member.governor.limit = None
            self._say(f"{member.name}: answers again", "info")
        member.answered_at = self._clock.monotonic()
        member.governor.answered(member.in_flight, member.answered_at)

    def take_out(self, member: Member, reason: str, *, slow: bool = False) -> None:
        """No more requests to this endpoint until a probe finds it well."""
        if member.retired or member.out:
            return
        member.out, member.slow, member.failures = reason, slow, 0
        member.next_probe = self._clock.monotonic() + (SLOW_PROBE_S if slow else 0.05)
        self._say(f"{member.name}: {reason}; it gets no requests until it is well again", "warning")
        self._on_change()

    def tick(self) -> None:
        """Probe those that are out, read the counters of those that work, close the retired."""
        now = self._clock.monotonic()
        for member in [*self.members, *self._retired]:
            if member.client is None or member.tasks:
                continue
            if not member.in_flight:
                member.pulse.reset(now)
            if member.out and not member.retired and now >= member.next_probe:
                self._start(member, self._probe(member, member.client))
            elif member.in_flight and now >= member.next_pulse:
                member.next_pulse = now + PULSE_S
                self._start(member, self._read_pulse(member, member.client))
            elif member.retired and not member.in_flight:
                self._retired.remove(member)
                self._start(member, member.client.close())

    def _start(self, member: Member, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        member.tasks.add(task)
        self._tasks.add(task)
        for tasks in (member.tasks, self._tasks):
            task.add_done_callback(tasks.discard)

    async def _probe(self, member: Member, client: Client) -> None:
        problem = await self._problem(member, client)
        if not problem:
            member.out, member.failures = "", 0
            member.governor.limit = 1.0 if member.blame.sick else None
            member.pulse.reset(self._clock.monotonic())
            if not member.fresh and not member.blame.sick:
                self._say(f"{member.name}: takes requests again", "info")
            member.fresh = False
        else:
            member.failures += 1
            if member.slow and problem != member.out:
                self._say(f"{member.name}: {problem}", "error")
            wait = (
                SLOW_PROBE_S if member.slow else min(5.0, backoff(member.failures - 1, self._rng))
            )
            member.out, member.next_probe = problem, self._clock.monotonic() + wait
        self._on_change()

    async def _problem(self, member: Member, client: Client) -> str:
        """What is wrong with an endpoint that is out; empty: nothing."""
        reply, context = await client.context_length()
        member.slow = reply.status in (401, 403, 404, 405)
        if reply.status != 200:
            return reply.text if reply.status is None else _refusal(reply.status, reply.text)
        member.context = context
        if member.fresh:
            # A pause that an earlier user left behind cannot be seen, only undone.
            undone = await client.go_on()
            if undone.status in (401, 403):
                self._say(
                    f"{member.name}: the admin key is missing or wrong (admin_api_key_env), so "
                    "requests cannot be ended on the server and a pause has to wait for them",
                    "warning",
                )
            return ""
        _, before = await client.load()
        health = await client.health()
        if health.status == 200:
            return ""
        # Busy servers say 503 too: one that makes tokens is well.
        await asyncio.sleep(LOOK_AGAIN_S)
        _, after = await client.load()
        if before.work is not None and after.work is not None and after.work > before.work:
            return ""
        return f"not healthy yet ({health.text})"

    async def _read_pulse(self, member: Member, client: Client) -> None:
        told, load = await client.load(thorough=self._adaptive)
        now = self._clock.monotonic()
        member.pulse.note(told, load.work, now)
        if load.work is not None:
            before = member.governor.limit
            member.governor.read(load, member.in_flight, now)
            if member.governor.limit != before:
                self._on_change()

    async def close(self) -> None:
        """Close all connections."""
        await gather_quietly(*self._tasks)
        for member in [*self.members, *self._retired]:
            if member.client is not None:
                await member.client.close()


def _refusal(status: int | None, message: str) -> str:
    """What an HTTP error of an endpoint means for the operator."""
    hint = {
        401: "it refuses the key; name the variable that holds the right one as api_key_env",
        403: "it refuses the key; name the variable that holds the right one as api_key_env",
        404: "it is no SGLang server; look at its url",
        405: "it is no SGLang server; look at its url",
    }.get(status or 0)
    return f"HTTP {status}: {hint} ({message})" if hint else f"HTTP {status}: {message}"
