"""An edit of a function in `__main__`, as in a notebook, is known like one in a file."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from sweeper.user_source import source_digests

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
    """Those of `__main__:build` after a cell without a file has run."""
    main = ModuleType("__main__")
    exec(compile(cell, "<cell>", "exec"), vars(main))
    monkeypatch.setitem(sys.modules, "__main__", main)
    return source_digests("__main__:build", Path.cwd())


def test_all_that_a_function_of_main_refers_to_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    found = digests(CELL, monkeypatch)

    assert [*found] == [f"__main__.{name}" for name in ("Net", "WIDTH", "build", "scaled")]
    assert digests(CELL.replace("return 1", "return 2"), monkeypatch) == found


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_gives_another_digest(edit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    before = digests(CELL, monkeypatch)
    assert digests(CELL.replace(*EDITS[edit]), monkeypatch) != before
