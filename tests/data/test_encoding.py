"""Filling, encoding and splitting, compared with scikit-learn and pandas written out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GroupKFold, GroupShuffleSplit, train_test_split
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler
from sklearn.utils.class_weight import compute_class_weight

from sweeper.config import StudyConfig
from sweeper.data.dataset import Dataset
from sweeper.data.prepare import prepare
from sweeper.errors import DataError

SEED = 7  # the studies of these tests use it
RNG = np.random.default_rng(0)
N = 60
FRAME = pd.DataFrame(
    {
        "size": np.where(RNG.random(N) < 0.2, np.nan, RNG.normal(size=N)),
        "month": RNG.integers(1, 6, N),
        "colour": pd.Series(RNG.choice(["red", "blue", "green"], N)).mask(RNG.random(N) < 0.2),
        "patient": RNG.choice([f"p{i}" for i in range(12)], N),
        "day": pd.date_range("2026-01-01", periods=N, freq="12h")[RNG.permutation(N)],
        "kind": RNG.choice(["apple", "fig", "pear"], N, p=[0.6, 0.3, 0.1]),
    }
)
# a colour and a month that no training row has: the second split leaves the rows below to train on
REST, TEST = train_test_split(np.arange(N), test_size=6, random_state=SEED)
TRAIN, VAL = train_test_split(REST, test_size=12, random_state=SEED)
FRAME.loc[VAL[0], "colour"], FRAME.loc[VAL[1], "month"] = "black", 12
TABLE = FRAME.to_csv(index=False)
PARTS = (TRAIN, VAL, TEST)
CSV = 'source = "csv"\npath = "rows.csv"\ntarget = "kind"\n'
DROP = 'drop = ["patient", "day"]\n'
MEDIAN = 'impute = "median"\n'


def x_of(dataset: Dataset) -> np.ndarray:
    return np.vstack([dataset.x_train, dataset.x_val, dataset.x_test])


def refusal(config: StudyConfig) -> list[str]:
    with pytest.raises(DataError) as caught:
        prepare(config)
    return str(caught.value).splitlines()


@pytest.mark.parametrize(
    ("impute", "imputer"),
    [
        ('"mean"', SimpleImputer(strategy="mean")),
        ('"median"', SimpleImputer(strategy="median")),
        ('"most_frequent"', SimpleImputer(strategy="most_frequent")),
        ("{ constant = -9 }", SimpleImputer(strategy="constant", fill_value=-9.0)),
    ],
)
def test_gaps_are_filled_by_the_training_part(make_study, impute: str, imputer) -> None:
    dataset = prepare(make_study(CSV + DROP + f"impute = {impute}\n", TABLE))

    imputer.fit(FRAME[["size", "month"]].iloc[TRAIN])
    scaler = StandardScaler().fit(imputer.transform(FRAME[["size", "month"]].iloc[TRAIN]))
    colours = FRAME[["colour"]].astype(object).where(FRAME[["colour"]].notna(), np.nan)
    if impute == '"most_frequent"':
        colours[:] = (
            SimpleImputer(strategy="most_frequent").fit(colours.iloc[TRAIN]).transform(colours)
        )
    one_hot = OneHotEncoder(handle_unknown="ignore", sparse_output=False).fit(colours.iloc[TRAIN])
    expected = [
        np.hstack(
            [
                scaler.transform(imputer.transform(FRAME[["size", "month"]].iloc[rows])),
                one_hot.transform(colours.iloc[rows]),
            ]
        )
        for rows in PARTS
    ]
    np.testing.assert_array_equal(x_of(dataset), np.vstack(expected))
    # a missing colour is a category, unless it is filled; black has no column
    own = [] if impute == '"most_frequent"' else ["colour_nan"]
    assert dataset.feature_names == (
        *("size", "month", "colour_blue", "colour_green", "colour_red"),
        *own,
    )
    assert not dataset.x_val[0, 2:].any()


def test_ordinal_categories_are_scaled_indices(make_study) -> None:
    data = CSV + DROP + MEDIAN + 'categorical = "ordinal"\ncategorical_columns = ["month"]\n'
    dataset = prepare(make_study(data, TABLE))

    columns = FRAME[["month", "colour"]].astype(object)
    columns = columns.where(FRAME[["month", "colour"]].notna(), np.nan)
    encoder = OrdinalEncoder(
        handle_unknown="use_encoded_value", unknown_value=-1, encoded_missing_value=-2
    ).fit(columns.iloc[TRAIN])
    places = encoder.transform(columns)
    assert (places[VAL[0], 1], places[VAL[1], 0]) == (-1, -1)
    assert -2 in places[TRAIN, 1]
    scaler = StandardScaler().fit(places[TRAIN])
    expected = np.vstack([scaler.transform(places[rows]) for rows in PARTS])

    np.testing.assert_array_equal(x_of(dataset)[:, 1:], expected)
    assert dataset.feature_names == ("size", "month", "colour")


def test_listed_numeric_columns_are_categories(make_study) -> None:
    data = CSV + DROP + MEDIAN + 'categorical_columns = ["month"]\n'
    dataset = prepare(make_study(data, TABLE))

    one_hot = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
    one_hot.fit(FRAME[["month"]].iloc[TRAIN])
    expected = np.vstack([one_hot.transform(FRAME[["month"]].iloc[rows]) for rows in PARTS])
    np.testing.assert_array_equal(x_of(dataset)[:, 1:6], expected)
    assert dataset.feature_names[1:6] == tuple(f"month_{i}" for i in range(1, 6))

    wrong = data.replace('["month"]', '["mont", "kind"]')
    assert refusal(make_study(wrong, TABLE)) == [
        "study.toml:15: data.categorical_columns: rows.csv has no column 'mont'; "
        "did you mean 'month'?",
        "study.toml:15: data.categorical_columns: 'kind' is the target; "
        "leave it out of data.categorical_columns",
    ]


@pytest.mark.parametrize(
    ("column", "impute"),
    [("size", "mean"), ("size", "most_frequent"), ("colour", "most_frequent"), ("colour", "mean")],
)
def test_gaps_without_values_to_fill_them_are_refused(make_study, column: str, impute: str) -> None:
    is_trained = pd.Series(np.isin(np.arange(N), TRAIN))
    gaps = FRAME.assign(**{column: FRAME[column].fillna(FRAME[column].iloc[0]).mask(is_trained)})
    config = make_study(CSV + DROP + f'impute = "{impute}"\n', gaps.to_csv(index=False))

    if (column, impute) == ("colour", "mean"):  # a missing value is a category
        assert prepare(config).feature_names == ("size", "month", "colour_nan")
        return
    assert refusal(config) == [
        f"study.toml:11: data.path: column '{column}' of rows.csv has no value in the training "
        "rows; add rows, or leave the column out"
    ]


@pytest.mark.parametrize(
    ("settings", "of_features", "of_target"),
    [
        ("", True, True),
        ('scale = "none"', False, False),
        ('target_scale = "none"', True, False),
        ('scale = "none"\ntarget_scale = "standard"', False, True),
        ('scale = "standard"\ntarget_scale = "standard"', True, True),
    ],
)
def test_features_and_targets_are_scaled_separately(
    settings: str, of_features: bool, of_target: bool, make_study
) -> None:
    rows = pd.DataFrame({"size": 5.0 + np.arange(N), "price": 100.0 + 3 * np.arange(N)})
    data = CSV.replace("kind", "price") + settings + "\n"
    config = make_study(data, rows.to_csv(index=False), loss="mse")
    dataset = prepare(config)

    own = {name: rows[[name]].iloc[TRAIN] for name in rows}
    x, y = (StandardScaler().fit_transform(one) for one in own.values())
    np.testing.assert_allclose(dataset.x_train, x if of_features else own["size"])
    np.testing.assert_allclose(dataset.y_train, y if of_target else own["price"])
    unit = dataset.y_train * dataset.y_scale + dataset.y_mean
    np.testing.assert_allclose(unit, own["price"])
    # records of versions without the setting are those of studies with its default
    assert ("target_scale" in config.canonical()["data"]) is (of_features != of_target)


UNIQUE = FRAME.assign(size=np.arange(N, dtype=float))


def split_study(make_study, split: str, more: str = "") -> Dataset:
    drop = [name for name in ("colour", "patient", "day") if name not in split]
    data = CSV + f'scale = "none"\ndrop = {drop}\nsplit = {{ {split} }}\n' + more
    return prepare(make_study(data, UNIQUE.to_csv(index=False)))


def part_rows(dataset: Dataset) -> list[list[int]]:
    """The rows of each part: `size` is their number."""
    parts = dataset.x_train, dataset.x_val, dataset.x_test
    return [part[:, 0].astype(int).tolist() for part in parts]


def test_groups_are_not_split(make_study) -> None:
    dataset = split_study(make_study, 'val = 0.25, test = 0.2, group = "patient"')

    groups = FRAME["patient"].to_numpy()
    assert len(np.unique(groups)) == 12
    draw = GroupShuffleSplit(1, test_size=0.2, random_state=SEED)
    rest, test = next(draw.split(groups, groups=groups))
    draw = GroupShuffleSplit(1, test_size=3, random_state=SEED)  # a quarter of 12
    train, val = next(draw.split(rest, groups=groups[rest]))
    assert part_rows(dataset) == [rest[train].tolist(), rest[val].tolist(), test.tolist()]
    patients = [{*groups[rows]} for rows in part_rows(dataset)]
    assert sum(map(len, patients)) == 12
    assert dataset.feature_names == ("size", "month")


def test_the_latest_rows_are_tested_on(make_study) -> None:
    dataset = split_study(make_study, 'val = 0.25, test = 0.2, time = "day"')

    by_day = np.argsort(FRAME["day"].to_numpy(), kind="stable").tolist()
    assert part_rows(dataset) == [by_day[:33], by_day[33:48], by_day[48:]]
    assert dataset.feature_names == ("size", "month")


@pytest.mark.parametrize(
    "form",
    [
        lambda day: day,
        lambda day: day.dt.tz_localize("Europe/Berlin"),
        lambda day: day.dt.strftime("%Y-%m-%dT%H:%M+01:00"),
        lambda day: day.dt.date,
        lambda day: day.astype("int64"),
        lambda day: day.astype("category"),
    ],
    ids=["time", "zoned", "text", "date", "number", "category"],
)
def test_many_time_formats_are_read(make_study, tmp_path: Path, form) -> None:
    days = pd.Series(pd.date_range("2026-01-01", periods=N, freq="D")[::-1])
    UNIQUE[["size", "kind"]].assign(day=form(days)).to_parquet(tmp_path / "rows.parquet")
    data = CSV.replace("csv", "parquet") + 'scale = "none"\nsplit = { test = 0, time = "day" }\n'

    dataset = prepare(make_study(data))
    assert part_rows(dataset) == [[*range(N - 1, 11, -1)], [*range(11, -1, -1)], []]


def test_numbers_can_order_rows_and_be_features(make_study) -> None:
    dataset = split_study(make_study, 'test = 0, time = "month", as_feature = true')

    by_month = np.argsort(FRAME["month"].to_numpy(), kind="stable").tolist()
    assert part_rows(dataset) == [by_month[:48], by_month[48:], []]
    assert dataset.feature_names == ("size", "month")


def test_groups_may_be_features(make_study) -> None:
    dataset = split_study(make_study, 'group = "patient", as_feature = true')

    assert any(name.startswith("patient_") for name in dataset.feature_names)


@pytest.mark.parametrize(
    ("split", "problem"),
    [
        ('group = "patent"', "group: rows.csv has no column 'patent'; did you mean 'patient'?"),
        ('group = "kind"', "group: 'kind' is the target; name another column"),
        ('time = "colour"', "time: column 'colour' of rows.csv: "),
    ],
)
def test_columns_that_cannot_split_rows_are_refused(make_study, split: str, problem: str) -> None:
    data = CSV + DROP + MEDIAN + f"split = {{ {split} }}\n"
    (line,) = refusal(make_study(data, TABLE))
    assert line.startswith(f"study.toml:15: data.split.{problem}")


def test_lists_can_neither_group_nor_stratify_rows(make_study, tmp_path: Path) -> None:
    FRAME.assign(tags=FRAME["month"].map(lambda month: [month])).to_parquet(
        tmp_path / "rows.parquet"
    )
    data = CSV.replace("csv", "parquet") + MEDIAN + 'drop = ["patient", "day"]\n'
    held = "column 'tags' of rows.parquet holds values of type ndarray"

    assert refusal(make_study(data + 'split = { group = "tags" }\n')) == [
        f"study.toml:15: data.split.group: {held}; write numbers or text"
    ]
    assert refusal(make_study(data.replace("kind", "tags") + "split.stratify = true\n")) == [
        f"study.toml:11: data.path: {held}; write numbers, or text as classes"
    ]


def test_cells_that_cannot_split_rows_are_named(make_study) -> None:
    table = "x,patient,day,y\n" + "".join(
        f"{i},{i % 5},2026-01-{i + 1:02},{i % 2}\n" for i in range(20)
    )
    table += "20,,noon,0\n"
    data = CSV.replace("kind", "y")
    for split, problem in {
        'group = "patient"': "group: column 'patient' of rows.csv: 1 value missing (line 22); "
        "write them",
        'time = "day"': "time: column 'day' of rows.csv: 1 value is not a time (line 22); write "
        "numbers, or times as 2026-01-31T12:00",
    }.items():
        dropped = 'drop = ["patient", "day"]\n'
        assert refusal(make_study(data + dropped + f"split = {{ {split} }}\n", table)) == [
            f"study.toml:14: data.split.{problem}"
        ]
    few = table.replace("20,,noon,0\n", "")
    shares = 'drop = ["day"]\nsplit = { val = 0.5, test = 0.3, group = "patient" }\n'
    assert refusal(make_study(data + shares, few)) == [
        "study.toml:14: data.split: of 5 groups, validation takes 3 and testing 2, so none are "
        "left for training; add groups or write smaller shares"
    ]


def test_a_batch_is_measured_against_the_rows_of_the_training_groups(make_study) -> None:
    table = "x,patient,y\n" + "".join(f"{i},{min(i, 9)},{i % 2}\n" for i in range(40))
    data = CSV.replace("kind", "y") + 'split = { val = 0.2, test = 0.1, group = "patient" }\n'
    n_train = len(prepare(make_study(data, table)).x_train)
    assert n_train in (7, 37)  # the last group has 31 rows

    assert refusal(make_study(data, table, batch=38)) == [
        "study.toml:5: train.batch_size: a batch of 38 rows, but the training part has "
        f"{n_train}; write {n_train} at most"
    ]


def test_balanced_weights_are_scikit_learns(make_study) -> None:
    data = CSV + DROP + MEDIAN + 'class_weights = "balanced"\n'
    dataset = prepare(make_study(data, TABLE))

    expected = compute_class_weight("balanced", classes=np.arange(3), y=dataset.y_train)
    np.testing.assert_allclose(dataset.class_weights, expected, rtol=1e-15)
    assert prepare(make_study(CSV + DROP + MEDIAN, TABLE)).class_weights == ()


def test_class_weights_default_to_1(make_study) -> None:
    data = CSV + DROP + MEDIAN + "class_weights = { pear = 5, apple = 0.5 }\n"
    assert prepare(make_study(data, TABLE)).class_weights == (0.5, 1.0, 5.0)

    assert refusal(make_study(data.replace("pear", "paer"), TABLE)) == [
        "study.toml:15: data.class_weights.paer: no class 'paer'; did you mean 'pear'?"
    ]


def test_classes_of_text_are_called_as_they_are_written(make_study) -> None:
    rows = "".join(f"{i},{('v1', 'v1.0', 'v2')[i % 3]}\n" for i in range(30))
    data = CSV + 'class_weights = { "v1.0" = 5 }\n'
    dataset = prepare(make_study(data, "x,kind\n" + rows))
    assert dataset.class_names == ("v1", "v1.0", "v2")
    assert dataset.class_weights == (1.0, 5.0, 1.0)

    numbers = "x,kind\n" + "".join(f"{i},{i % 3}.0\n" for i in range(30))
    assert prepare(make_study(CSV, numbers)).class_names == ("0", "1", "2")


@pytest.mark.parametrize("weight", [1e39, 1e-46])
def test_class_weights_that_the_precision_loses_are_refused(weight: float, make_study) -> None:
    data = f"{CSV}{DROP}{MEDIAN}class_weights = {{ pear = {weight} }}\n"
    assert refusal(make_study(data, TABLE, precision="float32")) == [
        f"study.toml:15: data.class_weights: too small or too large for float32: 'pear' "
        f"({weight:g}); only their ratios count: write weights that are nearer to 1"
    ]
    assert prepare(make_study(data, TABLE)).class_weights == (1.0, 1.0, weight)


def test_weights_without_classes_are_refused(make_study) -> None:
    data = CSV.replace("kind", "month") + DROP + MEDIAN + 'class_weights = "balanced"\n'
    assert refusal(make_study(data, TABLE, loss="mse")) == [
        "study.toml:15: data.class_weights: mse has no classes to weight; write "
        'class_weights = "none"'
    ]


def test_a_class_without_training_rows_cannot_be_balanced(make_study) -> None:
    rare = FRAME.assign(kind=np.where(np.isin(np.arange(N), VAL), "plum", FRAME["kind"]))
    data = CSV + DROP + MEDIAN + 'class_weights = "balanced"\n'
    assert refusal(make_study(data, rare.to_csv(index=False))) == [
        "study.toml:15: data.class_weights: no training row is of class 'plum'; "
        "write data.split.stratify = true or a weight for each class"
    ]


FOLDED = 'split = { test = 0.2, group = "patient" }\ndrop = ["day"]\n'


def with_folds(config: StudyConfig, count: int = 3) -> StudyConfig:
    study = config.study.model_copy(update={"folds": count})
    return config.model_copy(update={"study": study})


def folded(make_study, data: str, batch: int = 2) -> StudyConfig:
    return with_folds(make_study(CSV + MEDIAN + data, TABLE, batch=batch))


def test_groups_are_not_split_between_folds(make_study) -> None:
    dataset = prepare(folded(make_study, FOLDED))

    groups = FRAME["patient"].to_numpy()
    draw = GroupShuffleSplit(1, test_size=0.2, random_state=SEED)
    rest, _ = next(draw.split(groups, groups=groups))
    folds = GroupKFold(3, shuffle=True, random_state=SEED)
    fits = folds.split(rest, groups=groups[rest])
    for fold, (train, val) in enumerate(fits):
        assert dataset.training_rows(fold).tolist() == train.tolist()
        assert not {*groups[rest][train]} & {*groups[rest][val]}
    assert len(dataset.x_val) == 0

    least = min(len(dataset.training_rows(fold)) for fold in range(3))
    assert prepare(folded(make_study, FOLDED, least)).n_folds == 3
    assert refusal(folded(make_study, FOLDED, least + 1)) == [
        f"study.toml:5: train.batch_size: a batch of {least + 1} rows, but a fold trains on "
        f"{least}; write {least} at most"
    ]


def test_folds_scale_indices_and_filled_numbers_by_their_own_rows(make_study) -> None:
    ordinal = DROP + 'categorical = "ordinal"\nsplit = { test = 0.1 }\n'
    dataset = prepare(folded(make_study, ordinal))
    one_hot = prepare(folded(make_study, DROP + "split = { test = 0.1 }\n"))

    for fold in range(3):
        x = dataset.x_train * dataset.fold_scale[fold] + dataset.fold_shift[fold]
        x = x[dataset.training_rows(fold)]
        np.testing.assert_allclose(x.mean(axis=0), 0, atol=1e-12)
        np.testing.assert_allclose(x.std(axis=0), 1, rtol=1e-12)
    assert (one_hot.fold_scale[:, 2:] == 1).all()
    assert (one_hot.fold_scale[:, :2] != 1).all()


def test_folds_of_rows_in_the_order_of_time_are_refused(make_study) -> None:
    data = 'split = { time = "day" }\ndrop = ["patient"]\n'
    assert refusal(folded(make_study, data)) == [
        "study.toml:2: study.folds: folds draw rows at random, but data.split.time orders them; "
        "remove one of them"
    ]


@pytest.mark.parametrize("others", [11, 40])
def test_classes_that_the_test_rows_leave_too_few_rows_for_folds_are_reported(
    make_study, others: int
) -> None:
    kinds = [*["a"] * 11, *["b"] * others, *["c"] * others]
    table = "x,kind\n" + "".join(f"{row},{kind}\n" for row, kind in enumerate(kinds))
    config = make_study(CSV + "split = { test = 0.2, stratify = true }\n", table)
    found = "a class needs 10 rows that are not for testing to be in each fold, but class 'a' has "
    if others == 11:
        (problem,) = refusal(with_folds(config, 10))
        assert problem.startswith(f"study.toml:13: data.split.stratify: {found}")
        assert "'b' has " in problem
        return
    dataset = prepare(with_folds(config, 10))
    (note,) = (note for note in dataset.notes if note.startswith(found))
    assert note.count("' has ") == 1
    assert dataset.n_folds == 10
    assert not any("each fold" in note for note in prepare(with_folds(config, 5)).notes)


def test_class_weights_for_a_user_defined_loss_are_refused(make_study) -> None:
    data = CSV + DROP + MEDIAN + 'class_weights = "balanced"\n'
    (problem,) = refusal(make_study(data, TABLE, loss='mine:loss", task = "classes'))
    assert problem.endswith(
        'data.class_weights: mine:loss does not use weights; write class_weights = "none"'
    )


def test_one_logit_is_for_two_classes(make_study) -> None:
    data = CSV + DROP + MEDIAN
    (problem,) = refusal(make_study(data, TABLE, loss="binary_cross_entropy"))
    assert problem.endswith(
        "train.loss: binary_cross_entropy needs two classes, but 'kind' has 3; write train.loss "
        "= 'cross_entropy'"
    )


def test_folds_do_not_scale_numbers_whose_bins_are_those_of_all_rows(make_study) -> None:
    rows = "".join(f"{i * i % 97}.5,{1e4 if i == 3 else i % 5},{i % 2}\n" for i in range(60))
    csv = 'source = "csv"\npath = "rows.csv"\ntarget = "kind"\nsplit = { test = 0.1 }\n'
    table = f"size,rare,kind\n{rows}"
    plain, encoded = (
        with_folds(
            make_study(
                csv,
                table,
                search=f'model.numbers = {{ type = "categorical", choices = {choices} }}',
            )
        )
        for choices in ('["linear", "plr"]', '["linear", "ple"]')
    )
    data = prepare(encoded)
    assert (data.fold_scale == 1).all() and (data.fold_shift == 0).all()
    assert (prepare(encoded.with_edition(3)).fold_scale != 1).all()  # a study that began so goes on
    assert (prepare(plain).fold_scale != 1).all()
