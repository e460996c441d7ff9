"""Whose responses these are: answers of another target must never count as this one's.

A prompt's id says nothing of the target, since the same conversation has the same id for every
model. So the first worker writes down which target answers, and a later one that would go on with
another is refused.
"""

from __future__ import annotations

from eagle_tui.config.model import RunConfig
from eagle_tui.config.target import path_of
from eagle_tui.rundir import atomic, manifest
from eagle_tui.rundir.paths import RunDir

from ..worker import Refused

FILE = "target.json"


def describe(config: RunConfig, run: RunDir) -> dict[str, str]:
    """What makes an answer the target's own: the model, and how prompts are put to it."""
    target = config.target
    template = "the tokenizer's"
    if target.chat_template:
        template = manifest.file_fingerprint(path_of(target.chat_template, run.root))
    return {
        "model": target.model,
        "chat_template": template,
        "chat_template_kwargs": manifest.fingerprint(target.chat_template_kwargs),
    }


def check(config: RunConfig, run: RunDir) -> None:
    """Write down the target, or compare it with the one written down. Refused when there are
    responses of another."""
    root = run.phase("generate")
    path, now = root / FILE, describe(config, run)
    before = atomic.read_json(path)
    if before == now:
        return
    names = [d.name for d in config.dataset if d.kind == "prompts"]
    answered = [n for n in names if run.responses(n).exists() and run.responses(n).stat().st_size]
    if before is not None and answered:
        changed = ", ".join(key for key in now if before.get(key) != now[key])
        raise Refused(
            f"{root} holds responses of another target (changed: {changed}; they are of "
            f"{before.get('model')}). Move that directory away to begin anew, or put [target] of "
            "run.toml back."
        )
    atomic.write_json(path, now)
