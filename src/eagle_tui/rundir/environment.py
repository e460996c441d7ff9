"""The environment in which a run was brought up, for a supervisor that another shell starts again.

A supervisor that was killed is started by the next look, perhaps from a shell without the run's
virtual environment, caches or choice of GPUs; servers and workers would inherit that. What may be a
secret is never written down: keys are looked for in the shell that is there.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from eagle_tui.rundir import atomic
from eagle_tui.rundir.paths import RunDir

_KEPT = re.compile(
    r"PATH|LD_LIBRARY_PATH|LD_PRELOAD|PYTHONPATH|VIRTUAL_ENV|TMPDIR|LANG|LC_\w+|no_proxy|NO_PROXY"
    r"|https?_proxy|HTTPS?_PROXY|all_proxy|ALL_PROXY"
    r"|(?:CONDA|CUDA|HF|HUGGINGFACE|TRANSFORMERS|SGLANG|FLASHINFER|TRITON|TORCH\w*|PYTORCH|NCCL|GLOO"
    r"|UCX|NVIDIA|NVSHMEM|HIP|ROCR|ROCM|OMP|MKL|XDG_CACHE)_\w+"
)
"""What decides which programs, libraries, caches and devices are found."""
_SECRET = re.compile(r"TOKEN|KEY|SECRET|PASS|CREDENTIAL|AUTH", re.IGNORECASE)


def _told(environ: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in environ.items()
        # A proxy's address may hold a password.
        if _KEPT.fullmatch(name) and not _SECRET.search(name) and "@" not in value
    }


def keep(run: RunDir, environ: Mapping[str, str] = os.environ) -> None:
    """Write down the environment of an `up`. OSError when that is impossible."""
    atomic.write_json(run.environment, _told(environ), mode=0o600)


def restored(run: RunDir, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """`environ`, with what was kept in its place; as it is when nothing was, or it is damaged."""
    try:
        kept = atomic.read_json(run.environment)
    except (OSError, ValueError):
        kept = None
    if not isinstance(kept, dict):
        return dict(environ)
    others = {name: value for name, value in environ.items() if name not in _told(environ)}
    return {**others, **_told({str(name): str(value) for name, value in kept.items()})}
