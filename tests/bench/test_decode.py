"""The reference decoder changes how fast the text comes, never the text."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import torch
from transformers import LlamaForCausalLM

from eagle_tui.pipeline.benchmark.decode import Decoded, Sampler, Stop, plain, speculative
from eagle_tui.pipeline.benchmark.target import CachedTarget
from eagle_tui.pipeline.drafter.module import Drafter

from .world import EOS, LAYERS, load, make_drafter, make_target, prompts, train

STOP = Stop(frozenset({EOS}), 40)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_target(tmp_path_factory.mktemp("target"))


@pytest.fixture(scope="module")
def target(place: Path) -> CachedTarget:
    return load(place)


@pytest.fixture(scope="module")
def trained(place: Path, target: CachedTarget) -> Drafter:
    torch.manual_seed(0)
    return train(make_drafter(place), target)


def accept(answers: list[Decoded]) -> float:
    return sum(a.gained for a in answers) / sum(a.rounds for a in answers)


def test_plain_decoding_is_that_of_transformers(place: Path, target: CachedTarget) -> None:
    model = LlamaForCausalLM.from_pretrained(place, dtype=torch.float32).eval()
    for ids in prompts(4):
        wanted = model.generate(torch.tensor([ids]), max_new_tokens=40, do_sample=False)
        got = plain(target, ids, STOP, Sampler())
        assert got.ids == wanted[0, len(ids) :].tolist()
        assert got.rounds == len(got.ids) - 1 and len(got.gap) == len(got.ids)


@pytest.mark.parametrize("steps", [1, 3, 5])
def test_greedy_output_is_the_same_and_a_trained_drafter_makes_it_fewer_passes(
    target: CachedTarget, trained: Drafter, steps: int
) -> None:
    answers = []
    for ids in prompts(8, seed=2):
        wanted = plain(target, ids, STOP, Sampler())
        got = speculative(target, trained, ids, steps, STOP, Sampler())
        assert got.ids == wanted.ids
        assert all(0 <= a <= p <= steps for a, p in zip(got.accepted, got.proposed, strict=True))
        assert got.gained <= sum(got.accepted) + got.rounds
        answers.append(got)
    assert accept(answers) > {1: 1.4, 3: 1.8, 5: 1.9}[steps]


def test_greedy_output_is_the_same_with_a_random_drafter(place: Path, target: CachedTarget) -> None:
    for seed, size in ((1, None), (2, 20)):
        drafter = make_drafter(place, size, seed=seed)
        answers = []
        for ids in prompts(6, seed=4):
            got = speculative(target, drafter, ids, 3, STOP, Sampler())
            assert got.ids == plain(target, ids, STOP, Sampler()).ids
            answers.append(got)
        assert accept(answers) < 1.4


def test_greedy_output_is_the_same_with_faulty_drafters(
    place: Path, target: CachedTarget, trained: Drafter
) -> None:
    class Shifted(Drafter):
        """Pairs each state with the token before the one it belongs to."""

        def prefill(self, aux, ids_next, positions, cache):  # type: ignore[no-untyped-def]
            return super().prefill(aux, ids_next.roll(1), positions + 3, cache)

    class Forgetful(Drafter):
        """Feeds back nothing."""

        def step(self, y, ids, positions, cache):  # type: ignore[no-untyped-def]
            return super().step(torch.zeros_like(y), ids, positions, cache)

    good = accept([speculative(target, trained, p, 3, STOP, Sampler()) for p in prompts(6, 4)])
    for kind in (Shifted, Forgetful):
        faulty = kind(trained.config)
        faulty.load_state_dict(trained.state_dict())
        faulty.set_embedding(trained.embedding)
        answers = [speculative(target, faulty, p, 3, STOP, Sampler()) for p in prompts(6, 4)]
        for ids, got in zip(prompts(6, 4), answers, strict=True):
            assert got.ids == plain(target, ids, STOP, Sampler()).ids
        assert accept(answers) < good


def test_an_answer_ends_at_its_end_token_and_at_its_longest(
    target: CachedTarget, trained: Drafter
) -> None:
    ids = prompts(1, seed=2)[0]
    free = plain(target, ids, Stop(frozenset(), 40), Sampler())
    assert len(free.ids) == 40
    for end in sorted(set(free.ids)):
        stop = Stop(frozenset({end}), 40)
        wanted = free.ids[: free.ids.index(end) + 1]
        assert plain(target, ids, stop, Sampler()).ids == wanted
        assert speculative(target, trained, ids, 3, stop, Sampler()).ids == wanted
    for longest in (1, 2, 3, 4, 5):
        stop = Stop(frozenset(), longest)
        got = speculative(target, trained, ids, 3, stop, Sampler())
        assert got.ids == free.ids[:longest]
        assert got.rounds == 0 if longest == 1 else got.rounds >= 1


def test_drafts_see_what_incremental_decoding_shows_them(
    target: CachedTarget, trained: Drafter
) -> None:
    """Accepted drafts do not depend on how the text was cut into rounds: a prompt that ends later
    in the same text is drafted alike."""
    ids = prompts(1, seed=5)[0]
    text = ids + plain(target, ids, Stop(frozenset(), 30), Sampler()).ids
    once = speculative(target, trained, ids, 3, Stop(frozenset(), 30), Sampler())
    starts, at = [], len(ids) + 1
    for count in once.accepted:
        starts.append((at, count))
        at += count + 1
    for start, count in starts[1:-1]:
        again = speculative(target, trained, text[: start - 1], 3, Stop(frozenset(), 8), Sampler())
        assert again.accepted[0] == count


@pytest.mark.parametrize("draft_vocabulary", [None, 3])
def test_sampling_follows_the_targets_distribution(
    tmp_path: Path, draft_vocabulary: int | None
) -> None:
    """Chi-square over all texts of two tokens after the first, against exact probabilities."""
    place = make_target(tmp_path / "target", vocabulary=5)
    target = load(place)
    drafter = make_drafter(place, draft_vocabulary, seed=3)
    prompt, temperature = [1, 2], 1.5
    sampler = Sampler(temperature, torch.Generator().manual_seed(0))

    def exact(ids: list[int]) -> torch.Tensor:
        with torch.inference_mode():
            logits = target.model(torch.tensor([ids])).logits[0, -1]
        return torch.softmax(logits.double() / temperature, -1)

    wanted: dict[tuple[int, ...], float] = {}
    for a, pa in enumerate(exact(prompt).tolist()):
        for b, pb in enumerate(exact([*prompt, a]).tolist()):
            for c, pc in enumerate(exact([*prompt, a, b]).tolist()):
                wanted[a, b, c] = pa * pb * pc
    draws, stop = 900, Stop(frozenset(), 3)
    found: Counter[tuple[int, ...]] = Counter()
    taken = 0
    for _ in range(draws):
        got = speculative(target, drafter, prompt, 2, stop, sampler)
        found[tuple(got.ids)] += 1
        taken += sum(got.accepted)
    assert taken > draws * 0.2  # both ways to a token were gone
    large = {k for k, p in wanted.items() if p * draws >= 5}
    chi = sum((found[k] - wanted[k] * draws) ** 2 / (wanted[k] * draws) for k in large)
    rest = draws - sum(found[k] for k in large)
    expected = draws - sum(wanted[k] * draws for k in large)
    if expected >= 5:
        chi += (rest - expected) ** 2 / expected
    freedom = len(large)
    assert freedom > 15
    assert chi < freedom + 4.5 * (2 * freedom) ** 0.5, (chi, freedom)


def test_states_that_the_drafter_reads_are_those_of_one_pass(
    place: Path, target: CachedTarget
) -> None:
    ids = prompts(1, seed=7)[0] + [3, 4, 5, 6]
    _, first = target.begin(ids[:4])
    _, second = target.extend(ids[4:7])
    target.crop(6)
    _, third = target.extend(ids[6:])
    together = torch.cat([first, second[:2], third])
    model = LlamaForCausalLM.from_pretrained(place, dtype=torch.float32).eval()
    with torch.inference_mode():
        states = model(torch.tensor([ids]), output_hidden_states=True).hidden_states
    wanted = torch.cat([states[i][0] for i in LAYERS], dim=1)
    torch.testing.assert_close(together, wanted, atol=1e-4, rtol=1e-4)
