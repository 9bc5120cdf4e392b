"""What the benchmark shows: searches, the runs of each, and the measurements taken from them."""

from __future__ import annotations

import os
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from bench_peers.problem import Problem
from bench_peers.runs import Ran, Space

NAMES = {
    "cold": "sweeper, empty compile cache",
    "warm": "sweeper, warm compile cache",
    "exact": "sweeper, strategy exact, empty cache",
    "padded": "sweeper, strategy padded, empty cache",
    "process": "sweeper, strategy process, empty cache",
    "hand_written": "hand-written JAX, the same classes",
    "scikit_learn": "scikit-learn, RandomizedSearchCV",
    "torch_joblib": "PyTorch and joblib",
    "ray_tune": "Ray Tune over PyTorch",
    "optuna_equinox": "Optuna and Equinox",
}
FORCED = ("exact", "padded", "process")
SLOW = ("exact", "process")  # these compile one program per structure
WIDE = Problem(24, epochs=5, batch_size=256, depth=(3, 3), width=(512, 512), data="wide.npz")
SPACES = {
    "small": Space(
        "64 trials of 16 structures, digits",
        Problem(64),
        rounds=3,
        once=(*SLOW, "hand_written", "optuna_equinox"),
    ),
    "many": Space("1,024 trials, digits", Problem(1024), rounds=3),
    "integers": Space(
        "500 trials of any width from 16 to 256, digits",
        Problem(500, width=(16, 256), widths="integers"),
        rounds=2,
    ),
    "wide": Space("24 trials of width 512, 20,000 rows", WIDE, rounds=2),
    "one": Space("64 trials of one structure", Problem(64, depth=(2, 2), width=(64, 64)), rounds=3),
    "unlike": Space(
        "48 trials, hardly two alike",
        Problem(48, width=(16, 256), widths="integers"),
        rounds=3,
        once=SLOW,
    ),
    "large": Space("8 trials of width 512, 20,000 rows", replace(WIDE, trials=8), rounds=3),
    "kinds": Space(
        "48 trials of activations and batch sizes",
        Problem(48),
        rounds=3,
        once=SLOW,
        settings=(
            "search.model.activation={type='categorical', choices=['relu', 'tanh', 'gelu']}",
            "search.train.batch_size={type='categorical', choices=[32, 128]}",
        ),
    ),
    "tiny": Space(
        "256 trials of tiny networks, iris",
        Problem(256, epochs=5, batch_size=16, depth=(1, 2), width=(4, 16), widths="integers"),
        rounds=3,
        once=SLOW,
        settings=("data.name=iris",),
    ),
    "ten_thousand": Space(
        "10,000 trials of one epoch, iris",
        Problem(10_000, epochs=1, batch_size=16, depth=(1, 1), width=(4, 8), widths="integers"),
        settings=("data.name=iris",),
    ),
    "tpe": Space(
        "1,000 trials with TPE, digits", Problem(1000), settings=("study.sampler.name=tpe",)
    ),
}

Rounds = list[dict[str, Ran]]  # the results of each round, by run
Measure = Callable[[Rounds], tuple[float, str]]  # a figure, and what it was measured against


def faster(ours: str, *peers: str) -> Measure:
    """How many times faster `ours` is than the fastest of `peers`."""

    def measure(rounds: Rounds) -> tuple[float, str]:
        against = _fastest(rounds, peers)
        return ratio(rounds, against, ours), NAMES[against]

    return measure


def within(*limits: str) -> Measure:
    """How many times as long the project takes as the fastest of `limits`."""

    def measure(rounds: Rounds) -> tuple[float, str]:
        against = _fastest(rounds, limits)
        return ratio(rounds, "cold", against), NAMES[against]

    return measure


def own(figure: Callable[[Ran], float]) -> Measure:
    """A measurement of the project's own run."""
    return lambda rounds: (statistics.median(figure(done["cold"]) for done in rounds), "")


def outside_ms(ran: Ran) -> float:
    """Milliseconds per trial in which no thread was compiling or running compiled code."""
    inside_s = (ran.status["train_s"] + ran.status["compile_s"]) / (os.cpu_count() or 1)
    return 1000 * (ran.wall_s - inside_s) / ran.trials


