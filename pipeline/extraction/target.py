"""The target model on transformers: loading it, naming it, capturing its states."""

from __future__ import annotations

import hashlib
import importlib.util
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from eagle_tui.config.model import RunConfig
from eagle_tui.rundir.paths import RunDir

from .. import targets
from ..shards import TokenRow
from ..worker import Refused
from .states import States, pack

_SAMPLE = 1 << 20
"""Bytes at the beginning and end of a weight file that its hash covers, beside its size."""
_SHARE = 0.9
"""Of the free memory of a GPU, for the weights; the rest is for what a batch needs."""
_WEIGHTS = ("*.safetensors", "*.bin", "*.gguf")


def pick_device(wanted: str, local_rank: int = 0) -> torch.device:
    """The device of a rank; `cuda:N` is that of the first one. Refused when CUDA is wanted and not
    there."""
    if wanted == "cpu":
        return torch.device("cpu")
    if not torch.cuda.is_available():
        if wanted != "auto":
            raise Refused(
                f'device = "{wanted}", but PyTorch finds no GPU. Set device = "auto" or "cpu" in '
                "run.toml, or look at the driver with nvidia-smi."
            )
        return torch.device("cpu")
    count = torch.cuda.device_count()
    _, _, first = wanted.partition(":")
    if not first:
        return torch.device("cuda", local_rank % count)
    if int(first) + local_rank >= count:
        raise Refused(
            f'device = "{wanted}": rank {local_rank} would take GPU {int(first) + local_rank}, but '
            f"this machine has {count}, numbered from 0. Use fewer ranks, or a lower number."
        )
    return torch.device("cuda", int(first) + local_rank)


def load_target(
    config: RunConfig, run: RunDir, device: torch.device, *, dtype: torch.dtype | None = None
) -> Any:
    """The target for inference on `device`: a transformers causal model.

    `dtype` None: float32 on a CPU, where bfloat16 is slow, else the checkpoint's own. A model that
    is larger than what is free on one GPU is spread over all of them, which needs the package
    accelerate, and no other rank on this machine. Refused, with what to do, when it cannot be
    loaded.
    """
    from transformers import AutoModelForCausalLM
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()  # type: ignore[no-untyped-call]
    place = targets.resolve_model(config, run)
    kind: Any = dtype or (torch.float32 if device.type == "cpu" else "auto")
    options: dict[str, Any] = {}
    if device.type == "cuda" and _weight_bytes(place) > _SHARE * torch.cuda.mem_get_info(device)[0]:
        _check_spread(config)
        options["device_map"] = "auto"
    try:
        model: Any = AutoModelForCausalLM.from_pretrained(
            place,
            dtype=kind,
            trust_remote_code=config.target.trust_remote_code,
            **options,
        )
    except (OSError, ValueError, ImportError, KeyError, torch.OutOfMemoryError) as error:
        hint = (
            " If you trust the code in its repository, set target.trust_remote_code = true."
            if "trust_remote_code" in str(error)
            else " If transformers cannot run it, set extract.backend to sglang."
        )
        raise Refused(
            f"target.model {config.target.model!r}: cannot be loaded ({error}).{hint}"
        ) from error
    if "device_map" not in options:
        model.to(device)
    if device.type == "cuda":
        # cuDNN makes a plan for every shape it has not seen, and hardly two of our batches have the
        # same: batches of new shapes took 50 to 70 ms longer on an H200 than when they came again.
        torch.backends.cuda.enable_cudnn_sdp(False)
    model.requires_grad_(False)
    model.eval()
    return model


def _check_spread(config: RunConfig) -> None:
    """Refused when a model that is larger than one GPU cannot be spread over several."""
    what = f"target.model {config.target.model!r}: does not fit into the free memory of one GPU"
    other = "Or set extract.backend to sglang."
    if int(os.environ.get("LOCAL_WORLD_SIZE", "1")) > 1:
        raise Refused(
            f"{what}, and with several ranks each would take all GPUs. Set nproc to 1 ([extract], "
            "or [train] where training extracts): one process then spreads the model over all of "
            f"them. {other}"
        )
    if importlib.util.find_spec("accelerate") is None:
        raise Refused(
            f"{what}. To spread it over several, transformers needs the package accelerate: "
            f"pip install accelerate. {other}"
        )


def _weight_bytes(place: str) -> int:
    path = Path(place)
    return sum(p.stat().st_size for p in path.glob("*.safetensors")) if path.is_dir() else 0


