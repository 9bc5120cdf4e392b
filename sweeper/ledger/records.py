"""What is written to a ledger, and what comes back from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sweeper.trial import Curve, TrialSpec


@dataclass(frozen=True, slots=True)
class BucketRecord:
    """What a bucket brought to its round: its row of buckets.parquet, and its lanes' curves."""

    row: Mapping[str, Any]
    curves: tuple[Curve, ...]


@dataclass(frozen=True, slots=True)
class Closing:
    """What a round decided.

    `live` maps each unfinished trial to the checkpoint file that holds its state, `digests` each
    checkpoint file to its digest, `attributes` a trial to what sampler and pruner keep with it.
    `metrics` names the columns of every curve of the round, `ahead` the proposals that wait for a
    later round.
    """

    metrics: tuple[str, ...]
    elapsed_s: float
    live: Mapping[int, str]
    digests: Mapping[str, str]
    attributes: Mapping[int, Mapping[str, Any]]
    ahead: tuple[TrialSpec, ...] = ()


@dataclass(frozen=True, slots=True)
class OpenRound:
    """A round that was planned and not closed, with the trials that it adds."""

    round: int
    specs: tuple[TrialSpec, ...]
    plan: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ClosedRound:
    """A round from its plan to its end; `ended` maps the trials that it finished to their rows."""

    round: int
    specs: tuple[TrialSpec, ...]
    plan: Mapping[str, Any]
    records: tuple[BucketRecord, ...]
    closing: Closing
    ended: Mapping[int, Mapping[str, Any]]
