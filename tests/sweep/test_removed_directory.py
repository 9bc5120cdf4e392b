"""If a directory is removed during the study, the study stops cleanly or creates it again."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import sweeper
from sweeper.errors import SetupError
from sweeper.results.events import Event, RoundClosed
from sweeper.sweep.verify import restore_ledger, verify
from tests.crashes import Study

# what the study cannot do without, and its message if it is missing
REMOVED = {
    ".": "ledger.db: it was removed or replaced while the study ran",
    "ledger.db": "ledger.db: it was removed or replaced while the study ran",
    "checkpoints": "checkpoints.*cannot be written: No such file or directory; it was removed",
    "models": "",
    "metrics": "",
    ".staging": "",
}


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """A study whose directories stay."""
    study = Study(tmp_path_factory.mktemp("unbroken"), "supervised", "padded")
    study.run()
    return study


@pytest.mark.parametrize(
    "name",
    [
        "ledger.db",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in (".", ".staging", "models", "metrics", "checkpoints")
        ),
    ],
)
def test_removed_while_the_study_runs(name: str, unbroken: Study, tmp_path: Path) -> None:
    study = Study(tmp_path / "study", "supervised", "padded")

    def remove(event: Event) -> None:
        path = study.run_dir.root / name
        if isinstance(event, RoundClosed) and event.status.round == 1:
            path.unlink() if path.is_file() else shutil.rmtree(path)

    if REMOVED[name]:
        with pytest.raises(SetupError, match=REMOVED[name]):
            sweeper.run(study.config, observer=remove)
        if name == "ledger.db":
            assert "ends with round 1" in restore_ledger(study.run_dir)
    else:
        assert sweeper.run(study.config, observer=remove).state == "finished"
    study.run()
    assert study.left() == unbroken.left()
    assert verify(study.run_dir).damage == ()
