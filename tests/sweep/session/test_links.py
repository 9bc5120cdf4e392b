"""A link inside a run directory is refused or does no harm: its target never changes."""

from __future__ import annotations

import contextlib
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import sweeper
from sweeper.cli.commands.arguments import find_run
from sweeper.dashboard.study import PublishedStudy
from sweeper.errors import SetupError, SweeperError
from sweeper.files import make_directory, move_inside, open_inside, remove_inside, replacing
from sweeper.results.events import Event, RoundClosed
from sweeper.rundir import RunDir
from sweeper.sweep import verify
from tests.crashes import Study

LINK = "it is a link, and sweeper follows no link inside a run directory"
DIRECTORIES = (".staging", "metrics", "checkpoints", "models", "logs", "refit", "confirm")
INNER = (
    "metrics/part-000000-000000.parquet",
    "metrics/mine",
    "models/trial-000001.eqx",
    "models/trial-000001.safetensors",
    "checkpoints/r000001-b0000-t000000.safetensors",
    "logs/sweeper.log",
    "logs/worker-0.log",
    "logs/left.json",
    "refit/1",
)
NAMES = (*(path.name for path in RunDir(Path()).names()), *INNER)


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A directory that contains a file of the user under each name of a run directory."""
    directory = tmp_path / "outside"
    for name in NAMES:
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name in DIRECTORIES:
            path.mkdir(exist_ok=True)
            for inner in ("part-000000-000000.parquet", "trial-000001.eqx", "data.npz", "mine"):
                (path / inner).write_text("mine", encoding="utf-8")
            (path / "data").mkdir(exist_ok=True)
            (path / "data" / "mine").write_text("mine", encoding="utf-8")
        elif not path.is_dir():
            path.write_text("mine", encoding="utf-8")
    return directory


def contents(directory: Path) -> dict[str, bytes | None]:
    """Everything below a directory, by name; None for directories."""
    every = sorted(directory.rglob("*"))
    return {str(path): path.read_bytes() if path.is_file() else None for path in every}


def linked(study: Study, name: str, outside: Path) -> Path:
    """Replace `name` by a link to a file of the user."""
    path = study.run_dir.root / name
    path.parent.mkdir(exist_ok=True)
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    path.symlink_to(outside / name)
    return path


@pytest.mark.parametrize("name", NAMES)
def test_a_link_is_refused_by_every_command(
    name: str, ended: Study, copied: Callable[[Study], Study], outside: Path
) -> None:
    study = copied(ended)
    path, before = linked(study, name, outside), contents(outside)
    assert f"{name}: {LINK}" in [
        f"{damage.file}: {damage.found}" for damage in verify.verify(study.run_dir).damage
    ]
    acts: tuple[Callable[[], object], ...] = (
        study.run,
        lambda: verify.repair(study.run_dir),
        lambda: verify.restore_ledger(study.run_dir),
        lambda: sweeper.open_results(study.run_dir.root),
        lambda: PublishedStudy(study.run_dir),
        lambda: find_run(study.run_dir.root),
    )
    for act in acts:
        with pytest.raises(SetupError) as refused:
            act()
        assert f"{path}: {LINK}; remove or rename it, then try again" in str(refused.value)
    assert path.is_symlink()
    assert contents(outside) == before


def test_links_in_staging_are_removed_but_not_their_targets(
    halfway: Study, ended: Study, copied: Callable[[Study], Study], outside: Path
) -> None:
    study = copied(halfway)
    before = contents(outside)
    mine = study.run_dir.staging / "mine"
    for name in ("new-abc_123", "data", "data.npz", "trials.parquet", mine.name):
        (study.run_dir.staging / name).symlink_to(outside)
    study.run()
    assert [*study.run_dir.staging.iterdir()] == [mine]
    mine.unlink()
    assert contents(outside) == before
    assert study.left() == ended.left()


def test_a_run_directory_can_be_a_link_and_other_links_stay(
    ended: Study, halfway: Study, copied: Callable[[Study], Study], tmp_path: Path, outside: Path
) -> None:
    study = copied(halfway)
    elsewhere = tmp_path / "scratch" / "models"
    elsewhere.parent.mkdir()
    study.run_dir.root.rename(elsewhere)
    study.run_dir.root.symlink_to(elsewhere)
    mine = study.run_dir.root / "my data"
    mine.symlink_to(outside)
    study.run()
    assert verify.verify(study.run_dir).damage == ()
    mine.unlink()
    assert study.left() == ended.left()


@pytest.mark.parametrize(
    ("name", "strategy"),
    [
        *((name, "padded") for name in (".staging", "models", "trials.parquet")),
        *(
            pytest.param(name, strategy, marks=pytest.mark.slow)
            for name in (*DIRECTORIES[:5], "status.json", "stop")
            for strategy in ("padded", "process")
        ),
    ],
)
def test_a_link_created_during_the_study_does_not_change_its_target(
    name: str, strategy: str, outside: Path, tmp_path: Path
) -> None:
    study = Study(tmp_path / "study", "supervised", strategy)
    before = contents(outside)

    def swap(event: Event) -> None:
        if isinstance(event, RoundClosed) and event.status.round == 1:
            linked(study, name, outside)

    with contextlib.suppress(SweeperError):
        sweeper.run(study.config, observer=swap)
    assert contents(outside) == before


@pytest.fixture
def swapping(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """A root whose directory `models` is sometimes a link to another directory."""
    root, outside = tmp_path / "root", tmp_path / "outside"
    for path in (root / "models", root / ".staging", outside):
        path.mkdir(parents=True)
    (outside / "mine").write_text("mine", encoding="utf-8")
    (root / "link").symlink_to(outside)
    done = threading.Event()

    def swap() -> None:
        steps = (("models", "aside"), ("link", "models"), ("models", "link"), ("aside", "models"))
        while not done.wait(0.0005):
            for old, new in steps:
                with contextlib.suppress(OSError):  # meanwhile a directory was created there
                    (root / old).rename(root / new)

    thread = threading.Thread(target=swap)
    thread.start()
    yield root, outside
    done.set()
    thread.join()


def test_no_race_changes_files_outside(swapping: tuple[Path, Path]) -> None:
    root, outside = swapping
    place = root / "models" / "mine"
    refused = 0
    for _ in range(300):
        try:
            with open_inside(root, place, "wb") as file:
                file.write(b"ours")
            with replacing(place, root / ".staging") as staged:
                staged.write_bytes(b"ours")
            remove_inside(root, place)
        except OSError:
            refused += 1
    assert contents(outside) == {str(outside / "mine"): b"mine"}
    assert refused < 300


def test_refused_links_are_named(tmp_path: Path) -> None:
    outside, root = tmp_path / "outside", tmp_path / "root"
    outside.mkdir()
    root.mkdir()
    (root / "models").symlink_to(outside)
    (root / "file").symlink_to(outside / "file")
    (root / "new").touch()
    for act, named in (
        (lambda: open_inside(root, root / "file", "w"), "file"),
        (lambda: open_inside(root, root / "models" / "x", "w"), "models"),
        (lambda: remove_inside(root, root / "models" / "x"), "models"),
        (lambda: move_inside(root, root / "new", root / "models" / "x"), "models"),
        (lambda: make_directory(root / "models"), "models"),
    ):
        with pytest.raises(OSError, match=LINK) as refused:
            act()
        assert refused.value.filename == str(root / named)
    assert [*outside.iterdir()] == []
    remove_inside(root, root / "file")
    assert not (root / "file").is_symlink()
