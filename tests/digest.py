"""One digest of everything that two runs of a study must agree on."""

from __future__ import annotations

import json
from hashlib import blake2b
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet, types

from sweeper.results.schema import study_metadata
from sweeper.rundir import RunDir

_TRIAL_ORDER = ("trial_number",)
_METRIC_ORDER = ("trial_number", "replicate", "fold", "epoch", "metric")


def deterministic_digest(run_dir: RunDir) -> str:
    """A digest of the deterministic columns of trials and metrics, floats by their bits.

    It does not depend on how metrics are divided into files, or on the order of rows.
    """
    trials = table_digest(run_dir.trials, _TRIAL_ORDER)
    metrics = table_digest(run_dir.metrics, _METRIC_ORDER)
    return blake2b(f"{trials} {metrics}".encode(), digest_size=32).hexdigest()


def table_digest(path: Path, order: tuple[str, ...]) -> str:
    """A digest of the deterministic columns of the file or directory `path`, sorted by `order`."""
    table = parquet.read_table(path)
    table = table.sort_by([(name, "ascending") for name in order])
    hashed = blake2b(digest_size=32)
    for name in deterministic_columns(table.schema):
        column = table[name].combine_chunks()
        content = _content(column)
        hashed.update(f"{name} {column.type} {len(content)} ".encode() + content)
    return hashed.hexdigest()


def _content(column: pa.Array) -> bytes:
    """The values of a column, and where they are null."""
    if types.is_string(column.type):
        return json.dumps(column.to_pylist()).encode()
    # the buffer's contents at a null are undefined
    values = column.fill_null(False if types.is_boolean(column.type) else 0)
    parts = (column.is_null(), values)
    return b"".join(part.to_numpy(zero_copy_only=False).tobytes() for part in parts)


def deterministic_columns(schema: pa.Schema) -> list[str]:
    """The deterministic columns of a published file, in their order."""
    columns = study_metadata(schema)["columns"]
    return [name for name in schema.names if columns[name]["deterministic"]]
