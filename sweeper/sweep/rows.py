"""The rows of trials.parquet and buckets.parquet, from the results of rounds."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from sweeper.config import StudyConfig
from sweeper.config.study import N_PARAMETERS
from sweeper.executors.executor import Outcome, Work, highest
from sweeper.ledger import BucketRecord
from sweeper.results.columns import spread_of
from sweeper.results.ranking import best_of, value_columns
from sweeper.scheduler.classes import ProgramClass
from sweeper.scheduler.signature import Structure
from sweeper.sweep.context import SweepContext
from sweeper.sweep.state import Running
from sweeper.sweep.verdicts import Verdict, values_of
from sweeper.trial import OVER, LaneRecord, TrialSpec, TrialState, fields_of, finite


def bucket_record(
    work: Work, outcome: Outcome, class_name: str, members: int, boundary: str | None
) -> BucketRecord:
    """What the ledger stores about a bucket; each trial had `members` lanes.

    `class_name` is the name of its class, `boundary` the text with which its session marks rows.
    `ceiling` in its row is not a column of the tables, but needed by later rounds.
    """
    bucket, program = work.bucket, work.program
    longest = max(lane.epoch_to - lane.epoch_from for lane in bucket.lanes)
    trained = sum(map(_trained_epochs, outcome.lanes))
    ceiling = outcome.ceiling
    capacity = program.capacity if ceiling is None else ceiling.capacity
    calls = math.ceil(len(bucket.lanes) * members / capacity)
    row = {
        "round": work.round,
        "bucket_id": bucket.bucket,
        "class_id": program.class_id,
        "strategy": program.strategy,
        "lane_loop": program.lane_loop,
        "capacity": capacity,
        "lanes_live": len(bucket.lanes) * members,
        "trials": json.dumps(list(bucket.numbers)),
        "place": outcome.place.place,
        "device": outcome.place.device,
        "started_at": outcome.started_at,
        "compile_s": outcome.compile_s,
        "cache_hit": outcome.cache_hit if outcome.compile_s else None,
        "train_s": outcome.train_s,
        "predicted_compile_s": _predicted_compile_s(work, outcome),
        "predicted_train_s": bucket.predicted_train_s,
        "waste_fraction": bucket.waste_fraction,
        "occupancy": trained / (capacity * calls * longest),
        "epochs_from": min(lane.epoch_from for lane in bucket.lanes) + 1,
        "epochs_to": max(lane.epoch_to for lane in bucket.lanes),
        "memory_predicted_bytes": outcome.memory_predicted_bytes,
        "memory_peak_bytes": outcome.peak_memory_bytes,
        "attempt": outcome.attempt + work.crashes,
        "outcome": _outcome(work, outcome),
        "capacity_planned": program.capacity,
        "memory_limit_bytes": outcome.memory_limit_bytes,
        "class_name": class_name,
        "boundary": boundary,
        "ceiling": None if ceiling is None else asdict(ceiling),
        "finished_at": outcome.finished_at or None,
    }
    return BucketRecord(row, _lanes(work, outcome, trained))


def _trained_epochs(lane: LaneRecord) -> int:
    """The epochs that the members of a trial were trained in a round, added up."""
    return int((lane.curve.by_member != OVER).any(axis=2).sum())


def _predicted_compile_s(work: Work, outcome: Outcome) -> float | None:
    """The predicted time to compile, or to load from the cache; None if neither was needed."""
    if not outcome.compile_s:
        return None
    return work.program.cached_s if outcome.cache_hit else work.program.predicted_compile_s


def _outcome(work: Work, outcome: Outcome) -> str:
    """The outcome of a bucket in words; anything but "trained" is a fallback."""
    lanes = outcome.lanes
    failed = sum(lane.failure is not None for lane in lanes)
    retrained = sum(lane.retrained for lane in lanes)
    parts = [f"{failed} of {len(lanes)} lanes failed"] if failed else ["trained"]
    if retrained:
        parts.append(f"{retrained} again from epoch 1, because of a damaged checkpoint")
    if outcome.ceiling is not None:
        parts.append(f"{outcome.ceiling.capacity} lanes at a time, because memory was short")
    if outcome.own_programs:
        parts.append(f"{outcome.own_programs} tried in programs of their own")
    if outcome.attempt > 1:
        parts.append(f"{outcome.attempt} tries, because workers died")
    if work.crashes:
        parts.append(f"after {work.crashes} deaths of the whole program")
    return "; ".join(parts)


def _lanes(work: Work, outcome: Outcome, trained: int) -> tuple[LaneRecord, ...]:
    """The lanes of a bucket with their shares of its time; they `trained` epochs in total."""
    return tuple(
        replace(
            lane,
            attempts=lane.attempts + work.crashes,
            lane_s=outcome.train_s * (_trained_epochs(lane) / max(trained, 1)),
            compile_share_s=outcome.compile_s / len(outcome.lanes),
        )
        for lane in outcome.lanes
    )


def trial_row(
    trial: Running,
    verdict: Verdict,
    program: ProgramClass,
    context: SweepContext,
    finished_at: float,
) -> dict[str, Any]:
    """The row of a finished trial; columns that are not set here are null."""
    study, metrics, test_metrics = context.config.study, context.metrics, context.test_metrics
    keeps = None if verdict.state is TrialState.PRUNED else context.config.keeps
    structure = context.structure_of(trial.spec)
    lane, last, curves = trial.lanes[-1], trial.rows[-1], trial.curves
    final = curves[-1].values[-1] if curves else [math.nan] * len(metrics)
    best_value, best_epoch = best_of(*_first_objective(trial, metrics, structure, context.config))
    members = values_of(trial, metrics, study.objectives[0], keeps) if verdict.values else []
    return {
        **_row_of(trial.spec, verdict, context, finished_at),
        "best_value": best_value,
        "best_epoch": best_epoch,
        "epochs_done": trial.epochs_done,
        **{f"final_{name}": finite(value) for name, value in zip(metrics, final, strict=True)},
        **dict(zip(map(spread_of, test_metrics), map(finite, lane.test_std), strict=False)),
        **dict(zip(test_metrics, map(finite, lane.test), strict=False)),
        "value_std": _spread(members),
        "strategy": program.strategy,
        "class_id": program.class_id,
        "lane_loop": program.lane_loop,
        "capacity": lane.capacity or program.capacity,
        "padded_width": program.padded_width,
        "padded_depth": program.padded_depth,
        "padded_parts": program.padded_parts or None,
        "run_widths": ",".join(map(str, program.run_widths)) or None,
        "first_round": trial.rows[0]["round"],
        "last_round": last["round"],
        "diverged_epoch": lane.diverged_epoch,
        "error_type": lane.failure and lane.failure.error_type,
        "error_message": lane.failure and lane.failure.error_message,
        "attempts": sum(own.attempts - 1 for own in trial.lanes) + 1,
        "started_at": trial.rows[0]["started_at"],
        "train_s": sum(own.lane_s for own in trial.lanes),
        "compile_share_s": sum(own.compile_share_s for own in trial.lanes),
        "lane_s": sum(row["train_s"] for row in trial.rows),
        "peak_memory_bytes": highest(row["memory_peak_bytes"] for row in trial.rows),
        **fields_of(lane.place),
    }


def untrained_row(
    spec: TrialSpec, verdict: Verdict, round_number: int, context: SweepContext, finished_at: float
) -> dict[str, Any]:
    """The row of a trial that ended without training, in a round."""
    return {
        **_row_of(spec, verdict, context, finished_at),
        "epochs_done": 0,
        "strategy": "none",
        "first_round": round_number,
        "last_round": round_number,
        "attempts": 0,
        "started_at": finished_at,
        "train_s": 0.0,
        "compile_share_s": 0.0,
        "lane_s": 0.0,
    }


def _row_of(
    spec: TrialSpec, verdict: Verdict, context: SweepContext, finished_at: float
) -> dict[str, Any]:
    """The columns of every finished trial, trained or not."""
    study, structure = context.config.study, context.structure_of(spec)
    values = zip(value_columns(len(study.objectives)), verdict.values, strict=False)
    return {
        "run_id": context.run_id,
        "trial_number": spec.number,
        "state": verdict.state.value,
        "reason": verdict.reason and verdict.reason.value,
        "value": None,
        **dict(values),
        **{f"params_{name}": value for name, value in spec.params.items()},
        "params_json": json.dumps(dict(spec.params)),
        "n_replicates": study.replicates,
        "n_folds": study.folds or 1,
        "n_parameters": structure.n_parameters,
        "structure_id": structure.structure_id,
        "fixed_start": structure.has_fixed_start,
        "told_through_round": spec.told_through_round,
        "seed": study.seed,
        "finished_at": finished_at,
        "boundary": context.boundary,
        "feasible": all(e <= 0 for e in verdict.excesses.values()) if verdict.excesses else None,
    }


def _first_objective(
    trial: Running, metrics: Sequence[str], structure: Structure, config: StudyConfig
) -> tuple[Sequence[float], bool]:
    """The first objective in the epochs that count, and whether higher is better."""
    study = config.study
    name, maximize = study.objectives[0], study.directions[0] == "maximize"
    if name == N_PARAMETERS:
        return [float(structure.n_parameters)] * trial.epochs_done, maximize
    return trial.column(metrics.index(name), config.edition), maximize


def _spread(values: Sequence[float]) -> float | None:
    """The standard deviation of the members' values, with n - 1; None for a single member."""
    return finite(float(np.std(values, ddof=1))) if len(values) > 1 else None
