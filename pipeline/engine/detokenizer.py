"""Text of a token list that grows, in amortised constant work per token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

#: What a decoder writes for bytes that are no character (yet).
REPLACEMENT = "�"


class Decoder(Protocol):
    """The one method of a tokenizer that is needed here."""

    def decode(self, token_ids: list[int], *, skip_special_tokens: bool) -> str: ...


class Detokenizer:
    """Grows the text of one request.

    ``text`` only ever grows, and while the request runs it never ends in a character of which
    bytes are still missing. `finish` gives the text of all tokens, with U+FFFD where the model
    was cut inside a character, exactly as decoding the whole list would.
    """

    def __init__(self, decoder: Decoder, *, skip_special_tokens: bool) -> None:
        self._decoder = decoder
        self._skip = skip_special_tokens
        # tokens[:_read] are in `text`. Those from _context to _read, the last piece, are decoded
        # again with the next one: the text of a token can depend on its left neighbour.
        self._context = 0
        self._read = 0
        self.text = ""

    def _pending(self, tokens: Sequence[int]) -> str:
        known = self._decode(tokens[self._context : self._read])
        both = self._decode(tokens[self._context :])
        return both[len(known) :]

    def _decode(self, tokens: Sequence[int]) -> str:
        return self._decoder.decode(list(tokens), skip_special_tokens=self._skip) if tokens else ""

    def feed(self, tokens: Sequence[int]) -> str:
        """Take all output tokens so far (not only the new ones); return the text so far."""
        pending = self._pending(tokens)
        if pending and not pending.endswith(REPLACEMENT):
            self.text += pending
            self._context, self._read = self._read, len(tokens)
        return self.text

    def finish(self, tokens: Sequence[int]) -> str:
        """Text of the whole list, half characters at its end included as U+FFFD.

        The list may also be shorter than what was fed: a stop token has to go.
        """
        if len(tokens) < self._read:
            return self._decode(tokens)
        if len(tokens) == self._read:
            return self.text
        return self.text + self._pending(tokens)
