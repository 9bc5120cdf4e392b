"""Completes settings by those that `init` would write for their table."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sweeper.config.alternating import AlternatingTable
from sweeper.config.load import tables_in
from sweeper.config.optimizer import UserOptimizerTable, has_several
from sweeper.config.reading import RawTable, is_table, with_default, with_value, written
from sweeper.config.space import flat_search
from sweeper.config.study import N_PARAMETERS
from sweeper.config.table import Table, field_of
from sweeper.config.tables import kind_of
from sweeper.config.train import (
    TASK_OF_LOSS,
    TASK_OF_METRIC,
    WEIGHED,
    SupervisedTable,
    Task,
    UserProgramTable,
    better,
)
from sweeper.config.user_code import LoadError, keywords_of, load_function
from sweeper.templates.advice import Effort, advice, budget

if TYPE_CHECKING:
    from sweeper.data.guess import Guess

# settings that a study file must have, except its objective
_REQUIRED = (
    *("study.n_trials", "model.depth", "model.width", "optimizer.lr"),
    *("train.loss", "train.epochs", "train.batch_size"),
)
# settings that differ by the rows, if nobody writes them
OF_ROWS = (
    *("data.drop", "data.missing_target", "data.impute", "data.scale", "data.class_weights"),
    *("data.split.stratify", "model.numbers", "model.n_bins", "search.model.width"),
    *("train.loss", "train.metrics", "train.batch_size", "study.metric", "study.direction"),
)


class PartialStudy:
    """Settings to complete: `raw` as written, and `settings` with those that override them.

    Settings and tables in `omitted` stay out.
    """

    def __init__(self, raw: RawTable, settings: RawTable, omitted: Collection[str]) -> None:
        self.raw, self.settings, self._omitted = raw, settings, omitted
        search = settings.get("search", {})
        self._searched = {key for key, _ in flat_search(search)} if is_table(search) else set()

    def add(self, key: str, value: object) -> None:
        """Add a setting, or a table without what is omitted, unless it is written or searched."""
        path = key.split(".")
        if is_table(value):
            value = {n: one for n, one in value.items() if f"{key}.{n}" not in self._omitted}
        is_new = with_default(self.settings, path, value) != self.settings
        # without its name, a table has no other settings
        is_omitted = f"{key}.name" in self._omitted or any(
            key == one or key.startswith(f"{one}.") for one in self._omitted
        )
        if is_new and not is_omitted and key not in self._searched:
            self.settings = with_value(self.settings, path, value)
            self.raw = with_value(self.raw, path, value)

    def written(self, key: str) -> Any:
        """The value of a setting as written; None if it is not."""
        return written(self.settings, key)

    def kind(self, table: str) -> type[Table] | None:
        """The type of a table; None if the settings do not say."""
        return kind_of(table, self.settings, self._searched.__contains__)[0]

    def has(self, key: str) -> bool:
        """Whether a table has such a setting.

        Of the arguments of user-defined functions, only the `lr` of an optimizer counts.
        """
        name, _, setting = key.partition(".")
        kind = self.kind(name)
        if kind is UserOptimizerTable and setting == "lr" and not self._takes_rate():
            return False
        return kind is not None and field_of(kind, setting) is not None

    def _takes_rate(self) -> bool:
        """Whether the user-defined optimizer has an argument `lr`; also if it cannot be loaded."""
        try:
            function = load_function(self.written("optimizer.name"), Path.cwd())
        except LoadError:  # reported when the study is checked
            return True
        named, is_open = keywords_of(function)
        return "lr" in named or is_open

    @property
    def objectives(self) -> list[str]:
        """The objectives as written."""
        return _texts(self.written("study.metric"))

    @property
    def has_one_objective(self) -> bool:
        """Whether trials are judged by one metric."""
        return len(self.objectives) < 2


def complete_settings(
    raw: RawTable,
    settings: RawTable,
    guessed: Guess | None,
    omitted: Collection[str] = (),
    *,
    is_in_memory: bool,
) -> RawTable:
    """`raw` with the settings that a study must have, as `init` writes them for the guessed table.

    `settings` are `raw` with overrides; those that are `omitted` stay out. Without a table
    `search`, `init` also says what to search, and, for rows in memory, everything else.
    """
    draft = PartialStudy(raw, settings, omitted)
    draft.add("version", 1)
    draft.add("study.name", "study")
    if draft.written("model.function") is not None:
        draft.add("model.kind", "python")
    if not has_several(settings.get("optimizer")):
        draft.add("optimizer.name", "adamw")
    has_search = "search" in settings
    task = _task(draft, guessed)
    tables = _of_init(guessed, task or "numbers")
    if not has_search:
        for key, entry in flat_search(tables["search"]):
            # a user-defined program calls the model without dropout
            is_idle = key == "model.dropout" and draft.kind("train") is UserProgramTable
            if draft.has(key) and draft.written(key) is None and not is_idle:
                draft.add(f"search.{key}", entry)
    if is_in_memory and guessed is not None:
        _add_ways_to_read(draft, guessed)
    if task is not None and draft.kind("train") is SupervisedTable:
        _add_objective(draft, tables, task)
    loss = draft.written("train.loss")
    has_own_loss = isinstance(loss, str) and loss not in TASK_OF_LOSS
    is_own = draft.kind("train") is UserProgramTable or has_own_loss
    if task is not None and is_own:
        draft.add("train.task", task)
        draft.add("study.metric", "val_loss")
    _add_direction(draft)
    for key, value in _settings(tables):
        is_required = key in _REQUIRED and (task is not None or key != "train.loss")
        is_suggested = is_in_memory and not has_search and _fits(draft, key)
        if draft.has(key) and (is_required or is_suggested):
            draft.add(key, value)
    if is_in_memory and not has_search and "stratify" in tables["data"]["split"]:
        _add_stratify(draft)
    return draft.raw


def _task(draft: PartialStudy, guessed: Guess | None) -> Task | None:
    """The kind of target that the loss and the metrics need, or else the guessed one."""
    loss, task = draft.written("train.loss"), draft.written("train.task")
    if isinstance(loss, str) and loss in TASK_OF_LOSS:
        return TASK_OF_LOSS[loss]
    if task is not None:
        return "classes" if task == "classes" else "numbers"
    metrics = [name.partition("_")[2] for name in draft.objectives]
    metrics += _texts(draft.written("train.metrics"))
    for metric in metrics:
        if metric in TASK_OF_METRIC:
            return TASK_OF_METRIC[metric]
    if len(_texts(draft.written("data.target"))) > 1:
        return "numbers"
    if guessed is not None:
        return "classes" if guessed.is_classes else "numbers"
    if draft.written("data.source") == "sklearn":
        return "numbers" if draft.written("data.name") == "diabetes" else "classes"
    return None


def _of_init(guessed: Guess | None, task: Task) -> RawTable:
    """The tables of the study file that `init` writes for the guessed table."""
    is_classes = task == "classes"
    template = "csv" if is_classes else "regression"
    tables = tables_in(template_text(template))
    lines = budget(Effort.NORMAL)
    if guessed is not None:
        lines = advice(guessed, Effort.NORMAL, is_classes=is_classes)
    for line in lines:
        *around, name = line.key.split(".")
        if line.value is None:
            tables[around[0]].pop(name)
        else:
            tables = with_value(tables, [*around, name], line.value)
    return tables


def template_text(name: str) -> str:
    """The text of a study file to start from."""
    return files("sweeper.templates").joinpath(f"{name}.toml").read_text("utf-8")


def _settings(tables: RawTable) -> Iterator[tuple[str, Any]]:
    """The settings by key, without the search and what names the data."""
    for name, table in tables.items():
        for setting, value in table.items() if is_table(table) and name != "search" else ():
            yield f"{name}.{setting}", value


def _fits(draft: PartialStudy, key: str) -> bool:
    """Whether a setting of `init` makes sense for these trials."""
    if key == "study.pruner":
        return draft.has_one_objective
    if key == "results.ensemble":
        return draft.has_one_objective and draft.kind("train") is SupervisedTable
    if key == "data.class_weights":
        kind, loss = draft.kind("train"), draft.written("train.loss")
        return kind is AlternatingTable or (kind is SupervisedTable and loss in (None, *WEIGHED))
    return key not in ("data.source", "data.path", "data.target", "data.drop")


def _add_ways_to_read(draft: PartialStudy, guessed: Guess) -> None:
    """Leave out columns that no study can learn from, and rows without a target; fill gaps."""
    if guessed.drop:
        draft.add("data.drop", [*guessed.drop])
    if guessed.is_left_out:
        draft.add("data.missing_target", "drop")
    if guessed.has_gaps:
        draft.add("data.impute", "median")


def _add_stratify(draft: PartialStudy) -> None:
    """Keep the proportions of classes in each split, unless a column says how to split."""
    if not any(draft.written(f"data.split.{way}") for way in ("group", "time", "column")):
        draft.add("data.split.stratify", True)


def _add_objective(draft: PartialStudy, tables: RawTable, task: Task) -> None:
    """The metrics and the objective: those of `init`, unless one of them is written."""
    metrics, objectives = draft.written("train.metrics"), draft.objectives
    if metrics is None and draft.written("study.metric") is None:
        draft.add("train.metrics", tables["train"]["metrics"])
        draft.add("study.metric", tables["study"]["metric"])
    elif metrics is None:
        named = (name.partition("_")[2] for name in objectives)
        if known := [name for name in named if TASK_OF_METRIC.get(name) == task]:
            draft.add("train.metrics", [*dict.fromkeys(known)])
    else:
        first = next(iter(_texts(metrics)), "loss")
        draft.add("study.metric", f"val_{first.rpartition(':')[2]}")


def _add_direction(draft: PartialStudy) -> None:
    """The usual direction of each objective, if all have one."""
    objectives = draft.objectives
    names = [name.partition("_")[2] for name in objectives]
    is_known = all(
        objective == N_PARAMETERS or name.startswith("loss") or name in TASK_OF_METRIC
        for objective, name in zip(objectives, names, strict=True)
    )
    if objectives and is_known:
        ways = ["minimize" if one == N_PARAMETERS else better(one) for one in objectives]
        draft.add("study.direction", ways if len(ways) > 1 else ways[0])


def _texts(value: object) -> list[str]:
    """The strings among one value or several."""
    values: list[Any] = value if isinstance(value, list) else [value]
    return [one for one in values if isinstance(one, str)]
