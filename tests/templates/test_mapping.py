"""A mapping is read like the study file with its tables; what it lacks is what `init` writes."""

from __future__ import annotations

import functools
import sys
import tomllib
from contextlib import suppress
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import optax
import pandas as pd
import polars as pl
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.pruners import NopPruner
from optuna.samplers import TPESampler

import sweeper
from sweeper.cli.new_study import begin
from sweeper.config import parse
from sweeper.config.mapping import raw_tables
from sweeper.config.overrides import override_texts
from sweeper.config.tables import settings_of_searched_tables
from sweeper.data.prepare import prepare
from sweeper.errors import DataError, StudyError, SweeperError
from sweeper.preflight.user_functions import check_functions
from sweeper.sweep.session.reconcile import reconcile
from tests.small_studies import DIGITS

RNG = np.random.default_rng(0)
HOUSES = pd.DataFrame(
    {
        "area": RNG.normal(100.0, 20.0, 300),
        "rooms": RNG.integers(1, 6, 300),
        "city": RNG.choice(["a", "b", "c"], 300),
        "is_new": RNG.choice([True, False], 300),
    }
)
HOUSES["price"] = 3 * HOUSES["area"] + RNG.normal(0.0, 5.0, 300)
FULL = tomllib.loads(DIGITS)
FORMS = "pass a DataFrame of pandas or Polars, or (X, y) as arrays"
SEARCH = {"optimizer.lr": {"type": "float", "low": 1e-4, "high": 1e-2, "log": True}}


def build(in_size: int, out_size: int, key: Any) -> None:
    """Only its name matters here."""


class Own:
    """Only its name matters here."""


def with_peak(peak: float) -> optax.GradientTransformation:
    return optax.sgd(peak)


def with_rate(lr: float, peak: float) -> optax.GradientTransformation:
    return optax.sgd(lr * peak)


def problems(mapping: dict[Any, Any], **given: Any) -> list[str]:
    with pytest.raises((StudyError, DataError)) as error:
        sweeper.load_study(mapping, **given)
    return str(error.value).splitlines()


def test_a_mapping_is_read_like_the_file_with_its_tables() -> None:
    dotted = {
        f"{name}.{key}": value
        for name in FULL
        if name != "version"
        for key, value in FULL[name].items()
    }
    mixed = {**{name: FULL[name] for name in ("version", "data", "search")}, **dotted}
    mixed = {key: value for key, value in mixed.items() if key.partition(".")[0] != "search"}
    mixed["search"] = {"model": FULL["search"]["model"]} | {
        f"optimizer.{key}": value for key, value in FULL["search"]["optimizer"].items()
    }
    mixed = {key: value for key, value in mixed.items() if not key.startswith("data.")}
    wanted = parse(DIGITS, Path("study.toml")).canonical()
    assert [sweeper.load_study(one).canonical() for one in (FULL, dotted, mixed)] == [wanted] * 3


def test_rows_in_memory_are_read_like_a_parquet_file(tmp_path: Path) -> None:
    own = {**FULL, "train": {**FULL["train"], "loss": "mse", "metrics": ["r2"]}}
    file = {"source": "parquet", "path": str(tmp_path / "houses.parquet"), "target": "price"}
    HOUSES.to_parquet(file["path"])
    read = prepare(sweeper.load_study({**own, "data": file}))
    labelled = HOUSES.set_axis([*range(300, 600)])
    del own["data"]
    for rows in (HOUSES, labelled, pl.DataFrame(HOUSES)):
        assert prepare(sweeper.load_study(own, data=rows, target="price")).digest == read.digest


def test_what_a_mapping_lacks_is_what_init_writes(tmp_path: Path) -> None:
    for target in ("price", "is_new"):
        HOUSES.to_parquet(tmp_path / "data.parquet")
        begin(None, tmp_path / f"{target}.toml", tmp_path / "data.parquet", target)
        config = sweeper.load_study(tmp_path / f"{target}.toml")
        wanted = config.canonical()
        found = sweeper.load_study({"study.name": target}, data=HOUSES, target=target).canonical()
        for one in (wanted, found):  # of a table without gaps
            del one["data"]["impute"], one["data"]["path"]
        assert found == wanted


