"""What generation needs of the target's tokenizer: taking answers apart, and the limits of ids."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

from eagle_tui.config.model import RunConfig
from eagle_tui.rundir.paths import RunDir

from ..worker import Refused
from . import tokens


class Parts(Protocol):
    """An answer taken apart; see `reasoning.Split`."""

    @property
    def reasoning(self) -> str: ...

    @property
    def content(self) -> str: ...

    @property
    def reasoning_tokens(self) -> int: ...

    @property
    def flag(self) -> str: ...


@dataclass(frozen=True)
class Speech:
    """The target's way of speaking."""

    split: Callable[[Sequence[int], bool], Parts]
    """Takes an answer's ids apart; second argument: does its prompt end inside a thought? Runs on
    the event loop: decoding holds the interpreter's lock anyway, and 16,000 tokens take 10 ms."""
    eos_ids: frozenset[int]
    vocabulary: int
    """Token ids are below this; a larger one crashes a server."""
    context: int | None
    """Context of the model by its own config, for servers that do not tell theirs."""
    reasons: bool = False
    """The model has a way of reasoning, so that answers should show it."""
    versions: dict[str, str] = field(default_factory=dict)


def load_speech(config: RunConfig, run: RunDir) -> Speech:
    """The speech of the configured target. Refused: there is no tokenizer, or an unknown family of
    reasoning markers."""
    from .. import targets
    from ..families import UnknownFamilyError
    from ..reasoning import make_splitter

    tokenizer = tokens.load(config, run)
    eos = targets.eos_ids(config, run, cast("Any", tokenizer))
    try:
        splitter = make_splitter(config.target.reasoning, tokenizer, eos)
    except UnknownFamilyError as error:
        raise Refused(f"target.reasoning: {error}") from error
    context = None
    with contextlib.suppress(Refused):  # a server tells its own; this is for those that do not
        context = targets.context_length(config, run)
    return Speech(
        split=splitter.split,
        eos_ids=eos,
        vocabulary=len(tokenizer),
        context=context,
        reasons=splitter.family is not None,
        versions=tokenizer.versions,
    )
