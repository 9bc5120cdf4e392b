"""A whole study file, read and validated."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, Literal, Protocol, Self, get_args

from pydantic import Field, PrivateAttr, SerializeAsAny

from sweeper.config.conditions import StructureSearch, Wanted, active
from sweeper.config.data import DataTable
from sweeper.config.execution import ExecutionTable, ResultsTable, ScheduleTable
from sweeper.config.model import (
    LAYERED,
    MixedTable,
    ModelKind,
    ModelTable,
    OneKind,
    PartsTable,
    PythonTable,
    RowModelTable,
    concerns,
)
from sweeper.config.optimizer import (
    MixedOptimizerTable,
    OptimizersTable,
    OptimizerTable,
    UserOptimizerTable,
    takes,
)
from sweeper.config.reading import RecipeTable, tables_of
from sweeper.config.search import SearchEntry, gives_floats
from sweeper.config.settings import (
    WITH_TRACED_ARGUMENTS,
    MetricRule,
    Settings,
    TrainTable,
    functions_of_decay,
    functions_of_study,
    functions_of_tables,
    optional_settings,
)
from sweeper.config.study import EDITION, N_PARAMETERS, StudyTable
from sweeper.config.summary import study_html, study_text
from sweeper.config.table import Flaw, Role, Table, field_of, role_of, value_of, with_values
from sweeper.config.toml import Source
from sweeper.config.train import better
from sweeper.config.trial import TrialTable
from sweeper.errors import Problem
from sweeper.trial import Member, Scalar


class StudyRows(Protocol):
    """The rows of a study that started with them in memory."""

    @property
    def name(self) -> str:
        """What messages call them."""
        ...

    @property
    def file(self) -> Path:
        """The Parquet file that holds them."""
        ...

    @property
    def notes(self) -> tuple[str, ...]:
        """Messages for the user about them."""
        ...

    def forget(self) -> None:
        """Remove what is only needed until the run directory has them."""
        ...


@dataclass(frozen=True, slots=True)
class RowsFile:
    """These rows where an earlier session has written them."""

    file: Path
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of the file."""
        return self.file.name

    def forget(self) -> None:
        """Keep the file."""


