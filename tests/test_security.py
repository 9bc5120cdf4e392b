"""Nothing that a foreign file names is run, written or followed unless it is trusted."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import typer

import sweeper
from sweeper.cli.main import COMMANDS, app_for
from sweeper.config import StudyConfig, parse
from sweeper.config.load import study_of
from sweeper.config.trust import Code, is_known
from sweeper.config.user_source import source_digests
from sweeper.errors import SetupError, SweeperError
from sweeper.export import export
from sweeper.export.members import ENSEMBLE_FILE, MEMBERS
from sweeper.export.sizes import refuse_oversized
from sweeper.ledger import Ledger
from sweeper.programs.data_spec import DataSpec
from sweeper.programs.provenance import NoteError, read_note
from sweeper.programs.saved_file import MODEL_FILE, content_of, read_saved
from sweeper.results.read import open_results
from sweeper.results.status import read_status
from sweeper.rundir import RunDir
from sweeper.sweep.session.backup import sessions
from sweeper.sweep.session.ownership import foreign, is_own_start, sign
from sweeper.sweep.warm_start import find_start
from tests.cli.test_no_python import PLACES
from tests.cli.test_no_python import study_of as study_naming
from tests.command_line import STUDY as WINE
from tests.command_line import contents
from tests.damaged import copy_of

GUIDE = Path(sweeper.__file__).parent / "guide" / "security.md"
STATE = "XDG_STATE_HOME"
MARKING = """\
from pathlib import Path

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import optax
from optuna.samplers import RandomSampler

HERE = Path(bytes.fromhex({here!r}).decode())


def mark():
    if (HERE / "armed").exists():
        (HERE / "ran").touch()


mark()


def rows():
    mark()
    x = np.random.default_rng(0).normal(size=(60, 2))
    return x, x.sum(axis=1)


def build(in_size, out_size, key):
    mark()
    return eqx.nn.Linear(in_size, out_size, key=key)


def loss(outputs, y):
    mark()
    return jnp.mean((outputs - y) ** 2)


def moves(lr):
    mark()
    return optax.sgd(lr)


class Sampler(RandomSampler):
    def __init__(self, seed=None):
        mark()
        super().__init__(seed=seed)
