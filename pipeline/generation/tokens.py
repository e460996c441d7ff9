"""The target's tokenizer as generation needs it: to decode, to know markers and end tokens.

A directory with a plain `tokenizer.json` is read by the `tokenizers` library alone, since loading
through `transformers` imports torch, which takes a quarter of a gigabyte and some seconds. Whatever
is not plain goes through `transformers`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from eagle_tui.config.model import RunConfig
from eagle_tui.rundir.paths import RunDir

from .. import targets


class Plain:
    """A `tokenizers` tokenizer with the few names of a `transformers` one that we use.

    It makes none of the checks that `transformers` makes on each id before decoding; they take
    longer than the decoding itself.
    """

    def __init__(
        self,
        backend: Tokenizer,
        *,
        chat_template: Any,
        eos_token_id: int | None,
        size: int,
        versions: dict[str, str],
    ) -> None:
        self._backend = backend
        self._size = size
        self.chat_template = chat_template
        self.eos_token_id = eos_token_id
        self.versions = versions

    def __len__(self) -> int:
        """Token ids are below this."""
        return self._size

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        """Ids of a text."""
        return list(self._backend.encode(text, add_special_tokens=add_special_tokens).ids)

    def decode(self, token_ids: Sequence[int], **options: Any) -> str:
        """Text of ids; white space is never tidied up."""
        skip = bool(options.get("skip_special_tokens", False))
        return str(self._backend.decode(list(token_ids), skip_special_tokens=skip))

    def get_added_vocab(self) -> dict[str, int]:
        """Text → id of the added tokens."""
        return {t.content: id for id, t in self._backend.get_added_tokens_decoder().items()}


class Slow:
    """A tokenizer of `transformers` that has no fast backend."""

    def __init__(self, tokenizer: Any, versions: dict[str, str]) -> None:
        self._tokenizer = tokenizer
        self.chat_template = tokenizer.chat_template
        self.eos_token_id = tokenizer.eos_token_id
        self.versions = versions

    def __len__(self) -> int:
        return len(self._tokenizer)

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        """Ids of a text."""
        return list(self._tokenizer.encode(text, add_special_tokens=add_special_tokens))

    def decode(self, token_ids: Sequence[int], **options: Any) -> str:
        """Text of ids."""
        return str(self._tokenizer.decode(token_ids, **options))

    def get_added_vocab(self) -> dict[str, int]:
        """Text → id of the added tokens."""
        return dict(self._tokenizer.get_added_vocab())


def load(config: RunConfig, run: RunDir) -> Plain | Slow:
    """The configured target's tokenizer. Refused, with what to do: there is none."""
    place = Path(targets.resolve_model(config, run))
    # A template of the operator's own is read by `targets`, which also says what is wrong with it.
    if config.target.chat_template is None and place.is_dir():
        plain = _read_plain(place)
        if plain is not None and plain.chat_template:
            return plain
    import transformers

    versions = {"transformers": transformers.__version__}
    tokenizer = targets.load_tokenizer(config, run)
    if not tokenizer.is_fast:
        return Slow(tokenizer, versions)
    return Plain(
        tokenizer.backend_tokenizer,
        chat_template=tokenizer.chat_template,
        eos_token_id=tokenizer.eos_token_id,
        size=len(tokenizer),
        versions=versions,
    )


def _read_plain(place: Path) -> Plain | None:
    """The tokenizer of a model directory; None when it is not plain."""
    settings = _json(place / "tokenizer_config.json")
    file = place / "tokenizer.json"
    if not file.is_file() or settings is None or "auto_map" in settings:
        return None
    try:
        backend = Tokenizer.from_file(str(file))
    except Exception:  # noqa: BLE001 - the library raises bare ones; `transformers` says why
        return None
    eos = settings.get("eos_token")
    eos = eos.get("content") if isinstance(eos, dict) else eos
    eos_id = backend.token_to_id(eos) if isinstance(eos, str) else None
    if eos is not None and eos_id is None:
        return None
    added = settings.get("added_tokens_decoder")
    if isinstance(added, dict):
        # Tokens that only the settings know are added by `transformers`.
        for id, token in added.items():
            if backend.token_to_id(str(token.get("content"))) != int(id):
                return None
    return Plain(
        backend,
        chat_template=_template(place, settings),
        eos_token_id=eos_id,
        size=1 + max(backend.get_vocab(with_added_tokens=True).values(), default=-1),
        versions={"tokenizers": version("tokenizers")},
    )


def _template(place: Path, settings: dict[str, Any]) -> Any:
    file = place / "chat_template.jinja"
    if file.is_file():
        return file.read_text(encoding="utf-8", errors="replace")
    found = settings.get("chat_template")
    if isinstance(found, list):
        return {str(t.get("name")): t.get("template") for t in found if isinstance(t, dict)}
    return found


def _json(path: Path) -> dict[str, Any] | None:
    try:
        body = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    return body if isinstance(body, dict) else None
