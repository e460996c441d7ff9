"""Where rows and the target's states of them come from: shards on disk, a window of them, or the
target itself."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from eagle_tui.rundir.paths import RunDir

from ..extraction.job import fault_of
from ..extraction.plan import RowRef, read_rows
from ..extraction.writer import Bad, no_room
from ..hidden import HiddenRow, HiddenShard, open_hidden
from ..shards import ShardError, Split, TokenRow, find_shards


class BadRow(ValueError):
    """A row whose states cannot be trained on; the message names it."""


class Entry(NamedTuple):
    """A row of a source."""

    id: str
    dataset: str
    where: str
    """File, for a message."""


class Source(Protocol):
    """Rows by their place, 0 … n-1."""

    hidden_size: int
    """Ht."""
    parallel: bool
    """Several threads may ask for states at a time, and that is faster."""

    @property
    def dtype(self) -> torch.dtype:
        """Of the states."""
        ...

    def entries(self) -> Iterator[Entry]:
        """Every row, in the order of the places."""
        ...

    def tokens(self, place: int) -> tuple[Tensor, Tensor]:
        """Ids int32 [T] and mask uint8 [T] of a row, without its states."""
        ...

    def states(self, places: Sequence[int], limit: int) -> list[HiddenRow | None]:
        """Rows cut to `limit` tokens with their states; None for one that has none and is to be
        left out. BadRow when what is there cannot be used."""
        ...

    def making(self) -> AbstractContextManager[None]:
        """To be open while states are asked for and put together; what was made is whole, on
        whatever device, when it is closed."""
        ...


class StoredRows:
    """Rows in hidden-state shards."""

    parallel = True

    def __init__(self, paths: Sequence[Path]) -> None:
        """HiddenError when a shard cannot be used."""
        self.shards: list[HiddenShard] = [open_hidden(path) for path in paths]
        self._at = [(shard, row) for shard in self.shards for row in range(len(shard))]
        self._sound: set[int] = set()
        """Rows whose states were found to be finite."""
        self.hidden_size = self.shards[0].hidden_size if self.shards else 0

    @property
    def dtype(self) -> torch.dtype:
        """Of the states as they are given; float8 is stored only."""
        stored = self.shards[0].aux.dtype
        return torch.bfloat16 if stored == torch.float8_e4m3fn else stored

    def entries(self) -> Iterator[Entry]:
        """Every row, in the order of the shards."""
        for shard in self.shards:
            for row in shard.index():
                yield Entry(str(row["id"]), str(row["dataset"]), shard.path.name)

    def tokens(self, place: int) -> tuple[Tensor, Tensor]:
        """Views of the shard."""
        shard, row = self._at[place]
        part = slice(int(shard.offsets[row]), int(shard.offsets[row + 1]))
        return shard.ids[part], shard.mask[part]

    def states(self, places: Sequence[int], limit: int) -> list[HiddenRow | None]:
        """Views of the shards where the stored type allows."""
        return [self._states(place, limit) for place in places]

    def _states(self, place: int, limit: int) -> HiddenRow:
        shard, row = self._at[place]
        found = cut(shard[row], limit)
        if place not in self._sound:
            for what, states in (("aux", found.aux), ("last", found.last)):
                if not bool(torch.isfinite(states.sum(dtype=torch.float32))):
                    entry = shard.index()[row]
                    raise BadRow(
                        f"row {entry['id']} of {entry['dataset']} ({shard.path}, row {row}) has "
                        f"{what} states that are not finite. Run the extract phase again."
                    )
            self._sound.add(place)
        return found

    def making(self) -> AbstractContextManager[None]:
        """Nothing to be waited for."""
        return nullcontext()


class TokenRows:
    """Rows of the token shards, whose states come from elsewhere.

    The shards are mapped, not read. Rows that the target cannot be given are left out: `faulty`.
    """

    def __init__(self, run: RunDir, split: Split, samples: int | None, vocabulary: int) -> None:
        """`samples` and order as in extraction. ShardError when the shards cannot be read."""
        shards = [_map_tokens(path) for path in find_shards(run, split)]
        self.refs: list[RowRef] = []
        self.faulty: list[Bad] = []
        self._tokens: list[tuple[Tensor, Tensor]] = []
        for ref in read_rows(run, samples):
            if ref.split != split:
                continue
            ids, mask = shards[ref.shard].row(ref.place)
            if fault := fault_of(ref, TokenRow(ids.numpy(), mask.numpy()), vocabulary):
                self.faulty.append(Bad(ref.id, ref.dataset, fault))
                continue
            self.refs.append(ref)
            self._tokens.append((ids, mask))

    def entries(self) -> Iterator[Entry]:
        """Every row that is not faulty."""
        return (Entry(ref.id, ref.dataset, f"{ref.split} tokens") for ref in self.refs)

    def tokens(self, place: int) -> tuple[Tensor, Tensor]:
        """Views of the shard."""
        return self._tokens[place]


class NoRoom:
    """In the place of a row's states: the device had no memory for them."""


