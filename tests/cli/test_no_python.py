"""A study file that names Python code runs it, and `validate --no-python` does not."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import sklearn

import sweeper
from sweeper import api
from sweeper.config import StudyConfig
from sweeper.errors import StudyError
from tests.command_line import STUDY, CommandLine
from tests.small_studies import COUPLED, PARTS, bent, write_mixture

assert sklearn.__version__  # if it is imported, data is prepared in this process

# imports and calls of this code leave a file behind
_MODULE = """\
from pathlib import Path
from optuna.pruners import NopPruner
from optuna.samplers import RandomSampler
(Path(__file__).parent / "imported").touch()
import equinox as eqx
import jax.numpy as jnp
import optax

def build(in_size, out_size, key):
    return eqx.nn.Linear(in_size, out_size, key=key)

def moves(lr):
    return optax.sgd(lr)

def error(outputs, y):
    return jnp.mean(outputs ** 2)

def rivals(models, batch, key):
    return {name: jnp.mean(batch.x) for name in models}

def rows():
    return [[1.0]] * 50, [0, 1] * 25

class Gate(eqx.Module):
    pass

class Sampler(RandomSampler):
    pass

class Pruner(NopPruner):
    pass

class Program:
    def init(self, model, optimizer, key):
        return model, optimizer.init(eqx.filter(model, eqx.is_inexact_array))

    def step(self, model, opt_state, batch, optimizer, key):
        return model, opt_state, {"loss": jnp.mean(batch.x)}

    def evaluate(self, model, batch, key):
        return {"loss": jnp.mean(batch.x)}
