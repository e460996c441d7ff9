"""Which flags a server knows, read from its own `--help`."""

from __future__ import annotations

import asyncio
import contextlib
import difflib
import os
import re
import shutil
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from eagle_tui import text

HELP_DEADLINE_S = 180.0
"""SGLang imports for 5 s on an idle machine and for a minute on a busy one before it answers."""
HELP_MOST = 4 << 20
HELP_ENV = {"COLUMNS": "100", "NO_COLOR": "1"}
NO_GPU = {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": ""}
"""No GPU memory is touched beside the server that works. A program that cannot even explain itself
without a GPU is asked again with them."""

OPTION = re.compile(r"^ {1,4}(-\S.*)$")
WORD = re.compile(r"^(?P<name>--?[A-Za-z0-9][\w.-]*)(?:[ =](?P<value>.+))?$")


class HelpError(RuntimeError):
    """The server's `--help` could not be read; the message says why."""


@dataclass(frozen=True)
class Flag:
    """One flag. Names are without dashes, the main one first."""

    names: tuple[str, ...]
    takes_value: bool
    many: bool
    """Takes several words."""
    choices: tuple[str, ...]
    """Empty: anything."""
    help: str

    @property
    def suffixes(self) -> bool:
        """A number of it may be written as 16k or 1Mi."""
        return "suffixes" in self.help


@dataclass(frozen=True)
class Flags:
    """Every flag that one installed server knows."""

    by_name: Mapping[str, Flag] = field(default_factory=dict)
    """By each of its names, without dashes."""

    def get(self, name: str) -> Flag | None:
        """The flag of that name; `_` and `-` are the same, and a beginning that only one flag has
        is enough, as for argparse."""
        name = plain(name)
        if found := self.by_name.get(name):
            return found
        longer = {id(f): f for n, f in self.by_name.items() if n.startswith(name) and len(name) > 1}
        return next(iter(longer.values())) if len(longer) == 1 else None

    def nearest(self, name: str) -> str | None:
        """The known name most like it; None: none is."""
        found = difflib.get_close_matches(plain(name), list(self.by_name), n=1, cutoff=0.6)
        return found[0] if found else None

    def kept(self) -> list[Any]:
        """As JSON: names and kinds, by which a command line is made; `of_kept` reads it."""
        ours = {id(flag): flag for flag in self.by_name.values()}
        return [[flag.names, flag.takes_value, flag.many] for flag in ours.values()]

    @classmethod
    def of_kept(cls, rows: list[Any]) -> Flags:
        """What `kept` gave; without choices and help."""
        flags = [Flag(tuple(names), value, many, (), "") for names, value, many in rows]
        return cls({name: flag for flag in flags for name in flag.names})


def plain(name: str) -> str:
    """`--max_total_tokens` → `max-total-tokens`."""
    return name.strip().lstrip("-").replace("_", "-")


def parse_help(help_text: str) -> Flags:
    """The flags in an argparse help. ValueError when there are none: it is no such help."""
    by_name: dict[str, Flag] = {}
    head, words = "", []
    for line in [*help_text.split("\n"), "end"]:
        option = OPTION.match(line)
        if not option and line.startswith(" ") and head:
            words.append(line.strip())
            continue
        if head and (flag := _flag(head, " ".join(w for w in words if w))):
            by_name.update(dict.fromkeys(flag.names, flag))
        head, words = "", []
        if option:
            # The explanation is on the same line when two blanks leave room for it.
            head, _, rest = option[1].partition("  ")
            words = [rest.strip()]
    if not any(len(name) > 1 for name in by_name):
        raise ValueError("no flags in the output of --help")
    return Flags(by_name)


def _flag(head: str, help_text: str) -> Flag | None:
    names: list[str] = []
    value = ""
    for part in re.split(r", (?=-)", head):
        match = WORD.match(part.strip())
        if match is None:
            return None
        names.append(plain(match["name"]))
        value = match["value"] or value
    choices = re.search(r"\{([^}]*)\}", value)
    return Flag(
        names=tuple(sorted(names, key=lambda name: len(name) == 1)),
        takes_value=bool(value),
        many="..." in value,
        choices=tuple(choices[1].split(",")) if choices else (),
        help=text.visible(help_text),
    )


_read: dict[tuple[object, ...], Flags] = {}


async def read_help(
    argv: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    deadline_s: float = HELP_DEADLINE_S,
) -> Flags:
    """What the command that starts a server says with `--help`. HelpError when it says nothing.

    The whole command is given, since a wrapper script may need its arguments; `--help` comes last
    and wins. Remembered until the program, or the packages beside its Python, are changed. Pass the
    command of run.toml, not that of a retune: flags that do not exist would fail before `--help`.
    """
    key = _identity(argv)
    if key not in _read:
        ours = {**os.environ, **(env or {}), **HELP_ENV}
        output = await _ask(argv, {**ours, **NO_GPU}, cwd, deadline_s)
        try:
            _read[key] = parse_help(output)
        except ValueError:
            output = await _ask(argv, ours, cwd, deadline_s)
            try:
                _read[key] = parse_help(output)
            except ValueError as error:
                last = text.visible(output.strip().rpartition("\n")[2])[:200]
                raise HelpError(f"{error}; last line: {last}" if last else str(error)) from error
    return _read[key]


def _identity(argv: Sequence[str]) -> tuple[object, ...]:
    """What the answer depends on: the words but the port, and when program and packages changed."""
    words = list(argv)
    if "--port" in words[:-1]:
        at = words.index("--port")
        del words[at : at + 2]
    program = shutil.which(words[0]) if words else None
    changed: list[object] = []
    if program:
        venv = Path(program).parent.parent
        for path in (Path(program), *sorted(venv.glob("lib/python*/site-packages"))):
            with contextlib.suppress(OSError):
                changed.append(path.stat().st_mtime_ns)
    return (tuple(words), tuple(changed))


async def _ask(
    argv: Sequence[str], env: Mapping[str, str], cwd: Path | None, deadline_s: float
) -> str:
    """What the program prints."""
    try:
        child = await asyncio.create_subprocess_exec(
            *argv,
            "--help",
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=env,
            cwd=cwd,
            start_new_session=True,
        )
    except OSError as error:
        raise HelpError(f"{argv[0]} cannot be started: {error.strerror or error}") from error
    assert child.stdout is not None
    try:
        async with asyncio.timeout(deadline_s):
            data = await _all(child.stdout)
            await child.wait()
    except TimeoutError as error:
        raise HelpError(f"no answer to --help within {deadline_s:.0f} s") from error
    finally:
        # A wrapper that took --help for something else must not leave a server behind.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        await child.wait()
    return data.decode("utf-8", "replace")


async def _all(stream: asyncio.StreamReader) -> bytes:
    data = b""
    while chunk := await stream.read(1 << 16):
        data += chunk
        if len(data) > HELP_MOST:
            raise HelpError("its answer to --help does not end")
    return data
