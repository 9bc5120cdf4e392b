"""View 7: the values over each parameter, and whether the best are at the end of its range."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from sweeper.dashboard.blocks import (
    Block,
    Option,
    axis,
    categories,
    chart,
    choice,
    grid,
    note,
    ring,
    upright,
)
from sweeper.dashboard.trials import PublishedTrials
from sweeper.dashboard.views.scales import (
    AT_THE_EDGE,
    by_state,
    choices_of,
    ends_if_equal,
    is_log,
    steps,
    wants_log,
)
from sweeper.results import formatting

_AT_ONCE = 9
_SMALL = 240
_BEST_SHARE = 0.1
_LEAST_BEST, _MOST_BEST = 5, 1000
_NEAR = 0.05  # as a share of the drawn range
# what sweeper's own settings cannot be lower than, if it is a value that they may have
LEAST = {
    **dict.fromkeys(("depth", "dropout", "weight_decay", "warmup", "start", "end", "b1", "b2"), 0),
    **dict.fromkeys(("momentum", "decay_rate", "ema", "min_delta", "gradient_penalty"), 0),
    **dict.fromkeys(("flat", "label_smoothing"), 0),
    **dict.fromkeys(("width", "out_size", "min_dim_size_to_factor", "patience"), 1),
    **dict.fromkeys(("epochs", "batch_size", "critic_steps"), 1),
    **dict.fromkeys(("n_bins", "n_frequencies", "embedding_size", "ensemble_size"), 1),
}
# and what they cannot be higher than, without bounds that only exclude absurd values
GREATEST = {
    **dict.fromkeys(("start", "end"), 1),
    **dict.fromkeys(("depth", "ensemble_size"), 1000),
    **dict.fromkeys(("n_bins", "n_frequencies", "embedding_size"), 1024),
}


def slices_view(trials: PublishedTrials, parameters: Sequence[str]) -> list[Block]:
    """One small chart per parameter for the first objective, on several pages if there are many."""
    if not parameters:
        return [note("The study searches no parameter.")]
    pages = [parameters[at : at + _AT_ONCE] for at in range(0, len(parameters), _AT_ONCE)]
    hints = bound_hints(trials, parameters)
    alternatives = [
        (_page_name(trials, page), [grid([_chart(trials, name) for name in page])])
        for page in pages
    ]
    return [
        *(note(hint, is_warning=True) for hint in hints),
        *([note(AT_THE_EDGE)] if trials.diverged.any() else []),
        choice("parameters", alternatives),
    ]


def bound_hints(trials: PublishedTrials, parameters: Iterable[str]) -> list[str]:
    """The hints of `bound_hint` for these parameters."""
    return [hint for name in parameters if (hint := bound_hint(trials, name))]


def bound_hint(trials: PublishedTrials, name: str) -> str | None:
    """A hint if most of the best trials are at an end of a parameter's range."""
    entry = trials.parameters[name]
    low, high = entry.get("low"), entry.get("high")
    complete = int(trials.are("COMPLETE").sum())
    n_best = max(_LEAST_BEST, round(_BEST_SHARE * complete))
    if len(trials.objectives) > 1:  # ranking by fronts takes long
        n_best = min(_MOST_BEST, n_best)
    best = trials.best(n_best)
    if low is None or high is None or low >= high or complete < 4 * _LEAST_BEST:
        return None
    values = trials.numbers(name)[best]
    values = values[(values >= low) & (values <= high)]  # without extra values next to the range
    if len(values) < _LEAST_BEST:
        return None
    place = _places(entry, values)
    title = trials.title(name)
    for end, near in (("lower", place <= _NEAR), ("upper", place >= 1 - _NEAR)):
        share = near.mean()
        # an end of an integer range holds its share of the range anyway
        bound = low if end == "lower" else high
        is_limit = bound == _limit(trials, trials.keys.get(name, ""), end)
        if share > 0.5 and share > 2 * _share_of_end(entry) and not is_limit:
            return (
                f"{title}: {int(near.sum())} of the {len(values)} best trials are at the {end} end "
                f"of the range, {formatting.number(bound)}; a wider range may contain better ones."
            )
    return None


def _limit(trials: PublishedTrials, key: str, end: str) -> float | None:
    """The value that the setting `key` cannot be below or above; None if there is none."""
    *tables, setting = key.split(".")
    if end == "upper":
        return GREATEST.get(setting)
    own: Any = trials.said.get("settings", {})
    for table in tables:
        own = own.get(table, {}) if isinstance(own, Mapping) else {}
    is_tabm = isinstance(own, Mapping) and own.get("kind") == "tabm"
    return 1 if is_tabm and setting == "depth" else LEAST.get(setting)


def _places(entry: Mapping[str, Any], values: np.ndarray) -> np.ndarray:
    """The positions of values in their range, from 0 to 1, as the sampler sees it."""
    low, high = float(entry["low"]), float(entry["high"])
    if is_log(entry, np.array([low, high, *values])):
        return np.log(values / low) / np.log(high / low)
    return (values - low) / (high - low)


def _share_of_end(entry: Mapping[str, Any]) -> float:
    """The share of the range that an end of it covers."""
    if entry.get("type") != "int":
        return _NEAR
    if entry.get("base"):
        return 1 / (np.log2(entry["high"] / entry["low"]) + 1)
    return max(_NEAR, entry.get("step", 1) / (entry["high"] - entry["low"] + 1))


def _page_name(trials: PublishedTrials, page: Sequence[str]) -> str:
    first, last = trials.title(page[0]), trials.title(page[-1])
    return first if len(page) == 1 else f"{first} to {last}"


def _chart(trials: PublishedTrials, name: str) -> Block:
    title, entry = trials.title(name), trials.parameters[name]
    metric = trials.metrics[0]
    texts = choices_of(trials, name)
    values = trials.numbers("value")
    log = wants_log(values)
    option: Option = {
        "legend": {},
        # next to the first points, whose rings would cover the axis labels
        "yAxis": upright(axis(metric, None, log=log, offset=8, **ends_if_equal(values))),
        "series": [
            *by_state(trials, (name, "value"), log=log),
            ring((name, "value")),
        ],
    }
    if texts is not None:
        option["xAxis"] = categories(title, texts)
    else:
        x_log = is_log(entry, trials.numbers(name))
        ends = {key: entry[end] for key, end in (("min", "low"), ("max", "high")) if end in entry}
        # there may be values next to the range
        option["xAxis"] = axis(
            title, log=x_log, **steps(entry), **({} if entry.get("or") else ends)
        )
    return chart(f"{metric} over {title}", option, _SMALL)
