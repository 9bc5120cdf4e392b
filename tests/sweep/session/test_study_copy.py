"""`study.toml` in a run directory has everything that the study was run with."""

from __future__ import annotations

from itertools import takewhile
from pathlib import Path

from sweeper.config import load
from sweeper.rundir import RunDir
from sweeper.sweep.session.study_copy import OVERRIDE, copy_study
from tests.in_process import study_in
from tests.small_studies import DIGITS


def test_settings_of_the_command_line_are_written_as_they_can_be_given_again(
    tmp_path: Path,
) -> None:
    given = (
        "search.optimizer.lr.high=1e-3",
        "study.sampler={name='random'}",
        "study.name=mine",
        "study.pruner=\n{name='none'}",
        "search.train.batch_size={type='categorical',choices=[16,\n 32]}",
    )
    config = study_in(tmp_path, DIGITS, *given)
    run_dir = RunDir(config.run_dir)
    run_dir.make()
    copy_study(run_dir, config)

    lines = run_dir.study_file.read_text(encoding="utf-8").splitlines()
    written = [one.removeprefix(OVERRIDE) for one in takewhile(_is_override, lines)]
    assert written[1:] == [
        "search.optimizer.lr.high=0.001",
        'study.sampler={ name = "random" }',
        'study.name="mine"',
        'study.pruner={ name = "none" }',
        'search.train.batch_size={ type = "categorical", choices = [16, 32] }',
    ]
    assert load(run_dir.study_file, written).canonical() == config.canonical()


def _is_override(line: str) -> bool:
    return line.startswith(OVERRIDE)