"""
STUDY = """\
version = 1
study.name = "marking"
study.metric = "val_loss"
study.direction = "minimize"
study.n_trials = 2
study.sampler = { name = "marking:Sampler" }
data = { source = "python", function = "marking:rows" }
model = { kind = "python", function = "marking:build" }
optimizer = { name = "marking:moves", lr = 1e-2 }
train = { loss = "marking:loss", task = "numbers", epochs = 2, batch_size = 16 }
search.optimizer.lr = { type = "float", low = 1e-3, high = 1e-2 }
execution = { threads = 1, workers = 0 }
"""
KEYS = {
    "study.sampler.name",
    "data.function",
    "model.function",
    "optimizer.name",
    "train.loss",
}
# the arguments of a command on a run directory
ABOUT_RUNS = {
    "status": (),
    "trials": (),
    "show": ("0",),
    "best": (),
    "trial": ("0",),
    "export-optuna": ("sqlite:///study.db",),
    "report": (),
    "verify": ("--repair",),
    "export": (),
    "confirm": ("--top", "1", "--seeds", "2", "--quiet"),
    "reproduce": ("0", "--quiet"),
    "refit": ("0", "--quiet"),
}


def marking(directory: Path) -> str:
    """The module whose functions leave a mark in `directory`, whose name is hidden in it."""
    return MARKING.format(here=str(directory).encode().hex())


class Theirs:
    """A study that somebody else has run, with a function of theirs under each key."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.state = directory / "their-state"
        self.run_dir = RunDir(directory / "run")
        self.marker = directory / "ran"

    @property
    def config(self) -> StudyConfig:
        """The study, as its run directory records it."""
        study = open_results(self.run_dir.root).study
        return study_of(study["settings"], Path(study["study_file"]))

    def foreign_keys(self) -> set[str]:
        """The keys of everything that is not known as this user's own."""
        recorded = sessions(self.run_dir)
        return {problem.key for problem in foreign(self.config, self.run_dir.root, recorded)}


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Theirs]:
    """From here on, every part of it that runs leaves a mark."""
    theirs = Theirs(tmp_path_factory.mktemp("theirs"))
    directory = theirs.directory
    (directory / "marking.py").write_text(marking(directory), encoding="utf-8")
    (directory / "study.toml").write_text(STUDY, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(STATE, str(theirs.state))
        run_dir = f"results.dir={theirs.run_dir.root}"
        sweeper.run(sweeper.load_study(directory / "study.toml", [run_dir]))
        export(theirs.run_dir.root, None, 0, directory / "best")
    (directory / "armed").touch()
    yield theirs
    assert not theirs.marker.exists(), "a test that trusts it has removed its mark"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory that commands are started in."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


def refusal_of(*words: str) -> SweeperError | None:
    """The message with which a command is refused; None if it ends in another way."""
    try:
        app_for(words)(words, prog_name="sweeper", standalone_mode=False)
    except SweeperError as error:
        return error
    except typer.Exit:
        return None
    return None


def ran_by_command() -> Mapping[str, str]:
    """The table of the guide: which code each command runs."""
    rows = re.findall(
        r"^\| `([\w-]+)` \| (.+) \|$", GUIDE.read_text(encoding="utf-8"), re.MULTILINE
    )
    return dict(rows)


def test_the_guide_says_for_every_command_what_it_runs() -> None:
    assert ran_by_command().keys() == COMMANDS.keys()
    trusting = {name for name, what in ran_by_command().items() if "only if trusted" in what}
    takes = {name for name in COMMANDS if takes_trust(name)}
    assert trusting == takes


def takes_trust(name: str) -> bool:
    """Whether a command has the option --trust-code."""
    command: Any = typer.main.get_command(app_for([name]))
    command = command.commands[name] if hasattr(command, "commands") else command
    return any("--trust-code" in parameter.opts for parameter in command.params)


def test_no_command_runs_code_of_a_run_directory_from_elsewhere(theirs: Theirs, here: Path) -> None:
    said = ran_by_command()
    note = theirs.run_dir.preparation
    content = note.read_bytes()
    note.unlink()  # for which `verify --repair` reads the data again
    before = contents(theirs.directory / "best")
    for name, more in ABOUT_RUNS.items():
        to = ("-o", str(theirs.directory / "trial.toml")) if name == "trial" else ()
        error = refusal_of(name, str(theirs.run_dir.root), *more, *to)

        assert not theirs.marker.exists(), name
        if name == "verify":
            assert not note.exists()
            note.write_bytes(content)
        elif said[name] == "nothing":
            assert error is None, name
        else:
            assert isinstance(error, SetupError), name
            assert {problem.key for problem in error.problems} == KEYS, name
            assert "--trust-code" in str(error)
    assert {path.name for path in here.iterdir()} == {"report.html", "study.db"}
    assert contents(theirs.directory / "best") == before


def test_a_refit_of_a_study_with_folds_from_elsewhere_does_not_read_its_data(
    tmp_path: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = Theirs(tmp_path)
    (tmp_path / "marking.py").write_text(marking(tmp_path), encoding="utf-8")
    (tmp_path / "study.toml").write_text(STUDY, encoding="utf-8")
    settings = f"results.dir={theirs.run_dir.root}", "study.folds=2"
    with monkeypatch.context() as patch:
        patch.setenv(STATE, str(theirs.state))
        sweeper.run(sweeper.load_study(tmp_path / "study.toml", settings))
    for file in (theirs.run_dir.ledger, theirs.run_dir.backup):  # as published tables only
        file.unlink()
    (tmp_path / "armed").touch()

    refused = refusal_of("refit", str(theirs.run_dir.root), "0", "--quiet")
    assert "--trust-code" in str(refused)
    assert not theirs.marker.exists()


def test_rows_that_a_session_records_do_not_make_verify_run_code(
    theirs: Theirs, here: Path
) -> None:
    run_dir = copy_of(theirs.run_dir, here / "run")
    with closing(Ledger.open(run_dir.ledger)) as ledger:
        ledger.add_session({**ledger.sessions()[-1], "rows": run_dir.rows.name})
    run_dir.rows.touch()

    assert refusal_of("verify", str(run_dir.root)) is None
    assert not theirs.marker.exists()


def test_trusted_code_runs(theirs: Theirs, here: Path) -> None:
    (here / "rows.csv").write_text("x0,x1\n1,2\n", encoding="utf-8")
    run_dir, rows = str(theirs.run_dir.root), str(here / "rows.csv")

    for words in (
        ("export", run_dir, "--to", "out", "--trust-code"),
        ("predict", "out", rows, "-o", "out.csv", "--trust-code"),
    ):
        refused = refusal_of(*words)
        assert refused is None or "x0" in str(refused), words
        assert theirs.marker.exists(), words
        theirs.marker.unlink()


def test_an_exported_directory_is_not_a_place_to_find_code_in(
    theirs: Theirs, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = here / "rows.csv"
    rows.write_text("x0,x1\n1,2\n", encoding="utf-8")
    best, average = theirs.directory / "best", here / "average"
    member = average / MEMBERS / "trial-0"
    shutil.copytree(best, member)
    shutil.copy(best / "marking.py", average)
    name = {"name": member.name, "count": 1, "digest": read_saved(member).digest}
    (average / ENSEMBLE_FILE).write_text(json.dumps({"members": [name]}), encoding="utf-8")

    for place, model in (
        (here, best),
        (best, "."),
        (best, MODEL_FILE),
        (average, "."),
        (member.parent, ".."),
        (average, member),
    ):
        monkeypatch.chdir(place)
        error = refusal_of("predict", str(model), str(rows))
        assert error is not None
        assert "names marking:build, marking:moves, whose source is not in" in str(error)
        with pytest.raises(SetupError, match="whose source is not in"):
            sweeper.load(model, base_dir=model if Path(model).is_dir() else ".")
        assert not theirs.marker.exists()


def test_an_exported_directory_has_no_absolute_path(theirs: Theirs) -> None:
    found, own = contents(theirs.directory / "best"), str(theirs.directory).encode()
    assert [name for name, content in found.items() if own in content] == []


def test_a_run_directory_is_the_users_own_if_its_session_is_signed(
    theirs: Theirs, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert theirs.foreign_keys() == KEYS
    monkeypatch.setenv(STATE, str(theirs.state))
    assert theirs.foreign_keys() == set()

    module = theirs.directory / "marking.py"
    text = module.read_text(encoding="utf-8")
    module.write_text(f"{text}\n# edited\n", encoding="utf-8")
    assert theirs.foreign_keys() == KEYS
    recorded = sessions(theirs.run_dir)
    found = {one.found for one in foreign(theirs.config, theirs.run_dir.root, recorded)}
    assert all("marking.py has changed since you ran the study" in one for one in found)
    module.write_text(text, encoding="utf-8")


def test_a_model_is_exported_with_the_source_that_it_was_trained_with(
    theirs: Theirs, here: Path
) -> None:
    module = theirs.directory / "marking.py"
    text = module.read_text(encoding="utf-8")
    module.write_text(f"{text}\n# edited\n", encoding="utf-8")
    command = ("export", str(theirs.run_dir.root), "--to", "best", "--trust-code")
    refusals = [refusal_of(*command)]
    with closing(Ledger.open(theirs.run_dir.ledger)):  # as while the study trains
        refusals.append(refusal_of(*command))
    module.write_text(text, encoding="utf-8")

    for refused in refusals:
        assert "marking.py has changed since the model was trained" in str(refused)
    assert not (here / "best").exists()


def test_a_signature_covers_the_functions_and_the_directory(
    theirs: Theirs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(STATE, str(theirs.state))
    recorded = sessions(theirs.run_dir)

    def keys(config: StudyConfig, *session: Mapping[str, Any]) -> set[str]:
        return {one.key for one in foreign(config, theirs.run_dir.root, session)}

    assert keys(theirs.config, *recorded) == set()
    forged = json.loads(json.dumps(recorded[0]))
    forged["signed"]["claims"]["functions"]["subprocess:Popen"] = {}
    assert keys(theirs.config, forged) == KEYS
    settings = theirs.config.canonical()
    settings["optimizer"]["name"] = "subprocess:Popen"
    other = study_of(settings, theirs.directory / "study.toml")
    assert keys(other, *recorded) == {"optimizer.name"}
    elsewhere = study_of(theirs.config.canonical(), theirs.run_dir.root / "study.toml")
    assert keys(elsewhere, *recorded) == KEYS
    for damaged in ({}, {"mac": "x"}, {"claims": {}, "mac": 3}, {"claims": [], "mac": "é"}):
        assert keys(theirs.config, {**recorded[0], "signed": damaged}) == KEYS


def test_code_at_hand_is_verified_by_its_digest(
    theirs: Theirs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(theirs.directory)
    assert theirs.foreign_keys() == set()
    module = theirs.directory / "marking.py"
    text = module.read_text(encoding="utf-8")
    module.write_text(f"{text}\n# edited\n", encoding="utf-8")
    assert theirs.foreign_keys() == KEYS
    module.write_text(text, encoding="utf-8")


def test_a_cluster_and_a_saved_model_are_known_by_the_signature_too(theirs: Theirs) -> None:
    settings = theirs.config.canonical()
    settings["execution"] |= {"threads": "auto", "workers": "auto"}
    settings["execution"]["engine"] = {"name": "dask", "address": "tcp://10.0.0.1:8786"}
    config = study_of(settings, theirs.directory / "study.toml")

    own = [{"signed": sign(config, "a digest"), "code": {}}]

    assert [*foreign(config, theirs.run_dir.root, own)] == []
    named = {one.key for one in foreign(config, theirs.run_dir.root, [])}
    assert named == KEYS | {"execution.engine"}
    assert not is_own_start(theirs.run_dir, "a digest")


@pytest.mark.parametrize(("text", "bends", "key"), PLACES.values(), ids=PLACES)
def test_untrusted_code_is_refused_for_every_setting(
    text: str, bends: tuple[str, ...], key: str, tmp_path: Path, theirs: Theirs
) -> None:
    """In a run directory, and in a model whose own directory has the code with its digest."""
    config = study_naming(tmp_path, text, bends)
    assert key in {one.key for one in foreign(config, tmp_path / "run", [])}

    file = read_saved(theirs.directory / "best")
    given = config.canonical()
    settings = {**file.record["settings"], **{name: given[name] for name in TABLES}}
    code = {"functions": [], "digests": source_digests("own:build", tmp_path), "texts": {}}
    record = {**file.record, "settings": settings, "code": code}
    (tmp_path / MODEL_FILE).write_bytes(content_of(file.tensors, record))
    with pytest.raises(SweeperError):
        sweeper.load(tmp_path)
    assert not (tmp_path / "imported").exists()


TABLES = ("study", "data", "model", "optimizer", "train", "schedule", "execution")


@pytest.mark.parametrize("key", ["model.function", "optimizer.name", "train.program"])
def test_an_installed_module_is_refused_also_with_its_digest(
    key: str, theirs: Theirs, here: Path
) -> None:
    file = read_saved(theirs.directory / "best")
    settings = json.loads(json.dumps(file.record["settings"]))
    settings["model"]["function"] = settings["optimizer"]["name"] = "optax:sgd"
    table, name = key.split(".")
    settings[table][name] = "subprocess:Popen"
    if key == "train.program":
        train = {"epochs": 2, "batch_size": 16, "task": "numbers", "program": "subprocess:Popen"}
        settings["train"] = {**train, "args": f"touch {here / 'ran'}", "shell": True}
    code = {"functions": [], "digests": source_digests("subprocess:Popen", here), "texts": {}}
    (here / "x.safetensors").write_bytes(
        content_of(file.tensors, {**file.record, "settings": settings, "code": code})
    )

    with pytest.raises(SetupError, match=rf"{key}: names subprocess:Popen, whose source is not"):
        sweeper.load(here / "x.safetensors", base_dir=here.parent)
    with pytest.raises(SetupError, match=rf"{key}: names subprocess:Popen, whose source is not"):
        sweeper.load(here / "x.safetensors", base_dir=Path(subprocess.__file__).parent)

    assert [path.name for path in here.iterdir()] == ["x.safetensors"]


def test_a_saved_model_to_start_from_runs_only_functions_of_the_study_itself(
    theirs: Theirs, tmp_path: Path
) -> None:
    text = STUDY.replace('"marking:moves"', '"adam"').replace("marking:Sampler", "tpe")
    mine = marking(tmp_path) + "# mine\n"
    (tmp_path / "marking.py").write_text(mine, encoding="utf-8")
    (tmp_path / "study.toml").write_text(text, encoding="utf-8")
    run_dir, best = RunDir(tmp_path / "run"), theirs.directory / "best"
    config = sweeper.load_study(tmp_path / "study.toml", [f"results.dir={run_dir.root}"])

    with pytest.raises(SetupError) as refused:
        find_start(config, run_dir, best, fresh=False)
    assert [problem.key for problem in refused.value.problems] == ["optimizer.name"]

    start = find_start(config, run_dir, best, fresh=False, trust_code=True)
    assert start is not None
    carried = (start.settings.base_dir / "marking.py").read_text(encoding="utf-8")
    assert carried == (theirs.directory / "marking.py").read_text(encoding="utf-8")
    assert not theirs.marker.exists()


@pytest.mark.parametrize(
    ("function", "known"),
    [
        ("optax:adamw", True),
        ("optax.contrib:schedule_free", True),
        ("equinox.nn:MLP", True),
        ("sweeper.models.mlp:MLP", True),
        ("equinox:tree_serialise_leaves", False),  # it writes a file
        ("equinox.nn:jax", False),
        ("sweeper.results.text_files:write_new", False),
        ("sweeper.programs.checkpoint:LaneFile", False),
        ("sweeper.programs.saved_file:Path", False),
        ("optax:nothing", False),
        ("optax.nothing:adam", False),
        ("subprocess:Popen", False),
    ],
)
def test_functions_of_known_packages_that_only_compute_are_known(
    function: str, known: bool
) -> None:
    assert is_known(function) is known


def test_a_file_in_the_directory_is_not_a_known_package(tmp_path: Path) -> None:
    (tmp_path / "optax.py").write_text("raise SystemExit\n", encoding="utf-8")

    assert not is_known("optax:adamw", tmp_path)
    assert "optax" in sys.modules


@pytest.mark.parametrize("name", ["../x.py", "/tmp/x.py", "a/../../x.py", "x.pth"])
def test_saved_source_is_written_below_its_own_directory(name: str, tmp_path: Path) -> None:
    code = Code(("x:f",), {name: ""}, {name: "raise SystemExit"})

    with pytest.raises(SetupError, match="carries a module under the name"):
        code.place_of("model", [("x:f", "model.function")], [tmp_path], trusted=True)


def test_links_pipes_and_endless_files_are_not_read(tmp_path: Path, theirs: Theirs) -> None:
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / MODEL_FILE).symlink_to(theirs.directory / "best" / MODEL_FILE)
    os.mkfifo(tmp_path / "pipe")
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(800_000_000)
    with (tmp_path / "header").open("wb") as file:
        file.write((90_000_000).to_bytes(8, "little"))
        file.truncate(100_000_000)
    for name, found in {
        str(tmp_path / "linked"): "a link, which is not followed",
        str(tmp_path / "pipe"): "not a regular file",
        "/dev/zero": "not a regular file",
        str(tmp_path / "sparse"): "is only read if it is trusted",
        str(tmp_path / "header"): "is only read if it is trusted",
    }.items():
        with pytest.raises(SetupError, match=found):
            sweeper.load(name)


def test_a_file_that_should_be_small_is_not_read_if_large(tmp_path: Path) -> None:
    run_dir = RunDir(tmp_path)
    for path in (run_dir.status, run_dir.preparation):
        with path.open("wb") as file:
            file.truncate(10**10)

    with pytest.raises(SetupError, match="File too large"):
        read_status(run_dir)
    with pytest.raises(NoteError, match="File too large"):
        read_note(run_dir.preparation, None)


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"model": {"kind": "mlp", "depth": 1, "width": 1_000_000}}, ""),
        ({"train": {"epochs": 10_000_000}}, ""),
        ({"train": {"epochs": 100_000}, "study": {"replicates": 30}}, ""),
        ({"execution": {"workers": 100_000}}, "execution.workers"),
        ({"execution": {"threads": 100_000}}, "execution.threads"),
    ],
)
def test_repeating_trials_that_need_gigabytes_requires_trust(
    settings: dict[str, Any], key: str, tmp_path: Path
) -> None:
    tables = parse(WINE, tmp_path / "study.toml").canonical()
    tables["search"] = {}
    spec = DataSpec(13, 3, 150, (), (), True, "float32", 0)
    refuse_oversized(study_of(tables, tmp_path / "study.toml"), RunDir(tmp_path), spec)
    large = study_of(
        {n: t | settings.get(n, {}) if isinstance(t, dict) else t for n, t in tables.items()},
        tmp_path / "study.toml",
    )

    with pytest.raises(SetupError, match="--trust-code") as refused:
        refuse_oversized(large, RunDir(tmp_path), spec)
    assert [problem.key for problem in refused.value.problems] == [key]


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (("settings", "model"), {"kind": "mlp", "depth": 1000, "width": 10_000_000}),
        (("settings", "model"), {"kind": "mlp", "depth": 10**9, "width": 8}),
        (("settings", "model"), {"kind": "python", "function": "equinox.nn:MLP", "depth": 10**7}),
        (("settings", "study", "replicates"), 10**7),
        (("settings", "train", "epochs"), 10**7),
        (("data", "spec", "in_size"), 10**18),
        (("data", "spec", "out_size"), 2**70),
        (("data", "spec", "dtype"), "V1000000000"),
        (("data", "spec"), None),
        (("settings",), []),
        (("code",), "x"),
        (("leaves",), 3),
        (("format",), {}),
    ],
)
def test_a_header_that_declares_too_much_is_refused_before_memory_is_taken(
    where: tuple[str, ...], value: Any, theirs: Theirs, tmp_path: Path
) -> None:
    file = read_saved(theirs.directory / "best")
    record = json.loads(json.dumps(file.record))
    record["settings"]["optimizer"] = {"name": "adam", "lr": 1e-3}
    record["settings"]["model"] = {"kind": "mlp", "depth": 1, "width": 8}
    inner = record
    for name in where[:-1]:
        inner = inner[name]
    inner[where[-1]] = value
    (tmp_path / MODEL_FILE).write_bytes(content_of(file.tensors, record))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    with pytest.raises(SweeperError):
        sweeper.load(tmp_path)

    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000  # KiB
