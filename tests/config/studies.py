"""Whole study files by Hypothesis, generated from the tables that read them.

A setting that is added to a table is generated without a line here: by its type, its bounds, its
options or its examples. What follows is only what a type cannot say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import strategies as st

from sweeper.config.draft import TABLES, Variants
from sweeper.config.json_schema import study_schema
from sweeper.config.reading import read_table
from sweeper.config.space import SEARCHED_TABLES, read_entry
from sweeper.config.table import Table
from sweeper.config.train import TrainTable

Study = dict[str, Any]

SCHEMA = study_schema()
# a table of the user's, and a model, that are written beside the study file
ROWS = [f"{i},{i % 7},{'abc'[i % 3]},{i / 4}" for i in range(120)]
FILES = {
    "table.csv": "\n".join(["id,size,label,price", *ROWS, ""]),
    "nets.py": "import equinox as eqx\n"
    "import pandas as pd\n"
    "from pathlib import Path\n"
    "def build(in_size, out_size, key, **_):\n"
    "    return eqx.nn.Linear(in_size, out_size, key=key)\n"
    "def rows(**_):\n"
    "    return pd.read_csv(Path(__file__).parent / 'table.csv')\n",
}
_PATHS = {"csv": "table.csv", "parquet": "table.parquet", "npz": "table.npz"}
_WIDEST = 24  # between the least and the greatest whole number of a setting
_LARGEST = 1e3
_NUMBERS_OF = ("diabetes",)  # of scikit-learn's data sets those with numbers to predict
_FEW = {  # so that a study is planned in a moment, on data of the smallest sizes
    "study.n_trials": st.integers(1, 16),
    "schedule.parallel": st.integers(1, 8),
    "model.depth": st.integers(0, 3),
    "train.batch_size": st.integers(1, 8),
    "train.epochs": st.integers(1, 8),
    "data.split.val": st.sampled_from([0.2, 0.25]),
    "data.split.test": st.sampled_from([0.0, 0.2]),
    "data.function": st.just("nets:rows"),
    "data.drop": st.just([]),
    "data.x": st.just("features"),
    "data.y": st.just("prices"),
    "data.categorical_columns": st.just(["size"]),
    "data.class_weights": st.sampled_from(["none", "balanced"]),
    "data.split.group": st.just("size"),
    "data.split.time": st.just("id"),
    "model.function": st.just("nets:build"),
    "execution.costs": st.nothing(),
    "execution.memory_fraction": st.floats(0.1, 1),
    "results.dir": st.just("runs/generated"),
}


def written(directory: Path) -> Path:
    """The study file in `directory`, beside which lie the files that it may name."""
    for name, text in FILES.items():
        (directory / name).write_text(text, encoding="utf-8")
    table = pd.read_csv(directory / "table.csv")
    table.to_parquet(directory / "table.parquet")
    features, prices = table[["id", "size"]].to_numpy(float), table["price"].to_numpy()
    np.savez(directory / "table.npz", features=features, prices=prices, labels=table["size"])
    return directory / "study.toml"


def values(schema: Mapping[str, Any], key: str) -> st.SearchStrategy[Any]:
    """Values of a setting that its schema allows."""
    if key in _FEW:
        return _FEW[key]
    if "const" in schema:
        return st.just(schema["const"])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "anyOf" in schema:
        return st.one_of([values(inner, key) for inner in schema["anyOf"]])
    match schema.get("type"):
        case "boolean":
            return st.booleans()
        case "integer":
            return _whole_numbers(schema)
        case "number":
            return _numbers(schema)
        case "array":
            if "examples" in schema:
                return st.sampled_from(schema["examples"])
            least = schema.get("minItems", 0)
            items = values(schema["items"], key)
            return st.lists(items, min_size=least, max_size=least + 2, unique_by=repr)
        case "object" if "properties" in schema:
            return table_of(schema, key)
        case _:
            return st.sampled_from(schema.get("examples") or ["text"])


def table_of(schema: Mapping[str, Any], key: str) -> st.SearchStrategy[dict[str, Any]]:
    """A table with what it requires, and any of what it may have."""
    made = {name: values(inner, f"{key}.{name}") for name, inner in schema["properties"].items()}
    made = {name: strategy for name, strategy in made.items() if not strategy.is_empty}
    needed = {name: made.pop(name) for name in schema.get("required", ())}
    return st.fixed_dictionaries(needed, optional=made)


def _whole_numbers(schema: Mapping[str, Any]) -> st.SearchStrategy[int]:
    low = schema.get("minimum", schema.get("exclusiveMinimum", 0) + 1)
    high = min(schema.get("maximum", schema.get("exclusiveMaximum", low + 1) - 1), low + _WIDEST)
    return st.integers(low, high if "maximum" in schema else low + _WIDEST)


def _numbers(schema: Mapping[str, Any]) -> st.SearchStrategy[float]:
    return st.floats(
        schema.get("minimum", schema.get("exclusiveMinimum", -_LARGEST)),
        min(schema.get("maximum", schema.get("exclusiveMaximum", _LARGEST)), _LARGEST),
        exclude_min="exclusiveMinimum" in schema,
        exclude_max="exclusiveMaximum" in schema,
        allow_subnormal=False,
    )


@dataclass(frozen=True)
class Kind:
    """One of the tables that a table of a study file may be."""

    name: str
    table: type[Table]

    @cache  # noqa: B019  # there are few, and they are made once
    def tables(self) -> st.SearchStrategy[dict[str, Any]]:
        """Such tables, which break none of their own rules."""
        schema = self.table.model_json_schema()
        schema = _resolved(schema, schema.get("$defs", {}))
        return table_of(schema, self.name).filter(self.is_allowed)

    def is_allowed(self, raw: Mapping[str, Any]) -> bool:
        return not read_table(self.table, dict(raw), self.name, [])[1]


def _resolved(schema: Any, known: Mapping[str, Any]) -> Any:
    """A schema of pydantic's with its references and its nulls written out of it."""
    if isinstance(schema, list):
        return [_resolved(inner, known) for inner in schema if inner != {"type": "null"}]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        schema = {**known[schema["$ref"].rpartition("/")[2]], **schema}
    kept = {key: inner for key, inner in schema.items() if key not in ("$ref", "$defs", "default")}
    return {key: _resolved(inner, known) for key, inner in kept.items()}


