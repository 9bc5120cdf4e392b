"""From raw TOML to the validated tables of a study, with everything that is wrong in them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import cast

from sweeper.config.alternating import UNUSED_LR
from sweeper.config.conditions import StructureSearch, check_conditions
from sweeper.config.coupled import CoupledTable
from sweeper.config.execution import ExecutionTable
from sweeper.config.model import MixedTable, TabMTable, check_bins, check_kinds
from sweeper.config.optimizer import MixedOptimizerTable, UserOptimizerTable, each
from sweeper.config.reading import (
    RawTable,
    allowed_values,
    is_table,
    read_table,
    settings_within,
    with_default,
    with_numbers,
    written,
)
from sweeper.config.refusals import (
    format_value,
    is_array,
    missing,
    unknown_setting,
    without_consequences,
)
from sweeper.config.rules import (
    Measures,
    all_drawn,
    check_class_parts,
    check_class_size,
    check_early_stop,
    check_grid,
    check_loss,
    check_optimizer_keys,
    check_padded_sizes,
    check_padding,
    check_parts,
    check_reported,
    check_rows,
    check_schedules,
    check_shares,
    check_single_trial,
    check_tabm_depths,
    check_target_transform,
    check_to_stop,
    check_traced,
    names_of,
)
from sweeper.config.search import SameAs, SearchEntry, gives_floats
from sweeper.config.settings import TrainTable, check_rates, is_required, needs_value
from sweeper.config.space import (
    SEARCHED_TABLES,
    any_value,
    check_links,
    flat_search,
    read_entry,
    taken_columns,
)
from sweeper.config.study import EDITION, N_PARAMETERS, StudyTable, read_enqueue
from sweeper.config.table import Flaw, Table, field_of, is_fixed
from sweeper.config.tables import DISCRIMINATORS, TABLES, Variants, kind_of
from sweeper.config.toml import toml_value
from sweeper.config.train import EpochsTable, SupervisedTable, UserProgramTable
from sweeper.config.trial import TrialTable
from sweeper.errors import ProblemKind

_RECORDED = ("edition", "traced_arguments")  # written by this package
_OPTIONAL = ("trial",)  # omitted if not written, unlike others, which have defaults
# flaws of an array that is given for a single value; it may be meant as searched choices
_OF_SINGLE_VALUES = (
    ProblemKind.NOT_A_NUMBER,
    ProblemKind.NOT_AN_INTEGER,
    ProblemKind.NOT_A_BOOLEAN,
    ProblemKind.UNKNOWN_NAME,
)
_LONGEST_CHOICES = 60  # characters


class Draft:
    """A study file on its way to a `StudyConfig`; `flaws` grows with every step."""

    def __init__(self, raw: RawTable) -> None:
        self.flaws: list[Flaw] = []
        self._raw = raw
        self._searched: set[str] = set()
        self._links: dict[str, str] = {}  # settings that take the value of another
        self._conditional: set[str] = set()  # searched settings that some trials do not draw
        self._as_if_right: dict[str, Table] = {}  # tables with invalid numbers replaced
        self._kinds = {name: self._kind(name) for name in TABLES}
        self._known = [
            setting
            for name, kind in self._kinds.items()
            if kind is not None
            for setting in settings_within(kind, name)
        ]

    def read(self) -> dict[str, object]:
        """The tables of the file by name; only a valid study without flaws."""
        self._check_top_level()
        search = self._read_search()
        self._read_queue(search)
        names = [name for name in TABLES if name in self._raw or name not in _OPTIONAL]
        tables = {name: self._read_table(name, search) for name in names}
        self._check_between({**tables, **self._as_if_right}, search)
        self._check_trial(tables)
        flaws = without_consequences(self.flaws, DISCRIMINATORS)
        self.flaws = [self._at_its_entry(self._with_search(flaw)) for flaw in flaws]
        given = {name: self._raw[name] for name in _RECORDED if name in self._raw}
        if "traced_arguments" in given:
            given["traced_arguments"] = self._traced_arguments(search)
        return {**tables, "version": 1, **given, "search": search, "same_as": self._links}

    def _at_its_entry(self, flaw: Flaw) -> Flaw:
        """Move a flaw in a value that is only written in `[search]` to its entry there."""
        is_drawn = flaw.key in self._searched and flaw.kind is not ProblemKind.MISSING
        if not is_drawn or with_default(self._raw, flaw.key.split("."), None) == self._raw:
            return flaw
        return replace(flaw, key=f"search.{flaw.key}")

    def _with_search(self, flaw: Flaw) -> Flaw:
        """Add to an array for a single value how to search it, if it can be searched."""
        is_for_single = flaw.kind in _OF_SINGLE_VALUES and is_array(flaw.value)
        if not is_for_single or not self._can_be_searched(flaw.key):
            return flaw
        values = written(self._raw, flaw.key)
        choices = toml_value(values) if values else "[...]"
        choices = choices if len(choices) <= _LONGEST_CHOICES else "[...]"
        entry = f'{{ type = "categorical", choices = {choices} }}'
        return replace(flaw, hint=f"{flaw.hint}, or search several: search.{flaw.key} = {entry}")

    def _can_be_searched(self, key: str) -> bool:
        """Whether `[search]` may have an entry for a setting."""
        name, _, setting = key.partition(".")
        if name not in SEARCHED_TABLES or not setting:
            return False
        table, kind = TABLES[name], self._kinds[name]
        if isinstance(table, Variants) and setting == table.by:
            return table.mixed is not None
        return kind is not None and not is_fixed(kind, setting)

    def _check_between(
        self, tables: Mapping[str, Table | None], search: Mapping[str, SearchEntry]
    ) -> None:
        study = allowed_values(StudyTable, self._raw.get("study"))
        measures = self._measures(tables.get("train"))
        if measures is not None and not self._is_misspelt("train.metrics"):
            wanted = study.get("metric", ()), study.get("constraints", ())
            self.flaws += check_reported(*wanted, measures)
            kind, objectives = self._kinds["train"], wanted[0]
            stop = kind and allowed_values(kind, self._raw.get("train")).get("early_stop")
            own = {objectives} if isinstance(objectives, str) else {*objectives}
            checked = own - {N_PARAMETERS}  # an objective, but not a metric of epochs
            if stop is not None and stop.metric not in (None, *checked):
                self.flaws += check_to_stop(stop.metric, measures)
        if "sampler" in study:
            self.flaws += check_grid(study["sampler"], study.get("enqueue", ()), search)
        self.flaws += self._drawn_flaws(search)
        train = tables.get("train")
        model = tables.get("model")
        self.flaws += check_parts(model, train, self._searched)
        of_model = self._kinds["model"]
        has_bins = of_model is not None and field_of(of_model, "n_bins") is not None
        if "model.n_bins" in search and has_bins:
            self.flaws += check_bins(search["model.n_bins"].values() or ())
        kinds = search.get("model.kind")
        if isinstance(model, MixedTable) and kinds is not None:
            self.flaws += check_kinds(model, kinds.values() or (), self._searched)
        if isinstance(model, TabMTable | MixedTable) and self._is_known(search):
            self.flaws += check_tabm_depths(model, search, self._links)
        if "folds" in study:
            self.flaws += check_shares(tables.get("data"), study["folds"])
        self.flaws += check_rows(tables.get("data"), train)
        self.flaws += check_target_transform(tables.get("data"), train)

    def _measures(self, table: Table | None) -> Measures | None:
        """What the program measures, as far as the file says."""
        if isinstance(table, CoupledTable | UserProgramTable):  # its metrics are fixed
            return Measures(table.loss, table.metrics, table.loss_names, table.metrics)
        if isinstance(table, TrainTable) and table.loss_names:
            return Measures(table.loss, table.metrics, table.loss_names)
        if self._kinds["train"] is not SupervisedTable:
            return None
        train = allowed_values(SupervisedTable, self._raw.get("train"))
        known = train.keys() >= {"loss", "metrics"}
        return Measures(train["loss"], train["metrics"]) if known else None

    def _is_in_doubt(self, key: str) -> bool:
        """Whether a flaw is already reported in a setting or a table, or in its search.

        What follows from its value is then not known.
        """
        places = {place for flaw in self.flaws for place in (flaw.key, flaw.meant)}
        return any(
            f"{place}.".startswith(f"{one}.") for place in places for one in (key, f"search.{key}")
        )

    def _is_known(self, search: Mapping[str, SearchEntry]) -> bool:
        """Whether these are all entries, without a flaw in any."""
        return self._searched == {*search, *self._links} and not self._is_in_doubt("search")

    def _is_misspelt(self, key: str) -> bool:
        return any(flaw.meant == key for flaw in self.flaws)

    def _drawn_flaws(self, search: Mapping[str, SearchEntry]) -> Iterator[Flaw]:
        """Flaws in some of the trials, in settings that do not fit together."""
        links = {key: search[of] for key, of in self._links.items() if of in search}
        drawn = {**search, **links}
        kind = self._kinds["optimizer"]
        execution = allowed_values(ExecutionTable, self._raw.get("execution"))
        for key, raw, own in () if kind is None else each(self._raw.get("optimizer"), kind):
            if not self._is_in_doubt(f"{key}.schedule"):
                yield from check_schedules(key, raw, drawn, is_own=own is UserOptimizerTable)
            if self._is_in_doubt(f"{key}.name"):
                continue
            names = names_of(drawn, f"{key}.name", raw.get("name"))
            if own is MixedOptimizerTable:
                yield from check_optimizer_keys(all_drawn(raw, key, drawn), names)
            if "strategy" in execution:
                yield from check_padding(execution["strategy"], names)
        train = self._raw.get("train", {})
        if not is_table(train):
            return
        yield from check_early_stop(train, drawn)
        is_supervised = self._kinds["train"] is SupervisedTable
        if is_supervised and not self._is_in_doubt("train.loss"):
            yield from check_loss(train, drawn)

    def _check_trial(self, tables: Mapping[str, Table | None]) -> None:
        trial, study = tables.get("trial"), tables.get("study")
        if not isinstance(trial, TrialTable):
            return
        if isinstance(study, StudyTable):
            self.flaws += check_single_trial(study, bool(self._searched))
        model, train = tables.get("model"), tables.get("train")
        if isinstance(train, EpochsTable):
            width, depth = (getattr(model, name, None) for name in ("width", "depth"))
            self.flaws += check_class_size(trial, train.epochs, width, depth)
        self.flaws += check_class_parts(trial.program, model)
        self.flaws += check_traced(trial.program, model, train)
        optimizer = tables.get("optimizer")
        if trial.program.strategy == "padded" and model and optimizer and train:
            can_be = getattr(optimizer, "elementwise", False) and getattr(train, "is_padded", False)
            self.flaws += check_padded_sizes(trial.program, model if can_be else None)

    def _check_top_level(self) -> None:
        version = self._raw.get("version")
        if version is None:
            self.flaws.append(missing("version", "write version = 1"))
        elif type(version) is not int or version != 1:
            self.flaws.append(Flaw("version", f"no version {format_value(version)}", "write 1"))
        edition = self._raw.get("edition", EDITION)
        if type(edition) is not int or not 1 <= edition <= EDITION:
            found = f"{format_value(edition)} is not a known edition (1 to {EDITION})"
            self.flaws.append(Flaw("edition", found, "remove it, or install a newer sweeper"))
        known = ["version", *_RECORDED, *TABLES, "search"]
        self.flaws += [
            unknown_setting(name, name, known, self._known)
            for name in self._raw
            if name not in known
        ]

    def _traced_arguments(self, search: Mapping[str, SearchEntry]) -> tuple[str, ...]:
        """The recorded floats of user-defined models that programs get at run time."""
        raw = self._raw["traced_arguments"]
        drawn = {**search, **{key: search[of] for key, of in self._links.items() if of in search}}
        able = [
            key
            for key, entry in drawn.items()
            if key.startswith("model.") and key not in self._known and gives_floats(entry)
        ]
        named = cast("list[object]", raw if isinstance(raw, list) else [raw])
        if all(one in able for one in named) and isinstance(raw, list):
            return tuple(map(str, named))
        shown = format_value(self._raw["traced_arguments"])
        found = f"{shown} is not an array of searched floats of a user-defined model"
        self.flaws.append(Flaw("traced_arguments", found, "remove it"))
        return ()

    def _kind(self, name: str) -> type[Table] | None:
        """The type of the table `name`; None if the file does not say."""
        kind, flaws = kind_of(name, self._raw, self._searches)
        self.flaws += flaws
        return kind

    def _searches(self, setting: str) -> bool:
        raw = self._raw.get("search", {})
        return is_table(raw) and any(setting == searched for searched, _ in flat_search(raw))

    def _read_search(self) -> dict[str, SearchEntry]:
        raw = self._raw.get("search", {})
        if not is_table(raw):
            self.flaws.append(
                Flaw("search", f"{format_value(raw)} is not a table", "write [search]")
            )
            return {}
        kinds = {name: self._kinds[name] for name in SEARCHED_TABLES}
        search: dict[str, SearchEntry] = {}
        for setting, raw_entry in flat_search(raw):
            if setting in self._searched:
                self.flaws.append(Flaw(f"search.{setting}", "given twice", "remove one"))
            self._searched.add(setting)
            entry, flaws = read_entry(setting, raw_entry, kinds)
            self.flaws += flaws
            if isinstance(entry, SameAs):
                self._links[setting] = entry.same_as
            elif entry is not None:
                search[setting] = entry
        drawn = {key: key for key in search} | self._links
        self._conditional = {key for key, of in drawn.items() if of in search and search[of].when}
        self.flaws += taken_columns(search)
        if self._searched == {*search, *self._links}:  # otherwise a flaw is already reported
            self.flaws += check_conditions(search)
            self.flaws += check_links(self._links, search, kinds)
        return search

    def _read_queue(self, search: Mapping[str, SearchEntry]) -> None:
        study = self._raw.get("study")
        if is_table(study) and "enqueue" in study and self._is_known(search):
            queue, flaws = read_enqueue(study["enqueue"], search)
            self.flaws += flaws
            self._raw = {**self._raw, "study": {**study, "enqueue": queue}}

    def _read_table(self, name: str, search: Mapping[str, SearchEntry]) -> Table | None:
        kind = self._kinds[name]
        if kind is None:
            return None
        raw = self._raw.get(name, {})
        if is_table(raw):
            raw = self._with_drawn(name, kind, raw, search)
            if name == "optimizer":
                raw = self._with_unused_rates(kind, raw)
                self.flaws += check_rates(raw, kind, self._searched, self._unrated_phases() or ())
        table, flaws = read_table(kind, raw, name, self._known)
        if table is None and (corrected := with_numbers(kind, raw, name, flaws)):
            self._as_if_right[name] = corrected
        self.flaws += [
            self._with_phases(flaw)
            for flaw in flaws
            if not (flaw.kind is ProblemKind.MISSING and flaw.key in self._searched)
        ]
        return table

    def _with_phases(self, flaw: Flaw) -> Flaw:
        """Add to a missing learning rate that the phases without one may have it instead."""
        table, *_, setting = flaw.key.split(".")
        if (table, setting, flaw.kind) != ("optimizer", "lr", ProblemKind.MISSING):
            return flaw
        own = [f"train.phases.{name}.lr" for name in self._unrated_phases() or ()]
        return replace(flaw, hint=f"{flaw.hint}, or {' and '.join(own)}") if own else flaw

    def _with_drawn(
        self, name: str, kind: type[Table], raw: RawTable, search: Mapping[str, SearchEntry]
    ) -> RawTable:
        """The table `name` with a value for all searched settings, which need none of their own.

        Settings that some trials do not draw have their default in those, and need one.
        """
        wrong = {flaw.key for flaw in self.flaws}
        links = {k: of for k, of in self._links.items() if f"search.{k}.same_as" not in wrong}
        for key, source in ({key: key for key in search} | links).items():
            table, _, setting = key.partition(".")
            if table != name or source not in search:
                continue
            entry, path = search[source], setting.split(".")
            several = _kinds_of_trials(name, kind) if is_required(kind, setting) else None
            if not entry.when or (
                several and self._is_drawn_by_users(key, source, several, search)
            ):
                raw = with_default(raw, path, any_value(entry))
            elif not needs_value(kind, setting, entry) or with_default(raw, path, 0) == raw:
                continue
            elif several and setting == several.by and several.default is not None:
                raw = with_default(raw, path, several.default)
            else:
                hint = f"write {setting} = ... in [{name}], for trials that do not draw it"
                if several:
                    earlier = toml_value(any_value(entry))
                    hint += f" ({earlier} in studies that were begun before this was checked)"
                self.flaws.append(missing(key, hint))
        return raw

    def _with_unused_rates(self, kind: type[Table], raw: RawTable) -> RawTable:
        """The optimizers, with a learning rate for those of which no phase uses it."""
        unrated = self._unrated_phases()
        if unrated is None:
            return raw
        for key, _, table_type in each(raw, kind):
            _, _, part = key.partition(".")
            is_used = any(not part or _trains(phase, part) for phase in unrated.values())
            # without lr, a user-defined one is called without it, unless all phases have a rate
            if not (unrated if issubclass(table_type, UserOptimizerTable) else is_used):
                raw = with_default(raw, [*key.split(".")[1:], "lr"], UNUSED_LR)
        return raw

    def _unrated_phases(self) -> RawTable | None:
        """The phases without a learning rate of their own; None if the program has no phases."""
        train = self._raw.get("train")
        if not is_table(train) or train.get("program") != "alternating":
            return None
        phases, always = train.get("phases", {}), self._searched - self._conditional
        if not is_table(phases):
            return None
        return {
            name: phase
            for name, phase in phases.items()
            if not (is_table(phase) and "lr" in phase) and f"train.phases.{name}.lr" not in always
        }

    def _is_drawn_by_users(
        self, key: str, source: str, kinds: Variants, search: Mapping[str, SearchEntry]
    ) -> bool:
        """Whether a setting that some `kinds` of its table need is drawn by all trials of these.

        `source` is the setting whose value it takes, usually itself.
        """
        if not self._is_known(search):
            return True  # a flaw is already reported
        name, _, setting = key.partition(".")
        by = f"{name}.{kinds.by}"
        owner = self._links.get(by, by)
        users = tuple(one for one, table in kinds.of.items() if setting in table.model_fields)
        uses = {} if key == by else {source: (owner, users)}
        kept = {owner: written(self._raw, by) or kinds.default}
        return not StructureSearch(search, [source], kept.get, uses, {}).is_kept(source)


def _kinds_of_trials(name: str, kind: type[Table]) -> Variants | None:
    """The kinds of a table if trials have several of them."""
    variants = TABLES[name]
    return variants if isinstance(variants, Variants) and kind is variants.mixed else None


def _trains(phase: object, part: str) -> bool:
    """Whether a raw phase trains a part; one that does not say may train any."""
    parts = phase.get("trains") if is_table(phase) else None
    return part in parts if isinstance(parts, list) else True
