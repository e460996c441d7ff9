"""The faults of the scripted server: which there are, how they look, and when they come."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from aiohttp import web

from .language import CLOSE, END

FAULTS = (
    "500_text", "500_json", "502_late", "503", "503_full", "reset", "reset_body", "abort", "empty",
    "abort_empty", "no_content", "no_thought", "end_now", "in_thought", "loop", "small_pool",
    "hang", "hang_abortable", "slow_body", "no_done",
    "400_context", "400_unknown", "garbled", "foreign", "html", "401", "404",
)  # fmt: skip
Script = Callable[[list[int], int], str | None]
"""Prompt ids and how often this prompt was asked (1…) → a fault, or None."""


def refusal(fault: str | None, size: int) -> web.Response | None:
    if fault == "500_text":
        return web.Response(text="Internal Server Error", status=500)
    if fault == "500_json":
        return web.json_response({"error": {"message": "boom"}}, status=500)
    if fault == "502_late":
        return web.Response(text="Bad Gateway", status=502)
    if fault == "503":
        return web.json_response({"error": {"message": "try later"}}, status=503)
    if fault == "503_full":
        return web.json_response({"error": {"message": "The request queue is full."}}, status=503)
    if fault == "400_context":
        text = f"The input ({size} tokens) is longer than the model's context length (4096 tokens)."
        return web.json_response({"error": {"message": text}}, status=400)
    if fault == "400_unknown":
        text = {"object": "error", "message": "odd request", "type": "Bad Request", "code": 400}
        return web.json_response(text, status=400)
    if fault == "garbled":
        return web.Response(text='{"output_ids": [1, 2', content_type="application/json")
    if fault == "foreign":
        meta = {"finish_reason": {"type": "stop"}, "prompt_tokens": 3, "completion_tokens": 2}
        return web.json_response({"output_ids": [9, 1_000_000], "meta_info": meta})
    if fault == "html":
        return web.Response(text="<html>It works!</html>", content_type="text/html")
    if fault == "401":
        return web.json_response({"error": "Unauthorized"}, status=401)
    if fault == "404":
        return web.json_response({"detail": "Not Found"}, status=404)
    return None


def faulty(fault: str | None, whole: list[int], asked: int) -> list[int]:
    if fault == "empty":
        return [END]
    if fault == "no_content":
        return [*whole[: whole.index(CLOSE) + 1], END]
    if fault == "in_thought":
        # Never ends by itself, and never repeats.
        rng = random.Random(1)
        return [rng.randrange(10, 1000) for _ in range(asked)]
    if fault == "no_thought":
        return [CLOSE, *whole[whole.index(CLOSE) + 1 :]]
    if fault == "loop":
        return [11, 12, 13] * asked
    return whole


def by_chance(rates: dict[str, float], seed: int) -> Script:
    """Faults at random, at most three a prompt, so that every prompt can be answered."""
    rng = random.Random(seed)
    names, weights = list(rates), list(rates.values())

    def script(prompt: Sequence[int], times: int) -> str | None:
        if times > 3 or rng.random() >= sum(weights):
            return None
        return rng.choices(names, weights)[0]

    return script
