"""A study of an earlier version can be resumed; one of a later version is refused."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

import sweeper
from sweeper.errors import LedgerError, SetupError
from sweeper.ledger import Ledger
from sweeper.ledger.digests import digest_of
from sweeper.ledger.migration import MIGRATIONS
from sweeper.ledger.schema import SCHEMA_VERSION
from sweeper.results.schema import METADATA_KEY
from sweeper.rundir import RunDir
from sweeper.sweep.verify import verify
from tests.processes import ROOT

GOLDEN = ROOT / "tests" / "golden"
VERSIONS = tuple(range(1, SCHEMA_VERSION + 1))

# the results of the code that made them, unbroken; all trials were drawn before it was killed
ENDED = {
    0: ("COMPLETE", '{"width": 4, "lr": 0.0018834787771768629}', 1.145960807800293),
    1: ("COMPLETE", '{"width": 4, "lr": 0.005093054598528702}', 0.9656416177749634),
    2: ("COMPLETE", '{"width": 4, "lr": 0.0844257420740904}', 0.21394884586334229),
    3: ("COMPLETE", '{"width": 3, "lr": 0.013071750706304536}', 0.7240601778030396),
    4: ("COMPLETE", '{"width": 3, "lr": 0.07741610087025762}', 0.4573240578174591),
    5: ("COMPLETE", '{"width": 4, "lr": 0.062091070852208545}', 0.424753338098526),
    6: ("PRUNED", '{"width": 3, "lr": 0.001609149796238429}', 1.218611240386963),
    7: ("COMPLETE", '{"width": 3, "lr": 0.013075014468963348}', 0.8443505764007568),
}
LIVE = {4, 5, 7}


@pytest.fixture
def run_dir(tmp_path: Path) -> Callable[[int], RunDir]:
    """A copy of the golden study of a version."""

    def run_dir(version: int) -> RunDir:
        shutil.copytree(GOLDEN / f"version-{version}", tmp_path / "run")
        return RunDir(tmp_path / "run")

    return run_dir


def written(path: Path) -> dict[str, object]:
    """The version in a ledger."""
    with closing(sqlite3.connect(path)) as db:
        ((body,),) = db.execute("SELECT body FROM meta WHERE key = 'schema_version'").fetchall()
    return json.loads(body)


def test_every_version_has_a_golden_study_and_a_migration() -> None:
    assert sorted(path.name for path in GOLDEN.glob("version-*")) == [
        f"version-{version}" for version in VERSIONS
    ]
    assert (*MIGRATIONS, SCHEMA_VERSION) == VERSIONS


@pytest.mark.parametrize("version", VERSIONS)
def test_a_study_of_an_earlier_version_can_be_verified_unchanged(
    version: int, run_dir: Callable[[int], RunDir]
) -> None:
    run = run_dir(version)
    found = verify(run)
    assert found.looked_at[0] == "ledger.db: 4 rounds, 5 finished trials, 3 unfinished"
    views = {"trials.parquet", "buckets.parquet", "metrics", "status.json", "SCHEMA.md"}
    others = {damage.file for damage in found.damage} - views
    younger = {"models/trial-000002.safetensors"}  # the second file of a kept model
    assert others - {"preparation.json"} == (younger if version == 1 else set())
    (note,) = (damage for damage in found.damage if damage.file == "preparation.json")
    told = "it lacks targets, rows, digest, as an earlier version wrote it"
    assert note.found == (told if version == 2 else "it is missing")
    assert written(run.ledger)["schema_version"] == version


@pytest.mark.parametrize("version", VERSIONS)
def test_a_study_of_an_earlier_version_can_be_resumed(
    version: int, run_dir: Callable[[int], RunDir]
) -> None:
    run = run_dir(version)
    config = sweeper.load_study(GOLDEN / "study.toml", [f"results.dir={run.root}"])
    assert sweeper.run(config).state == "finished"
    trials = sweeper.open_results(run.root).trials()
    assert dict(zip(trials["trial_number"], trials["state"], strict=True)) == {
        number: state for number, (state, _, _) in ENDED.items()
    }
    assert set(zip(trials["objective"], trials["direction"], strict=True)) == {
        ("val_loss", "minimize")
    }
    assert trials["params_json"].tolist() == [params for _, params, _ in ENDED.values()]
    # some of these trained their last epochs here: on a different processor at most 18 steps in
    # float32 differ, the learning rate being 0.1 at most
    values = [value for _, _, value in ENDED.values()]
    assert trials["value"].tolist() == pytest.approx(values, rel=1e-3)
    before = [value for number, value in enumerate(values) if number not in LIVE]
    assert trials[~trials["trial_number"].isin(LIVE)]["value"].tolist() == before
    assert written(run.ledger)["schema_version"] == SCHEMA_VERSION
    told = f"the ledger's version: {version} -> {SCHEMA_VERSION} (session 2)"
    marked = {
        n for n, mark in zip(ENDED, trials["boundary"].fillna(""), strict=True) if told in mark
    }
    assert marked == (LIVE if version < SCHEMA_VERSION else set())


def test_the_old_ledger_is_passed_on_before_it_is_migrated(
    run_dir: Callable[[int], RunDir], tmp_path: Path
) -> None:
    copy = tmp_path / "copy.db"
    Ledger.open(run_dir(1).ledger, lambda old: old.copy(copy)).close()
    assert written(copy)["schema_version"] == 1
    with closing(Ledger.open(copy)) as ledger:
        assert (ledger.began_as, ledger.version, ledger.n_closed_rounds()) == (1, SCHEMA_VERSION, 4)


def test_a_ledger_of_a_later_version_is_refused_with_its_version(
    run_dir: Callable[[int], RunDir],
) -> None:
    run = run_dir(SCHEMA_VERSION)
    body = json.dumps({"schema_version": SCHEMA_VERSION + 1, "sweeper": "7.1"})
    with closing(sqlite3.connect(run.ledger)) as db, db:
        row = body, digest_of("schema_version", body)
        db.execute("UPDATE meta SET body = ?, digest = ?", row)
    told = "the ledger has version 3, but this sweeper reads up to 2; use sweeper 7.1"
    with pytest.raises(LedgerError, match=told):
        Ledger.open(run.ledger)
    (damage,) = verify(run).damage
    assert damage.hint == "use sweeper 7.1, which wrote it, or later"


def test_tables_of_a_later_version_are_refused_with_their_version(
    run_dir: Callable[[int], RunDir],
) -> None:
    run = run_dir(SCHEMA_VERSION)
    said = {"schema_version": 2, "versions": {"sweeper": "7.1"}}
    schema = pa.schema([], metadata={METADATA_KEY: json.dumps(said).encode()})
    parquet.write_table(schema.empty_table(), run.trials)
    with pytest.raises(SetupError, match=r"version 2, .* up to 1; read it with sweeper 7\.1"):
        sweeper.open_results(run.root)
