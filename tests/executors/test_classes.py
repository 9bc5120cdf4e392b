"""Compiled programs are kept, but not all of a long study."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jax
import pytest

from sweeper.config import parse
from sweeper.executors.classes import Classes
from sweeper.executors.compiling import Compiled
from sweeper.results.timeline import Timeline
from sweeper.scheduler.classes import ProgramClass
from sweeper.trial import Scalar
from tests.in_process import prepared
from tests.small_studies import DIGITS

MOST = 256


class Named(Classes):
    """Classes whose programs have a name instead of any code; `made` are those compiled."""

    made: list[str]

    def _compile(self, program_class: ProgramClass, params: Mapping[str, Scalar]) -> Compiled:
        self.made.append(program_class.class_id)
        return Compiled({program_class.class_id: lambda *_: None}, False, None, ())  # type: ignore[dict-item]


def classes(*overrides: str) -> Named:
    config = parse(DIGITS, Path("study.toml"), list(overrides))
    made = Named(config, prepared(config), None, jax.devices()[:1], Timeline())
    made.made = []
    return made


def use(known: Classes, number: int) -> None:
    """Use the program of a class, which must be its own."""
    program = ProgramClass(str(number), "{}", "exact", "map", 4, "float32")
    assert [*known.compiled(program, {}).programs] == [str(number)]


def test_the_programs_that_were_used_last_are_kept() -> None:
    known = classes()
    for number in range(MOST):
        use(known, number)
    use(known, 0)
    assert len(known.made) == MOST
    use(known, MOST)
    use(known, 0)
    assert len(known.made) == MOST + 1
    use(known, 1)
    assert known.made[MOST:] == [str(MOST), "1"]


@pytest.mark.parametrize(("parallel", "kept"), [(100, MOST), (200, 400)])
def test_no_program_of_a_round_is_dropped_before_its_end(parallel: int, kept: int) -> None:
    known = classes(f"schedule.parallel={parallel}")
    for _ in range(2):
        for number in range(kept):
            use(known, number)
    assert len(known.made) == kept


def test_each_thread_gets_the_program_it_asked_for() -> None:
    known = classes()
    with ThreadPoolExecutor(4) as threads:
        [*threads.map(lambda number: use(known, number * 7 % 400), range(3000))]
    assert len(known.made) > 400
