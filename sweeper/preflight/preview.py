"""What `plan` shows before a study starts: its data, its programs and its cost."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from sweeper.config import StudyConfig
from sweeper.config.data import CsvTable
from sweeper.config.search import IntSearch
from sweeper.data.dataset import Dataset
from sweeper.data.identity import MISSING_WORDS
from sweeper.data.lint import data_doubts
from sweeper.preflight.duration import (
    Duration,
    duration,
    lanes_per_device,
    largest_branch,
    notes,
    switch_classes,
)
from sweeper.scheduler.classes import Bucket, Plan, ProgramClass
from sweeper.scheduler.cost import MEASURED_ROWS, n_parameters
from sweeper.scheduler.forecast import Forecast, traced_structure
from sweeper.scheduler.lattice import LatticeClass, PaddedSize, format_sizes
from sweeper.scheduler.population import partnered_share
from sweeper.study.doubts import doubts, hints
from sweeper.study.options import n_proposals

# digits of the mean of a mode
_NUMBERS_SHOWN = 4


def data_preview(config: StudyConfig, data: Dataset) -> dict[str, Any]:
    """A summary of the data as JSON-able values."""
    features = [column for column in data.columns if column.role == "feature"]
    return {
        "train_rows": data.train_rows,
        "val_rows": data.val_rows,
        "test_rows": len(data.x_test),
        "features": data.n_features,
        "outputs": data.out_size,
        "rows": sum(len(y) for y in (data.y_train, data.y_val, data.y_test)),
        "numbers": sum(column.kind == "number" for column in features),
        "categories": sum(column.kind == "category" for column in features),
        "missing": sum(column.missing for column in features),
        "missing_values": _missing_values(config),
        "bytes": data.nbytes,
        "columns": [asdict(column) for column in data.columns],
        "targets": list(_targets(data)),
        "modes": list(_modes(data)),
        "classes": list(_classes(data)),
    }


def _missing_values(config: StudyConfig) -> list[str]:
    """The strings that mean a missing value; empty unless the data is a CSV file."""
    if not isinstance(config.data, CsvTable):
        return []
    words = config.data.missing_values
    return [*(MISSING_WORDS if words is None else words)]


def _targets(data: Dataset) -> Iterator[dict[str, Any]]:
    """For each target, its range in the training rows, in its own unit."""
    if data.class_names:
        return
    names = [column.name for column in data.columns if column.role == "target"]
    numbers = data.y_train * data.y_scale + data.y_mean
    for name, values in zip(names, numbers.T, strict=True):
        measures = {"mean": np.mean, "deviation": np.std, "least": np.min, "greatest": np.max}
        yield {"name": name, **{what: float(of(values)) for what, of in measures.items()}}


def _modes(data: Dataset) -> Iterator[dict[str, Any]]:
    """For each mode of a mixture, where its training rows are."""
    for name, mean in zip(data.mode_names, data.mode_means, strict=True):
        more = ", ..." if len(mean) > _NUMBERS_SHOWN else ""
        yield {"name": name, "mean": ", ".join(f"{x:.3g}" for x in mean[:_NUMBERS_SHOWN]) + more}


def _classes(data: Dataset) -> Iterator[dict[str, Any]]:
    """For each class, its rows in each split, and its weight in the loss."""
    parts = {"train": data.y_train, "val": data.y_val, "test": data.y_test}
    n_classes = len(data.class_names)
    counts = {part: np.bincount(y, minlength=n_classes) for part, y in parts.items() if n_classes}
    for place, name in enumerate(data.class_names):
        rows = {f"{part}_rows": int(count[place]) for part, count in counts.items()}
        weight = data.class_weights[place] if data.class_weights else 1.0
        yield {"name": name, **rows, "weight": weight}


# arrays of the size of the parameters that a step needs besides model and optimizer: gradients,
# updates and the new parameters
_WORKING_COPIES = 3
# digits of an expected number of trials
_DIGITS = 9
# below this share of trials with a partner, a search space is reported to stack badly
_FEW = 0.5


@dataclass(frozen=True, slots=True)
class Preview:
    """How a study would begin on this machine: its space, its lattice, its first round.

    `digests` are those of the inputs of the forecast. `idle_rules` are weight decay rules that
    match no array in some trials' models, `of_models` warnings about models.
    """

    config: StudyConfig
    data: Dataset
    forecast: Forecast
    plan: Plan
    device: str
    devices: int
    threads: int
    workers: int
    digests: Mapping[str, str]
    idle_rules: tuple[str, ...] = ()
    of_models: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """The preview as JSON-able values; `run --plan` reads its `forecast` and `digests`."""
        return {
            "study": self.config.study.name,
            "n_trials": n_proposals(self.config),
            "data": data_preview(self.config, self.data),
            "device": {
                "kind": self.device,
                "count": self.devices,
                "threads": self.threads,
                "workers": self.workers,
                "engine": self._engine(),
            },
            "strategy": self.config.execution.strategy,
            "lane_loop": self.forecast.lane_loop,
            "structures_in_space": self.config.n_structures,
            "space": self._space(),
            "lattice": list(self._lattice()),
            "switch": list(switch_classes(self.plan, self.devices)),
            "predicted": asdict(self._duration),
            "advice": self._advice(),
            "rules_without_use_in_some_trials": list(self.idle_rules),
            "notes": [
                *doubts(self.config),
                *data_doubts(self.config, self.data),
                *self.of_models,
                *hints(self.config),
                *notes(self.config, self.devices),
            ],
            "first_round": {
                "classes": [asdict(program) for program in self.plan.classes],
                "buckets": [self._bucket(bucket) for bucket in self.plan.buckets],
            },
            "forecast": self.forecast.as_dict(),
            "digests": dict(self.digests),
        }

    def _space(self) -> list[dict[str, Any]]:
        """Each searched setting, and whether trials with different values can share a bucket."""
        told = traced_structure(self.config, self.forecast.lane_loop)
        return [
            {
                "setting": key,
                "column": entry.column(key),
                "values": entry.count(),
                "splits_buckets": self._splitting(key, key in told),
                "when": entry.when,
                "same_as": None,
            }
            for key, entry in self.config.search.items()
        ] + [
            {
                "setting": key,
                "column": None,
                "values": None,
                "splits_buckets": self._splitting(source, source in told),
                "when": None,
                "same_as": source,
            }
            for key, source in self.config.same_as.items()
        ]

    def _splitting(self, key: str, is_told: bool) -> str:
        if is_told or not self.config.structural[key]:
            return "no"
        strategy = self.config.execution.strategy
        if strategy == "switch" and key != "train.batch_size":
            return "branches"
        is_size = key in ("model.width", "model.depth") and self.config.has_plain_mlps
        is_size = is_size and self.config.train.is_padded
        return "padded" if is_size and strategy in ("auto", "padded") else "yes"

    @property
    def _is_padding(self) -> bool:
        """Whether the lattice is used, rather than one program per structure."""
        if self.config.trial is not None:
            return False
        return self.config.execution.strategy in ("auto", "padded")

    def _lattice(self) -> Iterator[dict[str, Any]]:
        if not self._is_padding:
            return
        for name, family in self.forecast.families.items():
            for block in family.classes:
                if family.plain is None:
                    sizes: dict[str, Any] = {"parts": format_sizes(block.sizes)}
                else:
                    sizes = {
                        "run_widths": list(block.run_widths),
                        "for_widths": list(block.widths),
                        "for_depths": list(block.depths),
                    }
                compile_s = family.compile_s(PaddedSize(block.sizes), self.forecast.costs)
                yield {
                    "strategy": "exact" if block.structures == 1 else "padded",
                    "width": block.width,
                    "depth": block.depth,
                    **sizes,
                    "trials": round(block.trials, _DIGITS),
                    "structures": block.structures,
                    "compile_s": block.compile_s,
                    "train_s": block.train_s,
                    "waste_fraction": block.waste_fraction,
                    "why": why(block, compile_s),
                    "settings": json.loads(name),
                }

    def _engine(self) -> str | None:
        """The cluster that trains, and its address; None if this machine trains."""
        engine = self.config.execution.engine
        return None if engine is None else f"{engine.name} at {engine.address}"

    @property
    def _duration(self) -> Duration:
        busy = max(1, self.threads or self.workers)
        return duration(self.config, self.forecast, self.plan, busy, self.devices)

    def _advice(self) -> str | None:
        """What would let more trials stack, if hardly two of them have the same structure."""
        share = partnered_share(self.config, n_proposals(self.config))
        if (
            not self.config.has_plain_mlps
            or not self.forecast.families
            or share >= _FEW
            or self.config.trial is not None
        ):
            return None
        told = f"{100 * share:.0f} % of the trials will have another of the same structure"
        waste_s = self._duration.waste_s
        widths = self.config.entry("model.width")
        if not isinstance(widths, IntSearch) or widths.base == 2:
            return f"{told}; padding them costs {waste_s:.1f} s of training"
        return (
            f"{told}; with base = 2 (or a step) in search.model.width more would have one; "
            f"otherwise padding costs {waste_s:.1f} s of training"
        )

    def _bucket(self, bucket: Bucket) -> dict[str, Any]:
        program = next(c for c in self.plan.classes if c.class_id == bucket.class_id)
        return {
            "bucket": bucket.bucket,
            "class_id": bucket.class_id,
            "side": bucket.side,
            "trials": list(bucket.numbers),
            "epoch_to": max(lane.epoch_to for lane in bucket.lanes),
            "predicted_train_s": bucket.predicted_train_s,
            "waste_fraction": bucket.waste_fraction,
            "memory_bytes": self._memory_bytes(program),
        }

    def _memory_bytes(self, program: ProgramClass) -> int | None:
        """The approximate memory of a bucket: states, a step's workspace, and the data."""
        settings: Mapping[str, Any] = largest_branch(program)
        width = program.padded_width or settings.get("model.width")
        depth = program.padded_depth or settings.get("model.depth")
        work = next((family.plain for family in self.forecast.families.values()), None)
        if width is None or depth is None or work is None:
            return None
        data = self.data
        lanes = lanes_per_device(program, self.devices)
        at_once = lanes if program.lane_loop == "vmap" else 1
        state = n_parameters(width, depth, work) * (1 + work.optimizer_slots)
        working = n_parameters(width, depth, work) * _WORKING_COPIES
        rows = max(work.batch_size, min(work.val_rows, MEASURED_ROWS)) * width * depth
        numbers = 2 * lanes * state + at_once * (working + rows)
        arrays = (data.x_train, data.y_train, data.x_val, data.y_val, data.x_test, data.y_test)
        order = 4 * self.config.max_epochs * work.steps * work.batch_size
        return numbers * work.bytes_per_number + sum(a.nbytes for a in arrays) + order


def why(block: LatticeClass, compile_s: float) -> str:
    """Why the lattice has this class, which takes `compile_s` seconds to compile."""
    if block.structures == 1:
        return "one structure, with enough trials for a program of its own"
    others = min(block.structures, round(block.trials)) - 1
    if others < 1:
        return "too few trials to judge; it fits whatever the sampler may draw"
    more_s, less_s = others * compile_s, block.train_s - block.exact_train_s
    programs = "1 more program" if others == 1 else f"{others} more programs"
    return f"{programs} would compile {more_s:.1f} s longer and train {less_s:.1f} s less"
