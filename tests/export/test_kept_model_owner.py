"""A model and its data description belong to the trial in their names."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import sweeper
from sweeper.errors import SetupError
from sweeper.export import export
from sweeper.programs.provenance import WHOSE
from sweeper.programs.saved_file import MODEL_FILE, content_of, read_saved
from sweeper.rundir import RunDir
from sweeper.sweep.session.session import KEEPS_CANDIDATES
from sweeper.sweep.verify import repair
from sweeper.sweep.verify.models import kept_trials
from tests.command_line import STUDY
from tests.damaged import copy_of, damage_in
from tests.in_process import study_in, trained

# the same trials in every study, which only differ in their data or their training
GRID = (
    "study.sampler={name='grid'}",
    "study.n_trials=4",
    "search={optimizer={lr={type='categorical', choices=[1e-4, 1e-3, 1e-2, 1e-1]}}}",
    "study.replicates=2",
    "results.keep_models=2",
)
OTHER = ("study.seed=4", "results.keep_models=4")


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    """A finished study."""
    return trained(study_in(tmp_path_factory.mktemp("ended"), STUDY, *GRID)).run_dir


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> RunDir:
    """One with the same trials on different parts of the data."""
    directory = tmp_path_factory.mktemp("other")
    return trained(study_in(directory, STUDY, *GRID, *OTHER)).run_dir


@pytest.fixture
def copied(ended: RunDir, tmp_path: Path) -> RunDir:
    """A copy of the study, to be damaged."""
    return copy_of(ended, tmp_path / "run")


def kept(run_dir: RunDir) -> list[int]:
    """The trials with models, the best first."""
    best = sweeper.open_results(run_dir.root).best(9)
    return [int(number) for number in best[best["model_path"].notna()]["trial_number"]]


def put(source: RunDir, of: tuple[int, int], run_dir: RunDir, place: tuple[int, int]) -> None:
    """Both files of the model `of` a trial and member, under the name of another."""
    shutil.copy(source.model(*of), run_dir.model(*place))
    shutil.copy(source.saved(*of), run_dir.saved(*place))


def refusal(run_dir: RunDir, number: int, output: Path) -> str:
    """The result of `export` for a trial's model."""
    with pytest.raises(SetupError) as error:
        export(run_dir.root, number, 0, output)
    assert not output.exists()
    return str(error.value)


def test_swapped_models_are_found(ended: RunDir, copied: RunDir, tmp_path: Path) -> None:
    best, next_best = kept(ended)
    for one, two in ((best, next_best), (next_best, best)):
        put(ended, (one, 0), copied, (two, 0))
    expected = {
        f"models/{copied.saved(one).name}": f"it is the model of trial {two}, not of trial {one}"
        for one, two in ((best, next_best), (next_best, best))
    }
    assert damage_in(copied) == expected
    told = refusal(copied, best, tmp_path / "best")
    assert f"{copied.saved(best)}: it is the model of trial {next_best}" in told
    assert f"restore the file, or train it again: python -m sweeper trial {copied.root}" in told


def test_the_model_of_another_member_is_found(ended: RunDir, copied: RunDir) -> None:
    best, _ = kept(ended)
    put(ended, (best, 1), copied, (best, 0))
    name = copied.saved(best).name
    assert damage_in(copied) == {f"models/{name}": "it is the model of member 1, not of member 0"}


def test_the_model_of_another_study_is_found(
    ended: RunDir, other: RunDir, copied: RunDir, tmp_path: Path
) -> None:
    number, _ = kept(ended)
    put(other, (number, 0), copied, (number, 0))
    name = copied.saved(number).name
    what = f"it is of a trial {number} on other data"
    assert damage_in(copied) == {f"models/{name}": what}
    # nor is the data description of another one accepted
    assert "it is for other data" in refusal(copied, number, tmp_path / "best")
    shutil.copy(other.preparation, copied.preparation)
    assert f"it is of trial {number} of another study" in refusal(copied, number, tmp_path / "best")


def test_the_same_data_with_other_settings_is_another_study(
    ended: RunDir, copied: RunDir, tmp_path: Path
) -> None:
    smaller = ("train.batch_size=16", "results.keep_models=4")
    another = trained(study_in(tmp_path / "another", STUDY, *GRID, *smaller)).run_dir
    number, _ = kept(ended)
    put(another, (number, 0), copied, (number, 0))
    name = copied.saved(number).name
    assert damage_in(copied) == {f"models/{name}": f"it is of trial {number} of another study"}


