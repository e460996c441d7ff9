"""A supervisor that comes back has the environment in which its run was brought up."""

from __future__ import annotations

import stat
from pathlib import Path

from eagle_tui.rundir import environment
from eagle_tui.rundir.paths import RunDir

UP = {
    **{"PATH": "/opt/run/bin", "CUDA_VISIBLE_DEVICES": "4,5", "HF_HOME": "/data/hf"},
    **{"HF_TOKEN": "hf_secret", "SGLANG_API_KEY": "k", "https_proxy": "http://me:word@proxy:1"},
    **{"TERM": "xterm", "HOME": "/home/me"},
}


def test_what_decides_what_is_found_comes_from_the_up(tmp_path: Path) -> None:
    run = RunDir.at(tmp_path)
    environment.keep(run, UP)
    assert stat.S_IMODE(run.environment.stat().st_mode) == 0o600
    text = run.environment.read_text()
    assert not any(word in text for word in ("secret", "API_KEY", "word@", "xterm", "/home/me"))
    here = {"PATH": "/usr/bin", "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "2", "TERM": "dumb"}
    assert environment.restored(run, {**here, "HF_TOKEN": "mine"}) == {
        **{"PATH": "/opt/run/bin", "CUDA_VISIBLE_DEVICES": "4,5", "HF_HOME": "/data/hf"},
        **{"TERM": "dumb", "HF_TOKEN": "mine"},
    }


def test_without_it_the_shell_counts(tmp_path: Path) -> None:
    run = RunDir.at(tmp_path)
    assert environment.restored(run, UP) == UP
    for broken in ("{", "[1]"):
        run.environment.write_text(broken)
        assert environment.restored(run, UP) == UP
    # Others may have written it: what is no setting of this kind is not taken.
    run.environment.write_text('{"PATH": "/x", "BASH_ENV": "/evil", "SGLANG_API_KEY": "k"}')
    assert environment.restored(run, {}) == {"PATH": "/x"}
