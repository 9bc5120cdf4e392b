"""A file with a flipped bit, or cut short: refused by name, repaired, or read as written.

Readers and commands raise nothing else. `scripts/flip_bits` runs this at length.
"""

from __future__ import annotations

import contextlib
import json
import random
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict
from functools import cache
from pathlib import Path

import pytest

import sweeper
from sweeper.cli import main
from sweeper.config import StudyConfig, load
from sweeper.data.dataset import Dataset
from sweeper.errors import SweeperError
from sweeper.export.directory import export
from sweeper.ledger import Ledger, check_file
from sweeper.programs.provenance import NoteError, read_note
from sweeper.programs.saved_file import read_saved
from sweeper.results.importance import is_importance, write_importance
from sweeper.results.light import read_light
from sweeper.results.read import Results, open_results
from sweeper.results.schema import importance_schema
from sweeper.results.status import read_status
from sweeper.rundir import RunDir
from sweeper.scheduler.cost import shipped
from sweeper.sweep.planning import costs_of, plan_digests, read_plan
from sweeper.sweep.session.crashes import write_normal_end
from tests.crashes import Study
from tests.digest import deterministic_digest
from tests.in_process import prepared

FEW, MANY = 20, 1000
COSTS = ["execution.costs=costs.json"]
REFUSED = (SweeperError, NoteError)
TIMES = [FEW, pytest.param(MANY, marks=[pytest.mark.slow, pytest.mark.timeout(3600)])]


def damaged(content: bytes, chance: random.Random) -> bytes:
    """`content` with one bit flipped, or cut short."""
    if chance.random() < 0.5:
        return content[: chance.randrange(len(content))]
    changed = bytearray(content)
    changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def table(name: str) -> Callable[[Path], object]:
    """Reads a table of a run directory, from a file of it."""
    return lambda path: getattr(Results, name)(open_results(path.parent))


@cache
def study_and_data(study_file: Path) -> tuple[StudyConfig, Dataset]:
    """A study and its prepared data."""
    config = load(study_file)
    return config, prepared(config)


def plan_in(path: Path) -> object:
    """The forecast in a recorded plan of the study next to it."""
    return read_plan(path, *study_and_data(path.with_name("study.toml")))


# each reader, and whether it must return exactly what it returns for the undamaged file, or None;
# for other tables, `verify` compares them with the ledger
READERS: dict[str, tuple[Callable[[Path], object], bool]] = {
    "ledger.backup.db": (check_file, True),
    "trials.parquet": (table("trials"), False),
    "buckets.parquet": (table("buckets"), False),
    "spans.parquet": (table("spans"), False),
    "status.json": (lambda path: read_status(RunDir(path.parent)), False),
    "preparation.json": (lambda path: read_note(path, None), False),
    "study.toml": (load, False),
    "importance.parquet": (lambda path: read_light(path) if is_importance(path) else None, True),
    "logs/left.json": (lambda path: read_status(RunDir(path.parents[1])), False),
    "costs.json": (lambda path: costs_of(load(path.with_name("study.toml"), COSTS)), False),
    "plan.json": (plan_in, True),
    "model.safetensors": (lambda path: read_saved(path).digest, True),
    "trial.toml": (load, False),
}


def write_others(study: Study) -> None:
    """Write the files that such a small study lacks."""
    run_dir = study.run_dir
    measures = {"importance": 0.5, "fanova": 0.25, "rank_correlation": 0.0, "n_trials_with": 12}
    schema = importance_schema(load(run_dir.study_file))
    write_importance(run_dir, schema, {"val_loss": dict.fromkeys(("lr", "width"), measures)}, 3, 12)
    write_normal_end(run_dir)
    costs = {"model": asdict(shipped("cpu"))}
    (run_dir.root / "costs.json").write_text(json.dumps(costs), encoding="utf-8")
    with closing(Ledger.open(run_dir.ledger)) as ledger:
        forecast = ledger.sessions()[0]["forecast"]
    digests = plan_digests(*study_and_data(run_dir.study_file), forecast)
    plan = {"digests": digests, "forecast": forecast}
    (run_dir.root / "plan.json").write_text(json.dumps(plan), encoding="utf-8")


