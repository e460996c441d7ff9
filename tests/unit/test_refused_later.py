"""Combinations that a later phase would refuse are told before the run."""

from __future__ import annotations

import pytest

from eagle_tui.config import parse_config
from eagle_tui.config.later import refused_later
from eagle_tui.config.presets import PRESETS, preset_text

BASE = """
[target]
model = "m"
[[dataset]]
name = "a"
source = "a.jsonl"
"""
ATTACHED = '[[server]]\nurl = "http://localhost:1"\n'
LAUNCHED = '[[server]]\ncommand = ["python", "-m", "sglang.launch_server"]\n'


def told(text: str) -> list[str]:
    return refused_later(parse_config(BASE + text, source="run.toml"))


@pytest.mark.parametrize("name", PRESETS)
def test_presets_are_fine(name: str) -> None:
    assert refused_later(parse_config(preset_text(name, "x"), source=name)) == []


@pytest.mark.parametrize(
    ("bad", "good", "words"),
    [
        (
            ATTACHED + '[bench]\nengine = "sglang"\n',
            LAUNCHED + '[bench]\nengine = "sglang"\n',
            'bench.engine = "sglang" starts a server',
        ),
        (
            ATTACHED + '[extract]\nbackend = "sglang"\n',
            LAUNCHED + '[extract]\nbackend = "sglang"\n',
            'extract.backend = "sglang" starts a server',
        ),
        (
            ATTACHED + "[merge]\nval_fraction = 0\n",
            ATTACHED + '[run]\nphases = ["merge", "train"]\n[merge]\nval_fraction = 0\n',
            "the benchmark will have no prompts",
        ),
        (ATTACHED + "[merge]\ninclude = []\n", ATTACHED, "merge.include is empty"),
        (
            ATTACHED + '[train]\noptimizer = "muon"\nstrategy = "fsdp2"\nnproc = 2\n',
            ATTACHED + '[train]\noptimizer = "muon"\nstrategy = "ddp"\nnproc = 2\n',
            "needs whole matrices",
        ),
        (
            ATTACHED + "[extract]\nmax_tokens = 2048\n",
            ATTACHED + "[extract]\nmax_tokens = 4096\n",
            "extract.max_tokens = 2048 cuts rows",
        ),
        (
            ATTACHED + "[train]\nttt_steps = 3\n[bench]\nsteps = [3, 5]\n",
            ATTACHED + "[train]\nttt_steps = 5\n[bench]\nsteps = [3, 5]\n",
            "bench.steps goes up to 5, but train.ttt_steps = 3",
        ),
    ],
)
def test_what_is_refused_later(bad: str, good: str, words: str) -> None:
    (sentence,) = told(bad)
    assert words in sentence
    assert told(good) == []
