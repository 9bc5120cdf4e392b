"""User-defined functions are found by name, and errors say why one is not."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from sweeper.config import user_code
from sweeper.config.user_code import LoadError, first_on_path, load_function
from tests.command_line import STUDY
from tests.in_process import study_in, trained


def test_a_function_of_another_main_is_not_called_missing(tmp_path: Path) -> None:
    with pytest.raises(LoadError) as raised:
        load_function("__main__:build_of_a_notebook", tmp_path)
    assert str(raised.value).startswith(
        "this program does not define '__main__:build_of_a_notebook'; run the command in the "
        'notebook or script that defines it, such as sweeper.command("export", "runs/digits")'
    )


def test_a_syntax_error_names_its_place_once(tmp_path: Path) -> None:
    (tmp_path / "misspelt.py").write_text("def f(:\n", encoding="utf-8")
    with pytest.raises(LoadError) as raised:
        load_function("misspelt:f", tmp_path)
    assert raised.value.found.count("misspelt.py, line 1)") == 1


@pytest.mark.parametrize(("library", "name"), [("flax", "flax.linen"), ("haiku", "haiku")])
def test_the_extra_of_a_missing_library_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: str, name: str
) -> None:
    (tmp_path / f"nets_of_{library}.py").write_text(f"import {name}\n", encoding="utf-8")
    monkeypatch.setitem(sys.modules, library, None)

    with pytest.raises(LoadError, match=r"python -m pip install 'sweeper-jax\[flax\]'"):
        load_function(f"nets_of_{library}:build", tmp_path)


def test_an_import_in_another_thread_sees_every_directory(tmp_path: Path) -> None:
    before = [*sys.path]
    with first_on_path(tmp_path):
        assert sys.path == [str(tmp_path), *before]
        searched = iter(sys.path)  # as an import that has begun
        next(searched)
    assert [*searched] == before
    assert sys.path == before


def test_a_study_without_user_code_imports_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even from a directory named like this package, which an import would find first."""
    (tmp_path / "sweeper" / "models").mkdir(parents=True)
    for module in ("__init__", "models/__init__", "models/adapters"):
        (tmp_path / "sweeper" / f"{module}.py").write_text("raise OSError", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    looked_up: list[str] = []
    monkeypatch.setattr(user_code, "_module", lambda name, directory: looked_up.append(name))

    found = trained(study_in(tmp_path, STUDY, "study.n_trials=1", "train.epochs=1"))

    assert [*found.trials().state] == ["COMPLETE"]
    assert looked_up == []
