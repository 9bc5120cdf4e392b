"""The cost model is fitted to times of programs on this machine."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from sweeper.preflight import calibrate
from sweeper.preflight.calibrate import Case, Timing, cases
from sweeper.scheduler.cost import CostModel, compile_features, lane_features, shipped
from sweeper.scheduler.forecast import workload_of


def timing(case: Case, model: CostModel) -> Timing:
    """The time of `case` if `model` were exact."""
    config = case.config()
    work = workload_of(config, config.settings_of({}), case.sizes, {})
    compiling = compile_features(case.padded_depth, work)
    lane = lane_features(case.width, case.padded_depth, case.depth, work, case.lane_loop, 4)
    seconds = [
        sum(count * getattr(model, name) for name, count in features.items())
        for features in (compiling, lane)
    ]
    return Timing(case, compiling, seconds[0], lane, seconds[1])


def test_a_fit_recovers_the_times_of_a_model() -> None:
    truth = replace(shipped("cpu"), step_base_s=3e-5, compile_layer_s=0.4)
    timings = [timing(case, truth) for case in cases() if case.n_activations == 1]

    fitted = calibrate.fit(timings, shipped("cpu"))

    for case, compiling, training in calibrate.errors(timings, fitted):
        assert compiling == pytest.approx(0, abs=1e-6), case
        assert training == pytest.approx(0, abs=1e-6), case


def test_constants_that_were_not_timed_are_kept() -> None:
    like = shipped("cpu")
    timings = [timing(Case(16, 1, 1), like), timing(Case(64, 4, 2), like)]

    fitted = calibrate.fit(timings, like)

    assert fitted.worker_start_s == like.worker_start_s
    assert fitted.vmap_flop_s == like.vmap_flop_s


def test_programs_are_timed_in_this_process() -> None:
    told: list[tuple[int, int]] = []

    timings = calibrate.measure(
        [Case(8, 1, 1), Case(8, 2, 1, lane_loop="vmap")], 2, lambda *done: told.append(done)
    )

    assert [timing.compile_s > 0 and timing.lane_s > 0 for timing in timings] == [True, True]
    assert told[-1] == (2 + 3 * 2, 8)  # compiled once, trained three times
    record = calibrate.record(calibrate.fit(timings, shipped("cpu")))
    assert CostModel.from_dict(json.loads(json.dumps(record))["model"]).backend == "cpu"
