"""Stored responses by order and text: bounded looks at files of any size, from their ends.

All files are read side by side, the newest row of all first, so that pages are in the order of time
over all datasets. A look ends when enough was found or when it has cost enough; the cursor says
where to go on.
"""

from __future__ import annotations

import contextlib
import heapq
import json
import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from eagle_tui.protocol import Sample
from eagle_tui.reader import responses
from eagle_tui.reader.responses import Head
from eagle_tui.records import SAMPLE_ORDERS, SampleHead, SamplePage, SampleQuery
from eagle_tui.rundir import flags
from eagle_tui.rundir.paths import RunDir

LOOK = 64 << 20
"""Cost of one look: bytes passed over count once, bytes parsed PARSED times. Some 0.1 s."""
PARSED = 10
MOST_HEADS = 500
LONGEST_TEXT = 200_000
"""Characters of one text where several samples are given at once."""
DEAD = ".dead"
"""After a dataset's name: the rows that `retry` or a failure took out of its responses."""

_ID = re.compile(rb'"id":\s?"([^"\\]{1,200})"')
_ID_WITHIN = 400


class NoSuchSample(LookupError):
    """The row is not there any more; the message says where it was looked for."""


class NoSuchDataset(ValueError):
    """The run has no dataset of that name; the message names those that it has."""


@dataclass
class _Source:
    """One file while it is looked through."""

    dataset: str
    file: IO[bytes]
    rows: Iterator[tuple[int, bytes | None]]
    floor: int
    cursor: int
    """Everything from here on was looked at."""
    offset: int = -1
    line: bytes | None = None
    head: Head | None = None
    at: float = 0.0
    ended: bool = False

    def step(self) -> None:
        """Take the next older row."""
        found = next(self.rows, None)
        if found is None:
            self.ended, self.cursor, self.line, self.head = True, self.floor, None, None
            return
        self.offset, self.line = found
        self.head = responses.read_head(self.line) if self.line else None
        if self.head is not None:
            self.at = self.head.at


