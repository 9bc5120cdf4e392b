"""Code in README and guides runs as it stands, and commands print what is shown."""

from __future__ import annotations

import re
import runpy
import shlex
import shutil
import sys
import tomllib
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import equinox as eqx
import pytest
from sklearn.datasets import load_digits

import sweeper
from sweeper.config import parse
from sweeper.config.toml import toml_text
from tests.command_line import CommandLine
from tests.documents import DOCUMENTS, GUIDES, README, ROOT, code
from tests.in_process import study_in, trained
from tests.small_studies import DIGITS

LIBRARIES = ("pandas", "duckdb", "duckdb", "polars")  # of the recipes, in order
RECIPES = [
    block
    for block in code("python", GUIDES["results"])
    if block.startswith(tuple(f"import {name}" for name in LIBRARIES))
]
# what takes long, and what a shell does; scripts/guides alone runs these
SLOW = re.compile(r"check-program|confirm|reproduce|SWEEPER_FAULT|runs/killed|XDG|engine")
NOT_WORDS = re.compile(r"[^A-Za-z_-]+")


@pytest.fixture(scope="module")
def script() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "scripts" / "guides"))


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory, script: dict[str, Any]) -> CommandLine:
    """The commands in a directory like that in which the documents' commands were run."""
    directory = tmp_path_factory.mktemp("guides")
    script["prepare"](directory)
    command = CommandLine(directory, tmp_path_factory.mktemp("cache"))
    assert command("run", "studies/digits.toml", "--quiet").returncode == 0
    return command


def consoles() -> Iterator[Any]:
    """Each console block that is quick."""
    for name, text in GUIDES.items():
        for number, block in enumerate(code("console", text)):
            if not SLOW.search(block):
                yield pytest.param(block, id=f"{name}-{number}")


@pytest.mark.parametrize("block", [*consoles()])
def test_a_command_prints_what_is_shown(
    block: str, command: CommandLine, script: dict[str, Any]
) -> None:
    """The same words; numbers, and how they are laid out, depend on the machine."""
    commands = script["commands_in"](block)
    printed = "".join(printed_by(line, command, script) for line in commands)
    shown = "".join(line for line in block.splitlines(keepends=True) if line[:2] != "$ ")
    assert words(shown) - words(printed) == set()
    assert bool(shown) == bool(printed)


def printed_by(line: str, command: CommandLine, script: dict[str, Any]) -> str:
    """What a line prints: quickly if it is a command alone, else in a shell."""
    in_a_shell = {"|", ";", "&&"} & {*shlex.shlex(line, punctuation_chars=True)}
    if in_a_shell or not line.startswith("sweeper "):
        return script["output_of"](line, command.directory)
    done = command(*shlex.split(line)[1:])
    return done.stdout + done.stderr


def words(text: str) -> set[str]:
    return {word for word in NOT_WORDS.split(text) if len(word) > 3}


def test_the_way_from_a_table_to_predictions_of_the_readme(
    tmp_path: Path, command: CommandLine, script: dict[str, Any]
) -> None:
    script["write_tables"](tmp_path)
    (block,) = code("console", README)
    here = CommandLine(tmp_path, command.cache)
    commands = [part for line in script["commands_in"](block) for part in line.split(" && ")]
    for line in commands:
        done = here(*shlex.split(line)[1:])
        assert done.returncode == 0, done.stderr
        assert "warning" not in done.stderr.lower()
        file = tmp_path / "customers.toml"
        smaller = re.sub(r"(n_trials|epochs)( *)= \d+", r"\1\2= 3", file.read_text("utf-8"))
        file.write_text(smaller, encoding="utf-8")
    rows = done.stdout.splitlines()
    assert rows[0].split(",")[:2] == ["customer", "stays"]
    assert len(rows) == 4


def fragments() -> Iterator[Any]:
    """Each block of TOML, with the study that it is a part of; a whole one has none."""
    for name, text in DOCUMENTS.items():
        for number, block in enumerate(code("toml", text)):
            (around,) = re.findall(rf"(.*)\n```toml\n{re.escape(block)}", text)
            within = re.fullmatch(r"<!-- in (studies/\w+\.toml) -->", around)
            study = within[1] if within else "studies/digits.toml"
            yield pytest.param(block, study, id=f"{name}-{number}")


@pytest.mark.parametrize(("block", "study"), [*fragments()])
def test_toml_is_a_study_file_or_fits_into_one(block: str, study: str, tmp_path: Path) -> None:
    if "version = 1" in block:
        parse(block, tmp_path / "study.toml")
        return
    whole = tomllib.loads((ROOT / study).read_text(encoding="utf-8"))
    shutil.copy(ROOT / "studies" / "heat.py", tmp_path)
    parse(toml_text(merged(whole, tomllib.loads(block))), tmp_path / "study.toml")


def merged(whole: dict[str, Any], part: dict[str, Any]) -> dict[str, Any]:
    """The tables of `whole` with the values of `part`."""
    own = {
        key: merged(whole[key], value) if isinstance(whole.get(key), dict) else value
        for key, value in part.items()
    }
    return {**whole, **own}


