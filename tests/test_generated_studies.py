"""Any valid study file goes through `validate` and `plan`; a broken one is refused by its line."""

from __future__ import annotations

import os
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import pytest
import sklearn
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis
from hypothesis import strategies as st

from sweeper import api
from sweeper.config import parse
from sweeper.config.draft import DISCRIMINATORS
from sweeper.config.writing import toml_text
from sweeper.errors import Problem, StudyError, SweeperError
from tests.config.schema_checker import faults
from tests.config.studies import SCHEMA, Study, studies, written

SHARE_PLANNED = 0.8  # at least, of what is generated: the rest is refused in words
OPTUNAS = ("study.sampler", "study.pruner")  # which have options of Optuna's beside their own


def some(count: int) -> Callable[..., Any]:
    """How many files to try, the same ones each time."""
    return hypothesis(
        max_examples=count,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Path]:
    """A directory to plan studies in; what planning sets for the whole process is put back."""
    assert sklearn.__version__  # where it is imported already, data are prepared in this process
    names = ("jax_enable_x64", "jax_compilation_cache_dir")
    before = {name: getattr(jax.config, name) for name in names}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        for name in ("XLA_PYTHON_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_PREALLOCATE"):
            patch.setenv(name, os.environ.get(name, ""))
            patch.delenv(name)
        yield written(tmp_path)
    for name, value in before.items():
        jax.config.update(name, value)


def told_well(refusal: SweeperError) -> bool:
    """Whether every problem names its place, what was found there and what to write."""
    return all(p.where and p.key and p.found and p.mend for p in refusal.problems)


def plan_all(path: Path, count: int) -> Counter[str]:
    """Validate and plan so many studies; how many were planned, and how many refused."""
    came_to: Counter[str] = Counter()

    @some(count)
    @given(studies())
    def each(study: Study) -> None:
        try:
            config = parse(toml_text(study), path)
            assert list(faults(study, SCHEMA)) == []
            checked, preview = api.check(config), api.plan(config).as_dict()
        except SweeperError as refusal:
            assert told_well(refusal), str(refusal)
            came_to["refused"] += 1
            return
        assert checked.n_trials == preview["n_trials"]
        asked = [n for bucket in preview["first_round"]["buckets"] for n in bucket["trials"]]
        assert sorted(asked) == list(range(min(checked.n_trials, config.schedule.parallel)))
        came_to["planned"] += 1

    each()
    return came_to


def test_valid_studies_are_planned(here: Path) -> None:
    came_to = plan_all(here, 200)
    assert came_to["planned"] >= SHARE_PLANNED * came_to.total()


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_two_thousand_valid_studies_are_planned(here: Path) -> None:
    came_to = plan_all(here, round(2000 / SHARE_PLANNED))
    assert came_to["planned"] >= 2000


Path_ = tuple[str, ...]


@dataclass(frozen=True)
class Broken:
    """A study with one thing wrong: at which key it is told, and on which line."""

    text: str
    key: str
    line: int


def leaves(table: Mapping[str, Any], path: Path_ = ()) -> Iterator[Path_]:
    """The path of every setting, those of [search] left out."""
    for name, value in table.items():
        if isinstance(value, Mapping):
            if name != "search":
                yield from leaves(value, (*path, name))
        elif path:
            yield (*path, name)


def lines(text: str) -> dict[str, int]:
    """The line of each table and setting of a file that `toml_text` wrote."""
    found: dict[str, int] = {}
    table = ""
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("["):
            table = line.strip("[]").replace('"', "")
            found[table] = number
        elif line:
            name = line.partition(" = ")[0]
            found[f"{table}.{name}".strip(".")] = number
    return found


def put(study: Study, path: Path_, value: object) -> Study:
    """The study with another value at `path`, in front of the other settings of its table."""
    study = deepcopy(study)
    inner = study
    for name in path[:-1]:
        inner = inner.setdefault(name, {})
    rest = {name: kept for name, kept in inner.items() if name != path[-1]}
    inner.clear()
    inner.update({path[-1]: value, **rest})
    return study


@st.composite
def broken_studies(draw: st.DrawFn) -> Broken:
    """A valid study in which one thing is broken."""
    study = draw(studies())
    break_it = draw(st.sampled_from([wrong_type, unknown, missing, unknown_table, bad_entry]))
    study, key, at = break_it(draw, study)
    text = toml_text(study)
    return Broken(text, key, lines(text)[at])


