"""Layers that share an array, and draws that never change, are named before a study starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.preflight.test_check_draws import check

pytestmark = pytest.mark.usefixtures("float64")

HEAD = """\
import equinox as eqx, functools, jax, jax.numpy as jnp, numpy as np

normal = jax.random.normal
OLD, GIVEN = jax.random.key(0), np.random.default_rng(0).normal(size=(4, 4)).astype("float32")


class Net(eqx.Module):
    a: object
    b: object
    last: eqx.nn.Linear

    def __call__(self, x, key=None):
        return self.last(self.b(self.a(x)))


class Product(eqx.Module):
    w: object

    def __call__(self, x):
        return self.w @ x


class Tied(eqx.Module):
    layers: object

    def __call__(self, x, key=None):
        first, second, last = self.layers()
        return last(second(first(x)))


def tied(a, b, c):
    pair = eqx.nn.Shared([a, b, c], lambda m: m[1].weight, lambda m: m[0].weight)
    return Tied(pair)


def build(in_size, out_size, key):
    p, q, r = jax.random.split(key, 3)
    a, b = (eqx.nn.Linear(4, 4, key=k) for k in (p, q))
    last = eqx.nn.Linear(4, out_size, key=r)
    return """
SAME = "'nets:build' puts the same array in"
APART = "and training changes each copy separately; tie the layers with eqx.nn.Shared, or draw"
SHARED = {
    "a layer in two fields": (
        "Net(a, a, last)",
        "model.a.weight and model.b.weight, among others,",
    ),
    "a layer in a list": ("Net(eqx.nn.Sequential([a, a]), b, last)", "model.a.layers[0].weight"),
    "a weight": (
        "Net(a, eqx.tree_at(lambda l: l.weight, b, a.weight), last)",
        "model.a.weight and",
    ),
    "a jax array of the module": ("Net(Product(W), Product(W), last)", "model.a.w and model.b.w"),
    "a NumPy array": ("Net(Product(GIVEN), Product(GIVEN), last)", "model.a.w and model.b.w"),
}
APART_ALREADY = {
    "eqx.nn.Shared": "tied(a, b, last)",
    "equal biases": (
        "eqx.tree_at(lambda n: (n.a.bias, n.b.bias), Net(a, b, last), (Z := jnp.zeros(4), Z))"
    ),
    "equal weights": "Net(a, eqx.nn.Linear(4, 4, key=p), last)",
    "a function": "Net(jnp.tanh, jnp.tanh, last)",
}  # fmt: skip
CALL = """\
import equinox as eqx, jax, jax.numpy as jnp

normal, split = jax.random.normal, jax.random.split
OLD = jax.random.key(7)


class Net(eqx.Module):
    a: eqx.nn.Linear
    drop: eqx.nn.Dropout
    noise: object
    own: object

    def __init__(self, in_size, out_size, key):
        self.a, self.drop = eqx.nn.Linear(in_size, out_size, key=key), eqx.nn.Dropout()
        self.noise, self.own = normal(jax.random.key(1), (in_size,)), jax.random.PRNGKey(3)

    def __call__"""
FIXED = {
    "a new key": "(self, x): return self.a(x + normal(jax.random.key(0), x.shape))",
    "a new key next to the given one": (
        "(self, x, key=None): "
        "return self.drop(self.a(x + normal(jax.random.PRNGKey(0), x.shape)), key=key)"
    ),
    "a key of the module": "(self, x): return self.a(x * jax.random.bernoulli(OLD, 0.5, x.shape))",
    "a key in a field": "(self, x): return self.a(x + normal(self.own, x.shape))",
    "dropout": "(self, x): return self.drop(self.a(x), key=OLD)",
    "inside a compiled function": (
        "(self, x): return jax.jit(lambda x: self.a(x + normal(OLD, x.shape)))(x)"
    ),
    "in a loop": (
        "(self, x): "
        "return self.a(jax.lax.fori_loop(0, 2, lambda i, x: x + normal(OLD, x.shape, x.dtype), x))"
    ),
}
CHANGING = {
    "the given key": "(self, x, key=None): return self.drop(self.a(x), key=key)",
    "keys from it": (
        "(self, x, key=None): return self.a("
        "x if key is None else x + normal(split(jax.random.fold_in(key, 3))[1], x.shape))"
    ),
    "the given key in a loop": (
        "(self, x, key=None): return self.a(x if key is None else jax.lax.scan("
        "lambda s, _: ((s[0] + normal(s[1], x.shape, x.dtype), split(s[1])[0]), 0.0), "
        "(x, key), None, 2)[0][0])"
    ),
    "a key in a branch": (
        "(self, x, key=None): return self.a(x if key is None else jax.lax.cond("
        "x[0] > 0, lambda k: x + normal(k, x.shape, x.dtype), lambda k: x, key))"
    ),
    "an array drawn once": "(self, x): return self.a(x + self.noise)",
    "the example": (
        "(self, x): return self.a(x + normal(jax.random.fold_in(OLD, x[0].astype(int)), x.shape))"
    ),
}


DRAWS = """\
import equinox as eqx, jax, jax.numpy as jnp

