"""Tokens of stored responses as training would see them: for the screen, one request a line.

`python -m eagle_tui.pipeline.token_view RUN`, requests on stdin, answers on stdout, JSON lines:

    {"number": 1, "row": {id, state, prompt_ids, output_ids} or {id, token_ids, spans}}
    {"number": 1, "ids": […], "mask": […], "prompt": n, "pieces": […] or null, "dropped": "",
     "note": ""}

The mask is made by the code that merge makes it with. Where only the chat template tells how an
answer ends, that is asked for once, which takes some seconds; otherwise nothing large is imported.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from eagle_tui.config import ConfigError
from eagle_tui.config.model import RunConfig
from eagle_tui.rundir import accepted
from eagle_tui.rundir.paths import RunDir

from . import targets
from .generation import tokens
from .training_rows import Dropped, RowMaker
from .worker import Refused

WINDOW = 8
"""Tokens of which a character is made at most; what is none by then is shown as it is."""
_REPLACEMENT = "�"

Decode = Callable[[Sequence[int]], str]


def pieces(ids: Sequence[int], decode: Decode) -> list[str]:
    """What each token adds to the text. A token that only begins a character adds nothing, the one
    that ends it adds the character; joined, they are the text."""
    out: list[str] = []
    context = read = 0
    for end in range(1, len(ids) + 1):
        # The text of a token can depend on the one before it, so that is decoded again.
        known = decode(ids[context:read]) if read > context else ""
        text = decode(ids[context:end])[len(known) :]
        if text.endswith(_REPLACEMENT) and end - read < WINDOW and end < len(ids):
            out.append("")
            continue
        out.append(text)
        context, read = read, end
    return out


class Viewer:
    """Answers requests about one run's rows."""

    def __init__(self, config: RunConfig, run: RunDir) -> None:
        self._config, self._run = config, run
        self._asked_template = False
        self.note = ""
        self._decode: Decode | None = None
        eos: frozenset[int] = frozenset()
        try:
            tokenizer = tokens.load(config, run)
            self._decode = lambda ids: tokenizer.decode(ids, skip_special_tokens=False)
            eos = targets.eos_ids(config, run, cast("Any", tokenizer))
        except (Refused, OSError, ValueError, ImportError) as error:
            self.note = f"no tokenizer, so no texts, and where an answer ends is not known: {error}"
        self._maker = RowMaker(eos, None, config.merge)

    def view(self, row: dict[str, Any]) -> dict[str, Any]:
        """The answer to one request."""
        dropped = ""
        try:
            made = self._maker_for(row).make(row)
            ids, mask = made.ids.tolist(), made.mask.tolist()
        except Dropped as why:
            dropped = str(why)
            ids = [*(row.get("token_ids") or [*row["prompt_ids"], *row["output_ids"]])]
            mask = [0] * len(ids)
        prompt = row.get("prompt_tokens") if "token_ids" in row else len(row["prompt_ids"])
        return {
            "ids": ids,
            "mask": mask,
            "prompt": int(prompt or 0),
            "pieces": pieces(ids, self._decode) if self._decode is not None else None,
            "dropped": dropped,
            "note": self.note,
        }

    def _maker_for(self, row: dict[str, Any]) -> RowMaker:
        """The maker, with the template's end of an answer if this row needs it."""
        output = row.get("output_ids") or []
        trimmed = row.get("state") == "complete" and output and output[-1] not in self._maker.eos
        if trimmed and not self._asked_template and self._decode is not None:
            self._asked_template = True
            from .template import Renderer

            tokenizer = targets.load_tokenizer(self._config, self._run)
            renderer = Renderer(
                tokenizer, self._maker.eos, self._config.target.chat_template_kwargs
            )
            self._maker = replace(self._maker, end_of_turn=renderer.end_of_turn())
        return self._maker


def main(arguments: list[str]) -> int:
    """Answer until stdin ends; gives the exit code: 2 for settings that cannot be read."""
    run = RunDir.at(Path(arguments[0]))
    try:
        viewer = Viewer(accepted.settings(run)[0], run)
    except (ConfigError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    for line in sys.stdin.buffer:
        number = None
        try:
            request = json.loads(line)
            number = request.get("number")
            answer = viewer.view(request["row"])
        except (
            Refused,
            ValueError,
            LookupError,
            TypeError,
            AttributeError,
            OverflowError,
        ) as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        answer["number"] = number
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
