"""The training-time test equals decoding, however its attention is computed."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from eagle_tui.pipeline.drafter.attention import CpuFlash, Documents, Explicit, Kernel, attend
from eagle_tui.pipeline.drafter.module import Drafter, KVCache
from eagle_tui.pipeline.drafter.ttt import Rows, draft_states

from . import small
from .small import shifted

STEPS = 5
TIGHT = {"rtol": 0.0, "atol": 2e-6}


@pytest.fixture
def model() -> Drafter:
    return small.drafter()


def assert_same(found: Tensor, wanted: Tensor) -> None:
    """[steps, N, …] equal in all rows that have a token to read: the last 1+j have none."""
    for step, (a, b) in enumerate(zip(found, wanted, strict=True)):
        whole = len(a) - 1 - step
        # float32 sums in another order: a few units in the last place, more with other threads.
        assert (a[:whole] - b[:whole]).abs().max() <= 3e-6 * b.abs().max()


def logits(model: Drafter, rows: Rows, steps: int = STEPS) -> Tensor:
    return model.logits(draft_states(model, rows, steps)).detach()


def test_step_0_is_a_plain_causal_pass_over_next_tokens_and_states(model: Drafter) -> None:
    rows = small.rows([13])
    plain, _ = model.prefill(rows.aux, shifted(rows.ids, 1), rows.positions, KVCache())
    assert_same(logits(model, rows, 1), plain[None])


@pytest.mark.filterwarnings("ignore:flex_attention called without")
@pytest.mark.parametrize("kernel", [CpuFlash(), Explicit()])
@pytest.mark.parametrize("backend", ["mask", "flex"])
def test_all_ways_to_attend_agree(model: Drafter, kernel: Kernel, backend: str) -> None:
    rows = small.rows([9, 1, 14, 2])
    with torch.no_grad():
        ours = model.logits(draft_states(model, rows, STEPS, kernel=kernel))
        dense = model.logits(small.dense_states(model, rows, STEPS, backend=backend))
    assert_same(ours, dense)


def test_a_constant_added_to_all_positions_changes_nothing(model: Drafter) -> None:
    rows = small.rows([17])
    near, far = (logits(model, replace(rows, positions=rows.positions + by)) for by in (0, 1000))
    assert (near - far).abs().max() <= 2e-5 * near.abs().max()


def test_rolling_the_state_right_equals_shifting_the_tokens_left(model: Drafter) -> None:
    """Another trainer's indexing: row r = t + j, tokens stay, states move."""
    rows = small.rows([15])
    n, layer, attention = len(rows.ids), model.midlayer, model.midlayer.self_attn
    hidden, keys, values = model.fc(rows.aux), [], []
    tokens = shifted(rows.ids, 1)
    cos, sin = model.rotation(rows.positions, hidden.dtype)
    shifted_form = logits(model, rows)
    for step in range(STEPS):
        if step:
            hidden = torch.cat((hidden.new_zeros(1, hidden.shape[1]), hidden[:-1]))
        both = torch.cat(
            (layer.input_layernorm(model.embedding[tokens]), layer.hidden_norm(hidden)), -1
        )
        joined = torch.cat((attention.k_proj(both), attention.v_proj(both)), -1)
        k, v = attention.keys_values(joined, cos, sin)
        q = attention.queries(attention.q_proj(both), cos, sin)
        keys.append(k)
        values.append(v)
        at = torch.arange(n)
        masks = [at[:, None] - step >= at[None]]
        masks += [at[None] == at[:, None] - (step - i) for i in range(1, step + 1)]
        mask = torch.cat(masks, 1)
        mask[:step, 0] = True  # rows before the first anchor of this step: any key will do
        k_all, v_all = (torch.cat(t).repeat_interleave(2, 1) for t in (keys, values))
        scores = torch.einsum("thd,shd->hts", q, k_all) * attention.scale
        weights = scores.masked_fill(~mask, float("-inf")).softmax(-1)
        hidden = layer.after_attention(hidden, torch.einsum("hts,shd->thd", weights, v_all))
        rolled = model.logits(hidden)[step:]
        whole = n - 1 - step
        torch.testing.assert_close(rolled[:whole], shifted_form[step][:whole], **TIGHT)


def test_equals_incremental_decoding_from_every_anchor(model: Drafter) -> None:
    rows = small.rows([12])
    trained = logits(model, rows)
    for anchor in range(len(rows.ids) - STEPS):
        cache = KVCache()
        upto = slice(0, anchor + 1)
        found, y = model.prefill(
            rows.aux[upto], rows.ids[1 : anchor + 2], rows.positions[upto], cache
        )
        found, y = found[-1:], y[-1:]
        torch.testing.assert_close(found[0], trained[0, anchor], **TIGHT)
        for step in range(1, STEPS):
            place = torch.tensor([anchor + step])
            token = rows.ids[anchor + 1 + step][None]
            found, y = model.step(y, token, place, cache)
            torch.testing.assert_close(found[0], trained[step, anchor], **TIGHT)


def test_cropping_the_cache_takes_drafted_keys_back(model: Drafter) -> None:
    rows = small.rows([8])
    whole, _ = model.prefill(rows.aux, shifted(rows.ids, 1), rows.positions, KVCache())
    cache = KVCache()
    _, y = model.prefill(rows.aux[:5], rows.ids[1:6], rows.positions[:5], cache)
    model.step(y[-1:], torch.tensor([3]), torch.tensor([5]), cache)
    cache.crop(5)
    rest, _ = model.prefill(rows.aux[5:], shifted(rows.ids, 1)[5:], rows.positions[5:], cache)
    torch.testing.assert_close(rest[:-1], whole[5:-1], **TIGHT)


