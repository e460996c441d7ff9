"""Where the target model lies."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

BUILTIN = "builtin:"
MODELS = {"builtin:tiny": Path("tiny") / "model"}
"""Models that come with us, by their place in the pipeline."""


class NoSuchModel(ValueError):
    """`target.model` names something that is not there; the message says what to do."""


def path_of(text: str, root: Path) -> Path:
    """A path as it may stand in run.toml: absolute, in a home directory (`~`), or relative to the
    run directory `root`. `~nobody` stays as it is: there is no such file."""
    return root / os.path.expanduser(text)  # noqa: PTH111 - Path's raises for `~nobody`


def model_location(model: str, root: Path) -> str:
    """What `from_pretrained` and SGLang are given for `target.model`.

    A directory (absolute, or relative to the run directory `root`) becomes an absolute path;
    `builtin:` names become ours (torch is not imported); anything else is a hub id, as it is.
    NoSuchModel for a path that is no directory, or an unknown builtin.
    """
    if model.startswith(BUILTIN):
        if model not in MODELS:
            raise NoSuchModel(f"target.model: there is no {model!r}; known: {', '.join(MODELS)}")
        spec = importlib.util.find_spec("eagle_tui.pipeline")
        assert spec is not None and spec.submodule_search_locations
        return str(Path(next(iter(spec.submodule_search_locations))) / MODELS[model])
    path = path_of(model, root)
    if path.is_dir():
        return str(path.resolve())
    if model.startswith(("/", ".", "~")):
        raise NoSuchModel(
            f"target.model: there is no directory {path}. Correct the path, or give "
            "a hub id such as Qwen/Qwen3-8B"
        )
    return model
