"""One dataset of phase 1: its rows, normalised, rendered and tokenised, written as a whole or not
at all."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eagle_tui.config.model import DatasetSection
from eagle_tui.rundir import atomic, jsonl

from . import conversations
from .conversations import Conversation, Message
from .formats import Rejected
from .reasoning import Splitter
from .sources import RawRow, Source
from .template import Native, Renderer
from .worker import Refused, Worker

_BATCH = 128
"""Rows that are tokenised in one call: the tokenizer spreads them over the cores."""
_PROGRESS_S = 0.5
_ID_CHARS = 24
_WARN_SHARE = 0.1
"""Share of rejected rows above which the note is a warning."""


@dataclass
class Counts:
    """What became of a dataset's rows."""

    rows: int = 0
    kept: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    prompt_tokens: int = 0
    supervised_tokens: int = 0
    turns_in: int = 0
    turns_kept: int = 0
    surrogates: int = 0
    leading_answers_dropped: int = 0

    def to_json(self) -> dict[str, Any]:
        return {**self.__dict__, "rejected": dict(self.rejected.most_common())}


@dataclass(frozen=True)
class Tools:
    """What rows are made with, shared by all datasets."""

    renderer: Renderer
    splitter: Splitter
    context: int
    prompt_limit: int
    system_prompt: str | None


@dataclass(frozen=True)
class _Item:
    """A row on its way: normalised, and for prompts rendered but not yet tokenised."""

    raw: RawRow
    conversation: Conversation
    messages: tuple[Message, ...]
    text: str = ""
    native: Native | None = None


class Progress:
    """Rows over all datasets, told at most twice a second."""

    def __init__(self, worker: Worker, total: int | None) -> None:
        """`total`: rows that will be read, where that is known."""
        self._worker = worker
        self._total = total
        self._done = 0
        self._detail = ""
        self._told_at = -1.0

    def add(self, dataset: str, rows: int) -> None:
        """Rows of a dataset were read."""
        self._done += rows
        self._detail = dataset
        now = self._worker.clock.monotonic()
        if now - self._told_at >= _PROGRESS_S:
            self._told_at = now
            self.flush()

    def flush(self) -> None:
        """Tell it now."""
        # Of a dataset with `samples` more rows are read where some are rejected.
        total = None if self._total is None else max(self._total, self._done)
        self._worker.log.emit(
            "progress", done=self._done, total=total, unit="rows", detail=self._detail
        )

    def finish(self) -> None:
        """Every row that was wanted has been read."""
        self._total = self._done
        self.flush()


def _meta_path(worker: Worker, dataset: DatasetSection) -> Path:
    return worker.run.phase("prepare") / f"{dataset.name}.meta.json"


def finished(worker: Worker, dataset: DatasetSection, made_from: str) -> dict[str, Any] | None:
    """What an earlier attempt has left, if it is whole and made from the same inputs."""
    try:
        meta = atomic.read_json(_meta_path(worker, dataset))
    except ValueError:
        return None
    if not isinstance(meta, dict) or meta.get("fingerprint") != made_from:
        return None
    sizes = {
        path.name: path.stat().st_size if path.exists() else -1
        for path in (worker.run.prompts(dataset.name), worker.run.rejected(dataset.name))
    }
    return meta if meta.get("sizes") == sizes else None


