"""How fast phase 2 is, beside a bare aiohttp loop that does the same, in one run.

`python benchmarks/generate.py` prints three small tables:

- speed: 512 requests in flight against a server that answers at once, in its own process. The bare
  loop sends the same requests, parses the answers and writes a JSON line for each, and knows
  nothing of prompts files, caps, retries, reasoning, repair or events. `without journal`: with
  journal_tokens = 0; `ours`: as it is by default, which soon finds that the journal does not pay
  here; `all streamed`: every answer comes as 24 events that the server has ready all at once, each
  with all tokens so far.
- occupancy: share of the 512 places in use on a server with a mean latency of 500 ms and a heavy
  tail, from when all were first taken until the last request was sent.
- memory: highest resident memory of a worker with 100,000 prompts of 1,000 tokens.

Only the ratios of one run mean something: the machine is shared.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
import tempfile
from pathlib import Path

from harness import PROMPT_TOKENS, asked, child, make_run, measured, serving, table

PLAIN = "journal_tokens = 0"


def ours(root: Path, stop_after_s: float | None = None, *, all_streamed: bool = False) -> int:
    """The worker's own code; gives how many responses were stored."""
    from eagle_tui.clock import SystemClock
    from eagle_tui.config import load_config
    from eagle_tui.pipeline.generation.pace import Pace
    from eagle_tui.pipeline.generation.runner import Runner
    from eagle_tui.pipeline.generation.speech import load_speech
    from eagle_tui.pipeline.worker import Stopped, Worker
    from eagle_tui.rundir.events import WorkerLog
    from eagle_tui.rundir.paths import RunDir

    if all_streamed:
        Pace.at_stake_s = lambda self, now: None  # type: ignore[method-assign]
    run = RunDir.at(root)
    config, clock = load_config(run.config), SystemClock()
    worker = Worker(run, config, WorkerLog(run.events("generate", 1), clock), clock, "generate", 1)
    speech = load_speech(config, run)

    async def generate() -> None:
        if stop_after_s is not None:
            asyncio.get_running_loop().call_later(stop_after_s, worker.stop.set)
        await Runner(worker, speech).run()

    def work() -> int:
        with contextlib.suppress(Stopped):
            asyncio.run(generate())
        with run.responses("b1").open("rb") as file:
            return sum(1 for _ in file)

    measured(work)
    return 0


def bare(root: Path, in_flight: int) -> int:
    """The loop that one would write: a queue, a task for each place, a file."""
    import aiohttp

    prompts = (root / "prompts" / "b1.jsonl").read_bytes().splitlines()
    url = json.dumps((root / "run.toml").read_text()).split('url = \\"')[1].split("\\")[0]
    out = (root / "bare.jsonl").open("wb")
    sampling = {"temperature": 0.7, "top_p": 0.95, "max_new_tokens": 3000}

    async def one(session: aiohttp.ClientSession, waiting: list[bytes]) -> None:
        while waiting:
            row = json.loads(waiting.pop())
            body = {"rid": row["id"], "input_ids": row["prompt_ids"], "sampling_params": sampling}
            async with session.post(f"{url}/generate", json=body) as response:
                found = await response.json()
            row["output_ids"], row["content"] = found["output_ids"], found["text"]
            row["usage"] = found["meta_info"]
            out.write(json.dumps(row, ensure_ascii=False).encode() + b"\n")

    async def all_of_them() -> None:
        connector = aiohttp.TCPConnector(limit=0)
        timeout = aiohttp.ClientTimeout(total=None)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
            await asyncio.gather(*(one(session, prompts) for _ in range(in_flight)))

    total = len(prompts)

    def work() -> int:
        asyncio.run(all_of_them())
        out.close()
        return total

    measured(work)
    return 0


