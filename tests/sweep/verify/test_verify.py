"""Damage in a run directory is found, and files are rewritten from the ledger."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from sweeper.errors import LedgerError, SetupError, StudyHeldError
from sweeper.ledger import Ledger
from sweeper.results.compare import TableDifference
from sweeper.results.listing import buckets_of, curves, read_trials
from sweeper.results.read import open_results
from sweeper.results.status import read_status
from sweeper.rundir import RunDir
from sweeper.sweep.session.lock import hold
from sweeper.sweep.verify import repair, verify
from tests import round_machine
from tests.command_line import CommandLine
from tests.crashes import Study
from tests.damaged import damage_in
from tests.in_process import study_in, trained
from tests.small_studies import DIGITS


def test_intact_files_are_reported_as_intact(ended: Study, halfway: Study) -> None:
    assert verify(ended.run_dir).damage == ()
    looked_at = verify(halfway.run_dir).looked_at
    assert looked_at[0] == "ledger.db: 1 rounds, 0 finished trials, 3 unfinished"
    assert looked_at[1] == "checkpoints/: 1 files of unfinished trials"
    assert looked_at[-1] == "preparation.json, baseline.json, SCHEMA.md, study.toml"


def test_only_existing_files_are_reported_as_checked(
    ended: Study, copied: Callable[[Study], Study]
) -> None:
    run_dir = copied(ended).run_dir
    for name in ("importance.parquet", "SCHEMA.md"):
        (run_dir.root / name).unlink(missing_ok=True)
    assert verify(run_dir).looked_at[-2:] == (
        "trials.parquet, buckets.parquet, spans.parquet, metrics/, status.json",
        "preparation.json, baseline.json, study.toml",
    )


@pytest.mark.parametrize("name", ["trials.parquet", "buckets.parquet", "metrics", "status.json"])
def test_a_damaged_table_is_rewritten(
    name: str, ended: Study, copied: Callable[[Study], Study]
) -> None:
    run_dir = copied(ended).run_dir
    path = run_dir.root / name
    for each in path.iterdir() if path.is_dir() else (path,):
        each.write_bytes(each.read_bytes()[:-9])
    assert damage_in(run_dir).keys() == {name}
    repair(run_dir)
    assert damage_in(run_dir) == {}
    left = ended.left()
    assert Study(run_dir.root.parent, "supervised", "padded").left() == left


@pytest.mark.parametrize("rule", ["study.stop={value=9.0}", "study.timeout=1s"])
def test_a_study_that_ended_early_has_still_ended_after_a_repair(rule: str, tmp_path: Path) -> None:
    short = "study.n_trials=4000", "train.epochs=1", "schedule.parallel=1", rule
    trained(study_in(tmp_path, DIGITS, *short))
    run_dir = RunDir(tmp_path / "run")
    before = read_status(run_dir)
    assert before.state == "finished" and before.counts["WAITING"]
    assert before.stop is not None or before.timeout == "1s"
    repair(run_dir)
    after = read_status(run_dir)
    same = ("state", "stop", "timeout", "stopped_by", "max_failures", "epochs", "counts", "round")
    assert [getattr(after, name) for name in same] == [getattr(before, name) for name in same]


def test_a_study_with_too_many_failures_has_failed_after_a_repair(
    ended: Study, copied: Callable[[Study], Study]
) -> None:
    config = round_machine.study(["execution.max_failures=1"])
    ledger = round_machine.new_ledger()
    round_machine.run(config, ledger, killing=frozenset({1, 3}))
    run_dir = copied(ended).run_dir
    with closing(Ledger.open(run_dir.ledger)) as old:
        session = old.sessions()[0]
    ledger.add_session({**session, "study": config.canonical()})
    run_dir.ledger.unlink()
    ledger.copy(run_dir.ledger)
    repair(run_dir)
    status = read_status(run_dir)
    assert (status.state, status.max_failures, status.counts["FAIL"]) == ("failed", 1, 2)


@pytest.mark.parametrize("name", ["trials.parquet", "buckets.parquet", "metrics"])
def test_readers_of_a_damaged_table_refuse_it_with_a_hint(
    name: str, ended: Study, copied: Callable[[Study], Study]
) -> None:
    run_dir = copied(ended).run_dir
    path = run_dir.root / name
    for size in (100, 0):
        for each in path.iterdir() if path.is_dir() else (path,):
            each.write_bytes(each.read_bytes()[:size])
        reading: dict[str, list[Callable[[], object]]] = {
            "trials.parquet": [lambda: open_results(run_dir.root), lambda: read_trials(run_dir)],
            "buckets.parquet": [
                lambda: open_results(run_dir.root).buckets(),
                lambda: buckets_of(run_dir, 1),
            ],
            "metrics": [
                lambda: open_results(run_dir.root).metrics(),
                lambda: curves(run_dir, 1),
            ],
        }
        for read in reading[name]:
            with pytest.raises(SetupError, match="it cannot be read; rewrite it with") as refused:
                read()
            assert str(refused.value).endswith(f"verify {run_dir.root} --repair")


def test_rows_that_were_not_committed_are_found(
    ended: Study, halfway: Study, copied: Callable[[Study], Study]
) -> None:
    run_dir = copied(halfway).run_dir
    repair(run_dir)
    shutil.copy(ended.run_dir.trials, run_dir.trials)
    assert damage_in(run_dir) == {"trials.parquet": TableDifference.ROWS.value}
    shutil.copy(ended.run_dir.buckets, run_dir.trials)
    assert damage_in(run_dir) == {"trials.parquet": TableDifference.COLUMNS.value}


def test_damaged_and_missing_models_are_found(
    ended: Study, copied: Callable[[Study], Study]
) -> None:
    run_dir = copied(ended).run_dir
    model, other = sorted(run_dir.models.glob("*.eqx"))
    saved = model.with_suffix(".safetensors")
    content = bytearray(model.read_bytes())
    content[-1] ^= 1
    model.write_bytes(content)
    other.unlink()
    assert damage_in(run_dir) == {
        f"models/{model.name}": f"its arrays are not those of {saved.name}",
        f"models/{other.name}": "it is missing",
    }
    saved.write_bytes(saved.read_bytes()[:-1])
    assert f"models/{saved.name}" in damage_in(run_dir)
    (damage, *_) = verify(run_dir).damage
    assert f"python -m sweeper trial {run_dir.root} 3, and run the file" in damage.hint
    assert damage.hint.startswith("everything else of the study is fine; ")
    assert damage.hint.endswith(f"{ended.run_dir.root}-trial-3/models")


def test_a_damaged_checkpoint_is_found_and_its_training_repeated(
    ended: Study, halfway: Study, copied: Callable[[Study], Study]
) -> None:
    study = copied(halfway)
    repair(study.run_dir)
    (file,) = study.run_dir.checkpoints.iterdir()
    content = file.read_bytes()
    for size in range(0, len(content), len(content) // 7):
        file.write_bytes(content[:size])
        assert damage_in(study.run_dir).keys() == {f"checkpoints/{file.name}"}
    study.run()
    assert study.left() == ended.left()


def test_a_ledger_that_is_damaged_is_refused(
    ended: Study, copied: Callable[[Study], Study]
) -> None:
    study = copied(ended)
    study.run_dir.ledger.write_bytes(b"")
    assert damage_in(study.run_dir) == {"ledger.db": "the ledger is empty"}
    with pytest.raises(LedgerError, match="the ledger is empty"):
        repair(study.run_dir)
    with pytest.raises(LedgerError, match="the ledger is empty"):
        study.run()


def test_a_directory_without_write_permission_can_be_verified(
    halfway: Study, copied: Callable[[Study], Study], monkeypatch: pytest.MonkeyPatch
) -> None:
    study = copied(halfway)
    study.run_dir.lock.unlink()
    before = sorted(study.run_dir.root.rglob("*"))
    # as for another user's directory: the user of this test may be able to write anywhere
    may = os.access
    monkeypatch.setattr("os.access", lambda path, mode: mode != os.W_OK and may(path, mode))
    with closing(Ledger.open(study.run_dir.ledger)):
        with pytest.raises(StudyHeldError):
            verify(study.run_dir)
        with pytest.raises(LedgerError, match="another program is writing to it; wait for it"):
            Ledger.read(study.run_dir.ledger)
    assert verify(study.run_dir).looked_at == verify(halfway.run_dir).looked_at
    assert sorted(study.run_dir.root.rglob("*")) == before
    study.run_dir.ledger.write_bytes(study.run_dir.ledger.read_bytes()[:5000])
    (damage,) = verify(study.run_dir).damage
    assert damage.file == "ledger.db"


def test_a_running_study_is_not_touched(ended: Study) -> None:
    with hold(ended.run_dir):
        for look in (verify, repair):
            with pytest.raises(StudyHeldError, match="this program already runs this study"):
                look(ended.run_dir)


def test_a_directory_without_a_study_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="no study has been run here"):
        verify(RunDir(tmp_path))


def test_the_command(ended: Study, copied: Callable[[Study], Study], command: CommandLine) -> None:
    root = copied(ended).run_dir.root
    (root / "buckets.parquet").unlink()
    done = command("verify", str(root), "--json")
    assert done.returncode == 1
    (damage,) = json.loads(done.stdout)["damage"]
    assert damage["file"] == "buckets.parquet"
    done = command("verify", str(root), "--repair")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "no damage found")


def test_missing_rows_of_a_finished_study_are_found(
    ended: Study, copied: Callable[[Study], Study]
) -> None:
    run_dir = copied(ended).run_dir
    (run_dir.metrics / "part-000001-000002.parquet").unlink(missing_ok=True)
    *_, last = sorted(run_dir.metrics.iterdir())
    last.unlink()
    assert damage_in(run_dir) == {"metrics": TableDifference.BEHIND.value}
    repair(run_dir)
    assert damage_in(run_dir) == {}


def test_rows_that_a_killed_study_did_not_publish_are_found(
    halfway: Study, copied: Callable[[Study], Study]
) -> None:
    run_dir = copied(halfway).run_dir
    behind = TableDifference.BEHIND.value
    names = ("buckets.parquet", "spans.parquet", "metrics")
    status = {"status.json": "it is of round 0, and the ledger has 1"}
    assert damage_in(run_dir) == dict.fromkeys(names, behind) | status
    hints = {damage.hint for damage in verify(run_dir).damage}
    assert hints == {f"rewrite it with: python -m sweeper verify {run_dir.root} --repair"}
    repair(run_dir)
    assert damage_in(run_dir) == {}


def test_a_study_that_was_killed_before_its_first_session_has_nothing_to_repair(
    tmp_path: Path,
) -> None:
    study = Study(tmp_path / "study", "supervised", "padded")
    assert study.crash("ledger.session:begin")
    assert repair(study.run_dir) == ()
    assert verify(study.run_dir).looked_at == ("ledger.db: no study has started",)