class Teacher(Protocol):
    """Gives the states of rows when asked; used by one thread at a time."""

    hidden_size: int
    dtype: torch.dtype

    def states(self, rows: Sequence[TokenRow]) -> list[HiddenRow | str | NoRoom]:
        """Each row with its states, on the teacher's device, or why it has none."""
        ...

    def making(self) -> AbstractContextManager[None]:
        """As in `Source`."""
        ...


class LiveRows(TokenRows):
    """Rows whose states the target gives at the moment when they are asked for."""

    parallel = False

    def __init__(
        self,
        run: RunDir,
        split: Split,
        samples: int | None,
        vocabulary: int,
        teacher: Teacher,
        put_away: PutAway,
    ) -> None:
        super().__init__(run, split, samples, vocabulary)
        self._teacher = teacher
        self._put_away = put_away
        self.hidden_size = teacher.hidden_size

    @property
    def dtype(self) -> torch.dtype:
        return self._teacher.dtype

    def states(self, places: Sequence[int], limit: int) -> list[HiddenRow | None]:
        """The target is run over the rows. A row whose states are not finite is put away, this time
        and whenever it comes again, and the others of its batch are not touched by it; one for
        which there is no room is put away for this attempt."""
        rows = [
            TokenRow(ids[:limit].numpy(), mask[:limit].numpy())
            for ids, mask in (self.tokens(place) for place in places)
        ]
        found: list[HiddenRow | None] = []
        given = self._teacher.states(rows)
        for place, row, states in zip(places, rows, given, strict=True):
            ref = self.refs[place]
            if isinstance(states, HiddenRow):
                found.append(states)
                continue
            if isinstance(states, NoRoom):
                self._put_away(no_room(ref.id, ref.dataset, len(row.ids)))
            else:
                self._put_away(Bad(ref.id, ref.dataset, states))
            found.append(None)
        return found

    def making(self) -> AbstractContextManager[None]:
        """One thread at a time, on the teacher's own stream."""
        return self._teacher.making()


class PutAway(Protocol):
    """Is told of rows that are left out."""

    def __call__(self, bad: Bad) -> None: ...


class WindowRows(TokenRows):
    """Rows of which a part has its states on disk."""

    parallel = True

    def __init__(
        self, run: RunDir, split: Split, samples: int | None, vocabulary: int, hidden_size: int
    ) -> None:
        super().__init__(run, split, samples, vocabulary)
        self.hidden_size = hidden_size
        self.dtype = torch.float32
        self._at: dict[str, tuple[HiddenShard, int]] = {}

    def open(self, paths: Sequence[Path]) -> set[str]:
        """From now on these shards are the window; gives the ids of their rows. HiddenError when
        one cannot be used, ValueError when a row is there twice."""
        self._at = {}
        for shard in map(open_hidden, paths):
            for row, entry in enumerate(shard.index()):
                if entry["id"] in self._at:
                    raise ValueError(f"{shard.path}: row {entry['id']} is in another shard, too")
                self._at[str(entry["id"])] = shard, row
            float8 = shard.aux.dtype == torch.float8_e4m3fn
            self.dtype = torch.bfloat16 if float8 else shard.aux.dtype
        return set(self._at)

    def states(self, places: Sequence[int], limit: int) -> list[HiddenRow | None]:
        """Rows of the window; None for one that extraction has put away."""
        found = [self._at.get(self.refs[place].id) for place in places]
        return [cut(at[0][at[1]], limit) if at else None for at in found]

    def making(self) -> AbstractContextManager[None]:
        """Nothing to be waited for."""
        return nullcontext()


def cut(row: HiddenRow, limit: int) -> HiddenRow:
    """The first `limit` tokens of a row; views."""
    return HiddenRow(row.ids[:limit], row.mask[:limit], row.aux[:limit], row.last[:limit])


@dataclass(frozen=True)
class _Tokens:
    """A token shard, mapped."""

    ids: Tensor
    mask: Tensor
    offsets: Tensor

    def row(self, place: int) -> tuple[Tensor, Tensor]:
        part = slice(int(self.offsets[place]), int(self.offsets[place + 1]))
        return self.ids[part], self.mask[part]


def _map_tokens(path: Path) -> _Tokens:
    try:
        with safe_open(path, framework="pt") as file:
            return _Tokens(
                *(file.get_tensor(name) for name in ("input_ids", "loss_mask", "offsets"))
            )
    except (OSError, SafetensorError) as error:
        raise ShardError(f"{path}: cannot be read ({error}). Run the merge phase again.") from error


@contextmanager
def one_at_a_time(lock: threading.Lock, stream: torch.cuda.Stream | None) -> Iterator[None]:
    """Hold the lock; with a stream, work is queued there, and is done when this is left."""
    with lock, torch.cuda.stream(stream) if stream is not None else nullcontext():
        yield
        if stream is not None:
            stream.synchronize()