def test_a_mapping_with_a_search_gets_only_what_a_study_must_have() -> None:
    config = sweeper.load_study({"search": SEARCH, "model.width": 8}, data=HOUSES, target="price")
    study, model = config.study, config.canonical()["model"]
    assert (study.name, study.metric, study.direction) == ("study", "val_r2", "maximize")
    assert (study.n_trials, study.pruner.name, [*config.search]) == (128, "none", [*SEARCH])
    assert (model["kind"], model["depth"], model["width"], model["numbers"]) == (
        "mlp",
        2,
        8,
        "linear",
    )
    assert (config.train.epochs, config.train.batch_size) == (60, 18)
    assert config.canonical()["optimizer"]["name"] == "adamw"


@pytest.mark.parametrize(
    ("settings", "pruner", "ensemble"),
    [
        ({"study.folds": 5}, "halving", 20),
        ({"study.replicates": 3}, "halving", 20),
        ({"study.metric": ["val_r2", "n_parameters"]}, "none", None),
        ({"train.program": Own}, "halving", None),
    ],
)
def test_a_mapping_gets_the_pruner_and_the_ensemble_that_its_study_can_have(
    settings: dict[str, Any], pruner: str, ensemble: int | None
) -> None:
    study = sweeper.load_study(settings, data=HOUSES, target="price")
    assert (study.study.pruner.name, study.results.ensemble) == (pruner, ensemble)


@pytest.mark.parametrize(
    ("settings", "weights"),
    [
        ({}, "balanced"),
        ({"train.loss": "binary_cross_entropy"}, "balanced"),
        ({"train.loss": build, "train.task": "classes"}, "none"),
        ({"train.program": Own}, "none"),
    ],
)
def test_a_mapping_gets_weights_of_classes_only_for_a_loss_that_uses_them(
    settings: dict[str, Any], weights: str
) -> None:
    rows = HOUSES.assign(kind=["fraud", *["ok"] * 9] * 30)
    study = sweeper.load_study(settings, data=rows, target="kind")
    assert study.data.class_weights == weights


@pytest.mark.parametrize("unused", [[], ["test"]])
def test_a_study_of_folds_that_began_unstratified_without_a_pruner_resumes_as_it_began(
    unused: list[str],
) -> None:
    kinds = pd.Categorical(["fraud", *["ok"] * 9] * 30, categories=["fraud", "ok", *unused])
    rows = HOUSES.assign(kind=kinds)
    now = sweeper.load_study({"study.folds": 5}, data=rows, target="kind")
    before: dict[str, Any] = {"study.folds": 5, "study.pruner": None, "results.ensemble": None}
    before["data.split.stratify"] = False
    if unused:  # they counted as classes
        before |= {"study.metric": "val_accuracy", "train.metrics": ["accuracy"]}
        before |= {"data.class_weights": None}
    began = sweeper.load_study(before, data=rows, target="kind").canonical()
    for record, name in ((began, "none"), (now.canonical(), "halving")):
        record["schedule"]["parallel"] = 8
        resumed = now.as_begun(record)
        assert resumed.study.pruner.name == name
        assert resumed.data.split.stratify == (name == "halving")
        assert reconcile(record, resumed.canonical()).refused == ()


@pytest.mark.parametrize(
    ("settings", "is_stratified"),
    [
        ({"study.folds": 5}, True),
        ({"study.folds": 5, "data.split.test": 0}, True),
        ({"study.folds": 28}, False),
        ({"study.folds": 31}, False),
    ],
)
def test_folds_are_stratified_if_each_has_rows_of_every_class(
    settings: dict[str, Any], is_stratified: bool
) -> None:
    rows = HOUSES.assign(kind=["fraud", *["ok"] * 9] * 30)
    study = sweeper.load_study(settings, data=rows, target="kind")
    assert study.data.split.stratify == is_stratified


@pytest.mark.parametrize(
    ("settings", "is_stratified"),
    [
        ({"data.split.seed": 1}, True),
        ({"data.split": {"test": 0.2}}, True),
        ({"data.split.stratify": None}, False),
        ({"data.split.stratify": False}, False),
        ({"data.split.group": "city"}, False),
        ({"data.split.seed": 1, "search": SEARCH}, False),
    ],
)
def test_splits_are_stratified_unless_the_mapping_splits_otherwise(
    settings: dict[str, Any], is_stratified: bool
) -> None:
    study = sweeper.load_study(settings, data=HOUSES, target="is_new")
    assert study.data.split.stratify == is_stratified


def test_a_setting_within_a_table_can_be_left_out() -> None:
    given = {"study.pruner.reduction_factor": None}
    pruner = sweeper.load_study(given, data=HOUSES, target="price").canonical()["study"]["pruner"]
    plain = {"study.pruner": {"name": "halving", "min_resource": 4}}
    known = sweeper.load_study(plain, data=HOUSES, target="price").canonical()["study"]["pruner"]
    assert pruner == known


