"""Warnings about data that a study can run on but that is probably not intended."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from sweeper.api import check, run
from sweeper.cli.new_study import begin
from sweeper.config import StudyConfig, parse
from sweeper.data.columns import columns_of_sums
from sweeper.data.identity import MISSING_WORDS
from sweeper.data.lint import data_warnings
from sweeper.data.prepare import prepare
from sweeper.preflight.preview import data_preview
from sweeper.results.events import Event, Warned
from tests.small_studies import COUPLED, bent, write_mixture

CSV = 'source = "csv"\npath = "rows.csv"\ntarget = "kind"\n'
GOOD = "size,kind\n" + "".join(f"{i % 7},{'Stays' if i % 2 else 'Leaves'}\n" for i in range(12))


def messages(event: Event) -> list[str]:
    return [event.message] if isinstance(event, Warned) else []


def each_warning(config: StudyConfig) -> tuple[str, ...]:
    return data_warnings(config, prepare(config))


def test_rare_classes_are_reported_in_quotes(
    make_study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert each_warning(make_study(CSV, GOOD)) == ()
    assert each_warning(make_study(CSV, GOOD + "1,Stays \n")) == (
        "a class with fewer than 5 rows, too few to learn from: 'Stays ' has 1 (did you mean "
        "'Stays'?); fix the labels, or add rows",
    )
    many = "".join(f"1,{name}\n" for name in "abcdefgh")
    (warning,) = each_warning(make_study(CSV, GOOD + many))
    assert "'e' has 1 and there are 3 more; fix the labels" in warning
    monkeypatch.chdir(tmp_path)
    others = make_study(CSV, GOOD + "1,stays\n2,Lost\n3,Lost\n")
    (warning,) = check(others).warnings
    assert warning == (
        "classes with fewer than 5 rows, too few to learn from: 'Lost' has 2 and 'stays' has 1 "
        "(did you mean 'Stays'?); fix the labels, or add rows"
    )
    seen: list[str] = []
    run(others, observer=lambda event: seen.extend(messages(event)))
    assert seen.count(warning) == 1


@pytest.mark.parametrize(
    ("names", "alike"),
    [
        (("Yes", "yes ", "No"), "'Yes' and 'yes '"),
        (("<=50K", "<=50K.", ">50K"), "'<=50K' and '<=50K.'"),
        (("not sure", "not-sure", "not_sure"), "'not sure', 'not-sure' and 'not_sure'"),
        (("U.S.", "US", "UK"), "'U.S.' and 'US'"),
        (("Ja", "Ja\u200b", "Nein"), r"'Ja' and 'Ja\u200b'"),
        (("caf\u00e9", "cafe\u0301", "bar"), r"'cafe\u0301' and 'caf\xe9'"),
        (("1", "1.0", "K1A", "K1B"), "'1' and '1.0'"),
        (("A+", "A-", "A"), None),
        (("v1.0", "v10", "v1"), None),
        (("C", "C++", "C#"), None),
        (("-1", "1", "x", "y"), None),
    ],
)
def test_texts_that_differ_only_in_looks_are_named(
    make_study, names: tuple[str, ...], alike: str | None
) -> None:
    classes = "size,kind\n" + "".join(f"{i},{names[i % len(names)]}\n" for i in range(36))
    codes = "code,size,kind\n" + "".join(
        f"{names[i % len(names)]},{i},{'ab'[i % 2]}\n" for i in range(36)
    )
    looks = f"{alike} differ only in case, blanks or punctuation"
    named = {
        "classes": f"classes {looks}, but count as different ones; write them alike",
        "codes": f"column 'code' has categories {looks}, but count as different ones; "
        "write them alike",
    }

    for of, table in (("classes", classes), ("codes", codes)):
        found = [
            warning
            for warning in each_warning(make_study(CSV, table))
            if "differ only in" in warning
        ]
        assert found == ([] if alike is None else [named[of]])


def test_classes_that_may_be_missing_values_are_named(make_study, tmp_path: Path) -> None:
    table = "size,kind\n" + "".join(f"{i % 7},{('a', 'NA', 'b', ' ')[i % 4]}\n" for i in range(48))
    drop = 'missing_target = "drop"\n'
    fix = 'missing_values = ["", "NA", " "]'
    note = (
        f"has ' ' in 12 rows, which may mean a missing value: {fix} and "
        'missing_target = "drop" in [data] leave them out'
    )
    assert f"the target {note}" in each_warning(make_study(CSV + drop, table))
    warning = begin(None, tmp_path / "new.toml", tmp_path / "rows.csv", "kind")
    assert f"rows.csv: 'kind' is taken as classes, but it {note}" in warning

    fixed = make_study(f"{CSV}{drop}{fix}\n")
    assert each_warning(fixed) == ("left out 24 of 48 rows, without a value for the target 'kind'",)
    assert prepare(fixed).class_names == ("a", "b")
    for kinds in ("+-", ("none", "some")):
        assert (
            each_warning(make_study(CSV, "size,kind\n" + f"1,{kinds[0]}\n2,{kinds[1]}\n" * 9)) == ()
        )


def test_words_read_as_missing_values_are_named_unless_they_are_listed(make_study) -> None:
    regions = ("NA", "EU", "null", "")
    table = "region,size,kind\n" + "".join(
        f"{regions[i % 4]},{i if i % 5 else 'NA'},{'ab'[i % 2]}\n" for i in range(36)
    )
    data = CSV + 'impute = "median"\n'

    assert each_warning(make_study(data, table)) == (
        "column 'region': 9 values written 'NA' and 9 values written 'null' are read as missing; "
        'data.missing_values = ["", "NA"] keeps them as text',
    )
    for words in ('["", "NA"]', '["", "NA", "null"]'):
        config = make_study(f"{data}missing_values = {words}\n", table)
        assert each_warning(config) == ()
        assert data_preview(config, prepare(config))["missing_values"] == json.loads(words)
    assert data_preview(config := make_study(data, table), prepare(config))["missing_values"] == [
        *MISSING_WORDS
    ]


def test_dates_as_text_are_reported(make_study) -> None:
    """Otherwise each day is a category, from which a network learns nothing."""
    rows = [f"{i % 7},2026-01-{i % 9 + 1:02},{'ab'[i % 2]}" for i in range(20)]
    table = "\n".join(["size,since,kind", *rows, ""])
    (warning,) = each_warning(make_study(CSV, table))
    assert warning.startswith(
        "column 'since' holds dates or times as text, such as '2026-01-01', and each"
    )
    assert "is a category: write numbers, or leave it out with data.drop" in warning
    assert each_warning(make_study(CSV, table.replace("2026-01-01", "soon"))) == ()


def test_numeric_targets_get_no_warnings(make_study) -> None:
    config = make_study(CSV.replace('"kind"', '"size"'), GOOD, loss="mse")
    assert each_warning(config) == ()


@pytest.mark.parametrize(
    ("overrides", "is_told"),
    [
        (["train.critic_steps=60"], False),
        (["train.critic_steps=61"], True),
        (["search.train.critic_steps={type='int', low=1, high=61}"], True),
        (["train.critic_steps=61", "search.train.batch_size={type='int', low=8, high=16}"], False),
    ],
)
def test_a_generator_that_is_never_trained_is_reported(
    overrides: list[str], is_told: bool, tmp_path: Path
) -> None:
    write_mixture(tmp_path)
    study = parse(COUPLED, tmp_path / "study.toml", overrides)
    # 84 rows: batches of 16 give 5 steps per epoch, of which the longest trials have 12
    warning = (
        "train.critic_steps = 61 is more than the 60 steps of a trial, whose generator is then "
        "never trained",
    )
    assert each_warning(study) == (warning if is_told else ())


@pytest.mark.parametrize(
    ("texts", "is_told"),
    [
        (("8:00", "12:30", "23:59:59"), True),
        (("08:00 AM", "9:15 pm", "12:30 p.m."), True),
        (("2024-01", "2024-12", "2023-7"), True),
        (("Jan 2024", "Feb-24", "March 2024"), True),
        (("2024Q1", "2024-Q2", "2025 Q4"), True),
        (("Q1 2024", "Q2 2024", "Q3 2024"), True),
        (("16:9", "4:3", "21:9"), False),
        (("1:0", "2:1", "0:0"), False),
    ],
)
def test_months_and_times_as_text_are_named(
    make_study, texts: tuple[str, ...], is_told: bool
) -> None:
    rows = "".join(f"{texts[i % 3]},{'ab'[i % 2]}\n" for i in range(12))
    warning = each_warning(make_study(CSV, "since,kind\n" + rows))
    assert [f"such as '{min(texts)}'" in one for one in warning] == ([True] if is_told else [])


def test_days_as_numbers_are_named(make_study, tmp_path: Path) -> None:
    rows = "".join(f"202401{i % 31 + 1:02},{'aab'[i % 3]}\n" for i in range(62))
    (warning,) = each_warning(make_study(CSV, "day,kind\n" + rows))
    hint = "holds dates as numbers, such as 20240101; as numbers, 31 January and 1 February are 70"
    assert warning.startswith(f"column 'day' {hint}")
    said = begin(None, tmp_path / "new.toml", tmp_path / "rows.csv")
    assert any(f"'day' {hint}" in line for line in said)
    other = rows.replace("20240131", "20240132")
    assert each_warning(make_study(CSV, "day,kind\n" + other)) == ()


def test_a_row_of_totals_is_named(make_study, tmp_path: Path) -> None:
    table = "cost,size,kind\n" + "".join(f"{i % 7}.5,{i % 4},{'aab'[i % 3]}\n" for i in range(42))
    assert each_warning(make_study(CSV, table)) == ()
    total = f"{sum(i % 7 + 0.5 for i in range(42))},{sum(i % 4 for i in range(42))},a\n"
    hint = "line 44 is the sum of all other rows in 'cost' and 'size'; if it is a total, remove it"
    assert each_warning(make_study(CSV, table + total)) == (f"rows.csv: {hint}",)
    assert f"rows.csv: {hint}" in begin(None, tmp_path / "new.toml", tmp_path / "rows.csv")


def test_columns_of_the_largest_numbers_are_not_mistaken_for_totals() -> None:
    assert not columns_of_sums(pd.DataFrame({"a": [1.7e308] * 12, "b": [1.7e308, -1.7e308] * 6}))


RARE = "size,kind\n" + "".join(f"{i % 7},{'rare' if i % 6 == 0 else 'usual'}\n" for i in range(120))
RARE_CSV = f"{CSV}split = {{ val = 0.2, stratify = true }}\n"


def test_a_class_with_most_of_the_rows_is_named_until_the_others_count(make_study) -> None:
    config = make_study(RARE_CSV, RARE)
    (warning,) = each_warning(config)
    assert warning == (
        "83 % of the training rows have the class 'usual', so a model that always predicts it has "
        'an accuracy of about 0.83; to find the others, too, write data.class_weights = "balanced"'
        ', or study.metric = "val_auroc" (with study.direction = "maximize" and train.metrics = '
        '["auroc"])'
    )
    assert each_warning(make_study(f'{RARE_CSV}class_weights = "balanced"\n', RARE)) == ()
    for metric in ("auroc", "f1"):
        settings = f"train.metrics=['{metric}']", f"study.metric=val_{metric}"
        text = config.source.text
        again = parse(text, config.source.path, [*settings, "study.direction=maximize"])
        assert each_warning(again) == ()


def test_balanced_classes_are_not_named(make_study) -> None:
    four = RARE.replace("usual\n1,", "other\n1,").replace("usual\n3,", "other\n3,")
    assert each_warning(make_study(RARE_CSV, four)) == ()


def test_encodings_of_features_that_do_not_exist_are_reported(make_study) -> None:
    numbers = "size,kind\n" + "".join(f"{i % 7},{i % 2}\n" for i in range(42))
    texts = "size,kind\n" + "".join(f"{'abc'[i % 3]},{i % 2}\n" for i in range(40))
    ordinal, robust = 'categorical = "ordinal"\n', 'scale = "robust"\n'
    no_category = (
        'data.categorical = "ordinal" changes nothing: no feature is a category; remove it, or '
        "name numbers that are categories in data.categorical_columns"
    )
    no_number = 'data.scale = "robust" changes nothing: all features are categories; remove it'

    assert each_warning(make_study(CSV + ordinal, numbers)) == (no_category,)
    named = f'{ordinal}categorical_columns = ["size"]\n'
    assert each_warning(make_study(CSV + named, numbers)) == ()
    assert each_warning(make_study(CSV + ordinal + robust, texts)) == ()
    assert each_warning(make_study(CSV + robust, texts)) == (no_number,)
    assert each_warning(make_study(CSV + robust, numbers)) == ()


def test_targets_with_few_large_values_are_named(make_study) -> None:
    values = [*range(195), *(10**6 * n for n in range(1, 6))]
    skewed = "size,kind\n" + "".join(f"{i % 7},{value}\n" for i, value in enumerate(values))
    (found,) = each_warning(make_study(CSV, skewed, loss="mse"))
    assert found.startswith("the target 'kind' is skewed: half of its values are below ")
    assert found.endswith("write data.target_transform = 'log1p', or train.loss = 'huber'")
    assert each_warning(make_study(CSV, skewed, loss="huber")) == ()
    assert each_warning(make_study(CSV, skewed + "3,-5000\n" * 3, loss="mse")) == ()


@pytest.mark.parametrize(("least", "logarithm"), [(1, "log"), (0, "log1p"), (-3, None)])
def test_only_a_logarithm_that_all_targets_have_is_advised(
    least: int, logarithm: str | None, make_study
) -> None:
    values = [*range(100, 295), *(10**4 * n for n in range(1, 6))]
    rows = "".join(f"{i % 7},{value},{i % 9 + least}\n" for i, value in enumerate(values))
    config = make_study(
        CSV.replace('"kind"', '["kind", "other"]'), f"size,kind,other\n{rows}", loss="mse"
    )
    (found,) = each_warning(config)
    way = f"data.target_transform = '{logarithm}', or " if logarithm else ""
    assert found.endswith(f"; write {way}train.loss = 'huber'")


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ('scale = "none"', ["size", "price"]),
        ('scale = "none"\ntarget_scale = "standard"', ["size"]),
        ('target_scale = "none"', ["price"]),
        ("", []),
    ],
)
def test_numbers_that_are_equal_in_float32_are_named(
    settings: str, names: list[str], make_study
) -> None:
    rows = "".join(f"{10**9 + i % 7},{10**9 + i % 5},{i * i % 11}\n" for i in range(60))
    data = CSV.replace("kind", "price") + settings + "\n"
    config = make_study(data, "size,price,other\n" + rows, loss="mse", precision="float32")
    found = [one for one in each_warning(config) if "in float32" in one]
    assert len(found) == len(names)
    for name, one in zip(names, found, strict=True):
        count = {"size": 7, "price": 5}[name]
        assert one.startswith(
            f"column '{name}' has {count} different numbers, but 1 in float32: write "
        )


@pytest.mark.parametrize("train_on", ["train", "train+val", "all"])
def test_rows_that_are_trained_on_count_once(train_on: str, make_study) -> None:
    rows = "".join(f"{i},{'rare' if i % 30 == 0 else 'usual'}\n" for i in range(100))
    csv = 'source = "csv"\npath = "rows.csv"\ntarget = "kind"\n'
    config = make_study(f'{csv}split = {{ train_on = "{train_on}" }}\n', f"size,kind\n{rows}")
    data = prepare(config)
    assert len(data.all_targets(train_on)) == 100
    assert any("'rare' has 4" in warning for warning in data_warnings(config, data))


def warnings_of(config: StudyConfig) -> str:
    return "\n".join(data_warnings(config, prepare(config)))


CODED = 'source = "csv"\npath = "rows.csv"\ntarget = "kind"\n'


def test_numbers_written_like_codes_and_wide_categories_are_named(
    make_study, tmp_path: Path
) -> None:
    rows = "".join(
        f"{i * 37 % 100:05},{i % 12:02},c{i % 130},{'fig' if i % 2 else 'pear'}\n"
        for i in range(300)
    )
    config = make_study(CODED, f"zip,month,shop,kind\n{rows}")
    said = warnings_of(config)
    assert "column 'zip' is written like a code, such as 00000, and read as a number" in said
    assert "column 'shop' has 130 different texts in 300 rows, each an input" in said
    assert "column 'month' is written" not in said
    hints = begin(None, tmp_path / "new.toml", tmp_path / "rows.csv")
    assert any("'zip' is written like a code" in hint for hint in hints)


def test_groups_that_shift_the_shares_of_a_split_are_named(make_study) -> None:
    rows = "".join(f"{i},{'abcd'[i % 4 if i < 40 else 0]},{i % 2}\n" for i in range(400))
    split = 'split = { val = 0.25, test = 0.25, group = "city" }\n'
    said = warnings_of(make_study(f"{CODED}{split}", f"size,city,kind\n{rows}"))
    assert "the groups in 'city' differ in size: " in said and "of the rows are in" in said
    even = "".join(f"{i},{'abcd'[i % 4]},{i % 2}\n" for i in range(400))
    assert "differ in size" not in warnings_of(
        make_study(f"{CODED}{split}", f"size,city,kind\n{even}")
    )


def test_folds_that_take_fewer_steps_because_another_has_few_rows_are_reported(
    make_study, tmp_path: Path
) -> None:
    table = "size,city,kind\n" + "".join(f"{i},{max(i, 35)},{'ab'[i % 2]}\n" for i in range(51))

    def warnings_of_folds(split: str, batch_size: str) -> list[str]:
        own = make_study(f"{CODED}{split}", table)
        text = bent(own.source.text, "study.folds=2", batch_size)
        return [
            warning
            for warning in each_warning(parse(text, tmp_path / "s.toml"))
            if "every fold" in warning
        ]

    even, grouped = "split = { test = 0.0 }\n", "split = { test = 0.0, group = 'city' }\n"
    searched = "search.train.batch_size={type='int', low=1, high=20}"
    found = (
        "with train.batch_size = 13, every fold takes only 1 step per epoch, because one of them "
        "has only 25 training rows; with up to 26, others have enough for 2; write a smaller "
        "train.batch_size"
    )
    assert warnings_of_folds(even, "train.batch_size=5") == []
    assert warnings_of_folds(even, "train.batch_size=13") == [found]
    assert warnings_of_folds(even, searched) == [found]
    assert warnings_of_folds(grouped, "train.batch_size=2") == [
        "with train.batch_size = 2, every fold takes only 4 steps per epoch, because one of them "
        "has only 8 training rows; with up to 43, others have enough for 21; smaller groups in "
        "'city' (data.split.group) would make the folds more even"
    ]


def test_settings_of_columns_and_classes_without_effect_are_named(make_study) -> None:
    rows = "".join(f"{i},{'abcdefgh'[i % 8]},{i % 3},{i % 2}\n" for i in range(400))
    table = f"size,city,code,kind\n{rows}"
    group = 'split = { group = "city", as_feature = true }\ndrop = ["city", "code"]\n'
    listed = 'categorical_columns = ["code"]\nclass_weights = { "0" = 2, "1" = 2 }\n'
    said = warnings_of(make_study(f"{CODED}{group}{listed}", table))
    assert "data.split.as_feature changes nothing: 'city' is in data.drop" in said
    assert "data.categorical_columns changes nothing for 'code'" in said
    assert "all data.class_weights are equal" in said


def test_a_target_that_never_changes_is_named(make_study) -> None:
    rows = "".join(f"{i},2.5\n" for i in range(40))
    said = warnings_of(make_study(CODED, f"size,kind\n{rows}", loss="mse"))
    assert "the target 'kind' has the same value in all training rows" in said


def test_booleans_as_weights_are_named(make_study) -> None:
    rows = "".join(f"{i},{i % 4 != 1},{i % 2}\n" for i in range(60))
    said = warnings_of(make_study(f'{CODED}weight = "garden"\n', f"size,garden,kind\n{rows}"))
    assert "column 'garden' holds booleans: as weights, rows with false do not count" in said
