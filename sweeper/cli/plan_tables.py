"""The results of `plan` and `plan --decay`, as tables."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import RenderableType

from sweeper.cli.tables import TextTable, pairs, rows, simple_models
from sweeper.errors import counted, listed
from sweeper.results import formatting
from sweeper.results.baseline import Baseline

# further categories, classes or targets are only shown in JSON
_MAX_SHOWN = 20


def plan(preview: Mapping[str, Any]) -> Iterator[RenderableType]:
    """How a study would start and what it would cost."""
    data, device, parallel = preview["data"], preview["device"], preview["parallel"]
    learning = preview["learning"]
    if learning:
        yield from (*learning, "")
    yield pairs(
        {
            "study": f"{preview['study']}, {counted(preview['n_trials'], 'trial')}",
            "device": f"{device['kind']}, {_where(device)}",
            "at a time": f"{counted(parallel['trials'], 'trial')}: {parallel['why']}",
            "strategy": f"{preview['strategy']}, lane loop {preview['lane_loop']}",
        }
    )
    yield ""
    yield from _data(data)
    yield ""
    yield from simple_models(Baseline.from_dict(preview["baseline"]), preview["metric"])
    yield ""
    yield rows(
        "search space",
        ("setting", "column", "values", "splits buckets", "when"),
        [
            (
                *(entry["setting"], entry["column"]),
                entry["values"] if entry["same_as"] is None else f"as {entry['same_as']}",
                entry["splits_buckets"],
                formatting.conditions(entry["when"]),
            )
            for entry in preview["space"]
        ],
    )
    yield ""
    if preview["switch"]:
        yield _switch_classes(preview["switch"])
        yield ""
    elif preview["lattice"]:
        yield _lattice(preview)
        yield ""
    yield pairs(formatting.prediction(preview["predicted"]))
    yield ""
    yield _buckets(preview["first_round"])
    for note in (preview["advice"], *preview["notes"]):
        if note and note not in learning:
            yield ""
            yield note
    yield from _idle_rules(preview)


def decay(preview: Mapping[str, Any]) -> Iterator[RenderableType]:
    """Which arrays of each model weight decay applies to, and by which rule."""
    for index, model in enumerate(preview["models"]):
        if index:
            yield ""
        settings = [_setting(key, value) for key, value in model["settings"].items()]
        if model["part"]:
            settings.insert(0, f"part {model['part']}")
        touched, all_of_it = model["decayed_parameters"], model["parameters"]
        has_layers = any(array["layer"] for array in model["arrays"])  # of Flax, none is known
        yield rows(
            f"{', '.join(settings)}: weight decay applies to {touched} of {all_of_it} parameters",
            ("array", "shape", *(["in"] if has_layers else []), "decays", "rule"),
            [
                (
                    *(array["path"], formatting.shape(array["shape"])),
                    *([array["layer"]] if has_layers else []),
                    *(formatting.share_of_decay(array["decay"]), array["rule"]),
                )
                for array in model["arrays"]
            ],
        )
    yield from _idle_rules(preview)


def _setting(key: str, value: object) -> str:
    """A setting of a model, such as "depth 4" or "without layer_norm"."""
    name = key.partition(".")[2]
    if isinstance(value, bool):
        return f"{'with' if value else 'without'} {name}"
    return f"{name} {value}"


def _idle_rules(preview: Mapping[str, Any]) -> Iterator[str]:
    rules = preview["rules_without_use_in_some_trials"]
    yield from ["", *(f"in some trials no array matches {rule}" for rule in rules)] if rules else ()


def _where(device: Mapping[str, Any]) -> str:
    """Where the study trains."""
    if device["engine"]:
        return f"trains on {device['engine']}, times are for {counted(device['workers'], 'worker')}"
    return f"{counted(device['threads'], 'thread')}, {counted(device['workers'], 'worker')}"


def _data(data: Mapping[str, Any]) -> Iterator[RenderableType]:
    """The rows and columns of the data, the split and the balance of classes."""
    yield pairs(
        {
            "data": f"{_rows_of(data, 'train_rows')} for training, "
            f"{_numbers_of(data, 'val_rows')} for validation, {data['test_rows']} for testing; "
            f"{formatting.size(data['bytes'])}",
            "columns": f"{data['numbers']} of numbers, {data['categories']} of categories, "
            f"{counted(data['missing'], 'value')} missing; "
            f"{counted(data['features'], 'feature')}, {counted(data['outputs'], 'output')}",
            **({"weights": f"of rows in '{data['weight']}'"} if data["weight"] else {}),
            **_missing(data),
        }
    )
    categories = [column for column in data["columns"] if column["kind"] == "category"]
    if shown := [column for column in categories if column["role"] == "feature"][:_MAX_SHOWN]:
        keys = ("name", "values", "missing")
        yield ""
        yield rows("categories", keys, [[column[key] for key in keys] for column in shown])
    for name, title in (("classes", "classes of rows"), ("targets", "targets"), ("modes", "modes")):
        if records := data[name]:
            headings = [key.replace("_", " ") for key in records[0]]
            values = [list(record.values()) for record in records[:_MAX_SHOWN]]
            yield ""
            yield rows(title, headings, values)


def _rows_of(data: Mapping[str, Any], part: str) -> str:
    """How many rows a part has, such as `1 row` or `47 to 207 rows` of folds."""
    numbers = _numbers_of(data, part)
    return f"{numbers} {'row' if numbers == '1' else 'rows'}"


def _numbers_of(data: Mapping[str, Any], part: str) -> str:
    """How many rows a part has, as a range if folds differ."""
    counts = [fold[part] for fold in data["rows_of_folds"]] or [data[part]]
    return formatting.span(min(counts), max(counts))


def _missing(data: Mapping[str, Any]) -> dict[str, str]:
    """The words that mean a missing value, and how often columns contain them."""
    if not data["missing_values"]:
        return {}
    found = [
        f"{column['name']} has {listed([f'{n} {word!r}' for word, n in column['words'].items()])}"
        for column in data["columns"]
        if column["words"]
    ]
    words = ", ".join("an empty field" if w == "" else w for w in data["missing_values"])
    return {"missing": "; ".join([f"{words} (data.missing_values)", *found[:_MAX_SHOWN]])}


def _lattice(preview: Mapping[str, Any]) -> TextTable:
    """The classes, with the settings in which their families differ."""
    blocks: Sequence[Mapping[str, Any]] = preview["lattice"]
    n_trials, outside = preview["n_trials"], round(preview["trials_outside_lattice"])
    of = f"{n_trials - outside} of {counted(n_trials, 'trial')}" if outside else "the whole study"
    differing = _differing([block["settings"] for block in blocks])
    has_parts, spans = any("parts" in block for block in blocks), ("for widths", "for depths")
    return rows(
        f"lattice: the programs of {of}",
        (
            *("strategy", "widths", "depth", *(("parts",) if has_parts else spans)),
            *(name.rpartition(".")[2] for name in differing),
            *("trials", "compile s", "train s", "waste", "why"),
        ),
        [
            (
                *(block["strategy"], _widths(block), block["depth"]),
                *([block["parts"]] if has_parts else (_for(block, name) for name in spans)),
                *(str(block["settings"].get(name)) for name in differing),
                *(block["trials"], block["compile_s"], block["train_s"]),
                *(formatting.percent(block["waste_fraction"]), block["why"]),
            )
            for block in blocks
        ],
    )


def _widths(block: Mapping[str, Any]) -> str:
    """The widths that a class runs lanes at."""
    return ", ".join(map(str, block.get("run_widths") or (block["width"],)))


def _for(block: Mapping[str, Any], name: str) -> str:
    return formatting.span(*block[name.replace(" ", "_")])


def _switch_classes(classes: Sequence[Mapping[str, Any]]) -> TextTable:
    return rows(
        "switch programs: several structures, a different one on each device",
        ("class", "branches", "devices", "lanes per device", "compile s", "structures"),
        [
            (
                *(program["class_id"], len(program["branches"]), program["devices"]),
                *(program["lanes_per_device"], program["compile_s"]),
                "; ".join(map(", ".join, _differences(program["branches"]))),
            )
            for program in classes
        ],
    )


def _differences(branches: Sequence[Mapping[str, Any]]) -> Iterator[list[str]]:
    """The settings in which each branch differs from others, as text."""
    names = _differing(branches)
    for branch in branches:
        yield [
            f"{name.rpartition('.')[2]} {formatting.number(branch[name])}"
            for name in names
            if name in branch
        ]


def _differing(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """The keys whose values differ between `settings`."""
    names = sorted({name for some in settings for name in some})
    return [name for name in names if len({json.dumps(some.get(name)) for some in settings}) > 1]


def _buckets(first_round: Mapping[str, Any]) -> TextTable:
    classes = {program["class_id"]: program for program in first_round["classes"]}
    return rows(
        "buckets of the first round",
        (
            *("bucket", "strategy", "width", "depth", "lanes", "capacity", "to epoch"),
            *("train s", "waste", "memory", "trials"),
        ),
        [
            (
                bucket["bucket"],
                program["strategy"],
                *_size(program),
                *(len(bucket["trials"]), program["capacity"], bucket["epoch_to"]),
                bucket["predicted_train_s"],
                formatting.percent(bucket["waste_fraction"]),
                formatting.size(bucket["memory_bytes"]),
                formatting.trial_numbers(bucket["trials"]),
            )
            for bucket in first_round["buckets"]
            for program in (classes[bucket["class_id"]],)
        ],
    )


def _size(program: Mapping[str, Any]) -> tuple[object, object]:
    """Width and depth of a class, or of its trials."""
    settings = json.loads(program["settings"])
    if program["branches"]:
        return _span(settings, "model.width"), _span(settings, "model.depth")
    return (
        program["padded_width"] or settings.get("model.width"),
        program["padded_depth"] or settings.get("model.depth"),
    )


def _span(branches: Sequence[Mapping[str, Any]], key: str) -> str | None:
    """From the lowest to the highest value of the branches."""
    values = [branch[key] for branch in branches if key in branch]
    return formatting.span(min(values), max(values)) if values else None
