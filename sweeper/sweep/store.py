"""The files next to the ledger: checkpoints of live lanes, weights of the best trials."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import equinox as eqx

from sweeper.config import StudyConfig
from sweeper.data.dataset import Dataset
from sweeper.errors import Problem, SetupError
from sweeper.faults import Step, fault_points
from sweeper.files import holds, remove_inside, replacing
from sweeper.programs.build import Programs
from sweeper.programs.checkpoint import CheckpointError, LaneFile
from sweeper.programs.data_spec import DataSpec
from sweeper.programs.program import at_its_best, judged_state, only_model, whole
from sweeper.programs.provenance import WHOSE, note_of, whose
from sweeper.programs.saved_file import content_of, tensors_of
from sweeper.rundir import RunDir
from sweeper.trial import Reason, TrialSpec


@dataclass(frozen=True, slots=True)
class RunStore:
    """The checkpoints and models in a run directory."""

    run_dir: RunDir
    config: StudyConfig
    programs: Programs
    data_digest: str

    def keep_model(
        self, spec: TrialSpec, checkpoint: str, digest: str, row: Mapping[str, Any]
    ) -> None:
        """Write the models of a trial as serialised Equinox leaves, and as saved models.

        They come from the `checkpoint` of its last round; `row` is its final row. There is one per
        member; the first is the one that readers are pointed to.

        Raises:
            SetupError: the state does not fit the model that the trial's settings now build.
        """
        settings = self.config.settings_of(spec.params)
        program = self.programs.exact(settings)
        path = self.run_dir.checkpoints / checkpoint
        kept = at_its_best if settings.saves else only_model
        # a trial that is stopped by its value might have gone on
        written = whole if row["reason"] == Reason.STOPPED else kept
        like = written(program.layout.abstract())
        try:
            file = LaneFile(path, digest)
            states = [kept(file.lane(spec.number, like, member)) for member in self._members]
        except CheckpointError as error:
            hint = "let model.function build the same network in every call"
            raise SetupError(Problem(str(path), "", str(error), hint)) from error
        for member, state in zip(self._members, states, strict=True):
            model = self.run_dir.model(spec.number, member)
            with replacing(model, self.run_dir.staging) as staged:
                eqx.tree_serialise_leaves(staged, program.saver.model(judged_state(state)))
            saved = self.run_dir.saved(spec.number, member)
            owner = whose(row, member, self.data_digest)
            record = {"has_optimizer": settings.saves, WHOSE: owner}
            content = content_of(tensors_of(program, settings, state), record)
            with replacing(saved, self.run_dir.staging) as staged:
                staged.write_bytes(content)

    def note_preparation(self, data: Dataset, spec: DataSpec) -> None:
        """Write what a model needs to know about its data, unless the file is up to date."""
        text = note_of(data, spec)
        if holds(self.run_dir.preparation, text.encode()):
            return
        with (
            fault_points(Step.NOTE_PREPARATION),
            replacing(self.run_dir.preparation, self.run_dir.staging) as staged,
        ):
            staged.write_text(text, encoding="utf-8")

    def tidy(self, checkpoints: set[str], models: set[int]) -> None:
        """Remove every checkpoint and model that is not named; other files are kept."""
        kept = {
            path(number, member).name
            for number in models
            for member in self._members
            for path in (self.run_dir.model, self.run_dir.saved)
        }
        self._keep_only(self.run_dir.own_checkpoints(), checkpoints)
        self._keep_only(self.run_dir.own_models(), kept)

    def _keep_only(self, files: Iterable[Path], names: set[str]) -> None:
        for path in files:
            if path.name not in names:
                remove_inside(self.run_dir.root, path)

    @property
    def _members(self) -> range:
        return range(len(self.config.members))