NUMBERED = HOUSES.assign(store=[f"s{n}" for n in range(300)], t=range(300), one="a")


@pytest.mark.parametrize(
    ("settings", "before"),
    [
        ({"data.categorical_columns": ["t"]}, {"data.drop": ["store", "t", "one"]}),
        ({"data.categorical_columns": ["store"]}, {"data.drop": ["store", "t", "one"]}),
        ({"data.split.time": "t"}, {"data.drop": ["store", "t", "one"]}),
        (
            {"data.split": {"time": "t", "as_feature": True}},
            {"data.drop": ["store", "t", "one"]},
        ),
        ({"data.split.seed": 1}, {"data.split.stratify": False}),
        ({"data.split.stratify": None}, {"data.split.stratify": True}),
        (
            {"study.pruner.reduction_factor": None},
            {"study.pruner": {"name": "halving", "min_resource": 4, "reduction_factor": 3}},
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:columns left out:UserWarning")
def test_a_study_that_began_as_earlier_versions_read_the_mapping_resumes_as_it_began(
    settings: dict[str, Any], before: dict[str, Any]
) -> None:
    now = sweeper.load_study(settings, data=NUMBERED, target="is_new")
    named = {key: value for key, value in settings.items() if value is not None}
    began = sweeper.load_study({**named, **before}, data=NUMBERED, target="is_new").canonical()
    began["schedule"]["parallel"] = 8
    assert reconcile(began, now.as_begun(began).canonical()).refused == ()


@pytest.mark.parametrize(
    ("settings", "metric", "direction", "loss"),
    [
        ({}, "val_accuracy", "maximize", "cross_entropy"),
        ({"train.loss": "mae"}, "val_r2", "maximize", "mae"),
        ({"study.metric": "val_rmse"}, "val_rmse", "minimize", "mse"),
        ({"study.metric": "val_loss"}, "val_loss", "minimize", "cross_entropy"),
        ({"train.metrics": ["f1"]}, "val_f1", "maximize", "cross_entropy"),
        (
            {"study.metric": ["val_loss", "n_parameters"]},
            *([("val_loss", "n_parameters"), ("minimize",) * 2, "cross_entropy"]),
        ),
        ({"data.target": ["rooms", "price"]}, "val_r2", "maximize", "mse"),
    ],
)
def test_the_objective_follows_from_the_target_and_what_is_written(
    settings: dict[str, Any], metric: object, direction: object, loss: str
) -> None:
    config = sweeper.load_study({"data.target": "rooms", **settings}, data=HOUSES)
    found = config.study.metric, config.study.direction, config.train.loss
    assert found == (metric, direction, loss)


def test_default_searches_leave_out_what_is_fixed() -> None:
    fixed = {"model.depth": 1, "optimizer.name": "sgd", "model.kind": "tabm"}
    config = sweeper.load_study(fixed, data=HOUSES, target="price")
    assert "model.depth" not in config.search
    assert {"model.width", "optimizer.lr"} <= {*config.search}


def test_functions_and_classes_are_given_directly() -> None:
    config = sweeper.load_study(
        {"model.function": build, "search": SEARCH}, data=HOUSES, target="price"
    )
    assert config.functions == {f"{__name__}:build": "model.function"}
    assert config.canonical()["model"]["kind"] == "python"


def test_functions_without_a_name_are_refused() -> None:
    def inner() -> None: ...

    no_name = "has no name by which worker processes could find it"
    no_name += "; define a function with def, and pass that"
    for function, found in [
        (lambda: None, f"a lambda {no_name}"),
        (functools.partial(build, 1), f"partial {no_name}"),
        (
            inner,
            f"'{inner.__qualname__}' cannot be found by its name in the module '{__name__}'; "
            "define it at the top level of a module or notebook",
        ),
    ]:
        given = {"model.function": function, "search": SEARCH}
        assert problems(given, data=HOUSES, target="price") == [
            f"in the mapping: model.function: {found}"
        ]


def test_a_schedule_of_optax_is_refused_with_the_table_to_write() -> None:
    schedule = optax.cosine_decay_schedule(0.1, 100)
    hint = "a function is not supported here; write a number as lr, and {'name': 'cosine'}"
    for given in ({"lr": schedule}, {"lr": 0.1, "schedule": schedule}):
        (found,) = problems({"optimizer": given, "search": SEARCH}, data=HOUSES, target="price")
        assert hint in found
    cosine = {"optimizer": {"lr": 0.1, "schedule": {"name": "cosine"}}, "search": SEARCH}
    config = sweeper.load_study(cosine, data=HOUSES, target="price")
    assert config.canonical()["optimizer"]["schedule"]["name"] == "cosine"


@pytest.mark.parametrize("given", ["Adam", optax.adam])
def test_the_name_of_an_optimizer_is_refused_with_the_table_to_write(given: Any) -> None:
    name = "adam" if given == "Adam" else f"{optax.adam.__module__}:adam"
    (found,) = problems({"optimizer": given, "search": SEARCH}, data=HOUSES, target="price")
    assert found.endswith(f"is not a table; write {{'name': '{name}', 'lr': 0.001}}")


def test_an_error_does_not_repeat_its_problems_as_its_cause() -> None:
    given = {"model.function": lambda: None, "model.width": "8", "search": SEARCH}
    with pytest.raises(StudyError) as refused:
        sweeper.load_study(given, data=HOUSES, target="price")
    assert len(refused.value.problems) == 2
    assert (refused.value.__cause__, refused.value.__suppress_context__) == (None, True)


def test_a_function_that_was_defined_again_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"model.function": build, "search": SEARCH}
    monkeypatch.setitem(globals(), "build", lambda in_size, out_size, key: None)
    assert problems(given, data=HOUSES, target="price") == [
        f"in the mapping: model.function: 'build' has been defined again in '{__name__}' since; "
        "import it again, and write the settings again"
    ]
    main = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", main)
    exec("def build(): ...\nold = build\ndef build(): ...", vars(main))
    assert problems({**given, "model.function": main.old}, data=HOUSES, target="price") == [
        "in the mapping: model.function: 'build' has been defined again in '__main__' since; "
        "run the cell or code with the settings again"
    ]


def test_what_to_write_in_a_mapping_is_python() -> None:
    given = {"search": {"model.depth": 3}, "study.pruner": "median"}
    assert problems(given, data=HOUSES, target="price") == [
        "in the mapping: study.pruner: 'median' is not a table; write {'name': 'median'}",
        "in the mapping: search.model.depth: 3 is not a table; write e.g. "
        "{'type': 'int', 'low': 1, 'high': 4}",
    ]
    found = problems({"search": {}}, data=HOUSES, target="price", overrides=["study.pruner=median"])
    assert found == [
        "overrides: study.pruner: 'median' is not a table; write { name = \"median\" }"
    ]


@pytest.mark.parametrize("value", [["a"], {"a": 1}])
def test_values_of_any_type_are_read_or_refused(value: object) -> None:
    for key in settings_of_searched_tables():
        with suppress(SweeperError):
            sweeper.load_study({"study.name": "any", key: value}, data=HOUSES, target="price")
    (found,) = problems({"train.loss": value}, data=HOUSES, target="price")
    assert "train.loss" in found


def test_values_of_numpy_and_none_are_read() -> None:
    given = {"study.n_trials": np.int64(3), "optimizer.lr": np.float32(0.5), "study.timeout": None}
    given |= {"train.metrics": ("r2",), "results.dir": Path("runs") / "x"}
    config = sweeper.load_study({**given, "search": {}}, data=HOUSES, target="price")
    found = config.study.n_trials, config.canonical()["optimizer"]["lr"], config.results.dir
    assert found == (3, 0.5, "runs/x")


@pytest.mark.parametrize(
    ("omitted", "meant"),
    [
        ("modle", "model"),
        ("study.prunner", "study.pruner"),
        ("train.epoch", "train.epochs"),
        ("data.split.tets", "data.split.test"),
        ("search.model.widht", "model.width"),
        ("optimiser.lr", "optimizer.lr"),
    ],
)
def test_a_misspelt_setting_cannot_be_omitted(omitted: str, meant: str) -> None:
    found = problems({omitted: None}, data=HOUSES, target="price")
    assert found == [f"in the mapping: {omitted}: no such setting; did you mean '{meant}'?"]


def test_any_setting_can_be_omitted() -> None:
    names = [
        *("study.pruner", "study.pruner.n_startup_trials", "study.constraints", "results.ensemble"),
        *("data.split.test", "data.class_weights.a", "search.model.depth", "schedule", "trial"),
    ]
    sweeper.load_study(dict.fromkeys(names), data=HOUSES, target="price")
    own = {"model.function": build, "model.size": None, "optimizer.name": "optax:sgd"}
    sweeper.load_study({**own, "optimizer.x": None}, data=HOUSES, target="price")


@pytest.mark.parametrize("search", [{}, {"search": {}}])
def test_a_learning_rate_is_only_added_for_an_optimizer_that_takes_one(
    search: dict[str, Any],
) -> None:
    for function, takes_rate in ((with_peak, False), (with_rate, True)):
        own = {"optimizer.name": function, "optimizer.peak": 0.01, **search}
        config = sweeper.load_study(own, data=HOUSES, target="price")

        assert (config.canonical()["optimizer"]["lr"] is not None) == takes_rate
        assert ("optimizer.lr" in config.search) == (takes_rate and not search)
        check_functions(config, 1)


def test_all_problems_of_a_mapping_are_named_at_once() -> None:
    given = {
        "study": {"n_trials": 0, "naem": "x", "seed": 1},
        "study.seed": 2,
        "train.epochs": {1, 2},
        7: 1,
        "model.dropout": float("nan"),
        "data.source": "csv",
    }
    found = problems(given, data=HOUSES, target="prize", overrides=["optimizer.lr=-1"])
    assert [line.partition("; ")[0] for line in found] == [
        "in the mapping: study.seed: given twice",
        "in the mapping: train.epochs: set is not a type of settings",
        "in the mapping: the key 7 is not a string",
        "in the mapping: data.source: the rows are given as the argument data",
        "in the mapping: study.n_trials: 0 is too small",
        "in the mapping: study.naem: no such setting",
        "in the mapping: model.dropout: nan is not a finite number",
        "overrides: optimizer.lr: -1 is too small",
        "target: the DataFrame has no column 'prize'",
    ]


def test_what_readable_rows_would_determine_is_not_reported_as_missing() -> None:
    own = {"train.loss": "losses:mine", "search": SEARCH}
    assert problems(own, data=HOUSES, target="prize") == [
        "target: the DataFrame has no column 'prize'; did you mean 'price'?"
    ]


ARRAYS = np.ones((3, 2)), np.ones(3)
AS_TEXT = "name it by a string, as in df.columns = df.columns.astype(str)"


def test_a_mapping_without_rows_is_refused_by_what_to_pass() -> None:
    with pytest.raises(StudyError) as caught:
        sweeper.load_study({"search": SEARCH})
    [problem] = caught.value.problems
    assert problem.key == "data.source"
    assert problem.hint.startswith("pass the rows as data=..., or write one of sklearn, csv")


@pytest.mark.parametrize(
    ("data", "target", "found"),
    [
        (HOUSES, "prize", "target: the DataFrame has no column 'prize'; did you mean 'price'?"),
        (
            HOUSES.set_index("price"),
            "price",
            "target: the DataFrame has no column 'price'; it is the index: pass df.reset_index()",
        ),
        (
            HOUSES,
            None,
            "in the mapping: data.target: not named; pass target=...; its columns are "
            "area, rooms, city, is_new and price",
        ),
        (HOUSES[:0], "price", "data: the DataFrame has 0 rows and 5 columns; add some"),
        (
            HOUSES.rename(columns={"area": 3}),
            "price",
            f"data: column 3 of the DataFrame has a name of type int; {AS_TEXT}",
        ),
        (
            HOUSES[["area", "area", "price"]],
            "price",
            "data: the DataFrame has several columns 'area'; give each column its own name",
        ),
        ({}, "y", f"data: a dict is not a table; {FORMS}"),
        (
            (ARRAYS[0], np.ones(4)),
            None,
            "data: X has 3 rows, y has 4 rows; pass as many of both",
        ),
        (
            (np.ones(3), ARRAYS[1]),
            None,
            "data: X has the shape (3,); pass an array shaped (rows, features)",
        ),
        (
            ARRAYS,
            "y",
            "target: arrays (X, y) already say what to predict; remove it, or pass a DataFrame",
        ),
    ],
)
def test_other_data_than_tables_are_refused(data: Any, target: str | None, found: str) -> None:
    assert problems({}, data=data, target=target) == [found]


@pytest.mark.parametrize("settings", [{}, {"search": SEARCH}])
def test_columns_with_several_levels_are_joined_by_the_code_of_the_refusal(
    settings: dict[str, Any],
) -> None:
    df = HOUSES.set_axis(pd.MultiIndex.from_product([["of"], HOUSES.columns]), axis=1)
    with pytest.raises(DataError) as caught:
        sweeper.load_study(settings, data=df, target="of_price")
    found, _, code = str(caught.value).partition("; join them, as in ")
    assert found == "data: the column names of the DataFrame have 2 levels"

    exec(code, {"df": df})

    assert sweeper.load_study({}, data=df, target="of_price").rows is not None


def test_columns_without_a_type_are_refused_by_name() -> None:
    mixed = HOUSES.assign(odd=[1, "a"] * 150)
    (found,) = problems({}, data=mixed, target="price")
    assert found.startswith(
        "data: column 'odd' of the DataFrame holds values of type int and str; "
    )


@pytest.mark.parametrize("function", ["model.function", "train.program", "optimizer.name"])
def test_settings_of_a_function_that_cannot_be_named_are_not_called_unknown(function: str) -> None:
    table = function.partition(".")[0]
    search = {f"{table}.rate": {"type": "float", "low": 0.1, "high": 1.0}}
    given = {function: lambda: None, "search": search, "schedule.rate": 1}
    found = problems(given, data=HOUSES, target="price")
    assert [one.split(": ")[1] for one in found] == [function, "schedule.rate"]


def test_overrides_by_table_change_only_the_settings_that_they_name() -> None:
    given = {
        "study.pruner": {"name": "median", "n_startup_trials": 3},
        "data.split": {"val": 0.3, "test": 0.1},
        "search": {
            "model.width": {"type": "int", "low": 8, "high": 16},
            "model.depth": {"type": "int", "low": 1, "high": 2},
        },
    }

    def changed(overrides: dict[str, Any]) -> dict[str, Any]:
        study = sweeper.load_study(given, overrides, data=HOUSES, target="price").canonical()
        return {
            "pruner": study["study"]["pruner"],
            "split": {name: study["data"]["split"][name] for name in ("val", "test")},
            "search": study["search"],
        }

    whole = changed({})
    pruner = {"name": "median", "n_startup_trials": 7}
    width = {**whole["search"]["model.width"], "high": 32}
    for overrides, expected in (
        ({"study": {"pruner": {"n_startup_trials": 7}}}, {"pruner": pruner}),
        ({"study.pruner": {"n_startup_trials": 7}}, {"pruner": pruner}),
        ({"data": {"split": {"val": 0.2}}}, {"split": {"val": 0.2, "test": 0.1}}),
        (
            {"search": {"model": {"width": {"type": "int", "low": 8, "high": 32}}}},
            {"search": {**whole["search"], "model.width": width}},
        ),
        (
            {"search": {"model.width": {"high": 32}}},
            {"search": {**whole["search"], "model.width": width}},
        ),
    ):
        assert changed(overrides) == {**whole, **expected}
    percentile = {"name": "percentile", "percentile": 30.0}
    for overrides in ({"study": {"pruner": percentile}}, {"study.pruner": percentile}):
        assert changed(overrides) == {**whole, "pruner": percentile}


@pytest.mark.parametrize(
    ("overrides", "keys"),
    [
        ("data.path=other.parquet", ["data.path"]),
        ({"data.source": "csv", "data.path": "other.csv"}, ["data.source", "data.path"]),
        ({"data": {"source": "csv", "path": "other.csv"}}, ["data.source", "data.path"]),
        ("data = {source = 'csv', path = 'o.csv'}", ["data.source", "data.path"]),
        ({"data": {"source": "sklearn", "name": "wine"}}, ["data.source"]),
    ],
)
def test_overrides_that_name_other_rows_than_data_are_refused(
    overrides: Any, keys: list[str]
) -> None:
    with pytest.raises(StudyError) as refused:
        sweeper.load_study({}, overrides, data=HOUSES, target="price")
    first, *_ = refused.value.problems
    assert [one.key for one in refused.value.problems] == keys
    assert str(first) == (
        f"overrides: {keys[0]}: the rows are given as the argument data; remove it, or the "
        "argument data"
    )


@pytest.mark.parametrize("target", [HOUSES["price"], 3, [3], HOUSES[["price"]]])
def test_columns_in_place_of_their_names_are_refused(target: Any) -> None:
    (found,) = problems({}, data=HOUSES, target=target)
    kind = type(target).__name__
    assert found == (
        f"target: {kind} given as the name of a column; pass its name as text, or several in a list"
    )


def test_many_absent_targets_are_one_problem() -> None:
    (found,) = problems({}, data=HOUSES, target=[f"no {n}" for n in range(30)])
    assert found.startswith("target: the DataFrame has no columns 'no 0', 'no 1', ")


def test_a_table_of_targets_alone_is_refused() -> None:
    (found,) = problems({}, data=HOUSES[["price"]], target="price")
    expected = "no column besides the target 'price' to learn from; use a table with numbers"
    assert expected in found


def test_a_member_of_an_enum_is_its_text() -> None:
    class Activation(str, Enum):  # noqa: UP042, str() of a StrEnum is its text
        RELU = "relu"

    raw, _, flaws = raw_tables({"model.activation": Activation.RELU})
    assert (raw, flaws) == ({"model": {"activation": "relu"}}, [])


@pytest.mark.parametrize("overrides", [3, None, [("study.seed", 1)], ["study.seed=1", 2]])
def test_overrides_that_are_neither_texts_nor_a_mapping_are_refused(overrides: Any) -> None:
    with pytest.raises(StudyError, match=r"overrides: .* is not text of the form key=value; pass"):
        sweeper.load_study({}, overrides, data=HOUSES, target="price")


def test_functions_are_values_of_overrides() -> None:
    given = {"model.function": "nets:other", "model.kind": "python", "search": {}}
    texts = override_texts({"model.function": build, "train": {"loss": "mse"}})
    assert texts == [f'model.function="{__name__}:build"', 'train.loss="mse"']
    with pytest.raises(StudyError) as refused:
        sweeper.load_study(given, {"model.function": lambda: None, "study.seed": object()})
    assert [one.key for one in refused.value.problems] == ["model.function", "study.seed"]


def test_an_override_of_none_is_refused() -> None:
    overrides = {
        "schedule.parallel": None,
        "study": {"seed": None, "sampler": {"name": "tpe", "seed": None}},
        "train.metrics": [None, "accuracy", None],
    }
    with pytest.raises(StudyError) as refused:
        sweeper.load_study({}, overrides, data=HOUSES, target="price")
    hint = "pass a value, or remove the setting from the study"
    assert str(refused.value).splitlines() == [
        f"overrides: schedule.parallel: None is not a value; {hint}",
        f"overrides: study.seed: None is not a value; {hint}",
        f"overrides: study.sampler.seed: None is not a value; {hint}",
        f"overrides: train.metrics: None is not a value; {hint}",
    ]


def test_sparse_columns_are_refused_with_the_way_to_make_them_dense() -> None:
    sparse = HOUSES.assign(
        area=HOUSES["area"].astype(pd.SparseDtype(float, 0.0)), odd=[1, "a"] * 150
    )
    first, second = problems({}, data=sparse, target="price")
    assert first == (
        "data: the DataFrame has 1 sparse column, 'area'; make each dense, as in "
        "df['area'] = df['area'].sparse.to_dense()"
    )
    assert second.startswith("data: column 'odd' of the DataFrame holds values of type int and str")


def test_rows_that_are_left_out_cause_a_warning_unless_the_mapping_says_so() -> None:
    data = HOUSES.assign(price=HOUSES["price"].where(HOUSES.index > 4))
    with pytest.warns(UserWarning, match="^5 of 300 rows have no target and are left out; "):
        config = sweeper.load_study({}, data=data, target="price")
    assert config.data.missing_target == "drop"

    sweeper.load_study({"data.missing_target": "drop"}, data=data, target="price")


@pytest.mark.parametrize(
    ("value", "entry"),
    [
        (FloatDistribution(1e-5, 0.1, log=True), {"low": 1e-5, "high": 0.1, "log": True}),
        (FloatDistribution(0.5, 1.0), {"low": 0.5, "high": 1.0}),
        (FloatDistribution(0.0, 1.0, step=0.25), {"low": 0.0, "high": 1.0, "step": 0.25}),
        (IntDistribution(2, 8, step=2), {"type": "int", "low": 2, "high": 8, "step": 2}),
        (object(), {"low": 1e-4, "high": 1e-2, "log": True}),
    ],
)
def test_a_distribution_of_optuna_is_shown_as_an_entry_of_the_search(
    value: object, entry: dict[str, Any]
) -> None:
    (problem,) = problems({"search": {"optimizer.lr": value}}, data=HOUSES, target="price")
    hint = f"write an entry, such as { ({'type': 'float'} | entry) }"
    found = f"{type(value).__name__} is not a type of settings"
    assert problem == f"in the mapping: search.optimizer.lr: {found}; {hint}"
    others = {"model.depth": IntDistribution(1, 4), "model.kind": CategoricalDistribution(["mlp"])}
    shown = " ".join(problems({"search": others}, data=HOUSES, target="price"))
    assert "{'type': 'int', 'low': 1, 'high': 4}" in shown
    assert "{'type': 'categorical', 'choices': ['mlp']}" in shown


@pytest.mark.parametrize(
    ("key", "value", "example"),
    [
        ("study.sampler", TPESampler(), {"name": "tpe", "seed": 1}),
        ("study.sampler.name", TPESampler(), {"name": "tpe", "seed": 1}),
        ("study.pruner", NopPruner(), {"name": "halving", "min_resource": 3}),
        ("optimizer", optax.adam(1e-3), {"name": "adam", "lr": 0.001}),
        ("optimizer.name", optax.adam(1e-3), {"name": "adam", "lr": 0.001}),
    ],
)
def test_an_object_of_optuna_or_optax_is_refused_with_what_to_write(
    key: str, value: object, example: dict[str, Any]
) -> None:
    table = key.removesuffix(".name")
    (problem,) = problems({key: value}, data=HOUSES, target="price")
    kind = type(value).__name__
    start = f"in the mapping: {key}: {kind} is not a type of settings; write its name and "
    assert problem.startswith(start)
    assert f"such as {example}" in problem
    sweeper.load_study({table: example}, data=HOUSES, target="price")


def test_a_target_of_numbers_as_text_causes_a_warning_unless_classes_are_asked_for() -> None:
    data = HOUSES.assign(price=[f"{n % 50}.5 €" for n in range(300)])
    said = "^the target 'price' is taken as 50 classes, but it holds numbers written as text, "
    with pytest.warns(UserWarning, match=said + ".*: read them with pandas: df"):
        config = sweeper.load_study({}, data=data, target="price")
    assert config.train.loss == "cross_entropy"

    sweeper.load_study({"train.loss": "cross_entropy"}, data=data, target="price")
    sweeper.load_study({"data.categorical_columns": ["price"]}, data=data, target="price")


@pytest.mark.parametrize("weight", [1.0, "2"])
def test_the_column_of_weights_is_not_left_out(weight: object) -> None:
    rows = HOUSES.assign(w=weight)
    config = sweeper.load_study({"data.weight": "w"}, data=rows, target="price")
    assert config.data.drop == ()


def test_columns_that_are_left_out_cause_a_warning() -> None:
    with pytest.warns(
        UserWarning, match="columns left out: 'id' .*; 'data.drop': \\[\\] keeps them"
    ):
        config = sweeper.load_study({}, data=HOUSES.assign(id=range(300)), target="price")
    assert config.data.drop == ("id",)


@pytest.mark.parametrize(
    ("settings", "dropped"),
    [
        ({"data.categorical_columns": ["t", "one"]}, ("store",)),
        ({"data.categorical_columns": ["store"]}, ("t", "one")),
        ({"data.split": {"time": "t", "as_feature": True}}, ("store", "one")),
        ({"data.split": {"group": "store"}}, ("t", "one")),
    ],
)
@pytest.mark.filterwarnings("ignore:columns left out:UserWarning")
def test_columns_that_the_settings_name_are_not_left_out(
    settings: dict[str, Any], dropped: tuple[str, ...]
) -> None:
    config = sweeper.load_study(settings, data=NUMBERED, target="price")
    assert config.data.drop == dropped


def test_a_named_category_may_be_all_that_there_is_to_learn_from() -> None:
    rows = HOUSES[["price"]].assign(store=[f"s{n}" for n in range(300)])
    given = {"data.categorical_columns": ["store"]}
    assert sweeper.load_study(given, data=rows, target="price").data.drop == ()


@pytest.mark.parametrize("name", ["is_new", "city", "price"])
def test_a_column_may_be_called_self(name: str) -> None:
    rows = HOUSES.rename(columns={name: "self"}).astype({"rooms": "Int64"})
    target = "self" if name == "price" else "price"
    data = prepare(sweeper.load_study({}, data=rows, target=target))
    assert "self" in {column.name for column in data.columns}


@pytest.mark.parametrize(
    ("name", "values", "setting"),
    [
        ("split", ["train", "val", "test"] * 100, "data.split.column"),
        ("Weight", [1.0, 2.0, 0.5] * 100, "data.weight"),
    ],
)
def test_features_that_may_split_or_weigh_the_rows_cause_a_warning_unless_features_are_set(
    name: str, values: list[Any], setting: str
) -> None:
    rows = HOUSES.assign(**{name: values})
    with pytest.warns(UserWarning, match=f"'{name}' is a feature; .*, set '{setting}': '{name}'"):
        config = sweeper.load_study({}, data=rows, target="price")
    assert config.data.drop == ()

    sweeper.load_study({setting: name}, data=rows, target="price")
    sweeper.load_study({"data.drop": []}, data=rows, target="price")
    sweeper.load_study({"data.categorical_columns": [name]}, data=rows, target="price")
