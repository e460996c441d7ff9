"""A phase that only tokenises starts without torch, unless its model brings code along."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import sys
from types import SimpleNamespace
from eagle_tui.pipeline.tokenizing import without_torch
from eagle_tui.pipeline.tiny import MODEL_DIR

def body(worker):
    from transformers import AutoTokenizer
    tokenizer = AutoTokenizer.from_pretrained(MODEL_DIR)
    ids = tokenizer("two words", add_special_tokens=False)["input_ids"]
    assert tokenizer.decode(ids) == "two words"
    print("torch" in sys.modules)
    import torch
    print(int(torch.ones(2).sum()))

trusted = sys.argv[1] == "trusted"
target = SimpleNamespace(trust_remote_code=trusted)
without_torch(body)(SimpleNamespace(config=SimpleNamespace(target=target)))
"""


@pytest.mark.parametrize("code, loaded", [("none", "False"), ("trusted", "True")])
def test_torch_is_loaded_only_for_code_of_the_models_own(code: str, loaded: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, code], capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == [loaded, "2"], done.stderr
    assert "PyTorch" not in done.stderr, "nobody need hear that torch was left out"
