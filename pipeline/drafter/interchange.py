"""Hidden-state files of other trainers: read into our shards, and written for SpecForge.

    python -m eagle_tui.pipeline.drafter.interchange read  DIR SHARDS --format specforge \\
        --target DIR [--layers 2,15,27]
    python -m eagle_tui.pipeline.drafter.interchange read  DIR SHARDS --format speculators \\
        --target DIR --tokens TOKENS
    python -m eagle_tui.pipeline.drafter.interchange write SHARDS DIR --format specforge

SHARDS and TOKENS are directories with our hidden-state and token shards. SpecForge's files are
PyTorch archives; they are opened with weights_only, so nothing in them is executed. Its final
states are post-norm, those of speculators are not, and get the target's final norm. Files of
speculators hold no loss mask: it comes from our token shards, row for row by token ids.
"""

from __future__ import annotations

import argparse
import gzip
import io
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from eagle_tui.text import visible

from ..extraction.shardfile import write_shard
from ..hidden import HiddenError, open_hidden
from ..shards import ShardError, Split, open_shard, shard_path
from .config import DrafterError
from .target_weights import TargetWeights

_SHARD_TOKENS: Final = 200_000
_SPECFORGE_GROUP: Final = 2000
"""Files of one directory, as SpecForge's own writer does it."""
_NUMBER: Final = re.compile(r"(\d+)")


class InterchangeError(ValueError):
    """A file cannot be read or does not fit; the message names it and says why."""


@dataclass(frozen=True)
class Row:
    """One sequence, in our conventions."""

    id: str
    ids: Tensor
    """int32 [T]"""
    mask: Tensor
    """uint8 [T], unshifted."""
    aux: Tensor
    """[T, 3*Ht]"""
    last: Tensor
    """[T, Ht], post-norm."""


def read_specforge(directory: Path) -> Iterator[Row]:
    """Rows of `data_*.ckpt` and `data_*.ckpt.gz` under a directory, by number. InterchangeError
    names the file that is broken."""
    paths = _sorted([*directory.rglob("*.ckpt"), *directory.rglob("*.ckpt.gz")])
    if not paths:
        raise InterchangeError(f"{directory}: holds no data_*.ckpt or data_*.ckpt.gz")
    for path in paths:
        body = _archive(path)
        try:
            ids, mask = body["input_ids"].flatten(), body["loss_mask"].flatten()
            aux, last = body["aux_hidden_state"], body["hidden_state"]
        except (KeyError, TypeError, AttributeError) as error:
            raise InterchangeError(f"{path}: is no SpecForge file, it has no {error}") from None
        yield _row(path, path.name.split(".")[0], ids, mask, aux[-1], last[-1])


def _archive(path: Path) -> Any:
    try:
        with path.open("rb") as file:
            opened: IO[bytes] = file
            if path.suffix == ".gz":
                opened = io.BytesIO(gzip.decompress(file.read()))
            return torch.load(opened, map_location="cpu", weights_only=True)
    except Exception as error:  # whatever a foreign archive raises is told
        raise InterchangeError(
            f"{path}: cannot be read ({type(error).__name__}: {error})"
        ) from error


def read_speculators(directory: Path, tokens: Path, target: TargetWeights) -> Iterator[Row]:
    """Rows of `hs_*.safetensors`, by number. Masks are those of the token shards in `tokens` that
    have the same ids; InterchangeError for a row that none has."""
    paths = _sorted(directory.glob("hs_*.safetensors"))
    if not paths:
        raise InterchangeError(f"{directory}: holds no hs_*.safetensors")
    masks = _masks(tokens)
    norm, eps = target.final_norm().float(), float(target.text.get("rms_norm_eps", 1e-6))
    for path in paths:
        try:
            found = load_file(path)
            ids, states = found["token_ids"].flatten(), found["hidden_states"]
        except (OSError, SafetensorError, KeyError) as error:
            raise InterchangeError(f"{path}: cannot be read ({error})") from None
        if states.ndim != 3 or states.shape[1] != 4:
            raise InterchangeError(
                f"{path}: hidden_states has shape {list(states.shape)}, expected [T, 4, Ht]"
            )
        mask = masks.get(_key(ids))
        if mask is None:
            raise InterchangeError(
                f"{path}: no row of {tokens} has its token ids, so there is no loss mask for it"
            )
        before = states[:, 3].float()
        last = norm * before * torch.rsqrt(before.pow(2).mean(-1, keepdim=True) + eps)
        aux = states[:, :3].flatten(1)
        yield _row(path, path.stem, ids, mask, aux, last.to(states.dtype))


def _masks(tokens: Path) -> dict[bytes, Tensor]:
    found: dict[bytes, Tensor] = {}
    paths = sorted(
        p for p in tokens.rglob("*.safetensors") if p.name.startswith(("train-", "val-"))
    )
    for path in paths:
        try:
            for row in open_shard(path).rows():
                found[_key(torch.from_numpy(row.ids))] = torch.from_numpy(row.mask.copy())
        except ShardError as error:
            raise InterchangeError(str(error)) from error
    return found


def _key(ids: Tensor) -> bytes:
    return ids.to(torch.int32).numpy().tobytes()


