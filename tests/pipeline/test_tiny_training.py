"""What training the tiny model is made of: encoded documents, the pool of rows, a short run."""

from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch

from eagle_tui.pipeline.tiny import MODEL_DIR
from eagle_tui.pipeline.tiny.corpus import Documents, encode, load_tokenizer
from eagle_tui.pipeline.tiny.pool import ROW_LENGTHS, DocumentPool
from eagle_tui.pipeline.tiny.tasks import generate
from eagle_tui.pipeline.tiny.tokenizer import EOS_ID
from eagle_tui.pipeline.tiny.train_target import Settings, export, train

CPU = torch.device("cpu")


def documents(*shapes: tuple[int, int]) -> Documents:
    """Documents of (prompt, output) lengths; document n holds the token n + 10 throughout."""
    tokens = [np.full(sum(shape), n + 10, np.int16) for n, shape in enumerate(shapes)]
    return Documents(
        tokens=np.concatenate(tokens),
        lengths=np.array([sum(shape) for shape in shapes], np.int32),
        prompt_lengths=np.array([shape[0] for shape in shapes], np.int32),
    )


def test_encoded_documents_hold_prompt_output_and_end_of_turn() -> None:
    tokenizer = load_tokenizer(MODEL_DIR)
    instances = list(islice(generate("count", 4, "train"), 3))
    encoded = encode(tokenizer, instances)
    start = 0
    for instance, length, prompt in zip(
        instances, encoded.lengths, encoded.prompt_lengths, strict=True
    ):
        ids = encoded.tokens[start : start + length]
        assert ids[-1] == EOS_ID
        assert tokenizer.decode(ids[prompt:-1]) == instance.output()
        start += length
    assert start == len(encoded.tokens)


def test_a_batch_marks_exactly_the_outputs_of_its_documents() -> None:
    pool = DocumentPool(CPU, 4096, seed=0)
    pool.add(documents((10, 20), (40, 30), (5, 59)))
    seen = {}
    for batch in (pool.sample(512) for _ in range(40)):
        for ids, targets in zip(batch.ids, batch.targets, strict=True):
            seen[int(ids[0])] = (len(ids), int(targets.nonzero()[0]), int(targets.sum()))
            assert (ids[targets] == ids[0]).all()
    assert seen == {10: (64, 10, 20), 11: (96, 40, 30), 12: (64, 5, 59)}


def test_the_pool_keeps_the_newest_and_counts_what_is_too_long() -> None:
    pool = DocumentPool(CPU, 128, seed=0)  # two rows of the shortest length
    pool.add(documents((1, 30), (1, 30), (1, 30), (1, ROW_LENGTHS[-1])))
    firsts = {int(row[0]) for _ in range(10) for row in pool.sample(128).ids}
    assert firsts == {11, 12}
    assert pool.dropped == 1
    assert pool.seen_tokens == 93 + ROW_LENGTHS[-1] + 1


@pytest.mark.slow
def test_a_short_run_learns_and_writes_a_loadable_model(tmp_path: Path) -> None:
    seconds = iter(float(tick) for tick in range(1000))
    settings = Settings(
        minutes=0.25,
        device=CPU,
        seed=1,
        workers=1,
        learning_rate=2e-3,
        warmup_steps=2,
        micro_batch_tokens=512,
        micro_batches=1,
        first_tokens=1000,
        pool_tokens=200_000,
    )
    trained = train(settings, MODEL_DIR, lambda: next(seconds))
    assert 3 < trained.steps < 15
    assert trained.loss < 6.9  # an untrained model has the entropy of 1,024 tokens, 6.93
    export(trained.model, MODEL_DIR, tmp_path)
    assert load_tokenizer(tmp_path).encode("a") == load_tokenizer(MODEL_DIR).encode("a")
    assert (tmp_path / "model.safetensors").stat().st_size == (
        MODEL_DIR / "model.safetensors"
    ).stat().st_size
