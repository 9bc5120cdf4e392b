"""Files of rows that may be unusable, each with a study that names it."""

from __future__ import annotations

import csv
import io
from dataclasses import dataclass
from typing import Any

import pyarrow.parquet as pq
from hypothesis import strategies as st

from sweeper.config.toml import toml_text
from sweeper.config.train import TASK_OF_LOSS, WEIGHED
from tests.generated.columns import GOOD, ODD, Kind, table_of
from tests.generated.frames import Draw, Study, some

_NAMES = [
    *("a", "b", "c", "price", "A", "", " ", "a ", "é", "日本", "a,b", "a;b", 'a"b', "a\nb", "a\tb"),
    *("a.b", "0", "1.5", "nan", "None", "index", "level_0", "__index_level_0__", "x" * 300),
    *("Unnamed: 0", "a.1", "\x1b[31m", "\u202e", "#a", "y"),
]
_SEPARATORS = [*[","] * 20, ";", "\t", "|", " "]
_ENCODINGS = [*["utf-8"] * 20, "utf-8-sig", "latin-1", "utf-16", "cp1252"]
_ROWS = [*(40, 130) * 5, 10, 5, 2, 1, 0]
_LABELS = {**dict.fromkeys(TASK_OF_LOSS, "class"), "binary_cross_entropy": "two"}


@dataclass(frozen=True)
class BadTable:
    """The bytes of a file of rows, its name, and the text of a study that names it."""

    file: str
    content: bytes
    study: str
    columns: tuple[str, ...]


@st.composite
def bad_tables(draw: Draw) -> BadTable:
    """A table of a few columns, or of very many, in CSV or in Parquet; most with few errors."""
    names: list[str] = draw(st.lists(st.sampled_from(_NAMES[:7]), min_size=1, max_size=4))
    names = [*dict.fromkeys(names), "label"]
    if _in(draw, 8):
        names = draw(st.lists(st.sampled_from(_NAMES), min_size=1, max_size=5))
    kinds = [draw(_kinds(odd=3)) for _ in names[1:]]
    loss = draw(st.sampled_from([*TASK_OF_LOSS]))
    kinds.append(draw(_kinds(odd=2)) if _in(draw, 3) else GOOD[_LABELS[loss]])
    n_rows = draw(st.sampled_from(_ROWS))
    is_csv = draw(st.booleans())
    content = draw(_csv(names, kinds, n_rows) if is_csv else _parquet(names, kinds, n_rows))
    file = "größe rows" if _in(draw, 8) else "rows"
    file += ".csv" if is_csv else ".parquet"
    study = draw(_studies(names, file, loss))
    return BadTable(file, content, toml_text(study), tuple(names))


def _in(draw: Draw, count: int) -> bool:
    """True in one of this many files."""
    return draw(st.integers(1, count)) == count


@st.composite
def _kinds(draw: Draw, odd: int) -> Kind:
    """A kind of column; an odd one in one of this many."""
    kinds = ODD if _in(draw, odd) else GOOD
    return kinds[draw(st.sampled_from([*kinds]))]