@pytest.fixture(scope="module")
def exported(ended: Study) -> Path:
    """The directory of a trial's exported model."""
    output = ended.directory / "best"
    export(ended.run_dir.root, None, 0, output)
    return output


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("times", TIMES)
def test_a_reader_refuses_a_damaged_file_or_reads_it(
    times: int, name: str, exported: Path, ended: Study, copied: Callable[[Study], Study]
) -> None:
    study, chance = copied(ended), random.Random(name)
    write_others(study)
    read, is_exact = READERS[name]
    path = study.run_dir.root / name
    path = path if path.exists() else study.directory / exported.name / name
    content, expected = path.read_bytes(), read(path)
    for _ in range(times):
        path.write_bytes(damaged(content, chance))
        with contextlib.suppress(*REFUSED), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a version that the damaged file names
            found = read(path)
            assert not is_exact or found in (None, expected)


@pytest.mark.parametrize("name", ["model.eqx", "preprocess.json"])
@pytest.mark.parametrize("times", TIMES)
def test_load_py_refuses_damaged_files(
    times: int, name: str, exported: Path, tmp_path: Path
) -> None:
    best, chance = tmp_path / "best", random.Random(name)
    shutil.copytree(exported, best)
    content = (best / name).read_bytes()
    code = compile((best / "load.py").read_text(encoding="utf-8"), str(best / "load.py"), "exec")
    for _ in range(times):
        (best / name).write_bytes(damaged(content, chance))
        with pytest.raises(ValueError, match=f"{name} is damaged or was edited: use another"):
            exec(code, {"__name__": "load", "__file__": str(best / "load.py")})


@pytest.mark.parametrize("times", TIMES)
def test_prepared_data_is_read_unchanged_or_refused(times: int, tmp_path: Path) -> None:
    study, chance = Study(tmp_path / "study", "supervised", "process"), random.Random(0)

    data, path = prepared(study.config), tmp_path / "data.npz"
    data.save(path)
    content = path.read_bytes()
    for _ in range(times):
        path.write_bytes(damaged(content, chance))
        with contextlib.suppress(Exception):  # in any case it is prepared again
            assert Dataset.load(path).digest == data.digest


COMMANDS = (
    "status DIR",
    "status DIR --json",
    "trials DIR",
    "show DIR 0",
    "best DIR",
    "verify DIR",
    "trial DIR 0 -o OUT",
    "export DIR --to OUT",
    "report DIR -o OUT",
    "predict MODEL ROWS -o OUT",
    "verify DIR --repair",
)


def of_study(study: Study) -> Iterator[Path]:
    """Every file of a study, and of a model that was exported from it."""
    for place in (study.run_dir.root, study.directory / "best"):
        yield from sorted(path for path in place.rglob("*") if path.is_file())


def code_of(words: list[str], monkeypatch: pytest.MonkeyPatch) -> int:
    """The exit code of a command in this process; everything except refusals is raised."""
    monkeypatch.setattr(sys, "argv", ["sweeper", *words])
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            main.app_for(words)(words, standalone_mode=False)
    except SweeperError as error:
        return error.exit_code
    except SystemExit as left:
        return int(left.code or 0)
    return 0


@pytest.mark.parametrize(
    "times", [6, pytest.param(200, marks=[pytest.mark.slow, pytest.mark.timeout(7200)])]
)
def test_no_command_ends_with_a_traceback_and_a_run_repairs_what_it_can(
    times: int, exported: Path, ended: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert exported.exists()
    chance = random.Random(1)
    rows = "sepal length (cm),sepal width (cm),petal length (cm),petal width (cm)\n1,2,3,4\n"
    (tmp_path / "rows.csv").write_text(rows, encoding="utf-8")
    refused = 0
    for number in range(times):
        study = Study(tmp_path / f"copy-{number}", ended.program, ended.strategy)
        shutil.copytree(ended.directory, study.directory)
        path = chance.choice([*of_study(study)])
        if content := path.read_bytes():
            path.write_bytes(damaged(content, chance))
        for at, command in enumerate(COMMANDS):
            places = {
                "DIR": str(study.run_dir.root),
                "MODEL": str(study.directory / "best"),
                "ROWS": str(tmp_path / "rows.csv"),
                "OUT": str(study.directory / f"out-{at}"),
            }
            words = [places.get(word, word) for word in command.split()]
            assert code_of(words, monkeypatch) in (0, 1, 2, 3), (path, command)
        try:
            sweeper.run(study.config)
        except SweeperError as error:
            refused += 1
            assert path.name in str(error)
        else:
            assert deterministic_digest(study.run_dir) == deterministic_digest(ended.run_dir)
        shutil.rmtree(study.directory)
    assert refused < times / 2


def test_commands_on_an_undamaged_study_succeed(
    exported: Path, ended: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert exported.exists()
    for command in ("status DIR", "trials DIR", "best DIR", "verify DIR"):
        words = [str(ended.run_dir.root) if word == "DIR" else word for word in command.split()]
        assert code_of(words, monkeypatch) == 0
