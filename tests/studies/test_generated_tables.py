"""Tables of every kind are used for training, or refused with the file, the column and a fix."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import sklearn
from hypothesis import given

from sweeper import api
from sweeper.config import StudyConfig, load
from sweeper.data.dataset import Dataset
from sweeper.data.prepare import prepare
from sweeper.errors import DataError, StudyError, SweeperError
from tests.command_line import CommandLine
from tests.generated.bad_tables import BadTable, bad_tables
from tests.generated.columns import GOOD, ODD, Kind, table_of
from tests.generated.effort import some
from tests.small_studies import bent

assert sklearn.__version__  # if it is imported, data is prepared in this process

STUDY = """\
version = 1
study = { name = "t", metric = "val_loss", direction = "minimize", n_trials = 2 }
model = { kind = "mlp", depth = 1, width = 4 }
optimizer = { name = "adam", lr = 1e-3 }
train = { loss = "cross_entropy", epochs = 2, batch_size = 2 }
data = { source = "parquet", path = "rows.parquet", target = "y" }
"""


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory for tables, in which nothing else is left behind."""
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("error")  # a warning would reach the user
        directory = tmp_path_factory.mktemp("tables")
        patch.chdir(directory)
        yield directory


def are_finite(data: Dataset) -> bool:
    arrays = (data.x_train, data.y_train, data.x_val, data.y_val, data.x_test, data.y_test)
    scales = np.array([*data.y_mean, *data.y_scale])
    return all(np.isfinite(array).all() for array in (*arrays, scales))


def prepared(config: StudyConfig) -> Dataset | None:
    """The data of a study, all finite; None if it is refused with a clear message."""
    try:
        data = prepare(config)
    except DataError as error:
        check_words(error)
        return None
    assert are_finite(data)
    return data


def check_words(error: SweeperError) -> None:
    """Each problem has a place, a key, what was found and what to write, on one short line."""
    for problem in error.problems:
        assert problem.where.startswith("study.toml")
        assert problem.key
        assert problem.found
        assert problem.hint
        assert str(problem).isprintable()
        assert len(str(problem)) < 2_000


def try_all(here: Path, count: int) -> None:
    """Prepare this many generated tables, and plan each that can be used."""
    fit = refused = 0

    @some(count)
    @given(bad_tables())
    def each(table: BadTable) -> None:
        nonlocal fit, refused
        (here / "study.toml").write_text(table.study, encoding="utf-8")
        (here / table.file).write_bytes(table.content)
        try:
            data = prepared(load(here / "study.toml"))
        except StudyError as error:
            check_words(error)
            data = None
        fit, refused = fit + (data is not None), refused + (data is None)
        if data is not None and fit % 20 == 0:
            api.plan(load(here / "study.toml"))
        (here / table.file).unlink()
        assert [path.name for path in here.iterdir()] == ["study.toml"]

    each()
    assert fit + refused >= count
    assert min(fit, refused) > count / 10  # else the tables are all of one kind


def test_generated_tables_are_planned_or_refused(here: Path) -> None:
    try_all(here, 60)


@pytest.mark.slow
@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_thousand_generated_tables_are_planned_or_refused(here: Path) -> None:
    try_all(here, 1000)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", [*GOOD, *ODD])
def test_every_kind_of_column_is_learnt_from_predicted_and_split_by_or_refused(
    kind: str, here: Path
) -> None:
    odd, measure, label = {**GOOD, **ODD}[kind], GOOD["measure"], GOOD["class"]
    uses: list[tuple[Kind, Kind, list[str]]] = [
        (odd, label, []),
        (odd, label, ['data.impute="most_frequent"']),
        (odd, label, ['data.impute="mean"', 'data.scale="minmax"', 'data.categorical="ordinal"']),
        (odd, label, ['data.categorical_columns=["a"]']),
        (odd, label, ['data.split.group="a"']),
        (odd, label, ['data.split.time="a"', "data.split.as_feature=true"]),
        (measure, odd, []),
        (measure, odd, ["data.split.stratify=true"]),
        (measure, odd, ['train.loss="mse"']),
        (measure, odd, ['train.loss="binary_cross_entropy"']),
    ]
    for first, last, bends in uses:
        for precision in ("float32", "float64"):
            table = table_of(["a", "b", "y"], [first, measure, last], 40)
            pq.write_table(table, here / "rows.parquet")
            study = bent(STUDY, *bends, f'execution.precision="{precision}"')
            (here / "study.toml").write_text(study, encoding="utf-8")
            prepared(load(here / "study.toml"))


