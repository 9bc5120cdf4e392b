"""Converts records to and from the rows of a ledger.

The curves of a bucket are one blob, because a row per lane would make the ledger slow.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sweeper.results.timeline import Span
from sweeper.trial import (
    Curve,
    Failure,
    LaneRecord,
    Memory,
    Place,
    Reason,
    Request,
    TrialSpec,
    fields_of,
    finite,
)

# fields of a lane that only matter in its round, and its curve, which is stored apart
_LEFT_OUT = ("checkpoint", "retrained", "ended", "curve")


@dataclass(frozen=True, slots=True)
class BucketRecord:
    """The result of a bucket in its round: its row of buckets.parquet, and its lanes."""

    row: Mapping[str, Any]
    lanes: tuple[LaneRecord, ...]

    def body(self) -> dict[str, Any]:
        """The row with the lanes, except for their curves, as JSON."""
        return {**self.row, "lanes": [_body_of(lane) for lane in self.lanes]}

    @staticmethod
    def from_stored(body: dict[str, Any], packed: bytes) -> BucketRecord:
        """The record from its `body` and its packed curves."""
        lanes = zip(body.pop("lanes"), unpack(packed), strict=True)
        return BucketRecord(body, tuple(_lane_of(lane, curve) for lane, curve in lanes))


def _body_of(lane: LaneRecord) -> dict[str, Any]:
    body = {name: value for name, value in fields_of(lane).items() if name not in _LEFT_OUT}
    tests = {name: [finite(value) for value in body[name]] for name in ("test", "test_std")}
    return {**body, **tests}


def _lane_of(body: Mapping[str, Any], curve: Curve) -> LaneRecord:
    failure = body["failure"]
    kept: dict[str, Any] = {
        "curve": curve,
        "checkpoint": "",
        "test": _with_nan(body["test"]),
        "test_std": _with_nan(body.get("test_std", ())),  # not in ledgers of earlier versions
        "place": Place(**body["place"]),
        "failure": failure and Failure(**{**failure, "reason": Reason(failure["reason"])}),
    }
    return LaneRecord(**{**body, **kept})


def _with_nan(values: Sequence[float | None]) -> tuple[float, ...]:
    return tuple(math.nan if value is None else value for value in values)


@dataclass(frozen=True, slots=True)
class Closing:
    """What a round decided.

    `live` maps each unfinished trial to the checkpoint file with its state, `digests` each
    checkpoint file to its digest. `metrics` names the columns of every curve of the round, `ahead`
    are proposals for a later round, `memory` is what the sampler and pruner have stored since the
    round was opened. `spent_s` is the wall time of all sessions until now, `elapsed_s` that of this
    session from the start of the program. `spans` are the activities of the session `run_id` since
    the previous round, or since it began; ledgers of earlier versions have none. `requests` are
    those that stopped trials in the round.
    """

    metrics: tuple[str, ...]
    elapsed_s: float
    live: Mapping[int, str]
    digests: Mapping[str, str]
    ahead: tuple[TrialSpec, ...] = ()
    memory: Memory = field(default_factory=Memory)
    spent_s: float = 0.0
    run_id: str = ""
    spans: tuple[Span, ...] = ()
    requests: tuple[Request, ...] = ()

    @staticmethod
    def from_dict(body: Mapping[str, Any]) -> Closing:
        """The record from its JSON form."""
        return Closing(
            metrics=tuple(body["metrics"]),
            elapsed_s=body["elapsed_s"],
            live={int(number): file for number, file in body["live"].items()},
            digests=body["digests"],
            ahead=tuple(TrialSpec(**spec) for spec in body["ahead"]),
            memory=memory_of(body["memory"]),
            spent_s=body["spent_s"],
            run_id=body.get("run_id", ""),
            spans=tuple(Span(*span) for span in body.get("spans", ())),
            requests=requests_of(body),
        )


@dataclass(frozen=True, slots=True)
class OpenRound:
    """A round that was planned but not closed, with the trials that it adds.

    `memory` is what the sampler stored while these trials were asked for. `requests` are for trials
    to propose, in this round or later.
    """

    round: int
    specs: tuple[TrialSpec, ...]
    plan: Mapping[str, Any]
    memory: Memory
    requests: tuple[Request, ...] = ()


@dataclass(frozen=True, slots=True)
class ClosedRound:
    """A round from its plan to its end; `ended` maps the trials that it finished to their rows.

    `memory` and `requests` are from when the round was opened.
    """

    round: int
    specs: tuple[TrialSpec, ...]
    plan: Mapping[str, Any]
    memory: Memory
    records: tuple[BucketRecord, ...]
    closing: Closing
    ended: Mapping[int, Mapping[str, Any]]
    requests: tuple[Request, ...] = ()


def requests_of(body: Mapping[str, Any]) -> tuple[Request, ...]:
    """The requests of a round, from the JSON form of its opening or its closing."""
    return tuple(Request(**request) for request in body.get("requests", ()))


def memory_of(body: Mapping[str, Any]) -> Memory:
    """What the sampler and pruner stored, from its JSON form."""
    trials = {int(number): kept for number, kept in body["trials"].items()}
    return Memory(trials, body["study"])


def pack(curves: Sequence[Curve]) -> bytes:
    """One blob per bucket: numbers of trials and metrics, one index row per trial, all values."""
    width = max((curve.values.shape[1] for curve in curves), default=0)
    head = [len(curves), width]
    for curve in curves:
        members, epochs, _ = curve.by_member.shape
        head += [curve.number, curve.first_epoch, epochs, curve.steps_per_epoch, members]
    values = (np.ascontiguousarray(curve.by_member, "<f8").tobytes() for curve in curves)
    return b"".join([np.array(head, "<i8").tobytes(), *values])


def unpack(packed: bytes) -> Iterator[Curve]:
    """The curves of a bucket, from the blob that `pack` made of them."""
    count, width = np.frombuffer(packed, "<i8", 2).tolist()
    index = np.frombuffer(packed, "<i8", 5 * count, offset=16).reshape(count, 5)
    values = np.frombuffer(packed, "<f8", offset=16 + 40 * count).reshape(-1, max(width, 1))
    start = 0
    for number, first_epoch, epochs, steps, members in index.tolist():
        stop = start + members * epochs
        trial_values = values[start:stop].reshape(members, epochs, values.shape[1])
        yield Curve.of_members(number, first_epoch, trial_values, steps)
        start = stop
