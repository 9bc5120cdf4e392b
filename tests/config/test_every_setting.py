"""Every setting has a description, a valid example, a line in the guide, and a test."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from sweeper.config import StudyConfig
from sweeper.config.model import PARTS, MlpTable, PartsTable, PythonTable
from sweeper.config.optimizer import OptimizersTable
from sweeper.config.reading import named_in, read_value
from sweeper.config.space import ENTRIES
from sweeper.config.table import Table
from sweeper.config.tables import TABLES, Variants
from sweeper.config.trial import TRIAL, TrialTable
from tests.documents import GUIDES

TESTS = Path(__file__).parents[1]
SECTION = GUIDES["settings"].partition("<!-- settings: ")[2].partition("<!-- settings end")[0]
LINES = SECTION.splitlines()


@dataclass(frozen=True)
class Setting:
    """The setting `name` of `table`, under its dotted key."""

    key: str
    table: type[Table]
    name: str

    def __str__(self) -> str:
        return f"{self.table.__name__}-{self.key}"


def tables_in(annotation: Any) -> Iterator[type[Table]]:
    """The tables that an annotation names, directly or in a union."""
    if annotation is TrialTable:
        yield TRIAL
    elif isinstance(annotation, type) and issubclass(annotation, Table):
        yield annotation
    elif get_origin(annotation) is Annotated:
        yield from tables_in(get_args(annotation)[0])
    elif get_origin(annotation) in (Union, UnionType, dict):
        kinds = [kind for kind in get_args(annotation) if kind not in (NoneType, str)]
        tables = [[*tables_in(kind)] for kind in kinds]
        if all(tables):  # else it is a setting that can be written as a table, too
            yield from chain(*tables)


def settings_of(key: str, table: type[Table]) -> Iterator[Setting]:
    for name, field in table.model_fields.items():
        inner = [*tables_in(field.annotation)]
        under = f"{key}.{name}.NAME" if named_in(field.annotation) else f"{key}.{name}"
        for one in inner:
            yield from settings_of(under, one)
        if not inner:
            yield Setting(f"{key}.{name}", table, name)


def is_wiring(setting: Setting) -> bool:
    """Whether a part of a model has it, but a model of one part does not."""
    return not any(setting.name in table.model_fields for table in (MlpTable, PythonTable))


def settings() -> Iterator[Setting]:
    """The settings of a whole study, in the class for a study file."""
    for part in PARTS.values():
        yield from (setting for setting in settings_of("model.NAME", part) if is_wiring(setting))
    for name, field in StudyConfig.model_fields.items():
        for table in tables_in(field.annotation):
            yield from settings_of("search.KEY" if name == "search" else name, table)


SETTINGS = [*settings()]
KEYS = sorted({setting.key for setting in SETTINGS})


def cells(key: str) -> list[list[str]]:
    """The lines of the guide's tables for a setting, in cells."""
    lines = [line for line in LINES if line.startswith(f"| `{key}` |")]
    return [re.split(r" (?<!\\)\| ", line.strip("| ")) for line in lines]


def test_no_table_is_forgotten() -> None:
    kinds = [
        table
        for kind in TABLES.values()
        for table in (
            [*kind.of.values(), kind.user_defined] if isinstance(kind, Variants) else [kind]
        )
    ]
    read = {table for table in kinds if table is not None} | set(ENTRIES.values())
    mixed = {kind.mixed for kind in TABLES.values() if isinstance(kind, Variants)}
    assert read == {setting.table for setting in SETTINGS} & read
    fields = [field.annotation for field in StudyConfig.model_fields.values()]
    named = {PartsTable, OptimizersTable}  # which only hold tables, under user-chosen names
    assert {table for found in fields for table in tables_in(found)} - mixed - named == read


def test_each_setting_is_described_with_an_example_in_the_guide() -> None:
    def is_described(setting: Setting) -> bool:
        lines = cells(setting.key)
        is_whole = all(all(line[1:]) and re.fullmatch("`.+`", line[3]) for line in lines)
        has_description = bool(setting.table.model_fields[setting.name].description)
        return bool(lines) and is_whole and has_description

    # write Field(..., description=...), then run scripts/settings
    assert [str(setting) for setting in SETTINGS if not is_described(setting)] == []


def test_the_guide_says_whether_a_setting_is_an_array_or_a_table_of_values() -> None:
    takes = {key: [line[1] for line in cells(key)] for key in KEYS}
    values = "boolean, integer, float or string"
    assert takes["data.args"] == [f"table of {values}"]
    assert takes["search.KEY.choices"] == [f"array of {values}"]
    assert takes["study.enqueue"] == [f"array of table of {values}"]


def test_each_setting_takes_its_own_examples() -> None:
    examples = [
        (setting, example)
        for setting in SETTINGS
        for example in setting.table.model_fields[setting.name].examples or ()
    ]
    read = [(one, read_value(one.table, one.name, example, "")[1]) for one, example in examples]
    assert examples
    assert [(str(setting), problems) for setting, problems in read if problems] == []


def test_each_example_in_the_guide_is_accepted() -> None:
    """In at least one of the tables, if several kinds have the setting."""
    tables: dict[str, list[tuple[type[Table], str]]] = {key: [] for key in KEYS}
    for setting in SETTINGS:
        tables[setting.key].append((setting.table, setting.name))

    def is_accepted(key: str, written: str) -> bool:
        (example,) = tomllib.loads(f"example = {written.strip('`')}").values()
        return [] in [read_value(table, name, example, "")[1] for table, name in tables[key]]

    examples = [(key, line[3]) for key in KEYS for line in cells(key)]
    assert [(key, written) for key, written in examples if not is_accepted(key, written)] == []


@cache
def texts() -> str:
    """Every string in the tests, except docstrings."""
    found: list[str] = []
    for path in sorted(TESTS.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        found += [
            node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in said
        ]
    return "\n".join(found)


def test_each_setting_is_in_a_test() -> None:
    """By its dotted key, or in TOML: `name = value`."""

    def is_tested(key: str) -> bool:
        name = re.escape(key.rpartition(".")[2])
        dotted = rf"(?<![\w.]){re.escape(key)}(?![\w.])"
        spellings = (dotted, rf"(?<![\w.-]){name} *= *[\[{{\"'\w.-]")
        return any(re.search(spelling, texts()) for spelling in spellings)

    assert [key for key in KEYS if not is_tested(key)] == []
