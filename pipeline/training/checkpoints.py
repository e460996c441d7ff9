"""Checkpoints: safetensors and JSON only, whole or not there; the last and the best are kept."""

from __future__ import annotations

import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, ValidationError
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from eagle_tui.rundir import atomic

from .plan import Place

_MODEL, _OPTIMIZER, _STATE = "model.safetensors", "optimizer.safetensors", "state.json"
_INDEX: Final = "index.json"


class CheckpointError(ValueError):
    """A checkpoint cannot be read or written; the message names it and says what to do."""


class State(BaseModel):
    """`state.json`: where the training was."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    epoch: int
    packs: int
    step: int
    tokens: int
    """Tokens trained on so far, all epochs."""
    rows: int
    identity: dict[str, str]
    """Fingerprints of all that must be the same for the weights to be of use."""
    accept: float | None = None
    """Simulated accept length of the best validation so far."""
    validations: int = 0
    """Validations since then without a better one."""
    validated: dict[str, Any] | None = None
    """Figures of the last validation."""

    @property
    def place(self) -> Place:
        return Place(self.epoch, self.packs, self.step)


@dataclass(frozen=True)
class Index:
    """Names of the directories that count."""

    last: str | None = None
    best: str | None = None


class Checkpoints:
    """The checkpoints of a run."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def index(self) -> Index:
        body = atomic.read_json(self._root / _INDEX) or {}
        return Index(body.get("last"), body.get("best"))

    def save(
        self, state: State, model: dict[str, Tensor], optimizer: dict[str, Tensor], *, best: bool
    ) -> Path:
        """Write the state as the last one and, if `best`, as the best one too. Gives its
        directory."""
        name = f"step-{state.step:08d}"
        path = self._root / name
        index = self.index()
        if name not in (index.last, index.best):
            # Also one of this name, of a training that was killed before it counted.
            self._remove_all_but(index)
            self._write(path, state, {_MODEL: model, _OPTIMIZER: optimizer})
        elif state != self.state(name):
            # The same weights, judged since.
            atomic.write_json(path / _STATE, state.model_dump(mode="json"))
        self._point(Index(last=name, best=name if best else index.best))
        return path

    def _write(self, path: Path, state: State, files: dict[str, dict[str, Tensor]]) -> None:
        temp = path.with_name(f".{path.name}.tmp")
        temp.mkdir(parents=True)
        try:
            for name, tensors in files.items():
                save_file(tensors, temp / name, metadata={"format": "pt"})
                _sync(temp / name)
            atomic.write_json(temp / _STATE, state.model_dump(mode="json"))
            temp.rename(path)
        except BaseException as error:
            # On a full disk, what is half there would take the room that the next one needs.
            shutil.rmtree(temp, ignore_errors=True)
            if not isinstance(error, SafetensorError):
                raise
            # A full disk, most likely; the library tells no errno.
            raise CheckpointError(
                f"{path}: cannot be written ({error}). The checkpoint before it is kept; make "
                "room, and the phase goes on from there."
            ) from error
        atomic.fsync_dir(self._root)

    def _point(self, index: Index) -> None:
        atomic.write_json(self._root / _INDEX, asdict(index))
        self._remove_all_but(index)

    def _remove_all_but(self, index: Index) -> None:
        """Remove the directories that do not count, whole or half-written."""
        for path in self._root.glob("*"):
            if path.is_dir() and path.name not in (index.last, index.best):
                shutil.rmtree(path)

    def clear(self) -> None:
        """Forget everything: the next training begins afresh."""
        shutil.rmtree(self._root, ignore_errors=True)

    def last(self) -> tuple[State, dict[str, Tensor], dict[str, Tensor]] | None:
        """State, model and optimizer of the last checkpoint; None when there is none."""
        name = self.index().last
        if name is None:
            return None
        path = self._root / name
        return self.state(name), _load(path / _MODEL), _load(path / _OPTIMIZER)

    def state(self, name: str) -> State:
        """The state of a checkpoint. CheckpointError when it cannot be read."""
        path = self._root / name / _STATE
        try:
            return State.model_validate(atomic.read_json(path))
        except (ValidationError, ValueError, OSError) as error:
            raise CheckpointError(
                f"{path}: cannot be read ({error}). Remove {self._root} to begin afresh."
            ) from error

    def best(self) -> tuple[State, dict[str, Tensor]]:
        """State and model of the best checkpoint, the last one when none was validated."""
        index = self.index()
        name = index.best or index.last
        if name is None:
            raise CheckpointError(f"{self._root}: holds no checkpoint")
        return self.state(name), _load(self._root / name / _MODEL)


def _load(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(
            f"{path}: cannot be read ({error}). Remove {path.parent.parent} to begin afresh."
        ) from error


def _sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
