"""Every refusal of data, with its whole message."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest

from sweeper.config import parse
from sweeper.data.guess import guess
from sweeper.data.prepare import prepare
from sweeper.errors import DataError

CSV = 'source = "csv"\npath = "rows.csv"\ntarget = "kind"\n'  # lines 10 to 12
STRATIFIED = CSV + "split = { val = 0.2, test = 0.1, stratify = true }\n"  # line 13
HEADER = "size,colour,kind\n"
ROWS = "".join(
    f"{i},{'red' if i % 3 else 'blue'},{'pear' if i % 2 else 'fig'}\n" for i in range(12)
)
GOOD = HEADER + ROWS  # lines 1 to 13, so the training part has 7 rows


def refusal(config) -> list[str]:
    with pytest.raises(DataError) as caught:
        prepare(config)
    return str(caught.value).splitlines()


def test_good_rows_are_accepted(make_study) -> None:
    assert prepare(make_study(STRATIFIED, GOOD)).x_train.shape == (7, 3)


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ("", "rows.csv is empty; write a line of column names, then one line per row"),
        (HEADER, "rows.csv has a header but no rows; write one line per row"),
        (
            "a,kind\n1,2\n\n1,2,3\n",
            "rows.csv is not a table: Expected 2 fields in line 4, saw 3; write one field per "
            "column in every row",
        ),
        (
            "a,kind\n1,2,3\n1,2,3\n",
            "rows.csv has more fields in its rows than in its header; name every column, also that "
            "of row names, and write decimal points if the numbers have decimal commas",
        ),
        (
            "a,kind,a\n1,2,3\n",
            "rows.csv has several columns 'a'; give each its own name",
        ),
        (
            ",a,,kind\n0,1,2,3\n",
            "rows.csv has no name for column 3; give each column a name; only a first column "
            "that numbers the rows, like pandas' index, needs none",
        ),
        (
            ",a,kind\n0.5,1,2\n1.5,1,3\n",
            "rows.csv has no name for column 1; give each column a name; only a first column "
            "that numbers the rows, like pandas' index, needs none",
        ),
        (
            "a;kind\n1,5;2\n2,5;3\n",
            "rows.csv has columns that seem to be separated by ';'; "
            'write separator = ";" and decimal = ","',
        ),
        (
            "a;kind\n1.5;2\n2.5;3\n",
            "rows.csv has columns that seem to be separated by ';'; write separator = \";\"",
        ),
        (
            "a\tkind\n1\t2\n",
            "rows.csv has columns that seem to be separated by '\\t'; write separator = \"\\t\"",
        ),
    ],
)
def test_a_file_that_is_not_a_table_is_refused(make_study, table: str, problem: str) -> None:
    assert refusal(make_study(CSV, table)) == [f"study.toml:11: data.path: {problem}"]


@pytest.mark.parametrize(
    ("content", "found", "settings"),
    [
        ("a,kind\n1,schön\n".encode("latin-1"), "is not UTF-8 (byte 0xf6 in line 2)", '"latin-1"'),
        ("größe,kind\n1,2\n".encode("latin-1"), "is not UTF-8 (byte 0xf6 in line 1)", '"latin-1"'),
        ("a,kind\n1,2 €\n".encode("cp1252"), "is not UTF-8 (byte 0x80 in line 2)", '"cp1252"'),
        ("a,kind\n1,2\n".encode("utf-16"), "is text in UTF-16", '"utf-16"'),
    ],
)
def test_a_file_in_another_encoding_is_refused(
    make_study, tmp_path: Path, content: bytes, found: str, settings: str
) -> None:
    (tmp_path / "rows.csv").write_bytes(content)

    told = f"study.toml:11: data.path: rows.csv {found}; write encoding = {settings}"
    assert refusal(make_study(CSV)) == [told]


def test_files_in_another_format_than_declared_are_refused(make_study, tmp_path: Path) -> None:
    where = "study.toml:11: data.path: rows.csv"
    rows = tmp_path / "rows.csv"

    rows.write_bytes("a;kind\n1,5;schön\n2,5;2\n".encode("latin-1"))
    hint = 'write separator = ";", decimal = "," and encoding = "latin-1"'
    found = "has columns that seem to be separated by ';'"
    assert refusal(make_study(CSV)) == [f"{where} {found}; {hint}"]
    found = "is not ASCII (byte 0xf6 in line 2)"
    hint = 'write decimal = "," and encoding = "latin-1"'
    assert refusal(make_study(CSV + 'separator = ";"\nencoding = "ascii"\n')) == [
        f"{where} {found}; {hint}"
    ]

    rows.write_text(GOOD, encoding="utf-8")
    found = "has columns that seem to be separated by ','"
    assert refusal(make_study(CSV + 'separator = ";"\n')) == [
        f'{where} {found}; write separator = ","'
    ]
    assert refusal(make_study(CSV + 'encoding = "utf-16"\n')) == [
        f'{where} is not UTF-16; write encoding = "utf-8"'
    ]


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("row.csv", "did you mean 'rows.csv'?"),
        ("../here/../row.csv", "did you mean '../here/../rows.csv'?"),
        ("cust2.csv", "set data.path to the path of a CSV file"),
        ("elsewhere/apples.parquet", "set data.path to the path of a CSV file"),
    ],
)
def test_a_missing_file_is_refused(
    make_study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, hint: str
) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    config = make_study(CSV.replace("rows.csv", path), GOOD)

    assert refusal(config) == [
        f"study.toml:11: data.path: no file '{path}' in {tmp_path} or {folder}; {hint}"
    ]


@pytest.mark.parametrize(
    "kind", ["a directory", "a link that leads to no file", "a pipe or a device"]
)
def test_directories_and_pipes_instead_of_a_file_are_refused(
    make_study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "apples.csv"
    if kind == "a directory":
        path.mkdir()
    elif kind == "a pipe or a device":
        os.mkfifo(path)
    else:
        path.symlink_to(path)
    assert refusal(make_study(CSV.replace("rows.csv", "apples.csv"), GOOD)) == [
        f"study.toml:11: data.path: no file 'apples.csv' in {tmp_path}: {path} is {kind}; "
        "set data.path to the path of a CSV file"
    ]


def test_a_missing_file_of_an_absolute_path_is_looked_for_nowhere_else(
    make_study, tmp_path: Path
) -> None:
    path = tmp_path / "there" / "row.csv"
    assert refusal(make_study(CSV.replace("rows.csv", str(path)), GOOD)) == [
        f"study.toml:11: data.path: no file '{path}'; set data.path to the path of a CSV file"
    ]


def test_a_path_with_a_tilde_is_to_be_written_in_full(
    make_study, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    with pytest.raises(
        DataError, match=r"no file '~/x\.csv' .*; write /home/ada/x\.csv, or \$HOME"
    ):
        prepare(make_study('source = "csv"\npath = "~/x.csv"\ntarget = "kind"\n'))
    with pytest.raises(DataError, match="no such file; write /home/ada/x"):
        guess(Path("~/x.csv"))


def test_a_path_is_looked_up_next_to_the_study_file_then_in_the_current_directory(
    make_study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    (folder / "rows.csv").write_text(GOOD + "99,green,fig\n")

    here = prepare(make_study(CSV))
    beside = prepare(make_study(CSV, GOOD))
    sizes = [len(data.x_train) + len(data.x_val) + len(data.x_test) for data in (here, beside)]
    assert sizes == [13, 12]


def test_missing_columns_are_refused(make_study) -> None:
    data = CSV.replace('"kind"', '"Kinds"') + 'drop = ["color", "weight"]\n'

    assert refusal(make_study(data, GOOD)) == [
        "study.toml:12: data.target: rows.csv has no column 'Kinds'; did you mean 'kind'?",
        "study.toml:13: data.drop: rows.csv has no column 'color'; did you mean 'colour'?",
        "study.toml:13: data.drop: rows.csv has no column 'weight'; "
        "its columns are size, colour and kind",
    ]


def test_a_dropped_target_and_no_features_are_refused(make_study) -> None:
    data = CSV + 'drop = ["size", "kind", "colour"]\n'

    assert refusal(make_study(data, GOOD)) == [
        "study.toml:13: data.drop: 'kind' is the target; leave it out of data.drop",
        "study.toml:13: data.drop: rows.csv has no columns besides the target and dropped ones; "
        "keep at least one feature",
    ]


def test_cells_are_named_by_column_count_and_line_of_the_file(make_study) -> None:
    # a blank line is not a row, and a quoted field may span lines
    bad = '\n"1",,fig\n,"two\nlines",fig\ninf,red,\n1e999,red,fig\n' + ",red,fig\n" * 6

    assert refusal(make_study(CSV, GOOD + bad)) == [
        "study.toml:11: data.path: column 'size' of rows.csv: 7 values are missing "
        '(lines 16, 20, 21, 22, 23, ...); write impute = "median", '
        "fix the file or add 'size' to data.drop",
        "study.toml:11: data.path: column 'size' of rows.csv: 2 values are infinite or too large "
        "for float64 (lines 18, 19); fix the file or add 'size' to data.drop",
        "study.toml:11: data.path: column 'colour' of rows.csv: 1 value is missing (line 15); "
        'write impute = "median" (a missing category is then a category of its own), fix the '
        "file or add 'colour' to data.drop",
        "study.toml:11: data.path: column 'kind' of rows.csv: 1 value is missing "
        '(line 18); write missing_target = "drop" in [data] to leave out these rows, or fill them '
        "in",
    ]


def test_a_fixed_file_runs(make_study) -> None:
    assert refusal(make_study(CSV, GOOD + "12,,fig\n"))
    assert prepare(make_study(CSV + 'drop = ["colour"]\n', GOOD + "12,,fig\n")).n_features == 1
    assert prepare(make_study(CSV, GOOD + "12,red,fig\n")).n_features == 3


def test_numbers_too_large_for_the_precision_are_refused(make_study) -> None:
    assert refusal(make_study(CSV, GOOD + "1e39,red,fig\n", precision="float32")) == [
        "study.toml:11: data.path: column 'size' of rows.csv: 1 value is infinite or too large "
        "for float32 (line 14); fix the file or add 'size' to data.drop",
    ]


def test_integers_above_64_bits_are_floats_if_these_are_equal(make_study) -> None:
    def table(apart: int, of: int = 2**70) -> str:
        return "size,kind\n" + "".join(f"{of + i % 3 * apart},{i % 2}\n" for i in range(20))

    x = prepare(make_study(CSV, table(2**60))).x_train
    assert len(np.unique(x)) == 3

    for near, changed in ((table(1), 2**70 + 1), (table(1, of=10**400), 10**400)):
        assert refusal(make_study(CSV, near)) == [
            "study.toml:11: data.path: column 'size' of rows.csv holds numbers that a float would "
            f"change, such as {changed}; write numbers or text or add 'size' to data.drop"
        ]


def test_text_among_numbers_is_refused(make_study) -> None:
    table = "size,kind\n" + "1,0\n2,1\n" * 4 + "?,1\n3,unknown\n"

    assert refusal(make_study(CSV, table)) == [
        "study.toml:11: data.path: column 'size' of rows.csv: 1 value is text among numbers "
        '(line 10); write missing_values = ["", "?", "unknown"] in [data]; or fix the file or add '
        "'size' to data.drop, or to data.categorical_columns if 'size' is meant as text",
        "study.toml:11: data.path: column 'kind' of rows.csv: 1 value is text among numbers "
        '(line 11); write missing_values = ["", "?", "unknown"] in [data]; or fix the file or '
        "remove the rows",
    ]


def test_targets_whose_squares_overflow_are_refused(make_study) -> None:
    table = "size,kind\n" + "".join(f"{i}e24,{i}\n" for i in range(1, 13))
    regression = CSV.replace('"kind"', '"size"')

    assert refusal(make_study(regression, table, loss="mse", precision="float32")) == [
        "study.toml:11: data.path: column 'size' of rows.csv: squares too large for float32; "
        "write them in a larger unit"
    ]


@pytest.mark.parametrize("scale", ["", 'target_scale = "none"\n'])
@pytest.mark.parametrize("loss", ["mse", "huber", 'mae", metrics = ["rmse"], task = "numbers'])
def test_targets_whose_squares_are_0_are_refused(make_study, loss: str, scale: str) -> None:
    table = "size,kind\n" + "".join(f"{i}e-21,{i}\n" for i in range(1, 13))
    regression = CSV.replace('"kind"', '"size"') + scale
    (problem,) = refusal(make_study(regression, table, loss=loss, precision="float32"))

    assert problem.partition(": ")[2] == (
        "data.path: column 'size' of rows.csv: squares too small for float32; "
        "write them in a smaller unit"
    )
    prepare(make_study(regression, table, loss=loss, precision="float64"))
    prepare(make_study(regression, table, loss="mae", precision="float32"))


def test_small_targets_are_refused_for_r2_and_accepted_if_constant(make_study) -> None:
    small = CSV.replace('"kind"', '"size"') + 'target_scale = "none"\n'
    table = "size,kind\n" + "".join(f"{i}e-21,{i}\n" for i in range(1, 13))
    by_r2 = 'mae", metrics = ["r2"], task = "numbers'
    (problem,) = refusal(make_study(small, table, loss=by_r2, precision="float32"))
    assert "squares too small for float32" in problem
    constant = "size,kind\n" + "".join(f"0.0001,{i}\n" for i in range(1, 13))
    prepare(make_study(small, constant, loss="mse", precision="float32"))


def test_text_that_never_repeats_is_refused(make_study) -> None:
    table = "size,name,kind\n" + "".join(f"{i},name {i},{i % 2}\n" for i in range(101))

    assert refusal(make_study(CSV, table)) == [
        "study.toml:11: data.path: column 'name' of rows.csv is text with 101 different values; "
        "add 'name' to data.drop",
    ]


def test_a_text_target_is_refused_if_numbers_are_needed(make_study) -> None:
    table = "size,kind\n" + "1,0.5\n2,1.5\n" * 4 + "1,low\n"

    assert refusal(make_study(CSV, table, loss="mse")) == [
        "study.toml:11: data.path: column 'kind' of rows.csv: 1 value is text, but mse needs "
        "numbers (line 10); write numbers",
    ]


def test_a_measured_target_is_refused_if_classes_are_needed(make_study) -> None:
    assert refusal(make_study('source = "sklearn"\nname = "diabetes"\n')) == [
        "study.toml:5: train.loss: cross_entropy needs classes, but 'target' has 214 different "
        "numbers; write train.loss = 'mse'; or, if these are classes, write them as integers or "
        "text",
    ]


TRAIN = 'train = { program = "supervised", loss = "LOSS", epochs = 2, batch_size = 2 }'
WITH_TASK = TRAIN.replace(" }", ', task = "TASK" }')
PARTS = (
    'a = { depth = 1, width = 4, out_size = 2 }, b = { input = "a", depth = 0, width = 4 }, '
    'c = { input = "a", depth = 0, width = 4 }'
)
ALTERNATING = (
    'train = { program = "alternating", epochs = 2, batch_size = 2, cycle = ["fit"], '
    'losses = { data = { of = "b", kind = "LOSS" }, other = { of = "c", kind = "LOSS" } }, '
    'phases = { fit = { epochs = 1, loss = "data", trains = ["a", "b"] } } }'
)
TEXT_TARGET = "size,kind\n" + "1,low\n2,high\n3,higher\n" * 8
NUMBER_TARGET = "size,kind\n" + "".join(f"{i},{i / 7}\n" for i in range(24))
# for each program: what replaces its setting of `[train]`, and the task if it is user-defined
PROGRAMS = {
    "built-in loss": (TRAIN, False),
    "built-in loss with a task": (TRAIN.replace(" }", ', task = "TASK" }'), False),
    "user-defined loss": (
        TRAIN.replace("LOSS", "own:loss").replace(" }", ', task = "TASK" }'),
        True,
    ),
    "alternating": (ALTERNATING, False),
    "alternating with a user-defined loss": (
        ALTERNATING.replace('"LOSS"', '"own:loss"', 1).replace(" } } }", ' } }, task = "TASK" }'),
        True,
    ),
    "user-defined program": (
        'train = { program = "own:Program", task = "TASK", epochs = 2, batch_size = 2 }',
        True,
    ),
}
KINDS = {
    "text instead of numbers": (TEXT_TARGET, "mse", "numbers"),
    "numbers instead of classes": (NUMBER_TARGET, "cross_entropy", "classes"),
    "three classes instead of two": (TEXT_TARGET, "binary_cross_entropy", "classes"),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_study_passes_with_the_loss_that_the_hint_about_its_target_names(
    make_study, tmp_path: Path, program: str, kind: str
) -> None:
    (table, loss, task), (train, is_own) = KINDS[kind], PROGRAMS[program]
    text = make_study(CSV, table).source.text
    given = TRAIN.replace("LOSS", "cross_entropy")
    assert given in text
    text = text.replace(given, train.replace("LOSS", loss).replace("TASK", task))
    if program.startswith("alternating"):
        text = text.replace('"val_loss"', '"val_loss_data"')
        text = text.replace('kind = "mlp", depth = 1, width = 4', PARTS)
    study = parse(text, tmp_path / "study.toml")
    if is_own and loss == "binary_cross_entropy":  # then any number of classes is fine
        prepare(study)
        return

    (problem,) = refusal(study)

    settings = re.findall(r"(train\.[a-z_.]+) = '(\w+)'", problem)
    assert settings
    prepare(parse(text, tmp_path / "study.toml", [f"{key}={value}" for key, value in settings]))


def test_a_single_class_is_refused(make_study) -> None:
    table = HEADER + "1,red,fig\n2,blue,fig\n" * 10

    assert refusal(make_study(CSV, table)) == [
        "study.toml:11: data.path: column 'kind' of rows.csv is 'fig' in every row; "
        "add rows of another class",
    ]


def test_a_single_boolean_next_to_gaps_keeps_its_name(make_study) -> None:
    table = HEADER + "1,red,True\n2,blue,\n" * 10

    _, single = refusal(make_study(CSV, table))
    assert single == (
        "study.toml:11: data.path: column 'kind' of rows.csv is 'True' in every row; "
        "add rows of another class"
    )


def test_a_class_too_small_for_every_part_is_refused(make_study) -> None:
    table = GOOD + ROWS + "1,red,kiwi\n1,red,plum\n2,red,plum\n"

    assert refusal(make_study(STRATIFIED, table)) == [
        "study.toml:13: data.split.stratify: a class needs 3 rows to be in each part, but class "
        "'kiwi' has 1 (line 26) and 'plum' has 2 (lines 27, 28); add rows, remove the class or "
        "write stratify = false",
        "study.toml:13: data.split.test: the test part has 3 rows for 4 classes; "
        "write another share, add rows or write stratify = false",
    ]


def test_only_the_first_of_many_small_classes_are_named(make_study) -> None:
    table = GOOD + "".join(f"{i},red,rare{i}\n" for i in range(8))

    first, *_ = refusal(make_study(STRATIFIED.replace("test = 0.1", "test = 0"), table))
    assert first == (
        "study.toml:13: data.split.stratify: a class needs 2 rows to be in each part, but class "
        "'rare0' has 1 (line 14), 'rare1' has 1 (line 15), 'rare2' has 1 (line 16), 'rare3' has "
        "1 (line 17) and 'rare4' has 1 (line 18) and 3 more; add rows, remove the class or write "
        "stratify = false"
    )


def test_shares_that_break_a_class_are_refused(make_study) -> None:
    data = STRATIFIED.replace("test = 0.1", "test = 0.6")

    assert refusal(make_study(data, GOOD + "1,red,kiwi\n2,red,kiwi\n3,red,kiwi\n")) == [
        "study.toml:13: data.split: the shares leave too few rows of a class to keep it in "
        "proportion; write other shares or stratify = false",
    ]


def test_stratified_numbers_are_refused(make_study) -> None:
    data = STRATIFIED.replace('"kind"', '"size"')

    assert refusal(make_study(data, GOOD, loss="mse")) == [
        "study.toml:13: data.split.stratify: mse has no classes to keep in proportion; "
        "write stratify = false",
    ]


def test_a_training_part_without_rows_is_refused(make_study) -> None:
    assert refusal(make_study(CSV, HEADER + "1,red,fig\n2,red,pear\n")) == [
        "study.toml:9: data.split: of 2 rows, validation takes 1 and testing 1, so none are left "
        "for training; add rows or write smaller shares",
    ]


@pytest.mark.parametrize(
    ("search", "place"),
    [
        ('model.depth = { type = "int", low = 1, high = 2 }', "study.toml:5: train.batch_size"),
        (
            'train.batch_size = { type = "int", low = 2, high = 8, base = 2 }',
            "study.toml:8: search.train.batch_size",
        ),
        (
            'train.batch_size = { type = "categorical", choices = [8, 4] }',
            "study.toml:8: search.train.batch_size",
        ),
    ],
)
def test_a_batch_larger_than_the_training_part_is_refused(
    make_study, search: str, place: str
) -> None:
    assert prepare(make_study(CSV, GOOD, batch=7)).x_train.shape == (7, 3)
    assert refusal(make_study(CSV, GOOD, batch=8, search=search)) == [
        f"{place}: a batch of 8 rows, but the training part has 7; write 7 at most"
    ]


@pytest.mark.parametrize(("train_on", "most"), [("train+val", 10), ("all", 12)])
def test_a_batch_may_have_all_rows_that_are_trained_on(
    make_study, train_on: str, most: int
) -> None:
    """Also if a column says which rows are for testing, and the others are drawn."""
    drawn = CSV + f'split = {{ val = 0.2, test = 0.1, train_on = "{train_on}" }}\n'
    by_column = CSV + f'split = {{ column = "part", val = 0.2, train_on = "{train_on}" }}\n'
    rows = ROWS.splitlines()
    parts = [f"{row},{'test' if place > 9 else 'train'}\n" for place, row in enumerate(rows)]
    in_parts = "".join([HEADER.replace("\n", ",part\n"), *parts])
    for data, table in ((drawn, GOOD), (by_column, in_parts)):
        assert len(prepare(make_study(data, table, batch=most)).x_train) == most
        assert refusal(make_study(data, table, batch=most + 1)) == [
            f"study.toml:5: train.batch_size: a batch of {most + 1} rows, but the training part "
            f"has {most}; write {most} at most"
        ]


def test_gaps_only_in_categories_get_a_hint_for_the_most_frequent_value(make_study) -> None:
    assert refusal(make_study(CSV, GOOD + "1,,fig\n")) == [
        "study.toml:11: data.path: column 'colour' of rows.csv: 1 value is missing (line 14); "
        "write impute = \"most_frequent\", fix the file or add 'colour' to data.drop",
    ]


def test_all_problems_of_the_data_are_reported_at_once(make_study) -> None:
    data = STRATIFIED + 'drop = ["sizes"]\n'

    assert refusal(make_study(data, GOOD + ",,kiwi\n", batch=64)) == [
        "study.toml:14: data.drop: rows.csv has no column 'sizes'; did you mean 'size'?",
        "study.toml:11: data.path: column 'size' of rows.csv: 1 value is missing (line 14); "
        "write impute = \"median\", fix the file or add 'size' to data.drop",
        "study.toml:11: data.path: column 'colour' of rows.csv: 1 value is missing (line 14); "
        'write impute = "median" (a missing category is then a category of its own), fix the '
        "file or add 'colour' to data.drop",
        "study.toml:5: train.batch_size: a batch of 64 rows, but the training part has 8; write "
        "8 at most",
        "study.toml:13: data.split.stratify: a class needs 3 rows to be in each part, but class "
        "'kiwi' has 1 (line 14); add rows, remove the class or write stratify = false",
        "study.toml:13: data.split.test: the test part has 2 rows for 3 classes; "
        "write another share, add rows or write stratify = false",
    ]


def test_text_that_is_asked_for_as_a_category_may_have_many_values(make_study) -> None:
    codes = "".join(f"{i},c{i % 151},{'pear' if i % 2 else 'fig'}\n" for i in range(200))
    table = HEADER + codes
    (problem,) = refusal(make_study(CSV, table))
    assert "column 'colour' of rows.csv is text with 151 different values" in problem
    asked = prepare(make_study(CSV + 'categorical_columns = ["colour"]\n', table))
    assert asked.n_features > 30


def test_integers_next_to_a_gap_are_not_refused_as_measurements_too(make_study) -> None:
    rows = "".join(f"{i},red,{i % 25}\n" for i in range(100))
    (problem,) = refusal(make_study(CSV, f"{HEADER}{rows}1,red,\n"))
    assert "column 'kind' of rows.csv: 1 value is missing (line 102)" in problem


def test_balanced_weights_need_a_training_row_of_each_class(make_study) -> None:
    rows = "".join(f"{i},red,{'pear' if i < 95 else 'fig'}\n" for i in range(100))
    data = f'{CSV}class_weights = "balanced"\nsplit = {{ test = 0.1, time = "size" }}\n'
    assert refusal(make_study(data, HEADER + rows)) == [
        "study.toml:13: data.class_weights: no training row is of class 'fig'; write a weight for "
        "each class"
    ]


def test_a_rare_class_is_not_advised_to_be_in_parts_that_it_cannot_fill(make_study) -> None:
    rows = "".join(f"{i},red,{'pear' if i else 'fig'}\n" for i in range(100))
    data = f'{CSV}class_weights = "balanced"\nsplit = {{ test = 0.1, seed = SEED }}\n'
    for seed in range(20):  # until the row is not for training
        try:
            prepare(make_study(data.replace("SEED", str(seed)), HEADER + rows))
        except DataError as error:
            assert str(error).endswith("class 'fig'; write a weight for each class")
            break
    else:
        pytest.fail("the row was always for training")
