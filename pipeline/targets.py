"""The target model as phases need it: where it is, its tokenizer, its context, its end tokens."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eagle_tui.config.model import RunConfig
from eagle_tui.config.target import NoSuchModel, model_location, path_of
from eagle_tui.rundir.paths import RunDir

from .worker import Refused

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

# Names and order of SGLang 0.5.23 (utils/hf_transformers/common.py): we reject what it rejects.
_CONTEXT_KEYS = (
    "max_sequence_length",
    "seq_length",
    "max_seq_len",
    "model_max_length",
    "max_position_embeddings",
)


def resolve_model(config: RunConfig, run: RunDir) -> str:
    """What `from_pretrained` is given for `target.model`. Refused when it is not there."""
    try:
        return model_location(config.target.model, run.root)
    except NoSuchModel as error:
        raise Refused(str(error)) from error


def load_tokenizer(config: RunConfig, run: RunDir) -> PreTrainedTokenizerBase:
    """The target's tokenizer, with the chat template of run.toml if it names one.

    Refused, with what to do: no tokenizer, no chat template, code that needs to be trusted.
    """
    from transformers import AutoTokenizer

    target = config.target
    place = resolve_model(config, run)
    try:
        tokenizer: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
            place, trust_remote_code=target.trust_remote_code
        )
    # The library lets what goes wrong inside a broken directory through as it is.
    except Exception as error:
        hint = (
            " If you trust the code in its repository, set target.trust_remote_code = true."
            if "trust_remote_code" in str(error)
            else " Is the name right, and is the model there (a hub id needs the network once)?"
        )
        raise Refused(f"target.model {target.model!r}: no tokenizer ({error}).{hint}") from error
    if target.chat_template is not None:
        path = path_of(target.chat_template, run.root)
        try:
            tokenizer.chat_template = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise Refused(f"target.chat_template {path}: cannot be read ({error}).") from error
    if not tokenizer.chat_template:
        raise Refused(
            f"target.model {target.model!r} has no chat template. Name a file with one as "
            "target.chat_template in run.toml."
        )
    return tokenizer


def context_length(config: RunConfig, run: RunDir) -> int:
    """Context of the target in tokens: run.toml's, else that of its config.json as SGLang reads it.

    Refused when neither tells it.
    """
    if config.target.context_length is not None:
        return config.target.context_length
    body = _config_json(config, run)
    text = body.get("text_config")
    for part in (text if isinstance(text, dict) else {}, body):
        length = _context_of(part)
        if length is not None:
            return length
    raise Refused(
        f"target.model {config.target.model!r}: its config tells no context length. "
        "Set target.context_length in run.toml."
    )


def eos_ids(
    config: RunConfig, run: RunDir, tokenizer: PreTrainedTokenizerBase | None = None
) -> frozenset[int]:
    """Every token id that ends an answer: of generation_config.json, config.json and tokenizer."""
    tokenizer = tokenizer or load_tokenizer(config, run)
    found = set(_ids(tokenizer.eos_token_id))
    bodies = [_config_json(config, run, missing_ok=True)]
    place = Path(resolve_model(config, run))
    if place.is_dir():
        bodies.append(_read(place / "generation_config.json"))
    else:
        bodies.append(_hub_generation_config(str(place)))
    for body in bodies:
        found.update(_ids(body.get("eos_token_id")))
        text = body.get("text_config")
        if isinstance(text, dict):
            found.update(_ids(text.get("eos_token_id")))
    return frozenset(found)


def _ids(value: Any) -> Iterator[int]:
    if isinstance(value, int):
        yield value
    elif isinstance(value, list):
        yield from (item for item in value if isinstance(item, int))


def _context_of(body: dict[str, Any]) -> int | None:
    found = body.get("rope_scaling") or body.get("rope_parameters")
    scaling: dict[str, Any] = found if isinstance(found, dict) else {}
    factor = scaling.get("factor") or 1
    if "original_max_position_embeddings" in scaling or scaling.get("rope_type") == "llama3":
        factor = 1
    for key in _CONTEXT_KEYS:
        value = body.get(key)
        if isinstance(value, int):
            return int(float(factor) * value)
    return None


def _config_json(config: RunConfig, run: RunDir, *, missing_ok: bool = False) -> dict[str, Any]:
    place = Path(resolve_model(config, run))
    if place.is_dir():
        return _read(place / "config.json")
    from transformers import AutoConfig

    try:
        return dict(
            AutoConfig.from_pretrained(
                str(place), trust_remote_code=config.target.trust_remote_code
            ).to_dict()
        )
    except (OSError, ValueError) as error:
        if missing_ok:
            return {}
        raise Refused(f"target.model {config.target.model!r}: no config ({error}).") from error


def _hub_generation_config(model: str) -> dict[str, Any]:
    from transformers import GenerationConfig

    try:
        return dict(GenerationConfig.from_pretrained(model).to_dict())
    except OSError:
        return {}  # many models have none


def _read(path: Path) -> dict[str, Any]:
    try:
        body = json.loads(path.read_bytes())
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise Refused(f"{path}: not valid JSON ({error}).") from error
    return body if isinstance(body, dict) else {}