def text_config(config: Any) -> Any:
    """The part of a model's configuration that tells of its text layers."""
    return config.get_text_config() if hasattr(config, "get_text_config") else config


@dataclass(frozen=True)
class Shape:
    """What a target's configuration tells of it."""

    layers: int
    hidden_size: int
    vocabulary: int
    model_type: str


def shape_of(config: RunConfig, run: RunDir) -> Shape:
    """The shape of the target, without its weights. Refused when it does not tell."""
    from transformers import AutoConfig

    place = targets.resolve_model(config, run)
    try:
        found = text_config(
            AutoConfig.from_pretrained(place, trust_remote_code=config.target.trust_remote_code)
        )
        return Shape(
            int(found.num_hidden_layers),
            int(found.hidden_size),
            int(found.vocab_size),
            str(getattr(found, "model_type", "")),
        )
    except (OSError, ValueError, AttributeError) as error:
        raise Refused(
            f"target.model {config.target.model!r}: its config.json tells no num_hidden_layers, "
            f"hidden_size and vocab_size ({error})."
        ) from error


def target_hash(config: RunConfig, run: RunDir) -> str:
    """Names the weights: config.json, and of each weight file its name, size and both ends. For a
    hub id, its commit if it is known."""
    place = targets.resolve_model(config, run)
    path = Path(place)
    digest = hashlib.sha256()
    if not path.is_dir():
        from transformers import AutoConfig

        found = AutoConfig.from_pretrained(place, trust_remote_code=config.target.trust_remote_code)
        digest.update(f"{place}\0{getattr(found, '_commit_hash', None)}".encode())
        return digest.hexdigest()[:16]
    digest.update((path / "config.json").read_bytes())
    for weights in sorted(p for pattern in _WEIGHTS for p in path.glob(pattern)):
        size = weights.stat().st_size
        digest.update(f"{weights.name}\0{size}\0".encode())
        with weights.open("rb") as file:
            digest.update(file.read(_SAMPLE))
            if size > _SAMPLE:
                file.seek(max(_SAMPLE, size - _SAMPLE))
                digest.update(file.read(_SAMPLE))
    return digest.hexdigest()[:16]


class Capture:
    """Runs the target and takes what enters three of its layers, and its final state.

    Hooks keep three states alive, not one for each layer, and no logits are computed. The rows are
    padded on the right and no attention mask is given: under causal attention no token sees what
    comes after it, and without a mask the fastest kernels can be used.
    """

    def __init__(self, model: Any, layers: tuple[int, int, int], dtype: str) -> None:
        self.model = model
        self.base = model.base_model
        config = text_config(model.config)
        self._hidden_size = int(config.hidden_size)
        self._layers = layers
        self._dtype = dtype
        self._blocks = find_layers(self.base, int(config.num_hidden_layers))
        self.device = model.get_input_embeddings().weight.device
        self._side: torch.cuda.Stream | None = None

    @property
    def hidden_size(self) -> int:
        """Ht."""
        return self._hidden_size

    @torch.inference_mode()
    def states(self, rows: Sequence[TokenRow]) -> States:
        """The states of a batch of rows, in the stored type, on their way to the CPU.

        torch.OutOfMemoryError when the device is too small for the batch.
        """
        aux, last, lengths = self.flat(rows)
        return self._to_cpu(pack(aux, last, lengths, self._dtype))

    def flat(self, rows: Sequence[TokenRow]) -> tuple[Tensor, Tensor, list[int]]:
        """(aux [N, 3*Ht], last [N, Ht], lengths) of rows laid end to end, without the padding, in
        the target's type on the device of its last layer."""
        lengths = [len(row.ids) for row in rows]
        ids = torch.zeros((len(rows), max(lengths)), dtype=torch.int64)
        for row, line in zip(rows, ids, strict=True):
            line[: len(row.ids)] = torch.from_numpy(row.ids)
            # A token of its own: whatever another id would do, such as NaN, it does already.
            line[len(row.ids) :] = int(row.ids[-1])
        width = max(lengths)
        places = [torch.arange(n) + line * width for line, n in enumerate(lengths)]
        # Both go to the device before the pass is queued: a copy made later would wait for its end.
        there = self._there(ids)
        kept = None if min(lengths) == width else self._there(torch.cat(places))
        parts, last = self.forward(there)
        found = [part.flatten(0, 1) for part in (*parts, last)]
        if kept is not None:
            kept = kept.to(last.device)
            found = [part.index_select(0, kept) for part in found]
        return torch.cat(found[:3], dim=1), found[3], lengths

    def _there(self, tensor: Tensor) -> Tensor:
        """On the device of the first layer, without waiting for it."""
        if self.device.type != "cuda":
            return tensor
        return tensor.pin_memory().to(self.device, non_blocking=True)

    def away(self) -> None:
        """Leave the GPU to others: the weights go to the CPU's memory. Not those of a model that is
        spread over several."""
        if self.device.type == "cuda" and not hasattr(self.model, "hf_device_map"):
            self.model.to("cpu")
            torch.cuda.empty_cache()

    def back(self) -> None:
        """Take the weights back to the GPU."""
        if self.device.type == "cuda" and not hasattr(self.model, "hf_device_map"):
            self.model.to(self.device)

    def forward(self, ids: Tensor) -> tuple[list[Tensor], Tensor]:
        """Three captured states and the final one, each [B, T, Ht], of ids [B, T]."""
        with capturing(self._blocks, self._layers) as taken:
            last = self.base(input_ids=ids, use_cache=False).last_hidden_state
        # A model spread over several GPUs leaves them on different ones.
        return [taken[index].to(last.device) for index in self._layers], last

    def _to_cpu(self, states: States) -> States:
        device = states.last.device  # of the last layer; a model may be spread over several
        if device.type != "cuda":
            return states
        if self._side is None:
            self._side = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        side = self._side
        side.wait_stream(torch.cuda.current_stream(device))

        def copy(source: Tensor | None) -> Tensor | None:
            if source is None:
                return None
            target = torch.empty(source.shape, dtype=source.dtype, pin_memory=True)
            target.copy_(source, non_blocking=True)
            source.record_stream(side)
            return target

        with torch.cuda.stream(side):
            aux, last, bad = copy(states.aux), copy(states.last), copy(states.bad)
            scales = copy(states.aux_scale), copy(states.last_scale)
            # Blocking: threads that wait must not take the cores from those that write.
            done = torch.cuda.Event(blocking=True)  # type: ignore[no-untyped-call]
            done.record(side)
        assert aux is not None and last is not None and bad is not None
        return replace(
            states,
            aux=aux,
            last=last,
            bad=bad,
            aux_scale=scales[0],
            last_scale=scales[1],
            ready=done.synchronize,
        )


