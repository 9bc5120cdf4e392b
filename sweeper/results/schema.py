"""The schemas of a study's published files, and their description in `SCHEMA.md`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from sweeper.config import StudyConfig
from sweeper.files import holds, read_small, write_unsynced
from sweeper.process import LIBRARIES, installed_versions
from sweeper.results.columns import (
    BEST,
    BOOL,
    BOUNDARY,
    BUCKETS,
    CIRCUMSTANCES,
    DIGEST_KEY,
    DOUBLE,
    ENQUEUED,
    FEASIBLE,
    FIXED_START,
    IMPORTANCE,
    INT64,
    METADATA_KEY,
    METRICS,
    OUTCOME,
    PADDED_PARTS,
    PARAMS_JSON,
    RUN_WIDTHS,
    SCHEMA_VERSION,
    SPANS,
    STRING,
    XLA_THREADS,
    Column,
    D,
    schema_digest,
    spread_of,
)
from sweeper.results.ranking import value_columns
from sweeper.rundir import RunDir

# packages that write files and start workers, but do not affect results
_WRITING = ("joblib", "pyarrow")
_AT_LAST = "after the last epoch, averaged over the replicates and folds that trained it"


def trials_schema(config: StudyConfig) -> pa.Schema:
    """The schema of trials.parquet: one row per finished trial, sorted by trial_number."""
    return _schema(config, _trials_columns(config))


def metrics_schema(config: StudyConfig) -> pa.Schema:
    """The schema of each part of metrics/: one row per value."""
    return _schema(config, METRICS)


def buckets_schema(config: StudyConfig) -> pa.Schema:
    """The schema of buckets.parquet: one row per bucket and round."""
    return _schema(config, BUCKETS)


def spans_schema(config: StudyConfig) -> pa.Schema:
    """The schema of spans.parquet: one row per span of time."""
    return _schema(config, SPANS)


def importance_schema(config: StudyConfig) -> pa.Schema:
    """The schema of importance.parquet: one row per objective and parameter."""
    return _schema(config, IMPORTANCE)


def columns_of_tables(config: StudyConfig | None) -> dict[str, list[dict[str, Any]]]:
    """The columns of each table as JSON-able values, for one study or for any.

    For any study, `<name>` is a searched parameter and `<metric>` a reported metric.
    """
    tables = {
        "trials.parquet": _trials_columns(config),
        "metrics/": METRICS,
        "buckets.parquet": BUCKETS,
        "spans.parquet": SPANS,
        "importance.parquet": IMPORTANCE,
    }
    return {name: [_described(column) for column in columns] for name, columns in tables.items()}


def _described(column: Column) -> dict[str, Any]:
    return {
        "name": column.name,
        "type": str(column.type),
        "null": column.nullable,
        "deterministic": column.deterministic,
        "unit": column.unit,
        "meaning": column.meaning,
    }


def study_metadata(schema: pa.Schema) -> dict[str, Any]:
    """The metadata of a published file: search space, versions, meaning of the columns.

    Empty if another program has written the file.
    """
    return json.loads((schema.metadata or {}).get(METADATA_KEY, b"{}"))


def _schema(config: StudyConfig, columns: Sequence[Column]) -> pa.Schema:
    return schema_with(columns, _about(config))


def schema_with(columns: Sequence[Column], about: Mapping[str, Any]) -> pa.Schema:
    """The schema of a published file with these columns, and what is known `about` its study."""
    fields = [pa.field(c.name, c.type, nullable=c.nullable) for c in columns]
    schema, about_study = pa.schema(fields), json.dumps(_metadata(about, columns)).encode()
    digest = schema_digest(schema, about_study)
    return schema.with_metadata({METADATA_KEY: about_study, DIGEST_KEY: digest})


def _about(config: StudyConfig) -> dict[str, Any]:
    canonical = config.canonical()
    text = json.dumps(canonical, sort_keys=True)
    return {
        "study": config.study.name,
        "study_hash": hashlib.blake2b(text.encode(), digest_size=16).hexdigest(),
        "metric": config.study.metric,
        "direction": config.study.direction,
        "search": canonical["search"],
        "settings": canonical,
        "study_file": str(config.source.path),
    }


def _metadata(about: Mapping[str, Any], columns: Sequence[Column]) -> dict[str, Any]:
    return {
        "schema_version": SCHEMA_VERSION,
        **about,
        "versions": installed_versions((*LIBRARIES, *_WRITING)),
        "columns": {
            c.name: {"meaning": c.meaning, "unit": c.unit, "deterministic": c.deterministic}
            for c in columns
        },
    }


def _trials_columns(config: StudyConfig | None) -> tuple[Column, ...]:
    """The columns of trials.parquet for one study, or for any."""
    if config is None:
        params: dict[str, Any] = {"<name>": "the type of its values"}
        metrics, test_metrics = ("<metric>",), ("test_<metric>",)
        objectives = [("value_<i>", "<metric>")]
    else:
        params = {name: param_type(entry) for name, entry in config.columns.items()}
        metrics, test_metrics = config.train.metric_names, config.train.test_metric_names
        names = value_columns(len(config.study.objectives))
        objectives = list(zip(names, config.study.objectives, strict=True))[1:]
    spreads = {spread_of(metric): metric for metric in test_metrics}
    return (
        *OUTCOME,
        *(Column(name, DOUBLE, f"the objective {of}", D) for name, of in objectives),
        *BEST,
        *(Column(f"params_{n}", kind, f"the parameter {n}", D) for n, kind in params.items()),
        PARAMS_JSON,
        *(Column(f"final_{one}", DOUBLE, f"{one} {_AT_LAST}", D) for one in metrics),
        *(
            Column(metric, DOUBLE, "on the test rows, with the weights that the trial ends with", D)
            for metric in test_metrics
        ),
        *CIRCUMSTANCES,
        *((FEASIBLE,) if config is None or config.study.constraints else ()),
        *((PADDED_PARTS,) if config is None or "parts" in config.kinds else ()),
        *(
            Column(name, DOUBLE, f"sample standard deviation of {metric} over members", D)
            for name, metric in spreads.items()
            # unless a user-defined metric has that name
            if (config is None or len(config.members) > 1) and name not in test_metrics
        ),
        BOUNDARY,
        *((RUN_WIDTHS,) if config is None or config.padded_kinds else ()),
        XLA_THREADS,
        *((FIXED_START,) if config is None or config.has_user_models else ()),
        ENQUEUED,
    )


def param_type(entry: Any) -> pa.DataType:
    """The column type for every value of a search entry; choices of mixed types become text."""
    if entry.type == "int":
        return INT64
    if entry.type == "float":
        return DOUBLE
    kinds = {type(choice) for choice in entry.choices}
    if kinds == {bool}:
        return BOOL
    if kinds == {int}:
        return INT64
    return DOUBLE if kinds <= {int, float} else STRING


_FIRST = "# The tables of the study "
_HEAD = (
    _FIRST
    + """\
{study}

