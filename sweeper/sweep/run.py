"""One session of a study: creates its components, then runs and publishes rounds one by one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

from sweeper.config import StudyConfig
from sweeper.data.dataset import Dataset
from sweeper.data.lint import data_warnings
from sweeper.errors import LedgerError, counted, printable
from sweeper.executors.claims import n_training_places, n_workers
from sweeper.executors.executor import TrainRound
from sweeper.executors.lanes import shortages
from sweeper.faults import Fault
from sweeper.programs.build import Programs
from sweeper.programs.data_spec import data_spec
from sweeper.results.events import RoundClosed, RoundStarted, StudyOpened, Warned
from sweeper.results.publish import Publisher
from sweeper.results.ranking import models_left_out, repeats
from sweeper.results.schema import write_schema_text
from sweeper.results.status import Status, StudyState, ended_by
from sweeper.results.timeline import Activity, Timeline
from sweeper.scheduler.classes import Plan
from sweeper.scheduler.plan_warnings import hardly_shared, long_round
from sweeper.study.learning import no_effect
from sweeper.study.limits import n_proposals
from sweeper.study.lint import study_warnings
from sweeper.sweep.baseline import BaselineOfStudy
from sweeper.sweep.context import SweepContext
from sweeper.sweep.importances import Importances
from sweeper.sweep.planning import idle_costs, policy_of_session, structures
from sweeper.sweep.progress import SessionProgress
from sweeper.sweep.requests import Requests
from sweeper.sweep.session.backup import Backups
from sweeper.sweep.session.crashes import MAX_CRASHES
from sweeper.sweep.session.directory import place_after_move
from sweeper.sweep.session.reconcile import LANE_LOOP, Change
from sweeper.sweep.session.session import Session
from sweeper.sweep.status_writer import StatusWriter
from sweeper.sweep.store import RunStore
from sweeper.sweep.sweep import Sweep
from sweeper.sweep.unpublished import learning_gaps


class StudyRun:
    """The rounds of one session, each published after it is committed."""

    def __init__(
        self,
        config: StudyConfig,
        data: Dataset,
        session: Session,
        train: TrainRound,
        observer: StatusWriter,
        timeline: Timeline,
    ) -> None:
        self._config = config
        self._observer = observer
        self._timeline = timeline
        self._run_id = session.run_id
        self._warned_of: set[str] = set()  # classes for which memory is short
        self._data = data
        self._session = session
        self._run_dir = session.run_dir
        self._requests = Requests(session.run_dir, config.search, observer)
        self._context = _make_context(config, data, session, train, timeline, self._requests)
        self._sweep = Sweep(self._context)
        self._publisher = Publisher(session.run_dir, config)
        self._importances = Importances(config, session.run_dir)
        self._baseline = BaselineOfStudy(config, data, session.run_dir)
        self._ledger = session.ledger
        self._backups = Backups(session.run_dir, lambda said: observer(Warned(said)))
        self._progress = SessionProgress.begin(
            config, session.run_id, session.ledger, self._sweep.state, session.learned.counts
        )

    @property
    def is_over(self) -> bool:
        """Whether no further round is trained."""
        return self._sweep.finished

    def _describe_study(self) -> None:
        """Write what readers need to know about the tables and the data."""
        spec = data_spec(self._config, self._data)
        self._context.store.note_preparation(self._data, spec)
        write_schema_text(self._run_dir, self._config)

    def _report_start(self) -> None:
        """Report that the study is open, what has changed since it began, and what is doubtful."""
        config, observer, state = self._config, self._observer, self._sweep.state
        session = self._session
        n_trials = n_proposals(config)
        root = session.run_dir.root
        observer(StudyOpened(config.study.name, root, state.rounds, n_trials, session.moved_to))
        if state.n_asked > n_trials:
            observer(Warned(_fewer(n_trials, state.n_asked)))
        for change in session.boundaries:
            observer(Warned(_boundary(change)))
        if session.crashes:
            observer(Warned(_crash_warning(config, state.rounds + 1, session.crashes)))
        sessions = session.ledger.sessions()
        if idle := idle_costs(config, sessions):
            observer(Warned(printable(idle)))
        is_resumed = len(sessions) > 1
        if is_resumed and not (state.rounds or session.crashes):
            observer(Warned("no round was committed before; starting again", is_news=True))
        for event in _learning_messages(config, session, is_resumed=is_resumed):
            observer(event)
        for warning in (*study_warnings(config), *data_warnings(config, self._data)):
            observer(Warned(printable(warning)))

    def run_to_end(
        self, stop: threading.Event, finish: Callable[[], None] = lambda: None
    ) -> Status:
        """Run round by round until every trial has ended, then `finish`; or until `stop` is set.

        Raises:
            OSError: a file of the run cannot be written, which `open_session` reports; committed
                rounds are kept.
        """
        self._describe_study()
        self._report_start()
        self._run_dir.stop.unlink(missing_ok=True)  # it was meant for an earlier session
        self._requests.forget_answers()
        try:
            self._run_rounds(stop)
            return self._end(finish)
        except BaseException as error:
            self._record_failure(error)
            raise

    def _run_rounds(self, stop: threading.Event) -> None:
        """Run round by round until every trial has ended, or until a stop is requested."""
        stop_file = self._run_dir.stop
        self._sweep.tidy()
        self._timeline.go_on_with(None)
        while not (self._sweep.finished or stop.is_set() or stop_file.exists()):
            self._round()
        stop_file.unlink(missing_ok=True)

    def _end(self, finish: Callable[[], None]) -> Status:
        """Publish everything, record that the session has ended, and report its status."""
        if self._sweep.finished:
            self._sweep.refuse_requests()
        self._publish_all()
        if self._sweep.finished and not self._sweep.has_failed:
            with self._timeline.spending(Activity.ENSEMBLE):
                finish()
        self._ledger.end_session(self._run_id, self._timeline.end())
        self._publisher.publish_spans(self._ledger)
        status = self._write_status(self._sweep.end_state)
        self._report_end(status)
        return status

    def _publish_all(self) -> None:
        """Publish the study when no further round is trained."""
        with self._timeline.spending(Activity.PUBLISH):
            self._ledger.file.check()
            self._publisher.publish(self._ledger, final=True)
            self._importances.finish(self._sweep.state.rounds, self._sweep.state.ended)
            with self._timeline.spending(Activity.BASELINE):
                self._baseline.finish()
            self._backups.now(self._ledger)

    def _report_end(self, status: Status) -> None:
        """Warn about what ended the study early, repeated settings, and models not kept."""
        warnings = [ended_by(status)]
        if self._sweep.finished:
            warnings.append(repeats(self._sweep.state.ended.values()))
            warnings.append(self._models_left_out())
        for warning in filter(None, warnings):
            self._observer(Warned(warning))

    def _models_left_out(self) -> str | None:
        """A message if trials on the front of several objectives have no model, or None."""
        if len(self._config.study.objectives) < 2:
            return None
        front = [row["trial_number"] for row in self._sweep.state.ended.front]
        n_models = sum(self._run_dir.model(number).exists() for number in front)
        return models_left_out(len(front), n_models, self._config.results.keep_models)

    def _record_failure(self, error: BaseException) -> None:
        """Publish what is committed and write the status after an error that ends the study."""
        # a Fault stands for a crash, after which nothing is published
        is_readable = not isinstance(error, (Fault, LedgerError))
        if is_readable and self._ledger.file.is_in_place:
            self._publish_rest()
        is_asked = isinstance(error, KeyboardInterrupt)  # in a user's script
        with suppress(OSError):  # a full disk must not hide what ended the study
            self._write_status("interrupted" if is_asked else "failed")

    def _publish_rest(self) -> None:
        """Publish what is committed when an error ends the study; report it if that fails, too."""
        try:
            self._publisher.publish(self._ledger, final=True)
        except Exception as error:  # it must not hide what ended the study
            reason = printable(f"{type(error).__name__}: {error}")
            self._observer(Warned(f"the last committed rows were not published: {reason}"))

    def _round(self) -> None:
        spending = self._timeline.spending
        with spending(Activity.ASK):
            plan = self._sweep.open()
        if self._sweep.state.rounds == 0:
            shared = hardly_shared(plan, self._config.execution.strategy)
            for warning in (*shared, *long_round(plan, n_training_places(self._config))):
                self._observer(Warned(warning))
        with spending(Activity.PUBLISH):
            self._write_status("running", plan)
        trials = {number for bucket in plan.buckets for number in bucket.numbers}
        self._observer(RoundStarted(self._sweep.state.rounds + 1, len(trials)))
        # committed rows are published while the next round trains; at first there are none
        trained = self._sweep.train(plan, self._publish)
        with spending(Activity.COMMIT):
            self._ledger.file.check()  # before requests are answered and models are kept
            self._sweep.close(trained)
        for class_id, shortage in shortages([outcome for _, outcome in trained]).items():
            if class_id not in self._warned_of:
                self._warned_of.add(class_id)
                self._observer(Warned(shortage))
        with spending(Activity.PUBLISH):
            self._backups.after_round(self._ledger)
        # the status mentions this round together with the next plan, or with the end of the study
        self._observer(RoundClosed(self._status("running")))

    def _publish(self) -> None:
        self._ledger.file.check()
        self._observer.update()  # the round may need programs that no earlier round did
        self._baseline.begin()
        with self._timeline.spending(Activity.PUBLISH):
            self._publisher.publish(self._ledger)
            self._importances.consider(self._sweep.state.rounds, self._sweep.state.ended)

    def _status(self, study_state: StudyState, plan: Plan | None = None) -> Status:
        spent_s = self._timeline.spent_s()
        return self._progress.status(self._sweep.state, time.time(), study_state, plan, spent_s)

    def _write_status(self, study_state: StudyState, plan: Plan | None = None) -> Status:
        return self._observer.write(self._status(study_state, plan))


def _fewer(n_trials: int, asked: int) -> str:
    """What happens to a resumed study that asks for fewer trials than it has."""
    return (
        f"study.n_trials = {n_trials} is fewer than the {asked} trials that this study already "
        "has: all of them are kept and counted, and no new one is proposed"
    )


def _boundary(change: Change) -> str:
    warning = (
        f"{change.key} was {change.before} when the study began and is {change.now} now: it "
        "resumes, but rows from here on may differ from those of a study that began this way"
    )
    if change.key == LANE_LOOP:
        return (
            f"{warning}; only new classes get it: existing classes keep theirs, even for new trials"
        )
    return warning


def _learning_messages(
    config: StudyConfig, session: Session, *, is_resumed: bool
) -> Iterator[Warned]:
    """What a study learns from, and what of it has no effect."""
    learned = session.learned
    sources = learned.recorded if is_resumed else map(str, learned.sources)
    for source in sources:
        yield Warned(printable(source), is_news=True)
    notes: list[str] = []
    if not is_resumed:
        notes += [note for source in learned.sources for note in source.notes]
        notes += learning_gaps(
            learned, lambda path: place_after_move(path, session.run_dir, session.moved_to)
        )
    for note in filter(None, [*notes, no_effect(config, learned)]):
        yield Warned(printable(note))


def _crash_warning(config: StudyConfig, number: int, crashes: int) -> str:
    times = counted(crashes, "time")
    died = f"round {number} was interrupted {times} because the program was killed or crashed"
    if not n_workers(config):
        return f"{died}; with execution.workers = 1 a trial that crashes its process fails alone"
    if crashes < MAX_CRASHES:
        return f"{died}; it starts again here, and after {MAX_CRASHES} times it runs in workers"
    return f"{died}: it now runs in workers, where a trial that crashes its process fails alone"


def _make_context(
    config: StudyConfig,
    data: Dataset,
    session: Session,
    train: TrainRound,
    timeline: Timeline,
    requests: Requests,
) -> SweepContext:
    programs = Programs(data_spec(config, data))
    program = programs.exact(config.settings_of({}))
    return SweepContext(
        config=config,
        ledger=session.ledger,
        train=train,
        store=RunStore(session.run_dir, config, programs, data.digest),
        structure_of=structures(config, programs, session.forecast.lane_loop),
        policy=policy_of_session(config, session),
        metrics=program.layout.metrics,
        test_metrics=program.layout.test_metrics,
        run_id=session.run_id,
        crashes=session.crashes,
        boundary=session.boundary_text,
        timeline=timeline,
        requests=requests,
    )
