"""The model card: what a model is, how good it is, how it was made and how to use it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from shlex import quote
from typing import Any

from sweeper.config import Settings, StudyConfig
from sweeper.config.coupled import CoupledTable
from sweeper.config.main_source import MAIN
from sweeper.config.model import PartsTable, PythonTable
from sweeper.config.trust import is_known
from sweeper.errors import listed, printable
from sweeper.results import formatting
from sweeper.results.baseline import Baseline, comparison_table, describe_doubt
from sweeper.results.judged import is_of_earlier_epoch
from sweeper.results.ranking import value_columns

Record = Mapping[str, Any]

CARD, USE = "README.md", "## How to use it"


def model_card(
    config: StudyConfig,
    row: Record,
    record: Record,
    modules: Sequence[str],
    needed: Sequence[str],
    output: Path,
    baseline: Baseline | None,
    start: str | None,
) -> str:
    """The Markdown text of `README.md` for the trial of `row`.

    The row is one of `with_metrics_of_value`, `record` the header of its saved model, `modules` are
    the user's own files next to it, `needed` are the packages that `load.py` imports, and
    `baseline` are simple models to compare it with. `start` is the file next to it of the saved
    model that its trial started from, if any.
    """
    data = record["data"]
    parts = [
        f"# Trial {record['trial']} of the study {in_cell(record['study'])}",
        _summary(config, row, record),
        "## Measures",
        _of_all(config),
        _table(("measure", "value"), _measures(config, row)),
        _simple_models(config, row, baseline),
        "## Parameters",
        _parameters(record["params"]),
        "## Data",
        _table(("", ""), _data(config, data)),
        USE,
        _use(config, record, needed, output, start),
        _own_code(modules, config.settings_of(record["params"])),
        "## Provenance",
        _table(("package", "version"), sorted(record["versions"].items())),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def with_use(card: str, use: str) -> str:
    """The card of a model with another text on how to use it, for the model in another format."""
    before, after = card.split(f"{USE}\n\n")
    _, heading, rest = after.partition("\n## ")
    return f"{before}{USE}\n\n{use}\n{heading}{rest}"


def _own_code(modules: Sequence[str], settings: Settings) -> str:
    if not modules:
        return ""
    named, model = ", ".join(f"`{name}`" for name in modules), settings.model
    parts = [*model.parts.values()] if isinstance(model, PartsTable) else [model]
    builds = any(isinstance(part, PythonTable) for part in parts)
    code = (
        f"The study's own code is copied here: {named}. Other modules that it imports must be "
        f"installed; {'`load.py` runs it' if builds else '`load.py` does not need it'}."
    )
    return f"{code} Files that it reads, such as weights, are not copied: keep them where it looks."


def trust_needed(record: Record) -> str:
    """What is needed to run the model's own code with sweeper; empty if it has none."""
    code = record["code"]
    if all(map(is_known, code["functions"])):
        return ""
    trust = "trust this model with `--trust-code` (in Python `trust_code=True`)"
    if any(one.startswith(f"{MAIN}:") for one in code["functions"]):
        where = (
            "its own code only runs in a program that defines the same functions, such as the "
            "notebook or script that it is from"
        )
        if unwritten := [f"`{name}`" for name in code.get("unwritten", ())]:
            return f"{where}, since the source of {listed(unwritten)} could not be copied"
        return f"{where}, or if you {trust}"
    if not code["texts"]:
        return f"its own code only runs if you {trust}"
    named = listed([f"`{name}`" for name in code["texts"]])
    return (
        f"its own code only runs in a directory with the same {named}: copy "
        f"{'it' if len(code['texts']) == 1 else 'them'} to the current directory, or {trust}"
    )


def _parameters(params: Record) -> str:
    if not params:
        return "Its study searches nothing; all settings are in `trial.toml`."
    caption = "Values that the trial drew; `trial.toml` has all of its settings."
    return f"{caption}\n\n{_table(('parameter', 'value'), params.items())}"


_ENDED = {"complete": "is complete", "pruned": "was pruned"}


def _summary(config: StudyConfig, row: Record, record: Record) -> str:
    model = config.settings_of(record["params"]).model
    what = {"python": "A user-defined model", "parts": "A model of several parts"}
    made = what.get(model.kind)
    if made is None:
        described = str(type(model).model_fields["kind"].description)
        made = described[0].upper() + described[1:]
    which = f", {which_model(record)}" if len(config.members) > 1 else ""
    summary = f"{made} with {row['n_parameters']:,} parameters{which}, trained for "
    summary += f"{row['epochs_done']} epochs by `{config.train.program}`"
    if is_of_earlier_epoch(row, config.canonical()):
        summary += f", with the weights of epoch {row['best_epoch']}, its best"
    ended = formatting.outcome(row)
    summary += f"; the trial {_ENDED.get(ended, ended)}"
    trained_on = config.data.split.train_on
    if trained_on != "train":
        summary += (
            f". It was trained on {trained_on}: validation metrics"
            f"{' and test metrics' if trained_on == 'all' else ''} are of rows that it was "
            "trained on, and say nothing about new ones"
        )
    return f"{summary}."