def speed(base: Path, requests: int, repeats: int, in_flight: int) -> None:
    """Requests per second and CPU per request, ours beside bare, best of `repeats`."""
    # The name of each row, the child that measures it, and its settings.
    kinds = {
        "bare": ("bare", PLAIN),
        "ours": ("ours", ""),
        "ours, without journal": ("ours", PLAIN),
        "ours, all streamed": ("streamed", ""),
    }
    found: dict[str, list[dict[str, float]]] = {what: [] for what in kinds}
    with serving() as url:
        for number in range(repeats):
            for what, (kind, settings) in kinds.items():
                root = base / f"{what}{number}"
                make_run(root, requests, url, in_flight, settings)
                args = [str(in_flight)] if kind == "bare" else []
                found[what].append(child(__file__, kind, root, *args))
    rate = {k: max(r["requests"] / r["s"] for r in v) for k, v in found.items()}
    cost = {k: min(1000 * r["cpu_s"] / r["requests"] for r in v) for k, v in found.items()}
    print(f"{requests:,} requests, {in_flight} in flight, best of {repeats}")
    table(
        ["", "requests/s", "CPU ms/request", "of the bare loop: requests/s", "CPU"],
        [
            [
                what,
                f"{rate[what]:,.0f}",
                f"{cost[what]:.2f}",
                f"{rate[what] / rate['bare']:.2f} (aim >= 0.7)",
                f"{cost[what] / cost['bare']:.2f} (aim <= 1.6)",
            ]
            for what in found
        ],
    )


def occupancy(base: Path, requests: int, repeats: int, in_flight: int, mean_s: float) -> None:
    """Share of the places in use, ours beside bare, best of `repeats`."""
    found: dict[str, float] = {"bare": 0.0, "ours": 0.0}
    for number in range(repeats):
        for what in found:
            with serving(mean_s, in_flight) as url:
                root = base / f"occupancy {what}{number}"
                make_run(root, requests, url, in_flight)
                child(__file__, what, root, *([str(in_flight)] if what == "bare" else []))
                found[what] = max(found[what], float(asked(url, "/occupancy")))
    print(
        f"{requests:,} requests, {in_flight} in flight, mean latency {1000 * mean_s:.0f} ms, "
        f"{in_flight / mean_s:,.0f} requests/s at full occupancy, best of {repeats}"
    )
    rows = [[what, f"{share:.3f}" + " (aim >= 0.98)"] for what, share in found.items()]
    table(["", "occupancy"], rows)


def memory(base: Path, prompts: int, seconds: float, in_flight: int) -> None:
    """Peak memory of a worker with many prompts, at work for some seconds."""
    with serving() as url:
        empty, root = base / "empty", base / "memory"
        make_run(empty, 0, url, in_flight)
        (empty / "responses").mkdir()
        (empty / "responses" / "b1.jsonl").touch()
        idle = child(__file__, "ours", empty, "1")
        make_run(root, prompts, url, in_flight)
        found = child(__file__, "ours", root, str(seconds))
    print(f"{prompts:,} prompts of {PROMPT_TOKENS:,} tokens, {in_flight} in flight, streamed")
    table(
        ["", "peak MB", "responses"],
        [
            ["no prompts (interpreter, tokenizer)", f"{idle['mb']:,.0f}", "0"],
            ["all", f"{found['mb']:,.0f} (aim <= 400)", f"{found['requests']:,.0f}"],
        ],
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--child", choices=["ours", "streamed", "bare"])
    parser.add_argument("args", nargs="*")
    parser.add_argument("--only", choices=["speed", "occupancy", "memory"])
    parser.add_argument("--requests", type=int, default=4000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--in-flight", type=int, default=512)
    parser.add_argument("--mean-s", type=float, default=0.5)
    options = parser.parse_args()
    if options.child == "ours":
        return ours(Path(options.args[0]), *map(float, options.args[1:]))
    if options.child == "streamed":
        return ours(Path(options.args[0]), all_streamed=True)
    if options.child == "bare":
        return bare(Path(options.args[0]), int(options.args[1]))
    with tempfile.TemporaryDirectory() as base:
        root, in_flight = Path(base), options.in_flight
        if options.only in (None, "speed"):
            speed(root, options.requests, options.repeats, in_flight)
        if options.only in (None, "occupancy"):
            occupancy(root, 5 * options.requests, options.repeats, in_flight, options.mean_s)
        if options.only in (None, "memory"):
            memory(root, 100_000, 30.0, in_flight)
    return 0


if __name__ == "__main__":
    sys.exit(main())
