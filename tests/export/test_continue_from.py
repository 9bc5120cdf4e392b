"""`--continue-from`: the trials of a study start from a saved model, and resume with it."""

from __future__ import annotations

import shlex
import threading
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import sweeper
from sweeper import api
from sweeper.config import StudyConfig
from sweeper.errors import SetupError, StudyError
from sweeper.export import export
from sweeper.export.confirm import finalists, refuse_others
from sweeper.export.members import ENSEMBLE_FILE, MEMBERS
from sweeper.ledger import Ledger
from sweeper.programs.saved_file import MODEL_FILE
from sweeper.results.events import Event, RoundClosed, Warned
from sweeper.rundir import RunDir
from sweeper.sweep.verify import verify
from sweeper.sweep.warm_start import check_fits, describe_start, find_start
from tests.command_line import STUDY, CommandLine
from tests.digest import deterministic_digest
from tests.in_process import prepared, study_in, trained
from tests.small_studies import DIGITS

FIRST = STUDY.replace("n_trials = 12", "n_trials = 2").replace("epochs = 4", "epochs = 3")
FIRST = FIRST.partition("train.epochs")[0] + '\n[execution]\nstrategy = "exact"\nworkers = 0\n'
SAVING = "results.save_optimizer=true"


def run(
    directory: Path, name: str, *overrides: str, start: Path | None = None, fresh: bool = False
) -> tuple[RunDir, list[str]]:
    """A study run in `directory`/`name`, and its warnings."""
    told: list[str] = []

    def observer(event: Event) -> None:
        told.extend([event.message] if isinstance(event, Warned) else [])

    config = configured(directory, name, *overrides)
    assert api.run(config, continue_from=start, observer=observer, fresh=fresh).state == "finished"
    return RunDir(config.run_dir), told


