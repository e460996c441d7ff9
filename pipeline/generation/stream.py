"""A streamed answer: server-sent events added up. Pure.

Events are cumulative by default, and deltas when the server runs with
`--incremental-streaming-output`; `completion_tokens` tells which. The tokens so far are good
whatever happens to the rest of the stream.
"""

from __future__ import annotations

from array import array
from typing import Any

from .answers import Answer, Outcome, Trouble, answer_of, error_of, number, trouble_of
from .fastjson import loads


class Stream:
    """Takes the bytes of one response's body in any pieces."""

    def __init__(self) -> None:
        self.ids: array[int] = array("I")
        """New tokens so far. Replaced, never changed, when more come."""
        self.outcome: Outcome | None = None
        """What the stream meant in the end; None while it has not said so."""
        self._rest: list[bytes] = []

    def feed(self, chunk: bytes) -> bool:
        """Take some bytes; True when there are more tokens than before."""
        if b"\n" not in chunk:
            self._rest.append(chunk)
            return False
        before = len(self.ids)
        *lines, rest = b"".join((*self._rest, chunk)).split(b"\n")
        self._rest = [rest]
        self._take_all([line[5:].strip() for line in lines if line.startswith(b"data:")])
        return len(self.ids) > before

    def end(self) -> Outcome:
        """The body is complete: what it meant. A closing `[DONE]` is not needed; an event that
        finishes the answer is."""
        if self.outcome is None:
            rest = b"".join(self._rest)
            self._rest = []
            if rest.startswith(b"data:"):
                self._take_all([rest[5:].strip()])
        return self.outcome or Trouble("lost", "the stream ended before the answer did", 200)

    def _take_all(self, events: list[bytes]) -> None:
        """Take events that came together. One with all tokens makes those before it needless, so
        that they are not even parsed."""
        events = [data for data in events if data != b"[DONE]"]
        last = self._parse(events[-1]) if events and self.outcome is None else None
        if last is not None and len(events) > 1 and not _has_all(last):
            for data in events[:-1]:
                if self.outcome is None and (event := self._parse(data)) is not None:
                    self._take(event[0])
        if last is not None and self.outcome is None:
            self._take(last[0])

    def _parse(self, data: bytes) -> tuple[Any] | None:
        """An event in a box; None: it is no JSON, and the stream is broken."""
        try:
            return (loads(data),)
        except ValueError as error:
            self.outcome = Trouble("garbled", f"an event is not JSON ({error})", 200)
            return None

    def _take(self, event: Any) -> None:
        if isinstance(event, dict) and event.get("error") is not None:
            self.outcome = trouble_of(*error_of(event), plain=False)
            return
        answer = answer_of(event, streamed=True)
        if isinstance(answer, Trouble):
            self.outcome = answer
            return
        if not self._add(answer.output_ids, number(event["meta_info"].get("completion_tokens"))):
            # Some events were lost, as when 0.5.17 has retracted the request. What is here is the
            # beginning of the answer, to be continued.
            self.outcome = Answer(
                self.ids, "abort", None, answer.prompt_tokens, len(self.ids), True,
                "the stream left out tokens",
            )  # fmt: skip
        elif answer.finish is not None:
            self.outcome = _finished(answer, self.ids, event["meta_info"])

    def _add(self, ids: array[int], count: int | None) -> bool:
        """Take over an event's tokens; False: they do not fit to those so far."""
        so_far = self.ids
        if count is None:
            count = len(ids) if ids[: len(so_far)] == so_far else len(so_far) + len(ids)
        if len(ids) == count and len(ids) >= len(so_far):
            self.ids = ids
        elif len(so_far) + len(ids) == count:
            self.ids = so_far + ids
        else:
            return False
        return True


def _has_all(event: tuple[Any]) -> bool:
    """Does an event hold all tokens of the answer so far?"""
    try:
        count = event[0]["meta_info"]["completion_tokens"]
        return bool(count and count == len(event[0]["output_ids"]))
    except (KeyError, TypeError):
        return False


def _finished(answer: Answer, ids: array[int], meta: dict[str, Any]) -> Outcome:
    status = meta["finish_reason"].get("status_code")
    if answer.finish == "abort" and isinstance(status, int) and status >= 400:
        # Without a stream this would have been the HTTP status.
        return trouble_of(status, answer.message, plain=False)
    return Answer(
        ids, answer.finish, answer.length, answer.prompt_tokens, len(ids), answer.plain_abort,
        answer.message,
    )  # fmt: skip
