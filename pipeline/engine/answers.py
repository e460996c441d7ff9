"""JSON of one request's news, as `/generate` returns it."""

from __future__ import annotations

from typing import Any

from .state import Times, Update


def meta_info(update: Update, *, wall_offset: float) -> dict[str, Any]:
    """``meta_info`` of an event or an answer.

    ``wall_offset`` is wall time minus monotonic time. A request that ended in the queue has only
    the few fields SGLang gives it; the latency fields come with the last event.
    """
    finish, times = update.finish, update.times
    completion = len(update.output_ids)
    meta: dict[str, Any] = {
        "id": update.prompt.rid,
        "finish_reason": None if finish is None else finish.json(),
    }
    if finish is not None and not finish.served:
        return meta | {
            "weight_version": "default",
            "e2e_latency": _span(times.received, times.finished),
            "weight_versions": [{"version": "default", "start": 0, "end": completion}],
            "completion_tokens": completion,
        }
    meta |= {
        "prompt_tokens": len(update.prompt.input_ids),
        "weight_version": "default",
        "num_retractions": update.retractions,
        "forward_entry_time": _wall(times.started, wall_offset),
        "prefill_finished_time": _wall(times.prefilled, wall_offset),
        "queue_time": _span(times.received, times.started),
        "reasoning_tokens": update.reasoning_tokens,
        "completion_tokens": completion,
        "cached_tokens": 0,
        "cached_tokens_details": None,
        "dp_rank": None,
    }
    if finish is not None:
        meta |= {
            "weight_versions": [{"version": "default", "start": 0, "end": completion}],
            "e2e_latency": _span(times.received, times.finished),
            "request_received_ts": _wall(times.received, wall_offset),
            "first_token_latency": _span(times.received, times.first_token),
            "request_finished_ts": _wall(times.finished, wall_offset),
            **_throughput(times, completion),
        }
    return meta


def _wall(moment: float | None, offset: float) -> float | None:
    return None if moment is None else moment + offset


def _span(start: float | None, end: float | None) -> float | None:
    return None if start is None or end is None else end - start


def _throughput(times: Times, completion: int) -> dict[str, float]:
    """Tokens per second after the first token; absent, as in SGLang, when there are none."""
    seconds = _span(times.first_token, times.finished)
    if completion < 2 or not seconds:
        return {}
    return {"decode_throughput": (completion - 1) / seconds}


def answer(update: Update, *, wall_offset: float, wall: float) -> dict[str, Any]:
    """One row's answer or event. ``wall`` is the time of sending."""
    meta = meta_info(update, wall_offset=wall_offset)
    if update.finish is not None:
        meta["response_sent_to_client_ts"] = wall
    body: dict[str, Any] = {
        "text": update.text,
        "output_ids": list(update.output_ids),
        "meta_info": meta,
    }
    if update.prompt.return_prompt_token_ids:
        body["prompt_token_ids"] = list(update.prompt.input_ids)
    return body
