"""The structures of a search are counted by the differences between its trials."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from sweeper.config import StudyConfig, parse
from tests.config.conftest import VALID

HEAD = VALID.partition("[search]")[0]
NORM = 'model.layer_norm = { type = "categorical", choices = [false, true] }\n'
SEARCHES = {
    "a width of some trials": NORM
    + 'model.width = { type = "int", low = 8, high = 12, when = { "model.layer_norm" = true } }\n',
    "a width that others have, too": NORM
    + 'model.width = { type = "int", low = 10, high = 12, when = { "model.layer_norm" = true } }\n',
    "next to what splits nothing": 'train.epochs = { type = "int", low = 1, high = 3 }\n'
    'model.depth = { type = "int", low = 1, high = 4, when = { "train.epochs" = [1, 2] } }\n',
    "one next to another": NORM
    + 'model.depth = { type = "int", low = 1, high = 4, when = { "model.layer_norm" = false } }\n'
    'model.activation.type = "categorical"\nmodel.activation.choices = ["relu", "tanh"]\n'
    'model.activation.when = { "model.depth" = [2, 3] }\n',
    "keys of one optimizer": 'optimizer.name.type = "categorical"\n'
    'optimizer.name.choices = ["adam", "sgd", "adafactor"]\n'
    'optimizer.nesterov = { type = "categorical", choices = [false, true] }\n'
    'optimizer.min_dim_size_to_factor = { type = "int", low = 2, high = 8, base = 2 }\n',
}


def differing(config: StudyConfig) -> int:
    """How many structures all possible trials have."""
    columns = config.columns
    drawn = product(*(entry.values() or () for entry in columns.values()))
    params = (config.active(dict(zip(columns, values, strict=True))) for values in drawn)
    return len({tuple(config.settings_of(one).structure().items()) for one in params})


@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES)
def test_unused_settings_add_no_structures(search: str) -> None:
    config = parse(f"{HEAD}[search]\n{search}", Path("study.toml"))
    assert config.n_structures == differing(config)


def test_a_kind_of_model_that_some_trials_keep_counts() -> None:
    own = HEAD.replace('kind = "mlp"', 'kind = "mlp"\nfunction = "nets:build"')
    search = (
        f'[search]\n{NORM}model.kind = {{ type = "categorical", choices = ["python"], '
        'when = { "model.layer_norm" = true } }\n'
    )
    config = parse(own + search, Path("study.toml"))
    assert config.kinds == ("mlp", "python")
    assert config.n_structures == 2
