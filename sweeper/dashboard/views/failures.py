"""View 9: why trials ended early, with error messages and parameters of failed ones."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np

from sweeper.dashboard.blocks import Block, details_cell, note, rows, trials_cell
from sweeper.dashboard.trials import PublishedTrials
from sweeper.results import formatting

_MESSAGES = 50
_TRIALS = 12
_LETTERS = 3000


def failures_view(trials: PublishedTrials) -> list[Block]:
    """A table of reasons, and one of error messages."""
    reasons, codes = trials.texts("reason")
    if not (codes >= 0).any():
        return [note(f"None: all {len(trials)} trials trained to their end.")]
    states, state_codes = trials.texts("state")
    epochs, numbers = trials.numbers("epochs_done"), trials.numbers("trial_number")
    records: list[list[Any]] = []
    for code, reason in enumerate(reasons):
        for state_code, state in enumerate(states):
            mine = (codes == code) & (state_codes == state_code)
            if mine.any():
                share = formatting.percent(mine.sum() / len(trials))
                first = numbers[mine][:_TRIALS].astype(int).tolist()
                middle = float(np.median(epochs[mine]))
                records.append([reason, state, int(mine.sum()), share, middle, trials_cell(first)])
    records.sort(key=lambda record: -record[2])
    headings = ["reason", "state", "trials", "share of all", "median epochs", "first trials"]
    return [rows("why trials ended early", headings, records), *_messages(trials)]


def _shortened(message: str) -> str:
    """The lines of user code at the beginning of a long message, and the end of the traceback."""
    if len(message) <= 2 * _LETTERS:
        return message
    return f"{message[:_LETTERS]}\n...\n{message[-_LETTERS:]}"


def _messages(trials: PublishedTrials) -> list[Block]:
    """The error messages, the most frequent first."""
    messages, codes = trials.texts("error_message")
    if not (codes >= 0).any():
        return []
    groups: dict[tuple[str, str], list[int]] = defaultdict(list)
    types, type_codes = trials.texts("error_type")
    for place in np.flatnonzero(codes >= 0).tolist():
        kind = types[type_codes[place]] if type_codes[place] >= 0 else ""
        groups[kind, formatting.reason_line(messages[codes[place]])].append(place)
    ordered = sorted(groups.items(), key=lambda item: -len(item[1]))
    records = [
        [
            len(places),
            kind,
            details_cell(said, _shortened(messages[codes[places[0]]])),
            formatting.settings(trials.params(places[0])),
            trials_cell([int(trials.numbers("trial_number")[at]) for at in places[:_TRIALS]]),
        ]
        for (kind, said), places in ordered[:_MESSAGES]
    ]
    left = len(ordered) - len(records)
    caption = "messages" + (f", the {len(records)} most frequent of {len(ordered)}" if left else "")
    return [
        rows(
            caption,
            ["trials", "error", "message", "parameters of the first", "first trials"],
            records,
        )
    ]
