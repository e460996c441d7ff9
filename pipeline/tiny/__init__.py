"""The tiny reasoning model that ships with the program, and everything that made it.

``tasks`` holds the seeded generators of the synthetic tasks (no torch), ``tokenizer`` builds the
byte-level BPE tokenizer, ``corpus`` renders and encodes instances, ``train_target`` trains the
model and ``evaluate`` measures it. Importing this package costs nothing: torch and transformers are
imported only by the modules that need them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from .tasks import FAMILIES

MODEL_DIR: Final[Path] = Path(__file__).resolve().parent / "model"
"""Directory of the shipped model: loads with ``AutoModelForCausalLM`` and ``AutoTokenizer`` from
this plain path."""

__all__ = ["FAMILIES", "MODEL_DIR"]
