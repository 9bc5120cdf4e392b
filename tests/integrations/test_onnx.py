"""Exports in other formats predict the same, in a process that has no sweeper."""

from __future__ import annotations

import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
import pytest

import sweeper
from sweeper.errors import StudyError
from sweeper.export import export
from sweeper.export.ensemble import measure_ensemble
from sweeper.export.ensemble_directory import export_ensemble
from sweeper.export.formats import Format, export_as
from sweeper.export.predict import predict_table
from sweeper.export.saved_model import UnknownCategoryWarning
from sweeper.results.ensemble import write_ensemble
from sweeper.rundir import RunDir
from tests.in_process import study_in, trained
from tests.small_studies import COUPLED, DIGITS, PARTS, bent, write_mixture

pytestmark = pytest.mark.integration

HOMES = """\
version = 1
[study]
name = "homes"
metric = "val_loss"
direction = "minimize"
n_trials = 3
[data]
source = "parquet"
path = "homes.parquet"
target = "price"
impute = "median"
scale = "quantile"
target_transform = "log"
categorical_columns = ["floors", "share", "tax"]
[model]
kind = "tabm"
depth = 2
width = 8
ensemble_size = 3
numbers = "ple"
n_bins = 8
[optimizer]
name = "adam"
lr = 1e-2
[train]
loss = "mse"
epochs = 2
batch_size = 32
[search]
optimizer.lr = { type = "float", low = 1e-3, high = 1e-2, log = true }
[execution]
threads = 1
workers = 0
[results]
keep_models = 3
"""
RNG = np.random.default_rng(0)
COUNT = 240
AREA = RNG.lognormal(4, 0.5, COUNT)
ROWS = pd.DataFrame(
    {
        "area": AREA,
        "year": np.where(RNG.random(COUNT) < 0.1, np.nan, RNG.integers(1900, 2020, COUNT)),
        "kind": RNG.choice(["flat", "house", "Büro, klein", None], COUNT),
        "floors": RNG.integers(1, 4, COUNT),
        "share": RNG.choice(np.array([0.1, 0.25, 0.7], np.float32), COUNT),
        "lift": RNG.random(COUNT) < 0.5,
        "price": AREA**0.8 * np.exp(5 + 0.1 * RNG.normal(size=COUNT)),
    }
)
ROWS = ROWS.assign(
    grade=RNG.integers(1, 7, COUNT) / 10,
    tax=RNG.choice([Decimal("1.50"), Decimal("2.00"), Decimal("0.30")], COUNT),
    note=RNG.choice(["", "new", None], COUNT),
)
# raw rows to predict, also with what training rows do not have
NEW = pd.DataFrame(
    {
        "area": [*AREA[:20], 0.01, 1e5, 60.0],
        "year": [*ROWS["year"][:20], np.nan, 1700.0, 1980.0],
        "kind": [*ROWS["kind"][:20], "palace", None, "flat"],
        "floors": [*ROWS["floors"][:20], 3, 9, 1],
        "share": np.array([*ROWS["share"][:20], 0.7, 0.2, 0.1], np.float32),
        "lift": [*ROWS["lift"][:20], True, False, True],
        "grade": np.array([*ROWS["grade"][:20], 0.1, 0.6, 0.7], np.float32),
        "tax": [*ROWS["tax"][:20], Decimal("2.00"), Decimal("9.99"), Decimal("1.50")],
        "note": [*ROWS["note"][:20], "", None, "old"],
    }
)
# what fresh processes run has no package of the study's
_ALONE = """
import sys
for name in ("sweeper", "equinox", "optax", "optuna", "sklearn", "jax2onnx", {blocked}):
    sys.modules[name] = None
import numpy
{code}
numpy.save("found.npy", {result})
"""