def test_greedy_drafts_put_into_the_text_are_drafted_again(model: Drafter) -> None:
    rows, anchor = small.rows([14]), 6
    cache = KVCache()
    found, y = model.prefill(
        rows.aux[: anchor + 1], rows.ids[1 : anchor + 2], rows.positions[: anchor + 1], cache
    )
    drafted = [model.to_target_ids(found[-1:].argmax(-1))]
    y = y[-1:]
    for step in range(1, STEPS):
        found, y = model.step(y, drafted[-1], torch.tensor([anchor + step]), cache)
        drafted.append(model.to_target_ids(found.argmax(-1)))
    ids = rows.ids.clone()
    ids[anchor + 2 : anchor + 2 + STEPS] = torch.cat(drafted)
    again = model.to_target_ids(logits(model, replace(rows, ids=ids)).argmax(-1))[:, anchor]
    assert again.tolist() == torch.cat(drafted).tolist()


def test_no_row_sees_the_future(model: Drafter) -> None:
    rows, anchor = small.rows([16]), 7
    before = logits(model, rows)
    later = rows.aux.clone()
    later[anchor + 1 :] += 1.0
    assert torch.equal(
        logits(model, replace(rows, aux=later))[:, : anchor + 1], before[:, : anchor + 1]
    )
    for step in range(STEPS):
        ids = rows.ids.clone()
        ids[anchor + 2 + step :] = (ids[anchor + 2 + step :] + 1) % small.VOCABULARY
        after = logits(model, replace(rows, ids=ids))
        assert torch.equal(after[step, : anchor + 1], before[step, : anchor + 1])
        ids[anchor + 1 + step] = (ids[anchor + 1 + step] + 1) % small.VOCABULARY
        assert not torch.equal(
            logits(model, replace(rows, ids=ids))[step, anchor], before[step, anchor]
        )


def test_documents_do_not_see_each_other(model: Drafter) -> None:
    first, second = small.rows([9], seed=3), small.rows([11], seed=4)
    both = Rows(
        torch.cat((first.ids, second.ids)),
        torch.cat((first.aux, second.aux)),
        torch.cat((first.positions, second.positions)),
        Documents.of([9, 11]),
    )
    packed = logits(model, both)
    for alone, start in ((first, 0), (second, 9)):
        n = len(alone.ids)
        for step in range(STEPS):
            judged = slice(0, n - 1 - step)  # the rest has no token to read within its document
            torch.testing.assert_close(
                packed[step, start : start + n][judged],
                logits(model, alone)[step][judged],
                **TIGHT,
            )


@pytest.mark.parametrize("kernel", [CpuFlash(), Explicit()])
def test_only_tails_ask_and_nothing_else_changes(model: Drafter, kernel: Kernel) -> None:
    whole, tails = small.rows([9, 2, 14]), [4, 2, 1]
    short = replace(whole, docs=Documents.of([9, 2, 14], tails))
    asking = short.docs.tail_rows.tolist()
    assert asking == [5, 6, 7, 8, 9, 10, 24]

    def run(rows: Rows, keep: list[int]) -> tuple[Tensor, list[Tensor]]:
        states = draft_states(model, rows, STEPS, kernel=kernel)[:, keep]
        weights = torch.linspace(-1, 1, states.numel()).reshape(states.shape)
        return states, list(torch.autograd.grad((states * weights).sum(), model.fc.weight))

    found, slopes = run(short, list(range(len(asking))))
    wanted, wanted_slopes = run(whole, asking)
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(slopes, wanted_slopes, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kv_heads", [1, 2])
def test_gradients_of_the_joined_attention_are_exact(kv_heads: int) -> None:
    random = torch.Generator().manual_seed(1)
    docs = Documents.of([3, 1, 2], [2, 1, 2])

    def tensor(heads: int, rows: int) -> Tensor:
        made = torch.randn(rows, heads, 2, generator=random, dtype=torch.float64)
        return made.requires_grad_()

    q = tensor(2, 5)
    keys, values = ([tensor(kv_heads, n) for n in (6, 5, 5)] for _ in range(2))

    def run(q: Tensor, *rest: Tensor) -> Tensor:
        return attend(q, list(rest[:3]), list(rest[3:]), docs, 0.5, Explicit())

    # Log-sum-exps are float64 here, so finite differences tell.
    assert torch.autograd.gradcheck(run, (q, *keys, *values))


def test_kernels_have_the_same_gradients(model: Drafter) -> None:
    rows = small.rows([9, 1, 14])
    weights = torch.randn(4, len(rows.ids), small.WIDTH, generator=torch.Generator().manual_seed(2))

    def gradients(states: Tensor) -> list[Tensor]:
        judged = states[:, : len(rows.ids) - 4]
        found = torch.autograd.grad(
            (judged * weights[:, : judged.shape[1]]).sum(), list(model.midlayer.parameters())
        )
        return list(found)

    dense = gradients(small.dense_states(model, rows, 4))
    for kernel in (CpuFlash(), Explicit()):
        ours = gradients(draft_states(model, rows, 4, kernel=kernel))
        for a, b in zip(ours, dense, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("step", [1, 3])
def test_a_later_step_alone_teaches_every_part(model: Drafter, step: int) -> None:
    states = draft_states(model, small.rows([10]), STEPS)
    model.logits(states[step]).square().sum().backward()
    layer = model.midlayer
    for parameter in (
        *(model.fc.weight, layer.hidden_norm.weight, layer.self_attn.k_proj.weight),
        *(layer.self_attn.v_proj.weight, layer.input_layernorm.weight, model.norm.weight),
    ):
        assert parameter.grad is not None
        assert torch.isfinite(parameter.grad).all()
        assert parameter.grad.abs().max() > 0
    assert not model.embedding.requires_grad
