"""The body of ``POST /generate`` becomes validated prompts.

Two stages, because SGLang answers them differently. `read_call` looks at types only: what it
refuses is a plain 400 even when a stream was asked for. `build_prompts` needs the tokenizer and
the limits of the model: what it refuses inside a stream is an event after a 200.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .errors import Refusal, Shape
from .sampling import SamplingParams, check_ranges, parse_sampling_params


@dataclass(frozen=True)
class Limits:
    """What a prompt may be, in tokens; the names are those of ``/server_info``."""

    vocab_size: int
    context_len: int
    max_total_num_tokens: int

    @property
    def max_req_len(self) -> int:
        """Longest prompt plus output that can ever run."""
        return min(self.context_len, self.max_total_num_tokens) - 1

    @property
    def max_req_input_len(self) -> int:
        """Longest prompt; SGLang keeps five tokens back."""
        return self.max_req_len - 5


@dataclass(frozen=True)
class Prompt:
    """One request of one row, ready for the scheduler.

    ``max_new_tokens`` is already cut to what context and pool allow, as SGLang cuts it, so a
    request can finish by ``length`` below the number its sender asked for.
    """

    rid: str
    input_ids: tuple[int, ...]
    params: SamplingParams
    max_new_tokens: int
    stream: bool = False
    require_reasoning: bool = False
    return_prompt_token_ids: bool = False


@dataclass(frozen=True)
class GenerateCall:
    """A body whose types are right. ``inputs`` holds one text or id list per row."""

    inputs: tuple[str | tuple[int, ...], ...]
    params: tuple[SamplingParams, ...]
    rids: tuple[str, ...]
    single: bool
    stream: bool
    require_reasoning: bool
    return_prompt_token_ids: bool
    unsupported: str | None


def _bad_type(field: str, expected: str, value: object) -> Refusal:
    shown = repr(value)
    if len(shown) > 80:
        shown = shown[:80] + "…"
    return Refusal(
        f"1 validation error:\n  body.{field}: Input should be {expected}, got {shown}",
        shape=Shape.OBJECT,
    )


def parse_json(raw: bytes, content_type: str | None) -> Any:
    """The JSON of a body; raises `Refusal` in the shape of SGLang's validation errors.

    Like SGLang's, a body of another declared type is none.
    """
    kind = (content_type or "application/json").partition(";")[0].strip().lower()
    if raw and kind != "application/json" and not kind.endswith("+json"):
        raise Refusal(
            "1 validation error:\n  body: Input should be JSON with the header "
            f"content-type: application/json, got {kind}",
            shape=Shape.OBJECT,
        )
    if not raw:
        raise Refusal("1 validation error:\n  body: Field required", shape=Shape.OBJECT)
    try:
        return json.loads(raw)
    except ValueError as error:
        raise Refusal(
            f"1 validation error:\n  body: JSON decode error: {error}", shape=Shape.OBJECT
        ) from error


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _read_ids(value: list[Any]) -> tuple[int, ...]:
    for item in value:
        if not _is_int(item):
            raise _bad_type("input_ids", "a valid list of integers", item)
    return tuple(value)


def _read_inputs(body: dict[str, Any]) -> tuple[tuple[str | tuple[int, ...], ...], bool]:
    """The prompts and whether there is just one; ``input_ids`` wins over ``text``."""
    text, ids = body.get("text"), body.get("input_ids")
    texts: tuple[str, ...] | None = None
    if isinstance(text, list):
        for item in text:
            if not isinstance(item, str):
                raise _bad_type("text", "a valid string", item)
        texts = tuple(text)
    elif text is not None and not isinstance(text, str):
        raise _bad_type("text", "a valid string or list of strings", text)
    if ids is not None and not isinstance(ids, list):
        raise _bad_type("input_ids", "a valid list", ids)

    if ids:
        if isinstance(ids[0], list):
            for row in ids:
                if not isinstance(row, list):
                    raise _bad_type("input_ids", "a valid list of lists", row)
            return tuple(_read_ids(row) for row in ids), False
        return (_read_ids(ids),), True
    if ids is not None:
        raise Refusal("input_ids cannot be empty.")
    if texts is not None:
        if not texts:
            raise Refusal("text cannot be an empty list.")
        return texts, False
    if text is not None:
        return (str(text),), True
    if body.get("input_embeds") is not None:
        raise Refusal("The embedded engine has no input_embeds: send input_ids or text.")
    raise Refusal("Either text, input_ids or input_embeds should be provided.")


def _read_params(value: object, rows: int) -> list[SamplingParams]:
    if isinstance(value, list):
        if len(value) != rows:
            raise Refusal(
                f"sampling_params is a list of {len(value)}, but the batch has {rows} prompts."
            )
        for item in value:
            if not isinstance(item, dict):
                raise _bad_type("sampling_params", "a valid dictionary", item)
        return [parse_sampling_params(item) for item in value]
    if value is not None and not isinstance(value, dict):
        raise _bad_type("sampling_params", "a valid dictionary or list", value)
    return [parse_sampling_params(value)] * rows


def _read_rids(value: object, rows: int, single: bool, copies: int) -> list[str]:
    """One request id per row: given, derived from the batch's, or random."""
    if value is not None and not isinstance(value, str | list):
        raise _bad_type("rid", "a valid string or list of strings", value)
    if copies > 1 or value is None:  # SGLang drops the caller's id when n > 1
        return [uuid.uuid4().hex for _ in range(rows * copies)]
    if isinstance(value, str):
        return [value] if single else [f"{value}_{row}" for row in range(rows)]
    for item in value:
        if not isinstance(item, str):
            raise _bad_type("rid", "a valid string", item)
    if single or len(value) != rows:
        raise Refusal(f"rid is a list of {len(value)}, but there are {rows} prompts.")
    repeated = sorted({rid for rid in value if value.count(rid) > 1})
    if repeated:
        raise Refusal(f"Duplicate request IDs detected within the request: {repeated}")
    return list(value)


