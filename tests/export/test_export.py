"""An exported model is one directory, and behaves there as in its study."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
import optax
import pandas as pd
import pytest
from safetensors.numpy import load, save

import sweeper
from sweeper.errors import SetupError, StudyError, SweeperError
from sweeper.export import export
from sweeper.export.saved_model import OtherVersionsWarning, SavedModel
from sweeper.programs.saved_file import MODEL_FILE
from tests.command_line import CommandLine
from tests.executors.test_jax_setup import OTHERS, own_settings
from tests.in_process import study_in, trained
from tests.processes import ROOT
from tests.standalone import standalone

NETS = """
import equinox as eqx
import jax
import jax.numpy as jnp


class Gated(eqx.Module):
    gate: eqx.nn.Linear
    out: eqx.nn.Linear
    scale: jax.Array
    order: jax.Array
    drop: eqx.nn.Dropout

    def __call__(self, x, key=None):
        gated = jnp.tanh(self.gate(x))[self.order] * self.scale
        return self.out(self.drop(gated, key=key))


def build(in_size, out_size, units, key):
    first, second = jax.random.split(key)
    gate, out = eqx.nn.Linear(in_size, units, key=first), eqx.nn.Linear(units, out_size, key=second)
    return Gated(gate, out, jnp.ones(units), jnp.arange(units)[::-1], eqx.nn.Dropout(0.2))
"""
STUDY = """\
version = 1
[study]
name = "plants"
metric = "val_loss"
direction = "minimize"
n_trials = 4
replicates = 2
sampler = { name = "grid" }
[data]
source = "csv"
path = "plants.csv"
target = "height"
impute = "median"
split = { val = 0.25, test = 0.0 }
[model]
kind = "python"
function = "nets:build"
[optimizer]
name = "adam"
lr = 1e-2
schedule = { name = "cosine" }
[train]
loss = "mse"
epochs = 3
batch_size = 16
[search]
model.units = { type = "categorical", choices = [4, 6] }
optimizer.lr = { type = "categorical", choices = [1e-3, 1e-2] }
[execution]
strategy = "exact"
threads = 1
workers = 0
[results]
dir = "run"
keep_models = 3
save_optimizer = true
"""
RNG = np.random.default_rng(0)
ROWS = pd.DataFrame(
    {
        "water": np.where(RNG.random(80) < 0.1, np.nan, RNG.normal(5, 2, 80)),
        "soil": RNG.choice(["clay", "loam", "sand"], 80),
        "height": RNG.normal(30, 10, 80),
    }
)
# code for a fresh interpreter, which knows nothing of the study
ELSEWHERE = """
import sys
import numpy as np, pandas as pd, sweeper
model = sweeper.load(sys.argv[1], trust_code=True)
np.save(sys.argv[3], model.predict(pd.read_csv(sys.argv[2])))
"""

# the results of `load.py` for tables of several kinds
ALONE = """
import sys
sys.path.insert(0, sys.argv[1])
import load, numpy as np, pandas as pd

class Frame:  # as Polars has it: columns by name, and no keys
    def __init__(self, rows):
        self.rows, self.columns = rows, [*rows]
    def __len__(self):
        return len(self.rows)
    def __getitem__(self, name):
        return self.rows[name].to_numpy()

rows = pd.read_csv(sys.argv[2])[["soil", "water"]]
rows.loc[3, "soil"] = None
wanted = load.predict({name: rows[name].to_numpy() for name in rows})
nullable = [rows.convert_dtypes(dtype_backend=kind) for kind in ("numpy_nullable", "pyarrow")]
for kind in (rows, Frame(rows), *nullable):
    print(np.array_equal(load.predict(kind), wanted))
try:
    load.predict(rows.assign(water=np.inf))
except ValueError as error:
    print(error)
"""


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a finished study, with its best model exported."""
    directory = tmp_path_factory.mktemp("plants")
    ROWS.to_csv(directory / "plants.csv", index=False)
    (directory / "nets.py").write_text(NETS, encoding="utf-8")
    (directory / "study.toml").write_text(STUDY, encoding="utf-8")
    run_dir = directory / "run"
    sweeper.run(sweeper.load_study(directory / "study.toml", [f"results.dir={run_dir}"]))
    export(run_dir, None, 0, directory / "best")
    return directory


