"""Whether the crash journal pays on an endpoint, from how long its requests take. Pure.

What a crash costs without a journal is the age of each request in flight: seconds of its work that
are made again. Where that is no more than what may be lost of finished results anyway, streaming
each answer piece by piece would only cost CPU.
"""

from __future__ import annotations

REMEMBERED = 1024
"""Answers after which the older half counts half, so that a change shows soon."""


class Pace:
    """Ages of the requests of one endpoint, in seconds of the monotonic clock."""

    def __init__(self) -> None:
        self._in_flight = 0
        self._started_sum = 0.0
        self._count = 0
        self._spent = self._sum = self._squares = 0.0

    def started(self, now: float) -> None:
        """A request went out."""
        self._in_flight += 1
        self._started_sum += now

    def ended(self, started: float, now: float, *, answered: bool) -> None:
        """A request that went out at `started` is over. Only whole answers tell how long one takes;
        one that was cut short tells that it takes longer than that."""
        self._in_flight -= 1
        self._started_sum = self._started_sum - started if self._in_flight else 0.0
        took = now - started
        self._spent += took
        if not answered:
            return
        if self._count >= REMEMBERED:
            self._count //= 2
            self._spent /= 2
            self._sum /= 2
            self._squares /= 2
        self._count += 1
        self._sum += took
        self._squares += took * took

    def at_stake_s(self, now: float) -> float | None:
        """Seconds of work of the mean request in flight that a crash would cost; None: too few
        answers to say, fewer than there are requests in flight.

        The largest of three, each of which is too little at times:

        - The age of what is in flight now: too little just after a pause.
        - What the answers so far lead to expect: the age of a renewal process at a random time is
          E[L²] / 2 E[L] in the mean (Cox, Renewal Theory, 1962, chapter 5), which for heavy tails
          is far more than half a mean answer. Too little while the long ones are still to come.
        - Half the mean life of a request, with what is in flight or was cut short counted as long
          as it lasted: time spent over answers (Cox and Oakes, Analysis of Survival Data, 1984,
          section 3.2). Where something is killed or held every few seconds, nothing but short
          requests is ever answered, and this alone tells that most of the time goes elsewhere.
        """
        if not self._count or self._count < min(self._in_flight, REMEMBERED // 2):
            return None
        ages = self._in_flight * now - self._started_sum
        expected = self._squares / (2 * self._sum) if self._sum else 0.0
        age = ages / self._in_flight if self._in_flight else 0.0
        half_life = (self._spent + ages) / self._count / 2
        return max(expected, age, half_life)
