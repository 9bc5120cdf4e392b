"""A model as one ONNX file that predicts raw rows: preparation, network and predictions."""

# pyright: reportMissingImports=false
# (of the extra onnx, which is not in the extra dev)

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import numpy as np
import onnx
import onnxruntime
from jax.extend.core import jaxpr_as_fun
from jax2onnx import to_onnx
from numpy.typing import NDArray
from onnx import TensorProto, compose, helper

from sweeper.config.user_errors import RAISED, describe_error
from sweeper.data.columns import holds_booleans
from sweeper.data.identity import floats_of_rows, values_of
from sweeper.data.transform import Transform
from sweeper.errors import Problem, StudyError
from sweeper.export.card import in_cell
from sweeper.export.conversion import (
    OTHERWISE,
    TOLERANCE,
    Checked,
    Function,
    matrix_name,
    model_function,
    refuse_different,
    relative_difference,
)
from sweeper.export.onnx_graph import (
    ML,
    ML_OPSET,
    OPSET,
    Graph,
    gap_text,
    text_of,
    write_features,
)
from sweeper.export.saved_model import SavedModel
from sweeper.models.adapters import Adapted

FILE = "model.onnx"
_ROWS = "rows"  # name of the first axis
_OWN, _NETWORK = "sweeper/", "network/"  # beginnings of names in the graph
_FLOATS = {"float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE}


def write_onnx(saved: SavedModel, directory: Path, samples: Sequence[Any]) -> Checked:
    """Write a model as `model.onnx`, and compare it in ONNX Runtime with the model.

    `samples` are tables of raw rows.

    Raises:
        StudyError: it cannot be converted.
        SetupError: the file does not predict what the model does.
    """
    frames = [rows for rows in samples if hasattr(rows, "iloc")]
    booleans = {str(n) for rows in frames for n in rows if holds_booleans(rows[n])}
    try:
        model = onnx_model(saved, booleans)
        onnx.checker.check_model(model, full_check=True)
        content = model.SerializeToString()
        session = _session(content)
    except RAISED as error:
        found = f"the model cannot be converted to ONNX: {describe_error(error)}"
        raise StudyError(Problem("", "--format", found, OTHERWISE)) from error
    compared = [_compared(saved, session, rows) for rows in samples]
    difference = max(most for _, most in compared)
    refuse_different(difference, FILE)
    (directory / FILE).write_bytes(content)
    n_rows, of_classes = sum(count for count, _ in compared), bool(saved.class_names)
    return Checked(n_rows, difference, _use(saved, model), of_classes)


def onnx_model(saved: SavedModel, booleans: Collection[str] = ()) -> onnx.ModelProto:
    """The ONNX model of a saved model: from raw columns to predictions.

    In the columns `booleans`, a number that means a gap is False or True.

    Raises:
        StudyError: it does not make one prediction for each row.
        Exception: jax2onnx cannot convert some operation.
    """
    graph, transform = Graph(_OWN), Transform.of_record(saved.info)
    matrix = matrix_name(saved.info)
    numbers, categories = _columns(graph, transform, matrix)
    features, unfit = write_features(graph, transform, numbers, categories, booleans)
    x = _in_precision(graph, saved, features)
    network = _network(saved)
    before = len(graph.nodes)
    results = _write_predictions(graph, saved, network.graph.output[0].name, unfit)
    for name, found in results.items():
        graph.nodes.append(helper.make_node("Identity", [found], [name]))
    nodes = [*graph.nodes[:before], *_wired(network, x), *graph.nodes[before:]]
    constants, used = [*graph.constants, *network.graph.initializer], {*_inputs_of(nodes)}
    imports = {one.domain: one.version for one in network.opset_import}
    model = helper.make_model(
        helper.make_graph(
            nodes,
            "sweeper",
            _inputs(transform, matrix),
            _outputs(saved, results),
            [one for one in constants if one.name in used],
        ),
        opset_imports=[helper.make_opsetid(*one) for one in {**imports, ML: ML_OPSET}.items()],
        functions=network.functions,
        ir_version=network.ir_version,
        producer_name="sweeper",
    )
    about = {name: str(saved.info[name]) for name in ("study", "trial")}
    helper.set_model_props(model, about)
    return model


def _inputs(transform: Transform, matrix: str) -> list[onnx.ValueInfoProto]:
    if matrix and not transform.categories:
        shape = [_ROWS, len(transform.columns)]
        return [helper.make_tensor_value_info(matrix, TensorProto.DOUBLE, shape)]
    kinds = dict.fromkeys(transform.numbers, TensorProto.DOUBLE)
    return [
        helper.make_tensor_value_info(name, kinds.get(name, TensorProto.STRING), [_ROWS, 1])
        for name in transform.columns
    ]


def _columns(graph: Graph, transform: Transform, matrix: str) -> tuple[str | None, dict[str, str]]:
    """The numbers as one array, and each category."""
    categories = {one.name: one.name for one in transform.categories}
    if not transform.numbers:
        return None, categories
    if not matrix or categories:
        return graph.joined(transform.numbers), categories
    places = [transform.columns.index(name) for name in transform.numbers]
    return graph.add("Gather", matrix, graph.constant(places, np.int64), axis=1), {}


def _in_precision(graph: Graph, saved: SavedModel, features: str) -> str:
    """The input of the network: features in its precision, scaled for its fold."""
    data = saved.info["data"]
    dtype = data["spec"]["dtype"]
    x = graph.add("Cast", features, to=_FLOATS[dtype])
    if not data["fold"]:
        return x
    scale, shift = (graph.constant([data["fold"][name]], dtype) for name in ("scale", "shift"))
    return graph.add("Add", graph.add("Mul", x, scale), shift)


def _network(saved: SavedModel) -> onnx.ModelProto:
    """The network as jax2onnx converts it, with names that begin with `_NETWORK`."""
    dtype = saved.info["data"]["spec"]["dtype"]
    shape = jax.export.symbolic_shape(f"{_ROWS}, {len(saved.feature_names)}")
    x = jax.ShapeDtypeStruct(shape, dtype)
    outputs = model_function(saved)
    if any(map(_is_adapted, jax.tree.leaves(saved.model, is_leaf=_is_adapted))):
        outputs = _traced(outputs, x)
    with _quiet():
        made: Any = to_onnx(outputs, [x], opset=OPSET, enable_double_precision=dtype == "float64")
    return compose.add_prefix(made, _NETWORK)


def _is_adapted(node: Any) -> bool:
    return isinstance(node, Adapted)


def _traced(function: Function, x: jax.ShapeDtypeStruct) -> Function:
    """The operations of `function` for any number of rows.

    While jax2onnx traces, it replaces layers of Flax and Haiku by operations that `jax.vmap` cannot
    batch. So they are traced here, before that.
    """
    run = jaxpr_as_fun(jax.make_jaxpr(function)(x))
    return lambda x: run(x)[0]


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the converter's warnings about shapes that it leaves out."""
    logger = logging.getLogger("onnx_ir")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def _inputs_of(nodes: Iterable[onnx.NodeProto]) -> Iterator[str]:
    """The names that nodes read, also those inside of loops and branches."""
    for node in nodes:
        yield from node.input
        for graph in (one.g for one in node.attribute if one.type == onnx.AttributeProto.GRAPH):
            yield from _inputs_of(graph.node)
            yield from (one.name for one in graph.output)


def _wired(network: onnx.ModelProto, x: str) -> Iterator[onnx.NodeProto]:
    """The nodes of a network, whose input is `x`."""
    yield helper.make_node("Identity", [x], [network.graph.input[0].name])
    yield from network.graph.node


def _write_predictions(graph: Graph, saved: SavedModel, outputs: str, unfit: str) -> dict[str, str]:
    """Write what the file returns, by name; NaN, or an empty text, in rows that are `unfit`."""
    data = saved.info["data"]
    columns = data["transform"]["columns"]
    spec = data["spec"]
    if not data["class_names"]:
        found = graph.add("Cast", outputs, to=TensorProto.DOUBLE)
        found = graph.add("Mul", found, graph.constant([spec["y_scale"]]))
        found = graph.add("Add", found, graph.constant([spec["y_mean"]]))
        undo = spec.get("y_transform", "none")
        if undo != "none":
            found = graph.add("Exp", found)
        if undo == "log1p":
            found = graph.add("Sub", found, graph.constant(1.0))
        found = graph.add("Where", unfit, graph.constant(np.nan), found)
        return {free_name("prediction", columns): found}
    if data["one_logit"]:  # the log-odds of the second class
        zeros = graph.add("Sub", outputs, outputs)
        chosen = graph.add("Greater", outputs, graph.constant(0.0, spec["dtype"]))
        chosen = graph.add("Cast", chosen, to=TensorProto.INT64)
        outputs = graph.joined([zeros, outputs])
    else:
        chosen = graph.add("ArgMax", outputs, axis=1, keepdims=1)
    probabilities = graph.add("Softmax", outputs, axis=1)
    nan = graph.constant(np.nan, spec["dtype"])
    probabilities = graph.add("Where", unfit, nan, probabilities)
    names = graph.constant(data["class_names"], object)
    name = graph.add("Where", unfit, graph.constant("", object), graph.add("Gather", names, chosen))
    return {
        free_name("prediction", columns): name,
        free_name("probabilities", columns): probabilities,
    }


def free_name(name: str, columns: Iterable[str]) -> str:
    """The name of an output, which no column has."""
    while name in columns:
        name = f"predicted {name}"
    return name


def _outputs(saved: SavedModel, names: Iterable[str]) -> list[onnx.ValueInfoProto]:
    data = saved.info["data"]
    if not data["class_names"]:
        kinds = [(TensorProto.DOUBLE, len(data["targets"]))]
    else:
        of_classes = _FLOATS[data["spec"]["dtype"]], len(data["class_names"])
        kinds = [(TensorProto.STRING, 1), of_classes]
    return [
        helper.make_tensor_value_info(name, kind, [_ROWS, count])
        for name, (kind, count) in zip(names, kinds, strict=True)
    ]


def _session(content: bytes) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors only
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])