@st.composite
def _studies(draw: Draw, names: list[str], file: str, loss: str) -> Study:
    column = st.sampled_from([*names, "nonsuch"] if _in(draw, 9) else names)
    target: Any = draw(column) if _in(draw, 9) else names[-1]
    if _in(draw, 9):
        target = draw(st.lists(column, min_size=1, max_size=3, unique=True))
    data: Study = {"source": file.rpartition(".")[2], "path": file, "target": target}
    fills: list[Any] = ["mean", "median", "most_frequent", {"constant": 0}, {"constant": 1e300}]
    optional: dict[str, st.SearchStrategy[Any]] = {
        "impute": st.sampled_from(["none", *fills]),
        "scale": st.sampled_from(["none", "standard", "minmax", "robust", "quantile"]),
        "categorical": st.sampled_from(["onehot", "ordinal"]),
    }
    data |= draw(st.fixed_dictionaries({}, optional=optional))
    if data["source"] == "csv" and _in(draw, 6):
        data["separator"] = draw(st.sampled_from(sorted({*_SEPARATORS})))
        data["decimal"] = draw(st.sampled_from(".," if data["separator"] != "," else "."))
        data["encoding"] = draw(st.sampled_from(sorted({*_ENCODINGS, "ascii", "utf-32"})))
    if _in(draw, 9):
        data["drop"] = draw(some(sorted(set(names)), 2))
    if _in(draw, 9):
        data["categorical_columns"] = [name for name in draw(some(sorted(set(names)), 2)) if name]
    if loss in WEIGHED and _in(draw, 6):
        data["class_weights"] = draw(st.sampled_from(["balanced", {"a": 2.0}, {"1": 0.5}]))
    split: Study = {"val": draw(st.sampled_from([0.2, 0.5])), "test": 0.1}
    if _in(draw, 4):
        way = draw(st.sampled_from(["stratify", "group", "time", "column"]))
        split[way] = True if way == "stratify" else draw(column) or "a"
        if way in ("group", "time") and _in(draw, 4):
            split["as_feature"] = True
    study: Study = {"name": "t", "metric": "val_loss", "direction": "minimize", "n_trials": 2}
    if _in(draw, 8):
        study["folds"] = 3
    return {
        "version": 1,
        "study": study,
        "data": {**data, "split": split},
        "model": {"kind": "mlp", "depth": 1, "width": 4},
        "optimizer": {"name": "adam", "lr": 1e-3},
        "train": {
            "loss": loss,
            "epochs": 2,
            "batch_size": draw(st.sampled_from([1, 2, 8])),
        },
        "execution": {"precision": draw(st.sampled_from(["float32", "float64"]))},
    }


@st.composite
def _parquet(draw: Draw, names: list[str], kinds: list[Kind], n_rows: int) -> bytes:
    table = table_of(names, kinds, n_rows)
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return _damaged(draw, sink.getvalue())


@st.composite
def _csv(draw: Draw, names: list[str], kinds: list[Kind], n_rows: int) -> bytes:
    text = io.StringIO()
    separator = draw(st.sampled_from(_SEPARATORS))
    ends = draw(st.sampled_from(["\n", "\n", "\r\n", "\r"]))
    writer = csv.writer(text, delimiter=separator, lineterminator=ends)
    columns = [kind.values(n_rows) for kind in kinds]
    rows = [
        ["" if value is None else str(value) for value in row] for row in zip(*columns, strict=True)
    ]
    if _in(draw, 8) and rows:
        _bend(draw, rows)
    writer.writerows([names, *rows])
    encoding = draw(st.sampled_from(_ENCODINGS))
    return _damaged(draw, text.getvalue().encode(encoding, "replace"))


def _bend(draw: Draw, rows: list[list[str]]) -> None:
    """A row that is longer, shorter, empty or strange."""
    row = draw(st.sampled_from(rows))
    match draw(st.sampled_from(["longer", "shorter", "empty", "all longer", "text", "comment"])):
        case "longer":
            row.append("1")
        case "shorter":
            row.pop()
        case "empty":
            row.clear()
        case "all longer":
            for one in rows:
                one.append("1")
        case "text":
            row[-1] = draw(st.sampled_from(["x", "1,5", "1e999", "0x1f", "1_000", "#", "TRUE"]))
        case "comment":
            row[0] = f"# {row[0]}"


def _damaged(draw: Draw, content: bytes) -> bytes:
    """Usually unchanged; otherwise truncated, emptied or with other bytes in it."""
    if not _in(draw, 20):
        return content
    place = draw(st.integers(0, len(content)))
    strange = draw(st.sampled_from([b"", b"\x00", b'"', b"\xff", b"\n", b"PAR1"]))
    return draw(
        st.sampled_from([content[:place], b"", content[:place] + strange + content[place + 1 :]])
    )
