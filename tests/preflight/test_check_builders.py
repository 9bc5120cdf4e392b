"""A builder's weights depend only on its key; a fixed start is refused, reported or declared."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeper.errors import StudyError
from tests.preflight.test_check_draws import check

pytestmark = pytest.mark.usefixtures("float64")

HEAD = """\
import equinox as eqx, jax, jax.numpy as jnp, numpy as np, os, random, time
import platform, socket, uuid, datetime

normal = jax.random.normal
KEYS, COUNT, RNG = [jax.random.key(0)], [0], np.random.default_rng(0)


class Net(eqx.Module):
    w: jax.Array
    scale: object = 1.0

    def __call__(self, x, key=None):
        return self.w @ x * self.scale


def next_key():
    KEYS[0], key = jax.random.split(KEYS[0])
    return key


def next_count():
    COUNT[0] += 1
    return COUNT[0]


@jax.jit
def compiled():
    return jnp.asarray(np.random.randn(3, 4), jnp.float32)


def build(in_size, out_size, key):
    shape = out_size, in_size
    return """
UNREPEATABLE = {
    "NumPy's global numbers": "Net(jnp.asarray(np.random.randn(*shape)))",
    "a generator of a module": "Net(jnp.asarray(RNG.normal(size=shape)))",
    "Python's random numbers": "Net(normal(key, shape) * random.random())",
    "the time": "Net(normal(jax.random.key(time.time_ns() % 2**31), shape))",
    "the time and the key": "Net(normal(jax.random.fold_in(key, time.time_ns() % 2**20), shape))",
    "the day": "Net(normal(jax.random.key(int(time.time() // 86400)), shape))",
    "today": "Net(normal(jax.random.key(datetime.date.today().toordinal()), shape))",
    "the process": "Net(normal(jax.random.fold_in(key, os.getpid()), shape))",
    "the process, for NumPy": (
        "Net(jnp.asarray(np.random.default_rng(os.getpid()).normal(size=shape)))"
    ),
    "the host": "Net(normal(key, shape), len(socket.gethostname()))",
    "the machine": "Net(normal(key, shape), len(platform.node()))",
    "the network card": "Net(normal(jax.random.key(uuid.getnode() % 999), shape))",
    "the system": "Net(normal(key, shape), len(os.uname().nodename))",
    "the system's random numbers": (
        "Net(normal(jax.random.key(int.from_bytes(os.urandom(7), 'big') % 2**31), shape))"
    ),
    "a key in a module": "Net(normal(next_key(), shape))",
    "a counter": "Net(normal(jax.random.key(next_count()), shape))",
    "a compiled function": "Net(compiled())",
    "an array that is not trained": "Net(normal(key, shape), np.random.randn(out_size))",
    "a static number": "Net(normal(key, shape), random.random())",
}
FIXED = {
    "zeros": "Net(jnp.zeros(shape))",
    "zeros times type of the values": "jax.tree.map(lambda w: w * 0, Net(normal(key, shape)))",
    "a key of its own": "Net(normal(jax.random.key(7), shape))",
    "NumPy with a seed": "Net(jnp.asarray(np.random.default_rng(0).normal(size=shape)))",
}
DRAWN = {
    "all weights": "Net(normal(key, shape))",
    "some weights": "Net(normal(key, shape), jnp.zeros(out_size))",
    "weights of a compiled function": "Net(jax.jit(normal, static_argnums=1)(key, shape))",
    "an unhashable static field": "Net(normal(key, shape), np.ones(out_size))",
    "a new lambda": "eqx.nn.Sequential([Net(normal(key, shape)), eqx.nn.Lambda(lambda x: x)])",
    "a key from the key": "Net(normal(jax.random.key(jax.random.randint(key, (), 0, 9)), shape))",
}
SAID = "'nets:build' returns the same initial weights for every key"


@pytest.mark.parametrize("case", UNREPEATABLE)
def test_different_weights_for_the_same_key_are_refused(case: str, tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="'nets:build' builds a different model each time"):
        check(tmp_path, HEAD + UNREPEATABLE[case])


@pytest.mark.parametrize("case", FIXED)
def test_the_same_weights_for_all_keys_get_a_warning(case: str, tmp_path: Path) -> None:
    (warning,) = check(tmp_path, HEAD + FIXED[case])
    assert warning.startswith(f"model.function: {SAID}, so every trial starts from them")


@pytest.mark.parametrize("case", DRAWN)
def test_weights_that_depend_on_the_key_are_accepted(case: str, tmp_path: Path) -> None:
    assert check(tmp_path, HEAD + DRAWN[case], "study.replicates=2") == ()


def test_replicates_of_a_fixed_start_are_refused_unless_it_is_declared(tmp_path: Path) -> None:
    source = HEAD + FIXED["zeros"]
    with pytest.raises(StudyError, match=SAID):
        check(tmp_path, source, "study.replicates=2")
    assert check(tmp_path, source, "study.replicates=2", "model.fixed_start=true") == ()


@pytest.mark.parametrize("case", DRAWN)
def test_a_declared_fixed_start_of_weights_that_depend_on_the_key_is_reported(
    case: str, tmp_path: Path
) -> None:
    (warning,) = check(tmp_path, HEAD + DRAWN[case], "model.fixed_start=true")
    assert warning == (
        "model.function: fixed_start = true changes nothing: 'nets:build' returns other initial "
        "weights for every key; remove it"
    )


def test_a_declared_fixed_start_of_some_of_the_searched_models_is_not_reported(
    tmp_path: Path,
) -> None:
    source = HEAD.replace("out_size, ", "out_size, scale, ", 1)
    source += "Net(normal(key if scale else jax.random.key(7), shape))"
    searched = 'search.model.scale={type="categorical",choices=[false,true]}'
    assert check(tmp_path, source, "model.fixed_start=true", searched) == ()


def test_a_study_of_edition_1_gets_a_warning_and_continues(tmp_path: Path) -> None:
    source = HEAD + UNREPEATABLE["NumPy's global numbers"]
    (warning,) = check(tmp_path, source, "edition=1", "study.replicates=2")
    assert "builds a different model each time" in warning