"""
_PYTHON = 'model={kind="python", function="own:build"}'
_ROWS = 'data={source="python", function="own:rows"}'
_PATIENT = 'study.pruner={name="patient", patience=1, wrapped={name="own:Pruner"}}'
_WRAPPED_TWICE = (
    'study.pruner={name="patient", patience=1, '
    'wrapped={name="patient", patience=1, wrapped={name="own:Pruner"}}}'
)
_PROGRAM = ('train.program="own:Program"', 'train.task="classes"')
_DECAY = ('optimizer.decay={"own:Gate" = false, other = true}', "optimizer.weight_decay=0.1")
_LOSS = ('train.loss="own:error"', 'train.task="classes"')
_PART = 'model.a={kind="python", function="own:build", out_size=4}'
_PARTS_OWN = 'optimizer={a={name="own:moves",lr=1e-3}, b={name="adam"}, c={name="adam"}}'
_FOLLOW = 'train.losses.follow={of="c", against="b", kind="own:error"}'
_RIVALS = ('train.objective="own:rivals"', "train.clip=0.01")

# a study, its changes, the key under which Python is named, and the table that it leaves unread
PLACES: dict[str, tuple[str, tuple[str, ...], str]] = {
    "a model": (STUDY, (_PYTHON,), "model.function"),
    "rows": (STUDY, (_ROWS,), "data.function"),
    "a sampler": (STUDY, ('study.sampler={name="own:Sampler"}',), "study.sampler.name"),
    "a pruner": (STUDY, ('study.pruner={name="own:Pruner"}',), "study.pruner.name"),
    "a wrapped pruner": (STUDY, (_PATIENT,), "study.pruner.wrapped.name"),
    "a pruner in two": (STUDY, (_WRAPPED_TWICE,), "study.pruner.wrapped.wrapped.name"),
    "an optimizer": (STUDY, ('optimizer={name="own:moves", lr=1e-3}',), "optimizer.name"),
    "a class that decays": (STUDY, _DECAY, "optimizer.decay"),
    "a loss": (STUDY, _LOSS, "train.loss"),
    "a metric": (STUDY, ('train.metrics=["own:error"]',), "train.metrics"),
    "a program": (STUDY, _PROGRAM, "train.program"),
    "a part": (PARTS, (_PART,), "model.a.function"),
    "an optimizer of a part": (PARTS, (_PARTS_OWN,), "optimizer.a.name"),
    "a loss between parts": (PARTS, (_FOLLOW,), "train.losses.follow.kind"),
    "an objective": (COUPLED, _RIVALS, "train.objective"),
}


def study_of(directory: Path, text: str, bends: tuple[str, ...]) -> StudyConfig:
    (directory / "own.py").write_text(_MODULE, encoding="utf-8")
    write_mixture(directory)
    if _RIVALS[0] in bends:
        text = text.replace("clip = 0.05\n", "")
        bends = bends[:1]
    (directory / "study.toml").write_text(bent(text, *bends), encoding="utf-8")
    return sweeper.load_study(directory / "study.toml", [f"results.dir={directory / 'run'}"])


@pytest.mark.parametrize(("text", "bends", "key"), PLACES.values(), ids=PLACES)
def test_no_python_that_a_study_names_is_run(
    text: str, bends: tuple[str, ...], key: str, tmp_path: Path
) -> None:
    config = study_of(tmp_path, text, bends)
    assert key in config.functions.values()
    checked = api.check(config, python=False)
    assert not (tmp_path / "imported").exists()
    assert not any(
        getattr(module, "__file__", "") == str(tmp_path / "own.py")
        for module in [*sys.modules.values()]
    )
    (line, *_) = [line for line in checked.unchecked if line.startswith(f"{key} = 'own:")]
    assert "whether it exists" in line
    assert (checked.train_rows is None) == (key == "data.function")


def test_the_same_study_with_python_runs_it(tmp_path: Path) -> None:
    config = study_of(tmp_path, STUDY, (_PYTHON,))
    assert api.check(config).unchecked == ()
    assert (tmp_path / "imported").exists()


def test_everything_else_is_still_checked_without_python(tmp_path: Path) -> None:
    bends = ('study.sampler={name="own:Sampler"}', "train.batch_size=5000")
    with pytest.raises(Exception, match=r"train\.batch_size: a batch of 5000 rows"):
        api.check(study_of(tmp_path, STUDY, bends), python=False)
    bends = ('study.sampler={name="own:Sampler"}', 'study.pruner={name="median", n_min_trials=0}')
    with pytest.raises(StudyError, match=r"study\.pruner\.n_min_trials: 0 does not fit"):
        api.check(study_of(tmp_path, STUDY, bends), python=False)
    bends = ('study.sampler={name="own:Sampler"}', "optimizer.decay={conv2d = true}")
    with pytest.raises(StudyError, match=r"optimizer\.decay\.conv2d"):
        api.check(study_of(tmp_path, STUDY, (*bends, "optimizer.weight_decay=0.1")), python=False)
    assert not (tmp_path / "imported").exists()


def test_a_run_directory_is_checked_without_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Changed code is detected without running it, including that of an installed package."""
    package = tmp_path / "elsewhere" / "kit"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("from pathlib import Path\nPath('imported').touch()\n")
    (package / "nets.py").write_text(_MODULE.replace('"imported"', '"nets-imported"'))
    monkeypatch.syspath_prepend(tmp_path / "elsewhere")
    monkeypatch.chdir(tmp_path)
    few = ("study.n_trials=1", "train.epochs=1", "search={}")
    bends = ('model={kind="python", function="kit.nets:build"}', *few)
    sweeper.run(study_of(tmp_path, STUDY, bends))
    for name in [name for name in sys.modules if name.partition(".")[0] == "kit"]:
        monkeypatch.delitem(sys.modules, name)
    (tmp_path / "imported").unlink()
    (package / "nets-imported").unlink()

    assert api.check(study_of(tmp_path, STUDY, bends), python=False).train_rows
    with (package / "nets.py").open("a") as file:
        file.write("# more\n")
    with pytest.raises(StudyError, match=r"model\.function: nets\.py has changed since"):
        api.check(study_of(tmp_path, STUDY, bends), python=False)
    assert not (tmp_path / "imported").exists()
    assert not (package / "nets-imported").exists()


def test_the_command_lists_what_it_did_not_check(tmp_path: Path, command: CommandLine) -> None:
    (tmp_path / "own.py").write_text(_MODULE, encoding="utf-8")
    command.write(bent(STUDY, _PYTHON, _ROWS, 'study.sampler={name="own:Sampler"}'))
    shown = command("validate", "study.toml", "--no-python")
    assert (shown.returncode, shown.stderr) == (0, "")
    for key in ("model.function = 'own:build'", "data.function = 'own:rows'", "study.sampler.name"):
        assert key in shown.stdout
    answer = json.loads(command("validate", "study.toml", "--no-python", "--json").stdout)
    assert (answer["train_rows"], len(answer["unchecked"])) == (None, 3)
    assert command("schema", "results", "study.toml").returncode == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["own.py", "study.toml"]


def test_without_python_rows_are_only_read_from_files(tmp_path: Path) -> None:
    objects = np.array([{"a": 1}] * 20, dtype=object)
    np.savez(tmp_path / "rows.npz", x=objects, y=np.arange(20))
    bends = ('data={source="npz", path="rows.npz"}',)
    (tmp_path / "study.toml").write_text(bent(STUDY, *bends), encoding="utf-8")
    with pytest.raises(Exception, match="without objects"):
        api.check(sweeper.load_study(tmp_path / "study.toml"), python=False)
