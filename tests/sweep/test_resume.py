"""The command that started a study resumes it, with the rows of an unbroken run."""

from __future__ import annotations

import resource
import shutil
import signal
from contextlib import closing
from pathlib import Path

import pandas as pd
import pytest

import sweeper
from sweeper.ledger import Ledger
from tests.command_line import CommandLine, contents, settings, wait_for
from tests.digest import deterministic_digest

LATER = settings("study.n_trials=40")
RUN = ("run", "study.toml", *LATER)


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory, compile_cache: Path) -> CommandLine:
    """The study, run from its start to its end."""
    command = CommandLine(tmp_path_factory.mktemp("unbroken"), compile_cache)
    command.write()
    assert command(*RUN, "--quiet").returncode == 0
    return command


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory, compile_cache: Path) -> CommandLine:
    """The study, stopped by Ctrl-C while trials were in training."""
    command = CommandLine(tmp_path_factory.mktemp("stopped"), compile_cache)
    command.write()
    with command.started(*RUN) as process:
        wait_for("best val_loss", process)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate()
    assert process.returncode == 130, said
    return command


def copied(original: CommandLine, command: CommandLine) -> CommandLine:
    """A copy of all files of `original`, to be resumed."""
    shutil.copytree(original.directory, command.directory, dirs_exist_ok=True)
    return command


@pytest.fixture
def finished(unbroken: CommandLine, command: CommandLine) -> CommandLine:
    """A finished study for one test."""
    return copied(unbroken, command)


@pytest.fixture
def interrupted(stopped: CommandLine, command: CommandLine) -> CommandLine:
    """An interrupted study for one test."""
    return copied(stopped, command)


@pytest.fixture(scope="module")
def digest(unbroken: CommandLine) -> str:
    """The digest of the rows of the unbroken run."""
    return deterministic_digest(unbroken.run_dir)


def sessions(command: CommandLine) -> list[list[str]]:
    """The settings in which each start of a study differed from its first."""
    with closing(Ledger.open(command.run_dir.ledger)) as ledger:
        return [[change["key"] for change in s["boundaries"]] for s in ledger.sessions()]


def test_ctrl_c_leaves_everything_committed_and_published(interrupted: CommandLine) -> None:
    status = interrupted.status()
    with closing(Ledger.open(interrupted.run_dir.ledger)) as ledger:
        rounds, opened = ledger.n_closed_rounds(), ledger.opened_round()
        ended = [row["trial_number"] for row in ledger.trial_rows()]
    results = sweeper.open_results(interrupted.run_dir.root)

    assert (status["state"], status["round"], opened) == ("interrupted", rounds, None)
    assert results.trials()["trial_number"].tolist() == ended
    assert results.buckets()["round"].max() == rounds
    counts = status["counts"]
    assert (counts["COMPLETE"], sum(counts.values())) == (len(ended), 40)
    assert counts["RUNNING"] > 0 and counts["WAITING"] > 0
    assert any(interrupted.run_dir.checkpoints.iterdir())


def test_the_same_command_resumes_to_the_rows_of_an_unbroken_run(
    interrupted: CommandLine, digest: str
) -> None:
    rounds = interrupted.status()["round"]
    done = interrupted(*RUN)

    assert done.returncode == 0
    assert f"resuming after round {rounds}" in done.stderr
    assert "warning" not in done.stderr
    assert deterministic_digest(interrupted.run_dir) == digest
    assert interrupted.status()["state"] == "finished"
    assert sessions(interrupted) == [[], []]


def flip_a_bit(checkpoint: Path) -> None:
    """Change a weight."""
    content = bytearray(checkpoint.read_bytes())
    content[-20] ^= 1
    checkpoint.write_bytes(content)


@pytest.mark.parametrize("harm", [flip_a_bit, pytest.param(Path.unlink, marks=pytest.mark.slow)])
def test_a_damaged_checkpoint_is_noticed_and_its_training_repeated(
    harm, interrupted: CommandLine, digest: str
) -> None:
    running = interrupted.status()["counts"]["RUNNING"]
    (checkpoint,) = interrupted.run_dir.checkpoints.iterdir()
    harm(checkpoint)

    assert interrupted(*RUN, "--quiet").returncode == 0
    assert deterministic_digest(interrupted.run_dir) == digest
    outcomes = sweeper.open_results(interrupted.run_dir.root).buckets()["outcome"]
    told = f"{running} again from epoch 1, because of a damaged checkpoint"
    assert [said for said in outcomes.unique() if said != "trained"] == [f"trained; {told}"]
    assert outcomes.str.contains(told).sum() == 1


