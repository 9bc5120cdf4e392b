"""What the tables of a study file must agree on between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sweeper.config.search import SearchEntry
from sweeper.config.study import SamplerTable
from sweeper.config.table import Fault
from sweeper.config.train import Loss, Metric, metrics_of, reported


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