class DatasetJob:
    """Makes one dataset's files."""

    def __init__(
        self,
        worker: Worker,
        dataset: DatasetSection,
        source: Source,
        tools: Tools,
        progress: Progress,
    ) -> None:
        self._worker = worker
        self._dataset = dataset
        self._source = source
        self._tools = tools
        self._progress = progress
        self._counts = Counts()
        self._ordinals: Counter[bytes] = Counter()
        self._first_detail = ""

    def run(self, made_from: str) -> dict[str, Any]:
        """Write the dataset; gives what its `.meta.json` says. Refused when no row can be used."""
        run, name = self._worker.run, self._dataset.name
        meta_path = _meta_path(self._worker, self._dataset)
        meta_path.unlink(missing_ok=True)
        finals = (run.prompts(name), run.rejected(name))
        temps = [path.with_name(f".{path.name}.tmp") for path in finals]
        for temp in temps:
            temp.unlink(missing_ok=True)
        try:
            with jsonl.Appender(temps[0]) as out, jsonl.Appender(temps[1]) as bad:
                self._read(out, bad)
            self._check()
            for temp, final in zip(temps, finals, strict=True):
                temp.replace(final)
        finally:
            for temp in temps:
                temp.unlink(missing_ok=True)
        atomic.fsync_dir(finals[0].parent)
        meta = {
            "fingerprint": made_from,
            "sizes": {path.name: path.stat().st_size for path in finals},
            "counts": self._counts.to_json(),
        }
        atomic.write_json(meta_path, meta)
        self._tell()
        return meta

    def _read(self, out: jsonl.Appender, bad: jsonl.Appender) -> None:
        batch: list[_Item] = []
        wanted = self._dataset.samples
        for raw in self._source.rows():
            self._worker.check_stop()
            self._counts.rows += 1
            self._progress.add(self._dataset.name, 1)
            try:
                batch.append(self._item(raw))
            except Rejected as error:
                self._reject(bad, raw, error)
            # Near the wanted number rows go one by one, so that none is read in vain.
            room = _BATCH if wanted is None else min(_BATCH, wanted - self._counts.kept)
            if len(batch) >= room:
                self._flush(batch, out, bad)
                batch = []
                if wanted is not None and self._counts.kept >= wanted:
                    break
        self._flush(batch, out, bad)

    def _item(self, raw: RawRow) -> _Item:
        if raw.problem:
            raise Rejected("bad JSON", raw.problem)
        renderer = self._tools.renderer
        found = conversations.normalise(raw.value, system_prompt=self._tools.system_prompt)
        if self._dataset.kind == "native":
            messages = conversations.as_native(found)
            if sum(len(message["content"]) for message in messages) > self._tools.context:
                text = renderer.text(messages, found.tools, generation_prompt=False)
                renderer.check_length(text, self._tools.context)
            native = renderer.native(messages, found.tools)
            return _Item(raw, found, messages, native=native)
        messages = conversations.as_prompt(found)
        text = renderer.text(messages, found.tools, generation_prompt=True)
        renderer.check_length(text, self._tools.prompt_limit)
        return _Item(raw, found, messages, text)

    def _flush(self, batch: list[_Item], out: jsonl.Appender, bad: jsonl.Appender) -> None:
        for item, ids in zip(batch, self._ids(batch), strict=True):
            try:
                row = self._row(item, ids)
            except Rejected as error:
                self._reject(bad, item.raw, error)
                continue
            out.append(row)
            counts = self._counts
            counts.kept += 1
            counts.turns_in += item.conversation.turns_in
            counts.turns_kept += len(item.messages)
            counts.surrogates += item.conversation.surrogates
            counts.leading_answers_dropped += item.conversation.dropped

    def _ids(self, batch: list[_Item]) -> Iterator[list[int]]:
        encoded = iter(self._tools.renderer.encode([i.text for i in batch if i.native is None]))
        for item in batch:
            yield item.native.ids if item.native is not None else next(encoded)

    def _row(self, item: _Item, ids: list[int]) -> dict[str, Any]:
        tools = self._tools
        if not ids:
            raise Rejected("empty", "no tokens")
        tools.renderer.check_bos(ids)
        limit = tools.prompt_limit if item.native is None else tools.context
        if len(ids) > limit:
            raise Rejected("over context", f"{len(ids):,} tokens, at most {limit:,}")
        kept = Conversation(item.messages, item.conversation.tools)
        row: dict[str, Any] = {**self._identity(kept), "conversation": list(item.messages)}
        if kept.tools:
            row["tools"] = list(kept.tools)
        if item.native is None:
            self._counts.prompt_tokens += len(ids)
            row["prompt_ids"] = ids
            row["opened"] = tools.splitter.opens_in_prompt(ids)
            row["n_turns"] = len(item.messages)
        else:
            supervised = sum(end - start for start, end in item.native.spans)
            self._counts.prompt_tokens += len(ids) - supervised
            self._counts.supervised_tokens += supervised
            row["token_ids"] = ids
            row["spans"] = [list(span) for span in item.native.spans]
            row["prompt_tokens"] = len(ids) - supervised
        return row

    def _identity(self, conversation: Conversation) -> dict[str, Any]:
        """What a row is known by: its dataset, its content, and how many like it came before."""
        name = self._dataset.name
        content = hashlib.sha256(f"{name}\0{conversation.key()}".encode())
        ordinal = self._ordinals[content.digest()[:16]]
        self._ordinals[content.digest()[:16]] += 1
        content.update(f"\0{ordinal}".encode())
        return {"id": content.hexdigest()[:_ID_CHARS], "dataset": name, "ordinal": ordinal}

    def _reject(self, bad: jsonl.Appender, raw: RawRow, error: Rejected) -> None:
        self._counts.rejected[error.reason] += 1
        self._first_detail = self._first_detail or f"row {raw.number}: {error}"
        bad.append(
            {
                "row": raw.number,
                "offset": raw.offset,
                "reason": error.reason,
                "detail": error.detail,
                "excerpt": raw.excerpt(),
            }
        )

    def _check(self) -> None:
        if self._counts.kept:
            return
        name, where = self._dataset.name, self._source.where
        if not self._counts.rows:
            raise Refused(f"dataset {name}: {where} holds no rows.")
        raise Refused(
            f"dataset {name}: none of the {self._counts.rows:,} rows of {where} can be used: "
            f"{self._reasons()}. The first one: {self._first_detail}"
        )

    def _reasons(self) -> str:
        return ", ".join(f"{n:,} {why}" for why, n in self._counts.rejected.most_common())

    def _tell(self) -> None:
        counts, name, log = self._counts, self._dataset.name, self._worker.log
        lost = sum(counts.rejected.values())
        if lost:
            log.note(
                f"{name}: {lost:,} of {counts.rows:,} rows rejected: {self._reasons()}",
                "warning" if lost > _WARN_SHARE * counts.rows else "info",
            )
        if counts.surrogates:
            log.note(f"{name}: {counts.surrogates:,} texts held broken characters, now U+FFFD")
        if counts.leading_answers_dropped:
            log.note(
                f"{name}: {counts.leading_answers_dropped:,} assistant turns before the first user "
                "turn left out"
            )
