"""Check, plan or run a study: the functions behind both the command line and Python.

Slow imports are made where they are needed, so that other work can go on at the same time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, cast

from sweeper.config import StudyConfig
from sweeper.config.comparable import not_averaged
from sweeper.config.lint import study_hints
from sweeper.config.toml import IN_MAPPING, as_python
from sweeper.config.user_code import forget_changed
from sweeper.data.ahead import Prepared, preparing
from sweeper.data.dataset import Dataset
from sweeper.data.lint import data_warnings
from sweeper.errors import DataError, Problem, StudyError, SweeperError, printable
from sweeper.executors.signals import end_program
from sweeper.notebook.card import card_for
from sweeper.preflight.check import (
    can_build_models,
    can_read_rows,
    check_models,
    fixed_start_of,
    never_run,
    unchecked,
)
from sweeper.preflight.preview import Preview
from sweeper.results.events import Event, Observer, Warned, call_observer
from sweeper.results.formatting import reason_line
from sweeper.results.status import Status
from sweeper.results.timeline import Activity, Timeline
from sweeper.rundir import RunDir
from sweeper.scheduler.classes import LiveTrial, Plan, Policy
from sweeper.scheduler.plan import plan_round
from sweeper.scheduler.policy import Parallel, default_parallel, policy_of
from sweeper.study import options
from sweeper.study.learning import learn
from sweeper.study.limits import n_proposals
from sweeper.study.lint import study_warnings
from sweeper.study.rungs import rungs_of
from sweeper.sweep.exit_recorder import ExitRecorder
from sweeper.sweep.session import session
from sweeper.sweep.session.crashes import MAX_CRASHES
from sweeper.sweep.session.reconcile import StartModel
from sweeper.sweep.session.xla_threads import kept_threads, threads_message
from sweeper.templates.mapping import load_study
from sweeper.trial import TrialSpec

if TYPE_CHECKING:
    from sweeper.notebook.results import StudyResults
    from sweeper.programs.continued import SavedStart


@dataclass(frozen=True, slots=True)
class CheckedStudy:
    """A study that can start, and the data it would train on.

    `unchecked` lists what was not checked; if the rows were not read, their counts are missing.
    """

    name: str
    n_trials: int
    train_rows: int | None
    val_rows: int | None
    test_rows: int | None
    features: int | None
    outputs: int | None
    run_dir: str
    warnings: tuple[str, ...]
    hints: tuple[str, ...]
    unchecked: tuple[str, ...]


def check(config: StudyConfig, *, python: bool = True) -> CheckedStudy:
    """Check everything that can be checked before a study starts; nothing is written.

    Without `python`, no code that the study names is imported or run, and what could therefore not
    be checked is reported.

    Raises:
        StudyError: the run directory, or an option of the sampler or pruner, does not fit.
        StudyHeldError: another process runs the study.
        SetupError: the data is missing, unusable or too large, no device can be opened, or the run
            directory cannot be used.
    """
    forget_changed(config.base_dir)
    config = session.with_recorded_rules(config)
    data = None
    if python or can_read_rows(config):
        with preparing(config) as prepared:
            data = _checked_together(lambda: options.check(config, python=python), prepared)
    else:
        options.check(config, python=False)
    from sweeper.executors.data_memory import check_fits

    of_models: tuple[str, ...] = ()
    weights = None
    with _devices(config):
        if data is not None:
            check_fits(config, data)
        if data is not None and (python or can_build_models(config)):
            config, of_models = check_models(config, data)
            weights = fixed_start_of(config, data)
    session.check(config, None if data is None else data.digest, weights)
    return CheckedStudy(
        name=config.study.name,
        n_trials=n_proposals(config),
        train_rows=data and data.train_rows,
        val_rows=data and data.val_rows,
        test_rows=data and len(data.x_test),
        features=data and data.n_features,
        outputs=data and data.out_size,
        run_dir=str(config.run_dir.absolute()),
        warnings=(
            *study_warnings(config),
            *(data_warnings(config, data) if data is not None else ()),
            *of_models,
        ),
        hints=study_hints(config),
        unchecked=() if python else unchecked(config),
    )


def _checked_together(
    check_options: Callable[[], None], prepared: Callable[[], Dataset]
) -> Dataset:
    """The dataset; problems of the data and of the options are raised together."""
    try:
        check_options()
    except StudyError as error:
        try:
            prepared()
        except DataError as other:
            raise StudyError((*error.problems, *other.problems)) from None
        raise
    return prepared()


@contextmanager
def _devices(config: StudyConfig) -> Iterator[None]:
    """Set up JAX as for training the study, on the same devices."""
    from sweeper.executors.claims import claim_devices
    from sweeper.executors.jax_setup import jax_restored

    with jax_restored():
        claim_devices(config)
        yield


def decay(config: StudyConfig) -> dict[str, Any]:
    """Which arrays of a study's models weight decay would apply to, as JSON-able values.

    Nothing is trained.

    Raises:
        SweeperError: as `check`.
    """
    forget_changed(config.base_dir)
    options.check(config)
    with preparing(config) as prepared:
        from sweeper.preflight.decay import decay_preview

        data = prepared()
    with _devices(config):
        config, _ = check_models(config, data)
        return decay_preview(config, never_run(config, data))


def plan(config: StudyConfig, learn_from: Sequence[str | Path] = ()) -> Preview:
    """How `run` would place the first trials of a new study; nothing is written or trained.

    `learn_from` are the earlier studies that it would learn from.

    Raises:
        SweeperError: as `check`.
    """
    forget_changed(config.base_dir)
    options.check(config)
    learned = learn(config, _sources(learn_from))
    with preparing(config) as prepared:
        import jax

        from sweeper.executors.claims import (
            devices_of,
            n_threads,
            n_training_places,
            n_workers,
        )
        from sweeper.executors.data_memory import check_fits
        from sweeper.preflight.decay import partly_idle
        from sweeper.programs.baseline import measure_baseline
        from sweeper.study.ask_tell import Past, Study
        from sweeper.sweep.baseline import stored_baseline
        from sweeper.sweep.planning import make_forecast, plan_digests

        data = prepared()
    with _devices(config):
        check_fits(config, data)
        config, of_models = check_models(config, data)
        config, parallel = _decide_parallel(config, jax.default_backend())
        forecast = make_forecast(config, data, None)
        devices = len(devices_of(config))
        policy = policy_of(config, rungs_of(config), forecast, config.study.n_trials, devices)
        ask = partial(Study(config, Past(learned=learned.trials)).ask, told_through_round=0)
        first, infeasible = _first_round(config, data, policy, ask, parallel.trials)
        baseline = stored_baseline(RunDir(config.run_dir), data) or measure_baseline(config, data)
        return Preview(
            config=config,
            data=data,
            forecast=forecast,
            plan=first,
            device=jax.devices()[0].device_kind,
            devices=devices,
            threads=n_threads(config),
            workers=n_workers(config),
            places=n_training_places(config),
            parallel=parallel,
            digests=plan_digests(config, data, forecast.as_dict()),
            baseline=baseline,
            idle_rules=partly_idle(config, never_run(config, data)),
            of_models=of_models,
            learned=learned,
            infeasible=infeasible,
        )


def _first_round(
    config: StudyConfig,
    data: Dataset,
    policy: Policy,
    ask: Callable[[int], list[TrialSpec]],
    n_parallel: int,
) -> tuple[Plan, tuple[int, ...]]:
    """The plan of a first round, and the numbers of its trials that a constraint rules out."""
    from sweeper.programs.build import Programs
    from sweeper.programs.data_spec import data_spec
    from sweeper.sweep.feasibility import Feasibility
    from sweeper.sweep.planning import structures

    structure_of = structures(config, Programs(data_spec(config, data)), policy.lane_loop)
    feasibility = Feasibility(config, structure_of)
    specs = ask(n_parallel)
    specs = feasibility.with_replacements(specs, (), n_proposals(config) - len(specs), ask)
    feasible = feasibility.feasible(specs)
    live = [LiveTrial(spec, config.epochs_of(spec.params)) for spec in feasible]
    infeasible = tuple(spec.number for spec in specs if not feasibility.may_win(spec))
    return plan_round(live, (), structure_of, policy), infeasible


def _decide_parallel(config: StudyConfig, backend: str) -> tuple[StudyConfig, Parallel]:
    """The study with the number of trials trained at a time, and its reason."""
    n_trials = n_proposals(config)
    if config.schedule.parallel is None:
        found = default_parallel(config, backend, n_trials)
        config = config.with_parallel(found.trials)
    else:
        found = Parallel(config.parallel, "as schedule.parallel says")
    return config, replace(found, trials=min(found.trials, n_trials))


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What a run starts from, as the arguments of `run` with these names say."""

    fresh: bool
    plan_file: Path | None
    continue_from: Path | None
    trust_code: bool
    learn_from: Sequence[str | Path] = ()


