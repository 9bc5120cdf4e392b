"""Reads and writes TOML: the line of each setting, values as text, and the limits of a file."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, time
from functools import lru_cache
from math import isfinite
from pathlib import Path, PurePath
from shlex import quote
from typing import Any, cast

from sweeper.config.refusals import TEXT_IN_QUOTES, format_value
from sweeper.config.table import Flaw
from sweeper.errors import Problem, ProblemKind


def toml_text(tables: Mapping[str, Any]) -> str:
    """A TOML document of `tables`, without values that are None."""
    return "\n".join(_table_lines(tables, ())).strip("\n") + "\n"


def toml_value(value: Any) -> str:
    """A value on one line."""
    match value:
        case bool():
            return str(value).lower()
        case str():
            # as in JSON, except for the one control character that JSON does not escape
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case Mapping():
            inner = cast("Mapping[str, Any]", value)
            pairs = [f"{toml_key(k)} = {toml_value(v)}" for k, v in inner.items() if v is not None]
            return f"{{ {', '.join(pairs)} }}" if pairs else "{}"
        case Sequence():
            return f"[{', '.join(map(toml_value, cast('Sequence[Any]', value)))}]"
        case PurePath():
            return toml_value(str(value))
        case _ if hasattr(value, "tolist"):  # numbers and arrays of NumPy and JAX
            return toml_value(value.tolist())
        case _:
            return repr(value)


def toml_key(name: str) -> str:
    """A key, in quotes if necessary."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else toml_value(name)


_SETTING = re.compile(r'([\w.]+) = ("[^"]*"|\'[^\']*\'|\[[^]]*]|true|false|(?=[-\d{]|\.\.\.))')


def as_python(text: str) -> str:
    """A text with settings as in TOML, `lr = 0.1`, with those of a mapping, `'lr': 0.1`."""
    pairs = _SETTING.sub(lambda found: f"{found[1]!r}: {_python_value(found[2])}", text)
    return re.sub(r"\{ ([^{}]*) \}", r"{\1}", pairs)


def _python_value(text: str) -> str:
    try:
        return repr(tomllib.loads(f"value = {text}")["value"])
    except tomllib.TOMLDecodeError:  # an outline of a value
        return text


def _table_lines(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    own = {name: value for name, value in table.items() if value is not None}
    values = {name: value for name, value in own.items() if not isinstance(value, Mapping)}
    if path and (values or not own):
        yield f"\n[{'.'.join(map(toml_key, path))}]"
    for name, value in values.items():
        yield f"{toml_key(name)} = {toml_value(value)}"
    for name, value in own.items():
        if isinstance(value, Mapping):
            yield from _table_lines(cast("Mapping[str, Any]", value), (*path, name))


TOO_DEEP = "too many nested tables or arrays"
UNNEST = "write arrays and tables with less nesting"
TOO_LONG = "an integer of more than 64 bits"
SHORTEN = "write a smaller one"
MAX_WITHIN = 50  # far more than any setting needs, far below Python's own limit
_WHOLE = range(-(2**63), 2**63)  # the integers of TOML


def beyond_limits(raw: object) -> Iterator[Flaw]:
    """Values that TOML cannot represent: integers of more than 64 bits, and invalid Unicode.

    What is nested too deeply is included.
    """
    for path, depth, value in _values(raw):
        if depth >= MAX_WITHIN and isinstance(value, dict | list):
            yield Flaw(".".join(path[:3]), TOO_DEEP, UNNEST)
        elif isinstance(value, int) and value not in _WHOLE:
            yield Flaw(".".join(path), TOO_LONG, SHORTEN)
        elif unreadable := [text for text in (*path[-1:], value) if not _is_unicode(text)]:
            found = f"{format_value(unreadable[0])} is not valid Unicode"
            yield Flaw(".".join(path), found, "write it in UTF-8")


PATHS = ("data.path", "results.dir")
_ESCAPES = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}


