"""Loss, targets and mask against the same thing written out whole."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from eagle_tui.pipeline.drafter import loss as loss_module
from eagle_tui.pipeline.drafter.loss import TargetHead, head_loss, make_targets
from eagle_tui.pipeline.drafter.module import Drafter
from eagle_tui.pipeline.drafter.ttt import draft_states

from . import small

STEPS = 3


def target_head(seed: int = 5) -> TargetHead:
    random = torch.Generator().manual_seed(seed)
    return TargetHead(torch.randn(small.VOCABULARY, small.WIDTH, generator=random), small.KEPT)


def written_out(
    model: Drafter,
    states: Tensor,
    last: Tensor,
    head: TargetHead,
    mask: Tensor,
    bounds: tuple[int, ...],
    decay: float,
) -> tuple[Tensor, Tensor]:
    """Loss, and the rows [steps, N] that count, from the definition: row t at step j has the mask,
    the target and the favourite of position t+1+j."""
    n = len(mask)
    total, counted = torch.zeros(()), torch.zeros(STEPS, n, dtype=torch.bool)
    z = last @ head.head.T
    for j in range(STEPS):
        sums, count = torch.zeros(()), 0
        for a, b in pairwise(bounds):
            for t in range(a, b):
                s = t + 1 + j
                if s > b - 1 or mask[s] == 0 or int(z[s].argmax()) not in small.KEPT.tolist():
                    continue
                p = z[s][small.KEPT].softmax(-1)
                q = model.logits(states[j, t]).log_softmax(-1)
                sums, count = sums - (p * q).sum(), count + 1
                counted[j, t] = True
        total = total + decay**j * sums / max(count, 1)
    return total, counted


@pytest.mark.parametrize("logits_at_a_time", [1, 1 << 20])
def test_equals_the_definition_with_gradients(
    logits_at_a_time: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loss_module, "_LOGITS", {"cpu": logits_at_a_time})
    model, head = small.drafter(), target_head()
    rows = small.rows([40, 3, 27])
    random = torch.Generator().manual_seed(7)
    last = torch.randn(70, small.WIDTH, generator=random)
    mask = (torch.rand(70, generator=random) < 0.6).long()
    states = draft_states(model, rows, STEPS)
    wanted, counted = written_out(model, states, last, head, mask, rows.docs.bounds, 0.8)
    expected = torch.autograd.grad(wanted, list(model.parameters()), retain_graph=True)

    places = torch.nonzero((mask == 1) & (rows.positions >= 1)).flatten()
    targets = make_targets(head, last[places], places - 1, rows.positions[places], STEPS)
    decay = 0.8 ** torch.arange(STEPS)
    weights = targets.learn * (decay / targets.learn.sum(1))[:, None]
    found = head_loss(model, states, targets, head, weights)
    torch.testing.assert_close(found.loss, wanted, rtol=1e-5, atol=1e-6)
    for a, b in zip(
        torch.autograd.grad(found.loss, list(model.parameters())), expected, strict=True
    ):
        torch.testing.assert_close(a, b, rtol=2e-4, atol=2e-6)
    learned = torch.zeros_like(counted)
    for j in range(STEPS):
        learned[j, targets.rows[j][targets.learn[j]]] = True
    assert torch.equal(learned, counted)


def test_the_mask_is_shifted_with_the_targets() -> None:
    """6 tokens, answer in 3..5: row 2, which reads the first token of the answer, is the first that
    is trained, and no row of the prompt alone is."""
    mask = torch.tensor([0, 0, 0, 1, 1, 1])
    places = torch.nonzero(mask).flatten()
    head = TargetHead(torch.randn(16, 8), torch.arange(16))
    targets = make_targets(head, torch.randn(3, 8), places - 1, places, 2)
    assert targets.rows[0].tolist() == [2, 3, 4]
    assert targets.rows[1].tolist() == [1, 2, 3]
    assert targets.valid.all() and targets.learn.all()


def test_rows_before_the_document_do_not_count() -> None:
    places = torch.tensor([11, 12, 13])  # positions 1, 2, 3 of a document that begins at 10
    head = TargetHead(torch.randn(16, 8), torch.arange(16))
    targets = make_targets(head, torch.randn(3, 8), places - 1, torch.tensor([1, 2, 3]), 3)
    assert targets.valid.tolist() == [[True] * 3, [False, True, True], [False, False, True]]


def test_an_empty_mask_gives_no_loss_and_no_gradient() -> None:
    model, head, rows = small.drafter(), target_head(), small.rows([6])
    none = torch.zeros(0, dtype=torch.long)
    targets = make_targets(head, torch.zeros(0, small.WIDTH), none, none, STEPS)
    states = draft_states(model, rows, STEPS)
    found = head_loss(model, states, targets, head, torch.zeros(STEPS, 0))
    found.loss.backward()
    assert found.loss.item() == 0.0
    for name, parameter in model.named_parameters():
        assert parameter.grad is None or float(parameter.grad.abs().sum()) == 0.0, name


def test_a_drafter_that_equals_the_target_has_the_target_s_entropy() -> None:
    model, head = small.drafter(), target_head()
    with torch.no_grad():
        model.lm_head.weight.copy_(head.known)
        model.norm.weight.fill_(1.0)
    last = model.norm(torch.randn(9, small.WIDTH)).detach()
    places = torch.arange(1, 10)
    targets = make_targets(head, last, places - 1, places, 1)
    y = torch.zeros(1, 10, small.WIDTH)
    y[0, :9] = last
    weights = torch.full((1, 9), 1 / 9)
    found = head_loss(model, y.requires_grad_(), targets, head, weights)
    p = (last @ head.known.T).softmax(-1)
    entropy = -(p * p.log()).sum(-1).mean()
    torch.testing.assert_close(found.loss, entropy, rtol=1e-5, atol=1e-5)
    assert found.hits[0].equal(targets.learn[0])


def test_survey_streams_over_the_vocabulary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loss_module, "_VOCABULARY_CHUNK", 7)
    head = target_head()
    last = torch.randn(33, small.WIDTH, generator=torch.Generator().manual_seed(3))
    lse, argmax = head.survey(last)
    z = last @ head.head.T
    torch.testing.assert_close(lse, z.logsumexp(-1))
    assert argmax.tolist() == z.argmax(-1).tolist()


def test_logits_are_scaled_and_capped_as_the_target_s_are() -> None:
    weights, last = torch.randn(20, 8) * 5, torch.randn(4, 8)
    head = TargetHead(weights, torch.arange(20), factor=0.5, cap=3.0)
    expected = 3.0 * torch.tanh((last @ weights.T) * 0.5 / 3.0)
    torch.testing.assert_close(head.draft_logits(last), expected)
    torch.testing.assert_close(head.survey(last)[0], expected.logsumexp(-1))


def test_alpha_is_the_acceptance_of_rejection_sampling() -> None:
    model, head, rows = small.drafter(), target_head(), small.rows([12])
    last = torch.randn(12, small.WIDTH)
    places = torch.arange(1, 12)
    targets = make_targets(head, last[1:], places - 1, places, 1)
    states = draft_states(model, rows, 1)
    found = head_loss(model, states, targets, head, torch.zeros(1, 11), gradient=False)
    p = (last @ head.head.T).softmax(-1)[1:]
    q = torch.zeros_like(p)
    q[:, small.KEPT] = model.logits(states[0, :11]).softmax(-1).detach()
    torch.testing.assert_close(found.alpha[0], torch.minimum(p, q).sum(-1), rtol=1e-4, atol=1e-6)


def test_an_untrained_drafter_loses_about_the_logarithm_of_its_vocabulary() -> None:
    model, head, rows = small.drafter(), target_head(), small.rows([50])
    with torch.no_grad():
        model.lm_head.weight.zero_()
    places = torch.arange(1, 50)
    targets = make_targets(head, torch.randn(49, small.WIDTH), places - 1, places, 1)
    weights = targets.learn / targets.learn.sum()
    found = head_loss(model, draft_states(model, rows, 1), targets, head, weights)
    assert math.isclose(found.loss.item(), math.log(small.DRAFT), rel_tol=1e-5)
