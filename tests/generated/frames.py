"""What the tables of a generated study must agree on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from sweeper.config.json_schema import kinds_of
from sweeper.config.model import MixedTable, TabMTable
from sweeper.config.table import Table
from sweeper.config.train import TASK_OF_LOSS, TASK_OF_METRIC, reported_metrics

Study = dict[str, Any]
Draw = st.DrawFn


def some(items: Any, most: int = 3, least: int = 0) -> st.SearchStrategy[list[Any]]:
    """Some of `items`, each once."""
    found = list(items)
    if not found:
        return st.just([])
    return st.lists(st.sampled_from(found), min_size=least, max_size=most, unique=True)


def rarely(draw: Draw) -> bool:
    return draw(st.integers(0, 4)) == 0


@dataclass(frozen=True)
class Frame:
    """What the tables of a study must agree on."""

    model: type[Table]
    optimizer: type[Table]
    task: str
    loss: str
    metrics: list[str]

    @property
    def may_be_tabm(self) -> bool:
        """Whether some trial may be a TabM, which has a hidden layer."""
        return self.model in (TabMTable, MixedTable)

    @property
    def reported(self) -> tuple[str, ...]:
        return reported_metrics(tuple(self.metrics))


@st.composite
def frames(draw: Draw) -> Frame:
    task = draw(st.sampled_from(["classes", "numbers"]))
    losses = [loss for loss, of in TASK_OF_LOSS.items() if of == task]
    own = ["nets:spread"]
    metrics = [metric for metric, of in TASK_OF_METRIC.items() if of == task]
    return Frame(
        draw(st.sampled_from(kinds_of("model"))),
        draw(st.sampled_from(kinds_of("optimizer"))),
        task,
        draw(st.sampled_from([*losses, "nets:error"])),
        draw(some([*metrics, *own])),
    )
