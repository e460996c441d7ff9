"""Speculative decoding of one sequence in its plainest form: a chain of drafted tokens, checked by
the target in one pass. Greedy output is that of the target alone; sampling follows its
distribution, whatever the drafter proposes (Leviathan et al. 2023, Chen et al. 2023).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import torch
from torch import Tensor

from ..drafter.module import KVCache


class Target(Protocol):
    """What decoding asks of a target (CachedTarget)."""

    def begin(self, ids: list[int]) -> tuple[Tensor, Tensor]: ...
    def extend(self, ids: list[int]) -> tuple[Tensor, Tensor]: ...
    def crop(self, length: int) -> None: ...


class Draft(Protocol):
    """What decoding asks of a drafter (drafter.module.Drafter)."""

    def prefill(
        self, aux: Tensor, ids_next: Tensor, positions: Tensor, cache: KVCache
    ) -> tuple[Tensor, Tensor]: ...
    def step(
        self, y: Tensor, ids: Tensor, positions: Tensor, cache: KVCache
    ) -> tuple[Tensor, Tensor]: ...
    def target_ids(self) -> Tensor: ...


@dataclass
class Decoded:
    """One answer, and how it came about."""

    ids: list[int] = field(default_factory=list)
    """The tokens, the end token included."""
    accepted: list[int] = field(default_factory=list)
    """Drafted tokens that were taken, of each round."""
    proposed: list[int] = field(default_factory=list)
    """Drafted tokens of each round that could have been taken."""
    gap: list[float] = field(default_factory=list)
    """Without a drafter: the target's best logit less its second best, of each token."""

    @property
    def rounds(self) -> int:
        """Passes of the target after the prompt's."""
        return len(self.accepted)

    @property
    def gained(self) -> int:
        """Tokens that came out of the rounds; the first token comes with the prompt."""
        return len(self.ids) - 1


@dataclass(frozen=True)
class Stop:
    """When an answer ends."""

    eos: frozenset[int]
    max_new: int

    def cut(self, ids: list[int], had: int) -> tuple[list[int], bool]:
        """The tokens up to the end, after `had` earlier ones; and whether it has come."""
        ids = ids[: self.max_new - had]
        for place, token in enumerate(ids):
            if token in self.eos:
                return ids[: place + 1], True
        return ids, had + len(ids) >= self.max_new


@dataclass(frozen=True)
class Sampler:
    """How tokens are chosen: temperature 0 is greedy."""

    temperature: float = 0.0
    generator: torch.Generator | None = None

    @property
    def greedy(self) -> bool:
        return self.temperature == 0

    def distribution(self, logits: Tensor) -> Tensor:
        """Probabilities [..., V] of logits [..., V]."""
        return torch.softmax(logits.double() / self.temperature, dim=-1)

    def pick(self, probabilities: Tensor) -> int:
        """A token of a distribution [V], which need not be normalised."""
        return int(torch.multinomial(probabilities.cpu(), 1, generator=self.generator))

    def choose(self, logits: Tensor) -> int:
        """A token of logits [V]."""
        return int(logits.argmax()) if self.greedy else self.pick(self.distribution(logits))

    def uniform(self) -> float:
        """A number in [0, 1)."""
        return float(torch.rand((), generator=self.generator))


def plain(target: Target, prompt: list[int], stop: Stop, sampler: Sampler) -> Decoded:
    """The target alone, a token a pass."""
    logits, _ = target.begin(prompt)
    out = Decoded()
    while True:
        new, ended = stop.cut([sampler.choose(logits)], len(out.ids))
        out.ids += new
        if sampler.greedy:
            best = logits.topk(2).values
            out.gap.append(float(best[0] - best[1]))
        if ended:
            return out
        out.accepted.append(0)
        out.proposed.append(0)
        logits = target.extend(new)[0][-1]


