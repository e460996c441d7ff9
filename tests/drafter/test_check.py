"""Every fault that loaders pass over is found, and named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from eagle_tui.pipeline.drafter import check
from eagle_tui.pipeline.drafter.check import check_export
from eagle_tui.pipeline.drafter.config import DrafterConfig, DrafterError
from eagle_tui.pipeline.drafter.export import expected_names, read_export, write_export
from eagle_tui.pipeline.drafter.module import Drafter
from eagle_tui.pipeline.drafter.target_weights import TargetWeights
from eagle_tui.rundir import atomic

from . import small

Body = dict[str, Any]
Tensors = dict[str, Tensor]
LAYERS = (2, 4, 5)


def target_config(**changes: Any) -> Body:
    return {
        **{"model_type": "llama", "architectures": ["LlamaForCausalLM"]},
        **{"hidden_size": small.WIDTH, "num_attention_heads": 4, "num_key_value_heads": 2},
        **{"head_dim": 8, "intermediate_size": 40, "num_hidden_layers": 10},
        **{"vocab_size": small.VOCABULARY, "max_position_embeddings": 512},
        **{"rms_norm_eps": 1e-6, "rope_theta": 10000.0, "eos_token_id": 2, **changes},
    }


def write_target(path: Path, **changes: Any) -> TargetWeights:
    path.mkdir(parents=True, exist_ok=True)
    atomic.write_json(path / "config.json", target_config(**changes))
    shape = (small.VOCABULARY, small.WIDTH)
    tensors = {
        "model.embed_tokens.weight": torch.randn(shape),
        "lm_head.weight": torch.randn(shape),
        "model.norm.weight": torch.ones(small.WIDTH),
    }
    save_file(tensors, path / "model.safetensors")
    return TargetWeights.open(path)


@dataclass
class Export:
    """An exported drafter that can be broken."""

    path: Path
    target: TargetWeights

    def change(
        self,
        config: Callable[[Body], Any] | None = None,
        tensors: Callable[[Tensors], Any] | None = None,
    ) -> None:
        if config:
            body = atomic.read_json(self.path / "config.json")
            assert isinstance(body, dict)
            config(body)
            atomic.write_json(self.path / "config.json", body)
        if tensors:
            found = load_file(self.path / "model.safetensors")
            tensors(found)
            save_file(found, self.path / "model.safetensors")

    def codes(self, *, known: bool = True) -> list[str]:
        findings = check_export(self.path, self.target, layers=LAYERS if known else None)
        return [f.code for f in findings if f.error]


@pytest.fixture
def export(tmp_path: Path) -> Export:
    model = small.drafter()
    write_export(tmp_path / "export", model.config, model.state_dict())
    return Export(tmp_path / "export", write_target(tmp_path / "target"))


def test_a_sound_export_has_no_fault_and_gives_the_same_logits(export: Export) -> None:
    assert check_export(export.path, export.target, layers=LAYERS) == []
    assert check_export(export.path, export.target) == []
    names = {n: tuple(t.shape) for n, t in load_file(export.path / "model.safetensors").items()}
    assert names == expected_names(small.config())
    model, again = small.drafter(), Drafter.load(export.path, export.target)
    y = torch.randn(5, small.WIDTH)
    assert torch.equal(model.logits(y), again.logits(y))
    kept = torch.nonzero(again.t2d).flatten()
    assert torch.equal(kept, again.d2t + torch.arange(len(kept)))
    assert torch.equal(kept, small.KEPT) and torch.equal(again.target_ids(), small.KEPT)
    assert torch.equal(again.to_target_ids(torch.tensor([0, 3, 4])), torch.tensor([0, 4, 5]))


def put(key: str, value: Any) -> Callable[[Body], Any]:
    return lambda body: body.update({key: value})


def drop(key: str) -> Callable[[dict[str, Any]], Any]:
    return lambda found: found.pop(key)


def ids(*layers: int, **more: Any) -> Callable[[Body], Any]:
    return put("eagle_config", {"eagle_aux_hidden_state_layer_ids": list(layers), **more})


CONFIG_FAULTS: list[tuple[str, Callable[[Body], Any], str]] = [
    (
        "the flag's other architecture",
        put("architectures", ["LlamaForCausalLMEagle"]),
        "architecture",
    ),
    ("no architecture", drop("architectures"), "architecture"),
    ("tied", put("tie_word_embeddings", True), "tied"),
    ("fed back after the norm", put("norm_output", True), "graph"),
    ("norm before the residual", put("norm_before_residual", True), "graph"),
    ("norm before fc", ids(1, 3, 4, norm_before_fc=True), "graph"),
    ("norms of thirds", put("fc_norm", True), "graph"),
    ("biases", put("attention_bias", True), "graph"),
    ("two layers", put("num_hidden_layers", 2), "layers"),
    ("rope_theta lost", drop("rope_theta"), "rope"),
    ("rope_theta changed", put("rope_theta", 5e5), "rope"),
    ("a scaling put in", put("rope_scaling", {"rope_type": "yarn", "factor": 32.0}), "rope"),
    ("a short context", put("max_position_embeddings", 128), "context"),
    ("another vocabulary", put("vocab_size", 60), "vocab_size"),
    ("another width", put("target_hidden_size", 64), "width"),
    ("no draft vocabulary", drop("draft_vocab_size"), "draft_vocab_size"),
    ("a null draft vocabulary", put("draft_vocab_size", None), "draft_vocab_size"),
    ("words for a number", put("max_position_embeddings", "long"), "config"),
    ("a list for a number", put("num_hidden_layers", [1]), "config"),
    ("a list for the eagle table", put("eagle_config", ["norm_output"]), "config"),
    ("inputs of layers", ids(2, 4, 5), "layer_ids"),
    ("two the same", ids(1, 3, 3), "layer_ids"),
    ("not ascending", ids(4, 3, 1), "layer_ids"),
    ("two layers only", ids(1, 3), "layer_ids"),
    ("the last layer", ids(1, 3, 9), "layer_ids"),
    ("no aux states", ids(1, 3, 4, use_aux_hidden_state=False), "layer_ids"),
    ("ids lost", put("eagle_config", {}), "layer_ids"),
    ("no eagle_config", drop("eagle_config"), "layer_ids"),
]


@pytest.mark.parametrize(
    ("change", "code"), [f[1:] for f in CONFIG_FAULTS], ids=[f[0] for f in CONFIG_FAULTS]
)
def test_faults_of_the_config(export: Export, change: Callable[[Body], Any], code: str) -> None:
    export.change(config=change)
    assert code in export.codes()


def renamed(change: Callable[[str], str]) -> Callable[[Tensors], Any]:
    def apply(found: Tensors) -> None:
        old = dict(found)
        found.clear()
        found.update({change(name): tensor for name, tensor in old.items()})

    return apply


def absolute(found: Tensors) -> None:
    found["d2t"] = small.KEPT.clone()


def absolute_alone(found: Tensors) -> None:
    absolute(found)
    del found["t2d"]


def by_frequency(found: Tensors) -> None:
    order = torch.arange(small.DRAFT).flip(0)
    found["d2t"] = small.KEPT[order] - torch.arange(small.DRAFT)


def poisoned(found: Tensors) -> None:
    found["fc.weight"][3, 5] = float("nan")


TENSOR_FAULTS: list[tuple[str, Callable[[Tensors], Any], str]] = [
    ("no d2t", drop("d2t"), "d2t"),
    ("d2t holds ids", absolute, "d2t"),
    ("d2t holds ids, no t2d", absolute_alone, "d2t"),
    ("d2t of another type", lambda f: f.update(d2t=f["d2t"].int()), "d2t"),
    ("d2t by frequency", by_frequency, "d2t"),
    ("t2d of other tokens", lambda f: f.update(t2d=f["t2d"].flip(0)), "t2d"),
    ("head missing", drop("lm_head.weight"), "names"),
    ("norm missing", drop("norm.weight"), "names"),
    ("fc missing", drop("fc.weight"), "names"),
    ("a q norm", lambda f: f.update({"midlayer.self_attn.q_norm.weight": torch.ones(8)}), "names"),
    ("a bias", lambda f: f.update({"midlayer.self_attn.q_proj.bias": torch.ones(32)}), "names"),
    ("prefix draft_model.", renamed(lambda n: f"draft_model.{n}"), "names"),
    ("prefix module.", renamed(lambda n: f"module.{n}"), "names"),
    ("prefix model. everywhere", renamed(lambda n: f"model.{n}"), "names"),
    ("one state only", lambda f: f.update({"fc.weight": torch.ones(32, 32)}), "shapes"),
    (
        "head of the whole vocabulary",
        lambda f: f.update({"lm_head.weight": torch.ones(64, 32)}),
        "shapes",
    ),
    ("not finite", poisoned, "values"),
    ("all zero", lambda f: f.update({"lm_head.weight": torch.zeros(48, 32)}), "values"),
]


@pytest.mark.parametrize(
    ("change", "code"), [f[1:] for f in TENSOR_FAULTS], ids=[f[0] for f in TENSOR_FAULTS]
)
def test_faults_of_the_weights(export: Export, change: Callable[[Tensors], Any], code: str) -> None:
    export.change(tensors=change)
    assert code in export.codes()


def test_the_convention_of_layer_ids_is_guessed_where_it_is_not_known(export: Export) -> None:
    """Ids that are the usual formula in the other convention are refused, unless they are said to
    be meant."""
    export.change(config=ids(2, 5, 7))  # 10 layers: inputs of layers 2, N/2, N-3
    assert export.codes(known=False) == ["layer_ids"]
    assert check_export(export.path, export.target, layers=(3, 6, 8)) == []
    export.change(config=ids(1, 4, 6))
    assert export.codes(known=False) == []


def test_a_target_for_which_the_first_id_decides(tmp_path: Path, export: Export) -> None:
    deep = write_target(tmp_path / "deep", model_type="deepseek_v3")
    assert check_export(export.path, deep) == []
    export.change(config=ids(0, 3, 4))
    assert [f.code for f in check_export(export.path, deep)] == ["layer_ids"]


def test_an_embedding_and_a_lost_end_token_are_told_but_serve(export: Export) -> None:
    export.change(tensors=lambda f: f.update({"embed_tokens.weight": torch.ones(64, 32)}))
    found = check_export(export.path, export.target)
    assert [(f.code, f.error) for f in found] == [("names", False)]
    export.target.config["eos_token_id"] = 3  # not among the kept ones
    found = check_export(export.path, export.target)
    assert ("eos", False) in [(f.code, f.error) for f in found]


@pytest.mark.parametrize("prefix", ["layers.0.", "model.layers.0."])
def test_aliases_that_sglang_takes_are_taken(export: Export, prefix: str) -> None:
    export.change(tensors=renamed(lambda n: n.replace("midlayer.", prefix)))
    assert export.codes() == []
    assert read_export(export.path)[1].keys() == expected_names(small.config()).keys()


def test_a_directory_that_cannot_be_read_is_a_finding(tmp_path: Path, export: Export) -> None:
    assert [f.code for f in check_export(tmp_path / "none", export.target)] == ["config"]
    (export.path / "model.safetensors").write_bytes(b"torn")
    assert "weights" in export.codes()
    with pytest.raises(DrafterError, match="cannot be read"):
        read_export(export.path)


def test_on_the_command_line(export: Export, capsys: pytest.CaptureFixture[str]) -> None:
    argv = [str(export.path), "--target", str(export.target.path), "--layers", "2,4,5"]
    assert check.main(argv) == 0
    assert "EAGLE3" in capsys.readouterr().out
    export.change(config=put("tie_word_embeddings", True))
    assert check.main(argv) == 1
    assert "error: config.json: tie_word_embeddings" in capsys.readouterr().out
    assert check.main([str(export.path), "--target", str(export.path / "none")]) == 2


def test_config_survives_writing_and_reading() -> None:
    config = small.config(rope_scaling={"rope_type": "linear", "factor": 2.0}, eos_token_id=[1, 2])
    assert DrafterConfig.from_json(config.to_json()) == config
