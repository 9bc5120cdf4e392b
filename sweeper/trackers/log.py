"""Logs a study to an experiment tracker, once or while it runs."""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sweeper.dashboard.page import Page
from sweeper.dashboard.report import report
from sweeper.dashboard.study import PublishedStudy
from sweeper.errors import Problem, SetupError
from sweeper.process import DISTRIBUTION
from sweeper.results.status import read_status
from sweeper.rundir import RunDir
from sweeper.trackers.memory import TrackerLog, read_tracker_log
from sweeper.trackers.published import Published, read_published
from sweeper.trackers.tracker import Logged, Tracker, TrackerName

_UNSAFE = re.compile(r"[^\w-]+")
_EVERY_S = 5.0


@dataclass(frozen=True, slots=True)
class Summary:
    """How many trials are logged, how many were before, and how many are finished; and where."""

    logged: int
    before: int
    finished: int
    state: str
    place: str


def log_study(
    run_dir: RunDir,
    connecting: Callable[[str, TrackerLog], Tracker],
    *,
    top: int | None,
    follow: bool = False,
    shown: Callable[[int, int], None] = lambda logged, finished: None,
    every_s: float = _EVERY_S,
) -> Summary:
    """Log a study and its best `top` trials, or all if None; with `follow` until it ends.

    `connecting` gets the name of the study and the memory of its run directory. What was logged
    before is updated. `shown` is called with the numbers of logged and of finished
    trials whenever they have changed. A running study is read every `every_s` seconds.

    Raises:
        SetupError: nothing was published, the tracker is not installed, or it refuses something.
    """
    status = read_status(run_dir)
    while follow and not run_dir.trials.exists() and status.is_running:
        time.sleep(every_s)
        status = read_status(run_dir)
    memory = read_tracker_log(run_dir)
    published = _read(run_dir, memory)
    tracker = connecting(published.status.study, memory)
    try:
        logged = tracker.start(published.study())
        before, said = len(logged.trials), None
        while True:
            logged = _add(tracker, published, logged, top)
            if said != (said := (len(logged.trials), len(published.trials))):
                shown(*said)
            if not (follow and published.is_running):
                break
            time.sleep(every_s)
            published = _read(run_dir, memory)
        with _files(published) as files:
            place = tracker.finish(published.study(), files)
    finally:
        tracker.close()
    n_finished = len(published.trials)
    return Summary(len(logged.trials), before, n_finished, published.status.state, place)


def connect(
    name: TrackerName, uri: str | None, project: str | None, study: str, memory: TrackerLog
) -> Tracker:
    """The tracker of this name; `uri` is its server, or the directory of TensorBoard.

    Without a project, runs are in one named after the study.

    Raises:
        SetupError: it is not installed.
    """
    # the name of a study may come from elsewhere: it names no directory and no owner
    project = project or _UNSAFE.sub("-", study)
    try:
        match name:
            case TrackerName.MLFLOW:
                from sweeper.trackers.mlflow_tracker import MlflowTracker

                return MlflowTracker(uri, project)
            case TrackerName.WANDB:
                from sweeper.trackers.wandb_tracker import WandbTracker

                return WandbTracker(uri, project, memory)
            case TrackerName.TENSORBOARD:
                from sweeper.trackers.tensorboard_tracker import TensorBoardTracker

                return TensorBoardTracker(Path(uri or "tensorboard"), project)
    except ImportError as error:
        found = f"{name}, but it cannot be imported: {error}"
        hint = f"python -m pip install '{DISTRIBUTION}[{name}]'"
        raise SetupError(Problem("", "--to", found, hint)) from error


def _read(run_dir: RunDir, memory: TrackerLog) -> Published:
    # the status first: the tables of a study that has ended are complete
    return read_published(run_dir, memory.key, read_status(run_dir))


def _add(tracker: Tracker, published: Published, logged: Logged, top: int | None) -> Logged:
    """Log what is new; returns all that is logged."""
    points = published.points(logged.points)
    tracker.log_points(points)
    trials = logged.trials
    for trial in published.records(top, trials):
        tracker.log_trial(trial)
        trials |= {trial.number}
    return Logged(logged.points + len(points), trials)


@contextmanager
def _files(published: Published) -> Iterator[dict[str, Path]]:
    """The tables of a study, what its columns mean, and its report."""
    run_dir = published.run_dir
    kept = (run_dir.trials, run_dir.buckets, run_dir.spans, run_dir.importance, run_dir.metrics)
    kept += (run_dir.schema, run_dir.study_file, run_dir.status)
    with tempfile.TemporaryDirectory(prefix="sweeper-log.") as directory:
        page = Path(directory) / "report.html"
        page.write_text(report(Page([PublishedStudy(run_dir)], is_report=True)), "utf-8")
        yield {path.name: path for path in (*kept, page) if path.exists()}
