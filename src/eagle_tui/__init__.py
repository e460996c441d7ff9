"""Terminal monitor and controller for training EAGLE-3 drafters for models served by SGLang."""

__version__ = "0.1.0"
