"""Study files with errors at unknown places, which may or may not be reported.

Valid studies are changed as tables, written, and then changed again as text and as bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

from hypothesis import strategies as st

from tests.generated import wild
from tests.generated.frames import Draw, Study
from tests.generated.parts import games, turns
from tests.generated.studies import studies
from tests.generated.writing import written

Path = tuple[str, ...]


@st.composite
def mangled(draw: Draw) -> bytes:
    """Contents that a carelessly written study file may have."""
    study = deepcopy(draw(st.one_of(studies(), studies(), turns(), games())))
    for _ in range(draw(st.integers(0, 3))):
        draw(st.sampled_from(_OF_TABLES))(draw, study)
    text, _ = draw(written(study))
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
        text = draw(st.sampled_from(_OF_TEXT))(draw, text)
    return draw(st.sampled_from([_plain, _plain, _plain, *_OF_BYTES]))(draw, text)


def _paths(table: Study, under: Path = ()) -> list[Path]:
    """The positions of all tables and values."""
    found: list[Path] = []
    for name, value in table.items():
        found.append((*under, name))
        if isinstance(value, dict):
            found += _paths(value, (*under, name))
    return found


def _at(study: Study, path: Path) -> Study:
    for name in path:
        study = study[name]
    return study


def _some_path(draw: Draw, study: Study) -> Path:
    return draw(st.sampled_from(_paths(study) or [("study",)]))


def _tables(study: Study) -> list[Path]:
    return [(), *(path for path in _paths(study) if isinstance(_at(study, path), dict))]


def _replace(draw: Draw, study: Study) -> None:
    """A different value for something."""
    path = _some_path(draw, study)
    _at(study, path[:-1])[path[-1]] = draw(wild.values())


def _remove(draw: Draw, study: Study) -> None:
    if len(study) > 1:
        path = _some_path(draw, study)
        del _at(study, path[:-1])[path[-1]]


def _add(draw: Draw, study: Study) -> None:
    """A setting or a table that is unknown there, or belongs elsewhere."""
    table = _at(study, draw(st.sampled_from(_tables(study))))
    known = st.sampled_from([path[-1] for path in _paths(study)] or ["study"])
    table[draw(st.one_of(wild.texts(), known))] = draw(wild.values())


def _rename(draw: Draw, study: Study) -> None:
    """One letter too many, too few or wrong."""
    path = _some_path(draw, study)
    table, name = _at(study, path[:-1]), path[-1]
    place = draw(st.integers(0, len(name)))
    letter = draw(st.sampled_from(["", "x", "_", ".", "É", " "]))
    table[name[:place] + letter + name[place + 1 :]] = table.pop(name)


def _copy(draw: Draw, study: Study) -> None:
    """A table or value, copied to a second place."""
    value = deepcopy(_at(study, _some_path(draw, study)))
    path = _some_path(draw, study)
    _at(study, path[:-1])[path[-1]] = value


def _search(draw: Draw, study: Study) -> None:
    """An entry of `[search]` for a setting that can be searched, or cannot."""
    tables = [path for path in _paths(study) if path[0] in ("model", "optimizer", "train", "data")]
    key = draw(st.sampled_from(tables or [("model", "width")]))
    if not isinstance(study.get("search"), dict):
        study["search"] = {}
    study["search"][".".join(key)] = draw(search_entries([".".join(path) for path in tables]))


@st.composite
def search_entries(draw: Draw, keys: list[str]) -> Study:
    """Entries of every type, with bounds, steps, choices and conditions that may fit or not."""
    entry: Study = {"type": draw(st.sampled_from(["int", "float", "categorical", "integer", 1]))}
    numbers = st.one_of(st.integers(-2, 70), st.sampled_from([0.1, 0.5, 1e-3]), wild.numbers())
    for word in ("low", "high", "step"):
        if draw(st.integers(0, 9 if word != "step" else 2)):
            entry[word] = draw(numbers)
    if draw(st.booleans()):
        entry[draw(st.sampled_from(["log", "base", "or", "name"]))] = draw(
            st.one_of(st.booleans(), st.just(2), st.lists(numbers, max_size=2), wild.texts())
        )
    if entry["type"] == "categorical" or not draw(st.integers(0, 9)):
        entry = {"type": entry["type"], "choices": draw(_choices())}
    if draw(st.integers(0, 3)) == 0:
        wanted = st.one_of(wild.scalars(), st.lists(wild.scalars(), max_size=2))
        entry["when"] = draw(st.dictionaries(st.sampled_from(keys or ["a"]), wanted, max_size=2))
    return draw(st.sampled_from([entry] * 9 + [{"same_as": draw(st.sampled_from(keys or ["a"]))}]))


def _choices() -> st.SearchStrategy[Any]:
    few = st.lists(wild.scalars(), max_size=3)
    many = st.integers(1_000, 5_000).map(lambda count: list(range(1, count)))
    return st.one_of(few, few, many, wild.values())


_OF_TABLES: list[Callable[[Draw, Study], None]] = [
    *(_replace, _replace, _replace, _remove, _add, _rename, _copy, _search, _search)
]


def _cut(draw: Draw, text: str) -> str:
    return text[: draw(st.integers(0, len(text)))]


def _insert(draw: Draw, text: str) -> str:
    place = draw(st.integers(0, len(text)))
    strange = ["[", "]", "{", "}", '"', "'", "=", ".", ",", "#", "\n", "\r", "\x00", "\x1b", "é"]
    strange += ['"""', "'''", "\\", "[[", "]]", "\ufeff", "\u2028", "[" * 2_000, "{a=" * 2_000]
    return text[:place] + draw(st.sampled_from(strange)) + text[place:]


def _repeat_line(draw: Draw, text: str) -> str:
    lines = text.splitlines(keepends=True) or ["a = 1\n"]
    line = draw(st.sampled_from(lines))
    place = draw(st.integers(0, len(lines)))
    return "".join([*lines[:place], line, *lines[place:]])


def _drop_line(draw: Draw, text: str) -> str:
    lines = text.splitlines(keepends=True)
    place = draw(st.integers(0, max(0, len(lines) - 1)))
    return "".join([*lines[:place], *lines[place + 1 :]])


def _dot(draw: Draw, text: str) -> str:
    """A key with very many parts."""
    return f"{'.'.join('a' * draw(st.sampled_from([50, 3_000])))} = 1\n{text}"


_OF_TEXT: list[Callable[[Draw, str], str]] = [_cut, _insert, _repeat_line, _drop_line, _dot]


def _plain(_draw: Draw, text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _windows(_draw: Draw, text: str) -> bytes:
    return _plain(_draw, text.replace("\n", "\r\n"))


def _marked(_draw: Draw, text: str) -> bytes:
    return b"\xef\xbb\xbf" + _plain(_draw, text)


def _utf16(_draw: Draw, text: str) -> bytes:
    return text.encode("utf-16", "surrogatepass")


def _torn(draw: Draw, text: str) -> bytes:
    """A byte that does not occur in UTF-8."""
    written_ = _plain(draw, text)
    place = draw(st.integers(0, len(written_)))
    return written_[:place] + draw(st.sampled_from([b"\xff", b"\xc3", b"\x00"])) + written_[place:]


_OF_BYTES = [_windows, _marked, _utf16, _torn]
