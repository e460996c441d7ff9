"""Tokens per second of the embedded engine over HTTP, beside a floor measured in the same run.

The floor is a bare loop: the same model, the same batch size, one forward pass per step with
transformers' own cache, greedy. It has no HTTP, no scheduler, no requests that come and go, so
``engine / floor`` is the share of the possible that is left after all of that.

    python benchmarks/engine.py [--model DIR] [--tokens 128] [--concurrency 1,8,32] [--stream]

Threads follow OMP_NUM_THREADS. Without --model a random Llama of 3.5 M parameters is made.
"""

from __future__ import annotations

import argparse
import asyncio
import inspect
import os
import random
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import torch
from transformers import AutoModelForCausalLM, DynamicCache

from eagle_tui.pipeline.engine.random_model import write_random_model

PROMPT_TOKENS = 48
START_TIMEOUT_S = 60.0


@contextmanager
def running_engine(model: Path, *flags: str) -> Iterator[str]:
    """An engine process; yields its URL and stops it afterwards."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "eagle_tui.pipeline.engine", "--model", str(model)]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [*command, "--port", str(port), *flags], stdout=log, stderr=subprocess.STDOUT
        )
        url = f"http://127.0.0.1:{port}"
        try:
            deadline = time.monotonic() + START_TIMEOUT_S
            while True:
                try:
                    if httpx.get(f"{url}/health").status_code == 200:
                        break
                except httpx.TransportError:
                    pass
                if process.poll() is not None or time.monotonic() > deadline:
                    log.seek(0)
                    raise SystemExit(f"the engine did not start:\n{log.read().decode()}")
                time.sleep(0.1)
            yield url
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(10)


def prompts(count: int, vocab: int, seed: int) -> list[list[int]]:
    """Random prompts of about `PROMPT_TOKENS` tokens."""
    rng = random.Random(seed)
    low, high = PROMPT_TOKENS // 2, PROMPT_TOKENS * 3 // 2
    return [[rng.randrange(8, vocab) for _ in range(rng.randint(low, high))] for _ in range(count)]


async def engine_rate(
    url: str, concurrency: int, total: int, lengths: list[int], vocab: int, stream: bool
) -> tuple[float, float]:
    """(tok/s, median ms per request) of ``total`` requests, ``concurrency`` at a time."""
    work = list(zip(prompts(total, vocab, seed=concurrency), lengths, strict=True))
    latencies: list[float] = []
    generated = 0
    limits = httpx.Limits(max_connections=concurrency, keepalive_expiry=4)

    async def client(http: httpx.AsyncClient) -> None:
        nonlocal generated
        while work:
            ids, length = work.pop()
            began = time.perf_counter()
            sampling = {"max_new_tokens": length, "ignore_eos": True, "temperature": 0.7}
            body = {"input_ids": ids, "sampling_params": sampling, "stream": stream}
            if stream:
                async with http.stream("POST", "/generate", json=body) as answer:
                    async for _ in answer.aiter_bytes():
                        pass
                generated += length
            else:
                answer = (await http.post("/generate", json=body)).raise_for_status()
                generated += answer.json()["meta_info"]["completion_tokens"]
            latencies.append(time.perf_counter() - began)

    async with httpx.AsyncClient(base_url=url, timeout=600, limits=limits) as http:
        began = time.perf_counter()
        await asyncio.gather(*(client(http) for _ in range(concurrency)))
        seconds = time.perf_counter() - began
    return generated / seconds, statistics.median(latencies) * 1e3


@torch.inference_mode()
def floor_rate(model: torch.nn.Module, batch: int, tokens: int) -> float:
    """tok/s of the bare loop."""
    ids = torch.tensor([[5] * PROMPT_TOKENS] * batch)
    cache = DynamicCache()
    name = "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"
    step = model(input_ids=ids, use_cache=True, logits_to_keep=1, **{name: cache})
    began = time.perf_counter()
    for _ in range(tokens):
        chosen = step.logits[:, -1].argmax(-1, keepdim=True)
        step = model(input_ids=chosen, use_cache=True, **{name: cache})
    return batch * tokens / (time.perf_counter() - began)


def main() -> None:
    """Measure and print one line per concurrency."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", type=Path)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--concurrency", default="1,8,32")
    parser.add_argument("--rounds", type=int, default=4, help="requests per client")
    parser.add_argument("--tail", action="store_true", help="heavy-tailed lengths, same mean")
    parser.add_argument("--stream", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        directory = arguments.model or write_random_model(
            Path(scratch) / "model", hidden=192, layers=8, context=4096
        )
        model = AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32).eval()
        vocab = model.config.vocab_size
        size = sum(p.numel() for p in model.parameters()) / 1e6
        threads = os.environ.get("OMP_NUM_THREADS", "default")
        print(f"{directory.name}: {size:.1f} M parameters, OMP_NUM_THREADS={threads}")
        print("concurrency   engine tok/s   floor tok/s   engine/floor   ms per request")
        for concurrency in (int(part) for part in arguments.concurrency.split(",")):
            total = concurrency * arguments.rounds
            rng = random.Random(1)
            lengths = [arguments.tokens] * total
            if arguments.tail:
                mean = arguments.tokens / 2.25  # of paretovariate(1.8)
                lengths = [min(3000, int(mean * rng.paretovariate(1.8))) for _ in range(total)]
            with running_engine(directory) as url:
                asyncio.run(engine_rate(url, concurrency, concurrency, [16] * concurrency, vocab,
                                        arguments.stream))  # fmt: skip
                rate, latency = asyncio.run(
                    engine_rate(url, concurrency, total, lengths, vocab, arguments.stream)
                )
            floor = floor_rate(model, concurrency, arguments.tokens)
            print(
                f"{concurrency:11d} {rate:14.0f} {floor:13.0f} {rate / floor:13.0%} {latency:16.0f}"
            )


if __name__ == "__main__":
    main()