def _flag(body: dict[str, Any], key: str) -> bool:
    value = body.get(key)
    if value is not None and not isinstance(value, bool):
        raise _bad_type(key, "a valid boolean", value)
    return bool(value)


def read_call(body: object) -> GenerateCall:
    """Check the types of a ``/generate`` body; unknown top-level keys are ignored, as SGLang does.

    Raises `Refusal`. One whose shape is ``MESSAGE`` belongs into the stream if one was asked for.
    """
    if not isinstance(body, dict):
        raise _bad_type("", "a valid dictionary", body)
    stream = _flag(body, "stream")
    flags = {key: _flag(body, key) for key in ("require_reasoning", "return_prompt_token_ids")}
    unsupported = next(
        (key for key in ("return_logprob", "return_hidden_states") if _truthy(body.get(key))), None
    )
    inputs, single = _read_inputs(body)
    params = _read_params(body.get("sampling_params"), len(inputs))
    copies = params[0].n
    if any(p.n != copies for p in params):
        raise Refusal(
            "The parallel_sample_num should be the same for all samples in sample params."
        )
    rids = _read_rids(body.get("rid"), len(inputs), single, max(1, copies))
    return GenerateCall(
        inputs=inputs * max(1, copies),
        params=tuple(params) * max(1, copies),
        rids=tuple(rids),
        single=single and copies <= 1,
        stream=stream,
        unsupported=unsupported,
        **flags,
    )


def _truthy(value: object) -> bool:
    return any(value) if isinstance(value, list) else bool(value)


def wants_stream(body: object) -> bool:
    """Whether a refusal of this body has to travel inside a stream."""
    return isinstance(body, dict) and body.get("stream") is True


def check_prompt(ids: Sequence[int], params: SamplingParams, limits: Limits) -> int:
    """Refuse what cannot run; return the number of new tokens that context and pool leave room for.

    Order and words are SGLang's (``_validate_one_request``, then the scheduler's own check),
    except for an empty prompt and an id outside the vocabulary, which kill an SGLang server.
    """
    count = len(ids)
    if count == 0:
        raise Refusal("The prompt has no tokens: texts cannot be empty.")
    outside = next((token for token in ids if not 0 <= token < limits.vocab_size), None)
    if outside is not None:
        raise Refusal(
            f"input_ids contains the token id {outside}, which is outside the vocabulary: "
            f"valid ids are 0 to {limits.vocab_size - 1}."
        )
    if count >= limits.context_len:
        raise Refusal(
            f"The input ({count} tokens) is longer than the model's context length "
            f"({limits.context_len} tokens)."
        )
    wanted = params.max_new_tokens
    if wanted is not None and params.length_asked and count + wanted > limits.context_len:
        raise Refusal(
            "Requested token count exceeds the model's maximum context length of "
            f"{limits.context_len} tokens. You requested a total of {count + wanted} tokens: "
            f"{count} tokens from the input messages and {wanted} tokens for the completion. "
            "Please reduce the number of tokens in the input messages or the completion to fit "
            "within the limit."
        )
    if count > limits.max_req_input_len:
        raise Refusal(
            f"Input length ({count} tokens) exceeds the maximum allowed length "
            f"({limits.max_req_input_len} tokens). Use a shorter input or enable "
            "--allow-auto-truncate."
        )
    room = limits.max_req_len - count - 1
    return max(0, room if wanted is None else min(wanted, room))


def build_prompts(
    call: GenerateCall, limits: Limits, encode: Callable[[str], list[int]]
) -> list[Prompt]:
    """Tokenize and check every row of a call; raises `Refusal` for the first that cannot run."""
    if call.unsupported:
        raise Refusal(
            f"The embedded engine has no {call.unsupported}: serve the model with SGLang for it."
        )
    prompts = []
    for item, params, rid in zip(call.inputs, call.params, call.rids, strict=True):
        check_ranges(params)
        ids = tuple(encode(item)) if isinstance(item, str) else item
        prompts.append(
            Prompt(
                rid=rid,
                input_ids=ids,
                params=params,
                max_new_tokens=check_prompt(ids, params, limits),
                stream=call.stream,
                require_reasoning=call.require_reasoning,
                return_prompt_token_ids=call.return_prompt_token_ids,
            )
        )
    return prompts