def run(
    study: StudyConfig | Path | str | Mapping[str, Any],
    *,
    data: Any = None,
    target: str | Sequence[str] | None = None,
    fresh: bool = False,
    plan_file: str | Path | None = None,
    continue_from: str | Path | None = None,
    trust_code: bool = False,
    learn_from: str | Path | Sequence[str | Path] = (),
    observer: Observer | None = None,
    stop: threading.Event | None = None,
    progress: bool | None = None,
) -> StudyResults:
    """Run a study to its end, or resume it, and return its results.

    `study` is one that `load_study` returned, its file, or a mapping of its settings, with `data`
    and `target` as for `load_study`. `stop` ends it after the current round, with everything
    committed. `fresh` moves an old run directory aside. `plan_file` is a file that `plan --json`
    wrote. If `continue_from` is given, all trials start from that saved model; it is copied into
    the run directory and used again on resume. `trust_code` allows functions that this model names
    and the study does not. `learn_from` are earlier studies, by run directory or as `URL#NAME` of
    an Optuna storage, whose trials the sampler of a new study learns from as far as they fit; they
    are recorded for a resume. `observer` is called with events, from any thread. `progress` shows
    how far the study is: as a card that is updated in place in a notebook, where this is the
    default, or else as lines on standard error.

    While progress is shown, the first interrupt (Ctrl-C, or that of a cell) stops the study after
    the current round, and a second one stops it at once.

        >>> wine = {"data": {"source": "sklearn", "name": "wine"}, "train.epochs": 2}
        >>> results = sweeper.run({**wine, "study": {"name": "wine", "n_trials": 2}})
        >>> results.state, len(results.trials()), results.best().columns[0]
        ('finished', 2, 'trial_number')

    In the main thread, SIGTERM and SIGHUP have the effect of `stop` and then end the program,
    unless other handlers are installed for them: see `execution.grace`.

    Raises:
        SweeperError: the study cannot start; the message says what to fix.
        KeyboardInterrupt: after an interrupt; everything committed is kept.
        SystemExit: after SIGTERM or SIGHUP, once the current round is committed.
    """
    timeline = Timeline(first=Activity.IMPORT)
    asked = RunOptions(
        fresh,
        _path("plan_file", plan_file),
        _path("continue_from", continue_from),
        trust_code,
        _sources(learn_from),
    )
    config = _loaded(study, data, target)
    forget_changed(config.base_dir)
    config = session.with_recorded_rules(config, fresh=fresh)
    card = card_for(progress, config.study.name, config.run_dir, timeline)
    observers = [one for one in (card, observer) if one is not None]
    pass_on = partial(_pass_on, observers, config.source.place == IN_MAPPING)
    recorder = ExitRecorder(RunDir(config.run_dir.absolute()), pass_on)
    # preparing the data forks, which needs a process without threads, and this starts a thread
    with preparing(config) as prepared, recorder.stopping(config, stop) as stopping:
        train = partial(run_prepared, config, prepared, asked, recorder, stopping.stop, timeline)
        train() if card is None else card.follow(train, stopping.stop)
    if stopping.number is not None:
        end_program(stopping.number)
    from sweeper.notebook.results import open_results

    return open_results(config.run_dir.absolute())