def speculative(
    target: Target,
    draft: Draft,
    prompt: list[int],
    steps: int,
    stop: Stop,
    sampler: Sampler,
) -> Decoded:
    """The target with a drafter that proposes `steps` tokens a round.

    Before each round the drafter reads the states of what was committed since the last one, each
    with the token after it; the rows of its own proposals are forgotten again.
    """
    logits, aux = target.begin(prompt)
    cache, chain = KVCache(), _Chain(draft, sampler)
    newest = sampler.choose(logits)
    out = Decoded()
    out.ids, ended = stop.cut([newest], 0)
    committed, ids = len(prompt), list(prompt)
    while not ended:
        following = torch.tensor([*ids[len(cache) + 1 :], newest], device=aux.device)
        places = torch.arange(len(cache), committed, device=aux.device)
        proposals, odds = chain.propose(aux, following, places, cache, steps)
        cache.crop(committed)
        logits, states = target.extend([newest, *proposals])
        taken, bonus = _verify(logits, proposals, odds, sampler)
        ids += [newest, *proposals[:taken]]
        aux = states[: taken + 1]
        committed += taken + 1
        target.crop(committed)
        new, ended = stop.cut([*proposals[:taken], bonus], len(out.ids))
        out.ids += new
        # An end inside the proposals: what was drafted behind it says nothing.
        whole = len(new) == taken + 1
        out.accepted.append(taken if whole else len(new))
        out.proposed.append(steps if whole else len(new))
        newest = bonus
    return out


class _Chain:
    """Draws a chain of tokens from a drafter."""

    def __init__(self, draft: Draft, sampler: Sampler) -> None:
        self._draft = draft
        self._sampler = sampler
        self._ids = draft.target_ids()

    @torch.inference_mode()
    def propose(
        self, aux: Tensor, following: Tensor, places: Tensor, cache: KVCache, steps: int
    ) -> tuple[list[int], list[Tensor]]:
        """`steps` tokens of the target's vocabulary, and when sampling, for each of them the
        distribution that it was drawn from, over the target's ids up to the drafter's highest."""
        rows, y = self._draft.prefill(aux, following, places, cache)
        logits, y = rows[-1], y[-1:]
        tokens: list[int] = []
        odds: list[Tensor] = []
        for step in range(steps):
            if self._sampler.greedy:
                choice = int(logits.argmax())
            else:
                odds.append(self._sampler.distribution(logits))
                choice = self._sampler.pick(odds[-1])
            tokens.append(int(self._ids[choice]))
            if step + 1 < steps:
                token = torch.tensor([tokens[-1]], device=aux.device)
                rows, y = self._draft.step(y, token, places[-1:] + 1 + step, cache)
                logits = rows[-1]
        return tokens, [self._spread(q) for q in odds]

    def _spread(self, q: Tensor) -> Tensor:
        """A distribution over draft ids [Vd] as one over the target's ids."""
        out = torch.zeros(int(self._ids.max()) + 1, dtype=q.dtype, device=q.device)
        return out.index_copy_(0, self._ids.to(q.device), q)


def _verify(
    logits: Tensor, proposals: list[int], odds: list[Tensor], sampler: Sampler
) -> tuple[int, int]:
    """How many proposals are taken, and the token that follows them. logits [k+1, V]."""
    if sampler.greedy:
        best = logits.argmax(-1).tolist()
        taken = 0
        while taken < len(proposals) and proposals[taken] == best[taken]:
            taken += 1
        return taken, int(best[taken])
    p = sampler.distribution(logits).cpu()
    for place, (token, q) in enumerate(zip(proposals, odds, strict=True)):
        q = q.cpu()
        if sampler.uniform() * float(q[token]) < float(p[place, token]):
            continue
        rest = p[place].clone()
        rest[: len(q)] -= q
        rest.clamp_min_(0)
        # Nothing is left when p equals q but for rounding; then p itself is what is wanted.
        return place, sampler.pick(rest if float(rest.sum()) > 0 else p[place])
    return len(proposals), sampler.pick(p[-1])
