"""Does a drafter directory serve as it was trained? Knows the faults that loaders pass over.

`python -m eagle_tui.pipeline.drafter.check DIR --target DIR [--layers 2,15,27]`

Most faults below load without a message and only show as an accept length near 1. Exit code 0:
nothing found, 1: it would not serve, 2: usage.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from eagle_tui.text import visible

from .config import ARCHITECTURE, DrafterConfig, DrafterError, read_config
from .export import WEIGHTS, canonical, expected_names
from .layer_ids import misread
from .rope import target_rope
from .target_weights import TargetWeights

_CHANGE_THE_GRAPH: Final = ("norm_output", "norm_before_residual", "norm_before_fc", "fc_norm")
_NUMBERS: Final = (
    *("hidden_size", "target_hidden_size", "num_hidden_layers", "num_attention_heads"),
    *("num_key_value_heads", "head_dim", "intermediate_size", "vocab_size", "draft_vocab_size"),
    "max_position_embeddings",
)
_TABLES: Final = ("eagle_config", "rope_parameters", "rope_scaling")
_FOREIGN_PREFIXES: Final = ("draft_model.", "module.", "model.model.", "_orig_mod.")


@dataclass(frozen=True)
class Finding:
    """Something that is wrong, or that one should know."""

    code: str
    sentence: str
    error: bool = True
    """It would not serve as it was trained; otherwise it is worth knowing."""


def check_export(
    directory: Path, target: TargetWeights, *, layers: tuple[int, int, int] | None = None
) -> list[Finding]:
    """All that is wrong with a directory in SGLang's form. `layers`: the indices of hidden states
    (inputs of layers) with which it was trained, where they are known."""
    try:
        body = read_config(directory / "config.json")
    except DrafterError as error:
        return [Finding("config", str(error))]
    if wrong := _not_numbers(body):
        return [Finding("config", f"{directory / 'config.json'}: {wrong}")]
    found = [*_config(body, target), *_layer_ids(body, target, layers)]
    try:
        tensors = load_file(directory / WEIGHTS)
    except (OSError, SafetensorError) as error:
        return [*found, Finding("weights", f"{directory / WEIGHTS}: cannot be read ({error})")]
    found += _names(body, tensors)
    found += _vocabulary(body, tensors, target)
    found += _values(tensors)
    return found


def _not_numbers(body: dict[str, Any]) -> str:
    """Which keys hold something else than what every loader takes there; empty: none."""
    wrong = [key for key in _NUMBERS if type(body.get(key)) not in (int, type(None))]
    wrong += [key for key in _TABLES if not isinstance(body.get(key) or {}, dict)]
    return f"not what belongs there: {', '.join(wrong)}" if wrong else ""


def _config(body: dict[str, Any], target: TargetWeights) -> Iterator[Finding]:
    architectures = body.get("architectures")
    if architectures != [ARCHITECTURE]:
        yield Finding(
            "architecture",
            f"config.json: architectures is {architectures!r}; SGLang needs [{ARCHITECTURE!r}] and "
            "--speculative-algorithm EAGLE3",
        )
    for key in _CHANGE_THE_GRAPH:
        if body.get(key) or (body.get("eagle_config") or {}).get(key):
            yield Finding(
                "graph", f"config.json: {key} is set, which is another network than the one trained"
            )
    if body.get("tie_word_embeddings"):
        yield Finding(
            "tied",
            "config.json: tie_word_embeddings is true, so the drafter's own head would be ignored",
        )
    if int(body.get("num_hidden_layers") or 1) != 1:
        yield Finding("layers", "config.json: num_hidden_layers must be 1")
    for key in ("attention_bias", "mlp_bias", "bias"):
        if body.get(key):
            yield Finding("graph", f"config.json: {key} is true, but no biases were trained")
    yield from _sizes(body, target)
    yield from _rope(body, target)


def _sizes(body: dict[str, Any], target: TargetWeights) -> Iterator[Finding]:
    fed = body.get("target_hidden_size") or body.get("hidden_size")
    if fed != target.hidden_size:
        yield Finding(
            "width",
            f"config.json: the drafter reads states {fed} wide, the target's are "
            f"{target.hidden_size} wide",
        )
    if body.get("vocab_size") != target.vocab_size:
        yield Finding(
            "vocab_size",
            f"config.json: vocab_size is {body.get('vocab_size')}, but the target's is "
            f"{target.vocab_size}",
        )
    context = int(target.text.get("max_position_embeddings") or 0)
    if int(body.get("max_position_embeddings") or 0) < context:
        yield Finding(
            "context",
            f"config.json: max_position_embeddings is {body.get('max_position_embeddings')}, less "
            f"than the target's {context}; SGLang refuses to start",
        )


def _rope(body: dict[str, Any], target: TargetWeights) -> Iterator[Finding]:
    if "rope_theta" not in body and "rope_theta" not in (body.get("rope_parameters") or {}):
        yield Finding(
            "rope", "config.json: rope_theta is missing; loaders would take 10000 without a word"
        )
        return
    theirs, ours = target_rope(target.text), target_rope(body)
    if theirs != ours:
        yield Finding(
            "rope",
            f"config.json: rotations (theta, scaling) are {ours}, the target's {theirs}; drafts "
            "get worse with length unless it was trained so",
        )


def _layer_ids(
    body: dict[str, Any], target: TargetWeights, layers: tuple[int, int, int] | None
) -> Iterator[Finding]:
    eagle, n = body.get("eagle_config"), target.num_layers
    key = "eagle_aux_hidden_state_layer_ids"
    if not isinstance(eagle, dict) or key not in eagle:
        where = "only at the top level, where it is ignored" if key in body else "missing"
        yield Finding("layer_ids", f"config.json: eagle_config.{key} is {where}")
        return
    ids = eagle[key]
    sound = isinstance(ids, list) and len(ids) == 3 and all(isinstance(i, int) for i in ids)
    if not sound or ids != sorted(set(ids)) or not 0 <= ids[0] <= ids[2] <= n - 2:
        yield Finding(
            "layer_ids",
            f"config.json: layer ids {ids!r} must be three different ones, ascending, from 0 to "
            f"{n - 2}; else fewer states are captured",
        )
        return
    if not eagle.get("use_aux_hidden_state", True):
        yield Finding("layer_ids", "config.json: use_aux_hidden_state is false")
    if layers is not None and ids != [layer - 1 for layer in layers]:
        yield Finding(
            "layer_ids",
            f"config.json: layer ids {ids} are not those of the training: states {list(layers)} "
            f"(inputs of layers) are written as {[layer - 1 for layer in layers]} (outputs)",
        )
    elif layers is None and ids == [2, n // 2, n - 3]:
        yield Finding(
            "layer_ids",
            f"config.json: layer ids {ids} look like inputs of layers; files hold the layers whose "
            f"outputs they are, {[i - 1 for i in ids]}. If they are meant, say --layers "
            f"{','.join(str(i + 1) for i in ids)}",
        )
    if wrong := misread(target.text.get("model_type"), ids):
        yield Finding("layer_ids", f"config.json: {wrong}")


def _names(body: dict[str, Any], tensors: dict[str, Tensor]) -> Iterator[Finding]:
    for name in sorted(tensors):
        if name.startswith(_FOREIGN_PREFIXES):
            yield Finding(
                "names", f"{WEIGHTS}: {name} has a prefix with which nothing would be loaded"
            )
            return
    try:
        config = DrafterConfig.from_json(
            {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [0, 1, 2]}}
            | {k: v for k, v in body.items() if k != "eagle_config"}
        )
    except DrafterError as error:
        yield Finding("config", str(error))
        return
    wanted = expected_names(config)
    present = {canonical(name): tensor for name, tensor in tensors.items()}
    optional = {"embed_tokens.weight", "t2d"}
    for name in sorted(wanted.keys() - present.keys() - {"d2t", "t2d"}):
        yield Finding("names", f"{WEIGHTS}: {name} is missing and would stay uninitialised")
    for name in sorted(present.keys() - wanted.keys() - optional - {"d2t"}):
        yield Finding("names", f"{WEIGHTS}: {name} is unknown and would be dropped without a word")
    for name, shape in wanted.items():
        if name in present and tuple(present[name].shape) != shape:
            yield _wrong_shape(name, tuple(present[name].shape), shape)
    if "embed_tokens.weight" in present:
        yield Finding(
            "names",
            f"{WEIGHTS}: embed_tokens.weight is overwritten by the target's",
            error=False,
        )


def _wrong_shape(name: str, found: tuple[int, ...], wanted: tuple[int, ...]) -> Finding:
    hint = ""
    if name == "fc.weight" and len(found) == 2 and found[1] * 3 == wanted[1]:
        hint = (
            "; it reads one state only: were hidden states captured with the speculative algorithm "
            "EAGLE instead of EAGLE3?"
        )
    return Finding(
        "shapes", f"{WEIGHTS}: {name} has shape {list(found)}, expected {list(wanted)}{hint}"
    )


def _vocabulary(
    body: dict[str, Any], tensors: dict[str, Tensor], target: TargetWeights
) -> Iterator[Finding]:
    size, total = body.get("draft_vocab_size"), target.vocab_size
    if not isinstance(size, int):
        yield Finding("draft_vocab_size", f"config.json: draft_vocab_size is {size!r}")
        return
    d2t, t2d = tensors.get("d2t"), tensors.get("t2d")
    if d2t is None:
        if size < total:
            yield Finding(
                "d2t",
                f"{WEIGHTS}: has no d2t, although {size} of {total} tokens can be drafted; drafts "
                "would be taken for other tokens",
            )
        return
    if d2t.dtype != torch.int64 or tuple(d2t.shape) != (size,):
        yield Finding(
            "d2t",
            f"{WEIGHTS}: d2t is {d2t.dtype} {list(d2t.shape)}, expected torch.int64 [{size}]",
        )
        return
    ids = d2t + torch.arange(size)
    members = torch.nonzero(t2d).flatten() if t2d is not None else None
    rising = bool((d2t.diff() > 0).all())
    absolute = torch.equal(d2t, members) if members is not None else rising and size > 1
    if size < total and absolute and not torch.equal(ids, d2t):
        yield Finding("d2t", f"{WEIGHTS}: d2t holds token ids; it must hold id minus place")
    elif not (bool((ids.diff() > 0).all()) and 0 <= int(ids[0]) <= int(ids[-1]) < total):
        yield Finding("d2t", f"{WEIGHTS}: d2t plus place is not a rising list of ids below {total}")
    elif members is not None and not torch.equal(ids, members):
        yield Finding("t2d", f"{WEIGHTS}: t2d marks other tokens than d2t gives")
    elif lost := sorted(target.eos_ids() - set(ids.tolist())):
        yield Finding(
            "eos",
            f"{WEIGHTS}: end tokens {lost} cannot be drafted, so every answer's last token is "
            "rejected",
            error=False,
        )


def _values(tensors: dict[str, Tensor]) -> Iterator[Finding]:
    for name, tensor in sorted(tensors.items()):
        if not tensor.is_floating_point():
            continue
        if not bool(torch.isfinite(tensor).all()):
            yield Finding("values", f"{WEIGHTS}: {name} holds numbers that are not finite")
        elif tensor.numel() and not bool(tensor.any()):
            yield Finding("values", f"{WEIGHTS}: {name} is all zero: never trained, or not saved")


def main(argv: list[str] | None = None) -> int:
    """Check a directory and print what was found; gives the exit code."""
    parser = argparse.ArgumentParser(prog="python -m eagle_tui.pipeline.drafter.check")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--target", required=True, help="directory (or hub id) of the target")
    parser.add_argument("--layers", help="indices of hidden states of the training, as 2,15,27")
    args = parser.parse_args(argv)
    layers: tuple[int, int, int] | None = None
    try:
        if args.layers:
            low, mid, high = (int(part) for part in args.layers.split(","))
            layers = low, mid, high
        target = TargetWeights.open(args.target)
    except (ValueError, DrafterError) as error:
        print(visible(str(error)), file=sys.stderr)
        return 2
    findings = check_export(args.directory, target, layers=layers)
    for finding in findings:
        print(f"{'error' if finding.error else 'note'}: {visible(finding.sentence)}")
    bad = sum(finding.error for finding in findings)
    if bad:
        print(f"{bad} faults: this drafter would not serve as it was trained")
        return 1
    print("no fault found; serve it with --speculative-algorithm EAGLE3")
    return 0


if __name__ == "__main__":
    sys.exit(main())
