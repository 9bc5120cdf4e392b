"""The trials of a study that have ended, and what every round asks of all of them.

It is kept up as trials end: to look through all rows in every round would make the rounds of a
long study slow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from sweeper.results.ranking import BestTrials, ParetoFront, Row, is_feasible
from sweeper.trial import Reason


class EndedTrials(Mapping[int, Row]):
    """Their rows by number; `n_best` are how many have their weights kept.

    `counts` are trials by state, `n_diverged` the pruned ones that diverged, `n_feasible` the
    complete ones that keep every constraint.
    """

    def __init__(self, directions: Sequence[str], n_best: int) -> None:
        self.counts = Counter[str]()
        self.n_diverged = self.n_feasible = 0
        self._rows: dict[int, Row] = {}
        self._best = BestTrials(directions, n_best)
        several = len(directions) > 1
        self._front = ParetoFront(directions) if several else BestTrials(directions, 1)

    def __getitem__(self, number: int) -> Row:
        return self._rows[number]

    def __iter__(self) -> Iterator[int]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, ended: Mapping[int, Row]) -> None:
        """Take up the trials that ended in a round."""
        rows = ended.values()
        self._rows.update(ended)
        self.counts.update(str(row["state"]) for row in rows)
        self.n_diverged += sum(row.get("reason") == Reason.DIVERGED for row in rows)
        self.n_feasible += sum(row["state"] == "COMPLETE" and is_feasible(row) for row in rows)
        self._best.tell(rows)
        self._front.tell(rows)

    def best_with(self, ended: Mapping[int, Row]) -> list[int]:
        """The best `n_best` of these and of trials that are about to end, the best first."""
        return [row["trial_number"] for row in self._best.rows(ended.values())]

    @property
    def front(self) -> list[Row]:
        """The feasible complete trials that none other beats; of one objective the best."""
        return [row for row in self._front.rows() if is_feasible(row)]
