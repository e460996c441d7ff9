"""Validation errors as sentences: what, where (dotted key and line), what to do. All at once."""

from __future__ import annotations

import difflib
import math
import types
import typing
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ValidationError

from eagle_tui.config.lines import Loc, line_of


class ConfigError(ValueError):
    """run.toml is not usable. `problems` holds one sentence for each thing that is wrong."""

    def __init__(self, source: str, problems: Sequence[str]) -> None:
        self.source = source
        self.problems = tuple(problems)
        count = "1 problem" if len(self.problems) == 1 else f"{len(self.problems)} problems"
        super().__init__("\n".join([f"{source}: {count}", *(f"  {p}" for p in self.problems)]))


@dataclass(frozen=True)
class _Place:
    """The model that holds the key of an error, if the key lies in one."""

    model: type[BaseModel] | None
    field: str


def dotted(loc: Loc) -> str:
    """`("dataset", 2, "cap_tokens")` → `dataset[2].cap_tokens`."""
    text = ""
    for part in loc:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def _models(annotation: Any) -> list[type[BaseModel]]:
    """The models that an annotation such as `list[Section]` or `Section | None` holds."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [m for arg in typing.get_args(annotation) for m in _models(arg)]


def _place(model: type[BaseModel], loc: Loc) -> _Place:
    here: type[BaseModel] | None = model
    named = [part for part in loc if isinstance(part, str)]
    for part in named[:-1]:
        if here is None:
            break
        info = here.model_fields.get(part)
        found = _models(info.annotation) if info else []
        here = found[0] if found else None
    return _Place(here, named[-1] if named else "")


def bounds(model: type[BaseModel] | None, field: str) -> str:
    """The allowed range of a field, in words; empty when it has none."""
    info = model.model_fields.get(field) if model else None
    return _range(info.metadata) if info else ""


def _range(metadata: Iterable[Any]) -> str:
    parts: list[str] = []
    for meta in metadata:
        for attribute, words in (
            ("ge", "at least {}"),
            ("gt", "more than {}"),
            ("le", "at most {}"),
            ("lt", "less than {}"),
        ):
            if (limit := getattr(meta, attribute, None)) is not None:
                parts.append(words.format(limit))
        if getattr(meta, "min_length", None):
            parts.append("not empty")
    return " and ".join(parts)


def type_name(annotation: Any) -> str:
    """A type in words: `a whole number`, `one of 'a', 'b'`, `a list of strings`."""
    origin = typing.get_origin(annotation)
    if origin in (typing.Union, types.UnionType):
        args = [a for a in typing.get_args(annotation) if a is not type(None)]
        return " or ".join(type_name(a) for a in args)
    if origin is typing.Literal:
        return "one of " + ", ".join(repr(a) for a in typing.get_args(annotation))
    if origin is typing.Annotated:
        inner, *metadata = typing.get_args(annotation)
        limits = _range(m for info in metadata for m in getattr(info, "metadata", [info]))
        return f"{type_name(inner)}, {limits}" if limits else type_name(inner)
    if origin is list:
        return _many(typing.get_args(annotation)[0])
    if origin is dict:
        return "a table"
    names = {
        int: "a whole number",
        float: "a number",
        str: "a string",
        bool: "true or false",
    }
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return "a table"
    return names.get(annotation, str(annotation))


def _value_type(model: type[BaseModel], loc: Loc) -> Any:
    """Type of the values of the table of free keys in which `loc` lies; None: it lies in none."""
    named = [part for part in loc if isinstance(part, str)]
    place = _place(model, tuple(named[:-1]))
    info = place.model.model_fields.get(place.field) if place.model else None
    annotation = info.annotation if info else None
    return typing.get_args(annotation)[1] if typing.get_origin(annotation) is dict else None


def _element_type(annotation: Any) -> Any:
    """Type of the elements of `list[X]` and `list[X] | None`; else the type itself."""
    if typing.get_origin(annotation) is list:
        return typing.get_args(annotation)[0]
    lists = [a for a in typing.get_args(annotation) if typing.get_origin(a) is list]
    return typing.get_args(lists[0])[0] if len(lists) == 1 else annotation


def _many(item: Any) -> str:
    words = type_name(item)
    plural = {"a table": "tables", "a string": "strings", "a whole number": "whole numbers"}
    for one, many in plural.items():
        if words.startswith(one):
            return f"a list of {many}{words.removeprefix(one)}"
    return f"a list, each {words}"


PATTERNS = {
    r"^[a-z0-9][a-z0-9._-]{0,62}$": "of lower-case letters, digits, `.`, `_` and `-`, at most 63, "
    "the first a letter or digit",
    r"^https?://[^\s/]+(:\d+)?$": "such as http://HOST:PORT, without a path",
}
"""Patterns of the model in words; another one is shown as it is."""


def _sentence(model: type[BaseModel], error: Any) -> str:
    loc: Loc = tuple(error["loc"])
    place = _place(model, loc)
    kind = str(error["type"])
    if kind == "extra_forbidden":
        known = list(place.model.model_fields) if place.model else []
        near = difflib.get_close_matches(place.field, known, n=1, cutoff=0.5)
        where = dotted(loc[:-1]) or "the top level"
        hint = f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(known)}"
        return f"unknown key {place.field!r} in {where}{hint}"
    if kind == "missing":
        return f"{dotted(loc)}: missing; it must be given"
    value = error.get("input")
    shown = f"{value!r}"[:80]
    if kind == "value_error":
        message = str(error["msg"]).removeprefix("Value error, ")
        return f"{dotted(loc) or 'run.toml'}: {message}"
    info = place.model.model_fields.get(place.field) if place.model else None
    annotation = info.annotation if info else _value_type(model, loc)
    if loc and isinstance(loc[-1], int):
        annotation = _element_type(annotation)
    expected = type_name(annotation) if annotation else ""
    if isinstance(value, float) and not math.isfinite(value):
        expected = expected.replace("a number", "a finite number")
    if limits := bounds(place.model, place.field):
        expected = f"{expected}, {limits}" if expected else limits
    if not expected:
        expected = str(error["msg"])
    if kind == "string_pattern_mismatch":
        pattern = error["ctx"]["pattern"]
        expected += f" {PATTERNS[pattern]}" if pattern in PATTERNS else f" matching {pattern}"
    if kind == "list_type" and isinstance(value, dict) and expected.startswith("a list of tables"):
        return f"{dotted(loc)}: write [[{dotted(loc)}]], in two brackets: there may be several"
    return f"{dotted(loc)}: expected {expected}; found {shown}"


def explain(model: type[BaseModel], error: ValidationError, text: str = "") -> list[str]:
    """One sentence for each error, with the line in `text` (the TOML) where it can be found."""
    found: set[tuple[int, str]] = set()
    for item in error.errors():
        loc = tuple(p for p in item["loc"] if not _is_union_tag(p))
        sentence = _sentence(model, {**item, "loc": loc})
        found.add((line_of(text, loc) or 0, with_line(sentence, loc, text)))
    return [sentence for _, sentence in sorted(found)]


def with_line(sentence: str, loc: Loc, text: str) -> str:
    """The sentence with the line in `text` where `loc` stands, if it does."""
    line = line_of(text, loc)
    return f"line {line}: {sentence}" if line else sentence


def _is_union_tag(part: int | str) -> bool:
    """Pydantic puts the tried member of a union (`int`, `list[str]`) into the location."""
    return isinstance(part, str) and part in {
        *("int", "float", "str", "bool"),
        *("list[int]", "list[str]", "constrained-str"),
    }