def test_an_export_requires_both_files_to_have_the_same_model(
    ended: RunDir, copied: RunDir, tmp_path: Path
) -> None:
    best, next_best = kept(ended)
    shutil.copy(ended.model(next_best), copied.model(best))
    assert "its arrays are not those of" in refusal(copied, best, tmp_path / "best")
    copied.model(best).unlink()
    assert "it is missing" in refusal(copied, best, tmp_path / "best")


def test_a_model_of_an_earlier_version_is_identified_by_its_name(
    ended: RunDir, other: RunDir, copied: RunDir, tmp_path: Path
) -> None:
    best, _ = kept(ended)
    file = read_saved(copied.saved(best))
    own = ("format", "versions", "leaves", WHOSE)
    record = {name: value for name, value in file.record.items() if name not in own}
    copied.saved(best).write_bytes(content_of(file.tensors, record))
    assert damage_in(copied) == {}
    assert export(copied.root, best, 0, tmp_path / "best") == best
    # the ledger describes its data
    shutil.copy(other.preparation, copied.preparation)
    assert "it is for other data than the study's" in refusal(copied, best, tmp_path / "x")


def test_errors_of_export_name_the_file(ended: RunDir, tmp_path: Path) -> None:
    best, _ = kept(ended)
    export(ended.root, best, 1, tmp_path / "best")
    record = read_saved(tmp_path / "best" / MODEL_FILE).record
    assert (record["trial"], record["replicate"], WHOSE in record) == (best, 1, False)
    assert record["data"]["digest"] == json.loads(ended.preparation.read_bytes())["digest"]


def test_weights_that_were_never_kept_do_not_count_as_damage(copied: RunDir) -> None:
    """Nor are those that were removed when fewer were requested, even if more are again."""
    before = kept(copied)
    for most, expected in ((3, before), (1, before[:1]), (3, before[:1])):
        keeping = f"results.keep_models={most}"
        trained(study_in(copied.root.parent, STUDY, *GRID[:-1], keeping))
        assert kept(copied) == expected
        assert damage_in(copied) == {}
    copied.model(before[0]).unlink()
    assert damage_in(copied) == {f"models/{copied.model(before[0]).name}": "it is missing"}


def test_weights_of_a_trial_that_may_become_one_of_the_best_must_exist(tmp_path: Path) -> None:
    """One trial that beats two others leaves their place to a third, which was behind them.

    Earlier versions had removed its weights by then.
    """
    several = ("study.metric=['val_loss', 'n_parameters']", "results.keep_models=2")
    directions = "study.direction=['minimize', 'minimize']"
    config = study_in(tmp_path, STUDY, *several, directions, "study.sampler={name='random'}")
    costs = [(1.0, 9.0), (2.0, 8.0), (3.0, 1.0), (0.5, 7.0)]
    rows = [
        {
            "trial_number": number,
            "state": "COMPLETE",
            "run_id": "a",
            "last_round": number + 1,
            "value": loss,
            "value_1": size,
        }
        for number, (loss, size) in enumerate(costs)
    ]
    of_earlier = {"run_id": "a", "study": config.canonical()}
    assert kept_trials([of_earlier], rows[:3], config, has_finished=True) == {0, 1}
    assert kept_trials([of_earlier], rows, config, has_finished=True) == {3}
    session = of_earlier | {KEEPS_CANDIDATES: True}
    assert kept_trials([session], rows[:3], config, has_finished=True) == {0, 1}
    assert kept_trials([session], rows[:3], config, has_finished=False) == {0, 1, 2}
    assert kept_trials([session], rows, config, has_finished=True) == {2, 3}
    # removed when the study finished, before it got more trials
    longer = [session, session | {"run_id": "b"}]
    more = [*rows[:3], rows[3] | {"run_id": "b"}]
    assert kept_trials(longer, more, config, has_finished=True) == {3}


def test_repair_leaves_models_alone(ended: RunDir, copied: RunDir) -> None:
    best, next_best = kept(ended)
    put(ended, (best, 0), copied, (next_best, 0))
    repair(copied)
    assert [*damage_in(copied)] == [f"models/{copied.saved(next_best).name}"]
