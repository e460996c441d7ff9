"""Renders and encodes instances, and makes training documents in worker processes."""

from __future__ import annotations

import multiprocessing as mp
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from multiprocessing.process import BaseProcess
from multiprocessing.queues import Queue
from pathlib import Path
from types import TracebackType
from typing import Final

import numpy as np
from numpy.typing import NDArray
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from .tasks import Instance, generate
from .tokenizer import TURN_END

# Shares by number of documents. Thoughts of "sort" are some four times as long as the others', so
# it still gives the largest part of the tokens.
FAMILY_SHARES: Final[dict[str, float]] = {
    "arith": 0.20,
    "sort": 0.14,
    "count": 0.18,
    "strings": 0.20,
    "tools": 0.18,
    "chat": 0.10,
}
_DOCUMENTS_PER_BATCH: Final = 1024
_QUEUE_BATCHES: Final = 64


@dataclass(frozen=True, slots=True)
class Documents:
    """Encoded documents, one after the other in ``tokens``; each is a prompt and then an output."""

    tokens: NDArray[np.int16]  # [sum of lengths]
    lengths: NDArray[np.int32]  # [documents], prompt and output together
    prompt_lengths: NDArray[np.int32]  # [documents]


def load_tokenizer(directory: Path) -> PreTrainedTokenizerBase:
    """The tokenizer with its chat template from a local directory."""
    tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(str(directory))
    return tokenizer


def render_prompt(tokenizer: PreTrainedTokenizerBase, instance: Instance) -> str:
    """The text that the model is given; it ends inside the open thought."""
    rendered = tokenizer.apply_chat_template(
        instance.conversation(),
        tools=[dict(tool) for tool in instance.tools] or None,
        tokenize=False,
        add_generation_prompt=True,
    )
    return str(rendered)


def encode(tokenizer: PreTrainedTokenizerBase, instances: Sequence[Instance]) -> Documents:
    """Prompts and reference outputs of the instances, with the end of the turn, as token ids."""
    prompts = _ids(tokenizer, [render_prompt(tokenizer, instance) for instance in instances])
    outputs = _ids(tokenizer, [instance.output() + TURN_END for instance in instances])
    joined = [
        token for pair in zip(prompts, outputs, strict=True) for part in pair for token in part
    ]
    prompt_lengths = np.fromiter(map(len, prompts), np.int32, len(prompts))
    return Documents(
        tokens=np.array(joined, dtype=np.int16),
        lengths=prompt_lengths + np.fromiter(map(len, outputs), np.int32, len(outputs)),
        prompt_lengths=prompt_lengths,
    )


def training_documents(tokenizer_dir: Path, seed: int) -> Iterator[Documents]:
    """An endless stream of encoded training instances of all families, in random order."""
    tokenizer = load_tokenizer(tokenizer_dir)
    # Repeats are allowed: remembering every prompt of a long run would fill the memory.
    streams = {name: generate(name, seed, "train", distinct=False) for name in FAMILY_SHARES}
    rng = random.Random(seed)
    names, weights = list(FAMILY_SHARES), list(FAMILY_SHARES.values())
    mixed = (next(streams[name]) for name in _choices(rng, names, weights))
    while True:
        yield encode(tokenizer, list(islice(mixed, _DOCUMENTS_PER_BATCH)))


class CorpusWorkers:
    """Processes that make training documents until the context is left.

    Each process has a seed of its own, derived from ``seed``; in which order their batches arrive
    is not fixed.
    """

    def __init__(self, tokenizer_dir: Path, seed: int, processes: int) -> None:
        context = mp.get_context("spawn")
        self._queue: Queue[Documents] = context.Queue(maxsize=_QUEUE_BATCHES)
        self._processes: list[BaseProcess] = [
            context.Process(
                target=_work, args=(tokenizer_dir, seed * 1000 + index, self._queue), daemon=True
            )
            for index in range(processes)
        ]

    def __enter__(self) -> CorpusWorkers:
        for process in self._processes:
            process.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in self._processes:
            process.terminate()
            process.join()

    def get(self) -> Documents:
        """The next batch; waits for it. RuntimeError when no process is left that could make
        one."""
        while self._queue.empty() and not any(process.is_alive() for process in self._processes):
            raise RuntimeError("All corpus processes have ended; their error stands above.")
        return self._queue.get(timeout=120)

    def pending(self) -> Iterator[Documents]:
        """The batches that are ready now."""
        for _ in range(self._queue.qsize()):
            yield self._queue.get()


def _work(tokenizer_dir: Path, seed: int, queue: Queue[Documents]) -> None:
    for documents in training_documents(tokenizer_dir, seed):
        queue.put(documents)


def _choices(rng: random.Random, names: list[str], weights: list[float]) -> Iterator[str]:
    while True:
        yield from rng.choices(names, weights, k=_DOCUMENTS_PER_BATCH)


def _ids(tokenizer: PreTrainedTokenizerBase, texts: list[str]) -> list[list[int]]:
    ids: list[list[int]] = tokenizer(texts, add_special_tokens=False)["input_ids"]
    return ids
