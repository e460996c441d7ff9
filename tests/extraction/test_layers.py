"""Which three states are captured, and what SGLang would make of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from eagle_tui.pipeline.drafter.layer_ids import misread
from eagle_tui.pipeline.extraction.plan import NoLayers, choose_layers

from .world import make_world


@pytest.mark.parametrize(
    ("count", "wanted"),
    [(7, (2, 3, 4)), (30, (2, 15, 27)), (32, (2, 16, 29)), (61, (2, 30, 58))],
)
def test_the_usual_three(count: int, wanted: tuple[int, int, int]) -> None:
    assert choose_layers(None, count) == (wanted, "")
    assert choose_layers(None, count, "kimi_k2") == (wanted, "")


@pytest.mark.parametrize(("count", "wanted"), [(4, (1, 2, 3)), (5, (1, 2, 4)), (6, (1, 3, 5))])
def test_where_they_are_not_three_others_are_taken_and_told(
    count: int, wanted: tuple[int, int, int]
) -> None:
    layers, note = choose_layers(None, count)
    assert layers == wanted and "are taken instead" in note


@pytest.mark.parametrize("wanted", [[0, 1, 2], [1, 2, 8], [5, 6, 9]])
def test_what_cannot_be_captured_is_refused(wanted: list[int]) -> None:
    with pytest.raises(NoLayers, match="Choose three of 1 to 7"):
        choose_layers(wanted, 8)


def test_three_layers_are_too_few() -> None:
    with pytest.raises(NoLayers, match="that needs four layers"):
        choose_layers(None, 3)


def test_ids_that_sglang_reads_otherwise_are_refused_before_the_work() -> None:
    assert choose_layers([3, 30, 58], 61)[0] == (3, 30, 58)
    with pytest.raises(NoLayers, match="for deepseek_v3 SGLang takes layer ids as inputs"):
        choose_layers([3, 30, 58], 61, "deepseek_v3")
    assert not misread("deepseek_v3", [1, 29, 57]) and not misread("llama", [2, 29, 57])


def test_the_phase_is_refused_with_the_reason(tmp_path: Path) -> None:
    world = make_world(tmp_path / "run", 4, layers=8)
    path = world.model / "config.json"
    body = json.loads(path.read_bytes())
    # The configuration alone is looked at before the target is loaded.
    path.write_text(json.dumps({**body, "model_type": "deepseek_v3"}))
    world.settings(layers=[3, 4, 5])
    assert world.extract() == 3
    outcome, reason = world.end()
    assert outcome == "refused" and "Let extract.layers begin with 2" in reason