def asking_percent(ran: Ran) -> float:
    """The share of the wall time in which training waits for the sampler."""
    return 100 * ran.status["spent_s"]["ask"] / ran.wall_s


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the benchmark; `enough` and `goal` are minima, or maxima if `is_most`."""

    key: str
    space: str
    says: str
    runs: tuple[str, ...]
    measure: Measure
    enough: float
    goal: float
    unit: str = "x"
    is_most: bool = False

    def verdict(self, value: float) -> str:
        """How `value` compares with the targets."""
        if self._reaches(value, self.goal):
            return "goal"
        return "enough" if self._reaches(value, self.enough) else "NOT ENOUGH"

    def _reaches(self, value: float, wanted: float) -> bool:
        return value <= wanted if self.is_most else value >= wanted


def _auto(key: str, space: str) -> Line:
    says = f"auto of the best forced strategy, {SPACES[space].title}"
    return Line(key, space, says, ("cold", *FORCED), within(*FORCED), 1.15, 1.05, is_most=True)


QUICK = ("scikit_learn", "torch_joblib", "ray_tune")
LONG = ("scikit_learn", "torch_joblib")
LINES = (
    Line(
        "a",
        "small",
        "64 trials, empty cache, faster than the fastest peer",
        ("cold", *QUICK, *FORCED, "hand_written"),
        faster("cold", *QUICK),
        1.4,
        2,
    ),
    Line(
        "b",
        "small",
        "64 trials, warm cache, faster than the fastest peer",
        ("cold", "warm", *QUICK),
        faster("warm", *QUICK),
        1.8,
        3,
    ),
    Line(
        "c",
        "small",
        "64 trials, empty cache, faster than a jitted step a trial",
        ("cold", "optuna_equinox"),
        faster("cold", "optuna_equinox"),
        13,
        20,
    ),
    Line(
        "d",
        "many",
        "1,024 trials, empty cache, faster than the fastest peer",
        ("cold", *LONG),
        faster("cold", *LONG),
        4.5,
        8,
    ),
    Line(
        "e",
        "many",
        "1,024 trials, empty cache, of the hand-written limit",
        ("cold", "hand_written"),
        within("hand_written"),
        1.25,
        1.1,
        is_most=True,
    ),
    Line(
        "f",
        "integers",
        "500 trials of any width, empty cache, faster than the fastest peer",
        ("cold", *LONG),
        faster("cold", *LONG),
        3,
        5,
    ),
    Line(
        "g",
        "wide",
        "width 512, 20,000 rows, faster than PyTorch",
        ("cold", "torch_joblib"),
        faster("cold", "torch_joblib"),
        1.8,
        2.5,
    ),
    *(
        _auto(f"h{number}", space)
        for number, space in enumerate(("small", "one", "unlike", "large", "kinds", "tiny"), 1)
    ),
    Line(
        "i",
        "ten_thousand",
        "10,000 trials of one epoch, time outside compiled code, a trial",
        ("cold",),
        own(outside_ms),
        3,
        1,
        " ms",
        is_most=True,
    ),
    Line(
        "j",
        "tpe",
        "1,000 trials with TPE, waiting for the sampler, of the wall time",
        ("cold",),
        own(asking_percent),
        10,
        2,
        " %",
        is_most=True,
    ),
    Line(
        "k",
        "many",
        "1,024 trials, peak memory of the process",
        ("cold",),
        own(lambda ran: ran.peak_bytes / 2**30),
        2,
        1,
        " GiB",
        is_most=True,
    ),
)


def _fastest(rounds: Rounds, runs: Sequence[str]) -> str:
    there = [run for run in runs if walls(rounds, run)]
    return min(there, key=lambda run: statistics.median(walls(rounds, run)))


def walls(rounds: Rounds, run: str) -> list[float]:
    """The wall times of a run."""
    return [done[run].wall_s for done in rounds if run in done]


def ratio(rounds: Rounds, over: str, under: str) -> float:
    """The median over rounds of the wall time of one run to that of another."""
    both = [done for done in rounds if over in done and under in done]
    return statistics.median(done[over].wall_s / done[under].wall_s for done in both)