permutation, chance, OLD = jax.random.permutation, jax.random.uniform, jax.random.key(7)


class Net(eqx.Module):
    last: eqx.nn.Linear
    own: object

    def __call__(self, x):
        return self.last(x)


def build(in_size, out_size, key):
    one, other = jax.random.split(key)
    return Net(eqx.nn.Linear(in_size, out_size, key=one), """
DRAWN = {
    "an order": ("permutation(other, in_size)", "model.own"),
    "a mask": ("{'mask': chance(other, in_size) < 0.5}", "model.own['mask']"),
    "several": ("[permutation(key, 3) for key in jax.random.split(other, 6)]", "among others,"),
    "the data of a key": ("jax.random.key_data(other)", "model.own"),
}
NOT_DRAWN = {
    "a fixed seed": "permutation(OLD, in_size)",
    "no draw": "jnp.arange(in_size)[::-1]",
    "floats": "chance(other, in_size)",
    "zeros like a draw": "jnp.zeros_like(permutation(other, in_size))",
}


def shared(tmp_path: Path, returned: str) -> tuple[str, ...]:
    return check(tmp_path, f"{HEAD}{returned}\n\n\nW = jnp.asarray(GIVEN)\n")


@pytest.mark.parametrize("case", SHARED)
def test_an_array_in_several_places_is_named(case: str, tmp_path: Path) -> None:
    returned, places = SHARED[case]
    (warning,) = shared(tmp_path, returned)
    assert warning.startswith(f"model.function: {SAME} {places}")
    assert APART in warning


@pytest.mark.parametrize("case", APART_ALREADY)
def test_other_arrays_are_not_reported(case: str, tmp_path: Path) -> None:
    assert shared(tmp_path, APART_ALREADY[case]) == ()


@pytest.mark.parametrize("case", FIXED)
def test_draws_with_a_constant_key_are_named(case: str, tmp_path: Path) -> None:
    (warning,) = check(tmp_path, f"{CALL}{FIXED[case]}\n\n\nbuild = Net\n")
    assert "the model draws with a key that is the same in every step; draw with the" in warning


@pytest.mark.parametrize("case", CHANGING)
def test_draws_that_change_are_not_reported(case: str, tmp_path: Path) -> None:
    assert check(tmp_path, f"{CALL}{CHANGING[case]}\n\n\nbuild = Net\n") == ()


@pytest.mark.parametrize("case", DRAWN)
def test_drawn_arrays_that_every_trial_shares_are_named(case: str, tmp_path: Path) -> None:
    own, place = DRAWN[case]
    (warning,) = check(tmp_path, f"{DRAWS}{own})\n")
    assert warning.startswith("model.function: 'nets:build' draws model.own")
    assert place in warning
    assert "not floats are the same in every trial and replicate; draw them with a" in warning


@pytest.mark.parametrize("case", NOT_DRAWN)
def test_arrays_that_do_not_depend_on_the_key_are_not_reported(case: str, tmp_path: Path) -> None:
    assert check(tmp_path, f"{DRAWS}{NOT_DRAWN[case]})\n") == ()
