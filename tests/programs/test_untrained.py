"""Arrays of a model that steps compute, but the optimizer does not move, are part of its state."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from sweeper.programs.checkpoint import LaneFile, write_lanes
from sweeper.programs.continued import Continuation, SavedStart
from sweeper.programs.program import Batch, LaneParameters, Metrics, State, only_model
from sweeper.programs.saved_file import SavedFile, plain_state_of, tensors_of
from sweeper.programs.segment import Lanes, train_lane
from sweeper.programs.supervised import Supervised
from tests.programs.conftest import Bench, spec

TRIAL = spec(5, depth=1, width=8, activation="relu", lr=1e-2, weight_decay=0.0)
# wine is learnt in a few epochs and then overfitted: val_loss is best in the middle
STUDY = ("data.name=wine", "train.batch_size=8", "train.epochs=14", "data.split.val=0.5")


@dataclass(frozen=True)
class Counting(Supervised):
    """Counts the rows of its steps, as a running statistic would."""

    def begun(self, state: State, lane: LaneParameters) -> State:
        return super().begun(replace(state, untrained={"rows": jnp.zeros((), jnp.int32)}), lane)

    def step(
        self, state: State, batch: Batch, lane: LaneParameters, epoch: Any
    ) -> tuple[State, Metrics]:
        moved, metrics = super().step(state, batch, lane, epoch)
        assert state.untrained is not None
        rows = state.untrained["rows"] + len(batch.x)
        return replace(moved, untrained={"rows": rows}), metrics


def test_untrained_arrays_are_carried_checkpointed_and_saved(
    bench: Callable[..., Bench], tmp_path: Path
) -> None:
    study = bench(*STUDY, "study.value=best")
    settings = study.config.settings_of(TRIAL.params)
    exact: Any = study.trainer.classes.programs.exact(settings)
    program = Counting(exact.settings, exact.data, exact.parts)
    data = study.trainer.classes.data_on_device(settings.train.batch_size, is_spread=False)
    trained = jax.jit(partial(train_lane, program))

    def after(state: State, start: int, stop: int) -> Any:
        bounds = np.int32(start), np.int32(stop)
        lanes = Lanes(state, program.lane(5, settings), np.int32(0), *bounds)
        return jax.device_get(trained(lanes, data))

    path = tmp_path / "checkpoints" / "half"
    path.parent.mkdir()
    digest = write_lanes(path, {(5, 0): after(program.layout.init(5, settings), 0, 4).state})
    half = LaneFile(path, digest).lane(5, program.abstract())
    resumed, whole = after(half, 4, 14), after(program.layout.init(5, settings), 0, 14)

    assert eqx.tree_equal(resumed.state, whole.state)
    rows = data.order.shape[2] * settings.train.batch_size
    best = int(np.argmin(whole.curves[:, 1])) + 1
    assert 0 < best < 14, "else this test shows nothing"
    assert whole.state.untrained == {"rows": 14 * rows}
    assert whole.state.kept.untrained == {"rows": best * rows}

    tensors = tensors_of(program, settings, only_model(whole.state))
    record = {"has_optimizer": False, "data": {"spec": asdict(program.data)}, "versions": {}}
    file = SavedFile("saved", record, tensors, "")
    assert plain_state_of(file, program, settings).untrained == {"rows": best * rows}
    start = Continuation(program, program, SavedStart(file, settings), settings)
    assert replace(program, start=start).init(1, settings).untrained == {"rows": best * rows}
