"""Runs in Weights & Biases: one for the study, and one for each trial in the same group.

Their ids follow from the key of the study. Offline, nothing can be asked of W&B, so what was logged
is remembered in the run directory.
"""

# pyright: reportMissingImports=false
# its library comes with an extra

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import wandb
from wandb.errors import Error as WandbError

from sweeper.errors import Problem, SetupError
from sweeper.trackers.memory import TrackerLog
from sweeper.trackers.tracker import Logged, Point, StudyRecord, TrialRecord, explain_errors

_HINT = "check --project, --uri and `wandb login`, or set WANDB_MODE=offline"
_explain_errors = partial(explain_errors, WandbError, "W&B", _HINT)


class WandbTracker:
    """Runs in a project of W&B, `[ENTITY/]NAME`; `uri` is the server, by default that of W&B.

    The key and the mode (`WANDB_MODE`) are W&B's own settings.
    """

    def __init__(self, uri: str | None, project: str, memory: TrackerLog) -> None:
        self._entity, _, self._project = project.rpartition("/")
        given = {} if uri is None else {"base_url": uri}
        try:
            # nothing of this process is logged: it only reads results
            self._settings = wandb.Settings(
                silent=True,
                console="off",
                disable_git=True,
                disable_code=True,
                x_disable_stats=True,
                x_disable_meta=True,
                x_save_requirements=False,
                **given,
            )
            mode = wandb.setup().settings.mode
        except (WandbError, ValueError) as error:
            found = f"not a setting of W&B: {' '.join(str(error).split())}"
            hint = "check --uri and the environment variables of W&B"
            raise SetupError(Problem("W&B", "", found, hint)) from error
        if mode == "disabled":
            found, hint = "WANDB_MODE is disabled, so nothing would be logged", "unset it"
            raise SetupError(Problem("W&B", "", found, hint))
        self._mode = mode
        place = "offline" if mode == "offline" else uri or wandb.setup().settings.base_url
        self._memory, self._place = memory, f"wandb {place} {project}"
        self._logged = Logged()
        self._parent: wandb.Run | None = None
        self._key = self._group = ""

    def start(self, study: StudyRecord) -> Logged:
        """Open the run of the study; returns what was logged according to the run directory."""
        self._key, self._group = study.key, f"{study.name}-{study.key}"
        self._logged = self._memory.of(self._place)
        config = {"settings": study.settings, "search_space": study.space}
        with _explain_errors():
            self._parent = self._open(study.key, study.name, "study", config)
        return self._logged

    def log_points(self, points: Sequence[Point]) -> None:
        """Add the values of trials to the history of the study's run."""
        if not points:
            return
        assert self._parent is not None, "it was started"
        with _explain_errors():
            for point in points:
                self._parent.log(point.values, step=point.step)
        self._remember(Logged(points[-1].step, self._logged.trials))

    def log_trial(self, trial: TrialRecord) -> None:
        """Make the run of a trial, with a step for each epoch."""
        epochs = sorted({epoch for curve in trial.curves.values() for epoch in curve})
        with _explain_errors():
            name = f"trial {trial.number}"
            run = self._open(f"{self._key}-{trial.number}", name, "trial", trial.params)
            try:
                for epoch in epochs:
                    found = {m: curve[epoch] for m, curve in trial.curves.items() if epoch in curve}
                    run.log({"epoch": epoch, **found}, step=epoch)
                said = {"trial_number": trial.number, "state": trial.state}
                run.summary.update({**said, **trial.numbers, **trial.texts})
            finally:
                run.finish(exit_code=int(trial.state == "FAIL"))
        self._remember(Logged(self._logged.points, self._logged.trials | {trial.number}))

    def finish(self, study: StudyRecord, files: Mapping[str, Path]) -> str:
        """Update the outcome in the study's run, and keep the files as one artifact."""
        run = self._parent
        assert run is not None, "it was started"
        artifact = wandb.Artifact(f"results-{study.key}", type="results")
        with _explain_errors():
            run.summary.update({**study.numbers, **study.texts})
            for name, path in files.items():
                inside = sorted(path.iterdir()) if path.is_dir() else [path]
                for file in inside:
                    artifact.add_file(str(file), name if file is path else f"{name}/{file.name}")
            run.log_artifact(artifact)
        if self._mode == "offline":
            at = Path(run.dir).parent.parent
            return f"{at}, offline: send it with `wandb sync {at}/offline-run-*{study.key}*`"
        return str(run.url)

    def close(self) -> None:
        """End the run of the study, which sends what is left."""
        if self._parent is not None:
            with _explain_errors():
                self._parent.finish()

    def _open(self, key: str, name: str, kind: str, config: Mapping[str, Any]) -> wandb.Run:
        run = wandb.init(
            entity=self._entity or None,
            project=self._project,
            id=key,
            name=name,
            group=self._group,
            job_type=kind,
            resume="allow",
            reinit="create_new",
            settings=self._settings,
        )
        run.config.update(json.loads(json.dumps(config)), allow_val_change=True)
        return run

    def _remember(self, logged: Logged) -> None:
        self._logged = logged
        self._memory.keep(self._place, logged)
