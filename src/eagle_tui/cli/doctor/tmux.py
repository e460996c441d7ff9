"""What tmux lets through: its version, its options, and what it thinks of the terminal outside."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field

from eagle_tui.cli.doctor.findings import Finding

CONF = "~/.tmux.conf"
ASK_S = 5.0
_OPTIONS = (
    "default-terminal", "terminal-features", "terminal-overrides", "escape-time", "focus-events",
    "set-clipboard", "allow-passthrough",
)  # fmt: skip
_CLIENT = ("client_termname", "client_termfeatures", "client_utf8", "client_width", "client_height")
SLOW_ESCAPE_MS = 50
FEATURES_SINCE = (3, 2)


@dataclass(frozen=True)
class Tmux:
    """One tmux as seen from a pane of it."""

    version: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    client: Mapping[str, str] = field(default_factory=dict)
    """`display-message` variables of the client that shows the pane; empty when none does."""

    @property
    def number(self) -> tuple[int, int]:
        """3.3a is (3, 3); (0, 0) when the version cannot be read, as in `next-3.5` without one."""
        found = re.search(r"(\d+)\.(\d+)", self.version)
        return (int(found[1]), int(found[2])) if found else (0, 0)


def look(command: tuple[str, ...] = ("tmux",)) -> Tmux:
    """Ask the tmux that this process runs in. OSError when there is no such program or answer."""
    options: dict[str, str] = {}
    for scope in ("-s", "-gw", "-g"):
        for line in _ask(*command, "show-options", scope, check=False).splitlines():
            name, _, value = line.partition(" ")
            base = name.split("[")[0]
            if base in _OPTIONS:
                value = value.strip('"')
                options[base] = f"{options[base]}\n{value}" if base in options else value
    marks = "\t".join(f"#{{{name}}}" for name in _CLIENT)
    values = _ask(*command, "display-message", "-p", marks, check=False).rstrip("\n").split("\t")
    client = dict(zip(_CLIENT, values, strict=False))
    return Tmux(
        version=_ask(*command, "-V").strip().removeprefix("tmux "),
        options=options,
        client=client if client.get("client_termname") else {},
    )


def findings(tmux: Tmux, environ: Mapping[str, str]) -> list[Finding]:
    """What to say about it, with the line for each lack. Pure."""
    found = [_version(tmux), _terminal(tmux), *_outside(tmux, environ), _escape(tmux)]
    found += [_focus(tmux), _clipboard(tmux)]
    passthrough = tmux.options.get("allow-passthrough")
    if passthrough is not None:
        found.append(_ok("passthrough", f"allow-passthrough {passthrough}; not needed"))
    return found


def _version(tmux: Tmux) -> Finding:
    if tmux.number and (0, 0) < tmux.number < FEATURES_SINCE:
        return Finding(
            "lack", "tmux", f"{tmux.version}: older than 3.2, which passes colours, focus and "
            "copying better; install a newer one, or use the lines below",
        )  # fmt: skip
    return _ok("tmux", tmux.version)


def _terminal(tmux: Tmux) -> Finding:
    name = tmux.options.get("default-terminal", "")
    if name in ("tmux-256color", "screen-256color"):
        return _ok("default-terminal", name)
    return _lack(
        "default-terminal",
        f"{name or 'not set'}: programs inside see few colours and no italics",
        'set -g default-terminal "tmux-256color"',
    )


def _outside(tmux: Tmux, environ: Mapping[str, str]) -> list[Finding]:
    """What tmux thinks of the terminal outside."""
    if not tmux.client:
        return [_ok("terminal outside", "no client is attached now; it cannot be judged")]
    term = tmux.client["client_termname"]
    features = set(tmux.client.get("client_termfeatures", "").split(","))
    overrides = tmux.options.get("terminal-overrides", "")
    rgb = "RGB" in features or bool(re.search(r":(Tc|RGB)\b", overrides))
    found = []
    if not rgb:
        old = tmux.number < FEATURES_SINCE
        line = (
            f'set -ga terminal-overrides ",{term}:Tc"'
            if old
            else f'set -as terminal-features ",{term}:RGB"'
        )
        found.append(
            _lack(
                "24-bit colour",
                f"tmux sends {term} at most 256 colours; if your terminal has 24-bit colour",
                line,
            )
        )
    elif environ.get("COLORTERM") not in ("truecolor", "24bit"):
        found.append(
            _lack(
                "24-bit colour",
                "tmux passes it, but does not tell programs so: they use 256 colours",
                "set-environment -g COLORTERM truecolor",
            )
        )
    else:
        found.append(_ok("24-bit colour", f"passed on to {term}"))
    if tmux.client.get("client_utf8") == "0":
        found.append(
            Finding(
                "bad",
                "UTF-8",
                "tmux takes the terminal outside for one without UTF-8: lines and bars become _",
                ("tmux -u attach",),
            )
        )
    if "sync" in features:
        found.append(_ok("atomic frames", f"{term} draws a frame at once"))
    return found


def _escape(tmux: Tmux) -> Finding:
    wait = tmux.options.get("escape-time", "")
    if wait.isdigit() and int(wait) > SLOW_ESCAPE_MS:
        return _lack(
            "escape-time",
            f"{wait} ms: Escape lags (q and Backspace leave a screen at once)",
            "set -sg escape-time 10",
        )
    return _ok("escape-time", f"{wait} ms")


def _focus(tmux: Tmux) -> Finding:
    if tmux.options.get("focus-events") == "on":
        return _ok("focus-events", "on")
    return _lack(
        "focus-events",
        "off: the screen does not know when you look elsewhere and draws all the same",
        "set -g focus-events on",
    )


def _clipboard(tmux: Tmux) -> Finding:
    mode = tmux.options.get("set-clipboard", "")
    if mode != "on":
        return _lack(
            "set-clipboard",
            f"{mode or 'not set'}: what is copied stays in a file and does not reach the clipboard",
            "set -s set-clipboard on",
        )
    features = tmux.client.get("client_termfeatures", "").split(",")
    if tmux.client and "clipboard" not in features:
        term = tmux.client["client_termname"]
        return _lack(
            "set-clipboard",
            f"on, but tmux does not know that {term} takes a copy",
            f'set -as terminal-features ",{term}:clipboard"',
        )
    return _ok("set-clipboard", "on")


def _ok(what: str, detail: str) -> Finding:
    return Finding("ok", what, detail)


def _lack(what: str, detail: str, line: str) -> Finding:
    return Finding("lack", what, detail, (line,), CONF)


def _ask(*words: str, check: bool = True) -> str:
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, errors="replace", timeout=ASK_S, check=False,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise OSError(f"{words[0]} does not answer") from error
    if check and done.returncode:
        raise OSError(done.stderr.strip() or f"{words[0]} ended with exit code {done.returncode}")
    return done.stdout
