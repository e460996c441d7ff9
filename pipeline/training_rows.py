"""Stored rows as training rows: prompt and answer as one sequence, with its loss mask."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from eagle_tui.config.model import MergeSection

from .json_stream import parse
from .shards import TokenRow


class Dropped(ValueError):
    """A row that is not trained on; the message is the reason, for counting."""


@dataclass(frozen=True)
class RowMaker:
    """Makes training rows of stored ones."""

    eos: Collection[int]
    end_of_turn: int | None
    """What the template ends an answer with; set where a server kept it back."""
    settings: MergeSection

    def make(self, row: dict[str, Any]) -> TokenRow:
        """The training row of a native row (token_ids, spans) or a response (prompt_ids,
        output_ids). Dropped, with a reason, when it is not to be used."""
        made = self._native(row) if "token_ids" in row else self._response(row)
        limit = self.settings.max_tokens
        if limit is not None and len(made.ids) > limit:
            raise Dropped("longer than max_tokens")
        if not made.mask.any():
            raise Dropped("nothing to predict")
        return made

    def _native(self, row: dict[str, Any]) -> TokenRow:
        ids = _ids(row, "token_ids")
        mask = np.zeros(len(ids), np.uint8)
        for start, end in row["spans"]:
            mask[start:end] = 1
        return TokenRow(ids, mask)

    def _response(self, row: dict[str, Any]) -> TokenRow:
        state = row.get("state")
        if state not in self.settings.include:
            raise Dropped(f"state {state}")
        prompt, output = _ids(row, "prompt_ids"), _ids(row, "output_ids")
        if not len(prompt) or not len(output):
            raise Dropped("empty")
        output = self._one_end(output, complete=state == "complete")
        mask = np.zeros(len(prompt) + len(output), np.uint8)
        mask[len(prompt) :] = 1
        return TokenRow(np.concatenate([prompt, output]), mask)

    def _one_end(self, output: npt.NDArray[np.int32], *, complete: bool) -> npt.NDArray[np.int32]:
        """A complete answer ends with exactly one end-of-turn token, also where the server trimmed
        it or sent it twice. A truncated one is left as it is."""
        end = len(output)
        while end > 1 and output[end - 1] in self.eos and output[end - 2] in self.eos:
            end -= 1
        output = output[:end]
        if complete and output[-1] not in self.eos and self.end_of_turn is not None:
            output = np.append(output, np.int32(self.end_of_turn))
        return output


def _ids(row: dict[str, Any], key: str) -> npt.NDArray[np.int32]:
    try:
        found = np.asarray(row.get(key) or [], dtype=np.int64)
    except (TypeError, ValueError, OverflowError):
        raise Dropped(f"{key} are no token ids") from None
    if found.ndim != 1 or (found.size and not 0 <= found.min() <= found.max() < 2**31):
        raise Dropped(f"{key} are no token ids")
    return found.astype(np.int32)


def read_row(line: bytes) -> dict[str, Any]:
    """A stored row. Dropped when the line is not one."""
    try:
        row = parse(line)
    except ValueError:
        raise Dropped("broken line") from None
    if not isinstance(row, dict) or "id" not in row:
        raise Dropped("broken line")
    return row