TRUST_NEEDED = (
    "its own code only runs in a directory with the same `nets.py`: copy it to the current "
    "directory, or trust this model with `--trust-code` (in Python `trust_code=True`)"
)


def test_a_module_in_another_encoding_is_exported_with_it(study: Path, tmp_path: Path) -> None:
    text = f"# coding: latin-1\n# von der Gießkanne\n{NETS}".encode("latin-1")
    (tmp_path / "nets.py").write_bytes(text)
    shutil.copy(study / "plants.csv", tmp_path)
    (tmp_path / "study.toml").write_text(STUDY, encoding="utf-8")
    overrides = [f"results.dir={tmp_path / 'run'}"]
    results = sweeper.run(sweeper.load_study(tmp_path / "study.toml", overrides))
    export(results.run_dir.root, None, 0, tmp_path / "best")
    assert (tmp_path / "best" / "nets.py").read_bytes() == text
    given = {"water": ROWS["water"].to_numpy(), "soil": ROWS["soil"].to_numpy(object)}
    found = standalone(tmp_path / "best", tmp_path, {"y": "load.predict(given)"}, **given)
    trusted = sweeper.load(tmp_path / "best", base_dir=tmp_path / "none", trust_code=True)
    np.testing.assert_allclose(found["y"], trusted.predict(ROWS), rtol=1e-5)


@pytest.fixture
def loaded(study: Path) -> SavedModel:
    return sweeper.load(study / "best" / MODEL_FILE, base_dir=study)


@pytest.mark.slow
def test_predictions_are_those_of_the_weights_that_were_kept(
    study: Path, loaded: SavedModel
) -> None:
    """The weights as Equinox wrote them, in a network built here, on features scaled by hand."""
    row = sweeper.open_results(study / "run").best(1).iloc[0]
    units = int(row["params_units"])
    namespace: dict[str, Any] = {"__name__": "plain_nets"}
    exec(NETS, namespace)
    built = namespace["build"](in_size=4, out_size=1, units=units, key=jax.random.key(1))
    net = eqx.tree_deserialise_leaves(study / "run" / row["model_path"], built)
    net = eqx.nn.inference_mode(net)
    config = sweeper.load_study(study / "study.toml")
    from sweeper.data.prepare import prepare

    data = prepare(config)
    outputs = np.asarray(jax.vmap(net)(data.x_val))[:, 0]
    expected = outputs * data.y_scale[0] + data.y_mean[0]
    heights = data.y_val[:, 0] * data.y_scale[0] + data.y_mean[0]
    of_val = np.concatenate([np.flatnonzero(np.isclose(ROWS["height"], h)) for h in heights])

    assert loaded.params == {"units": units, "lr": row["params_lr"]}
    assert loaded.feature_names == data.feature_names
    assert loaded.info["trial"] == row["trial_number"]
    np.testing.assert_array_equal(loaded.features(ROWS.iloc[of_val]), data.x_val)
    np.testing.assert_allclose(loaded.predict(ROWS.iloc[of_val]), expected, rtol=1e-5)


def test_a_fresh_interpreter_elsewhere_predicts_the_same(
    study: Path, loaded: SavedModel, tmp_path: Path
) -> None:
    """From the file only: it contains the user's module, which runs because it is trusted."""
    (tmp_path / "sent").mkdir()
    record = Path(shutil.copy(study / "best" / MODEL_FILE, tmp_path / "sent"))
    moved = study.with_name("moved")
    study.rename(moved)  # neither study nor module is in its old place
    try:
        arguments = [str(record), str(moved / "plants.csv"), str(tmp_path / "out.npy")]
        done = subprocess.run(
            [sys.executable, "-c", ELSEWHERE, *arguments],
            cwd=tmp_path,
            env={"PYTHONPATH": str(ROOT), "PATH": "", "HOME": str(tmp_path)},
            capture_output=True,
            text=True,
        )
    finally:
        moved.rename(study)

    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy"), loaded.predict(ROWS))
    with pytest.raises(SetupError, match="names nets:build, whose source is not in"):
        sweeper.load(record)
    (tmp_path / "nets.py").write_text(NETS.replace("tanh", "sin"), encoding="utf-8")
    with pytest.raises(SetupError, match=r"names nets:build, and .* has different source for it"):
        sweeper.load(record, base_dir=tmp_path)


