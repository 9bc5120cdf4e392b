"""What the tables of a study file must agree on between them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from sweeper.config.search import SearchEntry
from sweeper.config.study import SamplerTable, StudyTable
from sweeper.config.table import Fault
from sweeper.config.train import Loss, Metric, metrics_of, reported
from sweeper.config.trial import TrialTable


def unreported_metric(metric: str, loss: Loss, metrics: tuple[Metric, ...]) -> Iterator[Fault]:
    """The objective is something that the program reports."""
    if metric in reported(metrics):
        return
    fitting = metrics_of(loss)
    missing = [name for name in fitting if metric in reported((name,))]
    names = reported(tuple(name for name in metrics if name in fitting))
    mend = f"the program reports {', '.join(names)}"
    if missing:
        mend = f'write train.metrics = ["{missing[0]}"]'
    yield Fault("study.metric", f"'{metric}' is not reported", mend)


def endless_grid(sampler: SamplerTable, search: Mapping[str, SearchEntry]) -> Iterator[Fault]:
    """A grid has a last point."""
    if sampler.name != "grid":
        return
    for setting, entry in search.items():
        if entry.count() is None:
            found = "a continuous range, which a grid cannot hold"
            yield Fault(f"search.{setting}", found, "write step = ..., or choices")


def more_than_one_trial(study: StudyTable, is_searching: bool) -> Iterator[Fault]:
    """A file with `[trial]` is that trial alone, and runs it to its end."""
    instead = "or remove [trial], and the file is a study again"
    if is_searching:
        yield Fault(
            "search", "values to search, for one given trial", f"remove [search], {instead}"
        )
    if study.n_trials != 1:
        found = f"{study.n_trials} trials, where [trial] names one"
        yield Fault("study.n_trials", found, f"write 1, {instead}")
    if study.pruner.name != "none":
        found = f"'{study.pruner.name}' for a trial that ends after trial.epochs"
        yield Fault("study.pruner", found, f"remove it, {instead}")


def too_large_for_class(
    trial: TrialTable, epochs: int, width: int | None, depth: int | None
) -> Iterable[Fault]:
    """The class of a trial has room for it."""
    room = trial.program
    if not trial.epochs <= min(epochs, room.epochs):
        found = f"{trial.epochs} is more than train.epochs or trial.class.epochs"
        yield Fault("trial.epochs", found, f"write {min(epochs, room.epochs)} or less")
    for name, size, most in (("width", width, room.width), ("depth", depth, room.depth)):
        if most is not None and size is not None and size > most:
            mend = f"write {size} or more, or model.{name} = {most}"
            yield Fault(f"trial.class.{name}", f"no room for model.{name} {size}", mend)
