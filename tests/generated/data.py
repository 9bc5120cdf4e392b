"""`[data]` of generated studies, of every source and split."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from sweeper.config.tables import TABLES, Variants
from sweeper.config.train import WEIGHED
from tests.generated.files import CLASSES, EUROPEAN, NUMBERS
from tests.generated.frames import Draw, Frame, Study, rarely, some
from tests.generated.values import form_of, settings, values

_BY_HAND = (
    *("source", "name", "path", "target", "drop", "categorical_columns", "class_weights"),
    *("x", "y", "mode", "function", "args", "split", "separator", "decimal", "encoding"),
    *("missing_values", "skip_rows", "weight", "target_transform"),
)


@st.composite
def data_tables(draw: Draw, frame: Frame) -> Study:
    kinds = TABLES["data"]
    assert isinstance(kinds, Variants)
    source = draw(st.sampled_from([*kinds.of]))
    data: Study = {"source": source}
    data |= draw(settings(form_of(kinds.of[source]), "data", but=(*_BY_HAND, "impute")))
    gaps = draw(st.booleans())
    if gaps:
        fills: Any = ["mean", "median", "most_frequent", {"constant": 0}, {"constant": -1.5}]
        data["impute"] = draw(st.sampled_from(fills))
    file = "gaps" if gaps else "table"
    ending = {"sklearn": "", "python": "csv"}.get(source, source)
    classes: dict[str, tuple[str, ...]] = dict(CLASSES)
    if frame.loss == "binary_cross_entropy":
        classes = {"sign": CLASSES["sign"]}
    label = draw(st.sampled_from([*classes]))
    target: Any = label
    if frame.task == "numbers":
        target = draw(st.sampled_from([*NUMBERS, [NUMBERS[0]], [*NUMBERS]]))
    names: tuple[str, ...] = classes[label]
    match source:
        case "sklearn":
            data["name"], names = _bunch(draw, frame)
        case "npz":
            several = ["price", "prices"] if frame.task == "numbers" else [label]
            data |= {"path": f"{file}.npz", "x": "features", "y": draw(st.sampled_from(several))}
            names = tuple(map(str, range(len(names))))
        case "python" if isinstance(target, str) and rarely(draw):
            args = {"target": target, "file": f"{file}.csv"}
            data |= {"function": "nets:pair", "args": args}
        case _:
            from_ = {"path": f"{file}.{ending}"}
            if source == "python":
                from_ = {"function": "nets:rows", "args": {"file": f"{file}.csv"}}
            if source == "csv" and draw(st.booleans()):
                from_ = {"path": f"european {file}.csv", **EUROPEAN}
            data |= {**from_, "target": target}
            of_target = [target] if isinstance(target, str) else target
            free = [one for one in ("cost", "town", "gap") if one not in of_target]
            data["drop"] = draw(some(free, 2))
            data["categorical_columns"] = draw(some({"size", "gap"} - {*data["drop"]}, 2))
    if frame.loss in WEIGHED and draw(st.booleans()):
        weights = st.sampled_from([0.5, 1, 2.0])
        own = st.dictionaries(st.sampled_from(names), weights, min_size=1)
        data["class_weights"] = draw(st.one_of(st.sampled_from(["none", "balanced"]), own))
    has_columns = source == "npz" or "target" in data
    data["split"] = draw(splits(frame, has_columns=has_columns))
    return {name: value for name, value in data.items() if value != {}}


def _bunch(draw: Draw, frame: Frame) -> tuple[str, tuple[str, ...]]:
    if frame.task == "numbers":
        return "diabetes", ()
    sets = {
        "breast_cancer": ("malignant", "benign"),
        "iris": ("setosa", "versicolor", "virginica"),
        "wine": ("class_0", "class_1"),
        "digits": ("0", "7"),
    }
    if frame.loss == "binary_cross_entropy":
        sets = {"breast_cancer": sets["breast_cancer"]}
    name = draw(st.sampled_from([*sets]))
    return name, sets[name]


@st.composite
def splits(draw: Draw, frame: Frame, *, has_columns: bool) -> Study:
    table: Study = {}
    for name in draw(some(["val", "test"])):
        table[name] = draw(values({}, f"data.split.{name}"))
    ways = ["none", *(["stratify"] if frame.task == "classes" else [])]
    columns = ["group", "time", "column"] if has_columns else []
    way = draw(st.sampled_from([*ways, *columns]))
    if way == "stratify":
        table["stratify"] = True
    elif way != "none":
        table[way] = {"group": "size", "time": "id", "column": "part"}[way]
        if way != "column" and draw(st.booleans()):
            table["as_feature"] = draw(st.booleans())
    return table
