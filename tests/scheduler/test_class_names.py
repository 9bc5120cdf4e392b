"""A class is named by the searched settings that it compiles in."""

from __future__ import annotations

import json

import pytest

from sweeper.config.search import CategoricalSearch, IntSearch
from sweeper.scheduler.class_names import class_name
from sweeper.scheduler.classes import ProgramClass, Strategy

SEARCH = {
    "model.depth": IntSearch(type="int", low=1, high=4),
    "model.width": IntSearch(type="int", low=16, high=128, base=2),
    "model.activation": CategoricalSearch(type="categorical", choices=["relu", "tanh"]),
}
SMALL = {"model.depth": 2, "model.width": 64, "model.layer_norm": False, "train.batch_size": 64}
LARGE = {**SMALL, "model.depth": 3, "model.width": 128}


def program(strategy: Strategy, settings: object, **more: object) -> ProgramClass:
    return ProgramClass("0f", json.dumps(settings), strategy, "map", 4, "float32", **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("named", "known"),
    [
        ("exact depth=2 width=64", program("exact", SMALL)),
        (
            "process depth=2 width=64 activation=tanh",
            program("process", SMALL | {"model.activation": "tanh"}),
        ),
        # set at run time, so not part of the class
        (
            "exact depth=2 width=64",
            program("exact", SMALL | {"model.activation": ["relu", "tanh"]}),
        ),
        (
            "padded depth<=4 width<=64 activation=relu",
            program("padded", {"model.activation": "relu"}, padded_width=64, padded_depth=4),
        ),
        ("padded a<=64x3 b<=32x1", program("padded", {}, padded_parts="a=64x3,b=32x1")),
        ("switch of 2 structures depth=2..3 width=64..128", program("switch", [SMALL, LARGE])),
        (
            "switch of 2 structures depth=2 width=64 activation=relu|tanh",
            program("switch", [SMALL | {"model.activation": name} for name in ("relu", "tanh")]),
        ),
    ],
)
def test_a_class_is_named_by_what_distinguishes_it(named: str, known: ProgramClass) -> None:
    assert class_name(known, SEARCH) == named
