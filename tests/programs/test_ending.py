"""With which weights and when a trial ends depends only on its own curve."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from sweeper.executors.executor import Outcome
from sweeper.programs.checkpoint import LaneFile
from sweeper.programs.program import only_model
from sweeper.trial import TrialSpec
from tests.programs import plain
from tests.programs.conftest import Bench, spec

RELATIVE = 1e-9  # float64; the orders of summation differ, and the difference grows with the steps
SHAPE = {"depth": 2, "width": 16, "activation": "relu"}
TRIAL = spec(5, **SHAPE, lr=1e-3, weight_decay=0.0)
WAYS = plain.WAYS
ADAM = optax.adam(1e-3)
# wine is learnt in a few epochs and then overfitted: val_loss is best in the middle
STUDY = ("data.name=wine", "train.batch_size=8", "train.epochs=14", "train.metrics=[]")
OVERFITTING = (*STUDY, "data.split.val=0.5")
STOP = "train.early_stop={patience=2}"


def loss(outputs: Any, y: Any) -> Any:
    return optax.softmax_cross_entropy_with_integer_labels(outputs, y).mean()


def saved(study: Bench, outcome: Outcome, trial: TrialSpec) -> Any:
    """The model that would be kept, as in its lane."""
    (lane,) = [lane for lane in outcome.lanes if lane.number == trial.number]
    settings = study.config.settings_of(trial.params)
    program = study.trainer.classes.programs.exact(settings)
    file = LaneFile(study.directory / lane.checkpoint, outcome.digests[lane.checkpoint])
    return program.saver.model(file.lane(trial.number, only_model(program.layout.abstract())))


def same_weights(model: Any, net: plain.Net) -> None:
    for ours, theirs in zip(model.layers, net.linears, strict=True):
        np.testing.assert_allclose(ours.weight, theirs.weight, rtol=RELATIVE, atol=1e-12)
        np.testing.assert_allclose(ours.bias, theirs.bias, rtol=RELATIVE, atol=1e-12)


def on_test_part(net: plain.Net, study: Bench) -> float:
    return float(loss(jax.vmap(net)(jnp.asarray(study.data.x_test)), study.data.y_test))


@pytest.mark.parametrize("way", [pytest.param("exact", marks=pytest.mark.slow), "padded"])
def test_the_average_of_the_weights_is_measured_and_saved(
    way: str, bench: Callable[..., Bench]
) -> None:
    study = bench(*STUDY, "train.epochs=3", "search.train.ema={type='float',low=0.0,high=0.99}")
    trial = spec(5, **TRIAL.params, ema=0.9)
    other = spec(1, **TRIAL.params, ema=0.0)

    outcome = study.train([other, trial], **WAYS[way])

    expected = plain.train(study, trial, ADAM, loss, ema=0.9)
    curves = {lane.number: lane.curve.values for lane in outcome.lanes}
    np.testing.assert_allclose(curves[5], expected.rows, rtol=RELATIVE)
    same_weights(saved(study, outcome, trial), expected.nets[-1])
    # an average that forgets at once equals the weights themselves
    np.testing.assert_allclose(curves[1], plain.train(study, other, ADAM, loss).rows, rtol=RELATIVE)


@pytest.mark.parametrize(
    ("ema", "way"),
    [
        (0.8, "padded"),
        pytest.param(None, "exact", marks=pytest.mark.slow),
        pytest.param(None, "padded", marks=pytest.mark.slow),
        pytest.param(0.8, "exact", marks=pytest.mark.slow),
    ],
)
def test_the_best_epochs_weights_are_saved_and_tested(
    ema: float | None, way: str, bench: Callable[..., Bench]
) -> None:
    averaging = [] if ema is None else [f"train.ema={ema}"]
    study = bench(*OVERFITTING, "study.value=best", *averaging)
    trial = spec(5, **{**TRIAL.params, "lr": 1e-2})

    outcome = study.train([trial], **WAYS[way])

    expected = plain.train(study, trial, optax.adam(1e-2), loss, ema=ema)
    best = int(np.argmin(expected.rows[:, 1]))
    assert 0 < best < len(expected.rows) - 1, "else this test shows nothing"
    (lane,) = outcome.lanes
    assert len(lane.curve.values) == 14 and not lane.ended
    same_weights(saved(study, outcome, trial), expected.nets[best])
    assert lane.test == pytest.approx([on_test_part(expected.nets[best], study)], rel=RELATIVE)


@pytest.mark.parametrize("way", ["exact", pytest.param("padded", marks=pytest.mark.slow)])
def test_a_trial_ends_when_its_patience_is_exhausted(way: str, bench: Callable[..., Bench]) -> None:
    search = "search.train.early_stop.patience={type='int',low=1,high=20}"
    study = bench(*OVERFITTING, search)
    trials = [
        spec(n, **{**TRIAL.params, "lr": 1e-2}, patience=patience)
        for n, patience in ((5, 2), (6, 3), (7, 20))
    ]

    outcome = study.train(trials, **WAYS[way])

    for trial, lane in zip(trials, outcome.lanes, strict=True):
        expected = plain.train(study, trial, optax.adam(1e-2), loss)
        scores = expected.rows[:, 1]
        patience = int(trial.params["patience"])
        last = next((e for e in range(1, 15) if e - 1 - int(np.argmin(scores[:e])) >= patience), 14)
        assert lane.ended is (patience < 20) and (last < 14) is (patience < 20)
        np.testing.assert_allclose(lane.curve.values, expected.rows[:last], rtol=RELATIVE)
        best = expected.nets[int(np.argmin(scores[:last]))]
        same_weights(saved(study, outcome, trial), best)
        assert lane.test == pytest.approx([on_test_part(best, study)], rel=RELATIVE)


def test_an_epoch_must_be_better_by_more_than_min_delta(bench: Callable[..., Bench]) -> None:
    delta = 0.05
    study = bench(*OVERFITTING, f"train.early_stop={{patience=2,min_delta={delta}}}")

    (lane,) = study.train([TRIAL]).lanes

    scores = plain.train(study, TRIAL, ADAM, loss).rows[:, 1]
    reference, waited, last = np.inf, 0, 0
    while waited < 2 and last < len(scores):
        if scores[last] < reference - delta:
            reference, waited = scores[last], 0
        else:
            waited += 1
        last += 1
    assert 2 < last < 14, "else this test shows nothing"
    assert len(lane.curve.values) == last
    assert int(np.argmin(scores[:last])) == last - 1, "the best is kept, however little better"


def test_another_metric_can_end_a_trial(bench: Callable[..., Bench]) -> None:
    stop = "train.early_stop={metric='val_accuracy',patience=3}"
    study = bench(*OVERFITTING, "train.metrics=['accuracy']", stop)

    (lane,) = study.train([spec(5, **{**TRIAL.params, "lr": 1e-2})]).lanes

    scores = lane.curve.values[:, 2]
    assert lane.ended and len(scores) < 14
    assert len(scores) - 1 - int(np.argmax(scores)) == 3


@pytest.mark.parametrize("way", [pytest.param("exact", marks=pytest.mark.slow), "padded"])
def test_rounds_change_no_bit_of_the_best_state(way: str, bench: Callable[..., Bench]) -> None:
    study = bench(*OVERFITTING, STOP, "train.ema=0.5")
    trials = [spec(n, **{**TRIAL.params, "lr": lr}) for n, lr in ((1, 1e-2), (2, 1e-4))]

    whole = study.train(trials, **WAYS[way])
    first = study.train(trials, **WAYS[way], epochs=(0, 3))
    second = study.train(trials, **WAYS[way], epochs=(3, 14), after=first)

    for index, lane in enumerate(whole.lanes):
        parts = [part.lanes[index].curve.values for part in (first, second)]
        assert np.concatenate(parts).tobytes() == lane.curve.values.tobytes()
        assert second.lanes[index].test == lane.test
        assert second.lanes[index].ended == lane.ended
    assert [lane.ended for lane in whole.lanes] == [True, False]
