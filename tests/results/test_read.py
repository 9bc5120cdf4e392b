"""Results are loaded as pandas objects, as they were published."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

import sweeper
from sweeper.dashboard.study import PublishedStudy
from sweeper.errors import SetupError, StudyError
from sweeper.ledger import Ledger
from sweeper.results.formatting import number
from sweeper.results.light import read_light, texts
from sweeper.results.listing import read_trials
from sweeper.results.publish import Publisher
from sweeper.results.read import Results, open_results, trained_trial
from sweeper.results.status import read_status, write_status
from sweeper.rundir import RunDir
from tests.in_process import study_in
from tests.live_status import STATUS
from tests.results.committed import close_rounds, curve, study
from tests.small_studies import DIGITS


def published(run_dir: RunDir, ledger: Ledger, direction: str = "maximize") -> Results:
    """Ten trials; number 5 diverged."""
    close_rounds(ledger, 5)
    config = study(f"study.direction={direction}")
    Publisher(run_dir, config).publish(ledger, final=True)
    return open_results(run_dir.root)


@pytest.mark.parametrize(("direction", "sign"), [("maximize", -1), ("minimize", 1)])
def test_the_best_are_complete_and_by_direction(
    run_dir: RunDir, ledger: Ledger, direction: str, sign: int
) -> None:
    results = published(run_dir, ledger, direction)
    complete = [number for number in range(10) if number != 5]
    order = sorted(complete, key=lambda number: sign * curve(number, 3).values[-1, -1])
    assert results.best(100)["trial_number"].tolist() == order
    assert results.best()["trial_number"].tolist() == order[:1]


def test_the_best_have_the_columns_that_distinguish_them(run_dir: RunDir, ledger: Ledger) -> None:
    results = published(run_dir, ledger)
    assert results.best().columns.tolist() == [
        "trial_number",
        "value",
        *(f"params_{name}" for name in study().columns),
        "best_value",
        "best_epoch",
        *(f"final_{name}" for name in study().train.metric_names),
        *study().train.test_metric_names,
        "n_parameters",
        "model_path",
    ]


def test_of_equals_the_earliest_is_best(run_dir: RunDir, ledger: Ledger) -> None:
    results = published(run_dir, ledger)
    rows = parquet.read_table(run_dir.trials)
    equal = pa.array([0.5] * len(rows))
    index = rows.schema.get_field_index("value")
    reversed_rows = rows.set_column(index, "value", equal).take(list(range(len(rows)))[::-1])
    parquet.write_table(reversed_rows, run_dir.trials)
    assert results.best(3)["trial_number"].tolist() == [0, 1, 2]


def test_integers_stay_integers_if_some_are_null(run_dir: RunDir, ledger: Ledger) -> None:
    trials = published(run_dir, ledger).trials()
    assert trials["diverged_epoch"].dtype == "Int32"
    assert trials["diverged_epoch"].dropna().tolist() == [3]
    assert trials["started_at"].dt.tz is not None


def test_a_trial_without_a_row_is_refused(run_dir: RunDir, ledger: Ledger) -> None:
    results = published(run_dir, ledger)
    assert results.trial(np.int64(3))["trial_number"] == 3
    for asked, found in [
        (99, "no trial 99 has ended"),
        ("x", "'x' is not a trial number"),
        (10**20, "no trial has a number of more than 64 bits"),
        (-(10**5000), "no trial has a number of more than 64 bits"),
    ]:
        with pytest.raises(StudyError, match=f"{found}; use a finished trial: 0 to 9$"):
            results.trial(asked)  # type: ignore[arg-type]


def test_a_hint_names_only_trials_that_can_be_used(run_dir: RunDir, ledger: Ledger) -> None:
    """Not those that have not ended, nor, for what needs a trained trial, infeasible ones."""
    results = published(run_dir, ledger)
    rows = parquet.read_table(run_dir.trials)
    for name in ("class_id", "device"):
        index = rows.schema.get_field_index(name)
        field = rows.schema.field(index)
        values = [None if number == 6 else "a" for number in range(len(rows))]
        rows = rows.set_column(index, field, pa.array(values, field.type))
    parquet.write_table(rows.take([0, 1, 2, 4, 5, 6, 7]), run_dir.trials)
    with pytest.raises(StudyError, match=r"use a finished trial: 0 to 2, 4 to 7$"):
        results.trial(3)
    assert trained_trial(results, 5)["trial_number"] == 5
    for asked, found in ((3, "no trial 3 has ended"), (6, "trial 6 was never trained")):
        with pytest.raises(StudyError, match=f"{found}; use a trained trial: 0 to 2, 4 to 5, 7$"):
            trained_trial(results, asked)


def test_a_table_that_another_program_has_rewritten_is_refused(
    run_dir: RunDir, ledger: Ledger
) -> None:
    published(run_dir, ledger)
    write_status(run_dir, STATUS)
    pd.read_parquet(run_dir.trials).to_parquet(run_dir.trials)
    reading = (
        lambda: open_results(run_dir.root),
        lambda: read_trials(run_dir),
        lambda: PublishedStudy(run_dir),
    )
    for read in reading:
        with pytest.raises(SetupError) as refused:
            read()
        assert str(refused.value) == (
            f"{run_dir.trials}: another program has rewritten it without its metadata; "
            f"rewrite it with: python -m sweeper verify {run_dir.root} --repair"
        )


def test_text_that_another_program_has_rewritten_is_read_as_codes(
    run_dir: RunDir, ledger: Ledger
) -> None:
    published(run_dir, ledger)
    tables = []
    for _ in range(2):
        table = read_light(run_dir.buckets)
        assert table is not None
        tables.append([value.tolist() for value in map(np.array, texts(table["class_id"]))])
        pd.read_parquet(run_dir.buckets).to_parquet(run_dir.buckets)
    assert tables[0] == tables[1]


def test_tables_have_one_row_per_trial_value_or_bucket(run_dir: RunDir, ledger: Ledger) -> None:
    results = published(run_dir, ledger)
    assert (len(results.trials()), len(results.metrics()), len(results.buckets())) == (10, 90, 5)


def test_results_name_their_study(run_dir: RunDir, ledger: Ledger) -> None:
    results = published(run_dir, ledger)
    assert (results.study["study"], results.study["metric"]) == ("small", "val_accuracy")


def test_results_can_be_opened_before_a_trial_ends(run_dir: RunDir, ledger: Ledger) -> None:
    Publisher(run_dir, study()).publish(ledger)
    results = open_results(str(run_dir.root))
    assert repr(results) == f"results of the study small\n  in {run_dir.root}"
    assert results.best().empty
    assert results.metrics().empty


def test_text_of_results_from_elsewhere_does_not_reach_the_terminal(tmp_path: Path) -> None:
    results = Results(RunDir(tmp_path), {"study": "a\x1b[2J"})
    assert repr(results) == f"results of the study a\\x1b[2J\n  in {tmp_path}"


def test_a_directory_without_results_is_refused_with_the_hint(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"trials\.parquet does not exist; name the run directory"):
        open_results(tmp_path)


def test_a_study_without_a_committed_round_is_to_be_resumed(
    run_dir: RunDir,
) -> None:
    run_dir.ledger.touch()
    found = "the study was started, but no round is committed yet; "
    resume = "run the study again, which resumes it"
    hints = {None: f"wait if it runs, or {resume}", "running": "wait for the first one"}
    for state, hint in {**hints, "interrupted": resume}.items():
        if state is not None:
            write_status(run_dir, replace(STATUS, host="elsewhere", state=state, round=0))
        for read in (lambda: open_results(run_dir.root), lambda: read_trials(run_dir)):
            with pytest.raises(SetupError) as refused:
                read()
            assert str(refused.value) == f"{run_dir.root}: {found}{hint}"


def test_a_run_returns_its_results_with_the_status(tmp_path: Path) -> None:
    results = sweeper.run(study_in(tmp_path, DIGITS, "study.n_trials=2", "train.epochs=1"))
    status = read_status(results.run_dir)
    assert status.best is not None
    best = f"best val_loss {number(status.best['value'], 6)} (trial {status.best['trial_number']})"
    assert (results, results.status) == (sweeper.open_results(tmp_path / "run"), status)
    assert (results.state, results.counts, results.round) == ("finished", status.counts, 1)
    assert repr(results).splitlines()[:2] == [
        "results of the study digits",
        "  finished, 2 complete",
    ]
    assert repr(results).splitlines()[2].startswith(f"  {best}: depth=")
    assert not hasattr(results, "bests")
