"""Hostile text made safe: model output and dataset text never reach a terminal or a file as is."""

from __future__ import annotations

import json
import math
import re
from typing import Any

_SURROGATE = re.compile("[\ud800-\udfff]")
_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u206f"  # direction of writing
    "\u2028\u2029\ufff9-\ufffb\U000e0000-\U000e007f]"  # lines, annotations, tags: never seen
)


def scrub(text: str) -> str:
    """Lone surrogates become U+FFFD, so that the text is valid UTF-8."""
    return _SURROGATE.sub("\ufffd", text)


def plain(value: Any, deepest: int = 8) -> Any:
    """A value of JSON as one that can be stored and sent on whatever it holds: lone surrogates
    become U+FFFD, NaN and infinities text, and what is nested more than `deepest` deep an
    ellipsis."""
    if isinstance(value, str):
        return scrub(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if not isinstance(value, dict | list | tuple):
        return value
    if not deepest:
        return "…"
    if isinstance(value, dict):
        return {scrub(str(key)): plain(item, deepest - 1) for key, item in value.items()}
    return [plain(item, deepest - 1) for item in value]


def parse_json(data: str | bytes) -> Any:
    """The value of a JSON text. ValueError when it is none, or so deeply nested that Python cannot
    read it: a few kB of brackets would otherwise end whoever reads them."""
    try:
        return json.loads(data)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _visible(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x20:
        return chr(0x2400 + code)
    return "\u2421" if code == 0x7F else f"<{code:04x}>"


def visible(text: str) -> str:
    """Control characters (but newline and tab) and direction overrides as visible glyphs.

    What comes back can be printed on a terminal: no escape sequence survives.
    """
    return _CONTROL.sub(_visible, scrub(text.replace("\r\n", "\n"))).replace("\t", "    ")


_SECRET = re.compile(r"((?:admin[-_])?api[-_]key['\"]?[\s:=]+)(['\"]?)[^\s'\",)}]+")


def redact(text: str) -> str:
    """The text without the keys that SGLang prints with its arguments."""
    return _SECRET.sub(r"\1\2***", text)
