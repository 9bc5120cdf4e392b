"""View 1: the status of the study."""

from __future__ import annotations

from datetime import UTC, datetime

from sweeper.dashboard.blocks import Block, facts, note, rows, trials_cell
from sweeper.dashboard.study import PublishedStudy
from sweeper.results import formatting
from sweeper.results.baseline import describe, describe_doubt, describe_test
from sweeper.results.ensemble import latest_verdicts
from sweeper.results.status import Status, ended_by

_OUTCOMES = (*formatting.ENDINGS, "running", "waiting")  # also the names of their colours
_RUNNING_SHOWN = 16
_TRIALS_SHOWN = 12


def status_view(study: PublishedStudy) -> list[Block]:
    """Trials by outcome, rate, time left, the best and since when, what runs now, last commit."""
    status = study.status
    outcomes = formatting.outcomes(status)
    shares = [[word, outcomes.get(word, 0), word] for word in _OUTCOMES]
    bar = {"kind": "shares", "label": "trials by outcome", "shares": shares}
    blocks: list[Block] = [bar, facts(_facts(study))]
    if warning := formatting.none_feasible(status):
        blocks.append(note(warning, is_warning=True))
    if study.unpublished:
        blocks.append(note(study.unpublished, is_warning=True))
    if warning := ended_by(status):
        blocks.append(note(warning, is_warning=True))
    if status.state == "finished":
        best = study.best_row()
        if warning := describe_doubt(study.baseline, status.metric, status.direction, best):
            blocks.append(note(warning, is_warning=True))
    if status.is_running and status.running:
        blocks.append(_running(status))
    return blocks


def _facts(study: PublishedStudy) -> list[tuple[str, str]]:
    status = study.status
    found = [
        ("state", f"{status.state}, round {status.round}"),
        ("trials", formatting.progress(status)),
    ]
    if learned := formatting.learned(status):
        found.append(("learnt from", learned))
    if compiling := formatting.compiling_now(status):
        found.append(("compiling", compiling))
    if status.is_running and status.training:
        found.append(("training", status.training))
    if status.best is not None:
        found.append(
            ("best", formatting.best_trial(status.metric, status.best).removeprefix("best "))
        )
        tied = [] if study.trials is None else study.trials.tied()
        if tie := formatting.tie(status.metric, tied):
            found.append(("tied", tie))
        if since := _best_since(study):
            found.append(("best since", since))
    if simple := describe(study.baseline, status.metric):
        found.append(("simple models", simple))
    if (row := study.best_row()) and (tested := describe_test(study.baseline, status.metric, row)):
        found.append(("on the test rows", tested.removeprefix("on the test rows: ")))
    completed = status.counts.get("COMPLETE", 0)
    settings = {} if study.trials is None else study.trials.said.get("settings", {})
    if said := latest_verdicts(study.ensemble, study.run_dir, completed, settings):
        found.append(("ensemble", "; ".join(said)))
    if len(formatting.names(status.metric)) > 1:
        found.append(("Pareto front", f"{len(status.front)} trials"))
    if status.feasible is not None:
        found.append(("feasible", f"{status.feasible} of {status.counts['COMPLETE']} complete"))
    found += [
        ("last start", clock(status.started_at)),
        ("last commit", clock(status.committed_at) if status.committed_at else "none yet"),
        (
            "programs",
            f"{status.n_compiled} compiled in {formatting.seconds(status.compile_s)}, "
            f"{status.n_cache_hits} of them from the cache",
        ),
        ("training", f"{formatting.seconds(status.train_s)} in all threads and workers"),
        ("run directory", str(study.run_dir.root)),
    ]
    if spent := formatting.time_spent(status.spent_s):
        found.append(("time since the last start", spent))
    return found


def _best_since(study: PublishedStudy) -> str | None:
    """When the best trial ended, and how many have ended since."""
    trials, best = study.trials, study.status.best
    if trials is None or best is None:
        return None
    finished = trials.numbers("finished_at")
    mine = trials.numbers("trial_number") == best["trial_number"]
    if not mine.any():
        return None
    at = float(finished[mine][0])
    later = int((finished > at).sum())
    return f"{clock(trials.began_at + at)}; {later} trials have ended since"


def _running(status: Status) -> Block:
    """What is training now, one row per bucket."""
    shown = status.running[:_RUNNING_SHOWN]
    left = len(status.running) - len(shown)
    records = [
        [
            bucket["bucket"],
            bucket["place"] or "waiting",
            bucket.get("class_name", bucket["class_id"]),
            len(bucket["trials"]),
            trials_cell(bucket["trials"][:_TRIALS_SHOWN]),
        ]
        for bucket in shown
    ]
    caption = "buckets in training" + (
        f", the first {len(shown)} of {len(shown) + left}" if left else ""
    )
    return rows(caption, ["bucket", "place", "class", "lanes", "trials"], records)


def clock(seconds: float) -> str:
    """A time since 1970 as date and time."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
