"""Where the target model lies."""

from __future__ import annotations

import importlib.util
from pathlib import Path

BUILTIN = "builtin:tiny"


def builtin_model() -> Path:
    """Directory of the small target that is shipped with the pipeline (torch is not imported)."""
    spec = importlib.util.find_spec("eagle_tui.pipeline")
    assert spec is not None and spec.submodule_search_locations
    return Path(next(iter(spec.submodule_search_locations))) / "tiny" / "model"


def model_location(model: str, root: Path) -> str:
    """What a loader is given for `target.model`: a directory (relative ones count from the run
    directory) or, when there is no such directory, the hub id as it stands."""
    if model == BUILTIN:
        return str(builtin_model())
    path = Path(model).expanduser()
    path = path if path.is_absolute() else root / path
    return str(path) if path.is_dir() else model
