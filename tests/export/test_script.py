"""Exported `load.py` prepares rows as `sweeper.load` does, whatever the transformation."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtri

from sweeper.data.transform import Category, Quantiles, Scaling, Transform
from sweeper.export.script import _FEATURES, _RANKED, _SCALED, _source_of

LEARNT = Transform(
    columns=("grade", "when"),
    numbers=("grade",),
    fills=(0.3,),
    scaling=Quantiles(((0.1, 0.1, 0.2, 0.2, 0.3, 0.4, 0.6, 0.6),)),
    categories=(Category("when", ("2026-01-31 10:00:00", "2026-02-01 00:00:00")),),
    one_hot=True,
    place_scaling=None,
    classes=(),
    edition=6,
    words=("", "-99.9"),
)
ROWS = pd.DataFrame({"grade": [0.1, 0.2, 0.6], "when": ["2026-01-31 10:00:00"] * 3})


def alone(learnt: Transform, low: float = -2.0, high: float = 2.0) -> Callable[[Any], Any]:
    """The function `features` of `load.py` for a transformation of numbers from `low` to `high`."""
    more = {"dtype": "float32", "ranges": {"low": [low], "high": [high]}, "fold": None}
    data = json.loads(json.dumps({**asdict(learnt), **more}))
    names: dict[str, Any] = {"np": np, "warnings": warnings, "ndtri": ndtri, "DATA": data}
    scaled = _SCALED if isinstance(learnt.scaling, Scaling) else _RANKED
    exec("\n\n".join([_source_of("sweeper.data", "identity.py"), scaled, _FEATURES]), names)
    return names["features"]


def both(learnt: Transform) -> Mapping[str, Callable[[Any], Any]]:
    """The features of `sweeper.load` and of `load.py`."""
    return {"sweeper": lambda rows: learnt.of(rows, precision="float32"), "alone": alone(learnt)}


def test_numbers_too_large_for_the_precision_are_refused_though_their_ranks_are_not() -> None:
    for features in both(LEARNT).values():
        with pytest.raises(ValueError, match="too large for float32"):
            features(ROWS.assign(grade=1e300))


@pytest.mark.parametrize("unit", ["s", "us", "ns"])
def test_times_are_the_categories_that_they_are_written_as(unit: str) -> None:
    rows = ROWS.assign(when=np.array(["2026-01-31T10:00"] * 3, f"datetime64[{unit}]"))
    for name, features in both(LEARNT).items():
        assert features(rows)[:, 1:].tolist() == [[1, 0]] * 3, name


@pytest.mark.parametrize("texts", [["1.250", "0,1", "0,2"], ["1.250"] * 3, ["0.1", "", "0,2"]])
def test_a_point_among_decimal_commas_is_refused(texts: list[str]) -> None:
    for features in both(replace(LEARNT, decimal=",")).values():
        with pytest.raises(ValueError, match="is not a number with the decimal separator ','"):
            features(ROWS.assign(grade=texts))
        assert features(ROWS.assign(grade=["0,1", "0,2", "0,6"])).shape == (3, 3)