def run_alone(directory: Path, code: str, result: str, blocked: str = '"jax"') -> np.ndarray:
    """The value of `result` after `code` in a fresh process without this package."""
    text = _ALONE.format(code=code, result=result, blocked=blocked)
    done = subprocess.run(
        [sys.executable, "-c", text],
        cwd=directory,
        env={"PATH": ""},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return np.load(directory / "found.npy", allow_pickle=True)


def code_of_card(directory: Path) -> str:
    """The code that the card of an export shows for its use."""
    card = (directory / "README.md").read_text("utf-8").partition("## How to use it")[2]
    lines = card.partition("\n## ")[0].splitlines()
    return "\n".join(line[4:] for line in lines if line.startswith("    ") or not line)


def export_own(run_dir: Path, number: int | Literal["ensemble"], output: Path) -> None:
    """Export a trial or the ensemble in sweeper's own format."""
    if number == "ensemble":
        export_ensemble(run_dir, output)
    else:
        export(run_dir, number, 0, output)


def of_sweeper(model: Path, rows: Path) -> pd.DataFrame:
    """What `sweeper predict` writes."""
    text = predict_table(model, rows, lambda _: None).as_csv()
    (model / "predictions.csv").write_text(text, encoding="utf-8")
    return pd.read_csv(model / "predictions.csv", keep_default_na=False)


@pytest.fixture(scope="module")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a study of a mixed table, whose results are in run/."""
    directory = tmp_path_factory.mktemp("homes")
    ROWS.to_parquet(directory / "homes.parquet")
    NEW.to_parquet(directory / "new.parquet")
    trained(study_in(directory, HOMES, f"data.path={directory / 'homes.parquet'}"))
    write_ensemble(RunDir(directory / "run"), measure_ensemble(RunDir(directory / "run"), 3))
    return directory


@pytest.mark.parametrize("number", [1, "ensemble"])
def test_onnx_runtime_predicts_raw_rows_like_the_study(
    homes: Path, tmp_path: Path, number: int | Literal["ensemble"]
) -> None:
    written = export_as("onnx", homes / "run", number, 0, tmp_path / "model")
    export_own(homes / "run", number, tmp_path / "own")
    NEW.to_parquet(tmp_path / "model" / "new.parquet")

    found = run_alone(tmp_path / "model", code_of_card(tmp_path / "model"), "prediction")

    own = of_sweeper(tmp_path / "own", homes / "new.parquet")
    np.testing.assert_allclose(found[:, 0], own["price"], rtol=1e-5)
    assert written.checked.difference < 1e-5
    assert sorted(path.name for path in (tmp_path / "model").iterdir()) == [
        *("README.md", "found.npy", "model.onnx", "new.parquet")
    ]


@pytest.mark.parametrize("number", [1, "ensemble"])
def test_jax_alone_calls_the_program_of_stablehlo(
    homes: Path, tmp_path: Path, number: int | Literal["ensemble"]
) -> None:
    export_as("stablehlo", homes / "run", number, 0, tmp_path / "model")
    export_own(homes / "run", number, tmp_path / "own")
    saved = sweeper.load(tmp_path / "own")
    with pytest.warns(UnknownCategoryWarning):
        x, own = saved.features(NEW), saved.outputs(NEW)
    np.save(tmp_path / "model" / "x.npy", x)

    card = (tmp_path / "model" / "README.md").read_text(encoding="utf-8")
    has_features = "def features(" in (tmp_path / "own" / "load.py").read_text(encoding="utf-8")
    assert ("`load.py` of an export without" in card) is has_features

    code = f"x = numpy.load('x.npy')\n{code_of_card(tmp_path / 'model')}"
    found = run_alone(tmp_path / "model", code, "outputs", '"onnx"')

    np.testing.assert_allclose(found, own, rtol=1e-5, atol=1e-6)


CLASSES = (
    *("data.target=kind", "data.missing_target=drop", "data.target_transform=none"),
    "train.loss=cross_entropy",
)
PLR = (
    *('model={kind="mlp", depth=2, width=8, activation="gelu", layer_norm=true, numbers="plr"}',),
    "train.epochs=1",
    "study.n_trials=1",
)
VARIANTS = {
    "classes": (*CLASSES, *PLR, "data.scale=robust", "data.categorical=ordinal"),
    "two classes": (
        *("data.target=lift", "data.target_transform=none", "train.loss=binary_cross_entropy"),
        *(*PLR, "data.scale=minmax", "model.activation=silu"),
    ),
    "float64": (*PLR, "execution.precision=float64", "data.scale=standard", "model.numbers=ple"),
    "linear": (
        *(
            'model={kind="mlp", depth=0, width=8}',
            "data.target_transform=log1p",
            "data.scale=standard",
        ),
        "study.n_trials=1",
    ),
    "folds": (*PLR, "study.folds=3", "data.scale=standard", "data.split={test=0.2}"),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_way_to_prepare_rows_is_in_the_file(
    homes: Path, tmp_path: Path, variant: str
) -> None:
    path = f"data.path={homes / 'homes.parquet'}"
    trained(study_in(tmp_path, HOMES, path, *VARIANTS[variant]))
    export(tmp_path / "run", None, 0, tmp_path / "own")
    export_as("onnx", tmp_path / "run", None, 0, tmp_path / "model")
    rows = NEW.assign(price=1.0)
    rows.to_parquet(tmp_path / "model" / "new.parquet")

    is_class = variant.endswith("classes")
    result = "numpy.concatenate([prediction, probabilities.astype(object)], axis=1)"
    found = run_alone(
        tmp_path / "model", code_of_card(tmp_path / "model"), result if is_class else "prediction"
    )

    own = of_sweeper(tmp_path / "own", tmp_path / "model" / "new.parquet")
    if is_class:
        assert found[:, 0].tolist() == own.iloc[:, 0].map(str).tolist()
        found, own = found[:, 1:], own.iloc[:, 1:]
    np.testing.assert_allclose(
        found.astype(float), own.to_numpy(float), rtol=1e-5, atol=1e-6 if is_class else 0
    )


def test_a_number_that_means_a_gap_leaves_booleans_unchanged(tmp_path: Path) -> None:
    ROWS[["area", "year", "lift", "price"]].fillna(0.0).to_csv(tmp_path / "homes.csv", index=False)
    data = f"data.path={tmp_path / 'homes.csv'}", "data.source=csv", 'data.missing_values=["", "0"]'
    trained(study_in(tmp_path, HOMES, *data, "data.categorical_columns=[]", *PLR))
    export(tmp_path / "run", None, 0, tmp_path / "own")
    export_as("onnx", tmp_path / "run", None, 0, tmp_path / "model")
    new = NEW[["area", "year", "lift"]].fillna(0.0)
    new.to_parquet(tmp_path / "model" / "new.parquet")

    found = run_alone(tmp_path / "model", code_of_card(tmp_path / "model"), "prediction")

    own = of_sweeper(tmp_path / "own", tmp_path / "model" / "new.parquet")
    np.testing.assert_allclose(found[:, 0], own["price"], rtol=1e-5)
    assert np.unique(sweeper.load(tmp_path / "own").features(new)[:, 2]).size == 2


def test_rows_without_names_are_one_array(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(80, 2, 3)).astype(np.float32)
    np.savez(tmp_path / "rows.npz", x=x, y=x[:, 0, 0] > 0)
    split = "scale='none', split={val=0.5, test=0}"
    data = f"data={{source='npz', path='{tmp_path / 'rows.npz'}', {split}}}"
    trained(
        study_in(
            tmp_path, DIGITS, data, "study.n_trials=1", "train.epochs=1", "train.batch_size=16"
        )
    )
    export(tmp_path / "run", None, 0, tmp_path / "own")
    export_as("onnx", tmp_path / "run", None, 0, tmp_path / "model")
    np.save(tmp_path / "model" / "x.npy", x)

    code = f"x = numpy.load('x.npy')\n{code_of_card(tmp_path / 'model')}"
    found = run_alone(tmp_path / "model", code, "probabilities")

    own = sweeper.load(tmp_path / "own").probabilities(x)
    np.testing.assert_allclose(found, own, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("kind", ["onnx", "stablehlo"])
def test_models_of_several_parts_predict_with_the_one_that_data_judges(
    tmp_path: Path, kind: Format
) -> None:
    trained(study_in(tmp_path, PARTS, "study.n_trials=1", "train.epochs=3"))
    written = export_as(kind, tmp_path / "run", None, 0, tmp_path / "model")
    assert written.checked.difference < 1e-5


@pytest.mark.parametrize("kind", ["onnx", "stablehlo"])
def test_what_makes_no_predictions_is_refused_and_nothing_is_written(
    tmp_path: Path, kind: Format
) -> None:
    write_mixture(tmp_path)
    study = bent(COUPLED, f"data.path={tmp_path / 'rows.npz'}", "results.keep_models=1")
    trained(study_in(tmp_path, study, "study.n_trials=1", "train.epochs=2", "search={}"))

    with pytest.raises(StudyError, match="no joint predictions"):
        export_as(kind, tmp_path / "run", None, 0, tmp_path / "model")

    assert not (tmp_path / "model").exists()


UNCONVERTIBLE = """
import equinox as eqx
import jax


class Sorted(eqx.Module):
    last: eqx.nn.Linear

    def __call__(self, x):
        return self.last(jax.numpy.linalg.eigh(jax.numpy.outer(x, x))[0])


def build(in_size, out_size, key):
    return Sorted(eqx.nn.Linear(in_size, out_size, key=key))
"""


def test_a_model_that_cannot_be_converted_is_refused_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "odd_nets.py").write_text(UNCONVERTIBLE, encoding="utf-8")
    model = ('model={kind="python", function="odd_nets:build"}', "search={}", "study.n_trials=1")
    path = "data={source='sklearn', name='iris'}"
    trained(study_in(tmp_path, DIGITS, path, *model, "train.epochs=1", "train.batch_size=32"))

    with pytest.raises(StudyError, match="eigh"):
        export_as("onnx", tmp_path / "run", None, 0, tmp_path / "model")

    assert not (tmp_path / "model").exists()
