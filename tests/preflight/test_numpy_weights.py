"""Weights may be NumPy arrays, as those of models of another library often are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import sweeper
from sweeper import api
from sweeper.errors import StudyError
from sweeper.export import export
from tests.in_process import study_in, trained
from tests.small_studies import DIGITS

NETS = """\
import equinox as eqx, jax, jax.numpy as jnp, numpy as np


def ported(in_size, out_size, key, n_layers=2):
    net = eqx.nn.MLP(in_size, out_size, 8, 1, key=key)
    rng = np.random.default_rng(0)
    for layer in range(n_layers):
        old = net.layers[layer]
        new = [rng.normal(size=a.shape).astype("f4") for a in (old.weight, old.bias)]
        net = eqx.tree_at(lambda n: (n.layers[layer].weight, n.layers[layer].bias), net, new)
    return net


class Raising(eqx.Module):
    linear: eqx.nn.Linear

    def __call__(self, x):
        raise ValueError("no such width")


def raising(in_size, out_size, key):
    return Raising(eqx.nn.Linear(in_size, out_size, key=key))
"""
STUDY = DIGITS.partition("[search]")[0].replace(
    'kind = "mlp"\ndepth = 2\nwidth = 16\n', 'kind = "python"\nfunction = "nets:ported"\n'
)
SMALL = ("data.name=iris", "study.n_trials=1", "train.epochs=2", "execution.workers=0")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "nets.py").write_text(NETS, encoding="utf-8")
    return tmp_path


@pytest.mark.filterwarnings("ignore:.*same initial weights for every key")
@pytest.mark.parametrize("n_layers", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_a_model_with_numpy_arrays_is_trained_like_any_other(
    n_layers: int, directory: Path
) -> None:
    given = f"model.n_layers={n_layers}", "results.keep_models=1"
    config = study_in(directory, STUDY, *SMALL, *given)
    api.check(config)
    trials = trained(config).trials()
    assert trials["n_parameters"].tolist() == [67]
    export(directory / "run", None, 0, directory / "best")
    saved = sweeper.load(directory / "best", base_dir=directory)
    rng = np.random.default_rng(0)
    for layer in saved.model.layers[:n_layers]:
        start = rng.normal(size=layer.weight.shape), rng.normal(size=layer.bias.shape)
        moved = np.abs(layer.weight - start[0])
        assert 0 < moved.max() < 0.1


def test_numpy_arrays_of_another_session_are_refused(directory: Path) -> None:
    config = study_in(directory, STUDY, *SMALL, "model.fixed_start=true")
    nets = NETS.replace("default_rng(0)", "default_rng(int(Path(SEED).read_text()))")
    nets = nets.replace(
        "import equinox",
        f"SEED = {str(directory / 'seed')!r}\nfrom pathlib import Path\nimport equinox",
        1,
    )
    (directory / "nets.py").write_text(nets, encoding="utf-8")
    (directory / "seed").write_text("0")
    trained(config)
    (directory / "seed").write_text("1")
    with pytest.raises(StudyError, match="returns other initial weights"):
        api.check(config)


def test_an_error_of_the_models_own_gets_no_advice_about_shapes(directory: Path) -> None:
    with pytest.raises(StudyError) as refusal:
        api.check(study_in(directory, STUDY, *SMALL, "model.function=nets:raising"))
    message = str(refusal.value)
    assert message.count("no such width") == 1
    assert "map one example" not in message