class SampleReader:
    """Reads the responses of one run. Used by one thread at a time."""

    def __init__(self, run: RunDir) -> None:
        self._run = run
        self._config_seen: tuple[Path, int, int] | None = None
        self._files: dict[str, Path] = {}

    def page(self, query: SampleQuery, until: float | None = None) -> SamplePage:
        """One bounded look; rows of after Unix time `until` are left out. NoSuchDataset;
        ValueError: the flags are asked for and cannot be read."""
        marked = self._marked(query)
        paths = self._wanted(query, marked)
        with contextlib.ExitStack() as stack:
            sources: list[_Source] = []
            ends: dict[str, int] = {}
            total = 0
            rewritten = False
            for name, path in paths.items():
                try:
                    file = stack.enter_context(path.open("rb"))
                except FileNotFoundError:
                    continue
                end = responses.whole_end(file, file.seek(0, os.SEEK_END))
                floor = query.floor.get(name, 0)
                rewritten = rewritten or floor > end
                ends[name] = end
                total += max(end - floor, 0)
                begin = min(query.cursor.get(name, end), end)
                rows = responses.rows_backward(file, begin, floor)
                sources.append(_Source(name, file, rows, floor, max(begin, floor)))
            look = _Look(query, marked, until)
            done = look.run(sources)
            left = sum(s.cursor - s.floor for s in sources)
            heads = look.heads()
        return SamplePage(
            heads=heads,
            cursor={s.dataset: s.cursor for s in sources},
            ends=ends,
            looked=total - left,
            total=total,
            done=done,
            rewritten=rewritten,
            skipped=look.skipped,
        )

    def sample(self, dataset: str, id: str, offset: int | None = None) -> Sample:
        """One response, whole. NoSuchSample when its row is gone; ValueError: it cannot be read."""
        at, row = self.row(dataset, id, offset)
        try:
            return responses.to_sample(row)
        except ValueError:
            where = f"{self._path(dataset)}: the row {id[:80]!r} at byte {at}"
            raise ValueError(f"{where} is none of ours: its fields cannot be read") from None

    def samples(
        self, dataset: str | None, kind: str, limit: int, until: float | None = None
    ) -> list[Sample]:
        """The first of one look, whole but for texts of more than LONGEST_TEXT characters.
        ValueError for an unknown dataset or kind."""
        if kind not in SAMPLE_ORDERS:
            raise ValueError(f"kind: expected one of {', '.join(SAMPLE_ORDERS)}; found {kind!r}")
        query = SampleQuery.model_validate({"order": kind, "dataset": dataset, "limit": limit})
        found = []
        for head in self.page(query, until).heads:
            with contextlib.suppress(NoSuchSample):  # taken out by a retry meanwhile
                found.append(_cut(self.sample(head.dataset, head.id, head.offset)))
        return found

    def row(self, dataset: str, id: str, offset: int | None = None) -> tuple[int, dict[str, Any]]:
        """Offset and row of one response, first looked for at `offset`. NoSuchSample when it is
        gone."""
        path = self._path(dataset)
        try:
            with path.open("rb") as file:
                for at, line in self._near(file, id, offset):
                    row = responses.parse(line)
                    if row is not None and str(row.get("id")) == id:
                        return at, row
        except FileNotFoundError:
            pass
        raise NoSuchSample(f"{path}: no row has the id {id[:80]!r}")

    def find(self, id: str) -> tuple[str, int]:
        """Dataset and offset of the response with that id, wherever it is; dead letters count, too,
        as `DATASET.dead`. NoSuchSample when there is none."""
        for name in (*self.files(), *(name + DEAD for name in self.files())):
            with contextlib.suppress(NoSuchSample):
                return name, self.row(name, id)[0]
        raise NoSuchSample(f"{self._run.root}: no response has the id {id[:80]!r}")

    def _near(self, file: IO[bytes], id: str, offset: int | None) -> Iterator[tuple[int, bytes]]:
        if offset is not None:
            file.seek(offset)
            yield offset, file.readline(responses.MAX_ROW)
        wanted = json.dumps(id, ensure_ascii=False)[1:-1].encode()
        for at, line in responses.rows_backward(file, file.seek(0, os.SEEK_END)):
            if line is not None and wanted in line[:_ID_WITHIN]:
                yield at, line

    def _marked(self, query: SampleQuery) -> set[tuple[str, str]]:
        """What is flagged. Flags that cannot be read keep nobody from the responses."""
        try:
            return {(f.dataset, f.id) for f in flags.read(self._run)}
        except ValueError:
            if query.order == "flagged":
                raise
            return set()

    def _wanted(self, query: SampleQuery, marked: set[tuple[str, str]]) -> dict[str, Path]:
        files = self.files()
        if query.dataset is not None and query.dataset not in files:
            raise NoSuchDataset(_unknown(query.dataset, files))
        names = [query.dataset] if query.dataset is not None else list(files)
        found = {name: files[name] for name in names}
        if query.order == "flagged":
            held = {dataset.removesuffix(DEAD) for dataset, _ in marked}
            found = {name: path for name, path in found.items() if name in held}
            found |= {name + DEAD: self._run.dead(name) for name in found}
        return found

    def _path(self, dataset: str) -> Path:
        name = dataset.removesuffix(DEAD)
        files = self.files()
        if name not in files:
            raise NoSuchSample(f"{self._run.root}: {_unknown(name, files)}")
        return files[name] if name == dataset else self._run.dead(name)

    def files(self) -> dict[str, Path]:
        """The file of each dataset's responses, by the settings that were accepted (what is written
        in run.toml meanwhile is not in force). Settings that cannot be read leave those that are
        there."""
        path = self._run.accepted if self._run.accepted.exists() else self._run.config
        try:
            stat = path.stat()
            seen = (path, stat.st_mtime_ns, stat.st_size)
        except OSError:
            seen = None
        if seen is not None and seen == self._config_seen:
            return self._files
        # Imported here: it takes a moment, which the first figures of a screen should not wait for.
        from eagle_tui.config import ConfigError, load_config

        try:
            config = load_config(path)
        except (ConfigError, OSError):
            there = sorted(self._run.phase("generate").glob("*.jsonl"))
            return {p.stem: p for p in there if "." not in p.stem}
        self._config_seen = seen
        self._files = {
            d.name: self._run.prompts(d.name) if d.kind == "native" else self._run.responses(d.name)
            for d in config.dataset
        }
        return self._files


