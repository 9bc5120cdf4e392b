"""Conditions on the rows of a table, such as `value > 0.97 and params_depth == 2`.

Conditions are written in Python syntax, but never executed: comparisons of columns and constants,
`in`, `is None`, and, or, not. As in SQL, a comparison with null is neither true nor false, and
`not` does not make it true.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sweeper.errors import Problem, StudyError, listed
from sweeper.results.light import floats, texts
from sweeper.trial import TrialState

Kind = Literal["number", "truth", "text", "time"]
Mask = NDArray[np.bool_]
Truth = NDArray[np.float64]
"""Per row, 1 if a condition is true, 0 if it is false: `and` is the minimum, `or` the maximum."""
_UNKNOWN = 0.5  # neither, since a null is compared; unchanged by `not`
_SAYS = {
    "number": "numbers, such as 0.5",
    "truth": "True or False",
    "text": 'text, such as "relu"',
    "time": 'times, such as "2026-01-31 12:00"',
}
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_GRAMMAR = 'write comparisons such as value > 0.9 and params_activation in ("relu", "tanh")'
_NAMED = 8  # columns to list if a name is not close to any
_LONGEST, _SHOWN = 10_000, 100  # characters of a condition to accept, and to quote


@dataclass(frozen=True, slots=True)
class ColumnValues:
    """A column: numbers as float64, times in seconds since 1970; nulls have arbitrary values."""

    kind: Kind
    values: NDArray[Any]
    is_null: Mask


def rows_where(condition: str, table: pa.Table, called: Mapping[str, str] | None = None) -> Mask:
    """The rows of a table from `read_light` for which `condition` is true.

    `called` are further names of columns, as for `column_named`.

    Raises:
        StudyError: it is not a valid condition, or names an unknown column.
    """
    try:
        if len(condition) > _LONGEST:
            raise ValueError(f"longer than {_LONGEST} characters")
        tree = ast.parse(condition.strip(), mode="eval")
        return _Reader(condition, table, called or {}).truth(tree.body) == 1
    except (
        SyntaxError,
        ValueError,
        TypeError,
        ArithmeticError,
        RecursionError,
        MemoryError,
    ) as error:
        reason = error.msg if isinstance(error, SyntaxError) else str(error)
        raise _unread(condition, f"cannot be read: {reason}") from None


def column_named(
    option: str, name: str, columns: Iterable[str], also: Mapping[str, str] | None = None
) -> str:
    """The column with this name, or with this heading: parameters need no `params_` prefix.

    `also` are further names of columns, such as those of the objectives.

    Raises:
        StudyError: there is none; `option` is where it was named.
    """
    known = dict.fromkeys(columns)
    called = {**(also or {}), **{heading(column): column for column in known}}
    if name in known or name in called:
        return name if name in known else called[name]
    near = get_close_matches(name, {**called, **known}, n=3)
    if name and not near:
        near = [column for column in known if name in column.split("_") or name in column][:3]
    meant = dict.fromkeys(called.get(one, one) for one in near)
    main_columns = [c for c in known if c in ("trial_number", "state", "value") or c != heading(c)]
    some = f"{', '.join([*dict.fromkeys([*main_columns, *known])][:_NAMED])}, ...; --csv shows all"
    hint = f"did you mean {' or '.join(meant)}?" if meant else f"there are {len(known)}: {some}"
    raise StudyError(Problem("", option, f"no column '{name}'", hint))


def heading(column: str) -> str:
    """The heading of a column in a list."""
    return "trial" if column == "trial_number" else column.removeprefix("params_")


def _unread(condition: str, found: str, hint: str = _GRAMMAR) -> StudyError:
    excerpt = condition if len(condition) <= _SHOWN else f"{condition[:_SHOWN]}..."
    return StudyError(Problem("", "--where", f"{excerpt!r} {found}", hint))


@dataclass(frozen=True, slots=True)
class _Reader:
    condition: str
    table: pa.Table
    called: Mapping[str, str]

    def truth(self, node: ast.expr) -> Truth:
        """The value of a condition, or of a part of it, for every row."""
        match node:
            case ast.BoolOp(op=op, values=parts):
                fold = np.minimum if isinstance(op, ast.And) else np.maximum
                return fold.reduce([self.truth(part) for part in parts])
            case ast.UnaryOp(op=ast.Not(), operand=inner):
                return 1 - self.truth(inner)
            case ast.Compare(left=left, ops=ops, comparators=rights):
                sides = [left, *rights]
                pairs = zip(sides[:-1], ops, sides[1:], strict=True)
                return np.minimum.reduce([self._compared(*pair) for pair in pairs])
            case ast.Name(id=name) if self._column(name).kind == "truth":
                column = self._column(name)
                return np.where(column.is_null, _UNKNOWN, column.values)
            case _:
                raise self._no_condition(node)

    def _compared(self, left: ast.expr, op: ast.cmpop, right: ast.expr) -> Truth:
        if isinstance(op, ast.In | ast.NotIn):
            if not isinstance(right, ast.Tuple | ast.List | ast.Set) or not right.elts:
                raise self._no_condition(right)
            found = np.maximum.reduce([self._compared(left, ast.Eq(), one) for one in right.elts])
            return found if isinstance(op, ast.In) else 1 - found
        if isinstance(op, ast.Is | ast.IsNot):
            if not _is_none(right) or not isinstance(left, ast.Name):
                raise self._no_condition(right)
            null = self._column(left.id).is_null.astype(np.float64)
            return null if isinstance(op, ast.Is) else 1 - null
        if _is_none(left) or _is_none(right):
            raise _unread(self.condition, "compares with None", "write `is None`, or `is not None`")
        return self._of_values(left, _COMPARISONS[type(op)], right)

    def _of_values(
        self, left: ast.expr, compare: Callable[[Any, Any], Any], right: ast.expr
    ) -> Truth:
        names = [side.id for side in (left, right) if isinstance(side, ast.Name)]
        if not names:
            raise self._no_condition(left)
        kinds = {self._column(name).kind for name in names}
        if len(kinds) > 1:
            descriptions = " and ".join(
                f"'{name}' holds {self._column(name).kind}s" for name in names
            )
            raise _unread(self.condition, f"compares columns of different kinds: {descriptions}")
        kind, sides = kinds.pop(), [self._side(one, names[0]) for one in (left, right)]
        if kind == "text" and compare not in (operator.eq, operator.ne):
            raise _unread(self.condition, f"orders '{names[0]}', which holds text", "use == or in")
        null = np.logical_or.reduce([self._column(name).is_null for name in names])
        return np.where(null, _UNKNOWN, compare(*sides))

    def _side(self, node: ast.expr, column: str) -> Any:
        """The values on one side of a comparison with `column`."""
        if isinstance(node, ast.Name):
            return self._column(node.id).values
        try:
            value = ast.literal_eval(node)
        except ValueError:
            raise self._no_condition(node) from None
        kind = self._column(column).kind
        if kind == "time" and isinstance(value, str):
            return self._moment(value)
        wanted = {"number": (int, float), "truth": bool, "text": str, "time": ()}[kind]
        if not isinstance(value, wanted) or (kind == "number" and isinstance(value, bool)):
            hint = f"compare it with {_SAYS[kind]}"
            raise _unread(self.condition, f"compares '{column}' with {value!r}", hint)
        if column == "state" and value not in {*TrialState}:
            fix = f"states are {listed([repr(str(one)) for one in TrialState])}"
            raise _unread(self.condition, f"compares 'state' with {value!r}", fix)
        return value

    def _moment(self, text: str) -> float:
        """A time as seconds since 1970; UTC unless it says otherwise."""
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            raise _unread(
                self.condition, f"compares a time with {text!r}", f"write {_SAYS['time']}"
            ) from None
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()

    def _column(self, name: str) -> ColumnValues:
        names = self.table.column_names
        return _values(self.table[column_named("--where", name, names, self.called)])

    def _no_condition(self, node: ast.expr) -> StudyError:
        return _unread(self.condition, f"contains '{ast.unparse(node)}', which is not a condition")


def _values(column: pa.ChunkedArray) -> ColumnValues:
    if pa.types.is_dictionary(column.type):
        names, codes = texts(column)
        return ColumnValues("text", np.array([*names, ""], object)[codes], codes < 0)
    values = floats(column)
    is_truth, is_time = pa.types.is_boolean(column.type), pa.types.is_timestamp(column.type)
    kind = "truth" if is_truth else "time" if is_time else "number"
    return ColumnValues(kind, values, np.isnan(values))


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
