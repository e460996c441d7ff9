"""``sampling_params``: known keys, types, ranges, and SGLang's words for what is wrong."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .errors import Refusal, Shape

#: SGLang's default when ``max_new_tokens`` is left out (``null`` means: up to the context).
DEFAULT_MAX_NEW_TOKENS = 128
#: Below this temperature the row is greedy (SGLang's _SAMPLING_EPS).
GREEDY_BELOW = 1e-6

#: Keys of the SGLang 0.5.23 schema, in the order in which its error message lists them.
KNOWN_KEYS = (
    "max_new_tokens", "stop", "stop_token_ids", "stop_regex", "temperature", "top_p", "top_k",
    "min_p", "frequency_penalty", "presence_penalty", "repetition_penalty", "min_new_tokens", "n",
    "json_schema", "regex", "ebnf", "structural_tag", "ignore_eos", "skip_special_tokens",
    "spaces_between_special_tokens", "no_stop_trim", "stream_interval", "logit_bias",
    "sampling_seed", "custom_params", "beam_width", "watermark", "choice",
)  # fmt: skip
GRAMMAR_KEYS = ("json_schema", "regex", "ebnf", "structural_tag")
UNSUPPORTED_KEYS = (
    "stop_regex", "logit_bias", "custom_params", "beam_width", "watermark", "choice"
)  # fmt: skip


@dataclass(frozen=True)
class SamplingParams:
    """How one request is sampled and where it stops.

    ``max_new_tokens`` is None for "as far as the context goes". ``temperature`` 0 means greedy;
    ``top_k`` -1 means off.
    """

    max_new_tokens: int | None = DEFAULT_MAX_NEW_TOKENS
    length_asked: bool = False  # a default that does not fit is cut, a wish is refused
    min_new_tokens: int = 0
    stop: tuple[str, ...] = ()
    stop_token_ids: frozenset[int] = field(default_factory=frozenset)
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = -1
    min_p: float = 0.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    repetition_penalty: float = 1.0
    ignore_eos: bool = False
    skip_special_tokens: bool = True
    no_stop_trim: bool = False
    stream_interval: int = 1
    n: int = 1
    sampling_seed: int | None = None

    @property
    def greedy(self) -> bool:
        """True when the most likely token is always taken."""
        return self.temperature < GREEDY_BELOW or self.top_k == 1

    @property
    def penalised(self) -> bool:
        """True when earlier output tokens change the logits."""
        return (
            self.frequency_penalty != 0.0
            or self.presence_penalty != 0.0
            or self.repetition_penalty != 1.0
        )


def _describe(value: object) -> str:
    """Name a JSON value the way SGLang's schema errors do."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return f"boolean `{str(value).lower()}`"
    if isinstance(value, int):
        return f"integer `{value}`"
    if isinstance(value, float):
        return f"floating point `{value}`"
    if isinstance(value, str):
        return f"string {json.dumps(value)}"
    return "sequence" if isinstance(value, list) else "map"


def _wrong_type(value: object, expected: str) -> Refusal:
    return Refusal(f"invalid type: {_describe(value)}, expected {expected}", shape=Shape.SCHEMA)


