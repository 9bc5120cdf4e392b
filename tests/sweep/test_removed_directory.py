"""If a directory is removed or replaced during the study, the study stops or creates it again."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import sweeper
from sweeper.errors import LedgerError, SetupError
from sweeper.results.events import Event, RoundClosed, RoundStarted
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


@pytest.mark.parametrize("moment", [RoundStarted, RoundClosed])
def test_a_study_that_was_put_in_its_place_is_left_as_it_is(
    moment: type[Event], unbroken: Study, tmp_path: Path
) -> None:
    study = Study(tmp_path / "study", "supervised", "padded")
    root, rounds = study.run_dir.root, 0

    def swap(event: Event) -> None:
        nonlocal rounds
        rounds += isinstance(event, RoundStarted)
        if isinstance(event, moment) and rounds == 2 and not (tmp_path / "old").exists():
            root.rename(tmp_path / "old")
            shutil.copytree(unbroken.run_dir.root, root)

    with pytest.raises(LedgerError, match="it was removed or replaced while the study ran"):
        sweeper.run(study.config, observer=swap)
    assert _files(root) == _files(unbroken.run_dir.root)


def _files(root: Path) -> dict[str, bytes]:
    """The content of each file of a run directory, by path.

    Without checkpoints: those of the round in training may be written before anything is checked.
    """
    paths = (path for path in root.rglob("*") if path.is_file() and path.suffix != ".lock")
    names = {str(path.relative_to(root)): path.read_bytes() for path in paths}
    return {name: found for name, found in names.items() if not name.startswith("checkpoints")}