def _feed(saved: SavedModel, rows: Any) -> dict[str, NDArray[Any]]:
    """The inputs of the file for raw rows."""
    transform, matrix = Transform.of_record(saved.info), matrix_name(saved.info)
    if matrix and not transform.categories:
        columns = [_numbers(transform, rows[name]) for name in transform.columns]
        return {matrix: np.stack(columns, axis=1)}
    found = {name: _numbers(transform, rows[name])[:, None] for name in transform.numbers}
    for one in transform.categories:
        gap = gap_text(one)
        texts = [text_of(value, gap) for value in values_of(rows[one.name])]
        found[one.name] = np.array(texts, object)[:, None]
    return found


def _numbers(transform: Transform, column: Any) -> NDArray[np.float64]:
    return floats_of_rows(np.asarray(column), transform.words, decimal=transform.decimal)


def _compared(
    saved: SavedModel, session: onnxruntime.InferenceSession, rows: Any
) -> tuple[int, float]:
    """The number of rows, and the largest relative difference between the file and the model.

    It is infinite if a class is not among the likeliest.
    """
    prediction, *others = map(np.asarray, session.run(None, _feed(saved, rows)))
    outputs = saved.outputs(rows)
    if not saved.class_names:
        with np.errstate(over="ignore"):  # of numbers far beyond those of training
            return len(outputs), relative_difference(prediction, saved.numbers_by(outputs))
    of_class = saved.probabilities_by(outputs)
    chosen = prediction == np.array(saved.class_names, object)
    likeliest = of_class >= of_class.max(axis=1, keepdims=True) * (1 - TOLERANCE)
    if not (chosen & likeliest).any(axis=1).all():
        return len(outputs), np.inf
    return len(outputs), relative_difference(others[0], of_class, 1.0)


