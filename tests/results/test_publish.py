"""Committed rows are published completely and once, and files are never partial."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from sweeper.files import replacing
from sweeper.ledger import Ledger
from sweeper.results.publish import Publisher
from sweeper.results.schema import metrics_schema, trials_schema
from sweeper.results.table_file import TableFile
from sweeper.results.tables import rows_table
from sweeper.rundir import RunDir
from tests.digest import deterministic_digest
from tests.results.committed import METRICS, STEPS_PER_EPOCH, TRIALS, close_rounds, curve, study


class Clock:
    """A clock that advances by `step_s` whenever it is read."""

    def __init__(self, step_s: float = 0.0) -> None:
        self.now = 1000.0
        self._step_s = step_s

    def __call__(self) -> float:
        self.now += self._step_s
        return self.now


def publisher(run_dir: RunDir, clock: Clock | None = None) -> Publisher:
    """A publisher for which no time passes, unless by `clock`."""
    return Publisher(run_dir, study(), clock or Clock())


def parts(run_dir: RunDir) -> list[str]:
    """The names of the files in metrics/."""
    return sorted(path.name for path in run_dir.metrics.iterdir())


def n_trials(run_dir: RunDir) -> int:
    """How many trials are published."""
    return parquet.read_metadata(run_dir.trials).num_rows


def test_all_columns_exist_before_the_first_round(run_dir: RunDir, ledger: Ledger) -> None:
    publisher(run_dir).publish(ledger)
    trials, metrics = parquet.read_table(run_dir.trials), parquet.read_table(run_dir.metrics)
    assert trials.schema.equals(trials_schema(study()), check_metadata=True)
    assert metrics.schema.equals(metrics_schema(study()), check_metadata=True)
    assert (trials.num_rows, metrics.num_rows) == (0, 0)
    assert parquet.read_metadata(run_dir.buckets).num_rows == 0


def test_every_value_is_published_once(run_dir: RunDir, ledger: Ledger) -> None:
    show = publisher(run_dir)
    for _ in range(4):
        close_rounds(ledger, 1)
        show.publish(ledger)
    show.publish(ledger, final=True)
    values = [
        (trial, epoch, epoch * STEPS_PER_EPOCH, metric, None if np.isnan(value) else value)
        for trial in range(4 * TRIALS)
        for epoch, row in enumerate(curve(trial, epochs=3).values, 1)
        for metric, value in zip(METRICS, row, strict=True)
    ]
    rows = parquet.read_table(run_dir.metrics).to_pylist()
    names = ("trial_number", "epoch", "step", "metric", "value")
    assert values == [tuple(row[name] for name in names) for row in rows]


def test_rows_keep_what_was_committed(run_dir: RunDir, ledger: Ledger) -> None:
    close_rounds(ledger, 3)
    publisher(run_dir).publish(ledger, final=True)
    rows = parquet.read_table(run_dir.trials).to_pylist()
    expected = [
        {"schema_version": 1, "study": "small", **row, "started_at": rows[0]["started_at"]}
        for row in ledger.trial_rows()
    ]
    assert expected == [
        {name: row[name] for name in wanted} for row, wanted in zip(rows, expected, strict=True)
    ]
    assert rows[0]["started_at"].timestamp() == 1.5
    buckets = parquet.read_table(run_dir.buckets).to_pylist()
    assert [row["trials"] for row in buckets] == ["[0, 1]", "[2, 3]", "[4, 5]"]


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        ((), ("val_accuracy", "maximize")),
        (("study.metric='val_loss'", "study.direction='minimize'"), ("val_loss", "minimize")),
        (
            ("study.metric=['val_loss','val_accuracy']", "study.direction=['minimize','maximize']"),
            ('["val_loss", "val_accuracy"]', '["minimize", "maximize"]'),
        ),
    ],
)
def test_rows_name_their_objectives_and_directions(
    run_dir: RunDir, ledger: Ledger, overrides: tuple[str, ...], expected: tuple[str, str]
) -> None:
    close_rounds(ledger, 1)  # the ledger has neither: rows of earlier studies get them, too
    Publisher(run_dir, study(*overrides)).publish(ledger, final=True)
    rows = parquet.read_table(run_dir.trials, columns=["objective", "direction"]).to_pylist()
    assert [(row["objective"], row["direction"]) for row in rows] == [expected] * TRIALS


def test_a_number_that_is_not_finite_is_null(run_dir: RunDir, ledger: Ledger) -> None:
    close_rounds(ledger, 3)
    publisher(run_dir).publish(ledger, final=True)
    rows = parquet.read_table(run_dir.metrics).to_pylist()
    missing = {(row["trial_number"], row["epoch"]) for row in rows if row["value"] is None}
    assert missing == {(5, 3)}


def test_required_columns_cannot_be_missing(run_dir: RunDir, ledger: Ledger) -> None:
    publisher(run_dir).publish(ledger)
    rows = rows_table([{"trial_number": 0}], trials_schema(study()))
    with pytest.raises(pa.ArrowInvalid, match="non-nullable"):
        TableFile(run_dir.trials, run_dir.staging).write(rows)
    assert n_trials(run_dir) == 0


def test_a_part_waits_for_its_time(run_dir: RunDir, ledger: Ledger) -> None:
    clock = Clock()
    show = publisher(run_dir, clock)
    for _ in range(3):
        close_rounds(ledger, 1)
        show.publish(ledger)
    first = ["part-000000-000000.parquet", "part-000001-000001.parquet"]
    assert parts(run_dir) == first
    clock.now += 30
    show.publish(ledger)
    assert parts(run_dir) == [*first, "part-000002-000003.parquet"]


def test_a_part_does_not_wait_once_it_is_large(run_dir: RunDir, ledger: Ledger) -> None:
    show = publisher(run_dir)
    close_rounds(ledger, 1)
    show.publish(ledger)
    epochs = 64 * 1024 // (TRIALS * len(METRICS)) + 1
    close_rounds(ledger, 2, epochs)
    show.publish(ledger)
    large = ["part-000002-000002.parquet", "part-000003-000003.parquet"]
    assert parts(run_dir)[2:] == large
    close_rounds(ledger, 1)
    show.publish(ledger)
    assert parts(run_dir)[2:] == large, "what a part holds waits no more"
    close_rounds(ledger, 1, epochs)
    show.publish(ledger)
    assert parts(run_dir)[2:] == [*large, "part-000004-000005.parquet"]


def test_publishing_trials_costs_a_twentieth_at_most(run_dir: RunDir, ledger: Ledger) -> None:
    clock = Clock(step_s=1.0)
    show = publisher(run_dir, clock)
    close_rounds(ledger, 1)
    show.publish(ledger)  # costs the second between two looks at the clock
    close_rounds(ledger, 1)
    clock.now += 10
    show.publish(ledger)
    assert n_trials(run_dir) == TRIALS
    clock.now += 10
    show.publish(ledger)
    assert n_trials(run_dir) == 2 * TRIALS


def test_the_last_call_shows_everything(run_dir: RunDir, ledger: Ledger) -> None:
    show = publisher(run_dir, Clock(step_s=1e-3))
    show.publish(ledger)
    close_rounds(ledger, 3)
    show.publish(ledger, final=True)
    assert n_trials(run_dir) == 3 * TRIALS
    assert parts(run_dir)[-1] == "part-000001-000003.parquet"


def test_a_new_start_continues_after_the_last_part(run_dir: RunDir, ledger: Ledger) -> None:
    for _ in range(3):
        close_rounds(ledger, 2)
        publisher(run_dir).publish(ledger, final=True)
    assert parts(run_dir) == [
        "part-000000-000000.parquet",
        "part-000001-000002.parquet",
        "part-000003-000004.parquet",
        "part-000005-000006.parquet",
    ]


def test_publishing_again_changes_nothing(run_dir: RunDir, ledger: Ledger) -> None:
    close_rounds(ledger, 2)
    publisher(run_dir).publish(ledger, final=True)
    before = {path: path.stat().st_ino for path in run_dir.metrics.iterdir()}
    digest = deterministic_digest(run_dir)
    publisher(run_dir).publish(ledger, final=True)
    assert before == {path: path.stat().st_ino for path in run_dir.metrics.iterdir()}
    assert digest == deterministic_digest(run_dir)


@pytest.mark.parametrize("lost", ["part-000000-*", "part-000001-*", "part-*"])
def test_lost_parts_are_written_again(run_dir: RunDir, ledger: Ledger, lost: str) -> None:
    show = publisher(run_dir)
    close_rounds(ledger, 2)
    show.publish(ledger)
    close_rounds(ledger, 2)
    show.publish(ledger, final=True)
    digest = deterministic_digest(run_dir)
    for part in run_dir.metrics.glob(lost):
        part.unlink()
    publisher(run_dir).publish(ledger, final=True)
    assert digest == deterministic_digest(run_dir)


def test_a_lost_last_part_is_written_again(run_dir: RunDir, ledger: Ledger) -> None:
    show = publisher(run_dir)
    for _ in range(2):
        close_rounds(ledger, 2)
        show.publish(ledger, final=True)
    before = parts(run_dir)
    (run_dir.metrics / before[-1]).unlink()
    publisher(run_dir).publish(ledger, final=True)
    assert before == parts(run_dir)


def test_parts_of_unknown_rounds_are_removed(
    run_dir: RunDir, open_ledger: Callable[[str], Ledger]
) -> None:
    longer, shorter = open_ledger("longer.db"), open_ledger("shorter.db")
    close_rounds(longer, 5)
    close_rounds(shorter, 2)
    publisher(run_dir).publish(longer, final=True)
    publisher(run_dir).publish(shorter, final=True)
    assert parts(run_dir) == ["part-000000-000000.parquet", "part-000001-000002.parquet"]
    assert n_trials(run_dir) == 2 * TRIALS


@pytest.mark.parametrize("content", [b"", b"PAR1", None])
def test_parts_of_another_version_are_rewritten(
    content: bytes | None, run_dir: RunDir, open_ledger: Callable[[str], Ledger]
) -> None:
    ledger = open_ledger("ledger.db")
    close_rounds(ledger, 2)
    publisher(run_dir).publish(ledger, final=True)
    whole = parquet.read_table(run_dir.metrics)
    _, part = sorted(run_dir.metrics.iterdir())
    other = pa.table({"study": ["of another version"]})
    parquet.write_table(other, part) if content is None else part.write_bytes(content)
    publisher(run_dir).publish(ledger, final=True)
    assert parquet.read_table(run_dir.metrics).equals(whole)


def test_a_file_is_replaced_completely_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "trials.parquet"
    target.write_text("old")
    with pytest.raises(KeyboardInterrupt), replacing(target, tmp_path / "staging") as staged:
        staged.write_text("half")
        raise KeyboardInterrupt
    assert target.read_text() == "old"
    with replacing(target, tmp_path / "staging") as staged:
        staged.write_text("new")
    assert target.read_text() == "new"
    assert list((tmp_path / "staging").iterdir()) == []
