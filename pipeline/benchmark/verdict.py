"""What the figures mean, in a sentence: a gain, a loss, or a drafter that does nothing. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from .figures import Speedup

USELESS = 1.05
"""An accept length up to here says that something is set up wrongly, not that it is weak."""
WEAK = 1.3
"""Up to here the drafter hardly helps; the usual reasons are told."""

MISCONFIGURED = (
    "the algorithm is EAGLE where it must be EAGLE3",
    "d2t is missing or not in offset form",
    "the drafter's lm_head, norm or fc was not loaded (names of tensors, prefix)",
    "tie_word_embeddings is true in the drafter's config.json",
    "the target's embedding is not the one it was trained with",
)
"""What an accept length of 1 comes from, the most frequent first."""
POOR = (
    "hidden state and token are shifted by one against each other",
    "the layer ids are of another convention (output-of-layer in config.json)",
    "prompts are rendered with another chat template than in training",
    "it was trained for too short a time, or on text that the target did not write",
)


def hints(accept: float | None) -> tuple[str, ...]:
    """Where to look, given the accept length; empty when it is fine."""
    if accept is None:
        return ()
    if accept <= USELESS:
        return MISCONFIGURED
    return POOR if accept <= WEAK else ()


def verdict(
    speedup: Speedup,
    *,
    baseline_tok_s: float,
    drafter_tok_s: float,
    accept: float | None,
    concurrency: int,
    steps: int,
    greedy_identical: bool | None,
    elsewhere: Mapping[int, Speedup] | None = None,
) -> str:
    """A sentence for the operator. `elsewhere`: the best gain at other numbers of requests at a
    time."""
    where = f"at concurrency {concurrency}, steps {steps}"
    percent = [100 * (value - 1) for value in (speedup.mean, speedup.low, speedup.high)]
    mean, low, high = (round(value) for value in percent)
    speeds = f"{drafter_tok_s:,.1f} against {baseline_tok_s:,.1f} tok/s"
    if speedup.low > 1:
        text = f"a gain of {mean} % ({low}–{high}) {where}: {speeds}"
    elif speedup.high < 1:
        text = f"{speeds}: a loss of {-mean} % ({-high}–{-low}) {where}"
    else:
        text = f"{speeds}: neither a gain nor a loss ({low:+d} to {high:+d} %) {where}"
    if accept is not None:
        text += f"; accept length {accept:.2f}"
        if accept <= USELESS:
            text += ", as if there were no drafter: something is set up wrongly"
    if greedy_identical is False:
        text += "; the output differs from that without the drafter"
    for number, other in sorted((elsewhere or {}).items()):
        text += f"; at concurrency {number} {_short(other)}"
    return text + "."


def _short(gain: Speedup) -> str:
    percent = round(100 * (gain.mean - 1))
    if gain.low > 1:
        return f"a gain of {percent} %"
    return f"a loss of {-percent} %" if gain.high < 1 else "no difference"
