"""The study file, read and validated: the only reader of TOML."""

from sweeper.config.load import is_toml, load, parse
from sweeper.config.settings import Settings
from sweeper.config.study_config import StudyConfig

__all__ = ["Settings", "StudyConfig", "is_toml", "load", "parse"]
