"""States by SGLang: one server for the three layers, then another for the final state.

SGLang (0.5.23 or newer) returns either the captured layers or the final state after its norm, so
the rows are read twice. What the first pass gives waits in `parts/`; the second pass makes shards
of it and removes it. States travel as JSON, some twenty bytes a number: this is for targets that
transformers cannot run, not for speed.
"""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor

from eagle_tui.config.model import FlagValue
from eagle_tui.rundir import jsonl
from eagle_tui.rundir.jsonl import Appender

from ..benchmark.client import RequestRefused, ask
from ..benchmark.serving import Server, ServerError, launchable, merged
from ..drafter.config import DrafterError
from ..drafter.target_weights import TargetWeights
from ..shards import TokenRow, index_path
from ..targets import resolve_model
from ..worker import Failed, Refused, Worker
from .check import LEAST_AGREEMENT
from .compare import compare_with_transformers
from .job import Post, RowReader, fault_of
from .lead import Lead
from .plan import RowRef, finished_shards, shard_number
from .shardfile import write_shard
from .states import Packed, States, nothing, pack_one
from .task import quarantine_path
from .writer import Bad, HiddenWriter, Numbers, Quarantine

_CONCURRENCY = 4
_GROUP_TOKENS = 8_192
"""Tokens whose states are in memory as JSON and numbers at a time."""
_PART_BYTES = 1 << 28
_COMPARED_ROWS = 3
_JUDGED_ROWS = 100
"""After so many rows it is judged whether the final states are the right ones, and at the end."""


TOO_OLD = re.compile(r"unrecognized arguments:.*--enable-return-aux-hidden-states")
"""What SGLang says that is older than the flag (0.5.17)."""


class ServedLead(Lead):
    """An extraction by SGLang."""

    def _share(self, post: Post) -> None:
        if not self._work.left:
            return
        if self._settings.nproc > 1:
            self._worker.log.note("extract.nproc is for the transformers backend", "warning")
        try:
            target = TargetWeights.open(resolve_model(post.config, post.run))
        except DrafterError as error:
            raise Failed(str(error)) from error
        try:
            with Appender(quarantine_path(post.directory, 0)) as quarantine:
                Passes(self, post, target, Quarantine(quarantine)).run(self._work.left)
        except ServerError as error:
            if TOO_OLD.search(str(error)):
                raise Refused(
                    "This SGLang gives no states of single layers: it does not know "
                    "--enable-return-aux-hidden-states, which 0.5.23 does. Use a newer one, or "
                    'extract.backend = "transformers".'
                ) from error
            raise Failed(str(error)) from error

    @property
    def worker(self) -> Worker:
        """The phase's frame."""
        return self._worker

    def told(self, rows: int, tokens: int, bad: int, size: int = 0) -> None:
        """Count what came, and report."""
        for key, amount in (("rows", rows), ("tokens", tokens), ("bad", bad), ("bytes", size)):
            self._team.count(key, amount)
        self._report()

    def say(self, text: str, *, warning: bool = False) -> None:
        """Tell the operator."""
        self._worker.log.note(text, "warning" if warning else "info")


@dataclass(frozen=True)
class Taken:
    """A row's states as a server gave them."""

    ref: RowRef
    row: TokenRow
    values: Tensor
    """float32 [T, W]"""
    next_token: int


