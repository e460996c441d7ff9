"""Small run directories with prompts, and the truth about what a run has left in them."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eagle_tui.clock import SystemClock
from eagle_tui.config import load_config
from eagle_tui.pipeline.generation import responses
from eagle_tui.pipeline.generation.runner import Runner
from eagle_tui.pipeline.worker import Worker
from eagle_tui.rundir import atomic, desired, jsonl
from eagle_tui.rundir.events import WorkerLog
from eagle_tui.rundir.paths import RunDir

from . import language

GENERATE: dict[str, Any] = {
    "concurrency": 16,
    "max_new_tokens": 600,
    "temperature": 0.0,
    "fsync_interval_s": 0.05,
    "probe": "off",
    "journal_tokens": 24,
}


@dataclass
class World:
    """One run directory. `prompts`: id → prompt ids, by dataset."""

    run: RunDir
    prompts: dict[str, dict[str, list[int]]]
    attempt: int = 0
    wish: desired.Desired = field(default_factory=desired.Desired)

    def want(self, **changes: Any) -> None:
        """Replace desired.json."""
        self.wish = self.wish.model_copy(update={"seq": self.wish.seq + 1, **changes})
        desired.write(self.run.desired, self.wish)

    def endpoint(self, *urls: str, **fields: Any) -> None:
        """Let these servers be the endpoints."""
        self.want(
            endpoints=tuple(
                desired.Endpoint(name=f"s{n}", url=url, **fields) for n, url in enumerate(urls)
            )
        )

    def worker(self) -> Worker:
        """A worker of the phase, as `worker.main` makes it."""
        self.attempt += 1
        clock = SystemClock()
        log = WorkerLog(self.run.events("generate", self.attempt), clock)
        return Worker(self.run, load_config(self.run.config), log, clock, "generate", self.attempt)

    async def generate(self, worker: Worker | None = None) -> None:
        """Run the phase in this event loop; raises what it raises."""
        worker = worker or self.worker()
        try:
            await Runner(worker, language.speech()).run()
        finally:
            worker.log.close()

    def start(self, worker: Worker | None = None) -> asyncio.Task[None]:
        """The same, beside the test."""
        return asyncio.create_task(self.generate(worker))

    def rows(self, dataset: str = "b1") -> list[dict[str, Any]]:
        """The stored responses."""
        return list(jsonl.rows(self.run.responses(dataset)))

    def dead(self, dataset: str = "b1") -> list[dict[str, Any]]:
        """The dead letters, without the marks of orders to retry."""
        return [row for row in jsonl.rows(self.run.dead(dataset)) if "retry" not in row]

    def events(self, kind: str, attempt: int | None = None) -> list[dict[str, Any]]:
        """Events of an attempt (default: the last)."""
        path = self.run.events("generate", attempt or self.attempt)
        return [row for row in jsonl.rows(path) if row["e"] == kind]

    def check_retries(self) -> int:
        """Every order was carried out exactly once in each of its datasets, and no answer was moved
        twice by one; gives how many answers were moved."""
        moved = 0
        for dataset in self.prompts:
            rows = list(jsonl.rows(self.run.dead(dataset)))
            wanted = [o.seq for o in self.wish.retries if o.dataset in (None, dataset)]
            assert [row["retry"] for row in rows if "retry" in row] == wanted
            letters = [(row["order"], row["id"]) for row in rows if "order" in row]
            assert len(letters) == len(set(letters)), "moved twice by one order"
            moved += len(letters)
        return moved

    def counts(self) -> dict[str, Any]:
        """The manifest's counts."""
        return dict(json.loads(self.run.manifest("generate").read_bytes())["counts"])

    def check(self, *, whole: bool = True, states: Mapping[str, str] | None = None) -> Counter[str]:
        """Every stored row is right and there is one per prompt; gives how many per state.

        `whole`: every prompt has a final state. Complete rows hold exactly the known answer.
        """
        found: Counter[str] = Counter()
        for dataset, prompts in self.prompts.items():
            rows = self.rows(dataset)
            ids = [row["id"] for row in rows]
            assert len(ids) == len(set(ids)), "doubled rows"
            given_up = set(responses.given_up(self.run.dead(dataset)))
            assert not given_up & set(ids), "both a response and a final dead letter"
            if whole:
                assert set(ids) | given_up == set(prompts), "lost prompts"
            for row in rows:
                check_row(row, prompts[row["id"]], dataset)
                found[row["state"]] += 1
            found["dead"] += len(given_up)
        return found


def check_row(row: dict[str, Any], prompt_ids: list[int], dataset: str) -> None:
    """A stored response says what its prompt's answer is, in every field."""
    assert row["dataset"] == dataset
    assert row["prompt_ids"] == prompt_ids
    told = language.split(row["output_ids"], True)
    assert (row["reasoning"], row["content"]) == (told.reasoning, told.content)
    assert row["usage"] == {
        "prompt_tokens": len(prompt_ids),
        "completion_tokens": len(row["output_ids"]),
        "reasoning_tokens": told.reasoning_tokens,
    }
    assert row["conversation"] == [{"role": "user", "content": "\u2028 é \ufffd"}]
    if row["state"] == "complete":
        assert row["output_ids"] == language.answer_to(prompt_ids)
        assert row["finish_reason"] == "stop"


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k} = {_toml(v)}" for k, v in value.items()) + "}"
    return json.dumps(value)


def make_world(
    root: Path,
    sizes: Mapping[str, int] | None = None,
    *,
    generate: Mapping[str, Any] | None = None,
    datasets: Mapping[str, Mapping[str, Any]] | None = None,
    words: int = 8,
) -> World:
    """A run directory with `sizes` prompts by dataset; settings for [generate] and [[dataset]]."""
    sizes = sizes or {"b1": 40}
    run = RunDir.at(root)
    root.mkdir(parents=True, exist_ok=True)
    lines = [
        '[run]\nname = "t"\nphases = ["prepare", "generate"]\n[target]\nmodel = "builtin:tiny"',
        '[[server]]\nurl = "http://127.0.0.1:9"\n[generate]',
        *(f"{k} = {_toml(v)}" for k, v in {**GENERATE, **(generate or {})}.items()),
    ]
    for name in sizes:
        lines.append(f'[[dataset]]\nname = "{name}"\nsource = "{name}.jsonl"')
        settings = (datasets or {}).get(name, {})
        lines += [f"{key} = {_toml(value)}" for key, value in settings.items()]
    atomic.write_text(run.config, "\n".join(lines) + "\n")
    prompts: dict[str, dict[str, list[int]]] = {}
    for name, size in sizes.items():
        prompts[name] = {}
        data = bytearray()
        for number in range(size):
            ids = language.prompt_of(name, number, words)
            key = f"{name}-{number:08d}"
            prompts[name][key] = ids
            data += jsonl.encode(
                {
                    "id": key,
                    "dataset": name,
                    "ordinal": 0,
                    "conversation": [{"role": "user", "content": "\u2028 é \ud800"}],
                    "prompt_ids": ids,
                    "opened": True,
                    "n_turns": 1,
                }
            )
        atomic.write_bytes(run.prompts(name), bytes(data))
    return World(run, prompts)