def test_the_exported_module_predicts_the_same_with_equinox_alone(
    study: Path, loaded: SavedModel, tmp_path: Path
) -> None:
    given = {"water": ROWS["water"].to_numpy(), "soil": ROWS["soil"].to_numpy(object)}
    found = standalone(study / "best", tmp_path, {"predict": "load.predict(given)"}, **given)

    np.testing.assert_allclose(found["predict"], loaded.predict(ROWS), rtol=1e-5)
    assert (study / "best" / "nets.py").read_text(encoding="utf-8") == NETS
    card = (study / "best" / "README.md").read_text(encoding="utf-8")
    assert "copied here: `nets.py`." in card
    assert "`load.py` runs it." in card
    assert f"However, {TRUST_NEEDED}." in card


MIXED = """
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np


class Mixed(eqx.Module):
    first: eqx.nn.Linear
    last: eqx.nn.Linear
    scale: np.ndarray
    norm: eqx.nn.BatchNorm | None

    def __init__(self, in_size, out_size, dtype, key, has_norm=False):
        self.first = eqx.nn.Linear(in_size, 4, key=key, dtype=dtype)
        self.last = eqx.nn.Linear(4, out_size, key=key)
        self.scale = np.full(4, 0.5, np.float16)
        self.norm = eqx.nn.BatchNorm(4, "batch", mode="ema") if has_norm else None

    def __call__(self, x, state=None):
        x = jnp.tanh(self.first(x)) * self.scale
        if self.norm is None:
            return self.last(x)
        x, state = self.norm(x, state)
        return self.last(x), state


def plain(in_size, out_size, dtype, key):
    return Mixed(in_size, out_size, dtype, key)


def normed(in_size, out_size, dtype, key):
    return eqx.nn.make_with_state(Mixed)(in_size, out_size, dtype, key, has_norm=True)
"""


@pytest.mark.parametrize("function", ["plain", "normed"])
@pytest.mark.parametrize(("precision", "dtype"), [("float32", "bfloat16"), ("float64", "float32")])
def test_layers_that_a_function_builds_in_another_precision_are_those_that_were_trained(
    precision: str, dtype: str, function: str, tmp_path: Path
) -> None:
    ROWS.to_csv(tmp_path / "plants.csv", index=False)
    (tmp_path / "mixed.py").write_text(MIXED, encoding="utf-8")
    model = f"model={{kind='python', function='mixed:{function}', dtype='{dtype}'}}"
    search = "search={optimizer.lr={type='categorical', choices=[1e-2]}}"
    settings = ("study.n_trials=1", "study.replicates=1", f"execution.precision={precision}")
    results = trained(study_in(tmp_path, STUDY, model, search, *settings))
    export(results.run_dir.root, None, 0, tmp_path / "best")
    given = {"water": ROWS["water"].to_numpy(), "soil": ROWS["soil"].to_numpy(object)}

    found = standalone(tmp_path / "best", tmp_path, {"predict": "load.predict(given)"}, **given)

    with jax.enable_x64(precision == "float64"):
        expected = sweeper.load(tmp_path / "best", base_dir=tmp_path).predict(ROWS)
    np.testing.assert_allclose(found["predict"], expected, rtol=1e-5)


def test_the_exported_module_refuses_to_run_another_models_code(
    study: Path, tmp_path: Path
) -> None:
    code = "import sys\nfor one in sys.argv[1:]:\n    exec(open(one).read(), {'__file__': one})"
    exports = [study / "best", tmp_path / "same", tmp_path / "edited"]
    for copy in exports[1:]:
        shutil.copytree(study / "best", copy)
    (tmp_path / "edited" / "nets.py").write_text(NETS.replace("tanh", "sin"), encoding="utf-8")
    scripts = [str(one / "load.py") for one in exports]
    done = subprocess.run(
        [sys.executable, "-c", code, *scripts], capture_output=True, text=True, check=False
    )
    error = f"ImportError: {study / 'best' / 'nets.py'}, which differs from {tmp_path}/edited"
    assert error in done.stderr
    subprocess.run([sys.executable, "-c", code, *scripts[:2]], check=True)


