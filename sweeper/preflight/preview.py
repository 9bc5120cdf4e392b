"""What `plan` shows before a study starts: its data, its programs and its cost."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweeper.config import StudyConfig
from sweeper.config.data import CsvTable
from sweeper.config.lint import study_hints
from sweeper.config.search import IntSearch
from sweeper.data.dataset import Dataset
from sweeper.data.identity import MISSING_WORDS
from sweeper.data.lint import data_warnings
from sweeper.errors import counted
from sweeper.preflight.program_memory import memory_bytes
from sweeper.results import formatting
from sweeper.results.baseline import Baseline, describe_leak
from sweeper.scheduler.classes import Bucket, Plan, ProgramClass
from sweeper.scheduler.forecast import REST, Forecast, digest_of_rest, traced_structure
from sweeper.scheduler.lattice import LatticeClass, PaddedSize, format_sizes
from sweeper.scheduler.plan_warnings import hardly_shared, long_round
from sweeper.scheduler.policy import Parallel
from sweeper.scheduler.population import partnered_share
from sweeper.study.learning import Learned, no_effect
from sweeper.study.limits import n_proposals
from sweeper.study.lint import study_warnings
from sweeper.sweep.unpublished import learning_gaps


@dataclass(frozen=True, slots=True)
class Concurrency:
    """How many programs compile, and how many buckets train at full speed, at the same time."""

    compilers: int
    places: int


@dataclass(frozen=True, slots=True)
class DurationEstimate:
    """The predicted time of a study, also with one program per structure instead.

    Seconds, summed over all programs, except for the totals, which start with the command. All are
    0 if the cost model does not cover such models.
    """

    compile_s: float
    train_s: float
    waste_s: float
    total_s: float
    exact_compile_s: float
    exact_train_s: float
    exact_total_s: float


@dataclass(frozen=True, slots=True)
class _Programs:
    """A group of equal programs: compiling one of them, and training the trials of all."""

    count: float
    compile_s: float
    train_s: float
    trials: float

    @property
    def compiling_s(self) -> float:
        return self.count * self.compile_s

    def slowest_s(self, busy: Concurrency) -> float:
        """Seconds for one of them alone: one thread compiles it, and all train its trials."""
        at_once = min(busy.places, max(1.0, self.trials / self.count))
        return self.compile_s + self.train_s / self.count / at_once


def duration(
    config: StudyConfig, forecast: Forecast, plan: Plan, busy: Concurrency, devices: int
) -> DurationEstimate:
    """The duration of a study whose first round is `plan`."""
    exact = [*_exact(forecast)]
    blocks = [block for block, _ in _blocks(forecast)]
    programs = [_Programs(1, one.compile_s, one.train_s, one.trials) for one in blocks]
    if config.trial is not None:
        programs, exact = _of_trial(config.trial.epochs, plan, forecast)
    elif config.execution.strategy not in ("auto", "padded"):
        programs = exact
    compile_s, train_s = _sums(programs)
    exact_compile_s, exact_train_s = _sums(exact)
    start_s = forecast.costs.start_s
    if any(bucket.side == "process" for bucket in plan.buckets):
        start_s += forecast.costs.worker_start_s
    total_s = start_s + _busy_s(programs, busy)
    if config.execution.strategy == "switch":
        total_s = start_s + compile_s + train_s / devices
    is_known = bool(programs)
    return DurationEstimate(
        compile_s=compile_s,
        train_s=train_s,
        waste_s=train_s - exact_train_s,
        total_s=total_s * is_known,
        exact_compile_s=exact_compile_s,
        exact_train_s=exact_train_s,
        exact_total_s=(start_s + _busy_s(exact, busy)) * is_known,
    )


def _blocks(forecast: Forecast) -> Iterator[tuple[LatticeClass, float]]:
    """The classes of the lattice, with the seconds to compile one structure of each."""
    for family in forecast.families.values():
        for block in family.classes:
            yield block, family.compile_s(PaddedSize(block.sizes), forecast.costs)


def _exact(forecast: Forecast) -> Iterator[_Programs]:
    """One program per structure that has a trial."""
    for block, each_s in _blocks(forecast):
        count = min(block.structures, block.trials)
        yield _Programs(count, each_s, block.exact_train_s, block.trials)


def _of_trial(
    epochs: int, plan: Plan, forecast: Forecast
) -> tuple[list[_Programs], list[_Programs]]:
    """The program named by a study of one trial, and one with the trial's own size."""
    if not plan.buckets:  # the trial violates a constraint, so it is not trained
        return [], []
    (program,), (bucket,) = plan.classes, plan.buckets
    if program.predicted_compile_s is None or bucket.predicted_train_s is None:
        return [], []
    (lane, *_) = bucket.lanes
    train_s = bucket.predicted_train_s * epochs / (lane.epoch_to - lane.epoch_from)
    exact_train_s = train_s * (1 - (bucket.waste_fraction or 0.0))
    exact = [_Programs(1, each_s, exact_train_s, 1) for _, each_s in _blocks(forecast)]
    return [_Programs(1, program.predicted_compile_s, train_s, 1)], exact