@pytest.mark.parametrize(
    "count", [1_000, pytest.param(10_000, marks=[pytest.mark.slow, pytest.mark.timeout(600)])]
)
def test_thousands_of_columns_are_prepared(count: int, here: Path) -> None:
    rows = np.arange(40)
    columns = {f"c{place}": rows * place % 7 for place in range(count)}
    pd.DataFrame({**columns, "y": rows % 2}).to_parquet(here / "wide.parquet")
    (here / "study.toml").write_text(bent(STUDY, 'data.path="wide.parquet"'), encoding="utf-8")
    data = prepared(load(here / "study.toml"))
    assert data is not None
    assert data.n_features == count


def test_a_problem_with_many_columns_names_few(here: Path) -> None:
    columns = {f"c{place}": [place] * 9 for place in range(100)}
    pd.DataFrame({**columns, "y": range(9)}).to_parquet(here / "wide.parquet")
    study = bent(STUDY, 'data.path="wide.parquet"', 'data.target="label"')
    (here / "study.toml").write_text(study, encoding="utf-8")
    with pytest.raises(DataError) as refusal:
        prepare(load(here / "study.toml"))
    (problem,) = refusal.value.problems
    assert problem.hint.startswith("its columns are c0, c1, c2, ")
    assert problem.hint.endswith(", c19 and 81 more")


@pytest.mark.parametrize(
    ("separator", "shown"),
    [(";", ";"), ("\t", "\\t"), ("|", "|")],
)
def test_fields_without_commas_are_refused(here: Path, separator: str, shown: str) -> None:
    (here / "rows.csv").write_text(f"a{separator}y\n1{separator}2\n")
    study = bent(STUDY, 'data.source="csv"', 'data.path="rows.csv"')
    (here / "study.toml").write_text(study, encoding="utf-8")
    with pytest.raises(DataError) as refusal:
        prepare(load(here / "study.toml"))
    (problem,) = refusal.value.problems
    assert problem.found == f"rows.csv has columns that seem to be separated by '{shown}'"
    assert problem.hint == f'write separator = "{shown}"'


def test_repeated_column_names_are_refused(here: Path) -> None:
    kinds = [GOOD["count"], GOOD["measure"], GOOD["class"]]
    pq.write_table(table_of(["a", "a", "y"], kinds, 40), here / "rows.parquet")
    (here / "study.toml").write_text(STUDY, encoding="utf-8")
    with pytest.raises(DataError) as refusal:
        prepare(load(here / "study.toml"))
    (problem,) = refusal.value.problems
    assert problem.found == "rows.parquet has several columns 'a'"


@pytest.mark.parametrize(
    ("bends", "column"),
    [([], "a"), (['data.scale="minmax"'], "a"), (['train.loss="mse"'], "y")],
)
def test_numbers_too_far_apart_to_be_scaled_are_refused(
    bends: list[str], column: str, here: Path
) -> None:
    kinds = [GOOD["class"], GOOD["class"]]
    kinds["ay".index(column)] = ODD["both ends"]
    pq.write_table(table_of(["a", "y"], kinds, 40), here / "rows.parquet")
    study = bent(STUDY, 'execution.precision="float64"', *bends)
    (here / "study.toml").write_text(study, encoding="utf-8")
    with pytest.raises(DataError) as refusal:
        prepare(load(here / "study.toml"))
    (problem,) = refusal.value.problems
    what = "values too large for float64 once they are filled and scaled"
    assert problem.found == f"column '{column}' of rows.parquet: {what}"
    setting = {"a": "scale", "y": "target_scale"}[column]
    assert problem.hint == f'write smaller numbers, or {setting} = "none"'


def test_fill_values_may_be_too_large(here: Path) -> None:
    pq.write_table(table_of(["a", "y"], [ODD["gaps"], GOOD["class"]], 40), here / "rows.parquet")
    study = bent(STUDY, "data.impute={constant = 1e300}", 'data.scale="none"')
    (here / "study.toml").write_text(study, encoding="utf-8")
    with pytest.raises(DataError, match="too large for float32 once they are filled"):
        prepare(load(here / "study.toml"))


def test_the_command_line_refuses_a_table_in_one_line(tmp_path: Path, command: CommandLine) -> None:
    kinds = [ODD["lists"], GOOD["count"]]
    pq.write_table(table_of(["a\x1b[31m\n", "y"], kinds, 40), tmp_path / "rows.parquet")
    command.write(bent(STUDY, 'train.loss="mse"'))
    shown = command("plan", "study.toml")
    assert (shown.returncode, shown.stdout) == (3, "")
    assert shown.stderr.startswith("study.toml:")
    assert shown.stderr.count("\n") == 1
    assert {path.name for path in tmp_path.iterdir()} == {"rows.parquet", "study.toml"}