def test_a_table_of_any_kind_is_read_by_its_names(study: Path) -> None:
    arguments = [str(study / "best"), str(study / "plants.csv")]
    done = subprocess.run(
        [sys.executable, "-c", ALONE, *arguments],
        capture_output=True,
        text=True,
        cwd=study,
        env={**os.environ, "JAX_ENABLE_X64": "1"},  # its numbers stay float32
    )

    assert done.stdout.splitlines() == [*["True"] * 4, "a number is infinite"]
    warned = {line.partition("UserWarning: ")[2] for line in done.stderr.splitlines()}
    assert warned - {""} == {
        "'water' has missing values in 9 of 80 rows, filled as in training",
        "'soil' has missing values, which no training row had; they are taken as none of the known "
        "categories",
    }


def test_predictions_do_not_depend_on_the_callers_jax_settings(
    study: Path, loaded: SavedModel
) -> None:
    expected = loaded.predict(ROWS)
    with own_settings(OTHERS):
        jax.clear_caches()
        theirs = dict(jax.config.values)
        found = sweeper.load(study / "best", base_dir=study).predict(ROWS)
        assert dict(jax.config.values) == theirs
    np.testing.assert_array_equal(found, expected)


def test_the_optimizer_is_from_optax_and_has_its_state(loaded: SavedModel) -> None:
    parameters = eqx.filter(loaded.model, eqx.is_inexact_array)
    gradients = jax.tree.map(lambda leaf: leaf * 0, parameters)

    updates, state = loaded.optimizer.update(gradients, loaded.opt_state, parameters)

    assert isinstance(loaded.optimizer, optax.GradientTransformation)
    assert jax.tree.structure(updates) == jax.tree.structure(parameters)
    counts = [int(leaf) for leaf in jax.tree.leaves(state) if leaf.shape == ()]
    assert counts == [3 * 3 + 1] * 2, "of Adam and of the schedule, after 3 epochs of 3 steps"
    assert loaded.trained is loaded.model
    fresh = loaded.optimizer.init(parameters)
    assert jax.tree.structure(fresh) == jax.tree.structure(loaded.opt_state)


def test_the_command_writes_the_file(study: Path, command: CommandLine) -> None:
    done = command("export", str(study / "run"), "--member", "1", "--to", "out/mine")

    assert (done.returncode, done.stderr) == (0, "")
    best = sweeper.open_results(study / "run").best(1)["trial_number"][0]
    assert done.stdout == (
        f"trial {best} (replicate 1; `--member` exports another), described in "
        "out/mine/README.md, was written to out/mine\n"
        "predict rows with `python -m sweeper predict out/mine new.csv`, "
        f'or load it in Python with `sweeper.load("out/mine")`; {TRUST_NEEDED}\n'
    )
    path = command.directory / "out" / "mine"
    assert sweeper.load(path, base_dir=study).info["replicate"] == 1
    card = (path / "README.md").read_text(encoding="utf-8")
    assert " parameters, replicate 1, trained for " in card
    assert "; the trial is complete." in card
    assert "Means over the 2 models of the trial; this is one of them." in card
    again = command("export", str(study / "study.toml"))
    assert again.returncode == 2
    assert "a file, not a run directory" in again.stderr


