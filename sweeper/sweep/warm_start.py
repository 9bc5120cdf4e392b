"""Checks whether the trials of a study can start from a saved model, before it starts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any

from sweeper.config import Settings, StudyConfig
from sweeper.config.model import PartsTable
from sweeper.config.settings import arguments_of, without_names
from sweeper.config.table import INITIAL, Role
from sweeper.config.toml import toml_value
from sweeper.config.train import UserProgramTable
from sweeper.config.trust import NOWHERE, Code, building_functions
from sweeper.data.dataset import Dataset, Edges
from sweeper.data.identity import written
from sweeper.errors import Problem, SetupError, StudyError, listed
from sweeper.programs.build import Programs
from sweeper.programs.continued import (
    SavedStart,
    check_leaves,
    optimizers_of,
    settings_of,
    study_of_model,
)
from sweeper.programs.data_spec import data_spec
from sweeper.programs.saved_file import SavedFile, as_written, read_saved
from sweeper.rundir import RunDir, refuse_links
from sweeper.sweep.session.ownership import is_own_start

# a setting of models that does not affect their arrays
_NUMBER = "model.dropout"


def find_start(
    config: StudyConfig,
    run_dir: RunDir,
    given: Path | None,
    *,
    fresh: bool,
    trust_code: bool = False,
) -> SavedStart | None:
    """The saved model that trials start from: the given one, or that of a study to resume.

    Raises:
        StudyError: trials of the study have a different structure.
        SetupError: it is damaged, is not a saved model, or names code that is not trusted; or there
        is a link in the run directory.
    """
    goes_on = not fresh and run_dir.ledger.exists()
    path = given
    if goes_on:
        refuse_links(run_dir)
    if path is None and goes_on and run_dir.started_from.exists():
        path = run_dir.started_from
    if path is None:
        return None
    file = read_saved(path, trusted=trust_code)
    trusted = trust_code or (goes_on and is_own_start(run_dir, file.digest))
    with as_written(file.name):
        start = SavedStart(file, settings_of(file, _place_of_code(config, file, trusted)))
    problems = [*_other_structures(config, start)]
    if problems:
        raise StudyError(problems)
    return start


def _place_of_code(config: StudyConfig, file: SavedFile, trusted: bool) -> Path:
    """The directory to import the saved model's functions from; the study's own are trusted."""
    named = building_functions(study_of_model(file))
    others = [(function, key) for function, key in named if function not in config.functions]
    code = Code.from_dict(file.record["code"])
    place = code.place_of(file.name, others, [config.base_dir], trusted)
    return config.base_dir if place == NOWHERE else place


def check_fits(config: StudyConfig, start: SavedStart, data: Dataset, *, has_begun: bool) -> None:
    """Refuse data with other features or targets than the model was trained on.

    If the study `has_begun`, or trains trials of such a study again, it may have other ordinal
    categories, which earlier versions did not compare.

    Raises:
        StudyError: with the first difference.
        SetupError: the study's own model has other arrays, despite equal settings.
    """
    saved, name = start.file.record["data"], start.file.name
    other = _first_other("feature", [*saved["feature_names"]], [*data.feature_names])
    other = other or _first_other("class", [*saved["class_names"]], [*data.class_names])
    if not (has_begun or (config.repeats_split and not config.is_refit)):
        other = other or _other_categories(start, data)
    found = f"{name} was trained on other data: {other}" if other else ""
    if not found and saved["spec"]["out_size"] != data.out_size:
        found = f"{name} has {saved['spec']['out_size']} outputs, not {data.out_size}"
    transform = saved["spec"].get("y_transform", "none")
    if not found and transform != data.y_transform:
        found = f"{name} predicts targets transformed by {transform!r}, not {data.y_transform!r}"
        hint = f"write target_transform = {toml_value(transform)}"
        raise StudyError(config.problem("data.target_transform", found, hint))
    hint = "start from a model that was trained on such data"
    if config.is_refit:
        hint = "a refit adds rows with values that it does not know: export the trial as it is"
    if found:
        raise StudyError(config.problem("data", found, hint))
    try:
        check_leaves(Programs(data_spec(config, data)).exact(config.settings_of({})), start)
    except SetupError as error:
        if other := _other_bins(saved["spec"].get("bins", ()), data.bins.items()):
            found = f"{name} was trained on other data: {other}"
            raise StudyError(config.problem("data", found, hint)) from error
        raise


def describe_start(config: StudyConfig, start: SavedStart, data: Dataset) -> Iterator[str]:
    """What trials do not take over from the saved model, or not in the same unit."""
    yield from _other_unit(start, data)
    yield from _other_order(start, data)
    if other := _other_categories(start, data):
        yield (
            f"{start.file.name} was trained on other data: {other}; its first outputs take some "
            "categories for others, so start a new study from another model"
        )
    if config.study.replicates > 1:
        yield (
            f"all {config.study.replicates} replicates of a trial start with the weights of the "
            "saved model: value_std does not show how much initial weights matter"
        )
    for name in config.search:
        if config.role(name) is INITIAL:
            yield f"search.{name} changes nothing: trials start with the weights of the saved model"
    fresh = "start with its weights and a fresh optimizer"
    if not start.file.record["has_optimizer"]:
        yield f"trials {fresh}: the saved model has no optimizer state"
        return
    programs = Programs(data_spec(config, data), start)
    saved_name = _optimizer_names(start.settings)
    others: list[str] = []
    reshaped: list[str] = []
    for said, settings in _optimizers(config):
        continuation = programs.continuation(settings)
        if not start.has_optimizer_of(settings):
            others.append(_optimizer_names(settings))
        elif continuation is not None and not continuation.has_moments:
            reshaped.append(said)
    if saved_name in others:
        why = "the saved state is for another schedule, or other settings of the program"
        yield f"trials of {saved_name} {fresh}: {why}"
    if differing := [name for name in dict.fromkeys(others) if name != saved_name]:
        yield f"trials of {', '.join(differing)} {fresh}: the saved state is for {saved_name}"
    if reshaped:
        shown = ", ".join(reshaped[:5]) + (", ..." if len(reshaped) > 5 else "")
        yield f"trials of {shown} {fresh}: the saved state of {saved_name} has other arrays"


def _other_unit(start: SavedStart, data: Dataset) -> Iterator[str]:
    """A message if either the study or the saved model has standardized targets, but not both."""
    was_scaled, is_scaled = (
        any(scale != 1 for scale in scales)
        for scales in (start.file.record["data"]["spec"]["y_scale"], data.y_scale)
    )
    if was_scaled == is_scaled:
        return
    own, standard = "in their own unit", "of mean 0 and deviation 1"
    before, now = (standard, own) if was_scaled else (own, standard)
    setting = "standard" if was_scaled else "none"
    yield (
        f"{start.file.name} was trained on targets {before}, but this study has targets {now}, so "
        "its first outputs are in the wrong unit; for a new study, write data.target_scale = "
        f'"{setting}"'
    )


def _other_order(start: SavedStart, data: Dataset) -> Iterator[str]:
    """A message if the study predicts the same targets as the saved model in another order."""
    own = [column.name for column in data.columns if column.role == "target"]
    saved = start.file.record["data"].get("targets", own)  # earlier files do not name them
    if saved != own and sorted(saved) == sorted(own):
        yield (
            f"{start.file.name} predicts {listed(saved)} in this order, but this study "
            f"{listed(own)}, so its first outputs are those of other targets; for a new study, "
            f"write data.target = {toml_value(saved)}"
        )


def _optimizers(config: StudyConfig) -> Iterator[tuple[str, Settings]]:
    """Settings of trials with each optimizer that they draw, and what to call them.

    If the optimizer is the same, also with each value of its other settings that are compiled in.
    """
    if (entry := config.entry("optimizer.name")) is not None:
        for name in entry.values() or ():
            settings = config.settings_of({entry.column("optimizer.name"): name})
            yield _optimizer_names(settings), settings
        return
    compiled_in = [
        (key, value)
        for key in config.search
        if key.split(".")[0] == "optimizer" and config.role(key) is Role.STRUCTURAL
        for value in config.drawn_values(key) or ()
    ]
    for key, value in compiled_in:
        settings = config.settings_of({config.search[key].column(key): value})
        yield f"{_optimizer_names(settings)} with {key} = {toml_value(value)}", settings
    if not compiled_in:
        settings = config.settings_of({})
        yield _optimizer_names(settings), settings


def _optimizer_names(settings: Settings) -> str:
    """The optimizers of a trial in words, with the parts that each trains if there are parts."""
    optimizers = optimizers_of(settings)
    names = listed([f"{name} ({part})" if part else name for part, name in optimizers.items()])
    if isinstance(settings.model, PartsTable) and "" in optimizers:
        names += " (all parts)"
    if isinstance(settings.train, UserProgramTable):
        names += f" by {settings.train.program}"
    return f"{names} with train.ema" if settings.has("train.ema") else names


def _other_structures(config: StudyConfig, start: SavedStart) -> Iterator[Problem]:
    """Each model setting in which some trial differs from the saved model."""
    own, saved_settings = _of_model(config.settings_of({})), _of_model(start.settings)
    name = start.file.name
    for key in dict.fromkeys((*saved_settings, *own)):
        entry, saved = config.entry(key), saved_settings.get(key)
        table, _, setting = key.rpartition(".")
        if entry is None:
            if own.get(key) != saved:
                found = f"{own.get(key)!r}, but the model in {name} has {saved!r}"
                hint = (
                    f"write {setting} = {toml_value(saved)}"
                    if key in saved_settings
                    else "remove it"
                )
                yield config.problem(key, found, hint)
            continue
        values = config.drawn_values(key)
        others = ["others"] if values is None else [toml_value(v) for v in values if v != saved]
        if others:
            shown = ", ".join(others[:5]) + (", ..." if len(others) > 5 else "")
            found = f"trials with {setting} {shown} cannot start from {name}, which has {saved!r}"
            hint = f"remove it, and write {setting} = {toml_value(saved)} in [{table}]"
            yield config.problem(f"search.{key}", found, hint)


def _of_model(settings: Settings) -> dict[str, Any]:
    """The structure of the model, and floats that its functions get at run time."""
    traced = arguments_of("model", settings.model, traced=True, optional=settings.optional)
    structure = settings.structure() | traced
    own = {key: value for key, value in structure.items() if key.startswith("model.")}
    return {key: value for key, value in own.items() if without_names(key) != _NUMBER}


def _other_categories(start: SavedStart, data: Dataset) -> str:
    """The first ordinal column with other categories in the study; empty if there is none.

    With one input per category, names of features show the difference.
    """
    if data.transform.get("one_hot", True):
        return ""
    saved = start.file.record["data"].get("transform", {}).get("categories", ())
    known = {one["name"]: one["values"] for one in saved}
    for one in data.transform["categories"]:
        before, here = (
            ["a missing value" if value is None else f"'{written(value)}'" for value in values]
            for values in (known.get(one["name"], one["values"]), one["values"])
        )
        for place, (saved_value, value) in enumerate(zip_longest(before, here, fillvalue="none")):
            if saved_value != value:
                what = f"category {place} of '{one['name']}'"
                return f"its {what} is {saved_value}, the study's {value}"
    return ""


def _other_bins(saved: Iterable[tuple[str, Edges]], own: Iterable[tuple[str, Edges]]) -> str:
    """A difference in how many bins numbers have; empty if there is none."""
    before, here = ({how: [*map(len, edges)] for how, edges in bins} for bins in (saved, own))
    for how in before.keys() & here.keys():
        if before[how] != here[how]:
            edges = f"{sum(before[how])} edges of bins"
            return f"its numbers have {edges}, those of the study {sum(here[how])}"
    return ""


def _first_other(what: str, saved_names: list[str], own: list[str]) -> str:
    """The first difference between two lists of names; empty if they are equal."""
    if len(saved_names) != len(own):
        return f"it has {len(saved_names)} {what} names, the study has {len(own)}"
    for place, (saved, here) in enumerate(zip(saved_names, own, strict=True)):
        if saved != here:
            return f"its {what} {place} is '{saved}', the study's '{here}'"
    return ""
