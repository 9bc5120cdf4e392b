"""For odd user-defined models and programs, `check` and `run` agree: what passes trains."""

from __future__ import annotations

from pathlib import Path

import pytest

import sweeper
from sweeper import api
from sweeper.config import StudyConfig
from sweeper.errors import StudyError
from tests.in_process import study_in
from tests.small_studies import DIGITS

STUDY = DIGITS.partition("[search]")[0].replace(
    'kind = "mlp"\ndepth = 2\nwidth = 16\n', 'kind = "python"\nfunction = "odd:build"\n'
)
SMALL = ("data.name=iris", "study.n_trials=1", "train.epochs=1", "execution.workers=0")
HEAD = """\
import equinox as eqx, jax, jax.numpy as jnp, numpy as np, optax

normal = jax.random.normal


class Net(eqx.Module):
    a: eqx.nn.Linear
    other: object = None

    def __call__(self, x, key=None):
        y = self.a(x)
        return {returned}


@jax.custom_vjp
def straight_through(y):
    return jnp.sign(y)


straight_through.defvjp(lambda y: (jnp.sign(y), None), lambda _, given: (given,))


def build(in_size, out_size, key):
    return Net(eqx.nn.Linear(in_size, out_size, key=key), {other})


def error(model, data):
    outputs = jax.vmap(model)(data.x)
    return jnp.mean(optax.softmax_cross_entropy_with_integer_labels(outputs, data.y))


class Plain:
    def init(self, model, optimizer, key):
        return model, optimizer.init(eqx.filter(model, eqx.is_inexact_array))

    def step(self, model, state, batch, optimizer, key):
        loss, gradients = eqx.filter_value_and_grad(error)(model, batch)
        arrays = eqx.filter(model, eqx.is_inexact_array)
        updates, state = optimizer.update(gradients, state, arrays)
        return eqx.apply_updates(model, updates), state, loss

    def evaluate(self, model, data):
        return {{"loss": error(model, data)}}


class Noisy(Plain):
    def step(self, model, state, batch, optimizer, key):
        model, state, loss = super().step(model, state, batch, optimizer, key)
        return model, state, loss + np.random.rand()


class Redrawn(Plain):
    def init(self, model, optimizer, key):
        weight = jnp.asarray(np.random.randn(*model.a.weight.shape), model.a.weight.dtype)
        return super().init(eqx.tree_at(lambda m: m.a.weight, model, weight), optimizer, key)
"""
# what the model returns, and its other field
TRAIN = {
    "integer inputs": ("self.a(jnp.round(x).astype(int).astype(x.dtype))", "None"),
    "frozen leaves": ("y * jax.lax.stop_gradient(self.other)", "jnp.ones(out_size)"),
    "a NumPy array": ("y * self.other", "np.ones(out_size)"),
    "a list of arrays": ("y + self.other[1]", "[jnp.ones(2), jnp.ones(out_size)]"),
    "a lambda": ("self.other(y)", "lambda y: 2 * y"),
    "outputs of 16 bits": ("y.astype(jnp.float16)", "None"),
    "complex numbers inside": ("jnp.abs(jnp.fft.fft(y))", "None"),
    "a callback": ("(jax.debug.callback(lambda v: None, x[0]), y)[1]", "None"),
    "a custom gradient": ("straight_through(y)", "None"),
    "no gradient": ("jnp.sign(y)", "None"),
    "an old key in a field": ("y + normal(self.other, ())", "jax.random.PRNGKey(0)"),
}
REFUSED = {
    "a loop without a gradient": (
        "jax.lax.while_loop(lambda c: c.sum() < 5, lambda c: c + 1, y)",
        "None",
    ),
    "a callback that cannot be batched": (
        "y + jax.pure_callback(lambda v: v, jax.ShapeDtypeStruct((), x.dtype), x[0])",
        "None",
    ),
    "a branch of Python": ("y if x[0] > 0 else -y", "None"),
    "NumPy": ("np.sin(y)", "None"),
    "integers": ("jnp.argsort(y)", "None"),
    "complex outputs": ("y.astype(jnp.complex64)", "None"),
    "a key in a field": ("y + normal(self.other, ())", "key"),
    "a structure that depends on the key": ("y", "[0] * int(jax.random.randint(key, (), 1, 9))"),
}


def config(tmp_path: Path, returned: str, other: str, *overrides: str) -> StudyConfig:
    source = HEAD.format(returned=returned, other=other)
    (tmp_path / "odd.py").write_text(source, encoding="utf-8")
    return study_in(tmp_path, STUDY, *SMALL, *overrides)


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=[pytest.mark.slow] * bool(at % 3)) for at, case in enumerate(TRAIN)],
)
def test_a_model_that_passes_trains(case: str, tmp_path: Path) -> None:
    study = config(tmp_path, *TRAIN[case])
    api.check(study)
    assert sweeper.run(study).counts["COMPLETE"] == 1


@pytest.mark.parametrize("case", REFUSED)
def test_a_model_that_would_not_train_is_refused(case: str, tmp_path: Path) -> None:
    study = config(tmp_path, *REFUSED[case])
    for begin in (api.check, sweeper.run):
        with pytest.raises(StudyError):
            begin(study)


@pytest.mark.parametrize(
    ("program", "method"), [("Plain", None), ("Noisy", "step"), ("Redrawn", "init")]
)
def test_a_program_trains_or_is_refused(program: str, method: str | None, tmp_path: Path) -> None:
    train = f"{{program='odd:{program}',task='classes',epochs=1,batch_size=32}}"
    study = config(tmp_path, "y", "None", f"train={train}", "study.metric=val_loss")
    if method is None:
        api.check(study)
        assert sweeper.run(study).counts["COMPLETE"] == 1
        return
    with pytest.raises(StudyError, match=f"'odd:{program}.{method}' gives different results"):
        api.check(study)