def wrong_type(draw: st.DrawFn, study: Study) -> tuple[Study, str, str]:
    """An array where no setting takes one, or a number where an array is meant."""
    path = draw(st.sampled_from(sorted(leaves(study))))
    was = study
    for name in path:
        was = was[name]
    key = ".".join(path)
    return put(study, path, 5.5 if isinstance(was, list) else [[]]), key, key


def unknown(draw: st.DrawFn, study: Study) -> tuple[Study, str, str]:
    """A setting that there is not."""
    tables = {".".join(path[:-1]) for path in leaves(study)} - {*OPTUNAS}
    if study["model"].get("kind") == "python":
        tables -= {"model"}  # whose own function may take it
    key = f"{draw(st.sampled_from(sorted(tables)))}.nonsuch"
    return put(study, tuple(key.split(".")), draw(st.sampled_from([1, "text", True]))), key, key


def missing(draw: st.DrawFn, study: Study) -> tuple[Study, str, str]:
    """A setting without which there is no study."""
    needed = [f"{table}.{by}" for table, by in DISCRIMINATORS.items() if table != "model"]
    needed += ["study.name", "study.direction", "study.n_trials", "train.loss"]
    key = draw(st.sampled_from(needed))
    table, _, name = key.partition(".")
    rest = {setting: value for setting, value in study[table].items() if setting != name}
    study = {**study, table: {**rest, "nothing": None}}
    has_header = not rest or any(not isinstance(value, dict) for value in rest.values())
    return study, key, table if has_header else "version"


def unknown_table(draw: st.DrawFn, study: Study) -> tuple[Study, str, str]:
    """A table that there is not."""
    name = draw(st.sampled_from(["nonsuch", "optimiser", "serach"]))
    return {**study, name: {"lr": 1e-3}}, name, name


def bad_entry(draw: st.DrawFn, study: Study) -> tuple[Study, str, str]:
    """A search of what cannot be searched, or by an entry that draws nothing."""
    setting, entry, told = draw(
        st.sampled_from(
            [
                ("train.nonsuch", {"type": "int", "low": 1, "high": 2}, ""),
                ("train.loss", {"type": "categorical", "choices": ["mse"]}, ""),
                ("schedule.parallel", {"type": "int", "low": 1, "high": 2}, ""),
                ("train.epochs", {"type": "itn", "low": 1, "high": 2}, ".type"),
                ("train.epochs", {"type": "int", "low": 3, "high": 2}, ".low"),
                ("train.epochs", {"type": "int", "low": 0, "high": 2}, ".low"),
                ("train.epochs", {"type": "int", "low": 1, "high": 2, "setp": 1}, ".setp"),
                ("train.batch_size", {"type": "categorical", "choices": []}, ".choices"),
            ]
        )
    )
    key = f"search.{setting}"
    study = {**study, "search": dict(study.get("search", {}))}
    return put(study, tuple(key.split(".")), entry), key + told, key + told


def refuse_all(path: Path, count: int) -> None:
    """Break so many studies; each is refused at its line, and at no wrong one."""

    @some(count)
    @given(broken_studies())
    def each(broken: Broken) -> None:
        tomllib.loads(broken.text)
        with pytest.raises(StudyError) as refusal:
            parse(broken.text, path)
        assert told_well(refusal.value), str(refusal.value)
        told = {(problem.where, problem.key) for problem in refusal.value.problems}
        assert told & places(broken), broken.text
        assert all(is_at_its_line(problem, broken.text) for problem in refusal.value.problems)

    each()


def places(broken: Broken) -> set[tuple[str, str]]:
    """Where the problem may be told: at its key, or at the setting that is written as a table."""
    found = {(f"study.toml:{broken.line}", broken.key)}
    for key, line in lines(broken.text).items():
        if key.count(".") and broken.key.startswith(f"{key}."):
            found.add((f"study.toml:{line}", key))
    return found


def is_at_its_line(problem: Problem, text: str) -> bool:
    """Whether a problem is told at the line of its key, where the file has one."""
    line = lines(text).get(problem.key)
    return line is None or problem.where == f"study.toml:{line}"


def test_a_broken_study_is_refused_at_its_line(tmp_path: Path) -> None:
    refuse_all(written(tmp_path), 500)


@pytest.mark.slow
def test_two_thousand_broken_studies_are_refused_at_their_line(tmp_path: Path) -> None:
    refuse_all(written(tmp_path), 2000)
