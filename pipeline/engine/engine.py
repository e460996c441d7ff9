"""The model thread: an inbox of commands, pause modes, and the loop that steps the scheduler.

Everything that touches the scheduler or the model runs in this one thread. The outside posts
commands and gets `Update` lists through one callback; it never waits for a lock that is held
during a forward pass.
"""

from __future__ import annotations

import enum
import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from .config import EngineConfig
from .detokenizer import Detokenizer
from .kvpool import TokenBudget
from .reasoning import ReasoningMarkers
from .requests import Limits, Prompt
from .runner import PREFILL_TOKENS, ModelRunner
from .sampler import sample
from .scheduler import Scheduler
from .state import Request, Update
from .stats import Counters, Load

log = logging.getLogger(__name__)
T = TypeVar("T")

#: An idle engine wakes this often to date its load picture; nothing else is done then.
HEARTBEAT = 1.0
#: A load picture is published at least every so many decode steps (SGLang's default).
PUBLISH_STEPS = 15
#: Decode steps between two log lines and two settings of gen_throughput (SGLang's default).
DECODE_LOG_STEPS = 40


class PauseMode(enum.Enum):
    """What happens to running requests when generation is paused."""

    ABORT = "abort"
    IN_PLACE = "in_place"
    RETRACT = "retract"


@dataclass(frozen=True)
class Clock:
    """Monotonic time for durations, and the wall time that belongs to it."""

    monotonic: Callable[[], float] = time.perf_counter
    wall: Callable[[], float] = time.time


class ModelStepper:
    """Runner and sampler behind the scheduler's `Stepper` protocol."""

    def __init__(self, runner: ModelRunner) -> None:
        self._runner = runner

    def prefill(self, first_row: int, requests: list[Request]) -> list[int]:
        """Compute the prompts (after a retraction: with output) and sample a token for each."""
        logits = self._runner.prefill(first_row, [request.tokens for request in requests])
        return sample(logits, requests)

    def decode(self, requests: list[Request]) -> list[int]:
        """Feed every request its last token and sample the next."""
        tokens = [request.output_ids[-1] for request in requests]
        positions = [request.length - 1 for request in requests]
        return sample(self._runner.decode(tokens, positions), requests)

    def move_row(self, source: int, target: int, length: int) -> None:
        """Row ``target`` takes over what row ``source`` holds."""
        self._runner.move_row(source, target, length)


