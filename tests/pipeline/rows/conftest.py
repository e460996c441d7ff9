"""Small tokenizers and run directories that the tests of phases 1 and 3 share."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

CHATML = (
    "{% if tools %}<|im_start|>system\nTools: {{ tools | tojson }}<|im_end|>\n{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.reasoning_content %}<think>\n{{ m.reasoning_content }}\n</think>\n\n{% endif %}"
    "{{ m.content }}"
    "{% for c in m.tool_calls or [] %}<tool_call>{{ c | tojson }}</tool_call>{% endfor %}"
    "<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n"
    "{% elif enable_thinking is defined %}<think>\n{% endif %}{% endif %}"
)

MakeTokenizer = Callable[..., PreTrainedTokenizerFast]


def _tokenizer(
    added: Sequence[str] = ("<|im_start|>", "<|im_end|>", "<think>", "</think>"),
    *,
    special: Sequence[str] = ("<|im_start|>", "<|im_end|>"),
    eos: str | None = "<|im_end|>",
    bos: str | None = None,
    merges: Sequence[tuple[str, str]] = (),
    template: str | None = CHATML,
    **options: Any,
) -> PreTrainedTokenizerFast:
    """Byte-level BPE: every byte a token, plus `merges`, plus `added` tokens."""
    vocab = {char: i for i, char in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    for left, right in merges:
        vocab.setdefault(left + right, len(vocab))
    inner = Tokenizer(models.BPE(vocab=vocab, merges=list(merges)))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    inner.decoder = decoders.ByteLevel()
    inner.add_tokens(
        [AddedToken(text, special=text in special, normalized=False) for text in added]
    )
    made = PreTrainedTokenizerFast(
        tokenizer_object=inner, eos_token=eos, bos_token=bos, pad_token=None, **options
    )
    made.chat_template = template
    return made


@pytest.fixture(scope="session")
def make_tokenizer() -> MakeTokenizer:
    return _tokenizer


@pytest.fixture
def model_dir(tmp_path: Path) -> Callable[..., Path]:
    """Saves a model directory with a tokenizer and a config.json, and no weights."""

    def make(config: dict[str, Any] | None = None, **options: Any) -> Path:
        path = tmp_path / "model"
        _tokenizer(**options).save_pretrained(path)
        body = {"model_type": "llama", "max_position_embeddings": 4096}
        (path / "config.json").write_text(json.dumps({**body, **(config or {})}))
        return path

    return make


@pytest.fixture
def run_dir(tmp_path: Path, model_dir: Callable[..., Path]) -> Callable[..., Path]:
    """Makes a run directory: datasets by name → TOML lines, and further TOML."""

    def make(
        datasets: dict[str, str],
        *,
        extra: str = "",
        target: str = "",
        model: dict[str, Any] | None = None,
    ) -> Path:
        root = tmp_path / "run"
        root.mkdir(exist_ok=True)
        where = tmp_path / "model"
        if not where.exists():
            model_dir(**(model or {}))
        tables = "".join(f'[[dataset]]\nname = "{n}"\n{body}\n' for n, body in datasets.items())
        (root / "run.toml").write_text(
            f'[target]\nmodel = "{where}"\n{target}\n'
            '[[server]]\nurl = "http://localhost:1"\n' + tables + extra
        )
        return root

    return make