Seconds end in `_s`, bytes in `_bytes`, times (UTC) in `_at`. Missing values are null, never NaN.
Columns marked d are the same however often a study was interrupted, and with any number of threads
or workers.
"""
)


def write_schema_text(run_dir: RunDir, config: StudyConfig) -> None:
    """Write the meaning of this study's columns, unless the file is already up to date."""
    content = _text(config).encode()
    if not holds(run_dir.schema, content):
        write_unsynced(run_dir.schema, run_dir.staging, content)


def is_schema_text(path: Path) -> bool:
    """Whether the file at `path` can be read and is such a text."""
    try:
        return read_small(path).startswith(_FIRST)
    except (OSError, ValueError):
        return False


def _text(config: StudyConfig) -> str:
    parts = [_HEAD.format(study=config.study.name)]
    for name, columns in columns_of_tables(config).items():
        lines = [f"\n## {name}\n", "| column | type | null | | meaning |", "| --- |" + " --- |" * 4]
        for one in columns:
            null, mark = ("yes" if one["null"] else "no"), ("d" if one["deterministic"] else "")
            meaning = str(one["meaning"]).replace("|", "\\|")
            lines.append(f"| {one['name']} | {one['type']} | {null} | {mark} | {meaning} |")
        parts.append("\n".join(lines) + "\n")
    return "".join(parts)
