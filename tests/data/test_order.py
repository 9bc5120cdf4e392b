from __future__ import annotations

import numpy as np

from sweeper.data.order import epoch_order


def test_every_epoch_is_another_permutation_of_all_rows() -> None:
    order = epoch_order(seed=3, replicate=0, epochs=4, n_rows=12, batch_size=3)

    assert (order.shape, order.dtype) == ((4, 4, 3), np.dtype(np.int32))
    epochs = [tuple(epoch.ravel().tolist()) for epoch in order]
    assert [sorted(epoch) for epoch in epochs] == [list(range(12))] * 4
    assert len(set(epochs)) == 4


def test_the_last_partial_batch_is_left_out() -> None:
    order = epoch_order(seed=3, replicate=0, epochs=2, n_rows=11, batch_size=4)

    assert order.shape == (2, 2, 4)
    assert all(len(np.unique(epoch)) == 8 for epoch in order)


def test_an_epoch_depends_only_on_seed_replicate_and_number() -> None:
    order = epoch_order(seed=3, replicate=1, epochs=4, n_rows=12, batch_size=3)

    longer = epoch_order(seed=3, replicate=1, epochs=9, n_rows=12, batch_size=3)
    wider = epoch_order(seed=3, replicate=1, epochs=4, n_rows=12, batch_size=6)
    np.testing.assert_array_equal(longer[:4], order)
    np.testing.assert_array_equal(wider.reshape(4, 12), order.reshape(4, 12))

    other_seed = epoch_order(seed=4, replicate=1, epochs=4, n_rows=12, batch_size=3)
    other_replicate = epoch_order(seed=3, replicate=2, epochs=4, n_rows=12, batch_size=3)
    for other in (other_seed, other_replicate):
        assert not any(np.array_equal(a, b) for a, b in zip(order, other, strict=True))