def escaped_paths(raw: object) -> Iterator[Flaw]:
    """Paths with a control character, since a backslash was read as the start of an escape."""
    for path, _, value in _values(raw):
        key = ".".join(path)
        if key in PATHS and isinstance(value, str) and not _ESCAPES.keys().isdisjoint(value):
            written = "".join(_ESCAPES.get(letter, letter) for letter in value)
            escape = next(_ESCAPES[letter] for letter in value if letter in _ESCAPES)
            yield Flaw(key, f"{escape} in double quotes is one character", with_slashes(written))


def with_slashes(path: str) -> str:
    """The hint to write a path with slashes, which every system reads."""
    slashes = path.replace("\\", "/")
    return f'write "{slashes}", since \\ starts an escape in double quotes'


def of_home(path: str) -> str:
    """The hint to write a path in full if it begins with ~; empty for other paths."""
    if PurePath(path).parts[:1] != ("~",):
        return ""
    try:
        in_full = PurePath(Path.home(), *PurePath(path).parts[1:])
    except RuntimeError:  # this user has no home
        return "write the path in full: only a shell expands ~"
    return f"write {in_full}, or $HOME for ~ on a command line: only a shell expands ~"


def unrecordable(raw: object) -> Iterator[Flaw]:
    """Values that a ledger cannot record, since JSON lacks them: infinities, NaN, dates, times."""
    for path, _, value in _values(raw):
        key = ".".join(path)
        if isinstance(value, float) and not isfinite(value):
            found, hint = f"{value} is not a finite number", "write a finite number"
            yield Flaw(key, found, hint, kind=ProblemKind.NOT_A_NUMBER, value=value)
        elif isinstance(value, date | time):
            found = f"{format_value(value)} is a date or a time, which no setting takes"
            hint = f'{TEXT_IN_QUOTES}, "{value}"'
            yield Flaw(key, found, hint, kind=ProblemKind.NOT_TEXT, value=value)


def _values(raw: object) -> Iterator[tuple[tuple[str, ...], int, object]]:
    """Each value with the path of its key and its depth, up to the limit."""
    waiting: list[tuple[tuple[str, ...], int, object]] = [((), 0, raw)]
    while waiting:
        path, depth, value = waiting.pop()
        yield path, depth, value
        if depth >= MAX_WITHIN:
            continue
        if isinstance(value, dict):
            table = cast("dict[str, Any]", value)
            waiting += [((*path, name), depth + 1, inner) for name, inner in table.items()]
        elif isinstance(value, list):
            array = enumerate(cast("list[Any]", value))
            waiting += [(_path_in(path, n, inner), depth + 1, inner) for n, inner in array]


def _path_in(array: tuple[str, ...], index: int, item: object) -> tuple[str, ...]:
    """The path of an item of an array; only tables have an index."""
    return (*array, str(index)) if isinstance(item, dict) else array


def _is_unicode(value: object) -> bool:
    """Whether a value can be encoded; text from the command line may contain invalid bytes."""
    return not isinstance(value, str) or not any("\ud800" <= one <= "\udfff" for one in value)


COMMAND_LINE = "--set"
IN_PYTHON = "overrides"  # the argument of `load_study`
IN_MAPPING = "in the mapping"  # where settings are if no file has them


def split_override(text: str) -> tuple[str, str]:
    """The key and the value of an override `key=value`.

    A class may be called "<=50K", so the key of its weight ends at the last "=".
    """
    is_of_class = text.lstrip().startswith("data.class_weights.")
    key, _, value = text.rpartition("=") if is_of_class else text.partition("=")
    return key.strip(), value.strip()


