"""The task of every peer: the data, the trials and how long to train them.

A peer is a program with one argument, a problem as JSON, which prints one line of JSON: the best
and the mean of the validation scores after the last epoch, the number of trials, when each ended,
and the test score of the best one.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

LEARNING_RATES = (1e-4, 1e-2)
WEIGHT_DECAYS = (1e-6, 1e-1)


class Trial(NamedTuple):
    """The searched settings of one network, and the class that the project trained it in."""

    depth: int
    width: int
    lr: float
    weight_decay: float
    class_id: str = ""
    class_depth: int = 0
    class_width: int = 0


class Data(NamedTuple):
    """The training, the validation and the test part, inputs scaled by the training part.

    Targets are classes that count from 0, or scaled numbers.
    """

    x: NDArray[np.float32]
    y: NDArray[Any]
    x_val: NDArray[np.float32]
    y_val: NDArray[Any]
    x_test: NDArray[np.float32]
    y_test: NDArray[Any]

    @property
    def n_outputs(self) -> int:
        """How many outputs a network needs: one for each class, or one for a number."""
        return int(self.y.max()) + 1 if self.y.dtype == np.int32 else 1


class Frames(NamedTuple):
    """The same rows as they are in the table; targets are classes that count from 0, or numbers."""

    x: pd.DataFrame
    y: NDArray[Any]
    x_val: pd.DataFrame
    y_val: NDArray[Any]
    x_test: pd.DataFrame
    y_test: NDArray[Any]


@dataclass(frozen=True, slots=True)
class Problem:
    """A search to run; `widths` is "powers" of two or "integers" within the limits of `width`.

    `data` is "digits", an .npz file with x and y, or a Parquet file whose column `target` is
    predicted from the others, without those in `drop`. `score` is "accuracy", or "r2" of a number.
    `drawn` is a JSON file of the trials; without it they are drawn by `seed`. A peer that can end
    trials early does so if it `prunes`.
    """

    trials: int
    epochs: int = 20
    batch_size: int = 64
    depth: tuple[int, int] = (1, 4)
    width: tuple[int, int] = (16, 128)
    widths: str = "powers"
    data: str = "digits"
    seed: int = 0
    drawn: str | None = None
    target: str = ""
    drop: tuple[str, ...] = ()
    score: str = "accuracy"
    prunes: bool = False

    def draw(self) -> list[Trial]:
        """The trials, the same for every peer."""
        if self.drawn is not None:
            return [Trial(*row) for row in json.loads(Path(self.drawn).read_text())]
        rng = np.random.default_rng(self.seed)
        return [self._trial(rng) for _ in range(self.trials)]

    def load(self) -> Data:
        """The data, split and scaled as the project does."""
        x, y = self._rows()
        train, val, test = self._parts(y)
        x = _scaled(x, train)
        y = _scaled(y, train) if self.score == "r2" else y.astype(np.int32)
        return Data(x[train], y[train], x[val], y[val], x[test], y[test])

    def load_frames(self) -> Frames:
        """The same rows as data frames: numbers as they are, text as pandas' categories."""
        import pandas as pd

        x, y = self._rows()
        frame = pd.DataFrame(x).rename(columns=str)
        texts = frame.select_dtypes(exclude="number").columns
        frame[texts] = frame[texts].astype("category")
        train, val, test = self._parts(y)
        parts = [part for rows in (train, val, test) for part in (frame.iloc[rows], y[rows])]
        return Frames(*parts)

    def _parts(self, y: NDArray[Any]) -> tuple[NDArray[np.intp], ...]:
        """The rows for training, validation and test, as the project draws them."""
        # only here, because some programs need only the trials
        from sklearn.model_selection import train_test_split

        rows, drawn = np.arange(len(y)), []
        for share in (0.1, 0.2):
            rows, part = train_test_split(
                rows,
                test_size=ceil(share * len(y)),
                random_state=self.seed,
                stratify=None if self.score == "r2" else y[rows],
            )
            drawn.append(part)
        test, val = drawn
        return rows, val, test

    def _rows(self) -> tuple[NDArray[np.float64] | pd.DataFrame, NDArray[Any]]:
        if self.data.endswith(".parquet"):
            import pandas as pd

            frame = pd.read_parquet(self.data).drop(columns=[*self.drop])
            y = frame.pop(self.target).to_numpy()
            return frame, y if self.score == "r2" else np.unique(y, return_inverse=True)[1]
        if self.data == "digits":
            from sklearn.datasets import load_digits

            x, y = load_digits(return_X_y=True)
        else:
            with np.load(self.data) as arrays:
                x, y = arrays["x"], arrays["y"]
        return x, y

    def _trial(self, rng: np.random.Generator) -> Trial:
        low, high = self.width
        if self.widths == "powers":
            width = 2 ** int(rng.integers(low.bit_length() - 1, high.bit_length()))
        else:
            width = int(rng.integers(low, high + 1))
        depth = int(rng.integers(self.depth[0], self.depth[1] + 1))
        lr, weight_decay = (_log_uniform(rng, *ends) for ends in (LEARNING_RATES, WEIGHT_DECAYS))
        return Trial(depth, width, lr, weight_decay)


def read() -> Problem:
    """The problem in the program's argument."""
    return Problem(**json.loads(sys.argv[1]))


class Result(NamedTuple):
    """The validation and the test score of a trial, and its end in seconds since 1970."""

    score: float
    test: float | None
    ended: float


def report(
    scores: Sequence[float],
    results: Sequence[Result] = (),
    *,
    test: float | None = None,
    **more: float,
) -> None:
    """Print the results of the trials; `test` is the score of the best one."""
    best, mean = max(scores), sum(scores) / len(scores)
    if results:
        test = max(results, key=lambda result: result.score).test
    ended = [(result.ended, result.score) for result in results]
    found = {"best": best, "mean": mean, "trials": len(scores), "test": test, "ended": ended}
    print(json.dumps(found | more))


def report_model(score: Callable[[Any, Any], float], data: Frames) -> None:
    """Print the results of a single model, of which `score` is called with rows and targets."""
    found = score(data.x_val, data.y_val), score(data.x_test, data.y_test)
    report(found[:1], [Result(*map(float, found), time.time())])


def _scaled(
    values: NDArray[np.float64] | pd.DataFrame, train: NDArray[np.intp]
) -> NDArray[np.float32]:
    """Numbers, scaled by their training rows; a table also filled, with its text as 0 and 1."""
    if not isinstance(values, np.ndarray):
        encoder = _encoder().fit(values.iloc[train])
        return encoder.transform(values).astype(np.float32)
    mean, spread = values[train].mean(0), values[train].std(0)
    return ((values - mean) / np.where(spread > 0, spread, 1)).astype(np.float32)


def _encoder() -> Any:
    """What prepares the columns of a table, in scikit-learn's own means."""
    # only here, since importing them takes time that a peer may not need
    from sklearn.compose import make_column_selector, make_column_transformer
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    numbers = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    categories = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    return make_column_transformer(
        (numbers, make_column_selector(dtype_include="number")),
        (categories, make_column_selector(dtype_exclude="number")),
    )


def _log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))
