"""`run.toml`: typed, strict, with errors that say what, where and what to do."""

from eagle_tui.config.errors import ConfigError
from eagle_tui.config.load import load_config, parse_config
from eagle_tui.config.model import PHASES, RunConfig

__all__ = ["PHASES", "ConfigError", "RunConfig", "load_config", "parse_config"]
