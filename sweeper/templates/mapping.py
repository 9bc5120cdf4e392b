"""Studies from settings in a mapping and rows in memory.

What a study file must have and the mapping lacks is what `init` writes for the table. A mapping
without `search` gets everything that `init` writes and the study can have.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from sweeper.config.load import load, parse, study_path
from sweeper.config.mapping import raw_tables, unknown_omitted
from sweeper.config.overrides import override_texts, read_overrides
from sweeper.config.reading import RawTable, is_table, with_value, written
from sweeper.config.study_config import StudyConfig
from sweeper.config.table import Flaw
from sweeper.config.tables import TABLES
from sweeper.config.toml import IN_MAPPING, IN_PYTHON, split_override, toml_text
from sweeper.config.train import TASK_OF_LOSS, SupervisedTable
from sweeper.data.sizes import split_sizes
from sweeper.errors import DataError, Problem, ProblemKind, StudyError, listed, warn_caller
from sweeper.rundir import RunDir
from sweeper.templates.completed import OF_ROWS, complete_settings

if TYPE_CHECKING:
    from sweeper.data.guess import Guess
    from sweeper.data.in_memory import RowsInMemory

_UNNAMED = "<mapping>"
_ROWS_FILE = RunDir(Path()).rows.name
_MAX_SHOWN = 6
# a function that cannot be used leaves open which settings its table has
_NAMES_KIND = ".function", ".program", ".name"
# settings with which earlier versions did not leave out, as None, what is in them
_INNER_TABLES = "data.split.", "study.pruner.", "study.sampler."


def load_study(
    study: Path | str | Mapping[str, Any],
    overrides: str | Sequence[str] | Mapping[str, Any] = (),
    data: Any = None,
    target: str | Sequence[str] | None = None,
) -> StudyConfig:
    """The study of a file or a mapping; see `sweeper.load_study`.

    Raises:
        StudyError, DataError: as described there.
    """
    if isinstance(study, Mapping):
        return study_of_mapping(study, overrides, data, target)
    path = study_path(study)
    for name, value in (("data", data), ("target", target)):
        if value is not None:
            found = f"the study file {path} already names its data"
            hint = "omit it, or pass the settings as a mapping"
            raise StudyError(Problem("", name, found, hint))
    return load(path, override_texts(overrides), IN_PYTHON)


def study_of_mapping(
    mapping: Mapping[str, Any],
    overrides: str | Sequence[str] | Mapping[str, Any] = (),
    data: Any = None,
    target: str | Sequence[str] | None = None,
) -> StudyConfig:
    """The study with the settings of `mapping`, changed by `overrides`.

    If `data` is given, its rows are those of the study: a DataFrame of pandas or Polars with the
    columns `target`, or arrays (X, y).

    Raises:
        StudyError: with all problems of the settings and of the data.
        DataError: only the data is at fault.
    """
    texts = override_texts(overrides)
    raw, omitted, flaws = raw_tables(mapping)
    raw, of_target = _with_target(raw, target)
    flaws += of_target + ([] if data is None else [*_other_sources(raw)])
    problems = [flaw.at(IN_MAPPING) for flaw in flaws]
    if data is not None:
        texts, refused = _without_sources(texts)
        problems += refused
    settings = _with_overrides(raw, texts)
    misspelt = unknown_omitted(omitted, settings)
    problems += [flaw.at(IN_MAPPING) for flaw in misspelt]
    of_data: tuple[Problem, ...] = ()
    rows, found = None, None
    try:
        rows = None if data is None else _rows(settings, data, by_argument=target is not None)
        found = _guess(settings, rows)
    except DataError as error:
        of_data = error.problems
    if data is not None:
        raw, settings = (_with_rows_file(tables, rows) for tables in (raw, settings))
    guessed = None if found is None else _without_named(found, settings)
    full = complete_settings(raw, settings, guessed, omitted, is_in_memory=data is not None)
    config = _parse_or_report(full, texts, problems, of_data)
    if rows is None or found is None or guessed is None:
        return config
    _warn_of_left_out(guessed, settings)
    _warn_of_text_numbers(guessed, settings)
    _warn_of_roles(guessed, settings)
    following = [key for key in OF_ROWS if written(settings, key) is None]
    config = _stratified_if_possible(config, full, settings, texts, guessed)
    configs = [config.with_rows(rows, following)]
    for values, without in _of_earlier_versions(config, settings, found, omitted):
        full = complete_settings(raw, settings, values, without, is_in_memory=True)
        earlier = _stratified_if_possible(_parse(full, texts), full, settings, texts, values)
        configs.append(earlier.with_rows(rows, following))
    return reduce(lambda earlier, later: later.with_earlier(earlier), reversed(configs))


def _of_earlier_versions(
    config: StudyConfig, settings: RawTable, guessed: Guess, omitted: Collection[str]
) -> Iterator[tuple[Guess, Collection[str]]]:
    """What earlier versions guessed, and which settings they left out, the latest one first."""
    folds, replicates = config.study.folds, written(settings, "study.replicates")
    omitted = [key for key in omitted if not key.startswith(_INNER_TABLES)]
    if written(settings, "data.split") is not None:
        omitted.append("data.split")
    yield guessed, omitted
    if folds is not None:  # they were not stratified
        omitted = [*omitted, "data.split.stratify"]
        yield guessed, omitted
    if (folds, replicates) != (None, None) or not isinstance(config.train, SupervisedTable):
        omitted = [*omitted, "study.pruner"]
        yield guessed, omitted
    if guessed.unused:  # categories without rows counted as classes
        yield replace(guessed, values=guessed.values + guessed.unused, rarest=0), omitted


def _stratified_if_possible(
    config: StudyConfig, raw: RawTable, settings: RawTable, texts: Sequence[str], guessed: Guess
) -> StudyConfig:
    """The study of `raw`; not stratified, if that is impossible and not asked for."""
    if guessed.has_each_class_in(split_sizes(config, guessed.rows)):
        return config
    if config.data.split.stratify and written(settings, "data.split.stratify") is None:
        return _parse(with_value(raw, ["data", "split", "stratify"], False), texts)
    return config


def _parse(raw: RawTable, texts: Sequence[str]) -> StudyConfig:
    path = Path.cwd() / _UNNAMED
    return parse(toml_text(_in_order(raw)), path, texts, IN_PYTHON, IN_MAPPING)


def _parse_or_report(
    raw: RawTable,
    texts: Sequence[str],
    problems: Sequence[Problem],
    of_data: Sequence[Problem],
) -> StudyConfig:
    """The study of these settings, unless there are problems of them or of the data.

    Raises:
        StudyError: with these problems, and those that parsing finds.
        DataError: only the data is at fault.
    """
    try:
        config = _parse(raw, texts)
    except StudyError as error:
        no_rows = [*_without_rows(error.problems)]
        known = {problem.key for problem in (*problems, *of_data, *no_rows)}
        unnamed = [problem.key for problem in problems if problem.key.endswith(_NAMES_KIND)]

        def is_consequence(problem: Problem) -> bool:
            if problem.kind is ProblemKind.MISSING:  # it would follow from rows that can be read
                return bool(of_data or no_rows)
            is_unknown = problem.kind is ProblemKind.UNKNOWN_SETTING
            return is_unknown and _is_next_to(problem.key, unnamed)

        others = [
            problem
            for problem in error.problems
            if problem.key not in known and not is_consequence(problem)
        ]
        if of_settings := (*no_rows, *problems, *others):
            raise StudyError((*of_settings, *of_data)) from None
        raise DataError(of_data) from None
    if problems:
        raise StudyError((*problems, *of_data))
    if of_data:
        raise DataError(of_data)
    return config


def _is_next_to(key: str, others: Sequence[str]) -> bool:
    """Whether a setting, or its entry in [search], is in the same table as one of the others."""
    tables = [other.rpartition(".")[0] for other in others]
    return any(key.removeprefix("search.").startswith(f"{table}.") for table in tables)


def _with_target(raw: RawTable, target: str | Sequence[str] | None) -> tuple[RawTable, list[Flaw]]:
    if target is None:
        return raw, []
    table = raw.get("data", {})
    if is_table(table) and "target" in table:
        return raw, [Flaw("data.target", "also given as the argument target", "remove one")]
    _check_names(target)
    plain, _, flaws = raw_tables({"data.target": target})
    return {**raw, "data": {**(table if is_table(table) else {}), **plain.get("data", {})}}, flaws


def _check_names(target: Any) -> None:
    """Refuse the columns themselves in place of their names.

    Raises:
        StudyError: they are neither one text nor several.
    """
    is_column = hasattr(target, "iloc") or hasattr(target, "to_arrow")
    names = target.tolist() if hasattr(target, "tolist") else target
    is_several = isinstance(names, list | tuple)
    if is_column or not (isinstance(names, str) or (is_several and all(map(_is_text, names)))):
        found = f"{type(target).__name__} given as the name of a column"
        raise StudyError(
            Problem("", "target", found, "pass its name as text, or several in a list")
        )


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _other_sources(raw: RawTable) -> Iterator[Flaw]:
    table = raw.get("data", {})
    for name in ("source", "path"):
        if is_table(table) and name in table:
            hint = "remove it, or the argument data"
            yield Flaw(f"data.{name}", "the rows are given as the argument data", hint)


def _without_sources(texts: Sequence[str]) -> tuple[Sequence[str], list[Problem]]:
    """Overrides without the table `data` if they name its source there, and these problems."""
    sources = [*_other_sources(_with_overrides({}, texts))]
    refused = [flaw.at(IN_PYTHON) for flaw in sources]
    others = [one for one in texts if split_override(one)[0].partition(".")[0] != "data"]
    return others if refused else texts, refused


def _with_overrides(raw: RawTable, texts: Sequence[str]) -> RawTable:
    """The settings with overrides."""
    for key, value in read_overrides(texts, IN_PYTHON):
        raw = with_value(raw, key.split("."), value)
    return raw


def _without_rows(problems: Sequence[Problem]) -> Iterator[Problem]:
    """The problem that nothing says where the rows are, from which everything else is guessed."""
    for problem in problems:
        if problem.key == "data.source" and problem.kind is ProblemKind.MISSING:
            yield replace(problem, hint=f"pass the rows as data=..., or {problem.hint}")


def _rows(settings: RawTable, data: Any, *, by_argument: bool) -> RowsInMemory:
    from sweeper.data.in_memory import rows_in_memory

    place = ("", "target") if by_argument else (IN_MAPPING, "data.target")
    return rows_in_memory(data, _targets(settings), place)


def _targets(settings: RawTable) -> list[str]:
    """The columns to predict, as far as the settings say."""
    target = written(settings, "data.target")
    names = cast("list[object]", target if isinstance(target, list) else [target])
    return [name for name in names if isinstance(name, str)]


def _with_rows_file(raw: RawTable, rows: RowsInMemory | None) -> RawTable:
    """The settings with those of the Parquet file that the rows become."""
    table = raw.get("data", {})
    table = table if is_table(table) else {}
    own = {"source": "parquet", "path": _ROWS_FILE}
    others = {name: value for name, value in table.items() if name not in own}
    # rows that cannot be used are reported as such
    targets = ["y"] if rows is None else [*rows.targets]
    others.setdefault("target", targets[0] if len(targets) == 1 else targets)
    return {**raw, "data": {**own, **others}}


def _guess(settings: RawTable, rows: RowsInMemory | None) -> Guess | None:
    """What could be predicted from the rows, or those of a file; None if that is not known."""
    if rows is not None:
        from sweeper.data.guess import guess_rows
        from sweeper.data.raw import RawData

        first, *others = rows.targets
        frame = rows.frame.drop(columns=[name for name in others if name != first])
        whole = RawData(rows.name, "data", frame, ())
        # the user has chosen the columns
        is_chosen = written(settings, "data.drop") is not None
        loss, weight = written(settings, "train.loss"), written(settings, "data.weight")
        guessed = guess_rows(
            whole,
            "parquet",
            rows.name,
            first,
            "target",
            may_be_constant=is_chosen,
            named=_named_columns(settings),
            as_classes=isinstance(loss, str) and TASK_OF_LOSS.get(loss) == "classes",
        )
        # nothing is learnt from weights, so they may be constant
        return replace(guessed, drop={n: why for n, why in guessed.drop.items() if n != weight})
    from sweeper.data.guess import guess

    path, targets = written(settings, "data.path"), _targets(settings)
    is_table_file = written(settings, "data.source") in ("csv", "parquet")
    needs_it = "search" not in settings or any(
        written(settings, key) is None for key in ("train.loss", "study.metric")
    )
    if not (is_table_file and needs_it and isinstance(path, str) and len(targets) == 1):
        return None
    return guess(Path(path), targets[0])


def _named_columns(settings: RawTable) -> list[str]:
    """The columns of rows that the settings give a purpose, besides the targets."""
    categories = written(settings, "data.categorical_columns")
    keys = ("data.weight", "data.split.group", "data.split.time", "data.split.column")
    names = [written(settings, key) for key in keys]
    names += categories if isinstance(categories, list) else []
    return [name for name in names if isinstance(name, str)]


def _without_named(guessed: Guess, settings: RawTable) -> Guess:
    """The guess without the advice to drop columns that the settings name."""
    named = _named_columns(settings)
    return replace(guessed, drop={n: why for n, why in guessed.drop.items() if n not in named})


def _in_order(raw: RawTable) -> RawTable:
    """The tables in the order of a study file."""
    names = ("version", *TABLES, "search")
    ordered = {name: raw[name] for name in names if name in raw}
    return {**ordered, **raw}


def _warn_of_left_out(guessed: Guess, settings: RawTable) -> None:
    """Warn about rows without a target, and columns that no study could learn from."""
    if guessed.is_left_out and written(settings, "data.missing_target") is None:
        found = f"{guessed.gaps} of {guessed.rows + guessed.gaps} rows have no target"
        hint = "'data.missing_target': 'drop' leaves them out without a warning"
        warn_caller(UserWarning(f"{found} and are left out; {hint}"))
    if not guessed.drop or written(settings, "data.drop") is not None:
        return
    reasons = [f"'{name}' ({why})" for name, why in guessed.drop.items()]
    shown = listed(
        [*reasons[:_MAX_SHOWN], *(f"{n} more" for n in [len(reasons) - _MAX_SHOWN] if n > 0)]
    )
    said = f"columns left out: {shown}; 'data.drop': [] keeps them"
    warn_caller(UserWarning(said))


def _warn_of_roles(guessed: Guess, settings: RawTable) -> None:
    """Warn about features that may be meant to split or weigh the rows, unless features are set."""
    if written(settings, "data.drop") is not None:
        return
    roles = (
        (guessed.split_column, "data.split.column", "how to split the rows"),
        (guessed.weight, "data.weight", "how much a row counts"),
    )
    for name, key, meaning in roles:
        if name and name not in _named_columns(settings):
            hint = f"if it says {meaning}, set '{key}': '{name}'"
            warn_caller(UserWarning(f"the column '{name}' is a feature; {hint}"))


def _warn_of_text_numbers(guessed: Guess, settings: RawTable) -> None:
    """Warn about a target of numbers written as text, unless classes are asked for."""
    categories = written(settings, "data.categorical_columns")
    is_listed = isinstance(categories, list) and guessed.target in categories
    if not guessed.as_numbers or is_listed or written(settings, "train.loss") is not None:
        return
    taken = f"the target '{guessed.target}' is taken as {guessed.values} classes"
    warn_caller(UserWarning(f"{taken}, but it {guessed.as_numbers}"))
