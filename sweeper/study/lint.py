"""Warnings about a sampler or pruner to show before a study starts, from its file alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf, nextafter
from typing import Any, Literal

from sweeper.config import StudyConfig
from sweeper.config.kinds import is_function
from sweeper.config.lint import file_warnings
from sweeper.config.metric_range import is_within
from sweeper.config.study import N_PARAMETERS
from sweeper.errors import counted, listed
from sweeper.study.limits import n_proposals
from sweeper.study.options import given_options, pruner_chain
from sweeper.study.rungs import first_rung, is_at_interval, is_rung, rungs_of

_MEDIAN = ("median", "percentile")
_HALVING = ("halving", "asha", "hyperband")
# 0.5 ** n is the lowest p-value of n differences; below the lowest threshold that a float can be
_MAX_DIFFERENCES = 1100


def study_warnings(config: StudyConfig) -> tuple[str, ...]:
    """Warnings about settings with no effect, or probably not the intended one."""
    if config.trial is not None:
        return file_warnings(config)
    return (
        *file_warnings(config),
        *_idle_pruner(config),
        *_fewer_at_an_epoch(config),
        *_all_pruned(config),
        *_late_brackets(config),
        *_idle_stop(config),
        *_idle_sampler(config),
        *_queued_twice(config),
        *_repeats(config),
    )


def _idle_pruner(config: StudyConfig) -> Iterator[str]:
    """The pruner can never end a trial."""
    pruner = config.study.pruner
    if pruner.name == "none":
        return
    ends = config.schedule.round_ends(config.max_epochs, rungs_of(config))
    why = (
        _no_pruner(pruner.name, pruner.options)
        or _no_values(config)
        or _no_epoch(config, ends)
        or _too_few_trials(config)
        or _all_among_the_best(config)
        or _beyond_range(config)
    )
    if why is not None:
        yield f"the pruner {pruner.name} never ends a trial: {why}"


def _pruners(config: StudyConfig) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each pruner with its options, including defaults."""
    for name, options in pruner_chain(config.study.pruner.name, config.study.pruner.options):
        yield name, given_options(config, name, options)


def _no_pruner(name: str, options: Mapping[str, Any]) -> str | None:
    if name != "none" and any(inner == "none" for inner, _ in pruner_chain(name, options)):
        return 'it wraps no other pruner; name one, or remove "wrapped"'
    return None


def _no_values(config: StudyConfig) -> str | None:
    """Why it has nothing to judge; None if it does."""
    if config.own_class("pruner") or config.study.objectives != (N_PARAMETERS,):
        return None
    return f"it judges values of epochs, and {N_PARAMETERS} has none; remove study.pruner"


def _no_epoch(config: StudyConfig, ends: Sequence[int]) -> str | None:
    """Why it never acts after any epoch; None if it does."""
    epochs, acting = config.max_epochs, [_judges_after(config, *one) for one in _pruners(config)]
    if epochs == 1:
        return "it judges before the last epoch, but trials have 1 epoch"
    if any(all(acts(epoch) for acts in acting) for epoch in ends):
        return None
    able = [epoch for epoch in range(1, epochs) if all(acts(epoch) for acts in acting)]
    if able:
        if not ends:
            found = f"it judges after rounds, but a round has all {epochs} epochs"
        else:
            after = listed([str(end) for end in ends])
            found = f"it acts after epoch {_some(able)}, but judges when rounds end, after {after}"
        return f"{found}; write schedule.round_epochs = {able[0]}"
    beyond = range(epochs, epochs + 10 * _MAX_DIFFERENCES)
    if config.own_class("pruner"):
        return None
    first = next((one for one in beyond if all(acts(one) for acts in acting)), None)
    if first is None:
        return f"its options rule out every epoch up to {beyond[-1]}"
    options = f"{_sooner(config)}, or " if _can_act_sooner(config) else ""
    return (
        f"it first acts after epoch {first}, but judges before the last epoch, {epochs}; "
        f"write {options}more train.epochs"
    )


# the options that delay pruners, with the values that delay them least
_LEAST_DELAY = {
    "min_resource": 1,
    "min_early_stopping_rate": 0,
    "n_warmup_steps": 0,
    "patience": 0,
    "n_startup_steps": 0,
    "p_threshold": nextafter(1.0, 0.0),
}


