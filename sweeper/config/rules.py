"""What the tables of a study file must agree on between them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sweeper.config.search import SearchEntry
from sweeper.config.study import SamplerTable
from sweeper.config.table import Fault
from sweeper.config.train import Metric, reported


def unreported_metric(metric: str, metrics: tuple[Metric, ...]) -> Iterator[Fault]:
    """The objective is something that the program reports."""
    names = reported(metrics)
    if metric not in names:
        found = f"'{metric}' is not reported"
        yield Fault("study.metric", found, f"the program reports {', '.join(names)}")


def endless_grid(sampler: SamplerTable, search: Mapping[str, SearchEntry]) -> Iterator[Fault]:
    """A grid has a last point."""
    if sampler.name != "grid":
        return
    for setting, entry in search.items():
        if entry.count() is None:
            found = "endlessly many values under the sampler grid"
            yield Fault(f"search.{setting}", found, "write a step, or choices")