def configured(directory: Path, name: str, *overrides: str) -> StudyConfig:
    (directory / "study.toml").write_text(FIRST, encoding="utf-8")
    own = (f"results.dir={directory / name}", "execution.threads=1", *overrides)
    return sweeper.load_study(directory / "study.toml", own)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a finished study whose best model is in saved/."""
    directory = tmp_path_factory.mktemp("continued")
    first, _ = run(directory, "first", SAVING)
    export(first.root, None, 0, directory / "saved")
    export(first.root, None, 0, directory / "copy")
    trials = sweeper.open_results(first.root).best(2)["trial_number"]
    export(first.root, int(trials[1]), 0, directory / "other")
    return directory


@pytest.fixture(scope="module")
def continued(directory: Path) -> RunDir:
    """A study of three trials that started from it."""
    more = ("study.n_trials=3", "search.optimizer.lr.high=1e-3", "schedule.round_epochs=1")
    run_dir, told = run(directory, "more", *more, start=directory / "saved" / MODEL_FILE)
    assert not [one for one in told if "sampler tpe" not in one]  # of two or three trials
    return run_dir


def test_trials_start_from_the_saved_weights(directory: Path, continued: RunDir) -> None:
    best = sweeper.open_results(directory / "first").best(1).iloc[0]
    metrics = sweeper.open_results(continued.root).metrics()
    first = metrics[(metrics["metric"] == "val_loss") & (metrics["epoch"] == 1)]["value"]
    fresh = sweeper.open_results(directory / "first").metrics()
    begun = fresh[(fresh["metric"] == "val_loss") & (fresh["epoch"] == 1)]["value"]

    assert len(first) == 3
    np.testing.assert_allclose(first, best["value"], rtol=0.1)
    assert first.max() < begun.min()


def test_the_start_model_is_recorded_so_a_resume_does_not_need_the_flag(
    directory: Path, continued: RunDir, tmp_path: Path
) -> None:
    """Interrupted after its first round and resumed, it gets the rows of the unbroken one."""
    saved = tmp_path / "saved.safetensors"
    saved.write_bytes((directory / "saved" / MODEL_FILE).read_bytes())
    settings = ("study.n_trials=3", "search.optimizer.lr.high=1e-3", "schedule.round_epochs=1")
    config = configured(directory, f"{tmp_path.name}/cut", *settings)
    stop = threading.Event()

    def observer(event: Event) -> None:
        if isinstance(event, RoundClosed):
            stop.set()

    status = api.run(config, continue_from=saved, observer=observer, stop=stop)
    assert status.state == "interrupted"
    saved.unlink()

    cut, _ = run(directory, f"{tmp_path.name}/cut", *settings)

    assert deterministic_digest(cut) == deterministic_digest(continued)
    with closing(Ledger.open(cut.ledger)) as ledger:
        records = [session["continued_from"] for session in ledger.sessions()]
    digest = sweeper.load(directory / "saved").digest
    assert [record["digest"] for record in records] == [digest, digest]
    assert records[0]["path"] == str(saved)

    cut.started_from.unlink()
    with pytest.raises(StudyError) as gone:
        api.run(config)
    assert f"its trials start from {saved}, but the copy of it is missing" in str(gone.value)
    copy = directory / "copy" / MODEL_FILE
    for damaged in (None, copy.read_bytes()[:-1]):
        if damaged is not None:
            cut.started_from.write_bytes(damaged)
        assert api.run(config, continue_from=copy).state == "finished"
        assert cut.started_from.read_bytes() == copy.read_bytes()


def test_an_exported_trial_is_trained_again_from_the_same_model(
    continued: RunDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = export(continued.root, None, 0, tmp_path / "my model")
    start = continued.started_from
    assert (tmp_path / "my model" / start.name).read_bytes() == start.read_bytes()
    again = f"run 'my model/trial.toml' --continue-from 'my model/{start.name}'"
    for name in ("README.md", "trial.toml"):
        assert again in (tmp_path / "my model" / name).read_text(encoding="utf-8")

    monkeypatch.chdir(tmp_path)
    sweeper.command(*shlex.split(again), "--quiet", "--set", f"results.dir={tmp_path}/run")

    trained = sweeper.open_results(tmp_path / "run").trials()["value"].item()
    before = sweeper.open_results(continued.root).trial(number)
    assert before is not None
    assert trained == before["value"]


def test_verify_reports_a_damaged_copy_of_the_start_model(
    directory: Path, continued: RunDir
) -> None:
    whole, other = continued.started_from.read_bytes(), directory / "other" / MODEL_FILE
    assert verify(continued).damage == ()
    for content, found in (
        (whole[:-1], "not a saved model: "),
        (other.read_bytes(), "it is another model"),
        (None, "it is missing"),
    ):
        continued.started_from.unlink()
        if content is not None:
            continued.started_from.write_bytes(content)
        (damage,) = verify(continued).damage
        assert damage.file == continued.started_from.name
        assert damage.found.startswith(found)
        assert str(directory / "saved" / MODEL_FILE) in damage.hint
        continued.started_from.write_bytes(whole)


def test_another_model_or_none_is_refused(directory: Path, continued: RunDir) -> None:
    settings = ("study.n_trials=3", "search.optimizer.lr.high=1e-3", "schedule.round_epochs=1")
    config = configured(directory, "more", *settings)
    for config_, start, message in (
        (config, "other", "differs from"),
        (configured(directory, "first", SAVING), "saved", "began with fresh weights; omit it"),
    ):
        with pytest.raises(StudyError) as refusal:
            api.run(config_, continue_from=directory / start)
        assert message in str(refusal.value)
        assert "--continue-from (in Python continue_from): " in str(refusal.value)


@pytest.mark.parametrize(
    ("overrides", "messages"),
    [
        (
            ("model.width=9", "model.activation=tanh", "model.dropout=0.1"),
            [
                "model.width: 9, but the model in {start} has 8; write width = 8",
                "model.activation: 'tanh', but the model in {start} has 'relu'; write activation "
                '= "relu"',
            ],
        ),
        (
            ("search.model.width={type='int', low=6, high=8}",),
            [
                "search.model.width: trials with width 6, 7 cannot start from {start}, which has "
                "8; remove it, and write width = 8 in [model]",
            ],
        ),
        (
            ("data.name=iris", "train.batch_size=16"),
            [
                "data: {start} was trained on other data: it has 13 feature names, the study has "
                "4; start from"
            ],
        ),
    ],
)
def test_a_study_whose_trials_cannot_start_from_it_is_refused(
    overrides: tuple[str, ...], messages: list[str], directory: Path
) -> None:
    start = directory / "saved" / MODEL_FILE
    with pytest.raises(StudyError) as refusal:
        run(directory, "refused", *overrides, start=start)

    problems = [str(problem) for problem in refusal.value.problems]
    assert len(problems) == len(messages)
    for problem, message in zip(problems, messages, strict=True):
        assert message.format(start=start) in problem
    assert not (directory / "refused").exists()


def test_the_command_takes_the_directory(directory: Path, command: CommandLine) -> None:
    command.write(FIRST)
    wider = ("--set", "model.width=9", "--continue-from", str(directory / "saved"))

    refused = command("run", "study.toml", *wider)

    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith("--set: model.width: 9, but the model in ")


def test_finalists_start_from_the_saved_model_again(directory: Path, tmp_path: Path) -> None:
    few = ("study.n_trials=2", "search.optimizer.lr.high=1e-3", "train.epochs=1")
    run_dir, _ = run(directory, f"{tmp_path.name}/more", *few, start=directory / "saved")

    sweeper.command("confirm", str(run_dir.root), "--top", "2", "--seeds", "2", "--quiet")

    again = RunDir(run_dir.confirm)
    assert again.started_from.read_bytes() == run_dir.started_from.read_bytes()
    values = sweeper.open_results(again.root).trials()["value"]
    best = sweeper.open_results(directory / "first").best(1).iloc[0]
    np.testing.assert_allclose(values, best["value"], rtol=0.1)


def test_a_study_may_start_over_from_the_model_in_its_own_directory(
    directory: Path, tmp_path: Path
) -> None:
    few = ("study.n_trials=1", "search.optimizer.lr.high=1e-3", "train.epochs=1")
    name = f"{tmp_path.name}/more"
    first, _ = run(directory, name, *few, start=directory / "saved" / MODEL_FILE)
    content = first.started_from.read_bytes()
    again, _ = run(directory, name, *few, start=first.started_from, fresh=True)
    assert again.started_from.read_bytes() == content


def test_trials_are_not_trained_again_from_other_weights_than_those_of_their_study(
    directory: Path, tmp_path: Path
) -> None:
    few = ("study.n_trials=2", "search.optimizer.lr.high=1e-3", "train.epochs=1")
    run_dir, _ = run(directory, f"{tmp_path.name}/more", *few, start=directory / "saved")
    found = finalists(run_dir, 2, 2)
    api.run(found.config)
    with pytest.raises(StudyError, match=r"began with fresh weights, .* use --fresh"):
        refuse_others(found, run_dir.started_from)
    run_dir.started_from.unlink()
    for command in ("confirm", "reproduce"):
        with pytest.raises(StudyError, match=r"start from .*, but the copy of it is missing"):
            sweeper.command(command, str(run_dir.root))


def test_a_file_that_is_not_a_saved_model_is_refused(directory: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.safetensors"
    content = (directory / "saved" / MODEL_FILE).read_bytes()
    damaged.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    average = tmp_path / "average"
    (average / MEMBERS).mkdir(parents=True)
    (average / ENSEMBLE_FILE).touch()
    for path, message in (
        (damaged, "the leaf is damaged"),
        (average, f"an ensemble, .*; use one of the models in {average / MEMBERS}$"),
        (tmp_path / "none", "No such file"),
        (
            directory / "first" / "models" / "trial-000000.safetensors",
            "only the weights of a run directory",
        ),
    ):
        with pytest.raises(SetupError, match=message):
            run(directory, "refused", start=path)


def test_another_optimizer_starts_fresh_and_says_so(directory: Path) -> None:
    """In a worker, which has the model from the run directory."""
    sgd = ("optimizer={name='sgd', lr=1e-3}", "study.n_trials=1", "train.epochs=1")
    workers = ("execution.strategy=process", "execution.workers=1")
    best = sweeper.open_results(directory / "first").best(1).iloc[0]

    run_dir, told = run(directory, "sgd", *sgd, *workers, start=directory / "saved" / MODEL_FILE)

    row = sweeper.open_results(run_dir.root).trial(0)
    assert row is not None
    assert (row["state"], row["place"]) == ("COMPLETE", "worker 0")
    assert row["value"] == pytest.approx(best["value"], rel=0.1)
    assert told == [
        "trials of sgd start with its weights and a fresh optimizer: the saved state is for adam"
    ]


USERS = """
import optax

