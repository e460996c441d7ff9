"""A request while it lives in the engine, and what is told about it to the outside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from .detokenizer import Detokenizer
from .requests import Prompt
from .sampling import SamplingParams


@dataclass(frozen=True)
class Finish:
    """Why a request ended. ``status`` is the HTTP status when the request was never served."""

    kind: str  # "stop" | "length" | "abort"
    matched: int | str | None = None
    length: int | None = None
    message: str | None = None
    status: int | None = None
    served: bool = True  # False: it ended in the queue, so most facts about it do not exist

    def json(self) -> dict[str, Any]:
        """``meta_info.finish_reason``."""
        if self.kind == "stop":
            return {"type": "stop", "matched": self.matched}
        if self.kind == "length":
            return {"type": "length", "length": self.length}
        if self.status is not None:
            return {"type": "abort", "status_code": self.status, "message": self.message}
        if not self.served:
            return {"type": "abort", "message": self.message}
        return {"type": "abort", "message": self.message, "status_code": None, "err_type": None}


ABORTED = Finish("abort", message="Aborted")
ABORTED_IN_QUEUE = Finish("abort", message="Abort in waiting queue", served=False)
QUEUE_FULL = Finish("abort", message="The request queue is full.", status=503, served=False)


@dataclass(frozen=True)
class Times:
    """Monotonic seconds; None for what has not happened."""

    received: float
    started: float | None = None  # first forward pass began
    prefilled: float | None = None
    first_token: float | None = None
    finished: float | None = None


@dataclass(frozen=True)
class Update:
    """News of one request, as handed from the model thread to the event loop."""

    prompt: Prompt
    output_ids: tuple[int, ...]
    text: str
    finish: Finish | None
    retractions: int
    reasoning_tokens: int
    times: Times


@dataclass(eq=False)
class Request:
    """Mutable state of a request; belongs to the model thread alone."""

    prompt: Prompt
    received: float
    rng: Random
    stop_ids: frozenset[int]  # tokens that would end it; what `min_new_tokens` holds back
    detokenizer: Detokenizer
    output_ids: list[int] = field(default_factory=list)
    retractions: int = 0
    abort_wanted: bool = False
    started: float | None = None
    prefilled: float | None = None
    first_token: float | None = None

    @property
    def params(self) -> SamplingParams:
        """Its sampling parameters (the sampler's view)."""
        return self.prompt.params

    @property
    def tokens(self) -> list[int]:
        """Prompt and output: what a prefill after a retraction has to compute."""
        return [*self.prompt.input_ids, *self.output_ids]

    @property
    def length(self) -> int:
        """Number of prompt and output tokens."""
        return len(self.prompt.input_ids) + len(self.output_ids)

    @property
    def remaining(self) -> int:
        """New tokens it may still make."""
        return self.prompt.max_new_tokens - len(self.output_ids)

    def find_stop(self) -> Finish | None:
        """Whether the last token ended it. A stop string wins over a token, both over length."""
        params, output = self.params, self.output_ids
        if params.stop:
            self.detokenizer.feed(output)
            text = self.detokenizer.finish(output)
            for stop in params.stop:
                if stop and stop in text:
                    return Finish("stop", matched=stop)
        if output and not params.ignore_eos and output[-1] in self.stop_ids:
            return Finish("stop", matched=output[-1])
        if len(output) >= self.prompt.max_new_tokens:
            return Finish("length", length=self.prompt.max_new_tokens)
        return None

    def final_text(self, finish: Finish) -> str:
        """Text of the answer: without the stop, unless ``no_stop_trim``."""
        keep_stop = self.params.no_stop_trim
        output: Sequence[int] = self.output_ids
        if finish.kind == "stop" and isinstance(finish.matched, int) and not keep_stop:
            return self.detokenizer.finish(output[:-1])
        text = self.detokenizer.finish(output)
        if finish.kind == "stop" and isinstance(finish.matched, str):
            at = text.find(finish.matched)
            if at >= 0:
                return text[: at + len(finish.matched)] if keep_stop else text[:at]
        return text