def test_every_member_and_every_kept_trial_can_be_exported(study: Path, tmp_path: Path) -> None:
    trials = sweeper.open_results(study / "run").trials().set_index("trial_number")
    kept = [int(number) for number in trials.index[trials["model_path"].notna()]]
    other = next(number for number in trials.index if number not in kept)
    first, second = tmp_path / "0", tmp_path / "1"

    assert export(study / "run", kept[0], 0, first) == kept[0]
    export(study / "run", kept[0], 1, second)

    one, two = (sweeper.load(path, base_dir=study) for path in (first, second))
    assert (one.info["replicate"], two.info["replicate"]) == (0, 1)
    assert not np.allclose(one.predict(ROWS), two.predict(ROWS))
    for number, member, path, message in (
        (other, 0, tmp_path / "x", f"the weights of trial {other} are not kept; use one of"),
        (kept[0], 2, tmp_path / "x", "has 2 members, but no member 2; write 0 to 1"),
        (
            kept[0],
            0,
            first,
            "this directory already exists; choose another with --to, or remove it",
        ),
        (99, 0, tmp_path / "x", "no trial 99 has ended; use a trained trial: 0 to 3"),
        (99, 0, first, "no trial 99 has ended; use a trained trial: 0 to 3"),
    ):
        with pytest.raises(StudyError) as refusal:
            export(study / "run", number, member, path)
        assert message in str(refusal.value)
    with pytest.raises(SetupError, match="only the weights of a run directory"):
        sweeper.load(study / "run" / "models" / f"trial-{kept[0]:06d}.safetensors")


def changed(content: bytes, **metadata: str) -> bytes:
    """The file with other metadata."""
    head = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])["__metadata__"]
    return save(load(content), metadata={**head, **metadata})


def test_a_damaged_file_is_refused_and_the_leaf_is_named(study: Path, tmp_path: Path) -> None:
    content = (study / "best" / MODEL_FILE).read_bytes()
    path = tmp_path / "best.safetensors"
    tensors = load(content)
    head = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])["__metadata__"]
    name = "model/gate/weight"
    flipped = tensors[name].copy()
    flipped.view(np.uint8).flat[0] ^= 1
    swapped = {"model/gate/bias": tensors["model/scale"], "model/scale": tensors["model/gate/bias"]}
    less = {key: leaf for key, leaf in tensors.items() if key != name}
    cases = {
        f"{name}: the leaf is damaged": save({**tensors, name: flipped}, metadata=head),
        "model/gate/bias: the leaf is damaged": save({**tensors, **swapped}, metadata=head),
        f"{name}: the leaf is missing": save(less, metadata=head),
        "model/more: a leaf that is not in its header": save(
            {**tensors, "model/more": flipped}, metadata=head
        ),
        f"{name}: float32[1]": save({**tensors, name: flipped.ravel()[:1]}, metadata=head),
        "its header is damaged": changed(content, sweeper=head["sweeper"].replace("plants", "x")),
        "not a saved model of sweeper": save(tensors),
        "not a saved model: ": content[:-1],
        "is a pointer of Git LFS, not the file itself; run `git lfs pull`": (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"
        ),
    }
    for message, damaged in cases.items():
        path.write_bytes(damaged)
        with pytest.raises(SetupError) as refusal:
            sweeper.load(path)
        assert message in str(refusal.value)
    path.unlink()
    with pytest.raises(SweeperError, match="No such file"):
        sweeper.load(path)


def test_weights_in_equinoxs_format_are_refused_with_a_hint(
    tmp_path: Path,
) -> None:
    path, saved = tmp_path / "trial-000000.eqx", tmp_path / "trial-000000.safetensors"
    path.write_bytes(b"\x93NUMPY\x01\x00")
    for hint in ("use a directory that `export` wrote", f"use {saved}"):
        with pytest.raises(SetupError, match="in Equinox's own format") as refusal:
            sweeper.load(path)
        assert refusal.value.problems[0].hint == hint
        saved.touch()


def test_an_exported_directory_names_no_path_of_this_machine(study: Path) -> None:
    files = [path for path in (study / "best").glob("*") if path.is_file()]
    assert [path.name for path in files if str(study).encode() in path.read_bytes()] == []
    trial = sweeper.load_study(study / "best" / "trial.toml")
    assert (trial.base_dir / trial.canonical()["data"]["path"]).samefile(study / "plants.csv")


