"""What generation needs of the target's tokenizer: taking answers apart, and the limits of ids."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from eagle_tui.config.model import RunConfig
from eagle_tui.rundir.paths import RunDir

from ..worker import Refused


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
    """The model is known to think before it answers."""
    versions: dict[str, str] = field(default_factory=dict)


class _Fast:
    """A fast tokenizer without the checks that `transformers` makes on each id before decoding;
    they take longer than the decoding itself."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._backend = tokenizer.backend_tokenizer
        self.chat_template = tokenizer.chat_template

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=add_special_tokens))

    def decode(self, token_ids: Sequence[int], **options: Any) -> str:
        if options.get("clean_up_tokenization_spaces") is not False:
            return str(self._tokenizer.decode(token_ids, **options))
        skip = bool(options.get("skip_special_tokens", False))
        return str(self._backend.decode(list(token_ids), skip_special_tokens=skip))

    def get_added_vocab(self) -> dict[str, int]:
        return dict(self._tokenizer.get_added_vocab())


def load_speech(config: RunConfig, run: RunDir) -> Speech:
    """The speech of the configured target. Refused: there is no tokenizer, or an unknown family of
    reasoning markers."""
    import transformers

    from .. import targets
    from ..families import UnknownFamilyError
    from ..reasoning import make_splitter

    tokenizer = targets.load_tokenizer(config, run)
    eos = targets.eos_ids(config, run, tokenizer)
    fast = _Fast(tokenizer) if tokenizer.is_fast else tokenizer
    try:
        splitter = make_splitter(config.target.reasoning, fast, eos)
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
        versions={"transformers": transformers.__version__},
    )