def _integer(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise _wrong_type(value, "i64")
    if not -(2**63) <= value < 2**63:
        raise Refusal(f"invalid value: {_describe(value)}, expected i64", shape=Shape.SCHEMA)
    return value


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _wrong_type(value, "f64")
    return value


def _boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise _wrong_type(value, "a boolean")
    return value


def _strings(value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    if isinstance(value, list):
        for item in value:
            if not isinstance(item, str):
                raise _wrong_type(item, "a string")
        return tuple(value)
    raise _wrong_type(value, "a value or an array of values for StringOrList")


def _token_ids(value: object) -> frozenset[int]:
    if not isinstance(value, list):
        raise _wrong_type(value, "a sequence")
    return frozenset(_integer(item) for item in value if item is not None)


_READERS: dict[str, Callable[[object], Any]] = {
    "max_new_tokens": _integer,
    "min_new_tokens": _integer,
    "stop": _strings,
    "stop_token_ids": _token_ids,
    "temperature": _number,
    "top_p": _number,
    "top_k": _integer,
    "min_p": _number,
    "frequency_penalty": _number,
    "presence_penalty": _number,
    "repetition_penalty": _number,
    "ignore_eos": _boolean,
    "skip_special_tokens": _boolean,
    "no_stop_trim": _boolean,
    "stream_interval": _integer,
    "n": _integer,
    "sampling_seed": _integer,
}


def parse_sampling_params(raw: Mapping[str, Any] | None) -> SamplingParams:
    """Read one ``sampling_params`` object.

    Unknown keys and wrong types raise a ``SCHEMA`` refusal, values out of range a ``MESSAGE``
    one: see `check_ranges`, which the caller runs after it knows whether the answer is a stream.
    """
    values: dict[str, Any] = {}
    for key, value in (raw or {}).items():
        if key not in KNOWN_KEYS:
            known = ", ".join(f"`{name}`" for name in KNOWN_KEYS)
            raise Refusal(f"unknown field `{key}`, expected one of {known}", shape=Shape.SCHEMA)
        if key == "max_new_tokens" and value is None:
            values[key] = None  # no limit but the context, unlike every other null
        elif value is not None and key in _READERS:
            values[key] = _READERS[key](value)
            if key == "max_new_tokens":
                values["length_asked"] = True
        elif value is not None and key in UNSUPPORTED_KEYS:
            raise Refusal(f"The embedded engine has no {key}: serve the model with SGLang for it.")
        elif value and key in GRAMMAR_KEYS:
            raise Refusal(
                "Grammar-based generation (json_schema, regex, ebnf, structural_tag) is not "
                "supported when the server is launched with --grammar-backend none"
            )
    return SamplingParams(**values)


def check_ranges(p: SamplingParams) -> None:
    """Raise a ``MESSAGE`` refusal for the first value that is out of range."""
    longest = math.inf if p.max_new_tokens is None else p.max_new_tokens
    rules: tuple[tuple[bool, str], ...] = (
        (
            math.isfinite(p.temperature) and p.temperature >= 0.0,
            f"temperature must be a non-negative finite number, got {p.temperature}.",
        ),
        (0.0 < p.top_p <= 1.0, f"top_p must be in (0, 1], got {p.top_p}."),
        (0.0 <= p.min_p <= 1.0, f"min_p must be in [0, 1], got {p.min_p}."),
        (
            p.top_k == -1 or p.top_k >= 1,
            f"top_k must be -1 (disable) or at least 1, got {p.top_k}.",
        ),
        (
            -2.0 <= p.frequency_penalty <= 2.0,
            f"frequency_penalty must be in [-2, 2], got {p.frequency_penalty}.",
        ),
        (
            -2.0 <= p.presence_penalty <= 2.0,
            f"presence_penalty must be in [-2, 2], got {p.presence_penalty}.",
        ),
        (
            0.0 < p.repetition_penalty <= 2.0,
            f"repetition_penalty must be in (0, 2] (1.0 = no penalty), got {p.repetition_penalty}.",
        ),
        (
            p.min_new_tokens >= 0,
            f"min_new_tokens must be in [0, max_new_tokens], got {p.min_new_tokens}.",
        ),
        (longest >= 0, f"max_new_tokens must be at least 0, got {p.max_new_tokens}."),
        (
            p.min_new_tokens <= longest,
            f"min_new_tokens must be in [0, max_new_tokens({p.max_new_tokens})], "
            f"got {p.min_new_tokens}.",
        ),
        (p.stream_interval >= 1, f"stream_interval must be at least 1, got {p.stream_interval}."),
        (p.n >= 1, f"n must be at least 1, got {p.n}."),
    )
    for holds, message in rules:
        if not holds:
            raise Refusal(message)