def _path(argument: str, given: object) -> Path | None:
    """A path that was given as an argument, also as text."""
    if given is None:
        return None
    if isinstance(given, str | Path):
        return Path(given)
    found = f"{type(given).__name__} given as a path"
    raise StudyError(Problem("", argument, found, "pass the path of a file or directory"))


def _sources(given: object) -> Sequence[str | Path]:
    """The earlier studies to learn from."""
    is_one = isinstance(given, str | Path) or not isinstance(given, Iterable)
    several: list[Any] = [given] if is_one else [*cast("Iterable[Any]", given)]
    for one in several:
        if not isinstance(one, str | Path):
            found = f"{type(one).__name__} given as an earlier study"
            hint = "pass its run directory, URL#NAME of an Optuna storage, or a list of these"
            raise StudyError(Problem("", "learn_from", found, hint))
    return several


def _pass_on(observers: Sequence[Observer], is_mapping: bool, event: Event) -> None:
    if is_mapping and isinstance(event, Warned):
        event = replace(event, message=as_python(event.message))
    for observer in observers:
        call_observer(observer, event)


def _loaded(study: Any, data: Any, target: str | Sequence[str] | None) -> StudyConfig:
    if not isinstance(study, StudyConfig):
        return load_study(study, data=data, target=target)
    for name, value in (("data", data), ("target", target)):
        if value is not None:
            found, hint = "the study is loaded, with its data", "omit it, or pass it to load_study"
            raise StudyError(Problem("", name, found, hint))
    return study