@cache
def kinds(name: str) -> list[Kind]:
    kind = TABLES[name]
    variants = kind.of.values() if isinstance(kind, Variants) else [kind]
    return [Kind(name, table) for table in variants]


@st.composite
def studies(draw: st.DrawFn) -> Study:
    """Study files as nested tables; nearly all of them are valid."""
    chosen = {name: draw(st.sampled_from(kinds(name))) for name in TABLES if name != "trial"}
    study: Study = {"version": 1}
    study |= {name: draw(kind.tables()) for name, kind in chosen.items()}
    searched = {name: chosen[name].table for name in SEARCHED_TABLES}
    study["search"] = {} if draw(st.booleans()) else draw(searches(searched))
    _fit(draw, study)
    for table, entries in study["search"].items():  # which need no value of their own
        for setting in draw(st.sets(st.sampled_from([*entries, ""]))) - {""}:
            study[table].pop(setting, None)
    return {name: table for name, table in study.items() if table != {}}


@st.composite
def searches(draw: st.DrawFn, tables: Mapping[str, type[Table]]) -> dict[str, Any]:
    """Some settings of these tables, each with an entry that fits it."""
    found: dict[str, Any] = {}
    for name, table in tables.items():
        forms = SCHEMA["properties"]["search"]["properties"][name]["properties"]
        mine = sorted(forms.keys() & table.model_fields.keys())
        wanted = st.lists(st.sampled_from(mine or [""]), min_size=1, max_size=3, unique=True)
        for setting in draw(wanted) if mine else ():
            key = f"{name}.{setting}"
            entry = draw(entries(key))
            if not read_entry(key, entry, tables)[1]:
                found.setdefault(name, {})[setting] = entry
    return found


@cache
def entries(key: str) -> st.SearchStrategy[dict[str, Any]]:
    """Entries of `[search]` for one setting, its bounds in order."""
    table, _, setting = key.partition(".")
    form = SCHEMA["properties"]["search"]["properties"][table]["properties"][setting]
    return st.one_of([_entries(schema, key) for schema in form.get("anyOf", [form])])


def _entries(schema: Mapping[str, Any], key: str) -> st.SearchStrategy[dict[str, Any]]:
    limits = schema["properties"]
    bounded = {name: limits[name] for name in ("low", "high", "choices") if name in limits}
    made = {name: values(inner, "") for name, inner in bounded.items()}
    if key in _FEW and "choices" in made:
        made["choices"] = st.lists(_FEW[key], min_size=1, max_size=3, unique=True)
    elif key in _FEW:
        made = dict.fromkeys(made, _FEW[key])
    others = {name: limits[name] for name in limits if name not in (*made, "name", "type")}
    optional = {name: values(inner, "") for name, inner in others.items()}
    kind = {"type": st.just(limits["type"]["const"])}
    return st.fixed_dictionaries({**kind, **made}, optional=optional).map(_in_order)


def _in_order(entry: dict[str, Any]) -> dict[str, Any]:
    if "low" not in entry:
        return entry
    low, high = sorted([entry["low"], entry["high"]])
    return {**entry, "low": low, "high": high}


def _fit(draw: st.DrawFn, study: Study) -> None:
    """Let the tables agree: the objective with what is reported, the data with the loss."""
    train, data = study["train"], study["data"]
    is_numbers = train["loss"] != "cross_entropy"
    read, _ = read_table(TrainTable, train, "train", [])
    if read is not None:
        study["study"]["metric"] = draw(st.sampled_from(read.metric_names))
    if "path" in data:
        data["path"] = _PATHS[data["source"]]
    has_columns = data["source"] not in ("sklearn", "npz")
    if has_columns:
        data["target"] = "price" if is_numbers else "label"
    elif data["source"] == "npz":
        data |= {"x": "features", "y": "prices" if is_numbers else "labels"}
    if not has_columns:
        data.pop("categorical_columns", None)
        for by_column in ("group", "time", "as_feature"):
            data.get("split", {}).pop(by_column, None)
    if is_numbers:
        data.pop("class_weights", None)
    if data["source"] == "sklearn":
        sets = ["iris", "wine"] if not is_numbers else [*_NUMBERS_OF]
        data["name"] = draw(st.sampled_from(sets))
    if is_numbers:
        data.get("split", {}).pop("stratify", None)
