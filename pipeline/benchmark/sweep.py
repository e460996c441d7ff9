"""The measurements of one benchmark by SGLang: the server of run.toml started without and with the
drafter, setting after setting, each at every number of requests; what fails is put aside.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from eagle_tui.config.model import FlagValue, ServerSection

from ..worker import Worker
from .measure import Answer, Kept, Measurement, ask_gaps, measure, requests_for
from .prompts import Prompt
from .serving import Server, ServerError, merged

BASELINE = "baseline"
_SPECULATIVE_REQUESTS = 48
"""SGLang's own limit of running requests while it speculates, unless it is told one."""


@dataclass(frozen=True)
class Variant:
    """Speculation settings of one server."""

    steps: int
    topk: int
    draft_tokens: int

    @property
    def name(self) -> str:
        """For files and reports."""
        return f"steps{self.steps}-topk{self.topk}-tokens{self.draft_tokens}"


def variants(steps: Sequence[int], topk: Sequence[int], tokens: Sequence[int]) -> list[Variant]:
    """Every combination that SGLang would run as it is given, each once. With one branch the draft
    tokens follow from the steps; with more, by default each step adds as many as it has branches.
    """
    found: dict[Variant, None] = {}
    for s in steps:
        for k in topk:
            if k == 1:
                found[Variant(s, 1, s + 1)] = None
                continue
            most = 1 + k + (s - 1) * k * k
            for n in tokens or [1 + s * k]:
                if n <= most:
                    found[Variant(s, k, n)] = None
    return list(found)


class NotSpeculating(ServerError):
    """The server has a drafter and does not use it: starting it again would not help."""


