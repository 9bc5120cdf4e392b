"""A ledger with committed rounds: the input of a publisher."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from sweeper.config import StudyConfig, parse
from sweeper.ledger import BucketRecord, Closing, Ledger
from sweeper.trial import Curve, LaneRecord, Memory, Place
from tests.small_studies import DIGITS, bent

STUDY = bent(
    DIGITS,
    "study={name='small',metric='val_accuracy',direction='maximize',n_trials=100}",
    "data={source='sklearn',name='digits'}",
    "model.depth=1",
    "train.epochs=3",
    "search={}",
    "search.model.width={type='int',low=4,high=64}",
    "search.model.activation={type='categorical',choices=['relu','tanh']}",
    "search.optimizer.lr={type='float',low=1e-4,high=1e-2,log=true,name='rate'}",
)
METRICS = ("train_loss", "val_loss", "val_accuracy")
STEPS_PER_EPOCH = 19
TRIALS = 2


def study(*overrides: str) -> StudyConfig:
    """The study above with `overrides`."""
    return parse(STUDY, Path("study.toml"), overrides)


def close_rounds(ledger: Ledger, count: int, epochs: int = 3, elapsed_s: float = 1.0) -> None:
    """Close `count` more rounds; each trains `TRIALS` new trials to their end.

    Trials are a function of their number; the one whose number ends in 5 diverges.
    """
    for number in range(ledger.n_closed_rounds() + 1, ledger.n_closed_rounds() + count + 1):
        trials = range((number - 1) * TRIALS, number * TRIALS)
        ledger.open_round(number, [], {}, Memory())
        closing = Closing(METRICS, elapsed_s, {}, {})
        record = BucketRecord(_bucket(number, trials), tuple(_lane(n, epochs) for n in trials))
        rows = {n: _row(n, number, epochs, elapsed_s) for n in trials}
        ledger.close_round(number, closing, [record], rows)


def curve(number: int, epochs: int) -> Curve:
    """What trial `number` measured."""
    values = np.sin(number + np.arange(epochs * len(METRICS), dtype=float))
    values = values.reshape(epochs, len(METRICS))
    if number % 10 == 5:
        values[-1] = np.nan
    return Curve(number, 1, values, STEPS_PER_EPOCH)


def _lane(number: int, epochs: int) -> LaneRecord:
    place = Place("thread 0", "cpu:0", "host", None, None, None)
    return LaneRecord(number, curve(number, epochs), "", (), place)


def _params(number: int) -> dict[str, int | float | str]:
    return {"width": 4 + number % 60, "activation": "relu", "rate": 1e-3}


def _row(number: int, round_: int, epochs: int, elapsed_s: float) -> dict[str, object]:
    value = float(curve(number, epochs).values[-1, -1])
    diverged = bool(np.isnan(value))
    return {
        "run_id": f"after {elapsed_s} s",
        "trial_number": number,
        "state": "PRUNED" if diverged else "COMPLETE",
        "reason": "diverged" if diverged else None,
        "value": None if diverged else value,
        "epochs_done": epochs,
        **{f"params_{name}": value for name, value in _params(number).items()},
        "params_json": json.dumps(_params(number)),
        "n_parameters": 1000,
        "strategy": "exact",
        "structure_id": "s",
        "told_through_round": round_ - 1,
        "first_round": round_,
        "last_round": round_,
        "seed": 0,
        "diverged_epoch": epochs if diverged else None,
        "attempts": 1,
        "started_at": 1.5,
        "train_s": elapsed_s,
    }


def _bucket(number: int, trials: range) -> dict[str, object]:
    return {"round": number, "bucket_id": 0, "trials": json.dumps(list(trials))}