@pytest.fixture
def here(command: CommandLine, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with runs/digits and studies/, as the current one."""
    monkeypatch.chdir(command.directory)
    return command.directory


def run(block: str, name: str = "__main__") -> dict[str, Any]:
    """What a block of Python defines."""
    defined: dict[str, Any] = {"__name__": name}
    exec(compile(block, "guide", "exec"), defined)
    return defined


def test_there_is_a_recipe_for_each_library() -> None:
    assert [recipe.split()[1] for recipe in RECIPES] == [*LIBRARIES]


@pytest.mark.parametrize("recipe", RECIPES, ids=LIBRARIES)
def test_a_recipe_runs(recipe: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(recipe)
    assert len(capsys.readouterr().out.splitlines()) > 3


def test_a_study_runs_from_python_as_shown(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = code("python", README)
    assert block == code("python", GUIDES["python"])[0]
    run(block)
    (shown,) = code("text", GUIDES["python"])
    assert words(shown) - words(capsys.readouterr().out) == {"home"}


def test_a_model_predicts_and_trains_on_as_shown(
    here: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sweeper.command("export", "runs/digits", "--to", str(tmp_path / "best"))
    monkeypatch.chdir(tmp_path)
    rows = load_digits(as_frame=True)["data"].head(3)
    rows.to_csv("new_rows.csv", index=False)
    *_, predicting, training = code("python", GUIDES["python"])
    capsys.readouterr()
    saved = run(predicting)["saved"]
    assert len(capsys.readouterr().out.split()) == 3

    arrays = eqx.filter(saved.model, eqx.is_inexact_array)
    state = saved.optimizer.init(arrays)
    model, _ = run(training)["train_on"](saved, saved.model, state, arrays)
    assert not eqx.tree_equal(model, saved.model)


def test_user_code_trains_as_shown(tmp_path: Path) -> None:
    def trains(files: dict[str, str], *overrides: str, lr: str = "lr") -> bool:
        directory = tmp_path / str(len([*tmp_path.iterdir()]))
        directory.mkdir()
        for name, text in files.items():
            (directory / f"{name}.py").write_text(text, encoding="utf-8")
        search = f"search={{optimizer={{{lr}={{type='float', low=1e-4, high=1e-3}}}}}}"
        config = study_in(directory, DIGITS, "study.n_trials=2", search, *overrides)
        return bool(trained(config).trials()["value"].notna().all())

    blocks = code("python", GUIDES["models-and-programs"])
    model, residual, *_, applied, rate, poisson, program = blocks
    built, short = "model={kind='python', function='nets:build', width=8}", "train.epochs=2"
    smooth = "train={program='smooth:Smooth', task='numbers', weight=0.1, epochs=2, batch_size=64}"
    diabetes = "data={source='sklearn', name='diabetes', split={}}"
    assert trains({"nets": model, "smooth": program}, diabetes, built, smooth)
    table = "model={kind='python', function='residual_mlp:build', width=8, depth=2}"
    assert trains({"residual_mlp": residual}, short, table)
    decay = "optimizer={name='adamw', decay={other=false, where=[{ndim=2, decay=true}]}}"
    function = "model={kind='python', function='applied:build', width=8}"
    assert trains({"applied": applied}, short, function, decay)
    scheduled = f"{model}\n\n{rate}"
    assert trains({"nets": scheduled}, short, built, "optimizer={name='nets:adam'}", lr="peak")
    returned = "self.layers[1](jax.nn.relu(self.layers[0](x)))"
    assert returned in model
    rates = model.replace(returned, f"jax.numpy.exp({returned})")
    numbers = "data={source='sklearn', name='diabetes', target_scale='none'}"
    loss = "train={loss='nets:poisson', task='numbers', epochs=2, batch_size=64}"
    assert trains({"nets": f"{rates}\n\n{poisson}"}, numbers, built, loss)


def test_a_study_is_given_to_slurm_as_shown(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = []
    cluster = SimpleNamespace(scale=lambda jobs: None, scheduler_address="tcp://10.0.0.1:8786")
    jobqueue, distributed = ModuleType("dask_jobqueue"), ModuleType("dask.distributed")
    jobqueue.SLURMCluster = lambda **options: cluster  # pyright: ignore
    distributed.Client = lambda cluster: nullcontext(  # pyright: ignore
        SimpleNamespace(wait_for_workers=lambda count: None)
    )
    monkeypatch.setitem(sys.modules, "dask_jobqueue", jobqueue)
    monkeypatch.setitem(sys.modules, "dask.distributed", distributed)
    monkeypatch.setattr(sweeper, "run", given.append)
    (block,) = code("python", GUIDES["clusters"])
    run(block)
    assert given[0].execution.engine.address == cluster.scheduler_address


def test_every_block_of_python_is_run() -> None:
    """By a test above or in tests/export, integrations, notebooks or test_estimators.py."""
    counts = {name: len(code("python", text)) for name, text in DOCUMENTS.items()}
    assert {name.split("/")[-1]: count for name, count in counts.items() if count} == {
        "README.md": 1,
        "clusters.md": 1,
        "models-and-programs.md": 10,
        "python.md": 5,
        "results.md": 4,
    }


def test_an_exported_directory_holds_what_is_shown(here: Path, tmp_path: Path) -> None:
    (tree,) = code("text", GUIDES["winner"])
    sweeper.command("export", "runs/digits", "--to", str(tmp_path / "best"))
    named = re.findall(r"^  (\S+)", tree, re.MULTILINE)
    assert sorted(named) == sorted(path.name for path in (tmp_path / "best").iterdir())
