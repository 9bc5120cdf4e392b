"""Ways to break a study: each breaks one thing and knows at which key it will be reported."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass

from hypothesis import strategies as st

from sweeper.config.optimizer import AdafactorTable, UserOptimizerTable
from tests.generated.frames import Draw, Study
from tests.generated.studies import studies
from tests.generated.writing import Lines, written

ANY = studies()
ONE = studies(is_trial=True)
SEVERAL = studies(is_trial=False)
GRID = studies(is_trial=False, sampler="grid")
WHOLE_ARRAYS = studies(is_trial=False, optimizers=(AdafactorTable, UserOptimizerTable))
ADAPTIVE = studies(is_trial=False, sampler="tpe")


@dataclass(frozen=True)
class Wrong:
    """A study with one thing wrong, reported at `key`, or at `other` if that comes later.

    `in_schema` says that a JSON Schema can detect it.
    """

    study: Study
    key: str
    in_schema: bool = False
    other: str = ""


@dataclass(frozen=True)
class Broken:
    """The text of such a study, with the line of each key."""

    text: str
    lines: Lines
    keys: tuple[str, ...]
    in_schema: bool

    def places(self) -> set[tuple[str, str]]:
        """Where it may be reported, each with the key."""
        return {(place_of(key, self.lines), key) for key in self.keys}


def place_of(key: str, lines: Lines) -> str:
    """The place of a key, or of the nearest table around it that is written."""
    while key and key not in lines:
        key = key.rpartition(".")[0]
    return f"study.toml:{lines[key]}" if key else "study.toml"


Break = Callable[[Draw, Study], Wrong]


@dataclass(frozen=True)
class Breakage:
    """A way to break studies of one kind."""

    name: str
    files: st.SearchStrategy[Broken]


BREAKAGES: list[Breakage] = []


def breaking(of: st.SearchStrategy[Study]) -> Callable[[Break], Break]:
    """Marks a function that breaks one thing of such a study."""

    def marked(function: Break) -> Break:
        BREAKAGES.append(Breakage(function.__name__, _files(function, of)))
        return function

    return marked


@st.composite
def _files(draw: Draw, function: Break, of: st.SearchStrategy[Study]) -> Broken:
    wrong = function(draw, deepcopy(draw(of)))
    text, lines = draw(written(wrong.study))
    keys = (wrong.key, wrong.other) if wrong.other else (wrong.key,)
    return Broken(text, lines, keys, wrong.in_schema)
