"""Formats a status as text; nothing is printed here."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from math import isfinite
from typing import Any

from sweeper.errors import counted, listed, size_text
from sweeper.results.events import Compiling
from sweeper.results.status import IMPORTED_RUN, Status
from sweeper.results.timeline import DOING, IDLE

FINISHED = {"COMPLETE": "complete", "PRUNED": "pruned", "FAIL": "failed"}
DIVERGED = "diverged"
INFEASIBLE = "infeasible"
ENDINGS = ("complete", "pruned", DIVERGED, INFEASIBLE, "failed")
_BLOCKS = "▁▂▃▄▅▆▇█"
_REASON_LETTERS = 400
_TIED_SHOWN = 10
# from here and up to here, numbers are exponential
_HUGE, _HUGE_INTEGER, _TINY = 1e6, 1e10, 1e-4
_HUGE_DIGITS = 3
_BELOW_ONE_DIGITS = 6  # more than that is rounding
_LEAST_SHOWN_S = 0.05
_LEAST_LEFT_S = 0.5
# in a traceback, the line that names the error; notes come after it
_NAMING = re.compile(r"[\w.]+(Error|Exception|Exit|Interrupt): ")
_STATES = {"RUNNING": "running", "WAITING": "waiting", **FINISHED}


def duration(seconds: float) -> str:
    """`seconds` as on a clock: 0:07, 12:30, 3:05:00."""
    minutes, whole = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{whole:02}" if hours else f"{minutes}:{whole:02}"


def number(value: object, digits: int = 4) -> str:
    """A value of a trial, with this many digits unless it is an integer; a dash for None.

    12, 0.0123, 48123, 3.88e15, 1.5e-7: like `fmt` in page.js, which rounds halves up, too. A number
    below 1, such as 0.99997, is not rounded to 1, unless it needs more than 6 digits.
    """
    if value is None:
        return "-"
    if isinstance(value, bool) or not isinstance(value, int | float) or not isfinite(value):
        return str(value)
    if value == int(value) and abs(value) < _HUGE_INTEGER:
        return str(int(value))
    exact, is_huge = Decimal(value), abs(value) >= _HUGE
    while abs(value) < 1 == abs(_rounded(exact, digits)) and digits < _BELOW_ONE_DIGITS:
        digits += 1
    if abs(value) >= _TINY and not is_huge:
        return f"{_rounded(exact, max(digits, exact.adjusted() + 1)):f}"
    rounded = _rounded(exact, _HUGE_DIGITS if is_huge else digits)
    return f"{rounded.scaleb(-rounded.adjusted()):f}e{rounded.adjusted()}"


def _rounded(exact: Decimal, digits: int) -> Decimal:
    return Context(prec=digits, rounding=ROUND_HALF_UP).create_decimal(exact).normalize()


def why_diverged(epoch: int | None) -> str:
    """Why a trial diverged, whose loss was not finite from this `epoch` on."""
    found = "the loss or the objective was not finite"
    if epoch is None:
        return f"{found}; maybe the learning rate is too high"
    if epoch > 1:
        return f"{found} after some epochs; maybe the learning rate is too high"
    ways = "check the loss for log, sqrt or division, or lower the learning rate"
    return f"{found} from epoch 1; {ways}"


def sparkline(values: Sequence[float | None], width: int) -> str:
    """A curve as a line of at most `width` blocks; a gap for a missing value."""
    if len(values) > width:
        values = [values[round(i * (len(values) - 1) / (width - 1))] for i in range(width)]
    known = [value for value in values if value is not None]
    if not known:
        return ""
    low, high = min(known), max(known)
    step = (high - low) / (len(_BLOCKS) - 1) or 1.0
    return "".join(" " if one is None else _BLOCKS[round((one - low) / step)] for one in values)


def settings(params: Mapping[str, object]) -> str:
    """Parameters on one line: `depth=2, lr=0.00123`."""
    return ", ".join(f"{name}={number(value)}" for name, value in params.items())


def conditions(when: Mapping[str, Sequence[object]] | None) -> str:
    """When a searched setting is drawn: `model.depth is 1 or 2`; empty if always."""
    wanted = (when or {}).items()
    return " and ".join(f"{key} is {' or '.join(map(str, values))}" for key, values in wanted)


def finished_trials(counts: Mapping[str, int]) -> int:
    """How many trials have ended, in any state."""
    return sum(counts.get(state, 0) for state in FINISHED)


def states(status: Status) -> str:
    """The number of trials by state, without zeros: `16 running, 30 complete`."""
    over = {"running": "unfinished", "waiting": "not started"}
    words = {} if status.is_running else over
    found = outcomes(status).items()
    return ", ".join(f"{count} {words.get(word, word)}" for word, count in found if count)


def ended(status: Status) -> str:
    """How trials ended: `3 complete, 2 pruned, 28 diverged, 0 failed`.

    Diverged, infeasible and unfinished trials are only mentioned if there are any.
    """
    found = outcomes(status)
    words = [word for word in ENDINGS if word not in (DIVERGED, INFEASIBLE) or word in found]
    shown = [f"{found.get(word, 0)} {word}" for word in words]
    if unfinished := found.get("running"):
        shown.append(f"{unfinished} unfinished")
    return ", ".join(shown)


def learned(status: Status) -> str | None:
    """How many trials of earlier studies the sampler has learnt from; None without any."""
    found = [
        f"{counted(count, 'trial')} of {name}" for name, count in (status.learned or {}).items()
    ]
    return listed(found) if found else None


def outcomes(status: Status) -> dict[str, int]:
    """Number of trials by outcome; diverged and infeasible trials are not counted as pruned."""
    apart = {DIVERGED: status.diverged or 0, INFEASIBLE: status.infeasible or 0}
    found: dict[str, int] = {}
    for state, count in status.counts.items():
        is_pruned = state == "PRUNED"
        found[_STATES.get(state, state)] = count - sum(apart.values()) * is_pruned
        if is_pruned:
            found |= {word: n for word, n in apart.items() if n}
    return found


def none_feasible(status: Status) -> str | None:
    """A sentence if trials have been judged by constraints, but none meets them; else None."""
    judged = status.counts.get("COMPLETE", 0) + (status.infeasible or 0)
    if status.feasible != 0 or not judged:
        return None
    so_far = " so far" if status.is_running else ""
    which = _constraints(status.run_id)
    return f"no trial meets {which}{so_far}; relax them, or search other ranges"


def violates(trial: Mapping[str, Any], *, is_best: bool = True) -> str | None:
    """A sentence if a trial, a row of trials.parquet, is not feasible; else None.

    `is_best` says whether it is the best trial, or one that the user named.
    """
    if trial.get("feasible") is not False:
        return None
    constraints = _constraints(trial.get("run_id"))
    if not is_best:
        return f"trial {trial['trial_number']} violates {constraints}"
    which = f"trial {trial['trial_number']} is the best of those that violate them"
    return f"no trial meets {constraints}; {which}"


def _constraints(run_id: str | None) -> str:
    """Where the constraints of a study are."""
    return "the constraints of the Optuna study" if run_id == IMPORTED_RUN else "study.constraints"


def outcome(trial: Mapping[str, Any]) -> str:
    """The outcome of a trial, from its row of trials.parquet: `diverged`, not `pruned`."""
    reason = trial["reason"]
    return reason if reason in (DIVERGED, INFEASIBLE) else FINISHED[trial["state"]]


def names(metric: str | Sequence[str]) -> tuple[str, ...]:
    """The objectives of a study, one or several."""
    return (metric,) if isinstance(metric, str) else tuple(metric)


def best_trial(metric: str | Sequence[str], best: Mapping[str, Any]) -> str:
    """The best trial so far with its parameters; with several objectives, by the first."""
    parameters = settings(best["params"])
    value = f"{names(metric)[0]} {number(best['value'], 6)}"
    return f"best {value} (trial {best['trial_number']}){parameters and f': {parameters}'}"


def tie(metric: str | Sequence[str], tied: Sequence[int]) -> str:
    """Which trials share the best value; empty if `tied` is."""
    if not tied:
        return ""
    shown = ", ".join(map(str, tied[:_TIED_SHOWN]))
    more = f" and {left} more" if (left := len(tied) - _TIED_SHOWN) > 0 else ""
    return (
        f"trials {shown}{more} are tied at the best {names(metric)[0]}; "
        f"trial {tied[0]} counts as the best, since it has the lowest number"
    )


def front_trial(metric: str | Sequence[str], trial: Mapping[str, Any]) -> str:
    """A trial of the Pareto front: its objectives and its parameters."""
    pairs = zip(names(metric), trial["values"], strict=True)
    values = ", ".join(f"{name} {number(value, 6)}" for name, value in pairs)
    return f"{values}: {settings(trial['params'])}"


def pace(status: Status, since_s: float = 0.0) -> str:
    """Rate, and remaining time `since_s` seconds after the last commit, as far as known.

    A study that does not run, or is about to end, has no remaining time.
    """
    found: list[str] = []
    if (rate := status.trials_per_minute) is not None:
        found.append(f"{rate:{'.0f' if rate >= 100 else '.3g'}} per minute")
    left_s = (status.eta_s or 0.0) - since_s
    if status.is_running and left_s >= _LEAST_LEFT_S:
        found.append(f"{duration(left_s)} left")
    return ", ".join(found)


def progress(status: Status, since_s: float | None = None) -> str:
    """The progress of a study: `38 of 64 trials, 120 per minute, 0:16 left`.

    The remaining time is that `since_s` seconds after the last commit; by default, that is now.
    """
    trials = f"{finished_trials(status.counts)} of {counted(status.n_trials, 'trial')}"
    known = pace(status, _since_commit(status) if since_s is None else since_s)
    return f"{trials}, {known}" if known else trials


def _since_commit(status: Status) -> float:
    """The seconds since the last commit; 0 before the first, or if it seems to be ahead of us."""
    at = status.committed_at
    return 0.0 if at is None else max(0.0, time.time() - at)


def compiling(counts: Compiling, now: float) -> str:
    """How far compiling is: `3 of 16 programs done, 0:12`."""
    done = f"{counts.done} of {counted(counts.planned, 'program')} done"
    return f"{done}, {duration(max(0.0, now - counts.since))}"


def compiling_now(status: Status) -> str:
    """What a running study compiles, as `compiling`; empty if nothing."""
    if not status.is_running or status.compiling is None:
        return ""
    return compiling(Compiling(**status.compiling), time.time())


def trial_numbers(numbers: Sequence[int]) -> str:
    """The trials of a bucket, by number if there are few."""
    if len(numbers) == 1:
        return f"trial {numbers[0]}"
    if len(numbers) <= 4:
        return f"trials {', '.join(map(str, numbers))}"
    return counted(len(numbers), "trial")


def seconds(value: float) -> str:
    """Seconds with one decimal, longer times as on a clock: `4.2 s`, `12:30`."""
    return f"{value:.1f} s" if value < 60 else duration(value)


def time_spent(spent_s: Mapping[str, float], starts: str = "") -> str:
    """The time of a program by activity, largest first: `12.3 s: 8.1 s training, 4.2 s importing`.

    `starts` comes after the sum. Empty if an earlier version recorded only part of the time.
    """
    if IDLE not in spent_s:
        return ""
    shown = [(doing, spent_s.get(activity, 0.0)) for activity, doing in DOING.items()]
    parts = [
        f"{seconds(spent)} {doing}"
        for doing, spent in sorted(shown, key=lambda one: -one[1])
        if spent >= _LEAST_SHOWN_S
    ]
    return f"{seconds(sum(spent_s.values()))}{starts}: {', '.join(parts)}"


def percent(share: float | None) -> str:
    """A share as a percentage: `12 %`; a dash if it is not known."""
    return "-" if share is None else f"{share:.0%}".replace("%", " %")


def span(low: int, high: int) -> str:
    """A range of integers: `16 to 64`."""
    return str(low) if low == high else f"{low} to {high}"


def size(n_bytes: int | None) -> str:
    """An amount of memory: `3.2 MiB`; a dash if it is not known."""
    return "-" if n_bytes is None else size_text(n_bytes)


def shape(sizes: Sequence[int]) -> str:
    """The shape of an array: 64 x 10."""
    return " x ".join(map(str, sizes)) or "a number"


def reason_line(message: str) -> str:
    """The first line of a trial's error_message, which says why it failed.

    In the bare traceback of an older version, it is the line that names the error.
    """
    lines = [line.strip() for line in message.split("\n") if line.strip()] or [""]
    line = lines[0]
    if line.startswith("Traceback ("):
        line = next((text for text in reversed(lines) if _NAMING.match(text)), lines[-1])
    return line[:_REASON_LETTERS]


def share_of_decay(share: float) -> str:
    """How much an array decays, as a share of the weight decay."""
    return {0.0: "no", 1.0: "yes"}.get(share, f"x {share:g}")


def format_prediction(predicted_s: float) -> str:
    """The prediction of the cost model, as the end of a sentence; empty if there is none."""
    return f"; predicted {seconds(predicted_s)}" if predicted_s else ""


def prediction(predicted: Mapping[str, float]) -> dict[str, str]:
    """The predictions of the cost model for a study."""
    if not predicted["total_s"]:
        return {
            "predicted": "nothing: the cost model covers MLPs and TabMs with hidden layers, but no "
            "linear model or user-defined code; such a model compiles a program per structure, so "
            "fewer structural values compile less"
        }
    total, exact_total = (seconds(predicted[name]) for name in ("total_s", "exact_total_s"))
    unpadded = f"; with one program per structure about {exact_total}"
    return {
        "predicted": f"{seconds(predicted['compile_s'])} compiling and "
        f"{seconds(predicted['train_s'])} training, summed over threads, "
        f"{seconds(predicted['waste_s'])} of it padding",
        "total time": f"about {total} on an idle machine{unpadded if total != exact_total else ''}",
    }
