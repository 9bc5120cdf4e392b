"""Searched arguments of user-defined models that no model depends on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np

from sweeper.config import StudyConfig
from sweeper.config.model import PartsTable, PythonTable
from sweeper.config.refusals import format_value
from sweeper.config.search import SearchEntry, ends, values_to_try
from sweeper.config.table import field_of
from sweeper.config.user_errors import RAISED
from sweeper.errors import listed
from sweeper.models.traces import is_same, trace
from sweeper.models.user_network import KEY, UserNetwork
from sweeper.programs.build import Programs
from sweeper.trial import Scalar

_MAX_VALUES = 4


def idle_arguments(config: StudyConfig, programs: Programs) -> Iterator[str]:
    """Warnings about searched arguments that make no difference to the model."""
    for key, entry in config.search.items():
        if not entry.when and _is_argument(config, key) and _is_idle(config, programs, key):
            values = listed([format_value(value) for value in _values_to_try(entry)])
            yield (
                f"search.{key} changes nothing: the function builds the same model for {values}; "
                "use the argument, or remove the entry"
            )


def _is_argument(config: StudyConfig, key: str) -> bool:
    table, _, name = key.rpartition(".")
    if config.kinds not in (("python",), ("parts",)) or key in config.same_as.values():
        return False  # another setting uses its value
    model = config.each("model").get(table)
    return isinstance(model, PythonTable) and field_of(type(model), name) is None


def _is_idle(config: StudyConfig, programs: Programs, key: str) -> bool:
    """Whether the model is the same for all values, whichever values of the others are tried."""
    part = key.split(".")[1] if isinstance(config.model, PartsTable) else ""
    linked = config.same_as.values()
    others = {
        one: entry
        for one, entry in config.search.items()
        if one != key and (one.startswith("model.") or one in linked)
    }
    column, values = config.search[key].column(key), _values_to_try(config.search[key])
    try:
        for other_values in values_to_try(others):
            networks = _networks(
                config, programs, part, [{**other_values, column: v} for v in values]
            )
            if not _builds_alike(networks):
                return False
    except RAISED:  # by user code; reported when the model is checked
        return False
    return len(values) > 1


def _networks(
    config: StudyConfig, programs: Programs, part: str, drawn: Sequence[dict[str, Scalar]]
) -> list[UserNetwork]:
    found = [programs.networks(config.settings_of(params))[part] for params in drawn]
    return [network for network in found if isinstance(network, UserNetwork)]


def _builds_alike(networks: Sequence[UserNetwork]) -> bool:
    """Whether all of them are the same model: structure, static fields and initial weights."""
    traces = (trace(one.built, KEY) for one in networks)  # usually the second already differs
    first = next(traces)
    return all(first.equals(other, _equal) for other in traces)


def _equal(one: Any, other: Any) -> bool:
    """Like `is_same`, but also of functions and other objects."""
    if isinstance(one, np.ndarray | jax.Array):
        return is_same(one, other)
    return type(one) is type(other) and bool(one is other or one == other)


def _values_to_try(entry: SearchEntry) -> tuple[Scalar, ...]:
    values = entry.values() or ends(entry)
    if entry.type == "int" and entry.values() is None:
        values = entry.low, (entry.low + entry.high) // 2, *values[1:]
    return (
        values if len(values) <= _MAX_VALUES else (values[0], values[len(values) // 2], values[-1])
    )