def test_a_start_killed_before_its_first_write_does_not_count(command: CommandLine) -> None:
    command.write()
    command.run_dir.make()
    command.run_dir.lock.touch()
    (command.run_dir.staging / command.run_dir.ledger.name).write_bytes(b"SQLite")

    assert command("run", "study.toml", "--quiet").returncode == 0
    assert len(sweeper.open_results(command.run_dir.root).trials()) == 12


@pytest.mark.parametrize("room", [2_000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_a_full_disk_ends_the_run_without_failed_trials(
    room: int, command: CommandLine, digest: str
) -> None:
    command.write()
    with command.started(*RUN) as process:
        wait_for("best val_loss", process)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (room, room))
        _, said = process.communicate()

    assert process.returncode == 3, said
    assert "cannot be written" in said.splitlines()[-1]
    assert "Traceback" not in said
    assert command(*RUN, "--quiet").returncode == 0
    assert deterministic_digest(command.run_dir) == digest


def test_fresh_moves_the_old_directory_aside(finished: CommandLine) -> None:
    old = contents(finished.run_dir.root)
    done = finished("run", "study.toml", "--fresh", *settings("study.seed=1"))

    assert done.returncode == 0, done.stderr
    new, kept = sorted(finished.run_dir.root.parent.iterdir())
    assert (new.name, kept.name[:5]) == ("wine", "wine.")
    said = f"the old run directory is now {kept}"
    assert said in done.stderr
    assert said in (new / "logs" / "sweeper.log").read_text(encoding="utf-8")
    assert {**contents(kept), "ledger.lock": b""} == {**old, "ledger.lock": b""}
    assert sweeper.open_results(new).trials()["seed"].unique().tolist() == [1]


def test_settings_that_affect_trials_cannot_change(interrupted: CommandLine) -> None:
    there = contents(interrupted.directory)
    keys = ("study.seed", "data.scale", "optimizer.weight_decay", "search.optimizer.lr.high")
    done = interrupted(
        *RUN, *settings(*map("=".join, zip(keys, ("1", "minmax", "0.1", "0.2"), strict=True)))
    )

    assert (done.returncode, done.stdout) == (2, "")
    # a line about progress may come first on a slow machine
    refusals = [line for line in done.stderr.splitlines() if line.startswith("--set: ")]
    for key, line in zip(keys, refusals, strict=True):
        assert line.startswith(f"--set: {key}: was ")
        assert "--fresh" in line
    assert contents(interrupted.directory) == there


def test_sampling_and_planning_can_change_and_this_is_recorded(
    interrupted: CommandLine,
) -> None:
    keys = ["study.n_trials", "schedule.parallel", "schedule.round_epochs"]
    changes = settings("study.n_trials=44", "schedule.parallel=6", "schedule.round_epochs=2")
    before = sweeper.open_results(interrupted.run_dir.root).trials()
    done = interrupted("run", "study.toml", *changes)

    assert done.returncode == 0, done.stderr
    for key in keys:
        assert f"warning: {key} was " in done.stderr
    assert sorted(sessions(interrupted)[1]) == sorted(keys)
    after = sweeper.open_results(interrupted.run_dir.root).trials()
    assert len(after) == 44
    kept = after[after["trial_number"].isin(before["trial_number"])].reset_index(drop=True)
    # fewer of them may be among the best by now
    pd.testing.assert_frame_equal(
        kept.drop(columns="model_path"), before.drop(columns="model_path")
    )


def test_another_lane_loop_is_said_to_be_that_of_new_classes(finished: CommandLine) -> None:
    done = finished("run", "study.toml", *settings("study.n_trials=44", "execution.lane_loop=vmap"))

    assert done.returncode == 0, done.stderr
    assert "warning: execution.lane_loop was auto" in done.stderr
    assert "existing classes keep theirs, even for new trials" in done.stderr
    buckets = sweeper.open_results(finished.run_dir.root).buckets()
    loops = buckets.groupby("class_id")["lane_loop"].agg(set)
    assert all(len(loop) == 1 for loop in loops)
    assert "map" in loops[buckets["class_id"].iloc[-1]]


def test_changed_flags_give_a_warning_and_mark_later_rows(
    interrupted: CommandLine, digest: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = sweeper.open_results(interrupted.run_dir.root).trials()["trial_number"]
    monkeypatch.setenv("NVIDIA_TF32_OVERRIDE", "0")  # a flag without effect on a CPU
    done = interrupted(*RUN)

    assert done.returncode == 0, done.stderr
    told = "NVIDIA_TF32_OVERRIDE was absent when the study began and is 0 now: it resumes, but rows"
    assert f"warning: {told}" in done.stderr
    results = sweeper.open_results(interrupted.run_dir.root)
    trials, buckets = results.trials(), results.buckets()
    mark = "NVIDIA_TF32_OVERRIDE: absent -> 0 (session 2)"
    assert set(trials[trials["boundary"].isna()]["trial_number"]) == set(before)
    assert set(trials["boundary"].dropna()) == set(buckets["boundary"].dropna()) == {mark}
    assert deterministic_digest(interrupted.run_dir) == digest


def test_files_that_a_crash_left_in_staging_are_removed(interrupted: CommandLine) -> None:
    staging = interrupted.run_dir.staging
    (staging / "data").mkdir()
    for name in ("ledger.db", "trial-000001.eqx", "data/data.npz", "trials.parquet"):
        (staging / name).write_bytes(b"half")

    assert interrupted(*RUN, "--quiet").returncode == 0
    assert contents(staging) == {}


def test_settings_of_places_and_kept_files_can_change(
    interrupted: CommandLine, digest: str
) -> None:
    free = settings("execution.threads=2", "execution.retries=3", "results.keep_models=1")
    done = interrupted(*RUN, *free)

    assert done.returncode == 0, done.stderr
    assert "when the study began" not in done.stderr
    assert deterministic_digest(interrupted.run_dir) == digest
    assert len(list(interrupted.run_dir.models.glob("*.eqx"))) == 1
    assert sessions(interrupted) == [[], []]


def test_with_fewer_trials_a_study_ends_after_those_in_training(
    interrupted: CommandLine,
) -> None:
    asked = interrupted.status()["counts"]
    done = interrupted("run", "study.toml", *settings("study.n_trials=2"))

    assert done.returncode == 0, done.stderr
    assert "when the study began" not in done.stderr
    count = asked["COMPLETE"] + asked["RUNNING"]
    assert f"study.n_trials = 2 is fewer than the {count} trials" in done.stderr
    status = interrupted.status()
    assert status["state"] == "finished"
    assert status["counts"]["COMPLETE"] == asked["COMPLETE"] + asked["RUNNING"]


def test_a_finished_study_can_be_extended(finished: CommandLine) -> None:
    before = sweeper.open_results(finished.run_dir.root).trials()
    done = finished("run", "study.toml", *settings("study.n_trials=43"))

    assert done.returncode == 0, done.stderr
    after = sweeper.open_results(finished.run_dir.root).trials()
    assert after["trial_number"].tolist() == list(range(43))
    assert after["value"].tolist()[:40] == before["value"].tolist()
    assert sessions(finished) == [[], ["study.n_trials"]]


def test_deleted_tables_are_rewritten(finished: CommandLine, digest: str) -> None:
    run_dir = finished.run_dir
    buckets = sweeper.open_results(run_dir.root).buckets()
    for path in (run_dir.trials, run_dir.buckets, run_dir.status):
        path.unlink()
    shutil.rmtree(run_dir.metrics)

    assert finished(*RUN, "--quiet").returncode == 0
    assert deterministic_digest(run_dir) == digest
    pd.testing.assert_frame_equal(sweeper.open_results(run_dir.root).buckets(), buckets)
    assert finished.status()["counts"]["COMPLETE"] == 40


def test_status_shows_progress_during_and_after_a_study(command: CommandLine) -> None:
    command.write()
    with command.started("run", "study.toml", *settings("study.n_trials=100_000")) as process:
        wait_for("best val_loss", process)
        # the status mentions a round only together with the plan of the next one
        while (running := command.status())["counts"]["COMPLETE"] == 0:
            pass
        while (later := command.status())["counts"]["COMPLETE"] == running["counts"]["COMPLETE"]:
            pass
        process.send_signal(signal.SIGKILL)
        process.wait()
    killed = command.status()

    assert (running["state"], running["pid"]) == ("running", process.pid)
    assert later["counts"]["COMPLETE"] > running["counts"]["COMPLETE"] > 0
    assert sum(later["counts"].values()) == 100_000
    (first, *_) = later["running"]
    assert [{*params} for params in first["params"]] == [{"lr", "epochs"}] * len(first["trials"])
    assert killed["state"] == "interrupted"