@dataclass(frozen=True, slots=True)
class Source:
    """A study file as read; `overrides` are the texts `key=value`, with values in TOML, of
    `--set`, or of another way to override settings that `overridden_by` names.

    `place` says where the settings are if no file has them; then only the directory of `path`
    counts, from which relative paths start. `working_directory` is that of the program when it read
    the file: user code may change it, and a worker started elsewhere may have another.
    """

    path: Path
    text: str
    overrides: tuple[str, ...] = ()
    overridden_by: str = COMMAND_LINE
    working_directory: Path = field(default_factory=Path.cwd)
    place: str = ""

    @property
    def overridden(self) -> tuple[str, ...]:
        """The dotted keys of `overrides`."""
        return tuple(split_override(text)[0] for text in self.overrides)

    def line(self, key: str) -> int | None:
        """The line of a dotted key, or of the nearest table around it; None if there is none."""
        lines = _key_lines(self.text)
        while key and key not in lines:
            key = key.rpartition(".")[0]
        return lines.get(key)

    def where(self, key: str) -> str:
        """The file and line of a dotted key, for messages."""
        if any(_holds(given, key) or _holds(key, given) for given in self.overridden):
            return self.overridden_by
        if self.place:
            return self.place
        line = self.line(key)
        return self.path.name if line is None else f"{self.path.name}:{line}"

    def problem(self, flaw: Flaw) -> Problem:
        """The flaw with its file and line; what to write in a mapping is written as in Python."""
        where = self.where(flaw.key)
        hint = as_python(flaw.hint) if where == IN_MAPPING else flaw.hint
        return replace(flaw, hint=hint).at(where)


def hint_if_moved(source: Source) -> str:
    """What to do if a recorded study file was moved or removed; empty if it is there."""
    file = source.path
    is_of_mapping = not file.suffix and file.parent.is_dir()
    if source.place or is_of_mapping or file.is_file():
        return ""
    command = f"python -m sweeper run {quote(file.name)}" if file.suffix else "sweeper.run"
    gone = file if file.suffix else file.parent
    return (
        f"{gone} is gone: run the study once from its new place, with the same settings, which "
        f"trains no finished trial again: {command}"
    )


# a value of digits, perhaps with a point and commas; and one with a point in an array
_NUMBER = re.compile(
    r"=\s*([-+]?(?=\.?\d)(?:\d+(?:,\d+)*)?(?:\.\d*)?(?:[eE][-+]?\d+)?)\s*(?=[,}]|$)"
)
_IN_ARRAY = re.compile(
    r"(?:^|[\[,])\s*([-+]?(?:\d+\.(?!\d)|\.\d+|0\d+(?:\.\d*)?)(?:[eE][-+]?\d+)?)\s*(?=[,\]]|$)"
)
_IN_GROUPS = re.compile(r"[-+]?[1-9]\d{0,2}(,\d{3})+(?![\d,])")
_QUOTED = re.compile(r"""\"[^\"]*(\"|$)|'[^']*('|$)""")


def number_in_toml(line: str) -> tuple[str, ...]:
    """The first number of a line that is not TOML, as TOML writes it: 0.5 for .5 or 0,5.

    There are two for 1,000, whose comma may be a decimal comma: 1000 and 1.000. Empty if there is
    no such number.
    """
    code = _QUOTED.sub('""', line).partition("#")[0]
    for written in (*_NUMBER.findall(code), *_IN_ARRAY.findall(code)):
        numbers = dict.fromkeys(map(_as_toml, _without_commas(written)))
        if numbers and written not in numbers:
            return tuple(numbers)
    return ()


def _without_commas(number: str) -> Iterator[str]:
    """What a number with commas may mean; a single comma may be decimal, as in 0,5."""
    if "," not in number or _IN_GROUPS.match(number):
        yield number.replace(",", "")
    if number.count(",") == 1 and "." not in number:
        yield number.replace(",", ".")


def _as_toml(number: str) -> str:
    number = re.sub(r"^([-+]?)0*(?=\d)", r"\1", number)
    number = re.sub(r"^([-+]?)(?=\.)", r"\g<1>0", number)
    return re.sub(r"\.(?!\d)", ".0", number)


def given_twice(text: str) -> tuple[str, int, int] | None:
    """The first key that the text, which is therefore not TOML, gives twice, and on which lines."""
    reader = _KeyReader()
    reader.read(text)
    return next(iter(reader.twice), None)


def _holds(outer: str, inner: str) -> bool:
    return f"{inner}.".startswith(f"{outer}.")


