"""Warnings and hints about study files that are valid, but hardly what anybody means."""

from __future__ import annotations

import os
from collections.abc import Iterator

from sweeper.config.agreement import inputs_of
from sweeper.config.alternating import AlternatingTable, idle_parts
from sweeper.config.idle import idle_settings
from sweeper.config.jax_pins import overridden
from sweeper.config.model import PartsTable
from sweeper.config.optimizers import decays_of
from sweeper.config.study import N_PARAMETERS, SAMPLERS
from sweeper.config.study_config import StudyConfig
from sweeper.config.table import field_of, value_of
from sweeper.config.train import better
from sweeper.errors import listed


def doubts(config: StudyConfig) -> tuple[str, ...]:
    """Warnings to show before a study begins; most studies have none."""
    return (
        *_drawn_anyway(config),
        *_directions(config),
        *_constraints(config),
        *_idle_decay(config),
        *_idle_parts(config),
        *_idle_phases(config),
        *_idle_queue(config),
        *_trained_on(config),
        *idle_settings(config),
        *_jax_settings(config),
    )


def hints(config: StudyConfig) -> tuple[str, ...]:
    """Hints to show when a study is only checked or planned: it is valid, but could do better."""
    return tuple(_all_at_once(config))


def _drawn_anyway(config: StudyConfig) -> Iterator[str]:
    """A value was given on the command line, but each trial draws another."""
    for key in config.source.overridden:
        entry = config.entry(key)
        if entry is not None and not entry.when:
            one = '{type="categorical",choices=[VALUE]}'
            yield (
                f"--set {key} changes nothing: every trial draws its own value by [search]; "
                f"--set 'search.{key}={one}' fixes the value"
            )


def _directions(config: StudyConfig) -> Iterator[str]:
    """The study searches for the worst value of its metric."""
    own = {f"val_{name.rpartition(':')[2]}" for name in config.train.functions}
    for metric, direction in zip(config.study.objectives, config.study.directions, strict=True):
        best = "minimize" if metric == N_PARAMETERS else better(metric)
        if metric not in own and direction != best:
            yield f"the study is set to {direction} {metric}, but the other direction is usual"


def _all_at_once(config: StudyConfig) -> Iterator[str]:
    """The sampler learns from trials, but proposes all of them before one has ended."""
    n_trials, sampler = config.study.n_trials, config.study.sampler
    of_optuna = sampler.name in SAMPLERS  # what others do without results is unknown
    if sampler.learns and of_optuna and 1 < n_trials <= config.schedule.parallel and config.search:
        yield (
            f"schedule.parallel = {config.schedule.parallel} lets all {n_trials} trials start at "
            f"once, so {sampler.name} proposes them without having seen a result, as random would; "
            "use a smaller value to let it learn from finished trials"
        )


def _idle_decay(config: StudyConfig) -> Iterator[str]:
    """Rules say which arrays decay, but weight decay is not used."""
    for key in decays_of(config.optimizer):
        table = key.removesuffix(".decay")
        amount = f"{table}.weight_decay"
        drawn = config.entry(amount)
        setting = amount.removeprefix("optimizer.")
        if field_of(type(config.optimizer), setting) is None:
            continue  # a user-defined optimizer may use the rules in any way
        if not value_of(config.optimizer, setting) and (drawn is None or drawn.values() == (0.0,)):
            yield f"[{key}] changes nothing, since {amount} is 0; write e.g. {amount} = 1e-4"


def _idle_parts(config: StudyConfig) -> Iterator[str]:
    """Parts that are built, but neither trained nor measured."""
    if isinstance(config.model, PartsTable) and isinstance(config.train, AlternatingTable):
        for name in idle_parts(config.train, inputs_of(config.model)):
            yield f"no loss depends on model.{name}, so nothing trains it; remove it"


def _idle_phases(config: StudyConfig) -> Iterator[str]:
    """Phases that begin after the last epoch of every trial."""
    train = config.train
    if not isinstance(train, AlternatingTable):
        return
    turns = [(f"phases.{name}.epochs", name) for name in train.cycle]
    if train.warmup is not None:
        turns.insert(0, ("warmup.epochs", train.warmup.phase))
    begins: dict[str, int] = {}
    before = 0
    for key, name in turns:
        begins.setdefault(name, before + 1)
        before += min(int(length) for length in config.drawn_values(f"train.{key}") or (1,))
    for name, epoch in begins.items():
        if epoch > config.max_epochs:
            yield (
                f"no trial reaches the phase {name}, which begins in epoch {epoch}: the last "
                f"is {config.max_epochs}; increase train.epochs, or shorten the phases"
            )


def _idle_queue(config: StudyConfig) -> Iterator[str]:
    """Some trials in the queue never start."""
    queued, n_trials = len(config.study.enqueue), config.study.n_trials
    if queued > n_trials:
        yield (
            f"study.enqueue has {queued} trials, but study.n_trials = {n_trials} leaves out the "
            "last ones"
        )


def _trained_on(config: StudyConfig) -> Iterator[str]:
    """Trials are measured on rows that they train on."""
    trained_on = config.data.split.train_on
    if trained_on != "train":
        also, measures = (
            ("validation", "val_")
            if trained_on == "train+val"
            else ("validation and test", "val_ and test_")
        )
        yield (
            f'trials train on the {also} rows, too (data.split.train_on = "{trained_on}"), so '
            f"{measures} metrics say nothing about new rows"
        )


def _jax_settings(config: StudyConfig) -> Iterator[str]:
    """JAX settings in the environment that studies ignore."""
    if found := [*overridden(os.environ, config.edition)]:
        do = "does" if len(found) == 1 else "do"
        yield f"{listed(found)} {do} not apply to studies, which use JAX's default"


def _constraints(config: StudyConfig) -> Iterator[str]:
    """The sampler ignores the constraints."""
    if config.study.constraints and config.study.sampler.name == "cmaes":
        yield (
            "the sampler cmaes ignores study.constraints (tpe, gp and nsgaii use them); the best "
            "trial is still the best of those that meet all constraints"
        )
