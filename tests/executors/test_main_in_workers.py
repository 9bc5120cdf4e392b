"""Functions of `__main__` train in worker processes as they do in threads."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import jax
import jax.numpy as jnp
import pytest
from sklearn.datasets import load_digits

import sweeper
from sweeper.config import StudyConfig
from sweeper.errors import SetupError, StudyError
from sweeper.models.by_value import by_value
from tests.in_process import study_in, trained
from tests.small_studies import DIGITS

CELL = """\
import enum
import equinox as eqx, jax, jax.numpy as jnp
from functools import partial

SCALES = {"out": jnp.float32(2.0)}


class Kind(enum.Enum):
    WIDE = 12


class Base(eqx.Module):
    out: eqx.nn.Linear
    scale: float = eqx.field(static=True, converter=float)

    def __call__(self, x):
        return self.scale * self.out(x)


class Net(Base):
    hidden: eqx.nn.Linear
    act: object = eqx.field(static=True)

    def __init__(self, in_size, out_size, key):
        first, second = jax.random.split(key)
        super().__init__(eqx.nn.Linear(Kind.WIDE.value, out_size, key=first), SCALES["out"])
        self.hidden = eqx.nn.Linear(in_size, Kind.WIDE.value, key=second)
        self.act = partial(cubed, 0.1)

    def __call__(self, x):
        return super().__call__(self.act(self.hidden(x)))


@jax.custom_vjp
def clipped(x):
    return jnp.tanh(x)


clipped.defvjp(lambda x: (jnp.tanh(x), x), lambda x, grad: (jnp.where(abs(x) < 1, grad, 0.0),))


@jax.jit
def cubed(share, x):
    return clipped(x) + share * x**3


def build(in_size, out_size, key):
    return Net(in_size, out_size, key)


def loss(outputs, y):
    picked = jnp.take_along_axis(jax.nn.log_softmax(outputs), y[:, None].astype(int), axis=1)
    return -picked.mean()
"""
OWN = DIGITS.partition("[search]")[0].replace(
    'kind = "mlp"\ndepth = 2\nwidth = 16\n', 'kind = "python"\nfunction = "__main__:build"\n'
)


@pytest.fixture
def main(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """A `__main__` in which the cell has run."""
    module = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", module)
    exec(compile(CELL, "<cell>", "exec"), vars(module))
    yield module


def study(tmp_path: Path, *overrides: str) -> StudyConfig:
    return study_in(tmp_path, OWN, "study.n_trials=2", "train.epochs=1", *overrides)


def test_a_worker_trains_the_code_of_main(main: ModuleType, tmp_path: Path) -> None:
    own = ("train.loss='__main__:loss'", "train.task='classes'", "execution.workers=1")
    rows = [
        trained(study(tmp_path / strategy, *own, f"execution.strategy='{strategy}'"))
        .trials()[["state", "value", "n_parameters"]]
        .to_dict("list")
        for strategy in ("exact", "process")
    ]
    assert rows[0]["state"] == ["COMPLETE", "COMPLETE"]
    assert rows[0] == rows[1]

    run_dir, best = tmp_path / "process" / "run", tmp_path / "best"
    sweeper.command("export", str(run_dir), "--to", str(best))
    assert sweeper.load(best).predict(load_digits(return_X_y=True)[0]).shape == (1797,)
    del main.__dict__["build"]
    absent = "names __main__:build, which is not defined in this program"
    with pytest.raises(SetupError, match=absent):
        sweeper.command("export", str(run_dir), "--to", str(tmp_path / "again"))
    with pytest.raises(SetupError, match=absent):
        sweeper.load(best)
    # the source of a cell without a file is not known
    assert "since the source of `build` could not be copied" in (best / "README.md").read_text()
    with pytest.raises(SetupError) as raised:
        sweeper.load(best, trust_code=True)
    assert str(raised.value) == (
        f"{best}: model.function: {absent}, and the file has no source for 'build'; define it in "
        "this program as it was when the model was trained, or move it to a file that the notebook "
        "or script imports, and train the study again"
    )


def test_functions_that_cannot_be_sent_to_workers_are_refused(
    main: ModuleType, tmp_path: Path
) -> None:
    main.__dict__["SCALES"] = {"out": 2.0, "lock": threading.Lock()}
    with pytest.raises(StudyError, match=r"sent to workers: .*cannot pickle '_thread.lock'"):
        by_value(study(tmp_path))

    registered = type("State", (), {"__module__": "__main__"})
    jax.tree_util.register_pytree_node(registered, lambda _: ((), None), lambda *_: registered())
    main.__dict__["SCALES"] = {"out": jnp.float32(2.0), "state": registered}
    with pytest.raises(StudyError, match="State is a PyTree of JAX but not"):
        by_value(study(tmp_path))


def test_only_functions_of_main_are_sent(tmp_path: Path) -> None:
    text = OWN.replace('"__main__:build"', '"nets:build"')
    assert by_value(study_in(tmp_path, text)) is None
