"""JSON at the speed of the wire: rows and requests hold thousands of token ids.

orjson is strict where Python's own module is not (lone surrogates, NaN in what is read, numbers
beyond 64 bit), so that one steps in for the few texts that need it.
"""

from __future__ import annotations

import json
from typing import Any

import orjson

from eagle_tui.text import parse_json, scrub


def dumps(body: Any) -> bytes:
    """Compact JSON in UTF-8, without a newline. Lone surrogates become U+FFFD, NaN null."""
    try:
        # Copied, since orjson hands over the whole buffer that it grew, more than twice as large.
        return bytes(memoryview(orjson.dumps(body)))
    except (orjson.JSONEncodeError, TypeError):
        text = json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return scrub(text).encode()


def loads(data: bytes) -> Any:
    """The value in a JSON text. ValueError: it is none."""
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return parse_json(data)
