"""Data is on a device once, however many batch sizes there are."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sweeper.executors.device_data import put_data
from tests.programs.conftest import Bench, bench

__all__ = ["bench"]


def test_batches_of_another_size_use_the_same_data(
    bench: Callable[..., Bench],
) -> None:
    study = bench("search.train.batch_size={type='int',low=8,high=16}")

    small, large = (study.trainer.classes.data_on_device(size, is_spread=False) for size in (8, 16))

    assert large.train.x.unsafe_buffer_pointer() == small.train.x.unsafe_buffer_pointer()
    assert large.val.x.unsafe_buffer_pointer() == small.val.x.unsafe_buffer_pointer()
    expected = put_data(study.config, study.data, 16)
    np.testing.assert_array_equal(large.order, expected.order)
