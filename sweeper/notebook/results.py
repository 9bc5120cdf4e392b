"""Results that notebooks can show: figures, and the page of the study."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from html import escape
from pathlib import Path
from shlex import quote

from sweeper.dashboard.page import Page
from sweeper.dashboard.report import report
from sweeper.dashboard.study import PublishedStudy
from sweeper.errors import SetupError
from sweeper.notebook.plots import Plots
from sweeper.results import formatting, read
from sweeper.results.read import Results

MOST_TRIALS = 2000
"""Results of more trials are shown as a summary, since the page would be too large."""
_HEIGHT = 640
_BEST_SHOWN = 10


@dataclass(frozen=True, slots=True, repr=False)
class StudyResults(Results):
    """Results with figures, which a notebook shows as the page of the study."""

    @property
    def plot(self) -> Plots:
        """The figures: history, curves, parallel, slices, importance, execution, pareto."""
        return Plots(self.run_dir)

    def _repr_html_(self) -> str | None:
        """The page of the study in a frame; None, for a text, if the study has no status."""
        try:
            study = PublishedStudy(self.run_dir)
        except SetupError:  # only the tables were kept
            return None
        if study.trials is not None and len(study.trials) > MOST_TRIALS:
            return self._summary(study)
        # links within a frame would otherwise lead to the page around it
        page = report(Page([study], is_report=True))
        page = page.replace("<title>", '<base href="about:srcdoc">\n<title>', 1)
        return (
            f'<iframe srcdoc="{escape(page)}" title="{escape(study.status.study)}" '
            'sandbox="allow-scripts allow-downloads allow-modals" '
            f'style="width: 100%; height: {_HEIGHT}px; border: 1px solid #d5d9e0"></iframe>'
        )

    def _summary(self, study: PublishedStudy) -> str:
        status = study.status
        root = escape(quote(str(self.run_dir.root)))
        best = "" if status.best is None else formatting.best_trial(status.metric, status.best)
        exact = partial(formatting.number, digits=6)
        best_rows = self.best(_BEST_SHOWN).to_html(index=False, border=0, float_format=exact)
        said = [f"{status.state}, {formatting.states(status)}", best]
        return (
            f"<p><b>{escape(status.study)}</b>: {'<br>'.join(escape(it) for it in said if it)}</p>"
            f"{best_rows}"
            f"<p>The page shows all trials: <code>sweeper dashboard {root}</code></p>"
        )


def open_results(path: Path | str) -> StudyResults:
    """The results in the run directory `path`.

    Raises:
        SetupError: nothing was published there, or by a later version, or it is damaged.
    """
    found = read.open_results(path)
    return StudyResults(found.run_dir, found.study)
