"""Makes what of docs/ comes from the code: config.md, keys.md and a part of troubleshooting.md.

python tools/make_docs.py            write them
python tools/make_docs.py --check    exit 1 when one is not up to date
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from eagle_tui.actions import ACTIONS, Action
from eagle_tui.config.errors import bounds, type_name
from eagle_tui.config.model import RunConfig
from eagle_tui.telemetry.deaths import KILLED, RULES, TRACEBACK
from eagle_tui.ui.keymap import RESERVED, default_keys
from eagle_tui.ui.keys import key_text

DOCS = Path(__file__).parent.parent / "docs"
MADE = "<!-- Made by `make docs`; change the docstrings in the code instead. -->"


def _default(field: Any) -> str:
    if field.is_required():
        return "**required**"
    value = field.get_default(call_default_factory=True)
    if value is PydanticUndefined or value is None:
        return "unset"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, str):
        return f'`"{value}"`'
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return f"`{value:.1f}`"
    return f"`{value}`".replace("'", '"')


def _section(name: str, model: type[BaseModel], many: bool) -> list[str]:
    head = f"[[{name}]]" if many else f"[{name}]"
    lines = [f"## `{head}`", "", " ".join((model.__doc__ or "").split()), ""]
    lines += ["| key | value | default | meaning |", "|---|---|---|---|"]
    for key, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            continue  # a table of its own
        words = [type_name(field.annotation), bounds(model, key)]
        kind = ", ".join(w for w in words if w).replace("|", "\\|")
        meaning = " ".join((field.description or "").split()).replace("|", "\\|")
        lines.append(f"| `{key}` | {kind} | {_default(field)} | {meaning} |")
    lines.append("")
    for key, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            lines += _section(f"{name}.{key}", field.annotation, many=False)
    return lines


def config_page() -> str:
    """docs/config.md."""
    lines = [
        "# run.toml",
        "",
        MADE,
        "",
        "What the operator asks for. Strict: an unknown key is an error that names the nearest"
        " known one, and all problems are told at once (`eagle-tui check RUN`). `eagle-tui init`"
        " writes a first file; `--set KEY=VALUE` changes it, for example"
        " `--set generate.concurrency=64` or"
        " `--set 'dataset[b1-glaive].cap_tokens=5_000_000'`.",
        "",
    ]
    for name, field in RunConfig.model_fields.items():
        annotation = field.annotation
        many = getattr(annotation, "__origin__", None) is list
        model = annotation.__args__[0] if many else annotation  # type: ignore[union-attr]
        assert isinstance(model, type) and issubclass(model, BaseModel)
        lines += _section(name, model, many)
    return "\n".join(lines).rstrip() + "\n"


def _usage(action: Action) -> str:
    if action.verb is None:
        return ", ".join(f"`{twin}`" for twin in action.twins)
    words = ["eagle-tui", action.verb, "RUN"]
    for param in action.params:
        if param.positional:
            many = "…" if param.type in ("datasets", "settings") else ""
            word = ("KEY=VALUE" if param.type == "settings" else param.name.upper()) + many
            words.append(word if param.required else f"[{word}]")
        elif param.type == "bool":
            words.append(f"[--{param.name}]")
        else:
            value = "|".join(param.choices) or "N"
            words.append(f"[--{param.name} {value}]")
    return f"`{' '.join(words)}`".replace("|", "\\|")


def _keys(action: Action) -> str:
    """The keys of an action as they are printed on the keyboard, each as code."""
    names = (key_text(key) for key in default_keys(action))
    return " ".join(f"`` {name} ``" if "`" in name else f"`{name}`" for name in names)


def _where(action: Action) -> str:
    """The screens and modes in which an action's key acts."""
    places = ", ".join((*action.modes, *action.screens))
    return (places or "everywhere").replace("|", "\\|")


def keys_page() -> str:
    """docs/keys.md."""
    lines = [
        "# Keys and commands",
        "",
        MADE,
        "",
        "One registry makes the keys, the footer, the help screen, the palette and the commands:"
        " what a key can do, a command can do. A command shows how far it is: requested, accepted,"
        " in effect, or refused with the reason (exit code 3). Beside a key that only looks"
        " stands the command that prints the same; keys without one fold, wrap or scroll what is"
        " shown.",
        "",
        "| key | id | where | what | command |",
        "|---|---|---|---|---|",
    ]
    for action in ACTIONS:
        keys = _keys(action).replace("|", "\\|")
        what = f"**{action.label}.** {action.help}".replace("|", "\\|")
        row = (keys, f"`{action.id}`", _where(action), what, _usage(action))
        lines.append(f"| {' | '.join(row)} |")
    taken = ", ".join(f"`{key_text(key)}`" for key in RESERVED)
    lines += [
        "",
        "## Your own keys",
        "",
        "`~/.config/eagle-tui/keys.toml` (or under `$XDG_CONFIG_HOME`) gives actions other keys, by"
        " the ids above:",
        "",
        "```toml",
        'pause = "f5"',
        'resume = ["f6", "ctrl+r"]   # several; the footer shows the first',
        "down = false                # none: the palette and the command stay",
        "```",
        "",
        "Footer, help and palette show the keys that act. An entry that cannot be meant (no such"
        " action or key, a key that another action of the same screen has) is told when the screen"
        " opens, and that action keeps its own key. Two actions may swap theirs. Needed for moving"
        f" about, and not to be given away: {taken}.",
    ]
    return "\n".join(lines) + "\n"


DEATHS = "## Why a server died"
"""From this heading on, docs/troubleshooting.md is made; what is before it is written by hand."""


def troubleshooting_page() -> str:
    """docs/troubleshooting.md: what is written by hand, and the signatures of servers that die."""
    path = DOCS / "troubleshooting.md"
    by_hand = path.read_text(encoding="utf-8").partition(DEATHS)[0].rstrip()
    lines = [
        by_hand,
        "",
        DEATHS,
        "",
        MADE,
        "",
        "Read from the server's own log. A server is not started again with the same settings where"
        " *again* says no; the others are, with a growing wait.",
        "",
        "| in its log | what it is | what to do | again |",
        "|---|---|---|---|",
    ]
    for rule in (*RULES, KILLED, TRACEBACK):
        sentence = rule.sentence.replace("{size_words}", "").replace("{step}", "a step")
        sentence = re.sub(r"\{\w+\}", "…", sentence)
        cells = (rule.seen, sentence, rule.remedy, "no" if rule.permanent else "yes")
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


PAGES = {
    "config.md": config_page,
    "keys.md": keys_page,
    "troubleshooting.md": troubleshooting_page,
}


def main() -> int:
    """Write or check the pages; gives the exit code."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    old = []
    for name, make in PAGES.items():
        path, text = DOCS / name, make()
        if check:
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                old.append(name)
        else:
            path.write_text(text, encoding="utf-8")
    if old:
        print(f"not up to date: {', '.join(old)}; run `make docs`", file=sys.stderr)
    return 1 if old else 0


if __name__ == "__main__":
    sys.exit(main())
