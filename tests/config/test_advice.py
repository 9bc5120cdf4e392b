"""Who does what a message says has a study that is accepted."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sweeper
from sweeper.config import StudyConfig, parse
from sweeper.config.lint import file_warnings
from sweeper.errors import StudyError
from tests.config.conftest import VALID, Read, Refused

CSV = 'source = "csv"\ntarget = "y"\npath = '


def advice(text: str, *overrides: str) -> str:
    """The hint of the only problem."""
    with pytest.raises(StudyError) as refusal:
        parse(text, Path("study.toml"), overrides)
    (problem,) = refusal.value.problems
    return problem.hint


@pytest.mark.parametrize(
    ("written", "path"),
    [
        (r'"C:\Users\me\data.csv"', "C:/Users/me/data.csv"),
        (r'"C:\data\new.csv"', "C:/data/new.csv"),
        (r'"C:\temp\new.csv"', "C:/temp/new.csv"),
        (r'"\\server\share\x.csv"', "//server/share/x.csv"),
        (r'"..\data.csv"', "../data.csv"),
    ],
)
def test_a_path_with_backslashes_can_be_written_with_slashes(written: str, path: str) -> None:
    text = VALID.replace('source = "sklearn"\nname = "iris"', CSV + written)
    found = re.fullmatch(
        r'write ("[^"]*"), since \\ starts an escape in double quotes', advice(text)
    )
    assert found
    data = parse(text.replace(written, found[1]), Path("study.toml")).data
    assert data.model_dump()["path"] == path


def test_a_run_directory_with_backslashes_can_be_written_with_slashes(refused: Refused) -> None:
    (problem,) = refused("", "", r'results.dir="C:\temp\runs"')
    assert problem.found == r"\t in double quotes is one character"
    assert problem.hint.startswith('write "C:/temp/runs", ')


NONE = {
    "optimizer.clip_norm": ("1.0", ('"none"', "inf", "0.0", "false")),
    "optimizer.clip_value": ("1.0", ('"none"',)),
    "optimizer.weight_decay": ("0.1", ('"None"', "false")),
    "optimizer.schedule.warmup": ("0.1", ('"off"',)),
    "train.ema": ("0.9", ('"none"', "nan")),
    "train.label_smoothing": ("0.1", ('"none"',)),
    "model.dropout": ("0.1", ('"null"',)),
}
SCHEDULE = "optimizer.schedule.name=warmup_cosine"


@pytest.mark.parametrize(
    ("setting", "none"), [(setting, none) for setting, (_, nones) in NONE.items() for none in nones]
)
def test_a_searched_number_has_a_value_for_none(setting: str, none: str, read: Read) -> None:
    schedule = [SCHEDULE] if "schedule" in setting else []

    def search(value: str) -> tuple[str, ...]:
        choices = f"[{NONE[setting][0]}, {value}]"
        return *schedule, f"search.{setting}={{type='categorical',choices={choices}}}"

    found = re.fullmatch(r"write (\S+) for none", advice(VALID, *search(none)))
    assert found
    assert read("", "", *search(found[1])).search[setting].count() == 2


@pytest.mark.parametrize(
    ("written", "hint"),
    [
        ("={type='float',low=1e-6,high=0.1,or=0.0}", "write an array, [...]"),
        ("={type='categorical',choices=false}", "write an array, [...]"),
        ("={type='float',low='none',high=0.1}", "write a number"),
        ("={type='float',low=0.1,high=inf}", "write a finite number"),
        ("={type='int',low=0.0,high=4}", 'write an integer, or type = "float"'),
    ],
)
def test_only_a_value_can_stand_for_none(written: str, hint: str) -> None:
    """Not an array, nor the end of a range."""
    assert advice(VALID, f"search.optimizer.weight_decay{written}") == hint


def test_integers_stay_the_only_type_of_settings_that_take_no_others() -> None:
    written = "search.model.width={type='int',low=8.0,high=16}"
    assert advice(VALID, written) == "write an integer"


@pytest.mark.parametrize(
    ("setting", "written"),
    [
        *(("model.activation", one) for one in ('["relu", "tanh"]', "tanh")),
        *(("model.width", one) for one in ("[8, 16]", "[8, 16, 32]", "3", '"loguniform"')),
        *(("optimizer.lr", one) for one in ("[0.001, 0.1]", "0.1", '"loguniform"')),
        *(("train.ema", "0.5"), ("model.layer_norm", "true")),
    ],
)
def test_an_entry_that_is_not_a_table_can_be_written_as_one(
    setting: str, written: str, read: Read
) -> None:
    hint = advice(VALID, f"search.{setting}={written}")
    entries = re.findall(r"\{ .*? \}", hint)
    assert entries
    for entry in entries:
        columns = read("", "", f"search.{setting}={entry}").search
        if written.startswith("[") and "choices" in entry:
            assert [*columns[setting].values()] == tomllib.loads(f"v = {written}")["v"]


def test_a_number_in_quotes_can_be_written_without_them(read: Read) -> None:
    entry = "search.model.width={type='int',low=8,high=16}"
    assert advice(VALID, entry, "search.model.width.base='2'") == "write 2 without quotes"
    assert read("", "", entry, "search.model.width.base=2").search["model.width"].count() == 2


@pytest.mark.parametrize(
    ("setting", "name"),
    [
        *(("study.pruner", f"{name}Pruner") for name in ("SuccessiveHalving", "Nop", "Hyperband")),
        *(("study.pruner", f"{name}Pruner") for name in ("Median", "Wilcoxon", "Threshold")),
        *(("study.sampler", f"{name}Sampler") for name in ("TPE", "Random", "CmaEs", "NSGAII")),
        *(("study.sampler", f"{name}Sampler") for name in ("NSGAIII", "BruteForce", "QMC")),
    ],
)
def test_a_class_of_optuna_has_a_name_here(setting: str, name: str, read: Read) -> None:
    named = re.fullmatch(r"did you mean '(\S+)'\?", advice(VALID, f"{setting}={{name='{name}'}}"))
    table = re.fullmatch(r'write (\{ name = "(\S+)" \})', advice(VALID, f"{setting}={name}"))
    assert named and table and named[1] == table[2]
    expected = {"SuccessiveHalving": "asha", "NSGAIII": "optuna.samplers:NSGAIIISampler"}
    short = name.removesuffix("Pruner").removesuffix("Sampler")
    assert named[1] == expected.get(short, named[1])
    assert read("", "", f"{setting}={table[1]}").canonical()


@pytest.mark.parametrize("setting", ["optimizer.clip_norm", "train.ema"])
def test_a_number_that_is_none_can_be_removed(setting: str, read: Read) -> None:
    assert advice(VALID, f"{setting}=none") == "write a number, or remove it"
    assert read().canonical()  # without the setting


def test_a_schedule_that_is_none_is_constant(read: Read) -> None:
    assert advice(VALID, "optimizer.schedule.name=none") == "did you mean 'constant'?"
    assert read("", "", "optimizer.schedule.name=constant").canonical() == read().canonical()


def test_layer_sizes_are_searched_by_depth_and_width_or_as_text(read: Read) -> None:
    sizes = "search.model.width={type='categorical',choices=[[64,64],[128]]}"
    text = 'split text such as "64-32" in your own function'
    assert advice(VALID, sizes) == f"search model.depth and model.width, or {text}"
    read("", "", "search.model.width={type='categorical',choices=[64,128]}")
    layers = 'search.model={{hidden={{type="categorical",choices={}}}}}'.format
    own = VALID.replace('"mlp"\ndepth = 1\nwidth = 8', '"python"\nfunction = "nets:build"')
    assert advice(own, layers("[[64,32],[128]]")) == text
    parse(own, Path("study.toml"), [layers('["64-32","128"]')])


@pytest.mark.parametrize(
    ("written", "hint"),
    [
        ("study.stop={value=0.1,max=3}", "[study.stop] has value, patience"),
        (
            "train.early_stop={patience=1,max=3}",
            "[train.early_stop] has metric, patience, min_delta",
        ),
        ("study.stop={value=1,timeout=3}", "did you mean 'study.timeout'?"),
        ("study.stop={valeu=1}", "did you mean 'study.stop.value'?"),
        ("study.max=3", "did you mean 'study.constraints.max'?"),
        ("train.patience=3", "did you mean 'train.early_stop.patience'?"),
        (
            "model.max=3",
            "[model] has depth, width, activation, dropout, layer_norm, kind, numbers, n_bins, "
            "bins, n_frequencies, frequency_scale, embedding_size",
        ),
    ],
)
def test_a_setting_of_another_table_is_suggested_only_if_it_may_be_meant(
    written: str, hint: str
) -> None:
    assert advice(VALID, written) == hint


@pytest.mark.parametrize(
    ("written", "hint"),
    [
        ("study.pruner=median", 'write { name = "median" }'),
        ("study.sampler=random", 'write { name = "random" }'),
        ("optimizer.schedule=cosine", 'write { name = "cosine" }'),
        ("study.stop=3", "write a table with value, patience"),
        ("study.pruner=3", "write a table with name"),
    ],
)
def test_a_value_in_place_of_a_table_gets_the_table(written: str, hint: str, read: Read) -> None:
    assert advice(VALID, written) == hint
    if "name =" in hint:
        key = written.partition("=")[0]
        read("", "", f"{key}={hint.removeprefix('write ')}")


@pytest.mark.parametrize(
    ("written", "key"),
    [
        ("n_trials", "study.n_trials"),
        ("ntrials", "study.n_trials"),
        ("epochs", "train.epochs"),
        ("learning_rate", "optimizer.lr"),
        ("optimizer.learning_rate", "optimizer.lr"),
        ("width", "model.width"),
        ("model_width", "model.width"),
    ],
)
def test_a_setting_without_its_table_is_suggested_with_it(
    written: str, key: str, read: Read
) -> None:
    assert advice(VALID, f"{written}=3") == f"did you mean '{key}'?"
    assert read("", "", f"{key}=3").canonical() != read().canonical()


@pytest.mark.parametrize(
    "overrides",
    [
        "study.n_trials=5",
        ["study.n_trials=5"],
        {"study.n_trials": 5},
        {"study.n_trials": 5, "train.metrics": ["accuracy"], "study.name": "small"},
        {"study": {"n_trials": np.int64(5)}, "results.dir": Path("runs/small")},
    ],
)
def test_overrides_are_text_texts_or_values_by_key(overrides: object, tmp_path: Path) -> None:
    file = tmp_path / "study.toml"
    file.write_text(VALID)
    study = sweeper.load_study(file, overrides)  # type: ignore[arg-type]
    assert isinstance(study, StudyConfig) and study.study.n_trials == 5


@pytest.mark.parametrize(
    ("overrides", "key"),
    [
        ({"train.epocks": 3}, "train.epocks"),
        ({"train": {"epocks": 3}}, "train.epocks"),
        (["train.epocks=3"], "train.epocks"),
        (["epochs"], "epochs"),
    ],
)
def test_errors_in_python_name_the_overrides_and_their_key(
    overrides: Any, key: str, tmp_path: Path
) -> None:
    file = tmp_path / "study.toml"
    file.write_text(VALID)
    with pytest.raises(sweeper.StudyError) as refusal:
        sweeper.load_study(file, overrides)
    (problem,) = refusal.value.problems
    assert (problem.where, problem.key) == ("overrides", key)
    assert "--set" not in str(problem)


def test_an_override_without_effect_is_reported_as_one(tmp_path: Path) -> None:
    file = tmp_path / "study.toml"
    file.write_text(VALID)
    (warning,) = file_warnings(sweeper.load_study(file, {"model.depth": 3}))
    assert warning.startswith("the override model.depth changes nothing: every trial draws its own")
    assert "--set" not in warning


def test_a_study_is_loaded_from_a_path_or_a_mapping() -> None:
    for use in (sweeper.load_study, sweeper.run):
        with pytest.raises(StudyError, match="list given as a study; pass the path"):
            use([1])  # type: ignore[arg-type]
        with pytest.raises(StudyError, match="no such file"):
            use("nonsuch.toml")