def test_other_versions_are_reported_and_another_precision_is_refused(
    study: Path, tmp_path: Path
) -> None:
    from sweeper.programs.saved_file import content_of, read_saved

    file, path = read_saved(study / "best" / MODEL_FILE), tmp_path / "best.safetensors"
    versions = {**file.record["versions"], "optax": "0.0.1"}
    path.write_bytes(content_of(file.tensors, file.record, versions))
    with pytest.warns(OtherVersionsWarning, match=r"was written by optax 0\.0\.1, but"):
        sweeper.load(path, base_dir=study)

    settings = json.loads(json.dumps(file.record["settings"]))
    settings["optimizer"]["name"] = "sgd"
    del settings["optimizer"]["b1"], settings["optimizer"]["b2"], settings["optimizer"]["eps"]
    path.write_bytes(content_of(file.tensors, {**file.record, "settings": settings}))
    with pytest.raises(SetupError, match="leaf optimizer/0/trace/gate/weight is missing"):
        sweeper.load(path, base_dir=study)

    spec = {**file.record["data"]["spec"], "dtype": "float64"}
    data = {**file.record["data"], "spec": spec}
    path.write_bytes(content_of(file.tensors, {**file.record, "data": data}))
    with pytest.raises(
        SetupError, match=("its numbers are float64, but JAX uses float32; call jax")
    ):
        sweeper.load(path, base_dir=study)


def test_trials_start_from_the_same_user_defined_model(
    study: Path, loaded: SavedModel, tmp_path: Path
) -> None:
    """Its arrays are compared before the study starts, since settings do not determine them."""
    shutil.copy(study / "plants.csv", tmp_path)
    text = STUDY.partition("model.units")[0] + STUDY.partition("choices = [4, 6] }\n")[2]
    text = text.replace('"nets:build"', f'"nets:build"\nunits = {loaded.params["units"]}')
    (tmp_path / "study.toml").write_text(text, encoding="utf-8")
    other = NETS.replace("self.out(", "self.more * self.out(").replace(
        "scale: jax.Array", "scale: jax.Array\n    more: jax.Array"
    )
    (tmp_path / "nets.py").write_text(
        other.replace("jnp.ones(units),", "jnp.ones(units), jnp.ones(1),"), encoding="utf-8"
    )
    config = sweeper.load_study(tmp_path / "study.toml", [f"results.dir={tmp_path / 'run'}"])

    with pytest.raises(SetupError, match="leaf model/more is missing; use the versions and the"):
        sweeper.run(config, continue_from=study / "best" / MODEL_FILE)

    assert not (tmp_path / "run").exists()


READING = """
from pathlib import Path
import equinox as eqx
import jax.numpy as jnp
import numpy as np


def build(in_size, out_size, key):
    linear = eqx.nn.Linear(in_size, out_size, key=key)
    bias = jnp.asarray(np.load(Path(__file__).parent / "bias.npy"))
    return eqx.tree_at(lambda linear: linear.bias, linear, bias)
"""


def test_a_file_that_the_model_reads_is_named_if_it_is_missing(
    tmp_path: Path, command: CommandLine
) -> None:
    ROWS.to_csv(tmp_path / "plants.csv", index=False)
    (tmp_path / "nets.py").write_text(READING, encoding="utf-8")
    (tmp_path / "study.toml").write_text(STUDY, encoding="utf-8")
    np.save(tmp_path / "bias.npy", np.ones(1, "f4"))
    changes = (
        "model={kind='python',function='nets:build'}",
        "study={name='plants',metric='val_loss',direction='minimize',n_trials=1}",
        "search={}",
    )
    config = sweeper.load_study(
        tmp_path / "study.toml", [f"results.dir={tmp_path / 'run'}", *changes]
    )
    sweeper.run(config)
    export(tmp_path / "run", None, 0, tmp_path / "best")
    card = (tmp_path / "best" / "README.md").read_text(encoding="utf-8")
    assert "Files that it reads, such as weights, are not copied" in card

    (tmp_path / "bias.npy").unlink()
    with pytest.raises(SetupError, match=r"its own code cannot read a file here: .*bias\.npy"):
        sweeper.load(tmp_path / "best", base_dir=tmp_path)
    done = command("predict", "best", "plants.csv")
    assert done.returncode == 3
    assert "bias.npy" in done.stderr and "during the run" not in done.stderr
    assert len(done.stderr.splitlines()) == 1