def _can_act_sooner(config: StudyConfig) -> bool:
    """Whether the pruner acts before the last epoch with other options than it has."""
    acting = [
        _judges_after(
            config, name, {key: _LEAST_DELAY.get(key, value) for key, value in given.items()}
        )
        for name, given in _pruners(config)
    ]
    return any(all(acts(epoch) for acts in acting) for epoch in range(1, config.max_epochs))


def _judges_after(
    config: StudyConfig, name: str, given: Mapping[str, Any]
) -> Callable[[int], bool]:
    """After which epochs a pruner may end a trial, if there are enough other trials."""
    if name in _HALVING:
        first = first_rung(given)
        if name == "halving" or (name == "hyperband" and config.edition >= 3):
            # hyperband halves in one of its brackets
            return lambda epoch: is_rung(epoch, first, given["reduction_factor"])
        return lambda epoch: epoch >= first
    if name in (*_MEDIAN, "threshold"):
        warmup, every = given["n_warmup_steps"], given["interval_steps"]
        return lambda epoch: is_at_interval(epoch, warmup, every)
    if name == "patient":
        return lambda epoch: epoch >= given["patience"] + 2
    if name == "wilcoxon":
        least, below = max(2, given["n_startup_steps"]), given["p_threshold"]
        return lambda epoch: epoch >= least and 0.5 ** min(epoch, _MAX_DIFFERENCES) < below
    return lambda epoch: name != "none"


def _sooner(config: StudyConfig) -> str:
    """The options to change for the pruner to act earlier."""
    late: list[str] = []
    for depth, (name, given) in enumerate(_pruners(config)):
        acts = _judges_after(config, name, given)
        if not any(acts(epoch) for epoch in range(1, config.max_epochs)):
            late += [
                f"{change} study.pruner.{'wrapped.' * depth}{option}"
                for change, option in _delays(name, given, config.max_epochs)
            ]
    if late:
        return " and ".join(late)
    judging = [_judges_after(config, *one) for one in _pruners(config) if one[0] != "patient"]
    # a patient pruner needs two epochs to see that the second is not better
    can_act = any(all(acts(epoch) for acts in judging) for epoch in range(2, config.max_epochs))
    return "a smaller study.pruner.patience" if can_act else "other options"


def _delays(
    name: str, given: Mapping[str, Any], epochs: int
) -> Iterator[tuple[Literal["a smaller", "a larger"], str]]:
    """How to change the options of a pruner for it to act within the epochs, and which."""
    if name in _HALVING:
        if given["min_resource"] > 1:
            yield "a smaller", "min_resource"
        if given["reduction_factor"] ** given.get("min_early_stopping_rate", 0) >= epochs:
            yield "a smaller", "min_early_stopping_rate"
    elif name == "wilcoxon":
        if 0.5 ** min(epochs - 1, _MAX_DIFFERENCES) >= given["p_threshold"]:
            yield "a larger", "p_threshold"
        if given["n_startup_steps"] >= epochs:
            yield "a smaller", "n_startup_steps"
    else:
        yield "a smaller", {"patient": "patience"}.get(name, "n_warmup_steps")


def _some(epochs: Sequence[int]) -> str:
    return listed([str(epoch) for epoch in epochs[:3]]) + (", ..." if len(epochs) > 3 else "")