def _row(path: Path, name: str, ids: Tensor, mask: Tensor, aux: Tensor, last: Tensor) -> Row:
    """Check a row's shapes and values."""
    length = len(ids)
    fits = (
        len(mask) == length
        and aux.ndim == last.ndim == 2
        and len(aux) == len(last) == length
        and aux.shape[1] == 3 * last.shape[1]
    )
    if not fits:
        raise InterchangeError(
            f"{path}: {length} ids, mask {list(mask.shape)}, states {list(aux.shape)} and "
            f"{list(last.shape)} do not fit together"
        )
    if not bool(torch.isfinite(aux).all() and torch.isfinite(last).all()):
        raise InterchangeError(f"{path}: holds states that are not finite")
    flags = (mask != 0).to(torch.uint8)
    return Row(name, ids.to(torch.int32), flags, aux.contiguous(), last.contiguous())


def write_shards(
    rows: Iterator[Row],
    directory: Path,
    *,
    layers: tuple[int, int, int],
    target: str,
    dataset: str,
    split: Split = "train",
    shard_tokens: int = _SHARD_TOKENS,
) -> list[Path]:
    """Write rows as our shards; gives their paths. `layers`: indices of the states, as inputs of
    layers."""
    directory.mkdir(parents=True, exist_ok=True)
    told = {
        **{"layers": ",".join(map(str, layers)), "norm": "post", "mask": "unshifted"},
        **{"target": target, "target_hash": ""},
    }
    paths: list[Path] = []
    held: list[Row] = []

    def flush() -> None:
        if not held:
            return
        path = shard_path(directory, split, len(paths))
        lengths = [len(row.ids) for row in held]
        pieces = {
            "input_ids": [row.ids for row in held],
            "loss_mask": [row.mask for row in held],
            "aux": [row.aux for row in held],
            "last": [row.last for row in held],
            "offsets": [torch.tensor([0, *lengths]).cumsum(0)],
        }
        index = [
            {
                **{"id": row.id, "dataset": dataset, "tokens": len(row.ids)},
                "supervised": int(row.mask.sum()),
            }
            for row in held
        ]
        write_shard(path, pieces, {**told, "dtype": str(held[0].aux.dtype)}, index)
        paths.append(path)
        held.clear()

    for row in rows:
        if held and row.aux.dtype != held[0].aux.dtype:
            flush()
        held.append(row)
        if sum(len(r.ids) for r in held) >= shard_tokens:
            flush()
    flush()
    return paths


def write_specforge(shards: list[Path], directory: Path) -> int:
    """Write the rows of our shards as SpecForge's `rows_A-B/data_N.ckpt`; gives how many."""
    number = 0
    for path in shards:
        for row in open_hidden(path).rows():
            first = number // _SPECFORGE_GROUP * _SPECFORGE_GROUP
            folder = directory / f"rows_{first}-{first + _SPECFORGE_GROUP}"
            folder.mkdir(parents=True, exist_ok=True)
            body = {
                "input_ids": row.ids.long().clone(),
                "loss_mask": row.mask.long().clone(),
                "aux_hidden_state": row.aux.clone()[None],
                "hidden_state": row.last.clone()[None],
            }
            temp = folder / f".data_{number}.tmp"
            torch.save(body, temp)
            temp.replace(folder / f"data_{number}.ckpt")
            number += 1
    return number


def _sorted(paths: Any) -> list[Path]:
    """By the numbers in their names: data_2 before data_10."""

    def key(path: Path) -> list[Any]:
        return [int(p) if p.isdigit() else p for p in _NUMBER.split(path.name)]

    return sorted(paths, key=key)


def _layers(text: str | None, target: TargetWeights) -> tuple[int, int, int]:
    """The states that the file holds, as inputs of layers; by all trainers' usual formula unless
    given."""
    n = target.num_layers
    low, mid, high = (int(p) for p in text.split(",")) if text else (2, n // 2, n - 3)
    if not 1 <= low < mid < high < n:
        raise InterchangeError(
            f"layers {low},{mid},{high}: three different, ascending indices from 1 to {n - 1} are "
            "needed (inputs of layers); give --layers"
        )
    return low, mid, high


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m eagle_tui.pipeline.drafter.interchange")
    verbs = parser.add_subparsers(dest="verb", required=True)
    read = verbs.add_parser("read", help="another trainer's files into our shards")
    read.add_argument("source", type=Path)
    read.add_argument("shards", type=Path)
    read.add_argument("--format", choices=("specforge", "speculators"), required=True)
    read.add_argument("--target", required=True)
    read.add_argument("--layers", help="indices of hidden states (inputs of layers), as 2,15,27")
    read.add_argument("--tokens", type=Path, help="directory of our token shards, for masks")
    read.add_argument("--dataset", default="imported")
    read.add_argument("--split", choices=("train", "val"), default="train")
    write = verbs.add_parser("write", help="our shards as another trainer's files")
    write.add_argument("shards", type=Path)
    write.add_argument("directory", type=Path)
    write.add_argument("--format", choices=("specforge",), required=True)
    return parser


def main(argv: list[str] | None = None) -> int:
    """Convert; gives the exit code."""
    parser = _parser()
    args = parser.parse_args(argv)
    try:
        if args.verb == "write":
            shards = sorted(args.shards.rglob("*.safetensors"))
            print(f"{write_specforge(shards, args.directory):,} rows written")
            return 0
        target = TargetWeights.open(args.target)
        if args.format == "specforge":
            rows = read_specforge(args.source)
        elif args.tokens is None:
            parser.error("files of speculators hold no loss mask: give --tokens")
        else:
            rows = read_speculators(args.source, args.tokens, target)
        paths = write_shards(
            rows,
            args.shards,
            layers=_layers(args.layers, target),
            target=args.target,
            dataset=args.dataset,
            split=args.split,
        )
    except (InterchangeError, HiddenError, DrafterError) as error:
        print(visible(str(error)), file=sys.stderr)
        return 1
    print(f"{len(paths)} shards written to {visible(str(args.shards))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