def _sums(programs: Sequence[_Programs]) -> tuple[float, float]:
    """Seconds of compiling and of training, summed over all programs."""
    return sum(each.compiling_s for each in programs), sum(each.train_s for each in programs)


def _busy_s(programs: Sequence[_Programs], busy: Concurrency) -> float:
    """Seconds until all is trained: the work is shared, but one thread compiles a class."""
    slowest_s = max((each.slowest_s(busy) for each in programs), default=0.0)
    compile_s, train_s = _sums(programs)
    return max(compile_s / busy.compilers + train_s / busy.places, slowest_s)


def switch_classes(plan: Plan, devices: int) -> Iterator[dict[str, Any]]:
    """The programs of several structures at the start of a plan."""
    for program in plan.classes:
        if program.strategy == "switch":
            yield {
                "class_id": program.class_id,
                "branches": json.loads(program.settings),
                "devices": devices,
                "lanes_per_device": lanes_per_device(program, devices),
                "compile_s": program.predicted_compile_s,
            }


def lanes_per_device(program: ProgramClass, devices: int) -> int:
    """How many lanes of a class fit on one device."""
    is_spread = program.strategy == "switch"
    return math.ceil(program.capacity / devices) if is_spread else program.capacity


def idle_threads(parallel: int, n_trials: int, threads: int) -> Iterator[str]:
    """A hint if fewer trials train at a time than could."""
    usable = min(threads, n_trials)
    if parallel < usable:
        yield (
            f"with {counted(parallel, 'trial')} at a time, at most {parallel} of {threads} threads "
            f"are busy; schedule.parallel = {usable} uses more"
        )


def notes(config: StudyConfig, devices: int) -> Iterator[str]:
    """What users of the study's strategy may not expect."""
    strategy = config.execution.strategy
    if config.trial is None and strategy in ("auto", "padded") and "python" in config.kinds:
        yield (
            "user-defined models are never padded: trials of one structure share a program, but "
            'similar ones do not; strategy = "switch" trains several structures in one'
        )
    if strategy == "switch" and devices == 1:
        yield (
            "switch spreads trials over devices, but there is only one: it trains them one after "
            'the other, which takes no less time than strategy = "exact"'
        )


# digits of the mean of a mode
_NUMBERS_SHOWN = 4


