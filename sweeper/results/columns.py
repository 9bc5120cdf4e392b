"""The columns of the published Parquet files: a contract with everything that reads them.

Each column has a name, a type, a meaning and marks. A column marked D is deterministic: equal
between an unbroken and a resumed run, and for any number of threads and workers. The exceptions are
wall-time limits that take effect, and training that runs out of memory, after which trials run in
programs with fewer lanes. A column marked R is never null. Adding a column keeps `SCHEMA_VERSION`;
the order never changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Flag, auto
from hashlib import blake2b

import pyarrow as pa

SCHEMA_VERSION = 1
METADATA_KEY = b"sweeper"
DIGEST_KEY = b"sweeper_digest"
LEAST_TRIALS = 10  # complete ones, to compute importances

INT32 = pa.int32()
INT64 = pa.int64()
DOUBLE = pa.float64()
STRING = pa.string()
BOOL = pa.bool_()
TIME = pa.timestamp("us", tz="UTC")


def schema_digest(schema: pa.Schema, about_study: bytes) -> bytes:
    """The digest of a table's columns and of what its metadata say of its study."""
    fields = "\n".join(f"{field.name} {field.type}" for field in schema)
    return blake2b(fields.encode() + about_study, digest_size=16).hexdigest().encode()


class Mark(Flag):
    """What a column guarantees."""

    NOTHING = 0
    DETERMINISTIC = auto()
    REQUIRED = auto()


SECONDS, BYTES, UTC = "seconds", "bytes", "time, UTC"
_UNITS = {"_s": SECONDS, "_bytes": BYTES, "bytes_limit": BYTES, "_at": UTC}
_NAMED_BY_USERS = ("params_", "final_", "test_")


