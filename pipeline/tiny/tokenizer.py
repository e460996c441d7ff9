"""Builds the tokenizer of the tiny model: byte-level BPE, 1,024 tokens, every digit a token of its
own.

Run it with ``python -m eagle_tui.pipeline.tiny.tokenizer --out DIR``. The result depends on nothing
but this code and the ``tokenizers`` library: the merges are learnt from generated tasks and from
the running text in ``tasks.words``.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Final

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

from .tasks import FAMILIES, generate
from .tasks.words import CATEGORIES, NOUNS, PLAIN_WORDS, PROSE, VERBS

VOCAB_SIZE: Final = 1024
MAX_LENGTH: Final = 4096

PAD: Final = "<|endoftext|>"
TURN_START: Final = "<|im_start|>"
TURN_END: Final = "<|im_end|>"
SPECIAL: Final[tuple[str, ...]] = (PAD, TURN_START, TURN_END)  # ids 0, 1, 2: hidden in decoded text
# One token each, but ordinary ones: they stay visible in decoded text, which is where parsers look
# for them.
MARKERS: Final[tuple[str, ...]] = ("<think>", "</think>", "<tool_call>", "</tool_call>")
EOS_ID: Final = SPECIAL.index(TURN_END)
PAD_ID: Final = SPECIAL.index(PAD)

# Written by hand; it has its one place beside the shipped model.
TEMPLATE_PATH: Final = Path(__file__).resolve().parent / "model" / "chat_template.jinja"

# Words with their leading space, single digits, runs of other signs with their leading space, white
# space. Newlines never join what stands before them, so that a text tokenizes alike whether or not
# it is cut at a line end.
_PIECES: Final = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_SEED: Final = 7
_INSTANCES_PER_FAMILY: Final = 2000
_PROSE_REPEATS: Final = 40


def build() -> Tokenizer:
    """The trained tokenizer; the same on every call."""
    tokenizer = Tokenizer(models.BPE(unk_token=None))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(_PIECES), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE - len(MARKERS),
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(_texts(), trainer)
    tokenizer.add_tokens(
        [AddedToken(marker, special=False, normalized=False) for marker in MARKERS]
    )
    if tokenizer.get_vocab_size() != VOCAB_SIZE:
        raise RuntimeError(
            f"The tokenizer has {tokenizer.get_vocab_size()} tokens instead of {VOCAB_SIZE}."
        )
    return tokenizer


def save(directory: Path) -> None:
    """Write tokenizer.json, tokenizer_config.json and chat_template.jinja into ``directory``."""
    directory.mkdir(parents=True, exist_ok=True)
    build().save(str(directory / "tokenizer.json"))
    _write_json(directory / "tokenizer_config.json", _config())
    template = TEMPLATE_PATH.read_text(encoding="utf-8")
    (directory / "chat_template.jinja").write_text(template, encoding="utf-8", newline="\n")


def _config() -> dict[str, Any]:
    # By hand and not with save_pretrained: that writes a class name which older transformers do not
    # know.
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": MAX_LENGTH,
        "bos_token": None,
        "eos_token": TURN_END,
        "pad_token": PAD,
        "unk_token": None,
        "add_bos_token": False,
        "clean_up_tokenization_spaces": False,
        "model_input_names": ["input_ids", "attention_mask"],
    }


def _write_json(path: Path, value: Any) -> None:
    path.write_text(
        json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8", newline="\n"
    )


def _texts() -> Iterator[str]:
    for family in FAMILIES:
        for instance in islice(generate(family, _SEED, "train"), _INSTANCES_PER_FAMILY):
            yield from (message.content for message in instance.messages)
            yield from (json.dumps(tool) for tool in instance.tools)
            yield instance.reasoning
            yield instance.content
    for _ in range(_PROSE_REPEATS):
        yield PROSE
    # Plain sentences, so that every listed word is seen in running text too.
    rng = random.Random(_SEED)
    kinds = [word for words in CATEGORIES.values() for word in words]
    for word in PLAIN_WORDS:
        yield f"The {word} {rng.choice(VERBS)} the {rng.choice(kinds)} and the {rng.choice(NOUNS)}."


def main() -> None:
    """Command line: build the tokenizer and write it."""
    parser = argparse.ArgumentParser(description="Build the tokenizer of the tiny model.")
    parser.add_argument("--out", type=Path, required=True, help="directory for the tokenizer files")
    save(parser.parse_args().out)


if __name__ == "__main__":
    main()
