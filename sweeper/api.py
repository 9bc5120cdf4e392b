"""What the command line and Python users call: check a study, plan it, run it."""

from __future__ import annotations

import threading
from dataclasses import asdict, dataclass
from typing import Any

import jax

from sweeper import session, study
from sweeper.config import StudyConfig
from sweeper.data.preparation import prepare
from sweeper.executors.compiling import configure_jax
from sweeper.executors.fleet import fleet, n_threads, n_workers
from sweeper.programs.build import Programs
from sweeper.programs.data_spec import data_spec
from sweeper.progress import Observer
from sweeper.results.status import Status
from sweeper.scheduler import plan as scheduler
from sweeper.scheduler.plan import LiveTrial, Plan
from sweeper.scheduler.policy import policy_of
from sweeper.study_run import StudyRun, doubtful_direction, structures


@dataclass(frozen=True, slots=True)
class Checked:
    """A study that can start, and the data it would train on."""

    name: str
    n_trials: int
    train_rows: int
    val_rows: int
    test_rows: int
    features: int
    outputs: int
    run_dir: str
    warning: str | None


def check(config: StudyConfig) -> Checked:
    """Everything that can be refused before a study starts; nothing is written.

    Raises:
        StudyError: an option of the sampler or pruner, or the run directory, does not fit.
        StudyHeldError: another process runs the study.
        SetupError: the data is missing or unfit, or the run directory cannot be used.
    """
    study.check(config)
    data = prepare(config)
    session.check(config, data.digest)
    return Checked(
        name=config.study.name,
        n_trials=study.n_proposals(config),
        train_rows=len(data.x_train),
        val_rows=len(data.x_val),
        test_rows=len(data.x_test),
        features=data.n_features,
        outputs=data.out_size,
        run_dir=str(config.run_dir.absolute()),
        warning=doubtful_direction(config),
    )


@dataclass(frozen=True, slots=True)
class PlanPreview:
    """How a study would begin: its space, and the plan of the first round."""

    config: StudyConfig
    plan: Plan
    device: str
    threads: int
    workers: int

    def as_dict(self) -> dict[str, Any]:
        """The preview as JSON-able values."""
        structural = self.config.structural
        lanes = {program.class_id: 0 for program in self.plan.classes}
        for bucket in self.plan.buckets:
            lanes[bucket.class_id] += len(bucket.lanes)
        return {
            "study": self.config.study.name,
            "device": self.device,
            "threads": self.threads,
            "workers": self.workers,
            "n_trials": study.n_proposals(self.config),
            "structures_in_space": self.config.n_structures,
            "space": [
                {"setting": key, "column": entry.column(key), "splits_buckets": structural[key]}
                for key, entry in self.config.search.items()
            ],
            "classes_of_first_round": [
                {**asdict(program), "trials": lanes[program.class_id]}
                for program in self.plan.classes
            ],
            "buckets_of_first_round": [
                {
                    "bucket": bucket.bucket,
                    "class_id": bucket.class_id,
                    "side": bucket.side,
                    "trials": list(bucket.numbers),
                    "epoch_to": max(lane.epoch_to for lane in bucket.lanes),
                }
                for bucket in self.plan.buckets
            ],
        }


def plan(config: StudyConfig) -> PlanPreview:
    """How `run` would place the first trials of a new study; nothing is written or trained.

    Raises:
        SweeperError: as `check`.
    """
    study.check(config)
    programs = Programs(data_spec(config, prepare(config)))
    configure_jax(config.execution.precision)
    policy = policy_of(config, study.rungs(config), jax.default_backend(), config.study.n_trials)
    count = min(config.schedule.parallel, study.n_proposals(config))
    specs = study.Study(config).ask(count, told_through_round=0)
    live = [LiveTrial(spec, config.filled(spec.params).train.epochs) for spec in specs]
    return PlanPreview(
        config,
        scheduler.plan(live, (), structures(config, programs), policy),
        jax.devices()[0].device_kind,
        n_threads(config),
        n_workers(config),
    )


def run(
    config: StudyConfig,
    *,
    fresh: bool = False,
    observer: Observer | None = None,
    stop: threading.Event | None = None,
) -> Status:
    """Run a study to its end, or go on with it; gives how it stands then.

    `stop` ends it after the round in training, with everything committed. `fresh` moves an old
    run directory aside. `observer` is told events, from any thread.

    Raises:
        SweeperError: the study cannot start, with what to mend.
    """
    tell = observer or (lambda event: None)
    study.check(config)
    data = prepare(config)
    with (
        session.opened(config, data.digest, fresh=fresh) as held,
        fleet(config, data, held.run_dir, tell) as executor,
    ):
        return StudyRun(config, data, held, executor, tell).to_the_end(stop or threading.Event())
