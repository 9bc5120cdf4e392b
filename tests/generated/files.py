"""Files next to generated study files: tables, arrays and functions that they may name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

import sweeper.scheduler.cost

N_ROWS = 120
NUMBERS = ("price", "cost")
CLASSES = {"label": ("a", "b", "c"), "sign": ("no", "yes")}
# how tables with these names are written
EUROPEAN = {"separator": ";", "decimal": ",", "encoding": "latin-1"}
FUNCTIONS = """\
import equinox as eqx
import jax
import jax.numpy as jnp
import optax
import pandas as pd
from optuna.pruners import NopPruner
from optuna.samplers import RandomSampler
from pathlib import Path


def build(in_size, out_size, key, **_):
    return eqx.nn.Linear(in_size, out_size, key=key)


def moves(lr=0.1, beta=0.9, **_):
    return optax.sgd(lr, momentum=beta)


def error(outputs, y):
    return jnp.mean(jnp.abs(outputs)) + 0.0 * jnp.sum(y)


def rivals(models, batch, key):
    return {name: jnp.mean(jax.vmap(one)(batch.x) ** 2) for name, one in models.items()}


def spread(outputs, y):
    return jnp.std(outputs)


def rows(file="table.csv"):
    return pd.read_csv(Path(__file__).parent / file)


def pair(target="price", file="table.csv"):
    table = rows(file)
    return table[["id", "size"]], table[target]


class Sampler(RandomSampler):
    def __init__(self, seed=None, warmth=1.0):
        super().__init__(seed=seed)


class Pruner(NopPruner):
    def __init__(self, patience=1):
        super().__init__()
"""


def table(*, has_gaps: bool) -> pd.DataFrame:
    """Rows of numbers, classes and text."""
    i = np.arange(N_ROWS)
    columns = {
        "id": i,
        "size": i % 7,
        "town": np.array(["x", "y"])[i % 2],
        "gap": i * 5 % 11 / 2,
        "label": np.array(CLASSES["label"])[i % 3],
        "sign": np.array(CLASSES["sign"])[i % 2],
        "part": np.array(["train", "Val", "train", "test", "train"])[i % 5],
        "price": i / 4,
        "cost": i * 7 % 50 / 2,
    }
    frame = pd.DataFrame(columns)
    if has_gaps:
        frame.loc[::10, ["gap", "town"]] = None
    return frame


def write_files(directory: Path) -> None:
    """Write everything into `directory`."""
    (directory / "nets.py").write_text(FUNCTIONS, encoding="utf-8")
    costs = Path(sweeper.scheduler.cost.__file__).parent / "costs" / "cpu.json"
    (directory / "costs.json").write_text(costs.read_text(encoding="utf-8"), encoding="utf-8")
    for name, has_gaps in (("table", False), ("gaps", True)):
        frame = table(has_gaps=has_gaps)
        frame.to_csv(directory / f"{name}.csv", index=False)
        european = directory / f"european {name}.csv"
        separator, decimal, encoding = EUROPEAN.values()
        frame.to_csv(european, index=False, sep=separator, decimal=decimal, encoding=encoding)
        frame.to_parquet(directory / f"{name}.parquet")
        arrays = {column: frame[column].to_numpy(float) for column in ("id", "size", *NUMBERS)}
        np.savez(
            directory / f"{name}.npz",
            features=frame[["id", "size", "gap"]].to_numpy(float),
            prices=frame[[*NUMBERS]].to_numpy(float),
            label=np.arange(N_ROWS) % 3,
            sign=np.arange(N_ROWS) % 2,
            part=frame["part"].to_numpy(str),
            **arrays,
        )
