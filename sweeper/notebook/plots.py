"""The charts of the page as figures: `results.plot.history()` and others."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from numbers import Integral
from types import ModuleType
from typing import TYPE_CHECKING, Any

from sweeper.dashboard.blocks import Block
from sweeper.dashboard.filled import MOST_SELECTED, fill_chart, tables_of
from sweeper.dashboard.page import VIEWS
from sweeper.dashboard.study import PublishedStudy
from sweeper.dashboard.views import history, learning, pareto
from sweeper.dashboard.views.parallel import parallel_view
from sweeper.dashboard.views.slices import slices_view
from sweeper.errors import Problem, SetupError, StudyError, did_you_mean, listed, printable
from sweeper.process import DISTRIBUTION
from sweeper.results import formatting
from sweeper.rundir import RunDir

if TYPE_CHECKING:
    from sweeper.dashboard.figures import StudyFigure

_SECTIONS = {section.name: section for section in VIEWS}
_ROW = {"narrow": 3, "wide": 2}  # charts side by side
_AXIS = 1.0  # inches of a parallel axis


@dataclass(frozen=True, slots=True, repr=False)
class Plots:
    """Figures of a study, which show what its page shows; each call reads the results again.

    All return a `matplotlib.figure.Figure`, which a notebook displays and `savefig` writes as PNG
    or SVG. A study with nothing to draw yet gives a figure that says so.

    Raises:
        SetupError: matplotlib is not installed, or the study has no status.
        StudyError: an argument is not a metric, a parameter or a trial of the study.
    """

    run_dir: RunDir

    def __repr__(self) -> str:
        charts = [f"{name}()" for name in vars(Plots) if name in _SECTIONS]
        return f"plots of {printable(str(self.run_dir.root))}: {', '.join(charts)}"

    def history(
        self,
        metric: str | None = None,
        *,
        by: str = "trial number",
        better_half: bool = False,
        trials: Sequence[int] | None = None,
    ) -> StudyFigure:
        """The values of trials and the best so far, `by` "trial number" or "time".

        `metric` is an objective, by default the first. `better_half` leaves out the worse half of
        the feasible complete trials. `trials` are marked with a ring, by default the best.
        """
        study = PublishedStudy(self.run_dir)
        metric = _objective("metric", metric, study)
        chosen = history.choice_of(metric, _one_of("by", by, [*history.BY], "an axis"), better_half)
        return _figure(study, "history", _blocks(study, "history"), chosen, _asked(study, trials))

    def curves(
        self,
        metric: str | None = None,
        *,
        phase: str | None = None,
        trials: Sequence[int] | None = None,
    ) -> StudyFigure:
        """The learning curves of up to six `trials` over a band of all; by default the best one.

        `metric` is one of the recorded metrics, by default the objective, and `phase` one of the
        study's phases.
        """
        study = PublishedStudy(self.run_dir)
        selected, keys = _asked(study, trials), study.curves.keys()
        if not keys:
            return _figure(study, "curves", _blocks(study, "curves"))
        metrics = [name for name, _ in keys]
        first = _objectives(study)[0]
        if metric is None and first in metrics:
            metric = first
        metric = _one_of("metric", metric, metrics, "a recorded metric")
        phases = [own for name, own in keys if name == metric and own]
        if phase is not None and not phases:
            found = f"{phase!r}, but {metric} has no phases, which only alternating training has"
            raise _refused("phase", found, f"leave it out; metrics are {_quoted(metrics)}")
        if phase is not None:
            phase = _one_of("phase", phase, phases, "a phase")
        chosen = learning.choice_of((metric, phase))
        return _figure(study, "curves", _blocks(study, "curves"), chosen, selected)

    def parallel(self, params: Sequence[str] | None = None) -> StudyFigure:
        """The best trials as lines through `params`, by default the most important ones."""
        study = PublishedStudy(self.run_dir)
        names = _columns(study, params)
        blocks = _blocks(study, "parallel")
        if names is not None and study.trials is not None and len(study.trials):
            blocks = parallel_view(study.trials, names)
        return _figure(study, "parallel", blocks)

    def slices(
        self, params: Sequence[str] | None = None, *, trials: Sequence[int] | None = None
    ) -> StudyFigure:
        """The first objective over each of `params`, by default all, the most important first.

        `trials` are marked with a ring, by default the best.
        """
        study = PublishedStudy(self.run_dir)
        names = _columns(study, params)
        blocks = _blocks(study, "slices")
        if names is not None and study.trials is not None and len(study.trials):
            blocks = slices_view(study.trials, names)
        return _figure(study, "slices", blocks, None, _asked(study, trials))

    def importance(self, metric: str | None = None) -> StudyFigure:
        """How much each parameter matters for the objective `metric`, by default the first."""
        study = PublishedStudy(self.run_dir)
        metric = _objective("metric", metric, study)
        return _figure(study, "importance", _blocks(study, "importance"), metric)

    def execution(self) -> StudyFigure:
        """What the program, its threads and its workers did and when, and how rounds went."""
        study = PublishedStudy(self.run_dir)
        return _figure(study, "execution", _blocks(study, "execution"))

    def pareto(
        self, metrics: Sequence[str] | None = None, *, trials: Sequence[int] | None = None
    ) -> StudyFigure:
        """The trade-off between two objectives, by default the first two; `trials` have a ring."""
        study = PublishedStudy(self.run_dir)
        known, chosen = _objectives(study), None
        if metrics is not None:
            both = [_objective("metrics", it, study) for it in _items(metrics)]
            if len(both) != 2 or both[0] == both[1]:
                raise _refused("metrics", f"{metrics!r}", "give two objectives of the study")
            chosen = pareto.choice_of(*sorted(both, key=known.index))
        blocks, marked = _blocks(study, "pareto"), [] if trials is None else _asked(study, trials)
        return _figure(study, "pareto", blocks, chosen, marked)


def _blocks(study: PublishedStudy, name: str) -> list[Block]:
    return _SECTIONS[name].blocks(study)


def _figure(
    study: PublishedStudy,
    name: str,
    blocks: Sequence[Block],
    chosen: str | None = None,
    selected: Sequence[int] = (),
) -> StudyFigure:
    """The charts of a view of the page; of alternatives the chosen one, or else the first."""
    tables = tables_of(study)
    rows = [
        [
            None if it is None else (fill_chart(it, study, tables, selected), it["place"]["height"])
            for it in row
        ]
        for row in _rows(blocks, chosen)
    ]
    said = [block for block in blocks if block["kind"] == "note"]
    notes = [block["text"].replace("`", "") for block in said if block["warning"] or not rows]
    drawn = [one[0] for row in rows for one in row if one is not None]
    axes = max((len(option.get("parallelAxis", ())) for option in drawn), default=0)
    title = f"{study.status.study}: {_SECTIONS[name].title.lower()}"
    return _figures().draw(title, rows, notes, _AXIS * axes)


def _rows(blocks: Sequence[Block], chosen: str | None) -> Iterator[list[Block | None]]:
    """The charts, as many in a row as fit; rows of a grid have the same length."""
    for block in blocks:
        match block["kind"]:
            case "chart":
                yield [block]
            case "grid":
                inner = [one for row in _rows(block["blocks"], chosen) for one in row]
                size = min(len(inner), _ROW[block["size"]])
                for at in range(0, len(inner), size):
                    row = inner[at : at + size]
                    yield [*row, *[None] * (size - len(row))]
            case "choice":
                kept = [own for name, own in block["alternatives"] if chosen in (name, None)]
                for own in kept if block["label"] == "parameters" else kept[:1]:
                    yield from _rows(own, chosen)
            case _:
                pass


def _figures() -> ModuleType:
    try:
        from sweeper.dashboard import figures
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "matplotlib":
            raise
        hint = f"python -m pip install '{DISTRIBUTION}[plot]'"
        raise SetupError(
            Problem("results.plot", "", "matplotlib is not installed", hint)
        ) from error
    return figures


def _objectives(study: PublishedStudy) -> tuple[str, ...]:
    return formatting.names(study.status.metric)


def _objective(argument: str, given: str | None, study: PublishedStudy) -> str:
    return _one_of(argument, given, _objectives(study), "an objective")


def _one_of(argument: str, given: str | None, known: Sequence[str], what: str) -> str:
    """The argument if it is one of the `known`, of which the first is the default."""
    if given is None:
        return known[0]
    if given not in known:
        hint = did_you_mean(str(given), known)
        hint = hint or (f"use {_quoted(known)}" if known else "leave it out")
        raise _refused(argument, f"{given!r} is not {what} of the study", hint)
    return given


def _quoted(names: Sequence[str]) -> str:
    return listed([f"'{name}'" for name in dict.fromkeys(names)], "or")


def _columns(study: PublishedStudy, params: Sequence[str] | None) -> list[str] | None:
    """The columns of parameters, named by column or key; None for the default."""
    if params is None or study.trials is None:
        return None
    asked = [str(name).removeprefix("params_") for name in _items(params)]
    if not asked:
        hint = "give a list of names of parameters, such as ['lr', 'width']"
        raise _refused("params", f"{params!r}", hint)
    trials = study.trials
    columns = {trials.title(name): name for name in trials.parameters}
    by_key = {key: name for name, key in trials.keys.items()}
    found = [
        by_key.get(name) or columns[_one_of("params", name, [*columns], "a parameter")]
        for name in asked
    ]
    return [*dict.fromkeys(found)]


def _asked(study: PublishedStudy, trials: Sequence[int] | int | None) -> list[int]:
    """The trials to mark: those asked for, or else the best one."""
    if trials is None:
        best = study.status.best
        return [] if best is None else [int(best["trial_number"])]
    given: list[Any] = [trials]
    if isinstance(trials, Iterable) and not isinstance(trials, str):
        given = [*trials]
    for number in given:
        is_number = isinstance(number, Integral) and not isinstance(number, bool)
        if not is_number or not (_has_ended(study, int(number)) or study.curves.curve(int(number))):
            hint = "results.trials() lists those that have ended"
            raise _refused("trials", f"{number!r} is not the number of a trial with results", hint)
    wanted = list(dict.fromkeys(map(int, given)))
    if len(wanted) > MOST_SELECTED:
        raise _refused("trials", f"{len(wanted)} trials", f"give at most {MOST_SELECTED}")
    return wanted


def _items(given: Any) -> list[Any]:
    """The items of a collection; none of a text or of anything else."""
    is_collection = isinstance(given, Iterable) and not isinstance(given, str)
    return [*given] if is_collection else []


def _has_ended(study: PublishedStudy, number: int) -> bool:
    return study.trials is not None and bool((study.trials.numbers("trial_number") == number).any())


def _refused(argument: str, found: str, hint: str) -> StudyError:
    return StudyError(Problem("results.plot", argument, found, hint))
