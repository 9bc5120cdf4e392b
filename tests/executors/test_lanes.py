"""What a lane measured, and which values must be finite."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from sweeper.executors.lanes import _stacked, judged_columns, record_of
from sweeper.programs.data_spec import blank_of, is_blank
from sweeper.programs.program import State
from sweeper.programs.segment import Segment
from sweeper.scheduler.classes import Lane
from sweeper.trial import LaneRecord, Place

METRICS = ("train_loss", "val_loss", "val_r2")
PLACE = Place("thread 0", "cpu:0", "host", 1, None, None)


def measured(rows: list[list[float]], objective: str) -> LaneRecord:
    """The result of one lane that trained from epoch 2 on."""
    state = State({"": jnp.zeros(1)}, jnp.zeros(1), jnp.zeros(1, int))
    curve = np.vstack([np.zeros((1, 3)), rows])
    segment = Segment(state, jnp.asarray(curve[None]), jnp.asarray([[0.5]]))
    lane = Lane(7, 1, len(curve), "")
    return record_of(lane, segment, slice(0, 1), judged_columns(METRICS, objective), 19, PLACE)


def test_an_undefined_metric_does_not_end_a_trial() -> None:
    lane = measured([[1, 1, np.nan], [0.5, 0.5, np.nan]], "val_loss")

    assert lane.diverged_epoch is None
    assert (lane.curve.first_epoch, lane.curve.last_epoch) == (2, 3)
    assert lane.test == (0.5,)


@pytest.mark.parametrize(
    ("rows", "objective"),
    [
        ([[1, 1, 0.1], [np.nan, 1, 0.1], [1, 1, 0.1]], "val_r2"),
        ([[1, 1, 0.1], [1, np.inf, 0.1], [1, 1, 0.1]], "val_r2"),
        ([[1, 1, 0.1], [1, 1, np.nan], [1, 1, 0.1]], "val_r2"),
    ],
)
def test_a_loss_or_objective_that_is_not_finite_ends_the_lane_there(
    rows: list[list[float]], objective: str
) -> None:
    lane = measured(rows, objective)

    assert lane.diverged_epoch == lane.curve.last_epoch == 3
    assert lane.test == ()


def test_blank_leaves_are_stacked_as_zeros_next_to_others() -> None:
    like = np.zeros(5, np.float32)
    leaves = [blank_of(like), np.arange(5, dtype=np.float32), blank_of(like)]
    assert [is_blank(leaf) for leaf in leaves] == [True, False, True]
    assert not any(map(is_blank, [like, np.broadcast_to(np.float32(1), 5), np.int32(0)]))

    stacked = _stacked(leaves)

    np.testing.assert_array_equal(stacked, np.stack(leaves))
    assert stacked.dtype == np.float32 and stacked.flags.writeable
    with pytest.raises(AssertionError):
        _stacked([blank_of(like), np.arange(1, dtype=np.float32)])
