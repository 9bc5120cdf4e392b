"""What `export` writes is useful without this package, and the card and the files explain it."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import sweeper
from sweeper.errors import DataError
from sweeper.export import export
from sweeper.export.predict import predict_table
from sweeper.export.saved_model import UnknownCategoryWarning
from sweeper.results import formatting
from tests.in_process import prepared, study_in, trained
from tests.small_studies import DIGITS
from tests.standalone import standalone

RNG = np.random.default_rng(3)
PENGUINS = pd.DataFrame(
    {
        "bill|mm": np.where(RNG.random(120) < 0.1, np.nan, RNG.normal(40, 5, 120)),
        "island": RNG.choice(["Biscoe", "Dream", "Torgersen"], 120),
        "ring": RNG.integers(1, 4, 120),
        "species": RNG.choice(["Adelie", "Gentoo <b>"], 120),
        "note": "x",
    }
)
STUDY = """\
version = 1
[study]
name = "penguins"
metric = "val_loss"
direction = "minimize"
n_trials = 1
[data]
source = "csv"
path = "penguins.csv"
target = "species"
drop = ["note"]
impute = "median"
categorical_columns = ["ring"]
[model]
kind = "mlp"
depth = 2
width = 5
layer_norm = true
[optimizer]
name = "adam"
lr = 1e-2
[train]
loss = "cross_entropy"
epochs = 2
batch_size = 16
[execution]
threads = 1
workers = 0
"""
LESS = ("study.n_trials=2", "train.epochs=3", "search={model={width={type='int',low=9,high=12}}}")


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a finished study of digits, with its best model in best/."""
    directory = tmp_path_factory.mktemp("digits")
    results = trained(study_in(directory, DIGITS, *LESS, "model.layer_norm=true"))
    export(results.run_dir.root, None, 0, directory / "best")
    return directory


def penguins_in(directory: Path, *overrides: str) -> Path:
    """The exported model of a study of a table with text, gaps and columns that are left out."""
    table = PENGUINS.copy()
    table.loc[::17, "island"] = None
    table.to_csv(directory / "penguins.csv", index=False)
    results = trained(study_in(directory, STUDY, *overrides))
    export(results.run_dir.root, None, 0, directory / "best")
    return directory / "best"


def test_equinox_and_numpy_alone_give_the_recorded_accuracy_from_raw_pixels(
    digits: Path, tmp_path: Path
) -> None:
    x, y = load_digits(return_X_y=True)
    _, test = train_test_split(np.arange(len(x)), test_size=180, random_state=0, stratify=y)
    images = x[test].reshape(-1, 8, 8)

    calls = {"found": "load.predict(given['images'])"}
    found = standalone(digits / "best", tmp_path, calls, images=images)["found"]

    row = sweeper.open_results(digits / "run").best(1).iloc[0]
    assert np.mean(found == y[test]) == pytest.approx(row["test_accuracy"], abs=1e-6)
    np.testing.assert_array_equal(found, sweeper.load(digits / "best").predict(images))


def test_the_exported_trial_file_trains_to_the_recorded_value(digits: Path) -> None:
    config = sweeper.load_study(digits / "best" / "trial.toml", [f"results.dir={digits / 'again'}"])
    again = trained(config).trials().iloc[0]
    row = sweeper.open_results(digits / "run").best(1).iloc[0]
    assert (again["value"], again["test_loss"]) == (row["value"], row["test_loss"])


def test_the_card_describes_the_model(digits: Path) -> None:
    card = (digits / "best" / "README.md").read_text(encoding="utf-8")
    row = sweeper.open_results(digits / "run").best(1).iloc[0]
    preparation = json.loads((digits / "run" / "preparation.json").read_text(encoding="utf-8"))
    for line in (
        f"# Trial {row['trial_number']} of the study digits",
        f"| test_accuracy | {formatting.number(row['test_accuracy'])} |",
        f"| width | {row['params_width']} |",
        f"| digest | {preparation['digest']} |",
        "| rows | 1257 for training, 360 for validation, 180 for testing |",
        "    python -m sweeper predict best/ new.csv -o out.csv",
    ):
        assert f"\n{line}\n" in f"\n{card}"
    for package in ("equinox", "jax", "numpy", "sweeper"):
        assert f"\n| {package} | " in card