class Sweep:
    """Measures all that is not kept yet."""

    def __init__(
        self,
        worker: Worker,
        section: ServerSection,
        drafter: Path,
        prompts: Sequence[Prompt],
        count: int,
        kept: Kept,
    ) -> None:
        """`drafter`: the exported directory; `count`: how many variants will be measured."""
        self._worker = worker
        self._settings = worker.config.bench
        self._section = section
        self._drafter = drafter
        self._prompts = prompts
        self._count = count
        self._kept = kept
        self.failed: dict[tuple[str, int], str] = {}
        """What could not be measured, and why: name and concurrency, 0 for all."""
        self.version = ""
        """Of SGLang, once a server with the drafter was up."""
        self._done = 0
        self._told_s = 0.0

    def flags(self, variant: Variant | None) -> dict[str, FlagValue]:
        """Of the server for a variant, or for the target alone (None)."""
        more: dict[str, FlagValue] = {}
        if variant is not None:
            more = {
                "speculative-algorithm": "EAGLE3",
                "speculative-draft-model-path": str(self._drafter),
                "speculative-num-steps": variant.steps,
                "speculative-eagle-topk": variant.topk,
                "speculative-num-draft-tokens": variant.draft_tokens,
            }
        flags = merged(self._section, more, without=("speculative-",))
        most = max(self._settings.concurrency)
        if most > _SPECULATIVE_REQUESTS:
            flags.setdefault("max-running-requests", most)
        return flags

    def run(self, variant: Variant | None) -> None:
        """Measure what is still missing of the target alone (None) or of a variant. A server that
        fails at work is started once more; a number of requests at which it fails again is given
        up, and the others go on."""
        name = BASELINE if variant is None else variant.name
        todo = self._todo(name)
        failed_at: set[int] = set()
        while todo:
            at_work, done = False, self._done
            try:
                with self._server(name, variant) as server:
                    told = variant is not None and self._check(server, variant)
                    at_work = True
                    while todo:
                        done = self._done
                        one = self._measure(server, name, todo[0])
                        self._kept.add(self._judged(server, one, variant, told=told))
                        del todo[0]
            except ServerError as error:
                self._done = done
                if not at_work or isinstance(error, NotSpeculating):
                    self._give_up(name, 0, error)
                    return
                if todo[0] in failed_at:
                    self._give_up(name, todo.pop(0), error)
                else:
                    failed_at.add(todo[0])
                    self._worker.log.note(
                        f"{name}, {todo[0]} at a time: {error} It is tried once more.", "warning"
                    )

    def _give_up(self, name: str, concurrency: int, error: ServerError) -> None:
        """`concurrency` 0: the server could not be used at all."""
        self.failed[name, concurrency] = str(error)
        where = f"{name}, {concurrency} at a time," if concurrency else name
        self._worker.log.note(f"{where} could not be measured: {error}", "warning")

    def _judged(
        self, server: Server, one: Measurement, variant: Variant | None, *, told: bool
    ) -> Measurement:
        """Of the target alone: with the gaps of its greedy answers. Of a variant: as it is, if it
        was speculated; `told`: the server says of itself that it does. NotSpeculating otherwise."""
        if variant is None:
            return self._with_gaps(server, one)
        if not any(answer.rounds for answer in one.answers if len(answer.ids) > 2):
            what = "the server counts no passes of verification (meta_info.spec_verify_ct)"
            if not told:
                raise NotSpeculating(f"{what}, so it does not speculate, although it has a drafter")
            self._worker.log.note(f"{what}: the accept length stays unknown", "warning")
        return one

    def _with_gaps(self, server: Server, one: Measurement) -> Measurement:
        if self._settings.temperature > 0:
            return one
        try:
            gaps = ask_gaps(self._worker, server, self._section, self._prompts, one.answers)
        except ServerError as error:
            # What was measured is kept; if it died of this, the next question finds it dead.
            self._worker.log.note(
                f"how sure the target is of its tokens could not be asked ({error}): answers that "
                "part at a tie count as different",
                "warning",
            )
            return one
        return replace(one, gaps=gaps.by_prompt, noise=gaps.noise)

    def _todo(self, name: str) -> list[int]:
        """Concurrencies that are still to be measured; the others count as done. Without the target
        alone there is nothing to compare with."""
        todo = []
        for concurrency in self._settings.concurrency:
            one = self._kept.get(name, concurrency)
            if one is not None:
                self._done += len(one.answers)
            elif name == BASELINE or self._kept.get(BASELINE, concurrency) is not None:
                todo.append(concurrency)
        return todo

    def _server(self, name: str, variant: Variant | None) -> Server:
        self._worker.check_stop()
        self._worker.log.note(f"starts the server: {name}")
        return Server(self._worker, self._section, name, self.flags(variant))

    def _check(self, server: Server, variant: Variant) -> bool:
        """The server may take settings otherwise than they were given: ServerError then. Gives
        whether it says that it speculates."""
        info = server.info()
        self.version = str(info.get("version", ""))
        wanted = {
            "speculative_algorithm": "EAGLE3",
            "speculative_num_steps": variant.steps,
            "speculative_eagle_topk": variant.topk,
            "speculative_num_draft_tokens": variant.draft_tokens,
        }
        for name, value in wanted.items():
            if name in info and info[name] != value:
                raise ServerError(f"the server runs with {name} = {info[name]}, not {value}")
        return "speculative_algorithm" in info

    def _measure(self, server: Server, name: str, concurrency: int) -> Measurement:
        tokens, rounds = 0, 0
        began = self._worker.clock.monotonic()

        def answered(answer: Answer) -> None:
            nonlocal tokens, rounds
            tokens += len(answer.ids)
            rounds += answer.rounds
            self._done += 1
            seconds = self._worker.clock.monotonic() - began
            self._tell(name, concurrency, tokens, rounds, seconds)

        one = measure(
            self._worker,
            server,
            self._section,
            name,
            self._prompts,
            concurrency,
            answered,
        )
        told = f"{name} at concurrency {concurrency}: {one.tok_s:,.1f} tok/s"
        if rounds:
            told += f", accept length {tokens / rounds:.2f}"
        self._worker.log.note(told)
        return one

    def _tell(self, name: str, concurrency: int, tokens: int, rounds: int, seconds: float) -> None:
        log = self._worker.log
        each = [len(requests_for(self._prompts, c)) for c in self._settings.concurrency]
        log.emit(
            "progress",
            done=self._done,
            total=sum(each) * (1 + self._count),
            unit="prompts",
            detail=f"{name}, {concurrency} at a time",
        )
        now = self._worker.clock.monotonic()
        if now - self._told_s >= 1.0 and seconds > 0:
            self._told_s = now
            values = {
                "accept": round(tokens / rounds, 4) if rounds else None,
                "tok_s": round(tokens / seconds, 1),
            }
            log.emit("metric", values=values)
