"""A study is logged once, however often, and while it runs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

import optuna
import pyarrow as pa
import pytest
from pyarrow import parquet

from sweeper.cli.main import command
from sweeper.errors import SetupError, StudyError
from sweeper.ledger import Ledger
from sweeper.results.publish import Publisher
from sweeper.results.status import write_status
from sweeper.rundir import RunDir
from sweeper.study.optuna_import import import_optuna
from sweeper.study.optuna_storage import open_storage
from sweeper.trackers.log import Summary, log_study
from sweeper.trackers.memory import read_tracker_log
from sweeper.trackers.tracker import Logged, Point, StudyRecord, TrialRecord, by_dotted_key
from tests.live_status import STATUS
from tests.results.committed import METRICS, close_rounds, curve, study

DIVERGED = 5  # as tests.results.committed has it


@dataclass
class Kept:
    """A tracker in memory."""

    points: list[Point] = field(default_factory=list)
    trials: list[TrialRecord] = field(default_factory=list)
    studies: list[StudyRecord] = field(default_factory=list)
    files: set[str] = field(default_factory=set)
    closed: int = 0

    def start(self, study: StudyRecord) -> Logged:
        self.studies.append(study)
        return Logged(len(self.points), frozenset(self.numbers))

    def log_points(self, points: Sequence[Point]) -> None:
        self.points += points

    def log_trial(self, trial: TrialRecord) -> None:
        self.trials.append(trial)

    def finish(self, study: StudyRecord, files: Mapping[str, Path]) -> str:
        self.studies.append(study)
        self.files = {name for name, path in files.items() if path.exists()}
        return "memory"

    def close(self) -> None:
        self.closed += 1

    @property
    def numbers(self) -> list[int]:
        """The numbers of the trials, in the order in which they were logged."""
        return [trial.number for trial in self.trials]


@dataclass
class Running:
    """A study whose rounds are closed one by one."""

    run_dir: RunDir
    ledger: Ledger
    overrides: tuple[str, ...] = ()

    def publish(self, publisher: Publisher, *, final: bool = True) -> None:
        """Publish what is closed, without the buckets, which are not complete here."""
        publisher.publish(self.ledger, final=final)
        self.run_dir.buckets.unlink()

    def close(self, rounds: int, state: str = "running") -> None:
        """Close some more rounds and publish them."""
        close_rounds(self.ledger, rounds)
        config = study(*self.overrides)
        self.publish(Publisher(self.run_dir, config))
        rows = self.ledger.trial_rows()
        counts = dict.fromkeys(("COMPLETE", "PRUNED", "FAIL", "RUNNING", "WAITING"), 0)
        for row in rows:
            counts[row["state"]] += 1
        status = replace(
            STATUS,
            study="small",
            state=state,
            round=self.ledger.n_closed_rounds(),
            counts=counts,
            best=None,
            metric=config.study.metric,
            direction=config.study.direction,
            running=(),
        )
        write_status(self.run_dir, status)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    run_dir = RunDir(tmp_path / "run")
    run_dir.make()
    with closing(Ledger.create(run_dir.ledger)) as ledger:
        yield Running(run_dir, ledger)


def log(running: Running, kept: Kept, top: int | None = 3, **options: object) -> Summary:
    return log_study(running.run_dir, lambda study, memory: kept, top=top, **options)


def values(last: int) -> dict[int, float]:
    """The values of the trials below `last` that have one."""
    known = {number: float(curve(number, 3).values[-1, -1]) for number in range(last)}
    return {number: value for number, value in known.items() if number != DIVERGED}


def test_only_the_best_trials_are_logged_unless_all_are_asked_for(running: Running) -> None:
    running.close(4, "finished")
    known, few, every = values(8), Kept(), Kept()
    best = sorted(known, key=lambda number: -known[number])
    assert log(running, few) == Summary(3, 0, 8, "finished", "memory")
    assert few.numbers == best[:3]
    log(running, every, None)
    assert every.numbers == [*best, DIVERGED]
    assert few.files >= {"trials.parquet", "metrics", "spans.parquet", "report.html"}
    assert few.closed == 1


def test_a_trial_has_its_parameters_curves_and_outcome(running: Running) -> None:
    running.close(3, "finished")
    kept = Kept()
    log(running, kept, None)
    for trial in kept.trials:
        rows = curve(trial.number, 3).values
        expected = {
            metric: {
                epoch: float(value)
                for epoch, value in enumerate(rows[:, index], 1)
                if value == value
            }
            for index, metric in enumerate(METRICS)
        }
        assert trial.curves == expected
        assert trial.params["width"] == 4 + trial.number % 60
        assert trial.numbers.get("value") == values(6).get(trial.number)
    assert [trial.texts["reason"] for trial in kept.trials if trial.state == "PRUNED"] == [
        "diverged"
    ]


def test_the_study_has_its_history_and_its_best(running: Running) -> None:
    running.close(4, "finished")
    kept, known = Kept(), values(8)
    log(running, kept)
    assert [point.step for point in kept.points] == [*range(1, 9)]
    assert [point.values.get("val_accuracy") for point in kept.points] == [
        known.get(number) for number in range(8)
    ]
    so_far = [max(v for n, v in known.items() if n <= number) for number in range(8)]
    assert [point.values["best_val_accuracy"] for point in kept.points] == so_far
    last = kept.studies[-1]
    assert last.numbers["best.value"] == max(known.values())
    assert last.numbers["trials.complete"] == 7
    assert {*last.space} == {"width", "activation", "rate"}


def test_several_objectives_have_a_front_and_no_best(running: Running) -> None:
    running.overrides = (
        "study.metric=['val_accuracy','val_loss']",
        "study.direction=['maximize','minimize']",
        "study.pruner.name='none'",
    )
    running.close(2, "finished")
    table = parquet.read_table(running.run_dir.trials)
    place = table.schema.get_field_index("value_1")
    table = table.set_column(place, table.schema.field(place), table["value"])
    parquet.write_table(table, running.run_dir.trials)
    kept, known = Kept(), values(4)
    log(running, kept)
    assert [point.values for point in kept.points] == [
        {"val_accuracy": value, "val_loss": value} for value in known.values()
    ]
    last = kept.studies[-1]
    assert sorted(json.loads(last.texts["pareto_front"])) == [0, 1, 2, 3]
    assert "best.value" not in last.numbers


@pytest.mark.parametrize("feasible", [False, True])
def test_the_best_trial_of_a_study_meets_its_constraints(feasible: bool, running: Running) -> None:
    running.overrides = ("study.constraints=[{metric='val_loss', max=0.5}]",)
    running.close(1, "finished")
    table = parquet.read_table(running.run_dir.trials)
    place = table.schema.get_field_index("feasible")
    judged = pa.array([feasible] * len(table))
    table = table.set_column(place, table.schema.field(place), judged)
    parquet.write_table(table, running.run_dir.trials)
    kept = Kept()
    log(running, kept)
    assert {trial.numbers["feasible"] for trial in kept.trials} == {float(feasible)}
    last = kept.studies[-1]
    assert ("best.trial" in last.numbers) is ("best.params" in last.texts) is feasible


def test_what_was_logged_is_not_logged_again(running: Running) -> None:
    running.close(2, "interrupted")
    kept = Kept()
    log(running, kept, None)
    running.close(2, "finished")
    assert log(running, kept, None) == Summary(8, 4, 8, "finished", "memory")
    log(running, kept, None)
    assert sorted(kept.numbers) == [*range(8)]
    assert [point.step for point in kept.points] == [*range(1, 9)]
    assert len({study.key for study in kept.studies}) == 1


def test_a_trial_of_an_imported_study_that_ends_late_is_logged_last(tmp_path: Path) -> None:
    url, run_dir, kept = f"sqlite:///{tmp_path / 'old.db'}", RunDir(tmp_path / "run"), Kept()
    sampler = optuna.samplers.RandomSampler(0)
    study = optuna.create_study(storage=open_storage(url), study_name="old", sampler=sampler)
    trials = [study.ask() for _ in range(4)]
    rates = [trial.suggest_float("optimizer.lr", 0.0, 1.0) for trial in trials]
    best = 1.0
    for numbers in ((0, 1, 3), (2,)):
        before = len(kept.points)
        for number in numbers:
            study.tell(trials[number], rates[number])
        import_optuna(url, None, run_dir.root, {}, ["val_loss"])
        log_study(run_dir, lambda study, memory: kept, top=3)
        for point, number in zip(kept.points[before:], numbers, strict=True):
            best = min(best, rates[number])
            assert point.values == {"val_loss": rates[number], "best_val_loss": best}
    assert [point.step for point in kept.points] == [1, 2, 3, 4]


def test_following_logs_each_round_until_the_study_ends(running: Running) -> None:
    running.close(1)
    kept, shown = Kept(), []

    def go_on(logged: int, finished: int) -> None:
        shown.append((logged, finished))
        if finished < 6:
            running.close(1, "interrupted" if finished == 4 else "running")

    done = log(running, kept, None, follow=True, shown=go_on, every_s=0.0)
    assert done == Summary(6, 0, 6, "interrupted", "memory")
    assert shown == [(2, 2), (4, 4), (6, 6)]


def test_following_waits_for_a_study_below_a_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_dir, followed = RunDir(tmp_path / "runs" / "digits"), []

    def begin(_: float) -> None:
        run_dir.make()
        write_status(run_dir, STATUS)

    def follow(found: RunDir, *_: object, **__: object) -> Summary:
        followed.append(found.root)
        return Summary(0, 0, 0, "finished", "memory")

    monkeypatch.setattr("time.sleep", begin)
    monkeypatch.setattr("sweeper.trackers.log.log_study", follow)
    command("log", str(tmp_path / "runs"), "--to", "tensorboard", "--follow")
    assert followed == [run_dir.root]


def test_a_trial_waits_for_its_curve_while_the_study_runs(running: Running) -> None:
    running.close(1)
    publisher = Publisher(running.run_dir, study(), lambda: 1000.0)  # no time passes
    for _ in range(2):  # the second part of metrics/ waits for half a minute
        close_rounds(running.ledger, 1)
        running.publish(publisher, final=False)
    kept = Kept()
    log(running, kept, None)
    assert sorted(kept.numbers) == [0, 1, 2, 3]
    running.publish(publisher)
    log(running, kept, None)
    assert sorted(kept.numbers) == [0, 1, 2, 3, 4, 5]


def test_a_tracker_is_closed_after_an_error(running: Running) -> None:
    running.close(1, "finished")

    class Refusing(Kept):
        def log_trial(self, trial: TrialRecord) -> None:
            raise SetupError("refused")

    kept = Refusing()
    with pytest.raises(SetupError, match="refused"):
        log(running, kept)
    assert kept.closed == 1


def test_the_memory_of_a_run_directory_keeps_its_key(running: Running) -> None:
    memory = read_tracker_log(running.run_dir)
    memory.keep("a place", Logged(3, frozenset({2, 1})))
    again = read_tracker_log(running.run_dir)
    assert (again.key, again.of("a place")) == (memory.key, Logged(3, frozenset({1, 2})))
    assert again.of("another") == Logged()


@pytest.mark.parametrize("content", ["[]", "{}", '{"key": "a", "logged": {"x": []}}', "half"])
def test_a_damaged_memory_is_refused(running: Running, content: str) -> None:
    running.run_dir.trackers.write_text(content)
    with pytest.raises(SetupError, match=r"trackers.json: it does not say what was logged"):
        read_tracker_log(running.run_dir)


def test_only_tables_whose_keys_are_names_are_flattened() -> None:
    by_class = {"<=50K": 1.0, ">50K": 2.0}
    settings = {"data": {"class_weights": by_class, "weight": None}, "model": {"width": 8}}
    assert by_dotted_key(settings) == {"data.class_weights": by_class, "model.width": 8}


def test_all_trials_and_the_best_exclude_each_other(running: Running) -> None:
    running.close(1, "finished")
    with pytest.raises(StudyError, match="remove one of the two"):
        command("log", str(running.run_dir.root), "--to", "mlflow", "--all", "--top", "3")


@pytest.mark.parametrize("name", ["mlflow", "wandb", "tensorboard"])
def test_a_tracker_that_is_not_installed_is_named_with_its_extra(
    running: Running, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    running.close(1, "finished")
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(SetupError, match=rf"--to: {name}, but .* 'sweeper-jax\[{name}\]'"):
        command("log", str(running.run_dir.root), "--to", name)


def test_a_directory_without_a_study_is_refused_and_left_alone(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="no study has been run here"):
        command("log", str(tmp_path), "--to", "tensorboard")
    assert [*tmp_path.iterdir()] == []
