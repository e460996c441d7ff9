"""A random Llama with a real tokenizer and chat template, for tests and measurements.

Its text is nonsense. The logits are spread out, so that greedy decoding does not hang on rounding.
``python -m eagle_tui.pipeline.engine.random_model --out DIR``
"""

from __future__ import annotations

import argparse
import pydoc_data.topics
from pathlib import Path

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

PAD, START, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
THINK, THINK_END = "<think>", "</think>"
CHAT_TEMPLATE = (
    "{%- for message in messages -%}<|im_start|>{{ message['role'] }}\n"
    "{{ message['content'] }}<|im_end|>\n{% endfor -%}"
    "{%- if add_generation_prompt -%}<|im_start|>assistant\n<think>\n{% endif -%}"
)


def make_tokenizer(vocab_size: int) -> PreTrainedTokenizerFast:
    """Byte-level BPE trained on the reference texts that come with Python."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    visible = [AddedToken(t, normalized=False, special=False) for t in (THINK, THINK_END)]
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size - len(visible),
        special_tokens=[PAD, START, END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    topics = pydoc_data.topics.topics
    tokenizer.train_from_iterator((topics[key] for key in sorted(topics)), trainer)
    tokenizer.add_tokens(visible)
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        eos_token=END,
        pad_token=PAD,
        chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
    )


def make_model(
    tokenizer: PreTrainedTokenizerFast, *, hidden: int, layers: int, context: int, seed: int
) -> LlamaForCausalLM:
    """A Llama with head size 32 (64 hidden: 16) and a third of the heads for keys and values."""
    torch.manual_seed(seed)
    heads = max(2, hidden // 32)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=hidden,
        intermediate_size=hidden * 8 // 3,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=2,
        max_position_embeddings=context,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        initializer_range=0.1,
    )
    model = LlamaForCausalLM(config)
    torch.nn.init.normal_(model.lm_head.weight, std=2 / hidden**0.5)
    return model


def write_random_model(
    directory: Path,
    *,
    hidden: int = 64,
    layers: int = 2,
    context: int = 2048,
    vocab: int = 1024,
    seed: int = 0,
    dtype: torch.dtype = torch.float32,
) -> Path:
    """Write a model directory; the same arguments give the same weights."""
    tokenizer = make_tokenizer(vocab)
    model = make_model(tokenizer, hidden=hidden, layers=layers, context=context, seed=seed)
    tokenizer.save_pretrained(directory)
    torch.nn.Module.to(model, dtype)
    model.save_pretrained(directory)
    return directory


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--hidden", type=int, default=192)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--context", type=int, default=4096)
    parser.add_argument("--vocab", type=int, default=1024)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    write_random_model(
        arguments.out,
        hidden=arguments.hidden,
        layers=arguments.layers,
        context=arguments.context,
        vocab=arguments.vocab,
        seed=arguments.seed,
    )


if __name__ == "__main__":
    main()