class Passes:
    """The two passes over the rows."""

    def __init__(
        self, lead: ServedLead, post: Post, target: TargetWeights, quarantine: Quarantine
    ) -> None:
        self._lead = lead
        self._post = post
        self._target = target
        self._quarantine = quarantine
        self._reader = RowReader(post.run)
        self._section = launchable(lead.worker)
        self._dtype = post.task.metadata["dtype"]
        self._parts = post.directory / "parts"
        self._head = target.head().float()
        self._equal = self._compared = 0
        self._taken = False
        """The server has answered: what it refuses now, it refuses for the row's sake."""

    def run(self, left: Sequence[RowRef]) -> None:
        """Do both passes; all on disk when it returns. ServerError, Failed or Stopped."""
        self._parts.mkdir(exist_ok=True)
        waiting = {str(r["id"]) for p in self._part_files() for r in jsonl.rows(index_path(p))}
        todo = self._sound([ref for ref in left if ref.id not in waiting])
        if todo:
            with self._server("layers", self._layer_flags()) as server:
                self._first_pass(server, todo)
        if self._part_files():
            with self._server("final", {"enable-return-hidden-states": True}) as server:
                self._second_pass(server, {ref.id: ref for ref in left})
        self._judge()
        shutil.rmtree(self._parts)
        if self._compared:
            self._lead.say(
                f"lm_head of the final states gives the server's own next token for "
                f"{self._equal / self._compared:.2%} of {self._compared} rows"
            )

    def _server(self, name: str, flags: dict[str, FlagValue]) -> Server:
        self._lead.say(f"starts SGLang for the {name} states")
        own = ("speculative-", "enable-return-", "return-aux-")
        # A cached prefix would leave its rows out.
        more: dict[str, FlagValue] = {"disable-radix-cache": True, **flags}
        return Server(
            self._lead.worker, self._section, name, merged(self._section, more, without=own)
        )

    def _layer_flags(self) -> dict[str, FlagValue]:
        # SGLang names a layer by its output, we by its input.
        ids = [layer - 1 for layer in self._post.task.layers]
        return {
            "enable-return-aux-hidden-states": True,
            "speculative-algorithm": "EAGLE3",
            "return-aux-hidden-state-layer-ids": ids,
        }

    def _sound(self, refs: Sequence[RowRef]) -> list[RowRef]:
        """Rows that the server can be given: a token outside the vocabulary would kill it."""
        good: list[RowRef] = []
        for ref in refs:
            fault = fault_of(ref, self._reader.read(ref), self._target.vocab_size)
            if fault:
                self._put_away(ref, fault)
            else:
                good.append(ref)
        return good

    def _put_away(self, ref: RowRef, reason: str) -> None:
        self._quarantine.put([Bad(ref.id, ref.dataset, reason)])
        self._lead.told(0, 0, 1)

    # -- first pass --------------------------------------------------------------------------------

    def _first_pass(self, server: Server, refs: Sequence[RowRef]) -> None:
        number = max((shard_number(path) for path in self._part_files()), default=-1) + 1
        part: list[Taken] = []
        size, done = 0, 0
        try:
            for group in groups(refs):
                if self._post.team.over:
                    break
                taken = self._ask(server, group, 3 * self._target.hidden_size)
                if taken and not done:
                    self._compare(taken)
                part += taken
                done += len(group)
                size += sum(t.values.numel() * 4 for t in taken)
                self._lead.detail = f"layers' states of {done} of {len(refs)} rows"
                self._lead.told(0, sum(t.ref.tokens for t in taken), 0)
                if size >= _PART_BYTES:
                    self._write_part(number, part)
                    number, part, size = number + 1, [], 0
        finally:
            self._write_part(number, part)
            self._lead.detail = ""

    def _compare(self, taken: Sequence[Taken]) -> None:
        post, rows = self._post, [(one.row, one.values) for one in taken[:_COMPARED_ROWS]]
        self._lead.say(compare_with_transformers(post.config, post.run, post.task.layers, rows))

    def _write_part(self, number: int, taken: Sequence[Taken]) -> None:
        good: list[Taken] = []
        packed: list[Packed] = []
        for one in taken:
            stored = pack_one(one.values, 3, self._dtype)
            if bool(stored.bad.any()):
                self._put_away(one.ref, f"states are not finite or too large for {self._dtype}")
            else:
                good.append(one)
                packed.append(stored)
        if not good:
            return
        pieces: dict[str, list[Tensor]] = {"aux": [p.values for p in packed]}
        if packed[0].scale is not None:
            pieces["aux_scale"] = [p.scale for p in packed if p.scale is not None]
        index = [{"id": one.ref.id, "tokens": one.ref.tokens} for one in good]
        path = self._parts / f"part-{number:05d}.safetensors"
        write_shard(path, pieces, self._post.task.metadata, index)

    # -- second pass -------------------------------------------------------------------------------

    def _part_files(self) -> list[Path]:
        return finished_shards(self._parts)

    def _second_pass(self, server: Server, refs: dict[str, RowRef]) -> None:
        settings, task = self._post.config.extract, self._post.task
        numbers = Numbers(task.first_number, 1)
        # Ended early in the first pass: what that one has got is finished.
        over = self._post.team.over
        for path in self._part_files():
            if self._post.team.over and not over:
                break
            writer = HiddenWriter(
                self._post.directory,
                task.metadata,
                shard_tokens=settings.shard_tokens,
                numbers=numbers,
                quarantine=self._quarantine,
                clock=self._post.clock,
                written=lambda size: self._lead.told(0, 0, 0, size),
            )
            part = Part(path)
            # A part that was half done when a worker was killed has rows that are stored already.
            try:
                for group in groups([refs[row] for row in part.ids() if row in refs]):
                    for one in self._ask(server, group, self._target.hidden_size):
                        self._finish_row(writer, part, one)
            finally:
                writer.flush()
            path.unlink()
            index_path(path).unlink()

    def _finish_row(self, writer: HiddenWriter, part: Part, one: Taken) -> None:
        self._check(one)
        aux, scale = part.read(one.ref.id)
        last = pack_one(one.values, 1, self._dtype)
        states = States([one.ref.tokens], aux, last.values, scale, last.scale, last.bad, nothing)
        bad = writer.add([one.ref], [one.row], states)
        self._lead.told(1 - len(bad), one.ref.tokens, len(bad))

    def _check(self, one: Taken) -> None:
        logits = self._head @ one.values[-1]
        self._compared += 1
        self._equal += int(logits.argmax()) == one.next_token
        if self._compared == _JUDGED_ROWS:
            self._judge()

    def _judge(self) -> None:
        """Failed when the final states are not those that enter the head; then those of this
        attempt are removed, for the next one would go on behind them."""
        # One row may be a tie, however few there are.
        if self._equal >= LEAST_AGREEMENT * self._compared - 1:
            return
        for path in finished_shards(self._post.directory):
            if shard_number(path) >= self._post.task.first_number:
                path.unlink()
                index_path(path).unlink()
        raise Failed(
            f"lm_head of the final states gives the server's own next token for only {self._equal} "
            f"of {self._compared} rows: these are not the states that enter the head. This "
            "target's final norm may be elsewhere."
        )

    # -- asking ------------------------------------------------------------------------------------

    def _ask(self, server: Server, refs: Sequence[RowRef], width: int) -> list[Taken]:
        """The states of some rows, of this width; rows that come back otherwise are put away."""
        rows = [self._reader.read(ref) for ref in refs]
        bodies = [
            {
                "input_ids": row.ids.tolist(),
                "sampling_params": {"max_new_tokens": 1, "temperature": 0},
                "return_hidden_states": True,
            }
            for row in rows
        ]
        found: dict[int, Taken] = {}
        faults: dict[int, str] = {}

        async def take(place: int, body: dict[str, Any], _: float) -> None:
            try:
                values = prompt_states(body, refs[place].tokens, width)
            except ValueError as error:
                faults[place] = str(error)
            else:
                token = int(body["output_ids"][0])
                found[place] = Taken(refs[place], rows[place], values, token)

        refusals: dict[int, RequestRefused] = {}
        work = ask(
            *(self._lead.worker, server, self._section, bodies, _CONCURRENCY, take),
            refused=refusals.__setitem__,
        )
        asyncio.run(work)
        self._taken = self._taken or bool(found)
        if refusals and not self._taken:
            raise next(iter(refusals.values()))  # not for one row's sake
        faults |= {place: f"the server refuses it: {error}" for place, error in refusals.items()}
        for place, fault in sorted(faults.items()):
            self._put_away(refs[place], fault)
        return [found[place] for place in sorted(found)]


