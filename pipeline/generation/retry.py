"""The operator's orders to generate prompts again, each carried out exactly once.

An order names final states. In each dataset that it concerns: stored rows in these states become
dead letters that are not final, tokens kept of these prompts are forgotten, the rows leave the
responses, and at last a marker row `{"retry": seq, "states": [...]}` in the dead letters says that
it is done; in the same moment it clears the final dead letters in these states. Killed before the
marker, all is done again, and comes to the same: a row that is a dead letter of this order already
is not written twice, and nothing is generated before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from eagle_tui.rundir import jsonl
from eagle_tui.rundir.desired import Retry
from eagle_tui.rundir.jsonl import Appender

from .fastjson import dumps, loads
from .partials import forget
from .responses import dead_row, drop_lines, given_up, read_head


def done(dead: Path) -> set[int]:
    """Numbers of the orders that were carried out in a dataset, from its dead letters."""
    found: set[int] = set()
    for _, line in jsonl.lines(dead):
        # Parsed only where it can be a marker: dead letters hold whole answers.
        if line.startswith(b'{"retry":'):
            try:
                found.add(int(loads(line)["retry"]))
            except (ValueError, KeyError, TypeError):
                continue
    return found


def concerning(orders: Sequence[Retry], dataset: str) -> Iterator[Retry]:
    """The orders for a dataset, oldest first."""
    return (o for o in sorted(orders, key=lambda o: o.seq) if o.dataset in (None, dataset))


def carry_out(order: Retry, responses: Path, dead: Path, partial: Path, at: float) -> int:
    """Carry out an order in one dataset; gives the number of prompts that are open again.

    Nobody may have the files open. `at`: Unix seconds. OSError: the disk is full or broken; the
    order is not done, and can be carried out again.
    """
    jsonl.repair(responses)
    states = set(order.states)
    again = {id for id, state in given_up(dead).items() if state in states}
    moved: dict[str, int] = {}
    for offset, line in jsonl.lines(responses):
        head = read_head(line)
        if head is not None and head.state in states:
            moved[head.id] = offset
    with Appender(dead) as letters:
        known = _moved_before(dead, order.seq)
        if moved:
            with responses.open("rb") as file:
                for id, offset in moved.items():
                    if id not in known:
                        file.seek(offset)
                        letters.append_bytes(_letter(file.readline(), order.seq, at))
            letters.sync()
        if again or moved:
            forget(partial, again | moved.keys())
        if moved:
            drop_lines(responses, set(moved.values()))
        marker = {"retry": order.seq, "states": sorted(states), "at": round(at, 3)}
        letters.append_bytes(dumps(marker) + b"\n")
    return len(again | moved.keys() | known)


def _letter(line: bytes, seq: int, at: float) -> bytes:
    row = loads(line)
    letter = dead_row(
        id=row["id"],
        dataset=row["dataset"],
        state=row["state"],
        final=False,
        reason=f"generated again by order {seq}",
        endpoint=row["endpoint"],
        attempt=row["attempt"],
        at=round(at, 3),
        prompt_tokens=row["usage"]["prompt_tokens"],
        output_ids=row["output_ids"],
        reasoning=row["reasoning"],
        content=row["content"],
    )
    return dumps({**letter, "order": seq}) + b"\n"


def _moved_before(dead: Path, seq: int) -> set[str]:
    """Ids whose stored rows became dead letters of this order before it was interrupted."""
    found: set[str] = set()
    mark = b'"order":%d}' % seq
    for _, line in jsonl.lines(dead):
        if line.endswith(mark):
            try:
                found.add(str(loads(line)["id"]))
            except (ValueError, KeyError, TypeError):
                continue
    return found
