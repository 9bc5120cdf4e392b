"""Trains the best trials again with fresh seeds, to see whether they are good or were lucky.

The best of many noisy values is usually better than a repetition would be. The finalists therefore
form their own study, in which each is trained with several seeds on the same split.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweeper.config import StudyConfig, parse
from sweeper.config.load import study_of
from sweeper.config.model import OF_NUMBERS, MixedTable, RowModelTable
from sweeper.config.toml import toml_text
from sweeper.errors import LedgerError, Problem, StudyError
from sweeper.export.trial_file import tables_on_same_rows
from sweeper.results.ensemble import EnsembleRecord, is_clear
from sweeper.results.listing import Row, read_trials
from sweeper.results.missing_trials import none_complete
from sweeper.results.ranking import is_feasible, value_columns
from sweeper.rundir import RunDir
from sweeper.study.limits import trial_numbers
from sweeper.sweep.session import backup

_LONGEST_NAME = 100  # of a study
_ENDING = "-confirm"


@dataclass(frozen=True, slots=True)
class Finalists:
    """The best trials of a study, best first, with their ranks there, and a study of them again."""

    rows: tuple[Row, ...]
    ranks: tuple[int, ...]
    config: StudyConfig

    @property
    def n_members(self) -> int:
        """How many trainings each mean is over: seeds, times folds if there are any."""
        return len(self.config.members)


@dataclass(frozen=True, slots=True)
class Lead:
    """How far the best finalist, `trial`, is ahead of another in the mean.

    The other trial is the finalist that was best before, or the runner-up if that is still the best
    or now violates a constraint. `standard_error` is that of the difference of two means,
    sqrt(s1^2 / n + s2^2 / n), without assuming equal variances (Welch 1947); seeds are treated as
    independent, and so are folds.
    """

    trial: int
    over: int
    difference: float
    standard_error: float

    @property
    def is_clear(self) -> bool:
        """Whether the difference is more than two standard errors."""
        return is_clear(self.difference, self.standard_error)


def finalists(
    run_dir: RunDir, top: int, seeds: int, ensemble: EnsembleRecord | None = None
) -> Finalists:
    """The `top` best trials of a run directory, to be trained with `seeds` seeds each.

    With an `ensemble`, its trials and the best one instead, whose models are kept.

    Raises:
        SetupError: nothing was published yet.
        NoTrialError: no trial is complete.
    """
    known = read_trials(run_dir)
    order = known.best(top if ensemble is None else len(known))
    if ensemble is None:
        wanted = [row["trial_number"] for row in _feasible(known.of(order))]
    else:
        averaged = {ensemble.single, *(member.trial for member in ensemble.members)}
        wanted = [number for number in order if number in averaged]
    ranks = tuple(order.index(number) + 1 for number in wanted)
    rows = known.of(wanted)
    if not rows:
        raise none_complete(run_dir, "no trial is complete, so none can be a finalist")
    file = Path(known.study["study_file"])
    before = study_of(known.study["settings"], file, run_dir)
    tables = _tables(before, run_dir, rows, seeds)
    if ensemble is not None:
        tables["results"]["keep_models"] = len(rows)
    return Finalists(tuple(rows), ranks, _parsed(tables, before, file))


def _parsed(tables: dict[str, Any], before: StudyConfig, file: Path) -> StudyConfig:
    """The study of `tables`, which trains the finalists of the study `before`."""
    config = parse(toml_text(tables), file).with_repeated_split()
    if before.data.split.time is None or before.study.folds is not None:
        return config
    # a split by time draws nothing, but earlier versions recorded a seed
    split = {key: value for key, value in tables["data"]["split"].items() if key != "seed"}
    unseeded = {**tables, "data": {**tables["data"], "split": split}}
    return parse(toml_text(unseeded), file).with_earlier(config)


def _feasible(rows: list[Row]) -> list[Row]:
    """Those that meet the constraints, or all if none does."""
    return [row for row in rows if is_feasible(row)] or rows


def refuse_others(found: Finalists, start: Path | None = None) -> None:
    """Refuse to continue trainings of other finalists, with other seeds or not from `start`.

    `start` is the saved model that the trials of the study started from.

    Raises:
        StudyError: the directory contains such trainings.
    """
    run_dir = RunDir(found.config.run_dir)
    if not run_dir.ledger.exists():
        return
    try:
        with closing(backup.read(run_dir)) as ledger:
            sessions = ledger.sessions()
    except LedgerError:  # in use or damaged, which is reported when it is opened
        return
    if not sessions:  # the first start was killed before it recorded anything
        return
    session = sessions[0]
    began, now = session["study"], found.config.canonical()
    if start is not None and session["continued_from"] is None:
        other = f"its trials began with fresh weights, but those of the study with {start.name}"
        hint = "use --fresh to move it aside and train the finalists as they were"
        raise StudyError(Problem(str(run_dir.root), "", other, hint))
    if any(began["study"][name] != now["study"][name] for name in ("enqueue", "replicates")):
        other = "it contains other finalists, or other numbers of trials or seeds, than requested"
        hint = "use --fresh to move it aside and train these"
        raise StudyError(Problem(str(run_dir.root), "", other, hint))


def _tables(before: StudyConfig, run_dir: RunDir, rows: list[Row], seeds: int) -> dict[str, Any]:
    """The tables of the study that trains them again."""
    tables = tables_on_same_rows(before)
    study = tables["study"] | {
        "name": f"{before.study.name[: _LONGEST_NAME - len(_ENDING)]}{_ENDING}",
        "n_trials": len(rows),
        "replicates": seeds,
        # other weights, orders and draws, but the same split of the data
        "seed": (before.study.seed + 1) % 2**32,
        "enqueue": [json.loads(row["params_json"]) for row in rows],
        "sampler": {"name": "random"},
        "pruner": {"name": "none"},
        "timeout": None,
        "stop": None,
    }
    if study["value"] == "last":
        del study["value"]  # the default; written out, it would be reported if it has no effect
    split = tables["data"]["split"] | {"seed": before.split_seed}
    execution = tables["execution"] | {"trial_timeout": _timeout(before, seeds)}
    execution.pop("max_failures", None)
    for name in _idle_of_numbers(before.model):
        del tables["model"][name]
    return tables | {
        "study": study,
        "data": tables["data"] | {"split": split},
        "execution": execution,
        "results": tables["results"] | {"dir": str(run_dir.confirm), "ensemble": None},
    }


def _timeout(before: StudyConfig, seeds: int) -> str | None:
    """The time limit of a trial that is trained with `seeds` seeds; None for no limit."""
    limit_s, replicates = before.execution.trial_timeout_s, before.study.replicates
    if limit_s is None or seeds <= replicates:
        return before.execution.trial_timeout
    return f"{math.ceil(limit_s * seeds / replicates)}s"


def _idle_of_numbers(model: object) -> Iterator[str]:
    """Settings for ways to encode numbers that only have defaults, to be left out.

    Written out, they would be reported if they have no effect.
    """
    if isinstance(model, RowModelTable | MixedTable):
        fields = type(model).model_fields
        for name in (name for names in OF_NUMBERS.values() for name in names):
            if getattr(model, name) == fields[name].default:
                yield name


def rank_finalists(before: Finalists) -> list[Row]:
    """The finalists with their new results, best first: mean, spread, and earlier values."""
    config = before.config
    known = read_trials(RunDir(config.run_dir))
    first = trial_numbers(config).start
    again = {row["trial_number"] - first: row for row in known.rows()}
    ranked = [number - first for number in known.best(len(again))]
    ranked += [number for number in again if number not in ranked]  # those that failed
    tested = sorted(name for name in known.names if name.startswith("test_"))  # with their spreads
    constrained = [name for name in known.names if name == "feasible"]
    further = (*value_columns(len(known.metrics))[1:], *constrained)
    return [
        {
            "rank": rank,
            "trial": before.rows[number]["trial_number"],
            "mean": again[number]["value"],
            "std": again[number]["value_std"],
            **{name: again[number][name] for name in (*further, *tested)},
            "rank_before": before.ranks[number],
            "before": before.rows[number]["value"],
        }
        for rank, number in enumerate(ranked, 1)
    ]


def lead(records: Sequence[Row], n_members: int) -> Lead | None:
    """The lead of the first of `rank_finalists`; None if nothing can be compared with it.

    `records` are for one objective, each the mean of `n_members` trainings. A trial that violates a
    constraint is compared only if all do.
    """
    completed = [
        row
        for row in records
        if all(row[name] is not None and math.isfinite(row[name]) for name in ("mean", "std"))
    ]
    known = _feasible(completed)
    if len(known) < 2:
        return None
    first, *others = known
    best_before = min(row["rank_before"] for row in records)
    other = min(others, key=lambda row: (row["rank_before"] != best_before, row["rank"]))
    variance = first["std"] ** 2 + other["std"] ** 2
    return Lead(
        trial=first["trial"],
        over=other["trial"],
        difference=abs(first["mean"] - other["mean"]),
        standard_error=math.sqrt(variance / n_members),
    )
