"""The columns are a contract: their names, order, types and marks."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pyarrow as pa
import pytest

from sweeper.results.columns import OUTCOME, Column
from sweeper.results.columns import SPANS as OF_SPANS
from sweeper.results.schema import (
    buckets_schema,
    importance_schema,
    metrics_schema,
    spans_schema,
    study_metadata,
    trials_schema,
)
from sweeper.results.timeline import Activity
from sweeper.trial import Reason, TrialState
from tests.digest import deterministic_columns
from tests.results.committed import study

TRIALS = """\
schema_version int32, study string, run_id string, trial_number int64, state string, reason string,
value double, objective string, direction string, best_value double, best_epoch int32,
epochs_done int32, params_width int64, params_activation string, params_rate double,
params_json string, final_train_loss double, final_val_loss double, final_val_accuracy double,
test_loss double, test_accuracy double, value_std double, n_replicates int32, n_folds int32,
n_parameters int64, strategy string, class_id string, lane_loop string, capacity int32,
padded_width int32, padded_depth int32, structure_id string, told_through_round int64,
first_round int64, last_round int64, seed int64, diverged_epoch int32, error_type string,
error_message string, attempts int32, device string, place string, host string, worker_pid int64,
memory_fraction double, bytes_limit int64, started_at timestamp[us, tz=UTC],
finished_at timestamp[us, tz=UTC], train_s double, compile_share_s double, lane_s double,
peak_memory_bytes int64, model_path string, boundary string, run_widths string, xla_threads int32,
enqueued bool"""

METRICS = """\
study string, trial_number int64, replicate int32, fold int32, epoch int32, step int64,
metric string, phase string, value double, elapsed_s double"""

BUCKETS = """\
round int64, bucket_id int64, class_id string, strategy string, lane_loop string, capacity int32,
lanes_live int32, trials string, place string, device string, started_at timestamp[us, tz=UTC],
compile_s double, cache_hit bool, train_s double, predicted_compile_s double,
predicted_train_s double, waste_fraction double, epochs_from int32, epochs_to int32,
memory_predicted_bytes int64, memory_peak_bytes int64, attempt int32, outcome string,
occupancy double, capacity_planned int32, memory_limit_bytes int64,
finished_at timestamp[us, tz=UTC], class_name string, boundary string"""

SPANS = """\
run_id string, round int64, place string, activity string, started_at timestamp[us, tz=UTC],
finished_at timestamp[us, tz=UTC], bucket_id int64, class_id string"""

TRIALS_NEVER_NULL = """schema_version study run_id trial_number state objective direction
epochs_done params_json n_parameters strategy structure_id told_through_round first_round last_round
seed attempts"""

TRIALS_NOT_DETERMINISTIC = """run_id error_type error_message attempts device place host worker_pid
memory_fraction bytes_limit started_at finished_at train_s compile_share_s lane_s
peak_memory_bytes model_path boundary xla_threads"""


def columns(schema: pa.Schema) -> list[str]:
    """The name and type of each column."""
    return [f"{field.name} {field.type}" for field in schema]


def test_columns_have_their_order_and_types() -> None:
    config = study()
    schemas = (
        trials_schema(config),
        metrics_schema(config),
        buckets_schema(config),
        spans_schema(config),
    )
    expected = [
        re.split(r",\s(?=\w+\s)", text.replace("\n", " "))
        for text in (TRIALS, METRICS, BUCKETS, SPANS)
    ]
    assert expected == [columns(schema) for schema in schemas]


def test_required_columns_are_never_null() -> None:
    required = [field.name for field in trials_schema(study()) if not field.nullable]
    assert TRIALS_NEVER_NULL.split() == required


def test_only_circumstances_may_differ_between_runs() -> None:
    schema = trials_schema(study())
    free = [name for name in schema.names if name not in deterministic_columns(schema)]
    assert TRIALS_NOT_DETERMINISTIC.split() == free
    metrics = metrics_schema(study())
    assert metrics.names[:-1] == deterministic_columns(metrics)


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ('{ type = "int", low = 1, high = 4 }', pa.int64()),
        ('{ type = "categorical", choices = [16, 64] }', pa.int64()),
    ],
)
def test_a_parameter_has_the_type_of_its_values(entry: str, expected: pa.DataType) -> None:
    config = study(f"search.model.depth={entry}")
    assert trials_schema(config).field("params_depth").type == expected


@pytest.mark.parametrize(
    ("key", "choices", "expected"),
    [
        ("layer_norm", "[true, false]", pa.bool_()),
        ("dropout", "[0, 0.5]", pa.float64()),
        ("dropout", "[0.1, 0.5]", pa.float64()),
    ],
)
def test_choices_of_one_kind_have_its_type(key: str, choices: str, expected: pa.DataType) -> None:
    config = study(f"search.model.{key}={{type='categorical',choices={choices}}}")
    assert trials_schema(config).field(f"params_{key}").type == expected


def test_files_name_their_study() -> None:
    config = study()
    said = study_metadata(trials_schema(config))
    assert said["schema_version"] == 1
    assert (said["study"], said["metric"], said["direction"]) == (
        "small",
        "val_accuracy",
        "maximize",
    )
    assert said["search"] == config.canonical()["search"]
    assert {"sweeper", "jax", "optuna", "pyarrow"} <= said["versions"].keys()


@pytest.mark.parametrize(
    "schema_of",
    [trials_schema, metrics_schema, buckets_schema, spans_schema, importance_schema],
)
def test_every_column_is_explained(schema_of: type) -> None:
    schema = schema_of(study())
    said = study_metadata(schema)["columns"]
    assert list(said) == schema.names
    assert all(column["meaning"] for column in said.values())
    units = {name: column["unit"] for name, column in said.items() if column["unit"]}
    assert all(name.endswith(("_s", "_bytes", "_at", "bytes_limit")) for name in units)


def test_columns_that_users_name_have_no_unit() -> None:
    searched = "{type='float',low=0.1,high=0.5,log=true,name='%s'}"
    names = ("layers_s", "look_at", "read_bytes")
    keys = ("optimizer.lr", "optimizer.weight_decay", "model.dropout")
    said = study_metadata(
        trials_schema(
            study(*(f"search.{k}={searched % n}" for k, n in zip(keys, names, strict=True)))
        )
    )["columns"]
    assert {said[f"params_{name}"]["unit"] for name in names} == {None}
    wanted = {"train_s": "seconds", "bytes_limit": "bytes", "started_at": "time, UTC"}
    assert {name: said[name]["unit"] for name in wanted} == wanted


@pytest.mark.parametrize(
    ("table", "name", "values"),
    [
        (OUTCOME, "state", TrialState),
        (OUTCOME, "reason", Reason),
        (OF_SPANS, "activity", Activity),
    ],
)
def test_a_column_names_all_its_values(
    table: tuple[Column, ...], name: str, values: Iterable[str]
) -> None:
    (meaning,) = (column.meaning for column in table if column.name == name)
    assert set(values) <= set(re.findall(r"\w+", meaning))


def test_test_metrics_are_said_to_be_of_the_weights_that_a_trial_ends_with() -> None:
    said = study_metadata(trials_schema(study("study.value='best'")))["columns"]
    wanted = "on the test rows, with the weights that the trial ends with"
    assert said["test_accuracy"]["meaning"] == wanted
