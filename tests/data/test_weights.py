"""Weights of rows: read from a column that is not a feature, and refused if they make no sense."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sweeper.config import parse
from sweeper.data.dataset import Dataset
from sweeper.data.lint import data_warnings
from sweeper.data.metric_checks import check_metrics
from sweeper.data.prepare import prepare
from sweeper.errors import DataError, StudyError
from tests.small_studies import DIGITS, PARTS

CSV = 'source = "csv"\npath = "rows.csv"\ntarget = "kind"\n'
WEIGHT = 'weight = "w"\n'
N = 40
SIZES, KINDS = np.arange(N) % 7 + 0.5, np.where(np.arange(N) % 3 == 0, "a", "b")
WEIGHTS = np.arange(N) % 4 / 2  # some are 0


def table(weights: object = WEIGHTS) -> str:
    """The rows as CSV; line i + 2 is that of row i."""
    return pd.DataFrame({"size": SIZES, "kind": KINDS, "w": weights}).to_csv(index=False)


def changed(changes: dict[int, object]) -> list[object]:
    return [changes.get(place, weight) for place, weight in enumerate(WEIGHTS.tolist())]


def test_the_column_is_not_a_feature_and_follows_its_rows(make_study) -> None:
    data = prepare(make_study(CSV + WEIGHT, table()))
    assert data.feature_names == ("size",)
    assert data.is_weighted
    assert data.w_train.mean() == pytest.approx(1)
    plain = prepare(make_study(CSV + 'drop = ["size"]\nscale = "none"\n', table()))
    for part in ("train", "val", "test"):
        own, raw = data.weights(part), getattr(plain, f"x_{part}")[:, 0]
        assert own is not None
        np.testing.assert_allclose(own * plain.x_train.mean(), raw, rtol=1e-12)
    assert plain.weights("train") is None


def test_only_ratios_count_in_any_precision(make_study) -> None:
    expected = prepare(make_study(CSV + WEIGHT, table(), precision="float32"))
    for factor in (1e-300, 1e300):
        data = prepare(make_study(CSV + WEIGHT, table(WEIGHTS * factor), precision="float32"))
        np.testing.assert_allclose(data.w_train, expected.w_train, rtol=1e-6)


@pytest.mark.parametrize("largest", [1e42, 1e300])
def test_weights_that_the_precision_loses_are_refused(largest: float, make_study) -> None:
    config = make_study(CSV + WEIGHT, table(changed({5: largest})), precision="float32")
    with pytest.raises(DataError, match=r"too far from the mean.* to count in float32") as refused:
        prepare(config)
    assert f"the largest is {largest:g}: write weights that differ by less" in str(refused.value)


def test_they_are_stored_with_the_rows(make_study, tmp_path: Path) -> None:
    data = prepare(make_study(CSV + WEIGHT, table()))
    other = prepare(make_study(CSV + WEIGHT, table(changed({5: 9}))))
    data.save(tmp_path / "data.npz")
    loaded = Dataset.load(tmp_path / "data.npz")
    assert loaded.digest == data.digest != other.digest
    np.testing.assert_array_equal(loaded.w_train, data.w_train)


def test_every_source_has_them(make_study, tmp_path: Path) -> None:
    expected = prepare(make_study(CSV + WEIGHT, table()))
    frame = pd.DataFrame({"size": SIZES, "kind": KINDS, "w": WEIGHTS})
    frame.to_parquet(tmp_path / "rows.parquet")
    frame.set_index("w").to_parquet(tmp_path / "indexed.parquet")
    np.savez(tmp_path / "rows.npz", x=SIZES, y=KINDS, w=WEIGHTS)
    code = "import pandas as pd\ndef rows():\n    return pd.read_parquet('PATH').to_dict('list')\n"
    code = code.replace("PATH", str(tmp_path / "rows.parquet"))
    (tmp_path / "own_rows.py").write_text(code, encoding="utf-8")
    sources = [
        CSV.replace("csv", "parquet"),
        CSV.replace("csv", "parquet").replace("rows.", "indexed."),
        'source = "npz"\npath = "rows.npz"\n',
        'source = "python"\nfunction = "own_rows:rows"\ntarget = "kind"\n',
    ]
    for source in sources:
        data = prepare(make_study(source + WEIGHT))
        assert data.n_features == 1, source
        for part in ("train", "val", "test"):
            np.testing.assert_array_equal(data.weights(part), expected.weights(part))


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({3: -1.5, 8: -2}, "2 values are negative (lines 5, 10); write 0 or more"),
        ({4: None}, "1 value is missing (line 6); write 1 for rows that count as usual, or 0 for"),
        ({4: np.inf}, "1 value is infinite (line 6); write finite numbers"),
        ({4: "much"}, "1 value is text, but weights are numbers (line 6); write 1 for rows that"),
    ],
)
def test_wrong_weights_are_refused_with_their_rows(
    changes: dict[int, object], found: str, make_study
) -> None:
    with pytest.raises(DataError) as caught:
        prepare(make_study(CSV + WEIGHT, table(changed(changes))))
    assert str(caught.value).startswith(
        f"study.toml:13: data.weight: column 'w' of rows.csv: {found}"
    )


def test_numbers_written_as_text_are_refused_with_how_to_read_them(make_study) -> None:
    with pytest.raises(DataError, match=r"weights are numbers.*str\.replace"):
        prepare(make_study(CSV + WEIGHT, table([f"{weight} kg" for weight in WEIGHTS])))


@pytest.mark.parametrize(
    ("setting", "found"),
    [
        ('weight = "wight"', "rows.csv has no column 'wight'; its columns are size, kind and w"),
        ('weight = "kind"', "'kind' is the target; name another column"),
        ('weight = "w"\ndrop = ["w"]', "'w' is in data.drop; name another column"),
        ('weight = "w"\nsplit.group = "w"', "'w' is the column of data.split.group"),
    ],
)
def test_a_column_has_one_role(setting: str, found: str, make_study) -> None:
    with pytest.raises(DataError) as caught:
        prepare(make_study(f"{CSV}{setting}\n", table()))
    assert f"study.toml:13: data.weight: {found}" in str(caught.value)


def test_a_split_without_any_weight_is_refused(make_study) -> None:
    """By time, so that the rows of each split are known."""
    ordered = CSV + WEIGHT + 'split = { time = "size", as_feature = true, val = 0.25, test = 0.25 }'
    frame = pd.DataFrame({"size": np.arange(N), "kind": KINDS})
    for part, weightless in {"training": (0, 20), "validation": (20, 30), "test": (30, N)}.items():
        own = np.ones(N)
        own[slice(*weightless)] = 0
        with pytest.raises(DataError, match=f"all weights of the {part} rows are 0"):
            prepare(make_study(ordered, frame.assign(w=own).to_csv(index=False)))
    config = make_study(CSV + WEIGHT, table([1, *[0] * (N - 1)]))
    folded = config.model_copy(update={"study": config.study.model_copy(update={"folds": 3})})
    with pytest.raises(DataError, match="validation rows of fold 2 of 3 are 0"):
        prepare(folded)


def test_a_class_whose_rows_do_not_count_cannot_be_balanced(make_study) -> None:
    balanced = f'{CSV}{WEIGHT}class_weights = "balanced"\n'
    with pytest.raises(DataError) as caught:
        prepare(make_study(balanced, table(np.where(KINDS == "a", 0, 1))))
    assert str(caught.value).endswith(
        "data.class_weights: all training rows of class 'a' have weight 0; write weights above 0 "
        "for some of them, or a weight for each class"
    )


def test_rows_without_weight_do_not_make_a_metric_computable(make_study) -> None:
    ordered = CSV + WEIGHT + 'split = { time = "size", as_feature = true }\n'
    frame = pd.DataFrame({"size": np.arange(N), "kind": KINDS, "w": np.where(KINDS == "a", 0, 1)})
    config = make_study(ordered, frame.to_csv(index=False))
    train = config.train.model_copy(update={"metrics": ("auroc",)})
    config = config.model_copy(update={"train": train})
    with pytest.raises(DataError, match="the validation part has no row of class 'a'"):
        check_metrics(config, prepare(config))


def test_weights_that_change_nothing_are_reported(make_study) -> None:
    def warnings_of(weights: object) -> list[str]:
        config = make_study(CSV + WEIGHT, table(weights))
        return [one for one in data_warnings(config, prepare(config)) if "weight" in one]

    assert warnings_of(WEIGHTS) == []
    assert warnings_of(0.3) == [
        "all weights in column 'w' are equal, so they change nothing; remove data.weight"
    ]


def test_balanced_classes_count_weights(make_study) -> None:
    whole = np.arange(N) % 4
    data = prepare(make_study(CSV + WEIGHT + 'class_weights = "balanced"\n', table(whole)))
    total = np.bincount(data.y_train, data.w_train)
    assert total * data.class_weights == pytest.approx([total.sum() / 2] * 2)


def test_rows_without_a_target_keep_the_weights_of_the_others(make_study) -> None:
    """Also if they held the only text among the weights."""
    gaps = pd.DataFrame({"size": [9.0], "kind": [None], "w": ["?"]})
    frame = pd.DataFrame({"size": SIZES, "kind": KINDS, "w": WEIGHTS})
    rows = pd.concat([gaps, frame]).to_csv(index=False)
    data = prepare(make_study(CSV + WEIGHT + 'missing_target = "drop"\n', rows))
    assert data.digest == prepare(make_study(CSV + WEIGHT, table())).digest


@pytest.mark.parametrize(
    ("overrides", "found"),
    [
        (["train.loss=own:loss", "train.task=numbers"], "train.loss: 'own:loss' is user-defined"),
        (["train.metrics=['own:score']"], "train.metrics: 'own:score' is user-defined"),
    ],
)
def test_user_defined_measures_are_refused(overrides: list[str], found: str) -> None:
    study = DIGITS.replace('source = "sklearn"', 'source = "csv"\npath = "a.csv"\ntarget = "y"')
    study = study.replace('name = "digits"\nsplit', 'weight = "w"\nsplit')
    with pytest.raises(StudyError) as caught:
        parse(study, Path("study.toml"), overrides)
    assert f"data.weight: {found} and gets no weights; remove it, or write" in str(caught.value)


def test_other_programs_are_refused() -> None:
    study = PARTS.replace('source = "sklearn"', 'source = "csv"\npath = "a.csv"\ntarget = "y"')
    study = study.replace('name = "diabetes"', 'weight = "w"')
    with pytest.raises(StudyError, match=r"data\.weight: the program alternating does not weight"):
        parse(study, Path("study.toml"))


def test_a_shipped_data_set_has_no_weights() -> None:
    with pytest.raises(StudyError, match=r"data\.weight"):
        parse(DIGITS, Path("study.toml"), ["data.weight=w"])
