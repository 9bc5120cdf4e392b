"""Which trials a study can expect, if they are drawn at random without knowledge of results."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

from sweeper.config import StudyConfig
from sweeper.config.conditions import is_active, with_dependencies
from sweeper.config.model import MlpTable, ModelKind, TabMTable
from sweeper.config.search import CategoricalSearch, IntSearch, SearchEntry
from sweeper.config.space import any_value
from sweeper.scheduler.lattice import Cell, Sizes, plain_size
from sweeper.scheduler.signature import family_of, sizes_of
from sweeper.trial import Scalar

# with more families than this, each has too few trials to justify a lattice
_MAX_FAMILIES = 1024
# with more structures of parts than this, sizes rarely repeat, and the space is not enumerated
_MAX_STRUCTURES = 2048


def chances(entry: SearchEntry) -> dict[Scalar, float]:
    """The probability of each value of an entry when it is drawn at random."""
    if isinstance(entry, CategoricalSearch):
        return {value: 1 / len(entry.choices) for value in entry.choices}
    values, parts = entry.in_range() or (), 1 + len(entry.or_values)
    found: dict[Scalar, float] = {value: 1 / len(values) / parts for value in values}
    if isinstance(entry, IntSearch) and entry.log:
        whole = math.log((entry.high + 1) / entry.low) * parts
        found = {value: math.log((value + 1) / value) / whole for value in entry.in_range()}
    for value in entry.or_values:
        found[value] = found.get(value, 0.0) + 1 / parts
    return found


def _chances_of(
    config: StudyConfig, keys: Sequence[str], most: int
) -> dict[str, dict[Scalar, float]] | None:
    """The chances of the values of settings; None if they have more than `most` combinations."""
    if any((config.search[key].count() or 0) > most for key in keys):
        return None
    found = {key: chances(config.search[key]) for key in keys}
    return found if math.prod(map(len, found.values())) <= most else None


def families_of(
    config: StudyConfig, traced: Mapping[str, Sequence[Scalar]]
) -> Iterator[tuple[dict[str, Scalar], float]]:
    """Parameters of a trial of each family of the space, and the family's share of trials.

    User-defined models have no families.
    """
    for kind in config.padded_kinds:
        yield from _families_of(config, traced, kind)


def _families_of(
    config: StudyConfig, traced: Mapping[str, Sequence[Scalar]], kind: ModelKind
) -> Iterator[tuple[dict[str, Scalar], float]]:
    entries = _chances_of(config, _family_settings(config, traced, kind), _MAX_FAMILIES)
    if entries is None:
        return
    # a value that trials draw: the file's own value need not be among them
    traced_values = {key: values[0] for key, values in traced.items()}
    fixed = {
        config.search[key].column(key): value
        for key, value in {"model.kind": kind, **_deepest(config), **traced_values}.items()
        if key in config.search and key not in entries
    }
    for values in product(*(entry.items() for entry in entries.values())):
        drawn = zip(entries, values, strict=True)
        params = {config.search[key].column(key): value for key, (value, _) in drawn}
        active = config.active(params | fixed)
        share = _share_of(kind, config, active)
        if share:
            yield active, share * math.prod(chance for _, chance in values)


def _share_of(kind: ModelKind, config: StudyConfig, params: Mapping[str, Scalar]) -> float:
    """The share of trials with such parameters whose model is of this kind."""
    entry = config.search.get("model.kind")
    if entry is None or entry.column("model.kind") not in params:
        return float(config.settings_of(params).model.kind == kind)
    choices = entry.values() or ()
    return choices.count(kind) / len(choices)


def _family_settings(
    config: StudyConfig, traced: Mapping[str, Sequence[Scalar]], kind: ModelKind
) -> tuple[str, ...]:
    """The searched settings that determine a family, with those that they depend on."""
    splitting = [
        key
        for key in config.search
        if config.splits(key, kind) and key not in ("model.width", "model.depth", *traced)
    ]
    sizes = [k for k in ("model.width", "model.depth", "model.kind") if k in config.search]
    if not any(config.search[key].when for key in config.search):
        return tuple(splitting)
    found = with_dependencies([*splitting, *sizes], config.search)
    # sizes do not determine a family, unless another setting depends on them
    parents = {key for one in found for key in config.search[one].when or ()}
    kept = {*splitting, *parents} - {"model.kind"}
    return tuple(key for key in found if key in kept)


def _deepest(config: StudyConfig) -> dict[str, int]:
    depths = config.drawn_values("model.depth") or (0,)
    return {"model.depth": max(int(depth) for depth in depths)}


def cells_of(
    config: StudyConfig,
    traced: Mapping[str, Sequence[Scalar]],
    example: Mapping[str, Scalar],
    trials: float,
) -> Iterator[Cell]:
    """The cells of the family that a trial with the parameters `example` belongs to.

    Its `trials` are distributed over the widths and depths that they can draw.
    """
    model = config.settings_of(example).model
    assert isinstance(model, MlpTable | TabMTable), "other models have no family"
    pinned = _family_settings(config, traced, model.kind)
    widths, depths = (
        {own: 1.0} if key in pinned or entry is None else chances(entry)
        for own, key in ((model.width, "model.width"), (model.depth, "model.depth"))
        for entry in (_drawn_with(config, key, example),)
    )
    for (width, likely), (depth, deep) in product(widths.items(), depths.items()):
        if depth:
            yield Cell(plain_size(int(width), int(depth)), trials * likely * deep, example)


def _drawn_with(config: StudyConfig, key: str, example: Mapping[str, Scalar]) -> SearchEntry | None:
    """The entry that a setting is drawn from in a trial with these parameters."""
    entry = config.entry(key)
    columns = {one.column(setting): setting for setting, one in config.search.items()}
    values = {columns[column]: value for column, value in example.items()}
    return entry if entry is not None and is_active(entry, values) else None


def cells_by_family(
    config: StudyConfig, traced: Mapping[str, Sequence[Scalar]], n_trials: int
) -> dict[str, list[Cell]]:
    """The trials of each family that can share a padded class, by its name."""
    found: dict[str, list[Cell]] = {}
    for example, chance in families_of(config, traced):
        name = family_of(config.settings_of(example), traced)
        if name is not None:
            found.setdefault(name, []).extend(cells_of(config, traced, example, n_trials * chance))
    for params, chance in _structures_of_parts(config, traced):
        settings = config.settings_of(params)
        name = family_of(settings, traced)
        if name is not None:
            cell = Cell(sizes_of(settings), n_trials * chance, params)
            found.setdefault(name, []).append(cell)
    return {name: _merged(cells) for name, cells in found.items()}


def _structures_of_parts(
    config: StudyConfig, traced: Mapping[str, Sequence[Scalar]]
) -> Iterator[tuple[dict[str, Scalar], float]]:
    """Parameters of a trial of each structure, and the share of trials that have it."""
    if "parts" not in config.kinds:
        return
    keys = [key for key in config.search if config.splits(key, "parts") and key not in traced]
    if any(config.search[key].when for key in keys):
        return
    entries = _chances_of(config, keys, _MAX_STRUCTURES)
    if entries is None:
        return
    for values in product(*(entry.items() for entry in entries.values())):
        drawn = zip(entries, values, strict=True)
        params = {config.search[key].column(key): value for key, (value, _) in drawn}
        yield params, math.prod(chance for _, chance in values)


def _merged(cells: Iterable[Cell]) -> list[Cell]:
    """The cells, with those of one size merged: the example of a single part is its first."""
    found: dict[Sizes, Cell] = {}
    for cell in cells:
        same = found.get(cell.sizes)
        is_single = [part.name for part in cell.sizes] == [""]
        kept = same if same is not None and is_single else cell
        found[cell.sizes] = replace(kept, trials=cell.trials + (same.trials if same else 0.0))
    return [*found.values()]


def one_of_each(
    config: StudyConfig, traced: Mapping[str, Sequence[Scalar]], n_trials: int, most: int
) -> tuple[Mapping[str, Scalar], ...]:
    """Parameters of a trial of each structure of the space, if it has few structures.

    Empty if there are more than `n_trials`, or more than `most` of any batch size, or infinitely
    many. In studies of earlier editions both limits are for the mean over the batch sizes.
    """
    structural = [key for key, splits in config.structural.items() if splits and key not in traced]
    keys = with_dependencies(structural, config.search)
    values = [config.search[key].values() or () for key in keys]
    if not 0 < math.prod(map(len, values)) <= _MAX_FAMILIES:
        return ()
    others = {key: any_value(entry) for key, entry in config.search.items()}
    found: dict[tuple[object, ...], Mapping[str, Scalar]] = {}
    for drawn in product(*values):
        filled: Mapping[str, Any] = {**others, **dict(zip(keys, drawn, strict=True))}
        columns = {config.search[key].column(key): value for key, value in filled.items()}
        params = config.active(columns)
        own = config.settings_of(params).structure()
        found.setdefault(tuple(one for one in own.items() if one[0] not in traced), params)
    if config.edition > 3:
        of_batch = Counter(config.settings_of(params).train.batch_size for params in found.values())
        are_few = len(found) <= n_trials and max(of_batch.values()) <= most
    else:
        batches = config.drawn_values("train.batch_size") or ()
        are_few = len(found) <= min(n_trials, most) * len(batches)
    return tuple(found.values()) if are_few else ()


def partnered_share(config: StudyConfig, n_trials: int) -> float:
    """The share of trials that can be padded whose exact structure occurs again in the study."""
    shares = [
        cell.trials
        for example, chance in families_of(config, {})
        for cell in cells_of(config, {}, example, chance)
    ]
    whole = sum(shares)
    alone = (share / whole * (1 - share) ** (n_trials - 1) for share in shares)
    return 1 - sum(alone) if shares else 0.0
