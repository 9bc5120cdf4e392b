"""The tables of a study that another tool has trained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pyarrow import parquet

from sweeper.config import StudyConfig
from sweeper.errors import SetupError
from sweeper.files import remove_inside, replacing
from sweeper.results.columns import (
    BEST,
    BUCKETS,
    CIRCUMSTANCES,
    DOUBLE,
    FEASIBLE,
    METRICS,
    OUTCOME,
    PARAMS_JSON,
    SPANS,
    Column,
    D,
)
from sweeper.results.light import read_light, study_metadata
from sweeper.results.publish import constants_of
from sweeper.results.ranking import value_columns
from sweeper.results.schema import param_type, schema_with
from sweeper.results.table_file import TableFile
from sweeper.results.tables import rows_table
from sweeper.rundir import RunDir

IMPORTED = "imported_from"
_PART = "part-000000-000000.parquet"


def imported_from(run_dir: RunDir) -> str | None:
    """Where the tables of a run directory were imported from; None if they were not."""
    return _source(run_dir.trials)


def is_unfinished(run_dir: RunDir, source: str) -> bool:
    """Whether a run directory only contains what an interrupted import from `source` left."""
    parts = run_dir.spans, run_dir.buckets, run_dir.metrics / _PART
    for path in run_dir.root.rglob("*"):
        if path == run_dir.staging or run_dir.staging in path.parents:
            continue
        if path.is_dir() and path in run_dir.directories():
            continue
        if path not in parts or _source(path) != source:
            return False
    return True


def _source(path: Path) -> str | None:
    """Where a table was imported from."""
    try:
        table = read_light(path, ())
    except (SetupError, OSError):
        return None
    return None if table is None else study_metadata(table).get(IMPORTED)


class ImportedTables:
    """Writes the tables of one imported study, whose `config` only has its goal and its search."""

    def __init__(self, run_dir: RunDir, config: StudyConfig, source: str) -> None:
        self._run_dir = run_dir
        self._config = config
        self._source = source

    def write(
        self, trials: Sequence[Mapping[str, Any]], curves: Sequence[Mapping[str, Any]]
    ) -> None:
        """Replace all tables; `trials` and `curves` are rows of trials.parquet and metrics/.

        trials.parquet is written last: without it, the import is unfinished.
        """
        run_dir = self._run_dir
        constants = constants_of(self._config)
        # all of them first, so that nothing is written if a row does not fit
        metrics = rows_table(curves, self.schema(METRICS))
        tables = {
            run_dir.spans: rows_table([], self.schema(SPANS)),
            run_dir.buckets: rows_table([], self.schema(BUCKETS)),
            run_dir.trials: rows_table(
                [{**constants, **row} for row in trials], self.schema(self._trials_columns())
            ),
        }
        run_dir.make()
        for part in run_dir.own_parts():
            remove_inside(run_dir.root, part)
        with replacing(run_dir.metrics / _PART, run_dir.staging) as staged:
            parquet.write_table(metrics, staged)
        for path, table in tables.items():
            TableFile(path, run_dir.staging).write(table)

    def _trials_columns(self) -> tuple[Column, ...]:
        study = self._config.study
        objectives = zip(value_columns(len(study.objectives)), study.objectives, strict=True)
        return (
            *OUTCOME,
            *(Column(name, DOUBLE, f"the objective {of}", D) for name, of in [*objectives][1:]),
            *BEST,
            *(
                Column(f"params_{name}", param_type(entry), f"the parameter {name}", D)
                for name, entry in self._config.columns.items()
            ),
            PARAMS_JSON,
            *CIRCUMSTANCES,
            FEASIBLE,
        )

    def schema(self, columns: Sequence[Column]) -> Any:
        """The schema of a table of the study with these columns."""
        study = self._config.study
        search = {
            key: entry.model_dump(mode="json", exclude_none=True)
            for key, entry in self._config.search.items()
        }
        about = {
            "study": study.name,
            "metric": study.metric,
            "direction": study.direction,
            "search": search,
            "settings": {},
            "study_file": str(self._run_dir.root),  # errors name it
            IMPORTED: self._source,
        }
        return schema_with(columns, about)
