"""Trials of earlier studies that the sampler of a new study learns from.

They are read once, when the study begins, and recorded in its ledger in the units in which its
sampler draws. They are not trials of the study: they have no number and no row there. A setting
that an earlier trial did not have is left out, if the sampler can learn from such trials.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

from sweeper.config import StudyConfig
from sweeper.config.conditions import in_order, is_active
from sweeper.config.kinds import is_function
from sweeper.config.refusals import format_value, nearest
from sweeper.config.search import CategoricalSearch, IntSearch, SearchEntry, ends
from sweeper.errors import Problem, StudyError, counted, listed
from sweeper.results.ranking import value_columns
from sweeper.rundir import RunDir
from sweeper.study.earlier_studies import OPTION, EarlierStudy, EarlierTrial, read_earlier_study
from sweeper.trial import LearnedTrial, Scalar, fields_of

LEAST_OF_CMAES = 10  # it begins with the best tenth
_ENDED = ("COMPLETE", "PRUNED")
# they model, cross or transform the parameters that all trials have, and draw others at random
_OF_WHOLE_TRIALS = ("gp", "cmaes", "nsgaii")
_SHOWN = 4
# settings on which the values of all metrics depend, and those of losses
_OF_VALUES = ("data.weight", "data.split.train_on", "study.folds")
_OF_LOSSES = ("train.loss", "data.class_weights", "data.target_transform", "data.target_scale")


@dataclass(frozen=True, slots=True)
class LearnedStudy:
    """What was learnt from one earlier study: `n_trials` of its `n_seen` trials.

    `left_out` counts the others by reason, `digest` is that of what was recorded. `unknown` are
    searched settings with the number of learnt trials that lack them, and `unused` are parameters
    of the earlier study that are not searched now, with the setting that each may be, if any.
    `differing` are settings on which values depend, with what they were and are.
    """

    name: str
    digest: str
    n_seen: int
    n_trials: int
    left_out: Mapping[str, int]
    unknown: Mapping[str, int] = field(default_factory=dict[str, int])
    unused: Mapping[str, str | None] = field(default_factory=dict[str, str | None])
    differing: Mapping[str, str] = field(default_factory=dict[str, str])

    def __str__(self) -> str:
        learnt = f"learns from {self.n_trials} of {counted(self.n_seen, 'trial')} of {self.name}"
        reasons = sorted(self.left_out.items(), key=lambda one: (-one[1], one[0]))
        said = [f"{count} {reason}" for reason, count in reasons[:_SHOWN]]
        more = sum(count for _, count in reasons[_SHOWN:])
        return "; ".join((learnt, *said, *((f"{more} for other reasons",) if more else ())))

    @property
    def notes(self) -> Iterator[str]:
        """Settings that the trials that fit lack, or that are not searched here, or differ."""
        everywhere = [key for key, count in self.unknown.items() if count == self.n_trials]
        some = {key: count for key, count in self.unknown.items() if count < self.n_trials}
        if everywhere:
            is_known, explored = ("is", "it") if len(everywhere) == 1 else ("are", "them")
            yield (
                f"{listed(everywhere)} {is_known} not known for trials of {self.name}: "
                f"the sampler explores {explored} from scratch"
            )
        for key, count in some.items():
            yield f"{key} is not known for {count} of these {self.n_trials} trials of {self.name}"
        for name, key in self.unused.items():
            way = f"; if it is {key}, use import-optuna --map {name}={key}" if key else ""
            yield f"{name} of {self.name} is not searched here, so it is not used{way}"
        if self.differing:
            settings = [f"{key} ({values})" for key, values in self.differing.items()]
            yield f"values of {self.name} may mean something else: it differs in {listed(settings)}"


@dataclass(frozen=True, slots=True)
class Learned:
    """The trials that a study learns from, and where they are from."""

    sources: tuple[LearnedStudy, ...] = ()
    trials: tuple[LearnedTrial, ...] = ()

    @property
    def messages(self) -> Iterator[str]:
        """What was learnt from each source, and what was not."""
        for source in self.sources:
            yield str(source)
            yield from source.notes

    @property
    def recorded(self) -> Iterator[str]:
        """What a resumed study learnt when it began."""
        for source in self.sources:
            yield (
                f"has learnt from {counted(source.n_trials, 'trial')} of {source.name}, "
                "recorded when it began"
            )

    @property
    def counts(self) -> dict[str, int] | None:
        """How many trials of each source; None without any."""
        return {one.name: one.n_trials for one in self.sources} or None

    @staticmethod
    def from_dict(body: Mapping[str, Any] | None) -> Learned:
        """The record from its JSON form; None for a study that learns from no other."""
        if body is None:
            return Learned()
        return Learned(
            tuple(LearnedStudy(**one) for one in body["sources"]),
            tuple(LearnedTrial(**one) for one in body["trials"]),
        )


@dataclass(frozen=True, slots=True)
class _FittingTrials:
    """The trials of an earlier study that fit.

    `left_out` counts the others by reason, `unknown` those that fit by setting that they lack.
    """

    trials: Sequence[LearnedTrial]
    left_out: Mapping[str, int]
    unknown: Mapping[str, int]


class _UnfitError(Exception):
    """Why a trial does not fit the new study."""


def name_of(source: str | Path) -> str:
    """A source by its path without links, or by its URL without a password."""
    text = str(source)
    if "://" not in text:
        return str(Path(text).resolve())
    from sweeper.study.optuna_storage import recorded_url, split_name

    url, name = split_name(text)
    return f"{recorded_url(url)}#{name}" if name else recorded_url(url)


def learn(config: StudyConfig, sources: Sequence[str | Path]) -> Learned:
    """The trials in `sources`, run directories or Optuna studies, that fit a new study.

    Raises:
        StudyError: a source is given twice, or has other metrics or directions.
        SetupError: a source cannot be read.
    """
    names = [name_of(source) for source in sources]
    for name in names:
        if names.count(name) > 1:
            raise StudyError(Problem("", OPTION, f"{name} is given twice", "give it once"))
    found: list[LearnedStudy] = []
    trials: list[LearnedTrial] = []
    for source, name in zip(sources, names, strict=True):
        study = read_earlier_study(str(source), name)
        _refuse_other_goal(config, study)
        fitting = _fitting_trials(config, study)
        text = json.dumps([fields_of(one) for one in fitting.trials], sort_keys=True)
        digest = blake2b(text.encode(), digest_size=16).hexdigest()
        found.append(
            LearnedStudy(
                name=name,
                digest=digest,
                n_seen=len(study.trials),
                n_trials=len(fitting.trials),
                left_out=fitting.left_out,
                unknown=fitting.unknown,
                unused=_unused(config, study),
                differing=_differing(config, study),
            )
        )
        trials += fitting.trials
    return Learned(tuple(found), tuple(trials))


def no_effect(config: StudyConfig, learned: Learned) -> str | None:
    """Why the sampler ignores what is learnt; None if it does not."""
    sampler, effect = config.study.sampler, f"{OPTION} has no effect"
    if not learned.sources:
        return None
    if not sampler.learns:
        return f"{effect}: the sampler {sampler.name} learns from no trials"
    if not learned.trials:
        return f"{effect}: no trial fits"
    if not are_used(config, learned.trials):
        return (
            f"{effect}: cmaes starts from {LEAST_OF_CMAES} complete trials or more, and without "
            "use_separable_cma"
        )
    return None


def are_used(config: StudyConfig, trials: Sequence[LearnedTrial]) -> bool:
    """Whether the sampler uses these trials; CMA-ES can only start from enough of them."""
    sampler = config.study.sampler
    if sampler.name != "cmaes":
        return sampler.learns
    is_separable = sampler.options.get("use_separable_cma") is True
    return len(trials) >= LEAST_OF_CMAES and not is_separable


def _refuse_other_goal(config: StudyConfig, study: EarlierStudy) -> None:
    """Refuse a study with another objective; an Optuna study need not name its metrics."""
    own = config.study.objectives, config.study.directions
    theirs = study.objectives or own[0], study.directions
    if own == theirs:
        return
    now, then = (
        " and ".join(f"{way} {metric}" for metric, way in zip(*goal, strict=False))
        for goal in (own, theirs)
    )
    found = f"{study.name} has another goal: {then}, but this study: {now}"
    hint = "learn from a study with the same goal"
    if theirs[1] == own[1] and theirs[0] == value_columns(len(theirs[0])):  # imported unnamed
        noun = "metric" if len(own[0]) == 1 else "metrics"
        found = f"{study.name} does not name its {noun}, and this study has the goal: {now}"
        hint = f"import it again with {' '.join(f'--metric {name}' for name in own[0])}"
    raise StudyError(Problem("", OPTION, found, hint))


def _fitting_trials(config: StudyConfig, study: EarlierStudy) -> _FittingTrials:
    """The trials of an earlier study that fit the new one."""
    from sweeper.study.space import Space

    space, is_whole = Space(config), config.study.sampler.name in _OF_WHOLE_TRIALS
    trials: list[LearnedTrial] = []
    left_out: Counter[str] = Counter()
    unknown: Counter[str] = Counter()
    for trial in study.trials:
        try:
            _check_used(config, trial)
            params, lacking = _params(config, trial)
            excesses = _excesses(config, trial)
        except _UnfitError as error:
            left_out[str(error)] += 1
        else:
            values = trial.values if all(map(math.isfinite, trial.values)) else ()
            drawn = space.drawn_whole(params) if is_whole else space.drawn(params)
            trials.append(LearnedTrial(drawn, trial.state, values, trial.epoch, excesses))
            unknown.update(lacking)
    in_file = {key: unknown[key] for key in config.search if key in unknown}
    return _FittingTrials(trials, dict(left_out), in_file)


def _unused(config: StudyConfig, study: EarlierStudy) -> Mapping[str, str | None]:
    """The earlier parameters that are not searched now, with what each may be called here."""
    here = {name for key, entry in config.search.items() for name in (key, entry.column(key))}
    others = [name for name in study.parameters if name not in here]
    if study.config is not None:
        return dict.fromkeys(others)
    new = [
        key
        for key, entry in config.search.items()
        if not {key, entry.column(key)} & {*study.parameters}
    ]
    return {name: nearest(name, new) for name in others}


def _differing(config: StudyConfig, study: EarlierStudy) -> Mapping[str, str]:
    """The settings on which values depend and that differ, with what they were and are."""
    if study.config is None:
        return {}
    is_by_loss = any(name.partition("_")[2].startswith("loss") for name in config.study.objectives)
    then, now = study.config.with_target_scale(), config.with_target_scale()
    values = {
        key: (then.written(key), now.written(key))
        for key in (*_OF_VALUES, *(_OF_LOSSES if is_by_loss else ()))
    }
    return {
        key: f"{_shown(before)} there, {_shown(here)} here"
        for key, (before, here) in values.items()
        if before != here
    }


def _shown(value: object) -> str:
    return "unset" if value is None else format_value(value)


def _check_used(config: StudyConfig, trial: EarlierTrial) -> None:
    """Refuse a trial whose state the sampler does not learn from.

    Raises:
        _UnfitError: it did not end, failed, was not trained, or was pruned.
    """
    sampler, is_one = config.study.sampler.name, len(config.study.objectives) == 1
    if trial.state not in _ENDED:
        raise _UnfitError("failed" if trial.state == "FAIL" else "have not ended")
    if not trial.is_trained:
        raise _UnfitError("were not trained")
    if trial.state == "COMPLETE" and not (trial.values and all(map(math.isfinite, trial.values))):
        raise _UnfitError("have no finite value")
    if trial.state == "PRUNED" and not (is_one and (sampler == "tpe" or is_function(sampler))):
        raise _UnfitError(f"were pruned, which {sampler} does not learn from")


def _params(config: StudyConfig, trial: EarlierTrial) -> tuple[dict[str, Scalar], list[str]]:
    """The trial's values of searched settings, by column, and the used settings that it lacks.

    For a sampler that needs all values, settings that are not used get an arbitrary value.

    Raises:
        _UnfitError: a setting that is used has a value that is not searched now, or none although
        the sampler needs it; or no setting has a value.
    """
    sampler = config.study.sampler.name
    used: dict[str, Scalar] = {}
    params: dict[str, Scalar] = {}
    lacking: list[str] = []
    for key in in_order(config.search):
        entry = config.search[key]
        is_needed = sampler in _OF_WHOLE_TRIALS and not (
            sampler == "cmaes" and isinstance(entry, CategoricalSearch)  # which it draws at random
        )
        is_used = is_active(entry, used)
        try:
            fit = _fit(entry, trial.setting(key, entry))
        except KeyError:
            fit = None
            if is_used and is_needed:
                raise _UnfitError(f"lack {key}, which {sampler} needs") from None
            lacking += [key] if is_used else []
        else:
            if is_used and fit is None:
                raise _UnfitError(f"do not fit {key}")
        if fit is not None and is_used:
            used[key] = fit
        if fit is not None or is_needed:
            params[entry.column(key)] = ends(entry)[0] if fit is None else fit
    if not params:
        raise _UnfitError("have none of the searched settings")
    return params, lacking


def _fit(entry: SearchEntry, value: object) -> Scalar | None:
    """The value of the entry that equals `value`, or None."""
    if not isinstance(value, Scalar):
        return None
    if isinstance(entry, IntSearch) and isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, str) and not isinstance(entry, CategoricalSearch):
        return None
    return entry.has(value)


def _excesses(config: StudyConfig, trial: EarlierTrial) -> dict[str, float]:
    """By how much a trial violates each constraint of the new study.

    Raises:
        _UnfitError: a metric that a constraint needs is not known.
    """
    found: dict[str, float] = {}
    for index, constraint in enumerate(config.study.constraints):
        value = trial.metrics.get(constraint.metric)
        if value is None or not math.isfinite(value):
            raise _UnfitError(f"have no {constraint.metric}, which a constraint needs")
        found[constraint.key(index)] = constraint.excess(value)
    return found


def refuse_other(run_dir: RunDir, recorded: Learned, sources: Sequence[str | Path]) -> None:
    """Refuse to resume a study with other sources than it began with; none are always valid.

    Raises:
        StudyError: the sources differ.
    """
    began = [one.name for one in recorded.sources]
    # names that an earlier version recorded may have links, or relative paths of databases
    if not sources or sorted(map(name_of, began)) == sorted(map(name_of, sources)):
        return
    found = f"the study there began with {' and '.join(began) if began else 'no earlier trials'}"
    hint = "omit it to resume with the recorded trials, or start over with --fresh"
    raise StudyError(Problem(str(run_dir.root), OPTION, found, hint))
