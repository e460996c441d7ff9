"""A small random model and engines that run it in this process."""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from eagle_tui.pipeline.engine.config import EngineConfig
from eagle_tui.pipeline.engine.engine import Engine
from eagle_tui.pipeline.engine.random_model import write_random_model
from eagle_tui.pipeline.engine.requests import build_prompts, read_call
from eagle_tui.pipeline.engine.runner import ModelRunner
from eagle_tui.pipeline.engine.state import Update


@pytest.fixture(scope="session")
def model_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Random Llama, hidden 128, 4 layers, 1 M parameters."""
    return write_random_model(
        tmp_path_factory.mktemp("model") / "m", hidden=128, layers=4, context=1024
    )


@pytest.fixture(scope="session")
def runner(model_dir: Path) -> ModelRunner:
    """The model, loaded once in float32 on the CPU."""
    return ModelRunner(model_dir, device="cpu", dtype="float32")


class Harness:
    """An engine whose news are collected."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.news: queue.Queue[Update] = queue.Queue()
        engine.deliver = lambda updates: [self.news.put(u) for u in updates] and None
        self.crashes: list[BaseException] = []
        engine.crashed = self.crashes.append
        engine.start()

    def submit(self, body: dict[str, Any]) -> list[str]:
        """Queue the prompts of a /generate body; returns their ids."""
        prompts = build_prompts(read_call(body), self.engine.limits, self.engine.encode)
        for prompt in prompts:
            self.engine.submit(prompt)
        return [prompt.rid for prompt in prompts]

    def finals(self, count: int, timeout: float = 60) -> dict[str, Update]:
        """The next ``count`` final updates by request id."""
        done: dict[str, Update] = {}
        while len(done) < count:
            update = self.news.get(timeout=timeout)
            if update.finish is not None:
                assert update.prompt.rid not in done
                done[update.prompt.rid] = update
        return done

    def generate(self, **body: Any) -> Update:
        """One request, alone."""
        (rid,) = self.submit(body)
        return self.finals(1)[rid]


@pytest.fixture
def start(runner: ModelRunner, model_dir: Path) -> Iterator[Callable[..., Harness]]:
    """Start engines with given flags; all are closed afterwards."""
    started: list[Harness] = []

    def begin(**flags: Any) -> Harness:
        runner.release()
        harness = Harness(Engine(runner, EngineConfig(model=model_dir, **flags)))
        started.append(harness)
        return harness

    yield begin
    for harness in started:
        harness.engine.close(timeout=10)
        assert harness.crashes == []
