"""Event files for TensorBoard: a directory for the study, and in it one for each trial.

A file is complete as soon as it has its name, which says what it contains. Values are float32,
since TensorBoard reads no others.
"""

# pyright: reportMissingImports=false
# its library comes with an extra

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.hparams import api_pb2, metadata, plugin_data_pb2, summary_v2
from tensorboard.plugins.scalar.summary_v2 import scalar_pb
from tensorboard.plugins.text.summary_v2 import text_pb
from tensorboard.summary.writer.record_writer import RecordWriter

from sweeper.errors import Problem, SetupError
from sweeper.trackers.tracker import (
    Logged,
    Point,
    StudyRecord,
    TrialRecord,
    by_dotted_key,
    value_text,
)

_VERSION = "brain.Event:2"  # the first event of each file
_NAME = "events.out.tfevents.{:010d}.sweeper-{}"
_POINTS = re.compile(r"events\.out\.tfevents\.\d+\.sweeper-points-(\d+)")
_STATES = {
    "COMPLETE": api_pb2.STATUS_SUCCESS,
    "PRUNED": api_pb2.STATUS_SUCCESS,
    "FAIL": api_pb2.STATUS_FAILURE,
}


class TensorBoardTracker:
    """Event files in `logdir`, below a directory named after the project and the study's key."""

    def __init__(self, logdir: Path, project: str) -> None:
        self._logdir, self._project = logdir, project
        self._root = logdir

    def start(self, study: StudyRecord) -> Logged:
        """Make the study's directory; returns what it has."""
        self._root = self._logdir / f"{self._project}-{study.key[:6]}"
        try:
            self._root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            found = f"the directory cannot be made: {error.strerror}"
            raise SetupError(
                Problem(str(self._root), "--uri", found, "name another one")
            ) from error
        self._write_study(study)
        names = (path.name for path in self._root.iterdir())
        points = (int(found[1]) for name in names if (found := _POINTS.fullmatch(name)))
        trials = (path.parent.name for path in self._root.glob("trial-*/events.out.tfevents.*"))
        numbers = frozenset(int(name.removeprefix("trial-")) for name in trials)
        return Logged(max(points, default=0), numbers)

    def log_points(self, points: Sequence[Point]) -> None:
        """Add the values of trials in a file of their own."""
        if not points:
            return
        events = (
            _event(point.time, scalar_pb(name, value), point.step)
            for point in points
            for name, value in point.values.items()
        )
        name = _NAME.format(points[0].step, f"points-{points[-1].step}")
        self._write(self._root / name, points[0].time, events)

    def log_trial(self, trial: TrialRecord) -> None:
        """Write the file of a trial."""
        directory = self._root / f"trial-{trial.number:06d}"
        directory.mkdir(exist_ok=True)
        path = directory / _NAME.format(int(trial.began_at), "trial")
        self._write(path, trial.began_at, _events(trial))

    def finish(self, study: StudyRecord, files: Mapping[str, Path]) -> str:
        """Update the text about the study; TensorBoard keeps no files."""
        self._write_study(study)
        return f"{self._root}; view it with `tensorboard --logdir {self._logdir}`"

    def close(self) -> None:
        """No file is open between two calls."""

    def _write_study(self, study: StudyRecord) -> None:
        """Write the search space for the tab HPARAMS, and settings and outcome as a text."""
        hparams = [summary_v2.HParam(name, _domain(entry)) for name, entry in study.space.items()]
        columns = ["value", *(f"value_{index}" for index in range(1, len(study.metrics)))]
        metrics = [
            summary_v2.Metric(column, display_name=metric)
            for column, metric in zip(columns, study.metrics, strict=True)
        ]
        metrics.append(summary_v2.Metric("best_value", display_name=f"best {study.metrics[0]}"))
        config = summary_v2.hparams_config_pb(hparams, metrics, study.began_at)
        said = {**study.texts, **study.numbers, **by_dotted_key(study.settings)}
        rows = (f"| {name} | {_cell(value)} |" for name, value in said.items())
        text = text_pb("study", "\n".join(("| | |", "| --- | --- |", *rows)))
        at = study.updated_at
        events = (_event(at, config), _event(at, text))
        self._write(self._root / _NAME.format(0, "study"), at, events)

    def _write(self, path: Path, time: float, events: Iterable[Event]) -> None:
        staged = path.with_name(f".new-{path.name.replace('tfevents', '')}")
        with staged.open("wb") as file:
            writer = RecordWriter(file)
            writer.write(Event(wall_time=time, file_version=_VERSION).SerializeToString())
            for event in events:
                writer.write(event.SerializeToString())
        staged.replace(path)


def _events(trial: TrialRecord) -> Iterator[Event]:
    """What TensorBoard shows of a trial, between the start and the end of its session."""
    began, ended, name = trial.began_at, trial.ended_at, f"trial {trial.number}"
    yield _event(began, summary_v2.hparams_pb(dict(trial.params), name, began))
    for metric, curve in trial.curves.items():
        for epoch, value in curve.items():
            yield _event(ended, scalar_pb(metric, value), epoch)
    last = max((max(curve, default=0) for curve in trial.curves.values()), default=0)
    for column, value in trial.numbers.items():
        yield _event(ended, scalar_pb(column, value), last)
    text = "\n".join(
        f"- {it}: {said}" for it, said in {"state": trial.state, **trial.texts}.items()
    )
    yield _event(ended, text_pb("outcome", text), last)
    info = plugin_data_pb2.SessionEndInfo(status=_STATES[trial.state], end_time_secs=ended)
    plugin = metadata.create_summary_metadata(
        plugin_data_pb2.HParamsPluginData(session_end_info=info)
    )
    end = Summary()
    end.value.add(tag=metadata.SESSION_END_INFO_TAG, metadata=plugin, tensor=metadata.NULL_TENSOR)
    yield _event(ended, end)


def _event(time: float, summary: Any, step: int = 0) -> Event:
    # the two classes of the message differ by where they were generated
    return Event(wall_time=time, step=step, summary=Summary.FromString(summary.SerializeToString()))


def _domain(entry: Mapping[str, Any]) -> summary_v2.Domain | None:
    """The domain of a search entry, if TensorBoard has it: one range, or choices of one type."""
    if entry.get("type") in ("int", "float") and not entry.get("or"):
        return summary_v2.RealInterval(float(entry["low"]), float(entry["high"]))
    choices = entry.get("choices", ())
    if choices and len({type(choice) for choice in choices}) == 1:
        return summary_v2.Discrete(choices) if type(choices[0]) in (int, float, bool, str) else None
    return None


def _cell(value: Any) -> str:
    return value_text(value).replace("|", "\\|").replace("\n", " ")