def data_preview(config: StudyConfig, data: Dataset) -> dict[str, Any]:
    """A summary of the data as JSON-able values."""
    features = [column for column in data.columns if column.role == "feature"]
    return {
        "train_rows": data.train_rows,
        "val_rows": data.val_rows,
        "test_rows": len(data.x_test),
        "rows_of_folds": _rows_of_folds(data),
        "features": data.n_features,
        "outputs": data.out_size,
        "weight": config.data.weight_column,
        "rows": len(data.all_targets(config.data.split.train_on)),
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


def _rows_of_folds(data: Dataset) -> list[dict[str, int]]:
    """The training and validation rows of each fold; empty without folds."""
    counts = data.rows_of_folds if data.n_folds else ()
    return [{"train_rows": train, "val_rows": val} for train, val in counts]


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
    numbers = data.targets_in_unit(data.y_train)
    for name, values in zip(names, numbers.T, strict=True):
        yield {"name": name, **target_range(values)}


def target_range(values: NDArray[np.floating]) -> dict[str, float]:
    """Measures of a target, to six digits of its range (or of a constant, which has none).

    32-bit floats may not keep more. A least value of 0 stays 0, also after scaling and back.
    """
    digits = 6 - int(np.ceil(np.log10(np.ptp(values) or np.abs(values).max() or 1.0)))
    measures = {"mean": np.mean, "deviation": np.std, "least": np.min, "greatest": np.max}
    return {what: round(float(of(values)), digits) + 0.0 for what, of in measures.items()}


def _modes(data: Dataset) -> Iterator[dict[str, Any]]:
    """For each mode of a mixture, where its training rows are."""
    for name, mean in zip(data.mode_names, data.mode_means, strict=True):
        more = ", ..." if len(mean) > _NUMBERS_SHOWN else ""
        shown = ", ".join(formatting.number(float(x), 3) for x in mean[:_NUMBERS_SHOWN])
        yield {"name": name, "mean": shown + more}


def _classes(data: Dataset) -> Iterator[dict[str, Any]]:
    """For each class, its rows in each split, and its weight in the loss."""
    parts = {"train": data.y_train, "val": data.y_val, "test": data.y_test}
    n_classes = len(data.class_names)
    counts = {part: np.bincount(y, minlength=n_classes) for part, y in parts.items() if n_classes}
    for place, name in enumerate(data.class_names):
        rows = {f"{part}_rows": int(count[place]) for part, count in counts.items()}
        weight = data.class_weights[place] if data.class_weights else 1.0
        yield {"name": name, **rows, "weight": weight}


# digits of an expected number of trials
_DIGITS = 9
# if a smaller share of the trials has another of the same structure, `plan` gives advice
_FEW = 0.5


@dataclass(frozen=True, slots=True)
class Preview:
    """How a study would begin on this machine: its space, its lattice, its first round."""

    config: StudyConfig
    data: Dataset
    forecast: Forecast
    plan: Plan
    device: str
    devices: int
    threads: int
    workers: int
    places: int | None
    """How many buckets train at full speed at the same time; None if not known."""
    parallel: Parallel
    digests: Mapping[str, str]
    """Those of the inputs of the forecast."""
    baseline: Baseline
    """Simple models to compare trials with."""
    idle_rules: tuple[str, ...] = ()
    """Weight decay rules that match no array in some trials' models."""
    of_models: tuple[str, ...] = ()
    """Warnings about models."""
    learned: Learned = field(default_factory=Learned)
    """The trials of earlier studies that it would learn from."""
    infeasible: tuple[int, ...] = ()
    """The trials of the first round that would not be trained."""

    def as_dict(self) -> dict[str, Any]:
        """The preview as JSON-able values; `run --plan` reads its `forecast` and `digests`."""
        engine = self.config.execution.engine
        no_use = no_effect(self.config, self.learned)
        learning = [*self.learned.messages, *learning_gaps(self.learned), *filter(None, [no_use])]
        plan = {
            "study": self.config.study.name,
            "metric": self.config.study.metric,
            "n_trials": n_proposals(self.config),
            "data": data_preview(self.config, self.data),
            "baseline": asdict(self.baseline),
            "device": {
                "kind": self.device,
                "count": self.devices,
                "threads": self.threads,
                "workers": self.workers,
                "engine": engine and f"{engine.name} at {engine.address}",
            },
            "parallel": asdict(self.parallel),
            "strategy": self.config.execution.strategy,
            "lane_loop": self.forecast.lane_loop,
            "structures_in_space": self.config.n_structures,
            "space": self._space(),
            "lattice": list(self._lattice()),
            "trials_outside_lattice": self._outside(),
            "switch": list(switch_classes(self.plan, self.devices)),
            "predicted": asdict(self.predicted),
            "advice": self._advice(),
            "rules_without_use_in_some_trials": list(self.idle_rules),
            "learned": self.learned.counts,
            "learning": learning,
            "notes": [
                *learning,
                *study_warnings(self.config),
                *data_warnings(self.config, self.data),
                *filter(None, [describe_leak(self.baseline)]),
                *hardly_shared(self.plan, self.config.execution.strategy),
                *long_round(self.plan, self.places),
                *self.of_models,
                *study_hints(self.config),
                *notes(self.config, self.devices),
                *idle_threads(self.parallel.trials, n_proposals(self.config), self.threads),
                *self._left_out(),
                *self._not_trained(),
            ],
            "first_round": {
                "infeasible": list(self.infeasible),
                "classes": [asdict(program) for program in self.plan.classes],
                "buckets": [self._bucket(bucket) for bucket in self.plan.buckets],
            },
            "forecast": self.forecast.as_dict(),
        }
        return {**plan, "digests": {**self.digests, REST: digest_of_rest(plan)}}

    def _space(self) -> list[dict[str, Any]]:
        """Each searched setting, and whether trials with different values can share a bucket."""
        drawn = [
            {
                "setting": key,
                "column": entry.column(key),
                "values": entry.count(),
                "splits_buckets": self._splitting(key),
                "when": entry.when,
                "same_as": None,
            }
            for key, entry in self.config.search.items()
        ]
        by_key = {row["setting"]: row for row in drawn}
        blank = {"column": None, "values": None, "when": None}
        links = self.config.same_as.items()
        return drawn + [{**by_key[of], "setting": key, **blank, "same_as": of} for key, of in links]

    def _splitting(self, key: str) -> str:
        traced = traced_structure(self.config, self.forecast.lane_loop)
        if key in traced or not self.config.structural[key]:
            return "no"
        strategy = self.config.execution.strategy
        if strategy == "switch" and key != "train.batch_size":
            return "branches"
        is_size = key in ("model.width", "model.depth") and self.config.padded_kinds
        is_size = is_size and self.config.train.is_padded
        return "padded" if is_size and strategy in ("auto", "padded") else "yes"

    def _lattice(self) -> Iterator[dict[str, Any]]:
        """The classes of the lattice, if it is used rather than one program per structure."""
        strategy = self.config.execution.strategy
        if self.config.trial is not None or strategy not in ("auto", "padded"):
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

    def _outside(self) -> float:
        """How many trials are expected to fit into no class of the lattice; 0 if it is not used."""
        inside = [block["trials"] for block in self._lattice()]
        outside = n_proposals(self.config) - sum(inside) if inside else 0.0
        return round(max(0.0, outside), _DIGITS)

    def _left_out(self) -> Iterator[str]:
        """A note on those trials, since neither the lattice nor the predictions include them."""
        outside = round(self._outside())
        if outside:
            trials = counted(outside, "trial")
            yield (
                f"about {trials} of {n_proposals(self.config)} will not be part of the lattice, "
                "because their models cannot be padded, such as an MLP without hidden layers; each "
                "of their structures has its own program, which the predicted times leave out"
            )

    def _not_trained(self) -> Iterator[str]:
        """A note on trials of the first round whose number of parameters violates a constraint."""
        if not self.infeasible:
            return
        trained = {number for bucket in self.plan.buckets for number in bucket.numbers}
        n_all = len(self.infeasible) + len(trained)
        yield (
            f"{len(self.infeasible)} of the first {counted(n_all, 'trial')} would not be trained, "
            "because their number of parameters violates study.constraints; the lattice and the "
            "predicted times count such trials, so the study may take less time"
        )

    @property
    def predicted(self) -> DurationEstimate:
        compilers = max(1, self.threads or self.workers)
        # times are for one worker of an engine if their number is not known
        busy = Concurrency(compilers, self.places or compilers)
        return duration(self.config, self.forecast, self.plan, busy, self.devices)

    def _advice(self) -> str | None:
        """What would let more trials share programs, if few of them have the same structure."""
        share = partnered_share(self.config, n_proposals(self.config))
        if (
            not self.config.padded_kinds
            or not self.forecast.families
            or share >= _FEW
            or self.config.trial is not None
        ):
            return None
        sentence = f"{100 * share:.0f} % of the trials will have another of the same structure"
        waste_s = self.predicted.waste_s
        widths = self.config.entry("model.width")
        if not isinstance(widths, IntSearch) or widths.base == 2:
            return f"{sentence}; padding them costs {waste_s:.1f} s of training"
        return (
            f"{sentence}; with base = 2 (or a step) in search.model.width more would have one; "
            f"otherwise padding costs {waste_s:.1f} s of training"
        )

    def _bucket(self, bucket: Bucket) -> dict[str, Any]:
        program = next(c for c in self.plan.classes if c.class_id == bucket.class_id)
        lanes = lanes_per_device(program, self.devices)
        return {
            "bucket": bucket.bucket,
            "class_id": bucket.class_id,
            "side": bucket.side,
            "trials": list(bucket.numbers),
            "epoch_to": max(lane.epoch_to for lane in bucket.lanes),
            "predicted_train_s": bucket.predicted_train_s,
            "waste_fraction": bucket.waste_fraction,
            "memory_bytes": memory_bytes(self.config, self.data, program, lanes),
        }


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
