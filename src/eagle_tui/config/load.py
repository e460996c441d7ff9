"""Reading run.toml and applying dotted overrides."""

from __future__ import annotations

import codecs
import difflib
import re
import shlex
import tomllib
from collections.abc import Iterator, MutableMapping, MutableSequence, Sequence
from pathlib import Path
from typing import Any

import tomlkit
from pydantic import ValidationError
from tomlkit.exceptions import TOMLKitError

from eagle_tui.config.errors import ConfigError, dotted, explain, with_line
from eagle_tui.config.lines import Loc
from eagle_tui.config.model import RunConfig


def parse_config(text: str, *, source: str = "run.toml") -> RunConfig:
    """The configuration in a TOML text. ConfigError names everything that is wrong with it."""
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(source, [f"not valid TOML: {error}"]) from error
    except RecursionError:
        raise ConfigError(source, ["not valid TOML: nested too deeply"]) from None
    further = [*_told(unusable(raw), text), *same_names(raw)]
    try:
        config = RunConfig.model_validate(raw)
    except ValidationError as error:
        raise ConfigError(source, [*explain(RunConfig, error, text), *further]) from error
    if further:
        raise ConfigError(source, further)
    return config


def unusable(value: Any, at: Loc = ()) -> Iterator[tuple[Loc, str]]:
    """Values that no setting can take, whatever its type: where, and what is wrong."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from unusable(item, (*at, key))
            if "\0" in key:
                yield at, f"the key {key!r} holds a NUL character, which no program takes"
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from unusable(item, (*at, number))
    elif isinstance(value, str) and "\0" in value:
        yield at, "holds a NUL character, which no file and no program takes"
    elif isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        yield at, f"{value} is out of range; TOML's whole numbers have 64 bits"


def _told(found: Iterator[tuple[Loc, str]], text: str) -> list[str]:
    return [with_line(f"{dotted(at)}: {what}", at, text) for at, what in found]


def same_names(raw: dict[str, Any]) -> list[str]:
    """A sentence for each name that two datasets or two servers share, and for each port."""
    found: list[str] = []
    for what in ("dataset", "server"):
        items = raw.get(what)
        tables = items if isinstance(items, list) else []
        names = [t.get("name") for t in tables if isinstance(t, dict)]
        for name in sorted({n for n in names if isinstance(n, str) and names.count(n) > 1}):
            found.append(f"two {what}s are named {name!r}; names must differ")
    servers = raw.get("server")
    tables = [t for t in servers if isinstance(t, dict)] if isinstance(servers, list) else []
    ports = [t["port"] for t in tables if isinstance(t.get("port"), int) and not t.get("url")]
    for port in sorted({port for port in ports if ports.count(port) > 1}):
        found.append(f"two servers want port {port}; ports must differ, or be left out")
    return found


def load_config(path: Path) -> RunConfig:
    """The configuration in a file. ConfigError when it is missing, unreadable or wrong."""
    return parse_config(read_text(path), source=str(path))


def read_text(path: Path) -> str:
    """The file as text; ConfigError says what to do when there is none."""
    try:
        data = path.read_bytes()
        if other := _encoding(data):
            raise ConfigError(str(path), [f"it is {other}; save it as UTF-8"])
        return data.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except FileNotFoundError:
        kept = path.with_name("run.accepted.toml")
        hint = (
            f"no such file; `{shlex.join(['cp', str(kept), str(path)])}` brings back what the "
            "run goes by"
            if kept.is_file()
            else f"no such file; make one with `eagle-tui init {path.parent}`"
        )
        raise ConfigError(str(path), [hint]) from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        hint = f"line {line}: byte {error.object[error.start]:#x} is not UTF-8; save it as UTF-8"
        raise ConfigError(str(path), [hint]) from error
    except OSError as error:
        raise ConfigError(str(path), [f"cannot be read: {error.strerror}"]) from error


def _encoding(data: bytes) -> str:
    """What a file is that is surely no UTF-8 text, by its first bytes; else empty."""
    if data.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return "UTF-32"
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "UTF-16"
    head = data[:200]
    zeros = head.count(0)
    if not zeros:
        return ""
    return "UTF-16" if zeros >= len(head) // 3 else "a binary file, or damaged: it holds NUL bytes"


_PART = re.compile(r"^([A-Za-z0-9_-]+)(?:\[([A-Za-z0-9._-]+)\])?$")


def override(text: str, settings: Sequence[str]) -> str:
    """`text` with settings such as `generate.concurrency=64` applied; comments are kept.

    A value is TOML (`64`, `true`, `[1, 2]`, `"x"`); other text is taken as a string. A table of
    a list is named by its name or number: `dataset[arith].cap_tokens=5000`, `dataset[0].…`.
    ConfigError names each setting that cannot be applied.
    """
    try:
        document = tomlkit.parse(text)
    except (TOMLKitError, RecursionError) as error:
        raise ConfigError("run.toml", [f"not valid TOML: {error}"]) from error
    problems = [p for setting in settings if (p := _apply(document, setting))]
    if problems:
        raise ConfigError("--set", problems)
    return tomlkit.dumps(document)


def _split(key: str) -> list[str]:
    """Dots inside brackets belong to the name there."""
    return re.split(r"\.(?![^\[]*\])", key)


def _apply(document: tomlkit.TOMLDocument, setting: str) -> str | None:
    """Apply one setting; gives what is wrong with it."""
    key, equals, value = setting.partition("=")
    key = key.strip()
    if not equals or not key:
        return f"{setting!r}: write it as KEY=VALUE, for example generate.concurrency=64"
    here: Any = document
    parts = _split(key)
    for number, part in enumerate(parts):
        match = _PART.match(part)
        if not match:
            return f"{setting!r}: {part!r} is not a key"
        name, selector = match.groups()
        last = number == len(parts) - 1
        if last and not selector:
            here[name] = _value(value.strip())
            return None
        if name not in here:
            if selector:
                return f"{setting!r}: there is no [[{name}]] in the file"
            here[name] = tomlkit.table()
        here = here[name]
        if selector:
            chosen = _choose(here, selector)
            if isinstance(chosen, str):
                return f"{setting!r}: {chosen}"
            here = chosen
        if not isinstance(here, MutableMapping):
            return f"{setting!r}: {part!r} is not a table"
    return f"{setting!r}: name a key of the table"


def _choose(items: Any, selector: str) -> Any:
    """A table of a list by number or name; a sentence (str) when there is none."""
    if not isinstance(items, MutableSequence):
        return "it is not a list of tables"
    if selector.isdigit():
        index = int(selector)
        return items[index] if index < len(items) else f"there are only {len(items)} of them"
    names = [str(item.get("name", "")) for item in items]
    if selector in names:
        return items[names.index(selector)]
    near = difflib.get_close_matches(selector, names, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(names)}"
    return f"none is named {selector!r}{hint}"


def _value(text: str) -> Any:
    try:
        return tomlkit.value(text)
    except TOMLKitError:
        return tomlkit.string(text)
