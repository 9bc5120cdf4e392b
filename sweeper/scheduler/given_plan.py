"""Whether a forecast that a user gives is one of a study: plans are files, which can be edited."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, cast

from sweeper.config import StudyConfig
from sweeper.config.kinds import MAX_COUNT
from sweeper.config.recorded import of_json
from sweeper.scheduler.forecast import Family, Forecast
from sweeper.scheduler.lattice import Sizes
from sweeper.scheduler.population import cells_by_family
from sweeper.scheduler.width_lattice import MAX_WIDTHS
from sweeper.trial import Scalar

# of a class, also where fewer trials are live: a plan may be of a larger study
_MAX_LANES = 4096


def read_forecast(text: str) -> Forecast:
    """The forecast in the text of a plan, with every value of its type.

    Raises:
        ValueError: it is no such text, or its values are of other types; it names the first.
    """
    try:
        values: Any = json.loads(text)["forecast"]
        written = asdict(Forecast.from_dict(values))
        read = of_json(Forecast, json.dumps(written, allow_nan=False))
    except RecursionError:
        raise ValueError("too many brackets within each other") from None
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from None
    for place in _unknown(values, json.loads(json.dumps(read.as_dict()))):
        raise ValueError(f"{place}: no such key")
    return read


def _unknown(told: Any, known: Any) -> Iterator[str]:
    """Where `told` has a key that `known`, which was read from it, has not.

    What is named by JSON, as families are, is left out of the place.
    """
    if isinstance(told, list):
        for at, one in enumerate(cast("list[Any]", told)):
            yield from (f"{at}.{place}" for place in _unknown(one, known[at]))
    elif isinstance(told, dict):
        for key, value in cast("dict[str, Any]", told).items():
            if key not in known:
                yield key
                continue
            within = "" if "{" in key else f"{key}."
            yield from (f"{within}{place}" for place in _unknown(value, known[key]))


def unfit(
    given: Forecast,
    made: Forecast,
    config: StudyConfig,
    traced: Mapping[str, Sequence[Scalar]],
) -> str | None:
    """What is wrong with a plan for a study whose own is `made`; None where it can go by it."""
    return next(_faults(given, made, config, traced), None)


def _faults(
    given: Forecast,
    made: Forecast,
    config: StudyConfig,
    traced: Mapping[str, Sequence[Scalar]],
) -> Iterator[str]:
    if (given.lane_loop, given.families.keys()) != (made.lane_loop, made.families.keys()):
        yield "its structures, or its lane loop, are not those of this study on this device"
        return
    if given.capacity < 1:
        yield f"capacity {given.capacity}, where a class has a lane at least"
    live = min(config.study.n_trials, config.schedule.parallel) * len(config.members)
    most = max(made.capacity, live, _MAX_LANES)
    if given.capacity > most:
        yield f"capacity {given.capacity}, where {most} lanes are the most"
    if given.devices < 1:
        yield f"{given.devices} devices, where it takes one at least"
    if any(_numbers_below_0(family) for family in given.families.values()):
        yield "a number below 0"
    shapes = cells_by_family(config, traced, 1)
    for name, family in made.families.items():
        if family.plain is None:
            yield from _of_parts(given.families[name], family, config)
            continue
        yield from _of_family(given.families[name], family, {cell.sizes for cell in shapes[name]})
        if given.lane_loop == "vmap" and any(
            one.run_widths for one in given.families[name].classes
        ):
            yield "widths to run at, of a class whose lanes are side by side"


def _of_family(given: Family, made: Family, shapes: Iterable[Sizes]) -> Iterator[str]:
    if given.workloads != made.workloads:
        yield "it is for other data, or another training"
    if given.example != made.example:
        yield f"its example {dict(given.example)} is none of this study's trials"
    if any(known.width < 1 or known.depth < 1 for known in given.classes):
        yield "a class without width or depth"
    yield from _too_large((known.width, known.depth) for known in given.classes)
    for known in given.classes:
        runs = known.run_widths
        if len(runs) > MAX_WIDTHS:
            yield f"a class runs at {len(runs)} widths, where {MAX_WIDTHS} are the most"
        if runs and (runs != tuple(sorted({*runs})) or runs[-1] != known.width or runs[0] < 1):
            yield f"the widths that a class runs at, {runs}, do not ascend to its own"
    for sizes in sorted(shapes):
        if not any(known.holds(sizes) for known in given.classes):
            ((_, width, depth),) = sizes
            yield f"no class has room for width {width}, depth {depth}"


def _of_parts(given: Family, made: Family, config: StudyConfig) -> Iterator[str]:
    if (given.workloads, given.phases) != (made.workloads, made.phases):
        yield "it is for other data, or another training"
    yield from _too_large(size for known in given.classes for _, *size in known.sizes)
    (names, *_), entries = [_names(known.sizes) for known in made.classes], config.columns
    for known in given.classes:
        if _names(known.sizes) != names or any(min(size) < 1 for _, *size in known.sizes):
            yield "a class that is not of the parts of this study"
            continue
        is_drawn = known.example.keys() == made.classes[0].example.keys() and all(
            entries[column].has(value) is not None for column, value in known.example.items()
        )
        if not is_drawn:
            yield f"its example {dict(known.example)} is none of this study's trials"
    for own in made.classes:
        if not any(
            _names(known.sizes) == names and known.holds(own.sizes) for known in given.classes
        ):
            sizes = ", ".join(f"{name} of width {w}, depth {d}" for name, w, d in own.sizes)
            yield f"no class has room for {sizes}"


def _too_large(sizes: Iterable[Iterable[int]]) -> Iterator[str]:
    largest = max((max(size) for size in sizes), default=0)
    if largest > MAX_COUNT:
        yield f"a class of width or depth {largest}, where {MAX_COUNT} is the most"


def _names(sizes: Iterable[tuple[str, int, int]]) -> tuple[str, ...]:
    return tuple(name for name, _, _ in sizes)


def _numbers_below_0(family: Family) -> bool:
    spent = (
        number
        for known in family.classes
        for number in (known.trials, known.compile_s, known.train_s, known.exact_train_s)
    )
    return min((family.trials, *spent), default=math.inf) < 0
