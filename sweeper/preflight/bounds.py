"""Constraints on the number of parameters that every model meets, or none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod

from sweeper.config import StudyConfig
from sweeper.config.metric_range import is_within
from sweeper.config.model import LAYERED, MlpTable, ModelKind, PartsTable
from sweeper.config.study import N_PARAMETERS
from sweeper.programs.build import Programs
from sweeper.trial import Scalar

_MAX_MODELS = 128


def idle_bounds(config: StudyConfig, programs: Programs) -> Iterator[str]:
    """Warnings about such constraints, if the sizes of all models are known."""
    bounds = {
        index: bound
        for index, bound in enumerate(config.study.constraints)
        if bound.metric == N_PARAMETERS
        # what the file alone tells is reported without building models
        and not is_within(config, N_PARAMETERS, bound.min, bound.max)
    }
    found = sizes(config, programs) if bounds and config.trial is None else None
    if found is None:
        return
    least, greatest = found
    for index, bound in bounds.items():
        low = -1.0 if bound.min is None else bound.min
        high = greatest if bound.max is None else bound.max
        key = f"study.constraints.{index}"
        if low <= least and greatest <= high:
            yield f"{key} changes nothing: models have {least:,} to {greatest:,} parameters"
        elif high < least:
            yield (
                f"{key}: no trial can meet max = {high:.15g}, since no model has less than "
                f"{least:,} parameters"
            )
        elif greatest < low:
            yield (
                f"{key}: no trial can meet min = {low:.15g}, since no model has more than "
                f"{greatest:,} parameters"
            )


def sizes(config: StudyConfig, programs: Programs) -> tuple[int, int] | None:
    """The least and greatest number of parameters of any trial; None if not known."""
    counts: list[int] = []
    for kind in config.kinds:
        options = _options(config, kind)
        if options is None or prod(map(len, options)) > _MAX_MODELS:
            return None
        for several in product(*options):
            settings = config.settings_of(
                {name: value for one in several for name, value in one.items()}
            )
            counts.append(programs.n_parameters(settings))
    return (min(counts), max(counts)) if counts and min(counts) else None


def _options(config: StudyConfig, kind: ModelKind) -> list[list[dict[str, Scalar]]] | None:
    """For each setting that changes model sizes, its values by column; None if they are endless.

    A network of hidden layers grows with each of its sizes, so the ends of a range suffice.
    """
    linked = {source for key, source in config.same_as.items() if key.startswith("model.")}
    found: list[list[dict[str, Scalar]]] = [[config.params_of(kind)]]
    for key, entry in config.search.items():
        if not (key in linked or key.startswith("model.")) or not config.splits(key, kind):
            continue
        values = entry.values()
        if values is None:
            return None
        undrawn: list[dict[str, Scalar]] = [{}] if entry.when else []
        chosen = _ends(values) if _is_size_of_layers(config, key, kind) else values
        found.append([{entry.column(key): value} for value in chosen] + undrawn)
    return found


def _ends(values: Sequence[Scalar]) -> list[Scalar]:
    """The lowest and the highest number, and the lowest above 0.

    A linear model, of depth 0, may be larger than one with hidden layers.
    """
    numbers = sorted({int(value) for value in values})
    above = [number for number in numbers if number]
    return [*{numbers[0], *above[:1], numbers[-1]}]


def _is_size_of_layers(config: StudyConfig, key: str, kind: ModelKind) -> bool:
    """Whether it is the width or depth of hidden layers, of a whole model or of a part."""
    if not key.startswith("model.") or not key.endswith((".width", ".depth")):
        return False
    if isinstance(config.model, PartsTable):
        return isinstance(config.model.parts.get(key.split(".")[1]), MlpTable)
    return kind in LAYERED