def make(lr, kind="adam"):
    return optax.adam(lr) if kind == "adam" else optax.sgd(lr, momentum=0.9)
"""


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        (
            "optimizer={name='adafactor',lr=1e-3,min_dim_size_to_factor=4}",
            "optimizer={name='adafactor',lr=1e-3,min_dim_size_to_factor=64}",
            "adafactor",
        ),
        (
            "optimizer={name='own_continued:make',lr=1e-3,kind='adam'}",
            "optimizer={name='own_continued:make',lr=1e-3,kind='sgd'}",
            "own_continued:make",
        ),
    ],
)
def test_an_optimizer_of_the_same_name_with_other_arrays_starts_fresh_and_says_so(
    before: str, now: str, said: str, tmp_path: Path
) -> None:
    (tmp_path / "own_continued.py").write_text(USERS, encoding="utf-8")
    few = "search={}", "study.n_trials=1", "train.epochs=1"
    first, _ = run(tmp_path, "first", *few, before, SAVING)
    export(first.root, 0, 0, tmp_path / "saved")

    run_dir, told = run(tmp_path, "other", *few, now, start=tmp_path / "saved")
    assert sweeper.open_results(run_dir.root).trials()["state"].tolist() == ["COMPLETE"]
    assert told == [
        f"trials of {said} start with its weights and a fresh optimizer: the saved state of {said} "
        "has other arrays"
    ]

    clipped = "optimizer.clip_norm=1.0"
    _, told = run(tmp_path, "same", *few, before, clipped, start=tmp_path / "saved")
    assert told == []


def test_drawn_settings_that_change_the_arrays_of_an_optimizer_are_named(tmp_path: Path) -> None:
    few = "search={}", "study.n_trials=1", "train.epochs=1"
    factored = "optimizer={name='adafactor',lr=1e-3,min_dim_size_to_factor=4}"
    first, _ = run(tmp_path, "first", *few, factored, SAVING)
    export(first.root, 0, 0, tmp_path / "saved")
    drawn = "search.optimizer.min_dim_size_to_factor={type='categorical',choices=[4,64]}"
    again = configured(tmp_path, "again", *few, factored, drawn)
    start = find_start(again, RunDir(again.run_dir), tmp_path / "saved", fresh=True)
    assert start is not None
    assert [*describe_start(again, start, prepared(again))] == [
        "trials of adafactor with optimizer.min_dim_size_to_factor = 64 start with its weights and "
        "a fresh optimizer: the saved state of adafactor has other arrays"
    ]


def test_what_only_fresh_weights_are_drawn_with_changes_nothing(tmp_path: Path) -> None:
    periodic = (
        *("data.name=diabetes", "data.split.stratify=false", "train.loss=mse", "train.metrics=[]"),
        *("model.numbers=plr", "model.n_frequencies=2", "model.embedding_size=2"),
        *("search={}", "study.n_trials=1", "train.epochs=1", "train.batch_size=32"),
    )
    first = trained(study_in(tmp_path, DIGITS, *periodic))
    export(first.run_dir.root, 0, 0, tmp_path / "saved")
    drawn = "search={model.frequency_scale={type='float', low=0.1, high=1.0}}"
    again = study_in(tmp_path / "again", DIGITS, *periodic, drawn)
    start = find_start(again, RunDir(again.run_dir), tmp_path / "saved" / MODEL_FILE, fresh=True)
    assert start is not None
    warning, *_ = describe_start(again, start, prepared(again))
    assert warning.startswith("search.model.frequency_scale changes nothing: trials start with")


def test_a_refit_that_adds_other_values_says_to_export_the_trial(tmp_path: Path) -> None:
    """They are a category, or edges of bins, that only the validation rows have."""
    lines = ["part,kind,size,bought"]
    for place in range(72):
        part = "val" if place < 12 else "test" if place < 24 else "train"
        kind, size = ("c", place) if part == "val" else ("ab"[place % 2], 100 + place % 5)
        lines.append(f"{part},{kind},{size},{'yes' if place % 3 else 'no'}")
    (tmp_path / "rows.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    few = "study.n_trials=1", "train.epochs=1", "train.batch_size=8", "search={}"
    for name, drop, found in (
        ("names", "size", "has 2 feature names, the study has 3"),
        ("bins", "kind", "its numbers have 6 edges of bins, those of the study"),
    ):
        data = f"data={{source='csv',path='rows.csv',target='bought',drop=['{drop}']}}"
        encoded = (data, "data.split.column=part", *few)
        encoded += ("model.numbers=ple",) if name == "bins" else ()
        first, _ = run(tmp_path, name, *encoded)
        export(first.root, 0, 0, tmp_path / f"{name} saved")
        more, _ = run(tmp_path, f"{name} more", *encoded, start=tmp_path / f"{name} saved")
        with pytest.raises(StudyError) as refused:
            sweeper.command("refit", str(more.root), "--to", str(tmp_path / "refit"), "--quiet")
        assert found in str(refused.value)
        assert str(refused.value).endswith(
            "a refit adds rows with values that it does not know: export the trial as it is"
        )


def test_equal_weights_of_replicates_and_another_order_of_targets_are_reported(
    tmp_path: Path,
) -> None:
    rows = "".join(f"{row % 7},{row % 5},{row}\n" for row in range(60))
    (tmp_path / "rows.csv").write_text(f"size,low,high\n{rows}", encoding="utf-8")
    numbers = "train.loss=mse", "train.metrics=[]", "train.batch_size=8", "train.epochs=1"
    few = "search={}", "study.n_trials=1"
    data = "data={{source='csv',path='rows.csv',target={}}}".format
    first, _ = run(tmp_path, "first", *numbers, *few, data(["low", "high"]))
    export(first.root, 0, 0, tmp_path / "saved")
    for targets, is_reported in ((["low", "high"], False), (["high", "low"], True)):
        replicates = "study.replicates=2" if is_reported else "study.replicates=1"
        again = configured(tmp_path, "again", *numbers, *few, data(targets), replicates)
        start = find_start(again, RunDir(again.run_dir), tmp_path / "saved", fresh=True)
        assert start is not None
        said = [*describe_start(again, start, prepared(again))]
        told = [one for one in said if "order" in one]
        assert any(one.startswith("all 2 replicates") for one in said) == is_reported
        assert [one.partition(" predicts ")[2] for one in told] == is_reported * [
            "low and high in this order, but this study high and low, so its first outputs are "
            'those of other targets; for a new study, write data.target = ["low", "high"]'
        ]


def test_other_ordinal_categories_are_refused_and_reported_if_the_study_has_begun(
    tmp_path: Path,
) -> None:
    for name, kinds in (("first", "abc"), ("other", "abd")):
        rows = "".join(f"{kinds[row % 3]},{row % 2}\n" for row in range(60))
        (tmp_path / f"{name}.csv").write_text(f"kind,bought\n{rows}", encoding="utf-8")
    few = "search={}", "study.n_trials=1", "train.batch_size=8", "train.epochs=1"
    table = "data={{source='csv',path='{}.csv',target='bought',categorical='{}'}}".format
    first, _ = run(tmp_path, "first", *few, table("first", "ordinal"))
    export(first.root, 0, 0, tmp_path / "saved")

    def checked(*data: str) -> list[str]:
        again = configured(tmp_path, "again", *few, table(*data))
        start = find_start(again, RunDir(again.run_dir), tmp_path / "saved", fresh=True)
        assert start is not None
        check_fits(again, start, prepared(again), has_begun=True)
        told = [*describe_start(again, start, prepared(again))]
        check_fits(again, start, prepared(again), has_begun=False)
        return [one for one in told if "categor" in one]

    assert checked("first", "ordinal") == []
    found = "was trained on other data: its category 2 of 'kind' is 'c', the study's 'd'; start"
    with pytest.raises(StudyError, match=found):
        checked("other", "ordinal")
    with pytest.raises(StudyError, match="has 1 feature names, the study has 3"):
        checked("other", "onehot")


@pytest.mark.parametrize(("before", "now"), [("standard", "none"), ("none", "standard")])
def test_targets_in_another_unit_than_those_of_the_saved_model_are_reported(
    before: str, now: str, tmp_path: Path
) -> None:
    numbers = "data.name=diabetes", "train.loss=mse", "train.metrics=[]", "train.batch_size=64"
    few = "search={}", "study.n_trials=1", "train.epochs=1"
    scale = "data.target_scale={}".format
    first, _ = run(tmp_path, "first", *numbers, *few, scale(before))
    export(first.root, 0, 0, tmp_path / "saved")
    units = {"standard": "of mean 0 and deviation 1", "none": "in their own unit"}
    for setting, said in ((before, []), (now, [f"targets {units[before]}, but", units[now]])):
        again = configured(tmp_path, "again", *numbers, *few, scale(setting))
        start = find_start(again, RunDir(again.run_dir), tmp_path / "saved", fresh=True)
        assert start is not None
        told = [one for one in describe_start(again, start, prepared(again)) if "unit" in one]
        assert len(told) == bool(said)
        for message in told:
            assert all(part in message for part in said)
            assert message.endswith(f'for a new study, write data.target_scale = "{before}"')