def test_the_card_and_the_plan_of_folds_name_the_rows_of_each(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = PENGUINS.assign(place=[max(row, 70) for row in range(120)])
    table.to_csv(tmp_path / "penguins.csv", index=False)
    settings = "data.split={test=0.1,group='place'}", "study.folds=2"
    config = study_in(tmp_path, STUDY, *settings)
    results, counts = trained(config), prepared(config).rows_of_folds
    assert len({*counts}) == 2

    for fold, (train, val) in enumerate(counts):
        export(results.run_dir.root, None, fold, tmp_path / f"{fold}")
        card = (tmp_path / f"{fold}" / "README.md").read_text(encoding="utf-8")
        assert f"| rows | {train} for training, {val} for validation, " in card

    capsys.readouterr()
    sweeper.command(
        "plan", str(tmp_path / "study.toml"), *(word for one in settings for word in ("--set", one))
    )
    (train, val) = (" to ".join(map(str, sorted(part))) for part in zip(*counts, strict=True))
    assert f"{train} rows for training, {val} for validation, " in capsys.readouterr().out


@pytest.mark.parametrize(
    "more",
    [
        pytest.param(
            ("data.categorical=ordinal", "data.scale=minmax", "train.loss=binary_cross_entropy"),
            marks=pytest.mark.slow,
        ),
        ("model.numbers=ple", "model.n_bins=4", "study.folds=2", "data.scale=quantile"),
        pytest.param(
            ("model.numbers=plr", "model.n_frequencies=3", "data.scale=quantile"),
            marks=pytest.mark.slow,
        ),
        pytest.param((), marks=pytest.mark.slow),
        pytest.param(("study.folds=2", "execution.precision=float64"), marks=pytest.mark.slow),
    ],
)
def test_columns_of_text_with_gaps_are_encoded_without_this_package(
    more: tuple[str, ...], tmp_path: Path
) -> None:
    import jax

    jax.config.update("jax_enable_x64", "float64" in str(more))
    try:
        best = penguins_in(tmp_path, *more)
        rows = pd.read_csv(tmp_path / "penguins.csv")
        saved = sweeper.load(best)
        columns = [*saved.info["data"]["transform"]["columns"]]
        given = {f"c{i}": rows[name].to_numpy(object) for i, name in enumerate(columns)}
        call = ", ".join(f"{name!r}: given['c{i}']" for i, name in enumerate(columns))

        calls = {name: f"load.{name}({{{call}}})" for name in ("features", "predict")}
        found = standalone(best, tmp_path, calls, **given)

        np.testing.assert_array_equal(found["features"], saved.features(rows))
        assert found["features"].dtype == saved.features(rows).dtype
        assert found["predict"].tolist() == saved.predict(rows).tolist()
    finally:
        jax.config.update("jax_enable_x64", False)


def test_a_table_is_predicted_and_unknown_values_are_reported(tmp_path: Path) -> None:
    best, told = penguins_in(tmp_path), list[str]()
    rows = PENGUINS.head(4).drop(columns=["species"])
    rows.loc[2, "island"] = "Dram"
    rows.to_csv(tmp_path / "new.csv", index=False)

    def predict() -> str:
        return predict_table(best, tmp_path / "new.csv", told.append).as_csv()

    text = predict()

    found = pd.read_csv(tmp_path / "new.csv"), pd.read_csv(StringIO(text))
    names = ["species", "probability of Adelie", "probability of Gentoo <b>"]
    assert [*found[1].columns] == names
    saved = sweeper.load(best)
    with pytest.warns(UnknownCategoryWarning, match="'island' has 'Dram' in 1 row") as warned:
        assert found[1]["species"].tolist() == saved.predict(found[0]).tolist()
    assert [one.filename for one in warned] == [__file__]
    row = found[0].iloc[0]  # a Series, like a dict, is a table of one row
    for one in (row, row.to_dict(), found[0].head(1)):
        assert saved.predict(one).tolist() == found[1]["species"].tolist()[:1]
    assert repr(saved) == (
        "<SavedModel: trial 0 of the study 'penguins', of 3 columns, predicts species>"
    )
    np.testing.assert_allclose(found[1][names[1:]].sum(axis=1), 1, rtol=1e-6)
    assert told == [
        "new.csv: column 'island' has 'Dram' in 1 row, which no training row had; it is taken as "
        "none of the known categories (line 4)",
        "new.csv: missing values are filled as in training: 1 of 'bill|mm'",
    ]
    rows.to_csv(tmp_path / "new.csv")  # with the index of pandas, which the model does not know
    assert predict() == text
    for _ in range(3):  # and each time once more: Unnamed: 0, Unnamed: 0.1, ...
        pd.read_csv(tmp_path / "new.csv", keep_default_na=False).to_csv(tmp_path / "new.csv")
    assert predict() == text
    told.clear()
    rows.to_csv(tmp_path / "new.csv", index=False, sep=";", decimal=",")
    assert predict() == text
    how = """separator = ";" and decimal = ","""
    assert told[0] == f'new.csv: read with {how}", unlike the rows of the study'
    other = rows.rename(columns={"island": "Island"}).assign(weight=1)
    other.to_csv(tmp_path / "other.csv", index=False)
    with pytest.raises(DataError) as refusal:
        predict_table(best, tmp_path / "other.csv", told.append)
    assert [str(problem) for problem in refusal.value.problems] == [
        "other.csv: no column 'island'; is 'Island' the same?",
    ]
    told.clear()
    other.drop(columns="Island").assign(island="Dream", **{"Unnamed: 0": 1}, note="y").to_csv(
        tmp_path / "more.csv", index=False
    )
    rows.assign(island="Dream").to_csv(tmp_path / "same.csv", index=False)
    same = predict_table(best, tmp_path / "same.csv", told.append).as_csv()
    assert predict_table(best, tmp_path / "more.csv", told.append).as_csv() == same
    assert [line for line in told if "filled" not in line] == [
        "more.csv: not used, since the study does not have them: 'weight'"
    ]
    told.clear()
    predict_table(best, tmp_path / "more.csv", told.append, ["weight"])
    assert len(told) == 1  # about gaps


def test_columns_of_a_table_are_kept_next_to_its_predictions(tmp_path: Path) -> None:
    best, told = penguins_in(tmp_path), list[str]()
    rows = PENGUINS.head(3).assign(id=["007", "a,b\nc", ""])
    rows.to_csv(tmp_path / "new.csv", index=False)
    only = predict_table(best, tmp_path / "new.csv", told.append, ["id"])
    bare = pd.read_csv(StringIO(only.as_csv()))
    text = predict_table(best, tmp_path / "new.csv", told.append, ["id", "species"]).as_csv()
    whole = predict_table(best, tmp_path / "new.csv", told.append, ["all"]).as_csv()

    found = pd.read_csv(StringIO(text), dtype=str, keep_default_na=False)
    assert len(only) == 3
    assert [*bare.columns][:2] == ["id", "species"]
    assert [*found.columns][:3] == ["id", "species", "predicted species"]
    assert found["id"].tolist() == ["007", "a,b\nc", ""]
    assert found["species"].tolist() == rows["species"].tolist()
    assert found["predicted species"].tolist() == bare["species"].tolist()
    assert [*pd.read_csv(StringIO(whole)).columns][: len(rows.columns)] == [*rows.columns]
    with pytest.raises(DataError, match=r"new\.csv: --keep: no column 'ids'; did you mean 'id'\?"):
        predict_table(best, tmp_path / "new.csv", told.append, ["ids"])

    rows.rename(columns={"id": "id, old"}).to_csv(tmp_path / "new.csv", index=False)
    with pytest.raises(DataError, match="no column 'old'; write a name with a comma in double"):
        predict_table(best, tmp_path / "new.csv", told.append, ["old"])


def test_a_category_that_pandas_takes_for_missing_is_predicted_as_such(tmp_path: Path) -> None:
    table = PENGUINS.replace({"island": {"Dream": "NA"}})
    table.to_csv(tmp_path / "penguins.csv", index=False)
    results = trained(study_in(tmp_path, STUDY, 'data.missing_values=[""]'))
    best = tmp_path / "best"
    export(results.run_dir.root, None, 0, best)
    told: list[str] = []
    text = predict_table(best, tmp_path / "penguins.csv", told.append).as_csv()
    assert not [line for line in told if "island" in line]
    saved = sweeper.load(best)

    rows = pd.read_csv(tmp_path / "penguins.csv", keep_default_na=False)
    found = pd.read_csv(StringIO(text)).iloc[:, 1:].to_numpy()
    np.testing.assert_array_equal(saved.probabilities(rows), found.astype(np.float32))
    hint = "pandas.read_csv reads 'NA' as missing unless keep_default_na=False"
    with pytest.warns(UnknownCategoryWarning, match=f"'island' has a missing value in .*; {hint}"):
        saved.predict(pd.read_csv(tmp_path / "penguins.csv"))
    assert "pandas.read_csv(..., keep_default_na=False)" in (best / "README.md").read_text("utf-8")


def test_rows_to_predict_are_written_as_those_of_the_study(tmp_path: Path) -> None:
    how = {"sep": ";", "decimal": ",", "encoding": "latin-1", "index": False}
    table = PENGUINS.replace({"island": {"Biscoe": "Bïscoe"}})
    table.to_csv(tmp_path / "penguins.csv", **how)
    written = ('data.separator=";"', 'data.decimal=","', 'data.encoding="latin-1"')
    results = trained(study_in(tmp_path, STUDY, *written))
    export(results.run_dir.root, None, 0, tmp_path / "best")
    best, told = tmp_path / "best", list[str]()
    table.head(40).to_csv(tmp_path / "new.TXT", **how)

    text = predict_table(best, tmp_path / "new.TXT", told.append, ["bill|mm"]).as_csv()

    found = pd.read_csv(StringIO(text), dtype=str, keep_default_na=False)
    assert told == ["new.TXT: missing values are filled as in training: 5 of 'bill|mm'"]
    assert found["species"].tolist() == sweeper.load(best).predict(table.head(40)).tolist()
    assert found["bill|mm"].str.contains(",").any()  # as in the table
    table.to_csv(tmp_path / "new.csv", index=False)
    told.clear()
    predict_table(best, tmp_path / "new.csv", told.append)
    how = """separator = ",", decimal = "." and encoding = "utf-8\""""
    assert told[0] == f"new.csv: read with {how}, unlike the rows of the study"


def test_the_line_of_a_value_that_is_not_a_number_is_reported(tmp_path: Path) -> None:
    best = penguins_in(tmp_path)
    rows = PENGUINS.head(4).astype({"bill|mm": object})
    rows.loc[2, "bill|mm"] = "long"
    rows.to_csv(tmp_path / "new.csv", index=False)
    with pytest.raises(DataError) as refusal:
        predict_table(best, tmp_path / "new.csv", lambda told: None)
    assert str(refusal.value) == (
        "new.csv: column 'bill|mm' has non-numbers in 1 row: 'long' is not a number (line 4); "
        "write numbers, or leave them empty"
    )


def test_numbers_are_predicted_in_the_units_of_the_data(tmp_path: Path) -> None:
    numbers = ("data.target=['ring','bill|mm']", "data.drop=['note','species']", "data.impute=none")
    table = PENGUINS.fillna({"bill|mm": 40.0})
    numbers = (*numbers, "data.categorical_columns=[]", "train.loss=mse")
    table.to_csv(tmp_path / "penguins.csv", index=False)
    results = trained(study_in(tmp_path, STUDY, *numbers))
    export(results.run_dir.root, None, 0, tmp_path / "best")

    text = predict_table(tmp_path / "best", tmp_path / "penguins.csv", lambda told: None).as_csv()

    found = pd.read_csv(StringIO(text))
    expected = sweeper.load(tmp_path / "best").predict(table)
    assert [*found.columns] == ["ring", "bill|mm"]
    np.testing.assert_allclose(found.to_numpy(), expected)
    island = {"island": table["island"].to_numpy(str)}
    alone = standalone(tmp_path / "best", tmp_path, {"found": "load.predict(given)"}, **island)
    np.testing.assert_allclose(alone["found"], expected, rtol=1e-5)
    assert 20 < expected[:, 1].mean() < 60
