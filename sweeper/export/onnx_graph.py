"""How raw rows become features in an ONNX graph, as `Transform.of` computes them.

Numbers are double precision until the network: a table's own numbers, not rounded.
"""

# pyright: reportMissingImports=false
# (of the extra onnx, which is not in the extra dev)

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from sweeper.data.identity import (
    UNKNOWN,
    KnownValues,
    is_missing,
    jumps_of,
    number_of,
    numbers_among,
    written,
)
from sweeper.data.transform import (
    BEYOND,
    DEVIATE,
    MISSING,
    Category,
    Quantiles,
    Scaling,
    Transform,
)

OPSET, ML_OPSET = 21, 4
ML = "ai.onnx.ml"
# texts that stand for a missing value, since tensors of strings have none, unless they are known
_GAPS = ("", "nan", "NaN", "None", "<NA>", "NaT")
_TRUTHS = ("True", "False", "true", "false", "TRUE", "FALSE")
# coefficients of the normal deviate, from low powers to high (Wichura 1988, algorithm AS 241)
_CENTRE = (
    (
        *(3.3871328727963666080e0, 1.3314166789178437745e2, 1.9715909503065514427e3),
        *(1.3731693765509461125e4, 4.5921953931549871457e4, 6.7265770927008700853e4),
        *(3.3430575583588128105e4, 2.5090809287301226727e3),
    ),
    (
        *(1.0, 4.2313330701600911252e1, 6.8718700749205790830e2, 5.3941960214247511077e3),
        *(2.1213794301586595867e4, 3.9307895800092710610e4, 2.8729085735721942674e4),
        5.2264952788528545610e3,
    ),
)
_TAIL = (
    (
        *(1.42343711074968357734e0, 4.63033784615654529590e0, 5.76949722146069140550e0),
        *(3.64784832476320460504e0, 1.27045825245236838258e0, 2.41780725177450611770e-1),
        *(2.27238449892691845833e-2, 7.74545014278341407640e-4),
    ),
    (
        *(1.0, 2.05319162663775882187e0, 1.67638483018380384940e0, 6.89767334985100004550e-1),
        *(1.48103976427480074590e-1, 1.51986665636164571966e-2, 5.47593808499534494600e-4),
        1.05075007164441684324e-9,
    ),
)
_CENTRAL, _TAIL_FROM = 0.425, 1.6
_LEAST_RANK = 1e-7  # its deviate is -DEVIATE


