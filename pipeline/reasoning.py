"""Reasoning and content apart, by token ids.

The native endpoint never splits an answer. We know from the prompt's ids whether the answer begins
inside a thought, and cut at the ids of the closing marker. Where markers are no tokens of their own
the decoded text is searched and its places are mapped back to tokens.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

from .families import Family, find_family

Kind = Literal["reasoning", "content", "marker"]
_Role = Literal["open", "close", "tool", "frame"]


class Tokenizer(Protocol):
    """What is needed of a tokenizer; every one of `transformers` has it."""

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]: ...

    def decode(self, token_ids: Sequence[int], **options: Any) -> Any: ...

    def get_added_vocab(self) -> dict[str, int]: ...


@dataclass(frozen=True)
class Split:
    """One answer taken apart. Markers and the end-of-turn token are in neither part."""

    reasoning_ids: tuple[int, ...]
    content_ids: tuple[int, ...]
    reasoning: str
    """Text of the thought, white space at its ends removed."""
    content: str
    """Text of the answer, white space at its ends removed."""
    closed: bool
    """False when a thought was begun and never ended: then all of it is reasoning."""
    reasoning_tokens: int
    """Number of reasoning_ids. SGLang's own count holds the markers too."""
    flag: str = ""
    """What was unusual: `unclosed`; `tool_section` (a tool call ended the thought);
    `opener_missing` (a closer without an opener); `by_text` (markers were spelled with ordinary
    tokens). Empty: nothing."""
    kinds: tuple[Kind, ...] = ()
    """What each token of the answer is, in order, without the end-of-turn token."""
    end_id: int | None = None
    """The end-of-turn token that ended the answer; None when none did."""


class _Mark(NamedTuple):
    start: int
    stop: int
    role: _Role


class _Piece(NamedTuple):
    start: int
    stop: int
    kind: Kind


class _Scan(NamedTuple):
    pieces: list[_Piece]
    thought: bool
    closed: bool
    flag: str


@dataclass
class _Walk:
    """Where a scan is: everything before `at` is in `pieces`."""

    thinking: bool
    thought: bool
    flag: str = ""
    at: int = 0
    pieces: list[_Piece] = field(default_factory=list)

    def flush(self, stop: int) -> None:
        """What lies between here and `stop` is of the present kind."""
        if stop > self.at:
            self.pieces.append(_Piece(self.at, stop, "reasoning" if self.thinking else "content"))
            self.at = stop

    def take(self, mark: _Mark) -> None:
        """Up to the mark as `flush`, then the mark itself."""
        self.flush(mark.start)
        self.pieces.append(_Piece(mark.start, mark.stop, "marker"))
        self.at = mark.stop


