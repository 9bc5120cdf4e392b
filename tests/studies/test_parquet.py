"""A table of mixed types with missing values, from its file to its trials."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import sweeper
from tests.command_line import STUDY, CommandLine, settings

DATA = """\
source = "parquet"
path = "visits/*.parquet"
target = "ill"
drop = ["note"]
impute = "median"
categorical = "ordinal"
categorical_columns = ["ward"]
class_weights = "balanced"
split = { val = 0.25, test = 0.25, group = "patient" }
"""
STUDY_FILE = STUDY.replace('source = "sklearn"\nname = "wine"\n', DATA).replace(
    "split = { val = 0.2, test = 0.1 }\n", ""
)
N = 160


def visits() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    patient = rng.integers(20, size=N)
    ill = rng.random(N) < np.where(patient % 4 == 0, 0.8, 0.1)
    return pd.DataFrame(
        {
            "patient": patient,
            "ward": rng.integers(1, 5, N),
            "pulse": np.where(rng.random(N) < 0.1, np.nan, 70 + 20 * ill + rng.normal(size=N)),
            "smokes": pd.Series(rng.random(N) < 0.3).mask(pd.Series(rng.random(N) < 0.2)),
            "drug": pd.Series(rng.choice(["a", "b", "c"], N)).mask(pd.Series(rng.random(N) < 0.2)),
            "note": pd.date_range("2026-01-01", periods=N),
            "ill": np.where(ill, "yes", "no"),
        }
    )


@pytest.fixture
def study(command: CommandLine) -> CommandLine:
    command.write(STUDY_FILE)
    write(command, visits())
    return command


def write(command: CommandLine, frame: pd.DataFrame) -> None:
    directory = command.directory / "visits"
    directory.mkdir(exist_ok=True)
    frame[:100].to_parquet(directory / "1.parquet")
    frame[100:].to_parquet(directory / "2.parquet")


def test_a_parquet_of_mixed_types_is_planned_run_and_resumed(study: CommandLine) -> None:
    planned = study("plan", "study.toml", "--json")
    assert (planned.returncode, planned.stderr) == (0, "")
    data = json.loads(planned.stdout)["data"]
    frame = visits()
    features = ["ward", "pulse", "smokes", "drug"]
    assert [column["name"] for column in data["columns"]] == [*features, "ill"]
    assert [column["kind"] for column in data["columns"]] == [
        *("category", "number", "number", "category"),
        "category",
    ]
    assert [column["missing"] for column in data["columns"]] == [
        *frame[features].isna().sum(),
        0,
    ]
    assert data["columns"][0]["values"] == 4
    assert (data["rows"], data["features"], data["outputs"]) == (N, 4, 2)
    assert (data["numbers"], data["categories"]) == (2, 2)
    assert data["missing"] == frame[features].isna().sum().sum()
    no, yes = data["classes"]
    assert (no["name"], yes["name"]) == ("no", "yes")
    counts = frame["ill"].value_counts()
    for one in (no, yes):
        rows = [one[f"{part}_rows"] for part in ("train", "val", "test")]
        assert sum(rows) == counts[one["name"]]
        assert one["weight"] == pytest.approx(data["train_rows"] / 2 / rows[0])
    text = study("plan", "study.toml").stdout
    for words in (
        *(f"{data['train_rows']} rows for training", "2 of numbers, 2 of categories"),
        *("categories", "classes", "drug", "yes"),
    ):
        assert words in text

    done = study("run", "study.toml", "--quiet")
    assert (done.returncode, done.stderr) == (0, "")
    trials = sweeper.open_results(study.run_dir.root).trials()
    assert trials["state"].eq("COMPLETE").all()
    assert trials["value"].min() < np.log(2)

    # the same study does not resume with another file
    write(study, visits().assign(ward=1))
    refused = study("run", "study.toml")
    assert (refused.returncode, refused.stderr) == (
        2,
        "study.toml:10: data: the data has changed since the study in runs/wine began; restore "
        "it, change study.name (or results.dir if it is set), or start over with --fresh "
        "(in Python fresh=True), which "
        "moves the old directory aside\n",
    )


def test_a_trial_finds_the_files_of_a_pattern_from_elsewhere(study: CommandLine) -> None:
    few = settings("study.n_trials=1", "train.epochs=1", "search={}", "results.dir=one")
    ran = study("run", "study.toml", "--quiet", *few)
    assert ran.returncode == 0, ran.stderr
    elsewhere = study.directory / "elsewhere"
    elsewhere.mkdir()

    written = study("trial", "one", "0", "-o", str(elsewhere / "trial.toml"))
    assert written.returncode == 0, written.stderr

    away = CommandLine(elsewhere, study.cache)
    checked = away("validate", "trial.toml")
    assert checked.returncode == 0, checked.stderr


def test_targets_of_a_plan_are_in_their_own_units(study: CommandLine) -> None:
    more = settings(
        "data.target=['pulse', 'patient']",
        "data.split={test=0}",
        "data.drop=['note', 'smokes']",
        "data.class_weights='none'",
        "train.loss='mse'",
    )
    frame = visits().dropna(subset="pulse").reset_index(drop=True)
    write(study, frame)
    planned = study("plan", "study.toml", "--json", *more)
    assert planned.returncode == 0, planned.stderr
    pulse, patient = json.loads(planned.stdout)["data"]["targets"]

    assert (pulse["name"], patient["name"]) == ("pulse", "patient")
    assert (patient["least"], patient["greatest"]) == pytest.approx((0, 19), abs=1e-5)
    assert pulse["mean"] == pytest.approx(frame["pulse"].mean(), rel=0.02)


@pytest.mark.parametrize("name", ["validate", "plan", "run"])
def test_data_larger_than_the_share_of_memory_are_refused(name: str, study: CommandLine) -> None:
    done = study(name, "study.toml", *settings("execution.memory_fraction=1e-8"))

    assert (done.returncode, done.stdout) == (3, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("study.toml:10: data: the data takes ")
    assert "KiB" in line and ", but the share of this machine's memory is " in line
    assert not study.run_dir.ledger.exists()


@pytest.mark.slow
def test_a_study_is_not_resumed_with_an_edited_data_function(study: CommandLine) -> None:
    module = study.directory / "clinic.py"
    text = "import pandas as pd\n\ndef load():\n    return pd.read_parquet('visits')\n"
    module.write_text(text, encoding="utf-8")
    function = STUDY_FILE.replace('"parquet"', '"python"').replace(
        'path = "visits/*.parquet"', 'function = "clinic:load"'
    )
    study.write(function)
    assert study("run", "study.toml", "--quiet").returncode == 0

    module.write_text(f"{text}# edited\n", encoding="utf-8")
    refused = study("run", "study.toml")
    assert (refused.returncode, refused.stderr) == (
        2,
        "study.toml:12: data.function: clinic.py has changed since the study in runs/wine began; "
        "restore it, change study.name (or results.dir if it is set), or start over with --fresh "
        "(in Python fresh=True), "
        "which moves the old directory aside\n",
    )