def run_prepared(
    config: StudyConfig,
    prepared: Prepared,
    asked: RunOptions,
    observer: Observer,
    stop: threading.Event,
    timeline: Timeline,
) -> Status:
    """Like `run`, for callers that have already started preparing the data.

    `config` is under the rules that `session.with_recorded_rules` gives it, and `timeline` began
    with the program.
    """
    options.check(config)
    with ExitStack() as stack:
        # import JAX while another process prepares the data
        import jax

        from sweeper.executors.bucket_executors import open_executors
        from sweeper.executors.data_memory import check_fits
        from sweeper.executors.jax_setup import jax_restored
        from sweeper.sweep.planning import prepare_classes
        from sweeper.sweep.status_writer import StatusWriter
        from sweeper.sweep.warm_start import find_start

        timeline.go_on_with(Activity.OPEN)
        stack.enter_context(jax_restored())
        run_dir = RunDir(config.run_dir.absolute())
        _claim_devices(config, run_dir, observer, fresh=asked.fresh)
        start = find_start(
            config, run_dir, asked.continue_from, fresh=asked.fresh, trust_code=asked.trust_code
        )
        if not prepared.is_cached:
            with timeline.spending(Activity.IMPORT):
                import_module("sweeper.sweep.run")
        with timeline.spending(Activity.DATA):
            data = prepared()
        check_fits(config, data)
        config, warnings = check_models(config, data)
        config, _ = _decide_parallel(config, jax.default_backend())
        for warning in warnings:
            observer(Warned(warning))
        held = stack.enter_context(_session(config, data, asked, start, observer))
        writer = StatusWriter(run_dir, observer, lambda: held.ledger.file.is_in_place)
        executor = stack.enter_context(
            open_executors(config, data, run_dir, writer, start, timeline)
        )
        is_new = held.ledger.n_ended_trials() == 0
        may_prepare = held.crashes < MAX_CRASHES  # the compilation may be what crashes
        if is_new and may_prepare:
            prepare_classes(config, data, held, executor.prepare)
        # import Optuna and pyarrow while the first classes are compiled
        with timeline.spending(Activity.IMPORT):
            from sweeper.sweep.run import StudyRun

        study_run = StudyRun(config, data, held, executor.train, writer, timeline)
        if may_prepare and not is_new and not study_run.is_over:
            prepare_classes(config, data, held, executor.prepare)
        average_models = partial(_average_models, config, run_dir, data, observer)
        return study_run.run_to_end(stop, average_models)


def _session(
    config: StudyConfig,
    data: Dataset,
    asked: RunOptions,
    start: SavedStart | None,
    observer: Observer,
) -> AbstractContextManager[session.Session]:
    """The session of a study, to be held while it trains; warns about the model to start from."""
    from sweeper.executors.environment import environment
    from sweeper.sweep import warm_start
    from sweeper.sweep.planning import make_forecast, read_plan

    recorded = None if asked.plan_file is None else read_plan(asked.plan_file, config, data)
    if start is not None:
        has_begun = not asked.fresh and RunDir(config.run_dir).ledger.exists()
        warm_start.check_fits(config, start, data, has_begun=has_begun)
        for warning in warm_start.describe_start(config, start, data):
            observer(Warned(warning))
    return session.open_session(
        config,
        data.digest,
        partial(make_forecast, config, data, given=recorded),
        environment(),
        fresh=asked.fresh,
        start=None if start is None else StartModel(start.file.name, start.file.digest),
        # trials that start from a saved model do not use the initial weights of the builder
        weights=fixed_start_of(config, data) if start is None else None,
        learn_from=asked.learn_from,
    )


def _claim_devices(
    config: StudyConfig, run_dir: RunDir, observer: Observer, *, fresh: bool
) -> None:
    """Set up JAX on the devices of a study, with as many threads as it began with, and warn."""
    from sweeper.executors.claims import claim_devices

    kept = kept_threads(config, run_dir, fresh=fresh)
    claim_devices(config, kept)
    for warning in filter(None, _device_warnings(config, kept)):
        observer(Warned(warning))


def _device_warnings(config: StudyConfig, kept: int | None) -> Iterator[str | None]:
    """Warnings about threads and devices; `kept` is the number of threads of a begun study."""
    import jax

    from sweeper.executors.claims import other_kinds_message
    from sweeper.executors.open_devices import own_xla_threads

    yield threads_message(config, kept, own_xla_threads())
    if config.execution.engine is None:
        yield other_kinds_message(config, jax.local_devices())


def _average_models(
    config: StudyConfig, run_dir: RunDir, data: Dataset, observer: Observer
) -> None:
    """Select and measure the ensemble of a study, unless it has none."""
    # `study_warnings` reports why trials cannot be averaged
    if config.results.ensemble is None or not_averaged(config):
        return
    from sweeper.export.ensemble import average

    try:
        average(config, run_dir, data)
    except SweeperError as error:  # too few trials completed, or too few rows
        observer(Warned(f"no ensemble: {error}"))
    except Exception as error:  # such as too little memory; all trials are committed
        reason = printable(reason_line(f"{type(error).__name__}: {error}"))
        again = f"python -m sweeper ensemble {quote(str(run_dir.root))}"
        observer(Warned(f"no ensemble: {reason}; to try again: {again}"))
