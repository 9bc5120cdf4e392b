"""What is left unchecked of a study where no Python that its file names is to be run."""

from __future__ import annotations

from sweeper.config import StudyConfig
from sweeper.config.data import FunctionTable
from sweeper.config.optimizers import decays_of

_LEFT = {
    "study": "whether it is there and takes these options",
    "data": "whether it is there, its rows, and all that has to fit them",
    "model": "whether it is there, takes these keys and builds a model for the rows",
    "optimizer": "whether it is there, takes these keys and gives an optimizer",
    "train": "whether it is there and can be compiled",
}


def unchecked(config: StudyConfig) -> tuple[str, ...]:
    """A line for each function, class or program of the user's own: what nobody looked at."""
    lines = [f"{key} = '{name}': {_LEFT[_table(key)]}" for name, key in config.functions.items()]
    if not can_build_models(config):
        lines += [f"[{key}]: whether its rules are of use" for key in decays_of(config.optimizer)]
    return tuple(lines)


def can_read_rows(config: StudyConfig) -> bool:
    """Whether the rows come from no function of the user's."""
    return not isinstance(config.data, FunctionTable)


def can_build_models(config: StudyConfig) -> bool:
    """Whether models can be built and trained without any code of the user's, on such rows."""
    tables = {_table(key) for key in config.functions.values()}
    return can_read_rows(config) and tables <= {"study"}


def _table(key: str) -> str:
    return key.partition(".")[0]
