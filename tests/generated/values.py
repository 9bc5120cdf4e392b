"""Values of settings, generated from the tables that read them.

A new setting in a table is generated without a change here: by its type, its bounds, its options or
its examples.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from hypothesis import strategies as st

from sweeper.config.settings import without_names
from sweeper.config.table import Table

Schema = Mapping[str, Any]

_WIDEST = 12  # between the least and the greatest integer of a setting
_LARGEST = 1e3
# what types do not express: sizes that can be planned quickly, and names of files and functions
_OWN: dict[str, st.SearchStrategy[Any]] = {
    "study.name": st.sampled_from(["digits", "a-b_1"]),
    "study.n_trials": st.integers(1, 12),
    "study.replicates": st.integers(1, 3),
    "study.folds": st.integers(2, 4),
    "study.timeout": st.sampled_from(["30m", "1.5h", "90s"]),
    "schedule.parallel": st.integers(1, 6),
    "model.depth": st.integers(0, 3),
    "model.function": st.just("nets:build"),
    "optimizer.name": st.just("nets:moves"),
    "optimizer.decay": st.sampled_from(
        # no factors: user-defined optimizers get a mask of decayed arrays
        [{"linear": True}, {"linear": {"weight": True, "bias": False}, "other": False}]
    ),
    "train.batch_size": st.integers(1, 8),
    "train.epochs": st.integers(1, 8),
    "data.split.val": st.sampled_from([0.2, 0.25]),
    "data.split.test": st.sampled_from([0.0, 0.2]),
    "execution.costs": st.just("costs.json"),
    "execution.threads": st.one_of(st.just("auto"), st.integers(0, 4)),
    "execution.workers": st.one_of(st.just("auto"), st.integers(0, 4)),
    "execution.trial_timeout": st.sampled_from(["10m", "90s"]),
    "execution.memory_limit": st.sampled_from(["2 GiB", "500 MB"]),
    "execution.memory_fraction": st.sampled_from([0.5, 0.8, 1]),
    "results.dir": st.just("runs/generated"),
}


@cache
def form_of(table: type[Table]) -> Schema:
    """The form of a table in pydantic, with every reference resolved."""
    schema = table.model_json_schema()
    return _resolved(schema, schema.get("$defs", {}))


def form_within(table: type[Table], setting: str) -> Schema:
    """The form of a dotted setting of a table."""
    form = form_of(table)
    for name in setting.split("."):
        form = form["properties"][name]
    return form


def values(form: Schema, key: str) -> st.SearchStrategy[Any]:
    """Values of the setting `key` that its form allows."""
    if "const" in form:
        return st.just(form["const"])
    own = key if key in _OWN else without_names(key)
    if own in _OWN and "enum" not in form:
        return _OWN[own]
    if "enum" in form:
        return st.sampled_from(form["enum"])
    if "anyOf" in form:
        return st.one_of([values(inner, key) for inner in form["anyOf"]])
    match form.get("type"):
        case "boolean":
            return st.booleans()
        case "integer":
            return _whole_numbers(form)
        case "number":
            return _numbers(form)
        case "object" if "properties" in form:
            return settings(form, key)
        case _:
            assert "examples" in form, f"{key}: {form}"
            return st.sampled_from(form["examples"])


def settings(form: Schema, key: str, *, but: tuple[str, ...] = ()) -> st.SearchStrategy[Any]:
    """A table with its required settings and any of the optional ones, except `but`."""
    made = {
        name: values(inner, f"{key}.{name}")
        for name, inner in form["properties"].items()
        if name not in but
    }
    needed = {name: made.pop(name) for name in form.get("required", ()) if name in made}
    return st.fixed_dictionaries(needed, optional=made)


def _whole_numbers(form: Schema) -> st.SearchStrategy[int]:
    low = form.get("minimum", form.get("exclusiveMinimum", 0) + 1)
    return st.integers(low, min(form.get("maximum", low + _WIDEST), low + _WIDEST))


def _numbers(form: Schema) -> st.SearchStrategy[float]:
    low = form.get("minimum", form.get("exclusiveMinimum", -_LARGEST))
    high = min(form.get("maximum", form.get("exclusiveMaximum", _LARGEST)), _LARGEST)
    shares = st.integers(0, 1000).map(lambda share: low + (high - low) * share / 1000)
    return shares.filter(
        lambda x: (
            x > form.get("exclusiveMinimum", low - 1) and x < form.get("exclusiveMaximum", high + 1)
        )
    )


def _resolved(form: Any, known: Mapping[str, Any]) -> Any:
    """A form with its references resolved and its nulls removed."""
    if isinstance(form, list):
        return [_resolved(inner, known) for inner in form if inner != {"type": "null"}]
    if not isinstance(form, dict):
        return form
    if "$ref" in form:
        form = {**known[form["$ref"].rpartition("/")[2]], **form}
    kept = {key: inner for key, inner in form.items() if key not in ("$ref", "$defs", "default")}
    found = {key: _resolved(inner, known) for key, inner in kept.items()}
    several = found.get("anyOf", ())
    return {**several[0], **found, "anyOf": several} if len(several) == 1 else found