class Part:
    """What the first pass left of some rows."""

    def __init__(self, path: Path) -> None:
        with safe_open(path, framework="pt") as file:
            names: list[str] = file.keys()
            self._aux: Tensor = file.get_tensor("aux")
            self._scale: Tensor | None = (
                file.get_tensor("aux_scale") if "aux_scale" in names else None
            )
        self._places: dict[str, slice] = {}
        start = 0
        for row in jsonl.rows(index_path(path)):
            end = start + int(row["tokens"])
            self._places[str(row["id"])] = slice(start, end)
            start = end

    def ids(self) -> list[str]:
        """Its rows, in order."""
        return list(self._places)

    def read(self, row: str) -> tuple[Tensor, Tensor | None]:
        """The layers' states of a row [T, 3*Ht] as they are stored, and their scales."""
        place = self._places[row]
        return self._aux[place], None if self._scale is None else self._scale[place]


def prompt_states(body: dict[str, Any], tokens: int, width: int) -> Tensor:
    """float32 [T, W] of an answer: the blocks of rows of the prompt, one for each chunk in which it
    was read. ValueError when they are not as many as the tokens, or of another width."""
    blocks = body["meta_info"].get("hidden_states") or []
    # A flat list is the state of a generated token; with one token generated there is none.
    rows = [row for block in blocks if block and isinstance(block[0], list) for row in block]
    if len(rows) != tokens:
        cached = body["meta_info"].get("cached_tokens")
        raise ValueError(f"{len(rows)} states for {tokens} tokens (cached: {cached})")
    widths = {len(row) for row in rows}
    if widths != {width}:
        raise ValueError(f"states are {sorted(widths)} wide where {width} was expected")
    # Not-a-number comes as null.
    clean = [[float("nan") if x is None else x for x in row] for row in rows]
    return torch.tensor(clean, dtype=torch.float32)


def groups(refs: Sequence[RowRef]) -> Iterator[list[RowRef]]:
    """Rows in groups of some tokens, so that their states fit into memory."""
    group: list[RowRef] = []
    tokens = 0
    for ref in refs:
        group.append(ref)
        tokens += ref.tokens
        if tokens >= _GROUP_TOKENS:
            yield group
            group, tokens = [], 0
    if group:
        yield group
