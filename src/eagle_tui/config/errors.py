"""Validation errors as sentences: what, where (dotted key and line), what to do. All at once."""

from __future__ import annotations

import difflib
import types
import typing
from collections.abc import Sequence
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
    if info is None:
        return ""
    parts: list[str] = []
    for meta in info.metadata:
        for attribute, words in (
            ("ge", "at least {}"),
            ("gt", "more than {}"),
            ("le", "at most {}"),
            ("lt", "less than {}"),
        ):
            if (limit := getattr(meta, attribute, None)) is not None:
                parts.append(words.format(limit))
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
        return type_name(typing.get_args(annotation)[0])
    if origin is list:
        return f"a list of {type_name(typing.get_args(annotation)[0])}"
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
    annotation = info.annotation if info else None
    if loc and isinstance(loc[-1], int) and typing.get_args(annotation):
        annotation = typing.get_args(annotation)[0]
    expected = type_name(annotation) if info else ""
    if limits := bounds(place.model, place.field):
        expected = f"{expected}, {limits}" if expected else limits
    if not expected:
        expected = str(error["msg"])
    if kind == "string_pattern_mismatch":
        expected += f" matching {error['ctx']['pattern']}"
    return f"{dotted(loc)}: expected {expected}; found {shown}"


def explain(model: type[BaseModel], error: ValidationError, text: str = "") -> list[str]:
    """One sentence for each error, with the line in `text` (the TOML) where it can be found."""
    found: set[tuple[int, str]] = set()
    for item in error.errors():
        loc = tuple(p for p in item["loc"] if not _is_union_tag(p))
        sentence = _sentence(model, {**item, "loc": loc})
        line = line_of(text, loc)
        found.add((line or 0, f"line {line}: {sentence}" if line else sentence))
    return [sentence for _, sentence in sorted(found)]


def _is_union_tag(part: int | str) -> bool:
    """Pydantic puts the tried member of a union (`int`, `list[str]`) into the location."""
    return isinstance(part, str) and part in {
        *("int", "float", "str", "bool"),
        *("list[int]", "list[str]", "constrained-str"),
    }