def _too_few_trials(config: StudyConfig) -> str | None:
    """Why it never has as many other trials as it needs; None if it may have them."""
    n_trials, needed = n_proposals(config), _n_completed_needed(config)
    if n_trials == 1 and any(
        _ranks(config, name) and not _bootstrap_count(config, name, given)
        for name, given in _pruners(config)
    ):
        return "it compares trials, but the study has 1"
    others = _n_others_needed(config)
    if others >= n_trials:
        return (
            f"it compares a trial with at least {others} others, but the study "
            f"has {counted(n_trials, 'trial')}"
        )
    if needed >= n_trials:
        return (
            f"it waits for {counted(needed, 'completed trial')} before it ends another, but the "
            f"study has {counted(n_trials, 'trial')}"
        )
    if config.stops is not None or config.entry("train.epochs") is not None:
        return None  # trials end after different epochs
    parallel = config.schedule.parallel or 1
    before_last = (n_trials - 1) // parallel * parallel
    if before_last >= needed:
        return None
    able = [p for p in range(1, parallel) if (n_trials - 1) // p * p >= needed]
    fewer = max((p for p in able if 4 * p <= n_trials), default=able[0])
    return (
        f"it waits for {counted(needed, 'completed trial')}, but with schedule.parallel = "
        f"{parallel} the last of {n_trials} trials start before more than {before_last} have "
        f"completed; write schedule.parallel = {fewer} or less"
    )


def _n_completed_needed(config: StudyConfig) -> int:
    """How many trials must be completed before it ends another."""
    return max(
        needed if name in _MEDIAN and not _ranks(config, name) else int(name == "wilcoxon")
        for name, needed in _needed_by_pruner(config)
    )


def _n_others_needed(config: StudyConfig) -> int:
    """How many others must have come as far as a trial before that is ended."""
    return max(needed * _ranks(config, name) for name, needed in _needed_by_pruner(config))


def _needed_by_pruner(config: StudyConfig) -> Iterator[tuple[str, int]]:
    """Each pruner, with the number of other trials that `median` and `percentile` ask for."""
    for name, given in _pruners(config):
        counts = given.get("n_startup_trials", 0), given.get("n_min_trials", 1)
        yield name, max(1, *counts) if name in _MEDIAN else 0


def _ranks(config: StudyConfig, name: str) -> bool:
    """Whether this pruner compares trials that train side by side."""
    return name in _HALVING or (name in _MEDIAN and config.edition >= 3)


def _all_among_the_best(config: StudyConfig) -> str | None:
    """Why the share of trials that it spares is always all of them; None if it is not."""
    if config.edition < 3 or all(name != "percentile" for name, _ in _pruners(config)):
        return None
    from sweeper.study.cohorts import spares_all  # imports Optuna, which takes 0.1 s

    n_trials = n_proposals(config)
    for depth, (name, given) in enumerate(_pruners(config)):
        if name == "percentile" and spares_all(share := given["percentile"], n_trials):
            largest = 100 * (n_trials - 1) // n_trials
            return (
                f"it spares the best {share:g} % of all trials, and with "
                f"{counted(n_trials, 'trial')} these are all; write "
                f"study.pruner.{'wrapped.' * depth}percentile = {largest} or less"
            )
    return None


def _beyond_range(config: StudyConfig) -> str | None:
    """Why no value of the metric can pass the thresholds; None if one can."""
    metric = config.study.objectives[0]
    for name, given in _pruners(config):
        bounds = given.get("lower"), given.get("upper")
        if name == "threshold" and is_within(config, metric, *bounds):
            return f"no {metric} is beyond its thresholds"
    return None


def _fewer_at_an_epoch(config: StudyConfig) -> Iterator[str]:
    """A trial may be judged against fewer others than n_startup_trials says, before edition 3."""
    if config.edition >= 3 or (config.stops is None and config.entry("train.epochs") is None):
        return  # all trials reach every epoch
    for name, given in _pruners(config):
        if name in _MEDIAN and given.get("n_min_trials", 1) < given["n_startup_trials"]:
            fewest = given.get("n_min_trials", 1)
            yield (
                f"the pruner {name} may judge a trial against {counted(fewest, 'other')} at an "
                f"epoch, n_min_trials, though it waits for {given['n_startup_trials']} completed "
                "trials, n_startup_trials: trials end after different epochs"
            )


def _all_pruned(config: StudyConfig) -> Iterator[str]:
    """Successive halving promotes no trial before enough have reached a rung."""
    for name, given in _pruners(config):
        least = _bootstrap_count(config, name, given)
        if not least and given.get("bootstrap_count"):
            yield (
                "study.pruner.bootstrap_count has no effect with hyperband, which ranks all trials "
                "of a round together; remove it"
            )
        elif rungs_of(config) and least >= n_proposals(config):
            yield (
                f"the pruner {name} ends every trial at its first rung: bootstrap_count = {least} "
                f"trials must reach it before one is promoted, but the study has "
                f"{n_proposals(config)}; write a smaller one"
            )


def _bootstrap_count(config: StudyConfig, name: str, given: Mapping[str, Any]) -> int:
    """How many trials must reach a rung before this pruner promotes one; 0 if it ranks rounds."""
    is_cohort = name == "hyperband" and config.edition >= 3
    return 0 if is_cohort else given.get("bootstrap_count", 0)


def _late_brackets(config: StudyConfig) -> Iterator[str]:
    """Hyperband has brackets that start after the last epoch, so their trials are never judged."""
    for name, given in _pruners(config):
        if name == "hyperband" and given["max_resource"] > config.max_epochs:
            can_be_less = given["min_resource"] <= config.max_epochs
            fix = "remove max_resource" if can_be_less else "write more train.epochs"
            yield (
                f"the pruner hyperband has brackets up to max_resource = {given['max_resource']} "
                f"epochs, but trials have {config.max_epochs}: some brackets judge no trial; "
                f"{fix}"
            )


def _idle_stop(config: StudyConfig) -> Iterator[str]:
    """A rule of `study.stop` can never end the study."""
    stop, n_trials = config.study.stop, n_proposals(config)
    if stop is None:
        return
    if stop.patience is not None and stop.patience >= n_trials:
        fix = "write a smaller one" if n_trials > 1 else "write more study.n_trials, or remove it"
        yield (
            f"study.stop.patience = {stop.patience} never ends the study, which has "
            f"{counted(n_trials, 'trial')}; {fix}"
        )
    if stop.value is not None:
        metric, is_max = config.study.objectives[0], config.study.directions[0] == "maximize"
        # no value can be that good if the whole range is worse
        worse = (
            (None, nextafter(stop.value, -inf)) if is_max else (nextafter(stop.value, inf), None)
        )
        if is_within(config, metric, *worse):
            yield f"study.stop.value = {stop.value:g} never ends the study: no {metric} is as good"


def _idle_sampler(config: StudyConfig) -> Iterator[str]:
    """The sampler draws at random, because it has too little to learn from."""
    sampler, n_trials = config.study.sampler, config.study.n_trials
    for option, least in (("n_startup_trials", 1), ("population_size", 2)):
        first = sampler.options.get(option)
        if not is_function(sampler.name) and first is not None and 1 < n_trials <= first:
            smaller = "a smaller one, or " if n_trials > least else ""
            yield (
                f"the sampler {sampler.name} draws all {n_trials} trials at random: "
                f"study.sampler.{option} = {first} of them come before it learns; write "
                f"{smaller}more study.n_trials"
            )
    has_ranges = any(entry.type != "categorical" for entry in config.search.values())
    if sampler.name in ("cmaes", "qmc") and config.search and not has_ranges:
        yield (
            f"the sampler {sampler.name} draws all trials at random: it needs ranges of numbers, "
            "but [search] only has categories; write tpe, or int or float entries"
        )


def _queued_twice(config: StudyConfig) -> Iterator[str]:
    """The queue contains the same complete trial several times."""
    whole = [config.active(one) for one in config.study.enqueue if one.keys() == {*config.columns}]
    different = {tuple(one.items()) for one in whole}
    if len(different) < len(whole):
        yield (
            f"study.enqueue repeats settings: {len(whole)} of its trials give all that is "
            f"searched, but only {len(different)} differ; study.replicates trains each with "
            "several seeds"
        )


def _repeats(config: StudyConfig) -> Iterator[str]:
    """There are more trials than different settings."""
    points, n_trials = config.n_different, config.study.n_trials
    sampler = config.study.sampler.name
    if points is None or points >= n_trials:
        return
    if sampler == "grid" or is_function(sampler):  # both may end the study before trials repeat
        return
    again = n_trials - points
    what, instead = "nothing is searched", "study.replicates trains it with several seeds"
    if config.search:
        what = f"the space has {counted(points, 'point')}"
        grid = 'study.sampler.name = "grid" tries each once'
        instead = f"{grid}, study.replicates trains each with several seeds"
    yield (
        f"{what}, so at least {again} of {n_trials} trials repeat the settings of another; "
        f"{instead}"
    )