class StudyConfig(Table):
    """The settings of a study file; only built by `load` and `parse`, which check it as a whole.

    `search` maps the dotted key of each searched setting to its entry, in the order of the file;
    `same_as` are settings of `[search]` that take the value of another one. `traced_arguments` are
    the floats of user-defined models that programs get at run time, by dotted key; None if that is
    not decided yet, which takes the data.
    """

    version: Literal[1] = Field(description="version of the file format")
    edition: int = EDITION
    traced_arguments: tuple[str, ...] | None = None
    study: StudyTable
    data: DataTable
    model: SerializeAsAny[ModelTable | MixedTable | PartsTable]
    optimizer: SerializeAsAny[OptimizerTable | MixedOptimizerTable | OptimizersTable]
    train: SerializeAsAny[TrainTable]
    search: dict[str, SearchEntry]
    same_as: dict[str, str]
    schedule: ScheduleTable
    execution: ExecutionTable
    results: ResultsTable
    trial: SerializeAsAny[TrialTable] | None = None

    _source: Source = PrivateAttr()
    _rows: StudyRows | None = PrivateAttr(None)
    _following: tuple[str, ...] = PrivateAttr(())
    _earlier: Self | None = PrivateAttr(None)
    _repeats_split: bool = PrivateAttr(False)

    @classmethod
    def of(cls, tables: Mapping[str, object], source: Source) -> Self:
        """The study of validated `tables`; `source` is their text."""
        config = cls.model_validate(tables)
        config._source = source
        return config

    def with_edition(self, edition: int) -> Self:
        """The same study under the recorded edition, unless its file names one."""
        if "edition" in self.model_fields_set:
            return self
        return self.model_copy(update={"edition": edition})

    def with_traced_arguments(self, arguments: Iterable[str]) -> Self:
        """The same study with these `traced_arguments`, unless its file names some."""
        if "traced_arguments" in self.model_fields_set:
            return self
        return self.model_copy(update={"traced_arguments": (*arguments,)})

    def with_parallel(self, parallel: int) -> Self:
        """The same study with so many trials in training, unless its file names a number."""
        if self.schedule.parallel is not None:
            return self
        schedule = self.schedule.model_copy(update={"parallel": parallel})
        return self.model_copy(update={"schedule": schedule})

    def with_target_scale(self) -> Self:
        """The same study, with the scale of numeric targets written out."""
        if self.train.target != "numbers" or self.data.target_scale is not None:
            return self
        update = {"target_scale": self.data.usual_target_scale}
        return self.model_copy(update={"data": self.data.model_copy(update=update)})

    def as_begun(self, record: Mapping[str, Any]) -> Self:
        """The same study under the rules that it began with; `record` is its `canonical` of then.

        These are its edition, which floats of its models are traced, and how many trials train at a
        time. How its targets are scaled is written out. If settings that an earlier version would
        have suggested are the recorded ones, they stay.
        """
        if self._earlier is not None and self._earlier._is_recorded(record, self):
            return self._earlier.as_begun(record)
        config = self.with_edition(record.get("edition", 1))
        config = config.with_traced_arguments(record.get("traced_arguments", ()))
        return config.with_parallel(record["schedule"]["parallel"]).with_target_scale()

    def __repr__(self) -> str:
        return study_text(self.study, self.search, self.run_dir)

    __str__ = __repr__

    def _repr_html_(self) -> str:
        models, optimizers = self.each("model"), self.each("optimizer")
        tables = {"data": self.data, **models, **optimizers, "train": self.train}
        return study_html(self.study, tables, self.search, self.same_as, self.run_dir)

    @property
    def parallel(self) -> int:
        """How many trials train at a time; known once JAX is set up, if the file does not say."""
        if self.schedule.parallel is None:
            raise RuntimeError("how many trials train at a time has not been decided yet")
        return self.schedule.parallel

    @property
    def source(self) -> Source:
        """The text that the study was read from."""
        return self._source

    @property
    def rows(self) -> StudyRows | None:
        """The rows that are read instead of the file that `data.path` names; None for others."""
        return self._rows

    def with_rows(self, rows: StudyRows, following: Iterable[str] = ()) -> Self:
        """The same study, whose rows are these; settings with the dotted keys follow from them."""
        config = self.model_copy()
        config._rows = rows
        config._following = (*following,)
        return config

    def follows_from_rows(self, key: str) -> bool:
        """Whether nobody has written the setting at the dotted key: it follows from the rows."""
        return any(f"{key}.".startswith(f"{one}.") for one in self._following)

    def with_earlier(self, earlier: Self) -> Self:
        """The same study, which an earlier version would have completed as `earlier`."""
        config = self.model_copy()
        config._earlier = earlier
        return config

    @property
    def repeats_split(self) -> bool:
        """Whether `data.split.seed` is that of another study, rather than written by a user."""
        return self._repeats_split or self.trial is not None

    @property
    def is_refit(self) -> bool:
        """Whether it trains a trial again on more rows, so that nothing is judged on them."""
        return self.trial is not None and self.data.split.train_on != "train"

    def with_repeated_split(self) -> Self:
        """The same study, whose split has the seed of another study."""
        config = self.model_copy()
        config._repeats_split = True
        return config

    def _is_recorded(self, record: Mapping[str, Any], other: StudyConfig) -> bool:
        """Whether the record agrees with this study wherever the other one differs from it."""
        own, others = self.canonical(), other.canonical()
        return all(
            record.get(table, {}).get(name) == value
            for table in ("study", "data", "train")
            for name, value in own[table].items()
            if value != others[table].get(name)
        )

    def problem(self, key: str, found: str, hint: str) -> Problem:
        """A problem at the dotted `key` of this file."""
        return self._source.problem(Flaw(key, found, hint))

    def settings_of(self, params: Mapping[str, Scalar]) -> Settings:
        """The settings of a trial that drew `params`, by column.

        Searched settings that are not in `params` keep the file's own value.
        """
        drawn: dict[str, dict[str, Scalar]] = {"model": {}, "optimizer": {}, "train": {}}
        for key, value in self.by_key(params).items():
            table, _, setting = key.partition(".")
            drawn[table][setting] = value
        model = with_values(self.model, drawn["model"])
        optimizer = with_values(self.optimizer, drawn["optimizer"])
        return Settings(
            model=model.own() if isinstance(model, MixedTable) else model,
            optimizer=optimizer.own() if isinstance(optimizer, MixedOptimizerTable) else optimizer,
            train=with_values(self.train, drawn["train"]),
            optional=self._optional.union(self.traced_arguments or ()),
            base_dir=self.base_dir,
            keeps=self.keeps,
            stops=self.stops,
            saves=self.results.save_optimizer,
            edition=self.edition,
        )

    def by_key(self, params: Mapping[str, Scalar]) -> dict[str, Scalar]:
        """The values that a trial which drew `params`, by column, has of searched settings."""
        keys = {entry.column(key): key for key, entry in self.search.items()}
        values = {keys[column]: value for column, value in params.items()}
        links = {key: values[source] for key, source in self.same_as.items() if source in values}
        return values | links

    def active(self, params: Mapping[str, Scalar]) -> dict[str, Scalar]:
        """Those of `params`, by column, whose conditions are met."""
        return active(self.search, params)

    def entry(self, key: str) -> SearchEntry | None:
        """The entry that provides the value of the setting `key`; None if it is not searched."""
        return self.search.get(self.same_as.get(key, key))

    def drawn_values(self, key: str) -> tuple[Scalar, ...] | None:
        """All values that trials have for a setting; None if there are too many to list."""
        entry, own = self.entry(key), self.written(key)
        kept = () if own is None else (own,)
        if entry is None:
            return kept
        values = entry.values()
        return values if values is None or not entry.when else (*dict.fromkeys((*values, *kept)),)

    @property
    def number_encodings(self) -> tuple[Scalar, ...]:
        """How networks of trials take numbers: all values of `model.numbers`.

        It is empty if no network does; an argument of a user-defined model may have the same name.
        """
        has_setting = field_of(type(self.model), "numbers") is not None
        return (self.drawn_values("model.numbers") or ()) if has_setting else ()

    @property
    def used_bins(self) -> tuple[tuple[str, int], ...]:
        """The ways to choose bins, and how many: those of all trials, then those of the file.

        Checks build the model of the file, whose values no trial need draw.
        """
        pairs: list[tuple[str, int]] = []
        if "ple" in self.number_encodings:
            ways, counts = (self.drawn_values(f"model.{name}") or () for name in ("bins", "n_bins"))
            pairs += [(str(way), int(count)) for way, count in product(ways, counts)]
        own = self.settings_of({}).model
        if isinstance(own, RowModelTable) and own.encoded_by is not None:
            pairs.append((own.bins, own.n_bins))
        return tuple(dict.fromkeys(pairs))

    @property
    def keeps(self) -> MetricRule | None:
        """The rule for which epoch's weights a trial keeps; None for the last epoch."""
        return self._rule_of(self._guide) if self.study.value == "best" else self.stops

    @property
    def stops(self) -> MetricRule | None:
        """The rule for ending a trial early, or None."""
        table = self.train.early_stop
        return None if table is None else self._rule_of(table.metric or self._guide)

    @property
    def columns(self) -> dict[str, SearchEntry]:
        """The searched settings by the name of their column."""
        return {entry.column(key): entry for key, entry in self.search.items()}

    @property
    def structural(self) -> dict[str, bool]:
        """Whether different values of a searched setting need different programs, by setting."""
        return {key: self.role(key) is Role.STRUCTURAL for key in self.search}

    @property
    def n_structures(self) -> int | None:
        """How many structures the search has; None if there are infinitely many."""
        return _total(self.n_structures_of(kind) for kind in self.kinds)

    @property
    def kinds(self) -> tuple[ModelKind, ...]:
        """The kinds of model that trials have."""
        if isinstance(self.model, PartsTable):
            return ("parts",)
        drawn = self.drawn_values("model.kind") or ()
        return tuple(kind for kind in get_args(OneKind) if kind in drawn)

    @property
    def has_plain_mlps(self) -> bool:
        """Whether the whole model of some trial is a multilayer perceptron."""
        return "mlp" in self.kinds

    @property
    def padded_kinds(self) -> tuple[ModelKind, ...]:
        """The kinds of models in the study that can be padded as a whole."""
        return tuple(kind for kind in self.kinds if kind in LAYERED)

    @property
    def has_user_models(self) -> bool:
        """Whether a user-defined function builds the model of some trial, or a part of it."""
        if isinstance(self.model, PartsTable):
            return any(isinstance(part, PythonTable) for part in self.model.parts.values())
        return "python" in self.kinds

    @property
    def searched_arguments(self) -> dict[str, SearchEntry]:
        """The entries of arguments of user-defined models that only take floats, by dotted key."""
        holders = {
            key: table
            for key, table in self.each("model").items()
            if isinstance(table, PythonTable | MixedTable)
        }
        entries = {key: self.entry(key) for key in (*self.search, *self.same_as)}
        return {
            key: entry
            for key, entry in entries.items()
            if (holder := key.rpartition(".")[0]) in holders
            and field_of(type(holders[holder]), key.rpartition(".")[2]) is None
            and entry is not None
            and gives_floats(entry)
        }

    @property
    def names_functions(self) -> bool:
        """Whether a loss, metric or optimizer is a user-defined function."""
        optimizers = self.each("optimizer").values()
        is_own = any(isinstance(table, UserOptimizerTable) for table in optimizers)
        return bool(self.train.functions) or is_own

    def splits(self, key: str, kind: ModelKind) -> bool:
        """Whether values of a searched setting need different programs for models of `kind`."""
        is_splitting = key != "model.kind" and self.role(key) is Role.STRUCTURAL
        return is_splitting and self.is_of(kind, key)

    def params_of(self, kind: ModelKind) -> dict[str, Scalar]:
        """The parameters of trials whose models are of `kind`; empty if it is not searched."""
        entry = self.search.get("model.kind")
        return {} if entry is None else {entry.column("model.kind"): kind}

    def is_of(self, kind: ModelKind, key: str) -> bool:
        """Whether models of `kind` use a searched setting."""
        table, _, name = key.partition(".")
        return table != "model" or concerns(self.model, name, kind)

    def is_drawn(self, key: str, owned: Wanted | None = None) -> bool:
        """Whether some trial draws a searched setting.

        With `owned`, a setting and values of it, only trials with one of these values count.
        """
        uses: dict[str, Wanted] = {}
        if owned is not None:
            owner, wanted = owned
            uses[key] = self.same_as.get(owner, owner), wanted
        return StructureSearch(self.search, [key], self.written, uses, {}).has_use(key)

    def n_structures_of(self, kind: ModelKind, traced: Container[str] = ()) -> int | None:
        """How many structures models of `kind` have, if differences in `traced` do not count."""
        splitting = [k for k in self.search if self.splits(k, kind) and k not in traced]
        return self._count(kind, splitting)

    @property
    def n_different(self) -> int | None:
        """How many different trials the search has; None if there are infinitely many.

        Trials that differ only in settings that their optimizer or kind of model ignores are equal.
        """
        counts: list[int | None] = []
        for kind in self.kinds:
            drawn = [key for key in self.search if key != "model.kind"]
            users = {
                key: [one for one in self._users(key) if self.is_of(kind, one)] for key in drawn
            }
            keys = [key for key in drawn if users[key]]
            counts.append(self._count(kind, keys, self._optimizers_using(users)))
        return _total(counts)

    @property
    def n_points(self) -> int | None:
        """Like `n_different`, but as if no optimizer or kind of model used values by `same_as`.

        This number limits how often repeated trials are drawn again, so trials depend on it.
        """
        drawn = [key for key in self.search if key != "model.kind"]
        return _total(
            self._count(kind, [key for key in drawn if self.is_of(kind, key)])
            for kind in self.kinds
        )

    def _count(
        self, kind: ModelKind, keys: Sequence[str], uses: Mapping[str, Wanted] | None = None
    ) -> int | None:
        """How many combinations of values of `keys` models of `kind` have.

        `uses` says which optimizers use a setting; by default, those that have it themselves.
        """
        if uses is None:
            uses = self._optimizers_using({key: [key] for key in self.search})
        only = {} if kind == "parts" else {"model.kind": kind}
        return StructureSearch(self.search, keys, self.written, uses, only).count()

    @property
    def members(self) -> tuple[Member, ...]:
        """The trainings that every trial averages over: each replicate with all of its folds."""
        parts = range(self.study.replicates), range(self.study.folds or 1)
        return tuple(Member(replicate, fold) for replicate, fold in product(*parts))

    @property
    def split_seed(self) -> int:
        """The seed for splitting the data."""
        own = self.data.split.seed
        return self.study.seed if own is None else own

    @property
    def max_epochs(self) -> int:
        """The most epochs that a trial may train."""
        if self.trial is not None:
            return self.trial.program.epochs
        return max(int(epochs) for epochs in self.drawn_values("train.epochs") or (0,))

    def epochs_of(self, params: Mapping[str, Scalar]) -> int:
        """The epoch after which a trial that drew `params` ends."""
        key = self.same_as.get("train.epochs", "train.epochs")
        entry, epochs = self.search.get(key), self.train.epochs
        if entry is not None:
            epochs = int(params.get(entry.column(key), epochs))
        return epochs if self.trial is None else min(epochs, self.trial.epochs)

    @property
    def run_dir(self) -> Path:
        """The run directory as named in the file, even if that is a link."""
        named = Path(self.results.dir or f"runs/{self.study.name}")
        start = self._source.working_directory
        return named if Path.cwd() == start else start / named

    @property
    def base_dir(self) -> Path:
        """The study file's directory, where relative paths are looked up first."""
        return self._source.path.parent

    @property
    def functions(self) -> dict[str, str]:
        """The user-defined functions that the study calls, each with the key that names it."""
        return dict(self.function_keys)

    @property
    def function_keys(self) -> tuple[tuple[str, str], ...]:
        """The same as pairs; a function that several keys name occurs once for each of them."""
        return (
            *functions_of_tables({**self.each("model"), "data": self.data}),
            *((name, f"train.{setting}") for name, setting in self.train.functions.items()),
            *functions_of_tables(self.each("optimizer")),
            *functions_of_decay(self.optimizer),
            *functions_of_study(self.study),
        )

    def own_class(self, table: Literal["sampler", "pruner"]) -> tuple[str, str] | None:
        """The user-defined sampler or pruner, and the key that names it; None without one.

        Optuna's pruner `patient` may wrap a pruner.
        """
        own = functions_of_study(self.study)
        return next((pair for pair in own if pair[1].startswith(f"study.{table}.")), None)

    @property
    def has_own_class(self) -> bool:
        """Whether the sampler or the pruner is user-defined."""
        return bool([*functions_of_study(self.study)])

    def each(self, name: Literal["model", "optimizer"]) -> dict[str, Table]:
        """The table with this name, or those of all parts, by dotted key."""
        table: Table = getattr(self, name)
        if not isinstance(table, RecipeTable):
            return {name: table}
        return {f"{name}.{part}": inner for part, inner in tables_of(table).items()}

    def canonical(self) -> dict[str, Any]:
        """All settings including defaults, as JSON; equal for studies that mean the same.

        Edition 1, no `traced_arguments`, the usual `data.target_scale`, no `data.weight`
        and no `data.split.column` are left out, as in records of versions before these.
        """
        unknown_before = {
            "edition": self.edition == 1,
            "traced_arguments": not self.traced_arguments,
        }
        exclude: dict[str, Any] = {name: True for name, is_out in unknown_before.items() if is_out}
        unknown_of_data = {
            "target_scale": self.data.target_scale in (None, self.data.usual_target_scale),
            "weight": self.data.weight_column is None,
        }
        of_data: dict[str, Any] = {name: True for name, is_out in unknown_of_data.items() if is_out}
        if self.data.split.column is None:
            of_data["split"] = {"column"}
        exclude["data"] = of_data
        settings = self.model_dump(mode="json", exclude=exclude)
        links = {key: {"same_as": source} for key, source in settings.pop("same_as").items()}
        return {**settings, "search": {**settings["search"], **links}}

    def _optimizers_using(self, users: Mapping[str, Sequence[str]]) -> dict[str, Wanted]:
        """The searched settings that only some of the drawn optimizers use.

        `users` are the settings that have the value of a searched one.
        """
        if not isinstance(self.optimizer, MixedOptimizerTable):
            return {}
        names = tuple(str(name) for name in self.drawn_values("optimizer.name") or ())
        taking = {
            key: tuple(
                name for name in names if any(takes(name, one.partition(".")[2]) for one in own)
            )
            for key, own in users.items()
            if all(one.startswith("optimizer.") for one in own)
        }
        return {key: ("optimizer.name", those) for key, those in taking.items() if those != names}

    def written(self, key: str) -> Any:
        """The file's own value of a setting, or None."""
        table, _, setting = key.partition(".")
        holder: Table = getattr(self, table)
        return None if field_of(type(holder), setting) is None else value_of(holder, setting)

    @property
    def _guide(self) -> str:
        """The first objective that changes between epochs, else the first validation loss."""
        differing = (name for name in self.study.objectives if name != N_PARAMETERS)
        return next(differing, f"val_{self.train.loss_names[0]}")

    def _rule_of(self, metric: str) -> MetricRule:
        ways = dict(zip(self.study.objectives, self.study.directions, strict=True))
        return MetricRule(metric, ways.get(metric, better(metric)) == "maximize")

    @cached_property
    def _optional(self) -> frozenset[str]:
        if self.trial is not None:
            return frozenset(self.trial.program.parts)
        tables = {"model": self.model, "optimizer": self.optimizer, "train": self.train}
        return frozenset(optional_settings(tables, lambda key: self.entry(key) is not None))

    def role(self, key: str) -> Role:
        """The role of a searched setting together with those that take its value."""
        roles = [self._own_role(setting) for setting in self._users(key)]
        return Role.STRUCTURAL if Role.STRUCTURAL in roles else roles[0]

    def _users(self, key: str) -> tuple[str, ...]:
        """A searched setting, and those that take its value."""
        return key, *(setting for setting, source in self.same_as.items() if source == key)

    def _own_role(self, key: str) -> Role:
        if key in (self.traced_arguments or ()):
            return Role.TRACED
        holder, _, last = key.rpartition(".")
        own = {**self.each("optimizer"), "train": self.train}.get(holder)
        is_own = isinstance(own, WITH_TRACED_ARGUMENTS) and field_of(type(own), last) is None
        entry = self.entry(key)
        if is_own and entry is not None and gives_floats(entry):
            return Role.TRACED
        name, _, setting = key.partition(".")
        table: Table = getattr(self, name)
        return role_of(type(table), setting)


def _total(counts: Iterable[int | None]) -> int | None:
    """Their sum; None if one is infinite."""
    found = [*counts]
    return None if None in found else sum(count or 0 for count in found)
