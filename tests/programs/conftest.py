"""Buckets of the golden programs, trained in this process in float64."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from sweeper.config import StudyConfig, parse
from sweeper.data.dataset import Dataset
from sweeper.executors.executor import Outcome, Work
from sweeper.executors.trainer import Trainer
from sweeper.scheduler.capacity import LaneLoop
from sweeper.scheduler.classes import Bucket, Lane, ProgramClass
from sweeper.scheduler.lattice import PartSize, Sizes, format_sizes
from sweeper.scheduler.signature import canonical, compiled_in, short_hash
from sweeper.trial import Scalar, TrialSpec
from tests.in_process import prepared
from tests.small_studies import DIGITS, bent

STUDY = bent(DIGITS, "study.seed=3", "execution.precision=float64")


@pytest.fixture(autouse=True, scope="module")
def _compiled_once(compiled_once: None) -> None:
    """Equal programs are compiled once."""


@pytest.fixture(autouse=True)
def _float64(float64: None) -> None:
    """Programs train in float64."""


@dataclass
class Bench:
    """Trains buckets of one study; specs are numbered by the caller."""

    config: StudyConfig
    directory: Path
    data: Dataset = field(init=False)
    trainer: Trainer = field(init=False)

    def __post_init__(self) -> None:
        self.data = prepared(self.config)
        self.trainer = Trainer(self.config, self.data, self.directory)

    def work(
        self,
        specs: Sequence[TrialSpec],
        *,
        lane_loop: LaneLoop = "map",
        capacity: int = 4,
        padded_to: tuple[int, int] | Mapping[str, tuple[int, int]] | None = None,
        run_widths: tuple[int, ...] = (),
        switched: bool = False,
        traced: Mapping[str, Sequence[Scalar]] | None = None,
        epochs: tuple[int, int] | None = None,
        after: Outcome | None = None,
    ) -> Work:
        """A bucket of `specs`, from the first epoch or continuing from the outcome `after`.

        `padded_to` is the width and depth of a padded class, or those of each part; `run_widths`
        are the widths at which it runs lanes, if there are several. If they are `switched`, the
        structures of `specs` are branches of a switch class.
        """
        start, stop = epochs or (0, self.config.train.epochs)
        files = {} if after is None else {lane.number: lane.checkpoint for lane in after.lanes}
        lanes = tuple(Lane(s.number, start, stop, files.get(s.number, "")) for s in specs)
        own = [
            canonical(compiled_in(self.config.settings_of(s.params), traced or {})) for s in specs
        ]
        branches = {settings: spec.params for settings, spec in zip(own, specs, strict=True)}
        settings = f"[{','.join(branches)}]" if switched else own[0]
        sizes: Sizes = ()
        if isinstance(padded_to, Mapping):
            sizes = tuple(PartSize(part, *size) for part, size in padded_to.items())
            padded_to = max(size.width for size in sizes), max(size.depth for size in sizes)
        width, depth = padded_to or (None, None)
        program = ProgramClass(
            class_id=short_hash(lane_loop, capacity, settings, width, depth, sizes, run_widths),
            settings=settings,
            strategy="switch" if switched else "exact" if padded_to is None else "padded",
            lane_loop=lane_loop,
            capacity=capacity,
            precision="float64",
            padded_width=width,
            padded_depth=depth,
            run_widths=run_widths,
            padded_parts=format_sizes(sizes),
            branches=tuple(branches.values()) if switched else (),
        )
        digests = {} if after is None else after.digests
        bucket = Bucket(0, program.class_id, "inline", lanes)
        return Work(start + 1, bucket, program, tuple(specs), digests)

    def train(self, specs: Sequence[TrialSpec], **how: object) -> Outcome:
        """The outcome of such a bucket; no lane may have failed."""
        outcome = self.trainer.train(self.work(specs, **how), "here", None)  # type: ignore[arg-type]
        for lane in outcome.lanes:
            assert lane.failure is None, lane.failure.error_message
        return outcome

    def curves(self, specs: Sequence[TrialSpec], **how: object) -> dict[int, NDArray[np.float64]]:
        """The curve of each trial of such a bucket."""
        return {lane.number: lane.curve.values for lane in self.train(specs, **how).lanes}


@pytest.fixture
def bench(tmp_path: Path) -> Callable[..., Bench]:
    def make(*overrides: str) -> Bench:
        return Bench(parse(STUDY, Path("study.toml"), list(overrides)), tmp_path)

    return make


def spec(number: int, **params: Scalar) -> TrialSpec:
    """Trial `number` with `params`."""
    return TrialSpec(number, params, params, 0)
