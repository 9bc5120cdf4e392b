"""Publishes what a ledger has committed as Parquet files that can be read at any time.

Every file is derived from the ledger and may be deleted. A part in metrics/ never changes; its name
says which rounds it contains, so a new start continues after the last one.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
from pyarrow import parquet

from sweeper.config import StudyConfig
from sweeper.faults import Step, fault_points
from sweeper.files import remove_inside, replacing
from sweeper.results.columns import SCHEMA_VERSION
from sweeper.results.schema import (
    buckets_schema,
    metrics_schema,
    spans_schema,
    trials_schema,
)
from sweeper.results.table_file import TableFile
from sweeper.results.tables import metrics_table, n_values, phase_of, rows_table
from sweeper.rundir import RunDir
from sweeper.trial import CurveBlock, Scalar

_PART_ROWS = 64 * 1024
_PART_AGE_S = 30.0
_TABLES_SHARE = 0.05
_PART_NAME = re.compile(r"part-(\d{6,})-(\d{6,})\.parquet")


class Committed(Protocol):
    """What a ledger contains about closed rounds; rounds count from 1."""

    def trial_rows(self) -> list[dict[str, Any]]:
        """The finished trials by number: columns of trials.parquet, times as seconds since 1970.

        The publisher adds `schema_version`, `study`, `objective`, `direction` and `model_path`;
        other missing columns are null.
        """
        ...

    def bucket_rows(self) -> list[dict[str, Any]]:
        """One row per bucket and round: columns of buckets.parquet; missing ones are null."""
        ...

    def span_rows(self) -> list[dict[str, Any]]:
        """One row per span of time: columns of spans.parquet, in the order they were recorded."""
        ...

    def n_closed_rounds(self) -> int:
        """How many rounds are closed."""
        ...

    def curves(self, first_round: int, last_round: int) -> Iterator[CurveBlock]:
        """The curves of the rounds from the first to the last, in order."""
        ...

    def params(self, number: int) -> Mapping[str, Scalar]:
        """The parameters of a trial of an open or closed round."""
        ...


class Publisher:
    """Writes the Parquet files of one study; for one thread of one process.

    Weights are those in `run_dir`, unless the run directory with the `models` is another.
    """

    def __init__(
        self,
        run_dir: RunDir,
        config: StudyConfig,
        clock: Callable[[], float] = time.monotonic,
        models: RunDir | None = None,
    ) -> None:
        self._run_dir = run_dir
        self._models = models or run_dir
        self._clock = clock
        self._config = config
        self._study = config.study.name
        self._constants = constants_of(config)
        self._folds = config.study.folds or 1
        self._trials_schema = trials_schema(config)
        self._metrics_schema = metrics_schema(config)
        self._buckets_schema = buckets_schema(config)
        self._spans_schema = spans_schema(config)
        self._trials = TableFile(run_dir.trials, run_dir.staging)
        self._buckets = TableFile(run_dir.buckets, run_dir.staging)
        self._spans = TableFile(run_dir.spans, run_dir.staging)
        self._waiting: list[CurveBlock] = []
        self._n_waiting = 0  # rows of metrics not yet written
        self._published_rounds: int | None = None
        self._part_at = self._tables_at = -math.inf
        self._tables_cost_s = 0.0
        run_dir.metrics.mkdir(parents=True, exist_ok=True)

    def publish(self, ledger: Committed, *, final: bool = False) -> None:
        """Publish what is committed, if that is worth the time now; `final` publishes everything.

        The first call writes every file, even if it only has columns, so that readers can start
        before the first round is closed.
        """
        self._publish_metrics(ledger, final)
        since_s = self._clock() - self._tables_at
        if final or self._tables_cost_s <= _TABLES_SHARE * since_s:
            with fault_points(Step.PUBLISH_TABLES):
                self._publish_tables(ledger)

    def _publish_tables(self, ledger: Committed) -> None:
        started = self._clock()
        # readers find the buckets of each trial, and the spans of each bucket
        self.publish_spans(ledger)
        self._buckets.write(rows_table(ledger.bucket_rows(), self._buckets_schema))
        trials = [self._constants | self._with_model(row) for row in ledger.trial_rows()]
        self._trials.write(rows_table(trials, self._trials_schema))
        self._tables_at = self._clock()
        self._tables_cost_s = self._tables_at - started

    def _with_model(self, row: dict[str, Any]) -> dict[str, Any]:
        """The row of a trial, with `model_path` if its weights are kept."""
        path = self._models.model(row["trial_number"])
        kept = str(path.relative_to(self._models.root)) if path.exists() else None
        return {**row, "model_path": kept}

    def publish_spans(self, ledger: Committed) -> None:
        """Publish where the time went, as far as recorded."""
        self._spans.write(rows_table(ledger.span_rows(), self._spans_schema))

    def _publish_metrics(self, ledger: Committed, final: bool) -> None:
        closed = ledger.n_closed_rounds()
        if self._published_rounds is None:
            self._published_rounds = self._find_published(closed)
        for block in ledger.curves(self._published_rounds + len(self._waiting) + 1, closed):
            self._waiting.append(block)
            self._n_waiting += n_values(block)
            if self._n_waiting >= _PART_ROWS:
                self._write_part(ledger)
        if self._waiting and (final or self._clock() - self._part_at >= _PART_AGE_S):
            self._write_part(ledger)

    def _find_published(self, closed: int) -> int:
        """The last round in existing parts, after removing parts that do not fit `closed` rounds.

        All parts are removed if one is damaged or has the columns of another version. Part 0
        contains no round: it gives readers the columns before the first round is closed.
        """
        parts = self._run_dir.own_parts()
        published = last_round(parts)
        if published is not None and published <= closed and all(map(self._is_own, parts)):
            return published
        for part in parts:
            remove_inside(self._run_dir.root, part)
        self._write_once(rows_table([], self._metrics_schema), self._part(0, 0))
        return 0

    def _is_own(self, part: Path) -> bool:
        try:
            return parquet.read_schema(part).equals(self._metrics_schema)
        except (pa.ArrowException, OSError):
            return False

    def _write_part(self, ledger: Committed) -> None:
        first, last = self._waiting[0].round, self._waiting[-1].round
        values = metrics_table(
            self._waiting,
            self._study,
            self._metrics_schema,
            self._folds,
            phase_of(self._config, ledger.params),
        )
        with fault_points(Step.PUBLISH_PART):
            self._write_once(values, self._part(first, last))
        self._published_rounds = last
        self._waiting.clear()
        self._n_waiting = 0
        self._part_at = self._clock()

    def _part(self, first: int, last: int) -> Path:
        return self._run_dir.metrics / f"part-{first:06d}-{last:06d}.parquet"

    def _write_once(self, rows: pa.Table, target: Path) -> None:
        with replacing(target, self._run_dir.staging) as staged:
            parquet.write_table(rows, staged)


def constants_of(config: StudyConfig) -> dict[str, Any]:
    """The values that all rows of trials.parquet share."""
    return {
        "schema_version": SCHEMA_VERSION,
        "study": config.study.name,
        "objective": _one_or_array(config.study.objectives),
        "direction": _one_or_array(config.study.directions),
    }


def _one_or_array(names: Sequence[str]) -> str:
    """A single name as it is, several as a JSON array."""
    return names[0] if len(names) == 1 else json.dumps(names)


def last_round(parts: Sequence[Path]) -> int | None:
    """The last round that `parts` contain by their names; None if a round is missing."""
    names = [_PART_NAME.fullmatch(part.name) for part in parts]
    spans = sorted((int(name[1]), int(name[2])) for name in names if name)
    firsts = [first for first, _ in spans]
    lasts = [last for _, last in spans]
    whole = all(names) and firsts == [0, *(last + 1 for last in lasts[:-1])]
    return lasts[-1] if whole else None