# tomllib returns values without lines. The text is known to be valid TOML here, so brackets, commas
# and line ends are enough to tell keys from values.
_TOKEN = re.compile(
    r"""
      (?P<blank>[ \t\r]+|\#[^\n]*)
    | (?P<text>\"{3}(?:\\.|[^\\])*?\"{3,5}|'{3}.*?'{3,5}|"(?:\\.|[^"\\\n])*"|'[^'\n]*')
    | (?P<mark>[\[\]{}=,.\n])
    | (?P<bare>[^\s\[\]{}=,."'\#]+)
    """,
    re.VERBOSE | re.DOTALL,
)

_Path = tuple[str, ...]


@lru_cache(maxsize=16)
def _key_lines(text: str) -> Mapping[str, int]:
    return _KeyReader().read(text)


class _KeyReader:
    """Reads just enough TOML to know on which line each key is written."""

    def __init__(self) -> None:
        self.lines: dict[str, int] = {}
        self.around: dict[str, int] = {}  # tables named only in headers of tables in them
        self.given: dict[_Path, int] = {}  # values and tables, without those implied by others
        self.twice: list[tuple[str, int, int]] = []
        self.table: _Path = ()
        self.open: list[tuple[str, _Path]] = []  # open brackets, each with the key of its value
        self.counts: dict[_Path, int] = {}  # number of tables in each array so far
        self.key: _Path = ()
        self.value_of: _Path = ()
        self.in_key = True
        self.in_header = False
        self.in_array = False  # the current header is of a table in an array

    def read(self, text: str) -> Mapping[str, int]:
        line = 1
        for token in _TOKEN.finditer(text):
            word = token.group()
            if token.lastgroup == "mark":
                self._mark(word, line)
            elif token.lastgroup != "blank" and (self.in_key or self.in_header):
                self.key += (word.strip("\"'"),)
            line += word.count("\n")
        self._mark("\n", line)
        return self.around | self.lines

    def _mark(self, mark: str, line: int) -> None:
        if mark == "\n":
            self._end_line(line)
        elif mark == "[" and self.in_key and not self.in_header and not self.open and not self.key:
            self.in_header = True
        elif mark == "=" and self.in_key:
            self._enter_value(line)
        elif mark == "[" and self.in_header and not self.key:
            self.in_array = True
        elif mark in "[{" and not self.in_key:
            if mark == "{" and self.open and self.open[-1][0] == "[":
                self.value_of = self._next_in(self.value_of, line)
            self.open.append((mark, self.value_of))
            self.in_key = mark == "{"
        elif mark in "]}" and self.open:
            _, self.value_of = self.open.pop()
            self.in_key, self.key = False, ()
        elif mark == "," and self.open:
            bracket, self.value_of = self.open[-1]
            self.in_key, self.key = bracket == "{", ()

    def _end_line(self, line: int) -> None:
        if self.in_header:
            self.table = self._next_in(self.key, line) if self.in_array else self.key
            self._note(self.table, line)
            self._give(self.table, line)
            for n in range(1, min(len(self.table), MAX_WITHIN)):
                self.around.setdefault(".".join(self.table[:n]), line)
            self.in_header = self.in_array = False
        if not self.open:
            self.in_key, self.key = True, ()

    def _enter_value(self, line: int) -> None:
        outer = self.open[-1][1] if self.open else self.table
        self.value_of = outer + self.key
        self._give(self.value_of, line)
        for n in range(len(outer) + 1, min(len(self.value_of), MAX_WITHIN) + 1):
            self._note(self.value_of[:n], line)
        self.in_key, self.key = False, ()

    def _next_in(self, array: _Path, line: int) -> _Path:
        """The path of the next table of an array, which starts on this line."""
        index = self.counts.get(array, 0)
        self.counts[array] = index + 1
        self._note(array, line)
        path = (*array, str(index))
        self._note(path, line)
        return path

    def _give(self, path: _Path, line: int) -> None:
        if path in self.given:
            self.twice.append((".".join(path), self.given[path], line))
        self.given.setdefault(path, line)

    def _note(self, path: _Path, line: int) -> None:
        self.lines.setdefault(".".join(path), line)
        # without the numbers of tables in arrays: the first table with the key
        self.lines.setdefault(".".join(part for part in path if not part.isdigit()), line)