class Graph:
    """The nodes of a graph that is written step by step; each step returns the name of its result.

    `prefix` begins the names of all results, so that they differ from those of inputs.
    """

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, values: Any, dtype: Any = np.float64) -> str:
        """An array that the graph holds."""
        name = f"{self.prefix}constant_{len(self.constants)}"
        array = np.asarray(values, dtype)
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def add(self, kind: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """An operation with one result."""
        name = f"{self.prefix}{kind}_{len(self.nodes)}"
        node = helper.make_node(kind, inputs, [name], name, domain=domain, **attributes)
        self.nodes.append(node)
        return name

    def joined(self, parts: Sequence[str]) -> str:
        """The columns of several arrays side by side."""
        return self.add("Concat", *parts, axis=1) if len(parts) > 1 else parts[0]


def write_features(
    graph: Graph,
    transform: Transform,
    numbers: str | None,
    categories: Mapping[str, str],
    booleans: Collection[str] = (),
) -> tuple[str, str]:
    """Write how raw columns become features in double precision, shaped (rows, features).

    `numbers` names an array of all numbers, None if there are none, and `categories` the text of
    each category, shaped (rows, 1). No number in the columns `booleans` means a gap. Also returns
    which rows, shaped (rows, 1), have numbers that the model cannot use: missing ones that are not
    filled, or infinite ones.
    """
    parts: list[str] = []
    unfit = graph.constant([[False]], np.bool_)
    if numbers is not None:
        x = _filled(graph, transform, numbers, booleans)
        scaled = _scaled(graph, x, transform.scaling)
        parts.append(scaled)
        unfit = _unfit(graph, x, scaled)
    if categories:
        parts.append(_encoded(graph, transform, categories))
    return graph.joined(parts), unfit


def _filled(graph: Graph, transform: Transform, x: str, booleans: Collection[str]) -> str:
    """Numbers with gaps filled, and numbers that mean a gap among them, but not in `booleans`."""
    nan = graph.constant(np.nan)
    gaps = numbers_among(transform.words, transform.decimal)
    with np.errstate(over="ignore"):
        gaps = {*gaps, *np.array(gaps, np.float32).astype(float).tolist()}
    may_be_gap = graph.constant([[name not in booleans for name in transform.numbers]], np.bool_)
    for gap in sorted(gap for gap in gaps if np.isfinite(gap)):
        is_gap = graph.add("And", graph.add("Equal", x, graph.constant(gap)), may_be_gap)
        x = graph.add("Where", is_gap, nan, x)
    if not transform.fills:
        return x
    return graph.add("Where", graph.add("IsNaN", x), graph.constant([transform.fills]), x)


def _unfit(graph: Graph, x: str, scaled: str) -> str:
    """The rows in which a number, or a scaled one, is not finite in single precision."""
    found: list[str] = []
    for each in (x, scaled):
        single = graph.add("Cast", each, to=TensorProto.FLOAT)
        found.append(graph.add("Sub", single, single))  # NaN unless finite
    axes = graph.constant([1], np.int64)
    total = graph.add("ReduceSum", graph.add("Add", *found), axes, keepdims=1)
    return graph.add("IsNaN", total)


def _scaled(graph: Graph, x: str, by: Scaling | Quantiles | None) -> str:
    if by is None:
        return x
    if isinstance(by, Quantiles):
        known = np.array(by.quantiles)
        return _deviates(graph, _with_known(graph, x, known), known)
    scale, shift = graph.constant([by.scale]), graph.constant([by.shift])
    if by.to_range:
        return graph.add("Add", graph.add("Mul", x, scale), shift)
    return graph.add("Div", graph.add("Sub", x, shift), scale)


def _with_known(graph: Graph, x: str, known: NDArray[np.float64]) -> str:
    """Numbers as `identity.with_known` returns them, for quantiles shaped (columns, quantiles)."""
    jumps = [jumps_of(of) for of in known]
    most = max(len(of) for of, _ in jumps)
    if not most:
        return x
    # infinite ones, which no number equals, fill up the columns that have fewer
    of, of_single = np.full((2, len(jumps), most), np.inf)
    for place, (own, own_single) in enumerate(jumps):
        of[place, : len(own)], of_single[place, : len(own)] = own, own_single
    single = _double(graph, graph.add("Cast", x, to=TensorProto.FLOAT))
    last = graph.constant(most - 1, np.int64)
    place = graph.add("Min", _place(graph, single, of_single, "Less"), last)
    near, near_single = (_element(graph, each, place) for each in (of, of_single))
    is_single = graph.add("Or", *(graph.add("Equal", single, each) for each in (x, near)))
    is_same = graph.add("And", is_single, graph.add("Equal", single, near_single))
    return graph.add("Where", is_same, near, x)


def _deviates(graph: Graph, x: str, known: NDArray[np.float64]) -> str:
    """The normal deviates of ranks among the `known` quantiles, shaped (columns, quantiles)."""
    count = known.shape[1]
    last = graph.constant(count - 1, np.int64)
    below, up_to = (_place(graph, x, known, kind) for kind in ("Less", "LessOrEqual"))
    one, zero = graph.constant(1, np.int64), graph.constant(0, np.int64)
    start = graph.add("Max", graph.add("Sub", up_to, one), zero)
    end = graph.add("Min", up_to, last)
    low, high = (_element(graph, known, place) for place in (start, end))
    # equal numbers have the middle of their ranks, others are interpolated
    is_known = graph.add("Less", below, up_to)
    middle = graph.add("Add", _double(graph, below), _double(graph, start))
    middle = graph.add("Mul", middle, graph.constant(0.5))
    width = graph.add("Where", is_known, graph.constant(1.0), graph.add("Sub", high, low))
    within = graph.add("Div", graph.add("Sub", x, low), width)
    between = graph.add("Add", _double(graph, start), within)
    place = graph.add("Where", is_known, middle, between)
    rank = graph.add("Div", place, graph.constant(float(count - 1)))
    found = _normal_deviate(graph, rank)
    for kind, limit, value in (("Less", 0, -BEYOND), ("Greater", -1, BEYOND)):
        is_beyond = graph.add(kind, x, graph.constant(known[None, :, limit]))
        found = graph.add("Where", is_beyond, graph.constant(value), found)
    return found


def _place(graph: Graph, x: str, known: NDArray[np.float64], kind: str) -> str:
    """How many of the `known` numbers of its column are below `x`, by bisection.

    `kind` says whether equal ones count.
    """
    count = known.shape[1]
    is_none = graph.add("Less", x, graph.constant(-np.inf))
    place = graph.add("Cast", is_none, to=TensorProto.INT64)  # zeros of its shape
    top = graph.constant(count, np.int64)
    for step in (1 << bit for bit in reversed(range(count.bit_length()))):
        further = graph.add("Add", place, graph.constant(step, np.int64))
        last = graph.add("Sub", further, graph.constant(1, np.int64))
        inside = graph.add("Min", last, graph.constant(count - 1, np.int64))
        is_below = graph.add(kind, _element(graph, known, inside), x)
        fits = graph.add("And", graph.add("LessOrEqual", further, top), is_below)
        place = graph.add("Where", fits, further, place)
    return place


def _element(graph: Graph, known: NDArray[np.float64], place: str) -> str:
    """The number of each column at `place`, shaped (rows, columns)."""
    n_columns, count = known.shape
    first = graph.constant([np.arange(n_columns) * count], np.int64)
    return graph.add("Gather", graph.constant(known.ravel()), graph.add("Add", place, first))


def _double(graph: Graph, x: str) -> str:
    return graph.add("Cast", x, to=TensorProto.DOUBLE)


def _normal_deviate(graph: Graph, rank: str) -> str:
    """The inverse of the normal distribution function, within `DEVIATE` of 0."""
    least, most = graph.constant(_LEAST_RANK), graph.constant(1 - _LEAST_RANK)
    rank = graph.add("Clip", rank, least, most)
    centred = graph.add("Sub", rank, graph.constant(0.5))
    square = graph.add("Sub", graph.constant(_CENTRAL**2), graph.add("Mul", centred, centred))
    central = graph.add("Mul", centred, _ratio(graph, _CENTRE, square))
    tail = graph.add("Min", rank, graph.add("Sub", graph.constant(1.0), rank))
    root = graph.add("Sqrt", graph.add("Neg", graph.add("Log", tail)))
    beyond = _ratio(graph, _TAIL, graph.add("Sub", root, graph.constant(_TAIL_FROM)))
    beyond = graph.add("Mul", graph.add("Sign", centred), beyond)
    is_central = graph.add("LessOrEqual", graph.add("Abs", centred), graph.constant(_CENTRAL))
    found = graph.add("Where", is_central, central, beyond)
    return graph.add("Clip", found, graph.constant(-DEVIATE), graph.constant(DEVIATE))


def _ratio(graph: Graph, coefficients: Sequence[Sequence[float]], x: str) -> str:
    """The ratio of two polynomials."""
    found: list[str] = []
    for own in coefficients:
        value = graph.constant(own[-1])
        for coefficient in own[-2::-1]:
            value = graph.add("Add", graph.add("Mul", value, x), graph.constant(coefficient))
        found.append(value)
    return graph.add("Div", *found)


def _encoded(graph: Graph, transform: Transform, inputs: Mapping[str, str]) -> str:
    """Categories, each as one component per value, or as its scaled index."""
    parts: list[str] = []
    for one in transform.categories:
        known = places_of(one, transform)
        place = graph.add(
            "LabelEncoder",
            inputs[one.name],
            domain=ML,
            keys_strings=[*known],
            values_int64s=[*known.values()],
            default_int64=UNKNOWN,
        )
        if transform.one_hot:
            columns = graph.constant([np.arange(len(one.values))], np.int64)
            parts.append(_double(graph, graph.add("Equal", place, columns)))
            continue
        ordinal = _double(graph, place)
        if None in one.values:
            gap = graph.constant(one.values.index(None), np.int64)
            is_gap = graph.add("Equal", place, gap)
            ordinal = graph.add("Where", is_gap, graph.constant(float(MISSING)), ordinal)
        parts.append(ordinal)
    places = graph.joined(parts)
    return places if transform.one_hot else _scaled(graph, places, transform.place_scaling)


def places_of(one: Category, transform: Transform) -> dict[str, int]:
    """The index of each text that stands for a known value of a category, or for a missing one."""
    lenient = transform.edition == 1
    known = KnownValues(one.values, one.fill, transform.words, lenient=lenient)
    ((missing,), _) = known.places([None])
    texts = [text for value in one.values if value is not None for text in _forms(value)]
    texts = [*dict.fromkeys([*texts, *_TRUTHS, *transform.words])]
    found = dict(zip(texts, known.places(texts)[0].tolist(), strict=True))
    for place, value in enumerate(one.values):
        if (single := _single_as_double(value)) is not None:
            found.setdefault(single, place)
    for gap in _GAPS:
        if known.place(gap) in (UNKNOWN, None):
            found[gap] = int(missing)
    return {text: place for text, place in found.items() if place != UNKNOWN or text in _GAPS}


def _forms(value: Any) -> list[str]:
    """The texts that a value may have in a table, as a string, an integer or a float."""
    number = number_of(value)
    numbers = [] if number is None or isinstance(value, bool) else [repr(float(number))]
    return [written(value), str(value), *numbers]


def _single_as_double(value: Any) -> str | None:
    """The text of a number that a column in single precision has when it is read as double."""
    number = number_of(value)
    if number is None or isinstance(value, bool):
        return None
    with np.errstate(over="ignore"):
        single = float(np.float32(float(number)))
    return repr(single) if np.isfinite(single) else None


def gap_text(one: Category) -> str:
    """The text that stands for a missing value of a category: empty, unless that is known."""
    known = {written(value) for value in one.values if value is not None}
    return next((text for text in _GAPS if text not in known), _GAPS[0])


def text_of(value: Any, gap: str) -> str:
    """The text of a category in a tensor of strings; `gap` if it is missing."""
    return gap if is_missing(value) else written(value)
