"""What the commands answer, as tables for people; `--json` answers with the same facts."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.table import Table

from sweeper import wording
from sweeper.results.status import Status
from sweeper.rundir import RunDir

Record = Mapping[Any, Any]


def pairs(facts: Mapping[str, object]) -> Table:
    """One line a fact."""
    table = Table.grid(padding=(0, 2))
    for name, value in facts.items():
        table.add_row(name.replace("_", " "), wording.number(value))
    return table


def rows(title: str, headings: Sequence[str], records: Sequence[Sequence[object]]) -> Table:
    """A titled table of `records`, columns of numbers to the right."""
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for heading, *values in zip(headings, *records, strict=True):
        is_text = any(isinstance(value, str) for value in values)
        table.add_column(heading, justify="left" if is_text else "right")
    for record in records:
        table.add_row(*map(wording.number, record))
    return table


def standing(run_dir: RunDir, status: Status) -> Table:
    """How a study stands, and while it runs what its threads and workers do."""
    facts: dict[str, object] = {
        "study": f"{status.study} ({run_dir.root})",
        "state": f"{status.state}, round {status.round}",
        "trials": wording.progress(status),
        "": wording.states(status),
    }
    if status.best is not None:
        facts["best"] = wording.best_trial(status.metric, status.best).removeprefix("best ")
    if status.state == "running":
        for bucket in status.running:
            trials = wording.trial_numbers(bucket["trials"])
            facts[f"bucket {bucket['bucket']}"] = f"{trials}, {bucket['place']}"
    return pairs(facts)


def best_trials(metric: str, trials: Sequence[Record]) -> Table:
    """Rows of trials.parquet, with the parameters under the names that the study gives them."""
    columns = [name for name in trials[0] if name.startswith("params_") and name != "params_json"]
    headings = ("trial", metric, *(name.removeprefix("params_") for name in columns))
    return rows(
        "best trials",
        headings,
        [[trial[name] for name in ("trial_number", "value", *columns)] for trial in trials],
    )


def paths(run_dir: RunDir) -> Table:
    """Where the results are."""
    return pairs(
        {
            "trials": run_dir.trials,
            "metrics": run_dir.metrics,
            "buckets": run_dir.buckets,
            "models": run_dir.models,
        }
    )


def plan(preview: Mapping[str, Any]) -> Iterator[RenderableType]:
    """How a study would begin: what splits its trials, and the buckets of its first round."""
    yield pairs({name: value for name, value in preview.items() if not isinstance(value, list)})
    yield ""
    yield rows(
        "search space",
        ("setting", "column", "splits buckets"),
        [
            (entry["setting"], entry["column"], "yes" if entry["splits_buckets"] else "no")
            for entry in preview["space"]
        ],
    )
    yield ""
    yield _buckets(preview)
    yield ""
    yield partners(preview)


def _buckets(preview: Mapping[str, Any]) -> Table:
    """The buckets, with those structural settings that differ between them."""
    classes = {program["class_id"]: program for program in preview["classes_of_first_round"]}
    structures = {name: json.loads(program["settings"]) for name, program in classes.items()}
    differing = [
        key
        for key in next(iter(structures.values()), {})
        if len({json.dumps(structure.get(key)) for structure in structures.values()}) > 1
    ]
    return rows(
        "buckets of the first round",
        (
            *("bucket", "strategy", "lane loop", "lanes", "capacity", "parameters", "to epoch"),
            *(key.rpartition(".")[2] for key in differing),
            "trials",
        ),
        [
            (
                bucket["bucket"],
                classes[bucket["class_id"]]["strategy"],
                classes[bucket["class_id"]]["lane_loop"],
                len(bucket["trials"]),
                classes[bucket["class_id"]]["capacity"],
                classes[bucket["class_id"]]["n_parameters"],
                bucket["epoch_to"],
                *(structures[bucket["class_id"]].get(key) for key in differing),
                ", ".join(map(str, bucket["trials"])),
            )
            for bucket in preview["buckets_of_first_round"]
        ],
    )


def partners(preview: Mapping[str, Any]) -> str:
    """How many trials share a program from the start; where few do, what would change that."""
    sharing = [entry["trials"] for entry in preview["classes_of_first_round"]]
    trials = sum(sharing)
    partnered = sum(count for count in sharing if count > 1)
    told = f"{partnered} of {trials} trials of the first round share their program with another"
    splitting = [entry["setting"] for entry in preview["space"] if entry["splits_buckets"]]
    if 2 * partnered >= trials or not splitting:
        return told
    settings = ", ".join(splitting)
    return f"{told}; fewer values of {settings} (base = 2, or a step) would let more share"
