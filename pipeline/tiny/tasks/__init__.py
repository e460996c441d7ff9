"""Seeded generators and checkers of the tiny model's synthetic tasks. Pure Python: no torch, no I/O
except ``datasets``."""

from __future__ import annotations

from .base import Instance, Message, Split
from .catalog import FAMILIES, check, generate, split_of
from .datasets import FORMATS, write_dataset

__all__ = [
    "FAMILIES",
    "FORMATS",
    "Instance",
    "Message",
    "Split",
    "check",
    "generate",
    "split_of",
    "write_dataset",
]