class Engine:
    """Runs the model in its own thread.

    ``deliver`` is called in that thread with the news of a step; ``crashed`` with the exception
    that ended the thread, after which nothing more is delivered.
    """

    def __init__(
        self, runner: ModelRunner, config: EngineConfig, *, clock: Clock | None = None
    ) -> None:
        self.clock = clock or Clock()
        self.facts = runner.facts
        self.limits = Limits(
            vocab_size=runner.facts.vocab_size,
            context_len=runner.facts.context_len,
            max_total_num_tokens=config.pool_tokens(runner.facts),
        )
        self.counters = Counters()
        self.encode = runner.encode
        markers = None
        if config.reasoning_parser is not None:
            markers = ReasoningMarkers.of(
                config.reasoning_parser,
                lambda text: runner.tokenizer.encode(text, add_special_tokens=False),
            )
        self._runner = runner
        self._scheduler = Scheduler(
            ModelStepper(runner),
            budget=TokenBudget(self.limits.max_total_num_tokens, config.schedule_conservativeness),
            max_running=config.max_running_requests,
            max_queued=config.max_queued_requests,
            prefill_tokens=PREFILL_TOKENS,
            markers=markers,
            clock=self.clock.monotonic,
            counters=self.counters,
        )
        self._seeds = Random(config.seed)
        self._inbox: deque[Callable[[], list[Update]]] = deque()
        self._wake = threading.Condition()
        self._stopped = False  # paused in_place or retract: the scheduler does not step
        self._closing = False
        self._thread: threading.Thread | None = None
        self._last_log = (0, self.clock.monotonic())
        self.load: Load = self._scheduler.load(self.clock.wall())
        self.deliver: Callable[[list[Update]], None] = lambda news: None
        self.crashed: Callable[[BaseException], None] = lambda error: None

    # ---- called from any thread ----------------------------------------------------------

    def start(self) -> None:
        """Start the model thread."""
        self._thread = threading.Thread(target=self._run, name="model", daemon=True)
        self._thread.start()

    def close(self, timeout: float = 1.0) -> None:
        """Stop stepping; what runs is dropped without an answer."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        if self._thread is not None:
            self._thread.join(timeout)

    def submit(self, prompt: Prompt) -> None:
        """Queue a prompt; its news come through ``deliver``."""
        received = self.clock.monotonic()
        self._post(lambda: self._scheduler.submit(self._request(prompt, received)))

    def abort(self, prefix: str) -> None:
        """Abort the requests whose id begins with ``prefix``."""
        self._post(lambda: self._scheduler.abort(prefix))

    def abort_all(self) -> None:
        """Abort everything."""
        self._post(self._scheduler.abort_all)

    def pause(self, mode: PauseMode) -> None:
        """Stop generating in one of SGLang's three ways; new submissions are the caller's care."""
        self._post(lambda: self._pause(mode))

    def resume(self) -> None:
        """Go on after `pause`."""
        self._post(self._resume)

    def ask(self, question: Callable[[], T], answer: Callable[[T], None]) -> None:
        """Run ``question`` in the model thread between two steps and hand its result on."""

        def command() -> list[Update]:
            answer(question())
            return []

        self._post(command)

    # ---- questions for `ask` -------------------------------------------------------------

    def idle(self) -> bool:
        """Nothing runs and nothing waits."""
        return not self._scheduler.has_work

    def flush(self) -> bool:
        """Give cache memory back. False when requests run, or wait and are about to run."""
        waits = self._scheduler.waiting and not self._stopped
        if self._scheduler.running or waits:
            return False
        self._runner.release()
        return True

    def probe(self) -> bool:
        """Compute one token in a spare row: proof that the model still works."""
        self._runner.prefill(len(self._scheduler.running), [[0]])
        if not self._scheduler.has_work:
            self.counters.prefill_tokens += 1
        return True

    # ---- the model thread ----------------------------------------------------------------

    def _request(self, prompt: Prompt, received: float) -> Request:
        params = prompt.params
        seed = params.sampling_seed
        return Request(
            prompt=prompt,
            received=received,
            rng=Random(self._seeds.getrandbits(64) if seed is None else seed),
            stop_ids=self.facts.eos_ids | params.stop_token_ids,
            detokenizer=Detokenizer(
                self._runner.tokenizer, skip_special_tokens=params.skip_special_tokens
            ),
        )

    def _post(self, command: Callable[[], list[Update]]) -> None:
        with self._wake:
            self._inbox.append(command)
            self._wake.notify()

    def _pause(self, mode: PauseMode) -> list[Update]:
        if mode is PauseMode.ABORT:
            return self._scheduler.abort_all() + self._scheduler.step()
        if not self._stopped:
            self._publish()  # the last picture before it freezes, as SGLang's does
        if mode is PauseMode.RETRACT:
            self._scheduler.retract_all()
        self._stopped = True
        return []

    def _resume(self) -> list[Update]:
        self._stopped = False
        return []

    def _run(self) -> None:
        try:
            self._loop()
        except Exception as error:
            log.exception("Scheduler hit an exception")
            self.crashed(error)

    def _loop(self) -> None:
        for turn in itertools.count():
            commands = self._next_commands()
            if self._closing:
                return
            news: list[Update] = []
            for command in commands:
                news += command()
            changed = bool(commands)
            if not self._stopped and self._scheduler.has_work:
                steps = self.counters.moments.steps
                news += self._scheduler.step()
                changed = changed or bool(news) or steps == self.counters.moments.steps
                self._log_decode()
            if news:
                self.deliver(news)
            if not self._stopped and (changed or turn % PUBLISH_STEPS == 0):
                self._publish()

    def _next_commands(self) -> list[Callable[[], list[Update]]]:
        """Take the inbox; wait for it (at most a heartbeat) when there is nothing else to do."""
        with self._wake:
            if not self._inbox and not self._closing:
                if self._stopped:
                    self._wake.wait(HEARTBEAT)
                elif not self._scheduler.has_work:
                    began = self.clock.monotonic()
                    self._publish()
                    self._wake.wait(HEARTBEAT)
                    self.counters.idle_seconds += self.clock.monotonic() - began
            commands = list(self._inbox)
            self._inbox.clear()
            return commands

    def _publish(self) -> None:
        self.load = self._scheduler.load(self.clock.wall())

    def _log_decode(self) -> None:
        counters = self.counters
        steps = int(counters.moments.steps)
        tokens, since = self._last_log
        if steps == 0 or steps % DECODE_LOG_STEPS or counters.decode_tokens == tokens:
            return
        now = self.clock.monotonic()
        counters.gen_throughput = (counters.decode_tokens - tokens) / max(now - since, 1e-9)
        self._last_log = (counters.decode_tokens, now)
        log.info(
            "Decode batch, #running-req: %d, #token: %d, token usage: %.2f, "
            "gen throughput (token/s): %.2f, #queue-req: %d",
            counters.running,
            counters.used_tokens,
            counters.used_tokens / self.limits.max_total_num_tokens,
            counters.gen_throughput,
            counters.queued,
        )