@contextmanager
def capturing(blocks: nn.ModuleList, layers: Sequence[int]) -> Iterator[dict[int, Tensor]]:
    """While it is open, what enters these layers in a forward pass: index → [B, T, Ht]."""
    taken: dict[int, Tensor] = {}

    def taker(index: int) -> Any:
        def take(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            taken[index] = args[0] if args else kwargs["hidden_states"]

        return take

    with ExitStack() as stack:
        for index in layers:
            handle = blocks[index].register_forward_pre_hook(taker(index), with_kwargs=True)
            stack.callback(handle.remove)
        yield taken


def find_layers(base: nn.Module, count: int) -> nn.ModuleList:
    """The list of the model's decoder layers. Refused when there is not exactly one that could be
    it."""
    found = [
        module
        for module in base.modules()
        if isinstance(module, nn.ModuleList) and len(module) == count
    ]
    if len(found) > 1:
        # Layers of a vision tower, or parallel parts inside: the text layers are called `layers`.
        named = [m for name, m in base.named_modules() if m in found and name.endswith("layers")]
        found = named or found
    if len(found) != 1:
        raise Refused(
            f"{type(base).__name__}: cannot tell which modules are its {count} layers. "
            "Set extract.backend to sglang."
        )
    return found[0]


def describe(model: Any) -> str:
    """A line about the loaded model for the operator."""
    count = sum(p.numel() for p in model.parameters())
    kind = str(model.dtype).removeprefix("torch.")
    device = model.get_input_embeddings().weight.device
    return f"{type(model).__name__}, {count / 1e6:,.0f} M parameters, {kind} on {device}"


def head_logits(model: Any, last: Tensor) -> Tensor:
    """Logits [N, V] of final states [N, Ht]; up to a scale or cap that keeps their order."""
    head = model.get_output_embeddings()
    logits: Tensor = head(last.to(head.weight.device, head.weight.dtype))
    return logits


def provenance(
    config: RunConfig, layers: tuple[int, int, int], dtype: str, hash_: str
) -> dict[str, str]:
    """The metadata of every shard of an extraction."""
    return {
        "layers": ",".join(map(str, layers)),
        "norm": "post",
        "dtype": dtype,
        "mask": "unshifted",
        "target": config.target.model,
        "target_hash": hash_,
    }