def _use(saved: SavedModel, model: onnx.ModelProto) -> str:
    """How to use the file, with its inputs and outputs."""
    inputs = [one.name for one in model.graph.input]
    results = [one.name for one in model.graph.output]
    is_matrix = inputs == [matrix_name(saved.info)]
    gaps = {one.name: gap_text(one) for one in Transform.of_record(saved.info).categories}
    kinds = {name: f"text; missing: {in_cell(gap) or 'empty'}" for name, gap in gaps.items()}
    shown = [f"| {in_cell(name)} | {kinds.get(name, _NUMBER)} |" for name in inputs[:_SHOWN]]
    more = f"and {len(inputs) - _SHOWN} more" if len(inputs) > _SHOWN else ""
    data = saved.info["data"]
    what = f"`{results[0]}`: {', '.join(in_cell(one) for one in data['targets'])}"
    if saved.class_names:
        what += f"; `{results[1]}` of {', '.join(in_cell(one) for one in saved.class_names)}"
    return "\n".join(
        [
            "With ONNX Runtime alone, in this directory:",
            "",
            *(_OF_ARRAY if is_matrix else _of_table(gaps)),
            f"    {'prediction, probabilities' if saved.class_names else '(prediction,)'} = "
            "session.run(None, given)",
            "",
            "Gaps are filled, numbers scaled and categories encoded as in training, in the file.",
            "A category that no training row had is taken as none of the known ones. In a row with",
            "an infinite number, or a missing one if the study does not fill them, numbers and",
            "probabilities are NaN, and classes empty.",
            "",
            f"Outputs are {what}.",
            "",
            *([] if is_matrix else ["| input, shaped (rows, 1) | type |", "| --- | --- |", *shown]),
            *([more] if more else []),
        ]
    ).rstrip()


_SHOWN = 50  # inputs
_NUMBER = "number, as double; missing: NaN"
_OF_ARRAY = (
    "    import onnxruntime",
    "",
    '    session = onnxruntime.InferenceSession("model.onnx")',
    "    (one,) = session.get_inputs()",
    '    given = {one.name: x.reshape(len(x), -1).astype("float64")}  # x: the array of rows',
)


def _of_table(gaps: Mapping[str, str]) -> list[str]:
    """The code for rows in a table; `gaps` are the texts of missing values by column of text."""
    others = {name: gap for name, gap in gaps.items() if gap}
    gap = 'gaps.get(one.name, "")' if others else '""'
    return [
        "    import onnxruntime",
        "    import pandas",
        "",
        '    session = onnxruntime.InferenceSession("model.onnx")',
        '    rows = pandas.read_parquet("new.parquet")',
        *([f"    gaps = {others}  # the columns in which empty text is a category"] * bool(others)),
        "    given = {}",
        "    for one in session.get_inputs():",
        "        column = rows[one.name]",
        '        if one.type == "tensor(string)":',
        '            if pandas.api.types.infer_dtype(column) == "decimal":',
        '                column = column.astype("float64")',
        f"            column = column.astype(object).where(column.notna(), {gap}).map(str)",
        "            given[one.name] = column.to_numpy(object)[:, None]",
        "        else:",
        '            given[one.name] = column.to_numpy("float64")[:, None]',
    ]