class Splitter:
    """Splits the answers of one model. Holds no state between calls; safe to share by threads."""

    def __init__(
        self, tokenizer: Tokenizer, family: Family | None, eos_ids: Collection[int]
    ) -> None:
        self.family = family
        self._tokenizer = tokenizer
        self._eos = frozenset(eos_ids)
        added = tokenizer.get_added_vocab()
        self._added = frozenset(added.values())
        self._by_first: dict[int, list[tuple[tuple[int, ...], _Role]]] = {}
        self._anchored = family is not None
        self._pattern: re.Pattern[str] | None = None
        self._roles: dict[str, _Role] = {}
        if family is None:
            return
        for role, markers in _markers(family):
            for marker in markers:
                self._roles[marker] = role
                ids = (added[marker],) if marker in added else self._encode(marker)
                if ids and ids[0] in self._added:
                    self._by_first.setdefault(ids[0], []).append((ids, role))
                # Ordinary tokens at a marker's ends may be merged with their neighbours, so that
                # its ids need not occur where its text does.
                whole = ids and ids[0] in self._added and ids[-1] in self._added
                if marker in (family.openers[0], family.closers[0]) and not whole:
                    self._anchored = False
        for found in self._by_first.values():
            found.sort(key=lambda item: -len(item[0]))
        longest_first = sorted(self._roles, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first)))

    def opens_in_prompt(self, prompt_ids: Sequence[int]) -> bool:
        """Does the rendered prompt end inside a thought: its last opener has no closer after it?

        An opener inside a message (a user may write `<think>`) is followed by the template's own
        tokens, and so does not count.
        """
        if self.family is None:
            return False
        if self._anchored:
            marks = [m for m in self._marks_by_ids(prompt_ids) if m.role in ("open", "close")]
            if not marks or marks[-1].role == "close":
                return False
            return not self._added.intersection(prompt_ids[marks[-1].stop :])
        # Only the tail after the template's last own token can be the begun answer; markers may
        # contain such tokens, so a little more than that is read.
        text = self._decode(prompt_ids[-64:])
        found = [m for m in self._marks_by_text(text) if m.role in ("open", "close")]
        return bool(found) and found[-1].role == "open" and not text[found[-1].stop :].strip()

    def split(self, output_ids: Sequence[int], opened: bool) -> Split:
        """Take an answer apart. `opened`: its prompt ended inside a thought."""
        end_id = output_ids[-1] if output_ids and output_ids[-1] in self._eos else None
        ids = list(output_ids if end_id is None else output_ids[:-1])
        if self.family is None:
            return self._result(ids, [_Piece(0, len(ids), "content")], True, "", end_id)
        if self._anchored:
            scan = self._scan(
                self._marks_by_ids(ids), len(ids), opened, lambda to: self._decode(ids[:to])
            )
            if scan.thought and scan.closed:
                return self._result(ids, scan.pieces, True, scan.flag, end_id)
        else:
            scan = None
        text = self._decode(ids)
        spelled = self._scan(self._marks_by_text(text), len(text), opened, lambda to: text[:to])
        if scan is not None and not (spelled.thought and spelled.closed):
            flag = scan.flag if scan.closed else "unclosed"
            return self._result(ids, scan.pieces, scan.closed, flag, end_id)
        flag = spelled.flag if spelled.closed else "unclosed"
        if scan is not None:
            flag = flag or "by_text"
        return self._result_of_text(ids, text, spelled, flag, end_id)

    def _encode(self, text: str) -> tuple[int, ...]:
        return tuple(self._tokenizer.encode(text, add_special_tokens=False))

    def _decode(self, ids: Sequence[int]) -> str:
        if not ids:
            return ""
        return str(
            self._tokenizer.decode(
                list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False
            )
        )

    def _marks_by_ids(self, ids: Sequence[int]) -> list[_Mark]:
        found: list[_Mark] = []
        # Only places of a marker's first token are looked at; `index` finds them at C's speed.
        places = sorted(at for first in self._by_first for at in _places(ids, first))
        free = 0
        for at in places:
            if at < free:
                continue
            for marker, role in self._by_first[ids[at]]:
                if tuple(ids[at : at + len(marker)]) == marker:
                    free = at + len(marker)
                    found.append(_Mark(at, free, role))
                    break
        return found

    def _marks_by_text(self, text: str) -> list[_Mark]:
        assert self._pattern is not None
        return [
            _Mark(match.start(), match.end(), self._roles[match.group()])
            for match in self._pattern.finditer(text)
        ]

    def _scan(
        self, marks: list[_Mark], size: int, opened: bool, before: Callable[[int], str]
    ) -> _Scan:
        """Walk over the marks. Places are token indices or characters; `before(to)` is the text up
        to a place."""
        assert self.family is not None
        repeats = self.family.repeats
        last_close = max((m.start for m in marks if m.role == "close"), default=-1)
        walk = _Walk(thinking=opened, thought=opened)
        if not opened and self.family.assumed:
            first = next((m.role for m in marks if m.role in ("open", "close")), None)
            if first == "close":
                walk = _Walk(thinking=True, thought=True, flag="opener_missing")
        for mark in marks:
            if mark.role == "open":
                blank = walk.at == 0 and not before(mark.start).strip()
                # In a thought: only the opener that repeats what the prompt has opened already.
                # In content: only where a thought may begin; else it is text that looks like one.
                if blank if walk.thinking else (repeats or (blank and not walk.thought)):
                    walk.take(mark)
                    walk.thinking = walk.thought = True
            elif mark.role == "close":
                if walk.thinking or repeats:
                    walk.take(mark)
                    walk.thinking = False
            elif mark.role == "frame":
                if repeats or not walk.thinking:
                    walk.take(mark)
                    walk.thinking = False
            elif walk.thinking and mark.start > last_close:
                walk.flush(mark.start)
                walk.thinking = False
                walk.flag = "tool_section"
        walk.flush(size)
        return _Scan(walk.pieces, walk.thought, not walk.thinking, walk.flag)

    def _result(
        self,
        ids: list[int],
        pieces: list[_Piece],
        closed: bool,
        flag: str,
        end_id: int | None,
        texts: tuple[str, str] | None = None,
    ) -> Split:
        kinds: list[Kind] = []
        parts: dict[Kind, list[int]] = {"reasoning": [], "content": [], "marker": []}
        for piece in pieces:
            kinds += [piece.kind] * (piece.stop - piece.start)
            parts[piece.kind] += ids[piece.start : piece.stop]
        if texts is None:
            texts = (self._decode(parts["reasoning"]), self._decode(parts["content"]))
        return Split(
            reasoning_ids=tuple(parts["reasoning"]),
            content_ids=tuple(parts["content"]),
            reasoning=texts[0].strip(),
            content=texts[1].strip(),
            closed=closed,
            reasoning_tokens=len(parts["reasoning"]),
            flag=flag,
            kinds=tuple(kinds),
            end_id=end_id,
        )

    def _result_of_text(
        self, ids: list[int], text: str, scan: _Scan, flag: str, end_id: int | None
    ) -> Split:
        """Places in the text become places among the tokens. A token that holds a part of a marker
        counts as marker; the texts are cut to the character."""
        pieces: list[_Piece] = []
        at = 0
        for number, piece in enumerate(scan.pieces):
            last = number == len(scan.pieces) - 1
            # A marker takes every token that it touches, any other piece only whole ones.
            stop = len(ids) if last else self._tokens_to(ids, piece.stop, piece.kind == "marker")
            stop = max(at, stop)
            pieces.append(_Piece(at, stop, piece.kind))
            at = stop
        texts = (
            "".join(text[p.start : p.stop] for p in scan.pieces if p.kind == "reasoning"),
            "".join(text[p.start : p.stop] for p in scan.pieces if p.kind == "content"),
        )
        return self._result(ids, pieces, scan.closed, flag, end_id, texts)

    def _tokens_to(self, ids: list[int], place: int, touched: bool) -> int:
        """How many tokens lie before a place in the text: whole ones, or also those touched."""
        low, high = 0, len(ids)
        while low < high:
            middle = (low + high) // 2
            if len(self._decode(ids[:middle])) < place:
                low = middle + 1
            else:
                high = middle
        if touched or len(self._decode(ids[:low])) == place:
            return low
        return max(0, low - 1)


def _places(ids: Sequence[int], wanted: int) -> Iterator[int]:
    """Every place of one id."""
    at = -1
    while True:
        try:
            at = ids.index(wanted, at + 1)
        except ValueError:
            return
        yield at


def _markers(family: Family) -> Iterator[tuple[_Role, tuple[str, ...]]]:
    yield "open", family.openers
    yield "close", family.closers
    yield "tool", family.tool_openers
    yield "frame", family.frames


def make_splitter(configured: str, tokenizer: Any, eos_ids: Collection[int]) -> Splitter:
    """The splitter of a target: its family as configured, or found in the chat template.

    UnknownFamilyError when `configured` names none.
    """
    template = getattr(tokenizer, "chat_template", None)
    if isinstance(template, dict):
        template = "\n".join(map(str, template.values()))
    family = find_family(configured, template, tokenizer.get_added_vocab())
    return Splitter(tokenizer, family, eos_ids)
