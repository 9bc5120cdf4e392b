"""Samplers, pruners and queues of generated studies."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from hypothesis import strategies as st

from sweeper.study.options import EXCLUSIVE, OPTIONS, PACKAGES, Option
from tests.generated.frames import Draw, Study, some
from tests.generated.searches import Search, column, possible


@st.composite
def samplers(draw: Draw, n_objectives: int) -> Study:
    names = [
        name
        for name in ("tpe", "random", "qmc", "grid", "gp", "cmaes", "nsgaii")
        if name not in PACKAGES or find_spec(PACKAGES[name])
    ]
    name = draw(st.sampled_from([*names, "nets:Sampler"]))
    if name == "cmaes" and n_objectives > 1:
        name = "nsgaii"
    if name == "nets:Sampler":
        own = {"warmth": st.sampled_from([0.5, 2])}
        return {"name": name, **draw(st.fixed_dictionaries({}, optional=own))}
    table = {"name": name, **draw(options(OPTIONS[name]))}
    if table.get("group"):
        table.pop("multivariate", None)
    for key in EXCLUSIVE.get(name, ())[1:]:
        table.pop(key, None)
    return table


@st.composite
def pruners(draw: Draw, study: Study, *, may_wrap: bool = True) -> Study:
    names = [
        *("none", "halving", "median", "percentile", "asha", "hyperband"),
        *("threshold", "wilcoxon", *(("patient",) if may_wrap else ())),
    ]
    name = draw(st.sampled_from([*names, "nets:Pruner"]))
    if name == "nets:Pruner":
        own = {"patience": st.integers(1, 3)}
        return {"name": name, **draw(st.fixed_dictionaries({}, optional=own))}
    table = {"name": name, **draw(options(OPTIONS[name]))}
    if name == "patient" and draw(st.booleans()):
        table["wrapped"] = draw(pruners(study, may_wrap=False))
    if name == "threshold":
        table.pop("lower", None)
        table["upper"] = draw(st.sampled_from([0.5, 10]))
    if name == "hyperband":
        table.pop("min_resource", None)
    return table


def options(known: Mapping[str, Option]) -> st.SearchStrategy[Study]:
    made = {name: _option(option) for name, option in known.items()}
    needed = {name: made.pop(name) for name, option in known.items() if option.required}
    return st.fixed_dictionaries(needed, optional=made)


def _option(option: Option) -> st.SearchStrategy[Any]:
    if option.kind is bool:
        return st.booleans()
    if option.choices:
        return st.sampled_from(option.choices)
    least = option.least or 0
    if option.kind is int:
        return st.integers(int(least), int(least) + 5)
    most = least + 5 if option.most is None else option.most
    return st.sampled_from([least, (least + most) / 2, most])


@st.composite
def queues(draw: Draw, search: Search) -> list[Study]:
    """Trials to try first."""
    drawn = {key: entry for key, entry in search.items() if "same_as" not in entry}
    found = []
    for _ in range(draw(st.integers(1, 2))):
        chosen = {key: draw(st.sampled_from(possible(drawn[key]))) for key in draw(some(drawn))}
        idle = {
            key
            for key in chosen
            for when in (drawn[key].get("when", {}),)
            if when.keys() <= chosen.keys()
            and any(chosen[one] not in _as_list(wanted) for one, wanted in when.items())
        }
        kept = {key: value for key, value in chosen.items() if key not in idle}
        by_column = draw(st.booleans())
        found.append({column(k, drawn[k]) if by_column else k: v for k, v in kept.items()})
    return found


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
