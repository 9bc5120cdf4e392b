"""Published results as pandas DataFrames."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
from pyarrow import parquet

from sweeper.errors import Problem, SetupError, StudyError, printable
from sweeper.results.columns import SCHEMA_VERSION
from sweeper.results.decoded import check_published
from sweeper.results.formatting import best_trial, names, none_feasible, states
from sweeper.results.missing_trials import hint_of_finished, no_trials
from sweeper.results.ranking import best_first, value_columns
from sweeper.results.schema import study_metadata
from sweeper.results.status import Status, read_status
from sweeper.results.table_file import refuse_without_study, refusing_damage
from sweeper.rundir import RunDir, refuse_links

# pandas would turn integers and booleans into floats and objects where one of them is null.
_PANDAS_TYPES = {
    pa.int32(): pd.Int32Dtype(),
    pa.int64(): pd.Int64Dtype(),
    pa.bool_(): pd.BooleanDtype(),
}

_INT64 = range(-(2**63), 2**63)

_OF_STATUS = frozenset(field.name for field in fields(Status))


@dataclass(frozen=True, slots=True, repr=False)
class Results:
    """The results of one study, read again in each call, also while it runs.

    The fields of `status` are attributes, too, such as `state` and `counts`, except `best` and
    `study`.
    """

    run_dir: RunDir
    """The paths of the run directory, `run_dir.root`."""
    study: dict[str, Any]
    """The metadata of the files: study, metric, direction, search, versions, all settings, the
    study file, and the meaning and unit of each column of trials()."""
    keeps: object = field(default=None, compare=False)
    """What removes a temporary run directory, which therefore lasts as long as its results."""

    def __repr__(self) -> str:
        lines = [f"results of the study {self.study['study']}"]
        with suppress(SetupError):  # the directory may contain only the tables
            status = self.status
            lines += [f"  {status.state}, {states(status)}"]
            if status.best is not None:
                lines.append(f"  {best_trial(status.metric, status.best)}")
            elif warning := none_feasible(status):
                lines.append(f"  {warning}")
        lines.append(f"  in {self.run_dir.root}")
        return "\n".join(map(printable, lines))  # the directory may be from somebody else

    @property
    def status(self) -> Status:
        """The status of the study: its state, trials by state, and the best one as a mapping.

        Raises:
            SetupError: the status file does not exist or has another version, or the run directory
                contains a link.
        """
        refuse_links(self.run_dir)
        return read_status(self.run_dir)

    @property
    def state(self) -> str:
        """The state of the study: running, finished, interrupted or failed."""
        return self.status.state

    @property
    def counts(self) -> Mapping[str, int]:
        """The number of trials by state, including RUNNING and WAITING."""
        return self.status.counts

    if not TYPE_CHECKING:  # editors complete what is written out above

        def __getattr__(self, name: str) -> Any:
            if name in _OF_STATUS:
                return getattr(self.status, name)
            raise AttributeError(f"results have no attribute {name!r}")

    def trials(self) -> pd.DataFrame:
        """One row per finished trial, by trial number."""
        return _pandas(_table(self.run_dir, self.run_dir.trials))

    def trial(self, number: int) -> dict[str, Any]:
        """The row of one trial, by column.

        Raises:
            StudyError: no trial with this number has ended.
        """
        return _row_of(self, number)

    def metrics(self) -> pd.DataFrame:
        """One row per trial, epoch and metric."""
        return _pandas(_table(self.run_dir, self.run_dir.metrics))

    def buckets(self) -> pd.DataFrame:
        """One row per bucket and round."""
        return _pandas(_table(self.run_dir, self.run_dir.buckets))

    def spans(self) -> pd.DataFrame:
        """What the program, its threads and its workers did and when: one row per span of time."""
        return _pandas(_table(self.run_dir, self.run_dir.spans))

    def best(self, n: int = 1) -> pd.DataFrame:
        """The `n` best COMPLETE trials, best first; the earliest among equals.

        Feasible trials come first; with several objectives, the Pareto front, then the rest.
        Columns are those of trials() that distinguish them: parameters, metrics, weights.
        """
        table = _table(self.run_dir, self.run_dir.trials)
        directions = names(self.study["direction"])
        criteria = {"trial_number", "state", "feasible", *value_columns(len(directions))}
        ranking = [name for name in table.column_names if name in criteria]
        best = best_first(table.select(ranking).to_pylist(), directions, n)
        places = {number: i for i, number in enumerate(table["trial_number"].to_pylist())}
        chosen = table.take(pa.array([places[row["trial_number"]] for row in best], pa.int64()))
        return _pandas(chosen)[list(_columns_by_importance(table.column_names))]


def open_results(path: Path | str) -> Results:
    """The results in the run directory `path`.

    Raises:
        SetupError: nothing was published there, or by a later version, or it is damaged.
    """
    run_dir = RunDir(Path(path))
    refuse_links(run_dir)
    if not run_dir.trials.is_file():
        raise SetupError(no_trials(run_dir))
    with refusing_damage(run_dir.trials):
        study = study_metadata(parquet.read_schema(run_dir.trials))
    refuse_without_study(run_dir.trials, study)
    if study["schema_version"] > SCHEMA_VERSION:
        version, by = study["schema_version"], study["versions"]["sweeper"]
        found = f"its columns have version {version}, but this sweeper reads up to {SCHEMA_VERSION}"
        hint = f"read it with sweeper {by}, which wrote it, or a later version"
        raise SetupError(Problem(str(run_dir.trials), "", found, hint))
    return Results(run_dir, study)


def trained_trial(results: Results, number: int) -> dict[str, Any]:
    """The row of one trial, by column.

    Raises:
        StudyError: no trial with this number has ended, or it was not trained.
    """
    return _row_of(results, number, is_trained=True)


def _row_of(results: Results, number: int, *, is_trained: bool = False) -> dict[str, Any]:
    """The row of a trial, which must have been trained if `is_trained`."""
    rows: list[dict[str, Any]] = []
    if not isinstance(number, Integral) or isinstance(number, bool):
        found = f"{number!r} is not a trial number"
    elif int(number) not in _INT64:
        found = "no trial has a number of more than 64 bits"
    else:
        chosen = [("trial_number", "==", int(number))]
        rows = _table(results.run_dir, results.run_dir.trials, filters=chosen).to_pylist()
        found = f"no trial {number} has ended"
    if rows and is_trained and not _was_trained(rows[0]):
        rows, found = [], f"trial {number} was never trained"
    if not rows:
        columns = ["trial_number", *(_OF_TRAINED if is_trained else ())]
        ended = _table(results.run_dir, results.run_dir.trials, columns=columns).to_pylist()
        usable = [row["trial_number"] for row in ended if not is_trained or _was_trained(row)]
        hint = hint_of_finished(usable, are_trained=is_trained)
        raise StudyError(Problem(str(results.run_dir.root), "", found, hint))
    return rows[0]


# columns that are null for a trial that was not trained here
_OF_TRAINED = ("class_id", "device")


def _was_trained(row: Mapping[str, Any]) -> bool:
    return all(row[name] is not None for name in _OF_TRAINED)


def _columns_by_importance(columns: Iterable[str]) -> Iterator[str]:
    """The `columns` that distinguish the best trials, the most important first."""
    names = [name for name in columns if name != "params_json"]
    yield "trial_number"
    yield from (name for name in names if re.fullmatch(r"value(_\d+)?", name))
    yield from (name for name in names if name.startswith("params_"))
    yield from ("best_value", "best_epoch")
    yield from (name for name in names if name.startswith(("final_", "test_")))
    yield from ("n_parameters", "model_path")
    yield from (name for name in names if name == "feasible")


def _pandas(table: pa.Table) -> pd.DataFrame:
    return table.to_pandas(types_mapper=_PANDAS_TYPES.get)


def _table(run_dir: RunDir, path: Path, **chosen: Any) -> pa.Table:
    refuse_links(run_dir)
    with refusing_damage(path):
        check_published(path)
        return parquet.read_table(path, **chosen)
