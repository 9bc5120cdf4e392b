"""Exports in other formats are compared with their model; that they predict is in integrations."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import pytest

from sweeper.errors import SetupError
from sweeper.export import stablehlo
from sweeper.export.card import with_use
from sweeper.export.conversion import (
    Checked,
    matrix_name,
    refuse_different,
    relative_difference,
)
from sweeper.export.formats import export_as


def test_a_missing_library_is_named_with_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    monkeypatch.delitem(sys.modules, "sweeper.export.onnx_model", raising=False)
    monkeypatch.setattr(stablehlo, "find_spec", lambda _: None)

    with pytest.raises(SetupError, match=r"onnx is not installed.*'sweeper-jax\[onnx\]'"):
        export_as("onnx", tmp_path, None, 0, tmp_path / "model")
    with pytest.raises(SetupError, match=r"flatbuffers is not installed.*sweeper-jax\[stablehlo\]"):
        export_as("stablehlo", tmp_path, None, 0, tmp_path / "model")

    assert [*tmp_path.iterdir()] == []


@pytest.mark.parametrize(
    ("found", "wanted", "difference"),
    [
        ([1.0, np.nan, np.inf], [1.0, np.nan, np.inf], 0.0),
        ([100.0, 1.5], [100.0, 1.0], 0.5 / 50.5),  # relative to the typical size
        ([11.0, 1.0, 1.0], [10.0, 1.0, 1.0], 0.1),
        ([np.nan, 1.0], [1.0, 1.0], math.inf),
        ([np.inf, 1.0], [-np.inf, 1.0], math.inf),
        ([[1.0]], [1.0], math.inf),
    ],
)
def test_differences_are_relative_to_the_size_of_predictions(
    found: list[float], wanted: list[float], difference: float
) -> None:
    assert relative_difference(np.array(found), np.array(wanted)) == pytest.approx(difference)


def test_small_probabilities_may_differ_by_the_rounding_of_logits() -> None:
    found, wanted = np.array([[1e-7, 0.5]]), np.array([[2e-7, 0.50001]])
    assert relative_difference(found, wanted) == pytest.approx(0.5)
    assert relative_difference(found, wanted, 1.0) == pytest.approx(1e-5)


def test_a_file_that_predicts_otherwise_is_refused() -> None:
    refuse_different(1e-5, "model.onnx")
    for difference in (2e-5, math.inf, math.nan):
        with pytest.raises(SetupError, match=r"model\.onnx: its predictions differ"):
            refuse_different(difference, "model.onnx")


def test_what_was_compared_is_said() -> None:
    checked = Checked(1, 0.0, ""), Checked(9, 2e-7, ""), Checked(9, 1e-6, "", of_probabilities=True)
    assert [*map(str, checked)] == [
        "on 1 row it predicts exactly what the model predicts",
        "on 9 rows its predictions differ from those of the model by at most 2e-07, relative to "
        "their size",
        "on 9 rows its probabilities differ from those of the model by at most 1e-06",
    ]


def test_the_card_of_another_format_only_says_otherwise_how_to_use_it() -> None:
    card = "# Trial 1\n\n## How to use it\n\nBefore.\n\n## Provenance\n\nPackages.\n"
    assert with_use(card, "After.") == card.replace("Before", "After")
    without_more = card.partition("\n## Provenance")[0]
    assert with_use(without_more, "After.") == without_more.replace("Before", "After")


@pytest.mark.parametrize(
    ("source", "columns", "name"),
    [
        ("npz", ("x_0", "x_1"), "x"),
        ("python", ("x_0", "x_1"), "x"),
        ("python", ("x_0", "age"), ""),
        ("python", ("x_0",), ""),
        ("csv", ("x_0", "x_1"), ""),
    ],
)
def test_rows_of_one_array_are_one_input(source: str, columns: tuple[str, ...], name: str) -> None:
    transform = {
        "columns": columns,
        "numbers": columns,
        "fills": [0.0] * len(columns),
        "categories": [],
        "one_hot": True,
        "classes": [],
        "scaling": None,
        "place_scaling": None,
    }
    info = {"settings": {"data": {"source": source}}, "data": {"transform": transform}}
    assert matrix_name(info) == name
