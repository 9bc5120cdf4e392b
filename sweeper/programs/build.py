"""From settings to a program, and from a program to what the scheduler compares."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import jax

from sweeper.config import Settings
from sweeper.programs.data_spec import DataSpec
from sweeper.programs.program import Program
from sweeper.programs.supervised import Supervised

_PROGRAMS: dict[str, Callable[[Settings, DataSpec], Program]] = {"supervised": Supervised}


class Programs:
    """The programs of a study, one a structure: their abstract states take time to trace."""

    def __init__(self, data: DataSpec) -> None:
        self._data = data
        self._known: dict[tuple[tuple[str, object], ...], Program] = {}

    def __call__(self, settings: Settings) -> Program:
        """The program that trains a trial with `settings`."""
        structure = tuple(settings.structure().items())
        if structure not in self._known:
            self._known[structure] = _PROGRAMS[settings.train.program](settings, self._data)
        return self._known[structure]


def measure(settings: Settings, program: Program) -> tuple[Hashable, int]:
    """The signature of a trial's state and program, and how many parameters its model has.

    The signature is the state's PyTree structure with shapes and dtypes; it compares equal within
    this process alone, for activation functions hash by identity.
    """
    state = program.abstract()
    shapes = tuple((leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(state))
    compiled_in = tuple(sorted((key, str(value)) for key, value in settings.structure().items()))
    n_parameters = sum(leaf.size for leaf in jax.tree.leaves(state.model))
    return (jax.tree.structure(state), shapes, compiled_in), n_parameters