def unit_of(name: str) -> str | None:
    """The unit of a column, from its suffix; None for parameters and metrics, named by users."""
    if name.startswith(_NAMED_BY_USERS):
        return None
    return next((unit for end, unit in _UNITS.items() if name.endswith(end)), None)


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a published table."""

    name: str
    type: pa.DataType
    meaning: str
    mark: Mark = Mark.NOTHING

    @property
    def deterministic(self) -> bool:
        """Whether it is equal between any two runs of the study."""
        return Mark.DETERMINISTIC in self.mark

    @property
    def nullable(self) -> bool:
        """Whether the column may contain nulls."""
        return Mark.REQUIRED not in self.mark

    @property
    def unit(self) -> str | None:
        """The unit of the numbers, from the name of the column."""
        return unit_of(self.name)


D, R = Mark.DETERMINISTIC, Mark.REQUIRED

OUTCOME = (
    Column("schema_version", INT32, "version of these columns", D | R),
    Column("study", STRING, "study.name", D | R),
    Column("run_id", STRING, "the program start that finished it", R),
    Column("trial_number", INT64, "Optuna's trial number; the key", D | R),
    Column("state", STRING, "COMPLETE, PRUNED or FAIL", D | R),
    Column(
        "reason",
        STRING,
        "why it ended early: pruned, diverged, early_stop, error, oom, "
        "timeout, worker_died, max_failures, stopped or infeasible",
        D,
    ),
    Column("value", DOUBLE, "the objective, in the user's sign; with several, the first", D),
    Column(
        "objective", STRING, "study.metric, which `value` is; with several, a JSON array", D | R
    ),
    Column("direction", STRING, "study.direction; with several, a JSON array", D | R),
)

BEST = (
    Column(
        "best_value",
        DOUBLE,
        "the best value of the first objective over epochs, after averaging the replicates and "
        "folds still in training",
        D,
    ),
    Column(
        "best_epoch",
        INT32,
        "the first epoch with best_value, from 1; always 1 if the first objective is n_parameters, "
        "and not always the epoch of value and of the weights",
        D,
    ),
    Column("epochs_done", INT32, "epochs trained", D | R),
)

PARAMS_JSON = Column("params_json", STRING, "the exact parameters", D | R)

CIRCUMSTANCES = (
    Column("value_std", DOUBLE, "sample standard deviation of value over members", D),
    Column("n_replicates", INT32, "number of replicates that value averages", D),
    Column("n_folds", INT32, "number of folds that value averages", D),
    Column("n_parameters", INT64, "number of parameters of the exact model", D | R),
    Column(
        "strategy", STRING, "exact, padded, switch or process; none if it was not trained", D | R
    ),
    Column("class_id", STRING, "the class that trained it", D),
    Column("lane_loop", STRING, "how the class runs its lanes: vmap or map", D),
    Column(
        "capacity",
        INT32,
        "lanes of the last program that trained it; fewer than planned if memory ran short",
        D,
    ),
    Column("padded_width", INT32, "width of the class, if it is padded", D),
    Column("padded_depth", INT32, "depth of the class, if it is padded", D),
    Column("structure_id", STRING, "hash of the structural hyperparameters", D | R),
    Column("told_through_round", INT64, "the last round whose results the sampler knew", D | R),
    Column("first_round", INT64, "the first round that trained it", D | R),
    Column("last_round", INT64, "the last round that trained it", D | R),
    Column("seed", INT64, "the study's seed, which determines its random draws", D | R),
    Column("diverged_epoch", INT32, "the epoch whose loss was not finite", D),
    Column("error_type", STRING, "the class of the error that ended it"),
    Column(
        "error_message",
        STRING,
        "why it failed, in one line; after an empty line, the traceback, if any",
    ),
    Column("attempts", INT32, "how many times it was tried", R),
    Column("device", STRING, "the last device that trained it; for several members, all of them"),
    Column("place", STRING, "the last thread or worker that trained it"),
    Column("host", STRING, "the last machine that trained it"),
    Column("worker_pid", INT64, "the last process that trained it"),
    Column("memory_fraction", DOUBLE, "share of the device's memory set for the worker"),
    Column("bytes_limit", INT64, "memory limit of the device"),
    Column("started_at", TIME, "start of its training"),
    Column("finished_at", TIME, "when its end was decided, after its round was trained"),
    Column(
        "train_s",
        DOUBLE,
        "its share of its buckets' training, divided equally among the epochs of their lanes",
    ),
    Column("compile_share_s", DOUBLE, "its share of its buckets' compile time"),
    Column("lane_s", DOUBLE, "training time of its buckets, including their other lanes"),
    Column("peak_memory_bytes", INT64, "highest peak memory of its buckets"),
    Column("model_path", STRING, "its weights, relative to the run directory"),
)

PADDED_PARTS = Column(
    "padded_parts", STRING, "width and depth of each part of the class, if it is padded", D
)
RUN_WIDTHS = Column(
    "run_widths", STRING, "widths that a padded class runs lanes at, if it has several", D
)
XLA_THREADS = Column(
    "xla_threads",
    INT32,
    "number of XLA threads for its programs, on a CPU: last bits of large sums depend on it",
)
FIXED_START = Column(
    "fixed_start",
    BOOL,
    "whether its model, or a part of it, has the same initial weights for every random key",
    D,
)
ENQUEUED = Column(
    "enqueued",
    BOOL,
    "whether parameters of it were given, by study.enqueue or by the command enqueue; null in rows "
    "of earlier versions",
    D,
)
FEASIBLE = Column("feasible", BOOL, "whether it meets the constraints of the study", D)


def spread_of(column: str) -> str:
    """The column of the standard deviation of `column` over replicates and folds."""
    return f"{column}_std"


BOUNDARY = Column(
    "boundary",
    STRING,
    "what settings, libraries, device or flags changed between sessions: from here on, rows may "
    "differ from those of an unbroken run",
)

METRICS = (
    Column("study", STRING, "study.name", D | R),
    Column("trial_number", INT64, "the trial", D | R),
    Column("replicate", INT32, "counts from 0", D | R),
    Column("fold", INT32, "counts from 0", D | R),
    Column("epoch", INT32, "counts from 1", D | R),
    Column("step", INT64, "optimizer steps taken by the end of the epoch", D | R),
    Column("metric", STRING, "name of the metric", D | R),
    Column("phase", STRING, "phase of the training, if there are several", D),
    Column("value", DOUBLE, "the value; null if it is not finite", D),
    Column("elapsed_s", DOUBLE, "time from the start of the program to the end of the round"),
)

BUCKETS = (
    Column("round", INT64, "counts from 1", R),
    Column("bucket_id", INT64, "the bucket, numbered within its round", R),
    Column("class_id", STRING, "the class of its program"),
    Column("strategy", STRING, "exact, padded, switch or process"),
    Column("lane_loop", STRING, "vmap or map"),
    Column(
        "capacity",
        INT32,
        "lanes of its program; halved repeatedly from the plan if memory is short",
    ),
    Column("lanes_live", INT32, "lanes that held a trial"),
    Column(
        "trials",
        STRING,
        "numbers of its trials in the order of their lanes, each once, a list as JSON; each "
        "replicate and fold of a trial has its own lane",
        R,
    ),
    Column("place", STRING, "the thread or worker that ran it"),
    Column("device", STRING, "the device that ran it; for a switch class, all, such as cpu:0,1"),
    Column("started_at", TIME, "when it was started"),
    Column("compile_s", DOUBLE, "time to compile, or to load from the cache"),
    Column("cache_hit", BOOL, "whether its program was in the compile cache"),
    Column("train_s", DOUBLE, "training"),
    Column("predicted_compile_s", DOUBLE, "compile_s predicted by the cost model"),
    Column("predicted_train_s", DOUBLE, "train_s predicted by the cost model"),
    Column("waste_fraction", DOUBLE, "share of the work in padding and empty lanes"),
    Column("epochs_from", INT32, "first epoch of the segment, counted from 1"),
    Column("epochs_to", INT32, "last epoch of the segment"),
    Column("memory_predicted_bytes", INT64, "memory predicted before launch"),
    Column("memory_peak_bytes", INT64, "measured memory"),
    Column("attempt", INT32, "counts from 1"),
    Column("outcome", STRING, "how the bucket ended"),
    Column(
        "occupancy",
        DOUBLE,
        "share of its lanes and epochs in which a trial was trained; rounds of earlier versions "
        "count planned epochs",
    ),
    Column("capacity_planned", INT32, "lanes of the class"),
    Column("memory_limit_bytes", INT64, "the most memory that a program may take on the device"),
    Column("finished_at", TIME, "when its training ended"),
    Column("class_name", STRING, "the class in words: searched settings that are compiled in"),
    BOUNDARY,
)

SPANS = (
    Column("run_id", STRING, "the program start, as in trials.parquet", R),
    Column("round", INT64, "the round that it was recorded with; null after the last one"),
    Column("place", STRING, "program, or a thread or worker as in buckets.parquet", R),
    Column(
        "activity",
        STRING,
        "import, data (wait for the prepared data), open (open devices, study and ledger), ask, "
        "commit, publish, wait for simple models (baseline), average models (ensemble); compile a "
        "program, load one from the cache, train, initialize models, other work on a "
        "bucket (bucket), start a worker (worker), or work that was lost with a worker (lost); "
        "time without a span is idle",
        R,
    ),
    Column("started_at", TIME, "when it began", R),
    Column("finished_at", TIME, "when it ended, or was interrupted by another span", R),
    Column("bucket_id", INT64, "the bucket, numbered within its round; null if there is none"),
    Column("class_id", STRING, "the class whose program was compiled or loaded"),
)

IMPORTANCE = (
    Column("round", INT32, "the last round that it was computed from", R),
    Column("metric", STRING, "the optimised metric", R),
    Column("parameter", STRING, "the parameter, by its name in the study", R),
    Column("importance", DOUBLE, "Optuna's PED-ANOVA; sums to 1 for each objective", R),
    Column("n_trials", INT64, "number of complete trials that it was computed from", R),
    Column("computed_at", TIME, "when it was computed", R),
    Column(
        "fanova",
        DOUBLE,
        "share of the variance of the values that the parameter explains alone, by functional "
        "ANOVA of a random forest, among the trials that have it; null if fewer than 10 have it",
    ),
    Column(
        "rank_correlation",
        DOUBLE,
        "Spearman's rank correlation of the parameter and the objective, among the same trials; "
        "null for choices that are not numbers, and if either is constant",
    ),
    Column("n_trials_with", INT64, "number of complete trials that have the parameter"),
)
