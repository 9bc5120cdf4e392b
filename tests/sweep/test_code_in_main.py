"""An edited function in `__main__`, as in a notebook, is detected like one in a file."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from sweeper.config.user_source import changed_names, incomparable, source_digests

CELL = """\
import equinox as eqx, jax

WIDTH = 8


class Net(eqx.Module):
    w: jax.Array

    def __call__(self, x):
        return self.w @ x


def scaled(w):
    return w * 2.0


def build(in_size, out_size, key):
    return Net(scaled(jax.random.normal(key, (WIDTH, in_size))))


def unrelated():
    return 1
"""
EDITS = {
    "the function": (
        "def build(in_size, out_size, key):",
        "def build(in_size, out_size, key, p=1):",
    ),
    "a helper": ("w * 2.0", "w * 3.0"),
    "a method of a class": ("self.w @ x", "self.w @ x + 1"),
    "a field of a class": ("w: jax.Array", "w: jax.Array = 1"),
    "a constant": ("WIDTH = 8", "WIDTH = 9"),
}


def digests(cell: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The digests of `__main__:build` after a cell without a file has run."""
    main = ModuleType("__main__")
    exec(compile(cell, "<cell>", "exec"), vars(main))
    monkeypatch.setitem(sys.modules, "__main__", main)
    return source_digests("__main__:build", Path.cwd())


def test_everything_that_a_function_of_main_refers_to_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = digests(CELL, monkeypatch)

    assert [*found] == [f"__main__.{name}" for name in ("Net", "WIDTH", "build", "scaled")]
    assert digests(CELL.replace("return 1", "return 2"), monkeypatch) == found


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_changes_the_digest(edit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = digests(CELL, monkeypatch)
    assert digests(CELL.replace(*EDITS[edit]), monkeypatch) != before


VALUES = """\
import dataclasses, functools, types
import jax, jax.numpy as jnp, numpy as np, pandas as pd


class Config:
    table = {"a": 1}


@dataclasses.dataclass
class Point:
    x: object = 1
    factory: list = dataclasses.field(default_factory=lambda: [1])


def scaled(by):
    def inner(w):
        return by * w

    return inner


def defaults(w, by=(1.0, 2.0)):
    return w


class Module:
    @property
    def value(self):
        return scale * SCALE

    def run(self, rate={"lr": 1}):
        return rate


scale = 1
SCALE = 2
value = 1


def build():
    return USED, Config, Point, defaults, Module.run, helper.used
"""
CHANGES = {
    "an item of a dict": ("{'a': {'b': 1}}", "{'a': {'b': 2}}"),
    "the order of a dict": ("{'a': 1, 'b': 2}", "{'b': 2, 'a': 1}"),
    "an item of a list": ("[1, [2]]", "[1, [3]]"),
    "an element of a set": ("{'a', 'b'}", "{'a', 'c'}"),
    "an element of a tuple in a tuple": ("(1, ([2],))", "(1, ([3],))"),
    "an array": ("np.arange(5000)", "np.arange(5000)[::-1]"),
    "the type of an array": ("np.zeros(2)", "np.zeros(2, 'float32')"),
    "an array of objects": ("np.array([1, 'a'], object)", "np.array([1, 'b'], object)"),
    "an array of JAX": ("jnp.ones(3)", "jnp.zeros(3)"),
    "a key of JAX": ("jax.random.key(0)", "jax.random.key(1)"),
    "a dataclass": ("Point(1)", "Point([1])"),
    "a namespace": ("types.SimpleNamespace(a=1)", "types.SimpleNamespace(a=2)"),
    "a partial function": ("functools.partial(max, 1)", "functools.partial(max, 2)"),
    "a captured value": ("scaled(1)", "scaled(2)"),
    "a captured value of a transformed function": ("jax.jit(scaled(1))", "jax.jit(scaled(2))"),
    "a function in a list": ("[lambda w: w]", "[lambda w: 2 * w]"),
    "a table": ("pd.DataFrame({'a': [1]})", "pd.DataFrame({'a': [2]})"),
    "a pattern": ("__import__('re').compile('a')", "__import__('re').compile('b')"),
    "a function of NumPy": ("np.sin", "np.cos"),
    "None": ("None", "[]"),
}
EXECUTED = {
    "an attribute of a class": "Config.table['a'] = 2",
    "a default argument": "defaults.__defaults__ = ((1.0, 3.0),)",
    "a default argument of a method": "Module.run.__defaults__[0]['lr'] = 2",
    "a default factory": "Point.__dataclass_fields__['factory'].default_factory = tuple",
    "a plain value that only a property uses": "SCALE = 3",
}


def of_values(used: str, monkeypatch: pytest.MonkeyPatch, more: str = "") -> dict[str, str]:
    """The digests of `__main__:build`, which uses the value `used`."""
    return digests(f"{VALUES}\nUSED = {used}\n{more}\n", monkeypatch)


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_value_changes_the_digest(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before, after = (of_values(used, monkeypatch) for used in CHANGES[change])

    assert of_values(CHANGES[change][0], monkeypatch) == before
    assert {name for name in before if before[name] != after.get(name)} | {
        name for name in after if name not in before
    } <= {"__main__.USED", "__main__.USED (value)", USED_CAPTURED}
    assert before != after


USED_CAPTURED = "__main__.USED (defaults and captured values)"


@pytest.mark.parametrize("change", EXECUTED)
def test_a_changed_part_changes_the_digest(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = of_values("1", monkeypatch)
    assert of_values("1", monkeypatch, EXECUTED[change]) != before


def test_values_that_are_not_used_have_no_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    found = of_values("[1]", monkeypatch, "run = [1]\nused = [2]\nw = [3]")
    assert not {"__main__.run (value)", "__main__.used (value)", "__main__.w (value)"} & {*found}


def test_values_without_content_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    cyclic = "USED = []\nUSED.append(USED)"
    assert "__main__.USED (value)" in of_values("1", monkeypatch, cyclic)

    of_values("[__import__('threading').Lock()]", monkeypatch)
    assert incomparable("__main__:build") == ["USED"]


def test_modules_next_to_the_study_are_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "helper_of_main.py").write_text("def used(): ...\n")
    monkeypatch.syspath_prepend(tmp_path)
    of_values("1", monkeypatch, "import helper_of_main as helper")
    assert "helper_of_main.py" in source_digests("__main__:build", tmp_path)


def test_studies_of_edition_1_resume_without_digests_of_values() -> None:
    before = {"__main__.build": "a", "__main__.WIDTH": "b", "__main__.ACTS": "with an address"}
    now = {"__main__.build": "a", "__main__.WIDTH": "b", "__main__.ACTS (value)": "c"}
    edited = {**now, "__main__.WIDTH": "c"}

    assert changed_names(before, now, 1, in_main=True) == []
    assert changed_names(before, now, 2, in_main=True) == ["__main__.ACTS", "__main__.ACTS (value)"]
    assert changed_names(before, edited, 1, in_main=True) == ["__main__.WIDTH"]