class _Look:
    """What one look wants and has found."""

    def __init__(
        self, query: SampleQuery, marked: set[tuple[str, str]], until: float | None
    ) -> None:
        self._query = query
        self._marked = marked
        self._until = until
        self._text = query.text.casefold()
        self._needles = _needles(query.text)
        self._most = min(max(query.limit, 1), MOST_HEADS)
        self._longest: list[tuple[int, float, int, int, IO[bytes], str]] = []
        """Heap of tokens, time, a number of its own, offset, file and dataset; never the row."""
        self._found: list[SampleHead] = []
        self._cost = self._count = 0
        self.skipped = 0

    def run(self, sources: list[_Source]) -> bool:
        """Look; True when nothing is left."""
        for source in sources:
            source.step()
        while True:
            live = [s for s in sources if not s.ended]
            if not live:
                return True
            if self._cost >= LOOK or len(self._found) >= self._most:
                return False
            # Rows that must be parsed to know their time take the one before them.
            source = max(live, key=lambda s: s.at)
            self._take(source)
            source.cursor = source.offset
            source.step()

    def heads(self) -> tuple[SampleHead, ...]:
        """What was found, in order."""
        if self._query.order != "longest":
            return tuple(self._found)
        made = []
        for _, _, _, offset, file, dataset in sorted(self._longest, reverse=True):
            file.seek(offset)
            head = self._head(dataset, offset, file.readline())
            made += [head] if head is not None else []
        return tuple(made)

    def _take(self, source: _Source) -> None:
        line, head, order = source.line, source.head, self._query.order
        if line is None:
            self.skipped += 1
            self._cost += responses.MAX_ROW
            return
        self._cost += len(line) + 1
        if not line.strip():
            return
        if self._until is not None and head is not None and head.at > self._until:
            return
        if (
            order == "flagged"
            and (source.dataset.removesuffix(DEAD), _id(line)) not in self._marked
        ):
            return
        if order in ("truncated", "loop", "no_answer") and not (
            head.state == order if head is not None else f'"{order}"'.encode() in line
        ):
            return
        if self._needles:
            low = line.lower()
            if not any(needle in low for needle in self._needles):
                return
            if not self._holds(line):
                return
        if order == "longest":
            self._take_longest(source, line, head)
            return
        made = self._head(source.dataset, source.offset, line)
        if made is not None and order in ("newest", "flagged", made.state):
            self._found.append(made)

    def _take_longest(self, source: _Source, line: bytes, head: Head | None) -> None:
        if head is None:
            made = self._head(source.dataset, source.offset, line)
            if made is None:
                return
            tokens, at = made.completion_tokens, made.at
        else:
            tokens, at = head.tokens, head.at
        self._count += 1
        entry = (tokens, at, self._count, source.offset, source.file, source.dataset)
        if len(self._longest) < self._most:
            heapq.heappush(self._longest, entry)
        elif entry > self._longest[0]:
            heapq.heapreplace(self._longest, entry)

    def _holds(self, line: bytes) -> bool:
        """Whether a text of the row, not its ids or its other turns, holds what is looked for."""
        sample = self._parse(line)
        if sample is None:
            return False
        texts = (sample.prompt, sample.reasoning, sample.content)
        return any(self._text in text.casefold() for text in texts)

    def _parse(self, line: bytes) -> Sample | None:
        self._cost += PARSED * len(line)
        row = responses.parse(line)
        if row is None:
            return None
        try:
            return responses.to_sample(row)
        except ValueError:
            return None

    def _head(self, dataset: str, offset: int, line: bytes) -> SampleHead | None:
        sample = self._parse(line)
        if sample is None or (self._until is not None and sample.at > self._until):
            self.skipped += sample is None
            return None
        name = dataset.removesuffix(DEAD)
        return SampleHead(
            dataset=dataset,
            id=sample.id,
            state=sample.state,
            at=sample.at,
            completion_tokens=sample.completion_tokens,
            reasoning_tokens=sample.reasoning_tokens,
            offset=offset,
            title=sample.prompt[: responses.TITLE],
            flagged=(name, sample.id) in self._marked,
        )


def _needles(text: str) -> list[bytes]:
    """How a text may stand in a JSON line, ASCII letters made small; empty for an empty text."""
    if not text:
        return []
    forms = {json.dumps(text, ensure_ascii=ascii)[1:-1] for ascii in (False, True)}
    # Only ASCII is folded in bytes: other letters are looked for as typed, small and large.
    forms |= {json.dumps(form(text), ensure_ascii=False)[1:-1] for form in (str.lower, str.upper)}
    return sorted({form.encode(errors="replace").lower() for form in forms})


def _unknown(name: str, known: Iterable[str]) -> str:
    return f"no dataset is named {name[:60]!r}; there are: {', '.join(known)}"


def _cut(sample: Sample) -> Sample:
    texts = {name: getattr(sample, name) for name in ("prompt", "reasoning", "content")}
    long = {name: text[:LONGEST_TEXT] for name, text in texts.items() if len(text) > LONGEST_TEXT}
    return sample.model_copy(update=long) if long else sample


def _id(line: bytes) -> str:
    match = _ID.search(line[:_ID_WITHIN])
    return match[1].decode(errors="replace") if match else ""