def which_model(record: Record) -> str:
    """Which of its trial's models this is; empty if it has one."""
    study = record["settings"]["study"]
    parts = {"replicate": study.get("replicates", 1), "fold": study.get("folds") or 1}
    return ", ".join(f"{name} {record[name]}" for name, count in parts.items() if count > 1)


def _of_all(config: StudyConfig) -> str:
    n_members = len(config.members)
    if n_members == 1:
        return ""
    return f"Means over the {n_members} models of the trial; this is one of them."


def _measures(config: StudyConfig, row: Record) -> list[tuple[str, object]]:
    names = value_columns(len(config.study.objectives))
    found = [
        (f"{column} ({metric})", row[column])
        for column, metric in zip(names, config.study.objectives, strict=True)
    ]
    others = ("value_std", "best_value", "best_epoch")
    found += [(name, row[name]) for name in others]
    measured = [name for name in row if name.startswith(("final_", "test_"))]
    measured.sort(key=lambda name: "_loss" in name)  # whose unit says less
    found += [(name.removeprefix("final_"), row[name]) for name in measured]
    return [(name, formatting.number(value)) for name, value in found if value is not None]


def _simple_models(config: StudyConfig, row: Record, baseline: Baseline | None) -> str:
    """The trial next to simple models, or why there are none."""
    if baseline is None:
        return ""
    title = "Simple models, fitted to the same training rows, for comparison"
    if not baseline.models:
        return f"{title}: none ({baseline.skipped})."
    objectives = config.study.objectives
    headings, rows = comparison_table(baseline, objectives, row)
    shown = [list(map(formatting.number, one)) for one in rows]
    table = f"{title}:\n\n{_table(headings, shown)}"
    doubt = describe_doubt(baseline, objectives, config.study.directions, row)
    return f"{table}\n\n{in_cell(doubt)}." if doubt else table


def _data(config: StudyConfig, data: Record) -> list[tuple[str, object]]:
    named = config.data.model_dump(mode="json")
    source = [
        named["source"],
        *(named[key] for key in ("name", "function") if key in named),
        *((Path(named["path"]).name,) if "path" in named else ()),
    ]
    rows = data["rows"]
    classes = ", ".join(data["class_names"][:20]) + (
        ", ..." if len(data["class_names"]) > 20 else ""
    )
    columns = data["transform"]["columns"]
    shown = ", ".join(columns[:20]) + (f", ... ({len(columns)})" if len(columns) > 20 else "")
    found = [
        ("source", " ".join(map(str, source))),
        ("digest", data["digest"]),
        (
            "rows",
            f"{rows['train']} for training, {rows['val']} for validation, "
            f"{rows['test']} for testing",
        ),
        ("columns", shown),
        ("predicts", ", ".join(data["targets"])),
        ("weights of rows", config.data.weight_column),
        ("outputs", _outputs(config, data)),
        ("classes", classes),
    ]
    return [(name, value) for name, value in found if value]


def _outputs(config: StudyConfig, data: Record) -> str:
    """How predicted numbers follow from the outputs of the model; empty for classes."""
    if data["class_names"] or not data["targets"]:
        return ""
    undone = {"none": "", "log": "exp of ", "log1p": "expm1 of "}[config.data.target_transform]
    if not config.data.standardizes_targets:
        how = f"{undone}the outputs" if undone else "predicted as they are"
        return f"{how}, since the targets were not scaled"
    what = "the standardized logarithms of targets" if undone else "standardized targets"
    return (
        f"{what}: predictions are {undone}the outputs times the deviation of the training "
        "targets, plus their mean"
    )


def _use(
    config: StudyConfig, record: Record, needed: Sequence[str], output: Path, start: str | None
) -> str:
    name = output.name
    place, again = quote(f"{name}/"), quote(f"{name}/trial.toml")
    if start is not None:
        again += f" --continue-from {quote(f'{name}/{start}')}"
    call, line = "predict(rows)", f"python -m sweeper predict {place} new.csv -o out.csv"
    if isinstance(config.train, CoupledTable):
        call, line = ("generate(1000)" if config.train.generates else "model"), ""
    with_it = f'    sweeper.load("{name}/").{call}' + (f"\n\n    {line}" if line else "")
    alone = call if call != "model" else "MODELS"
    has_words = getattr(config.data, "missing_values", None) is not None
    if line and has_words and record["data"]["transform"]["categories"]:
        with_it += (
            "\n\nRead the rows of a CSV file with `pandas.read_csv(..., keep_default_na=False)`: "
            "otherwise pandas takes a category such as NA for a missing value."
        )
    if trust := trust_needed(record):
        with_it += f"\n\nHowever, {trust}."
    return (
        f"With sweeper:\n\n{with_it}\n\n"
        f"Without sweeper, with only {listed(needed)}, in this directory:\n\n"
        f"    import load\n    load.{alone}\n\n"
        f"To train it again:\n\n    python -m sweeper run {again}"
    )


def _table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [_line(map(in_cell, row)) for row in rows]
    if not lines:
        return ""
    return "\n".join([_line(headings), _line(["---"] * len(headings)), *lines])


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def in_cell(value: object) -> str:
    """A value as a cell of a Markdown table, with special characters escaped."""
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    for found, instead in (("\\", "\\\\"), ("|", "\\|"), ("<", "&lt;"), ("\n", " ")):
        text = text.replace(found, instead)
    return printable(text)
