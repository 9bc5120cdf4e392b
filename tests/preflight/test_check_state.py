"""Models with a state are accepted as Equinox documents them, and refused otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeper.config import parse
from sweeper.errors import StudyError
from sweeper.preflight.user_model import check_model
from tests.small_studies import COUPLED, DIGITS, PARTS, bent

pytestmark = pytest.mark.usefixtures("float64")

NETS = """\
import equinox as eqx
import jax
import jax.numpy as jnp


class Net(eqx.Module):
    norm: eqx.nn.BatchNorm
    linear: eqx.nn.Linear
    held: object = None

    def __init__(self, in_size, out_size, key, axis="batch"):
        self.norm = eqx.nn.BatchNorm(in_size, axis_name=axis, mode="batch")
        self.linear = eqx.nn.Linear(in_size, out_size, key=key)

    def __call__(self, x, state):
        x, state = self.norm(x, state)
        return self.linear(x), state


class Forgetful(Net):
    def __call__(self, x, state):
        return self.linear(self.norm(x, state)[0])


class Partial(Net):
    def __call__(self, x, state):
        x, own = self.norm(x, state.substate(self.norm.batch_counter))
        return self.linear(x), own


class Old(Net):
    def __call__(self, x, state):
        return self.linear(self.norm(x, state)[0]), state


class Alone(Net):
    def __call__(self, x):
        return self.linear(x)


class Renamed(Net):
    def __call__(self, x, state, rng=None):
        x, state = self.norm(x, state)
        return self.linear(x if rng is None else x + jax.random.normal(rng, x.shape)), state


class Undrawn(Net):
    def __call__(self, x, state):
        x, state = self.norm(x, state)
        return self.linear(eqx.nn.Dropout(0.5, inference=self.norm.inference)(x)), state


class Mixed(Net):
    def __call__(self, x, state):
        return self.linear(x - jax.lax.pmean(x, "batch")), state


class Each(Net):
    def __call__(self, x, state):
        counted, _ = state.get(self.norm.batch_state_index)
        state = state.set(self.norm.batch_state_index, (counted + x, counted))
        return self.linear(x), state


class Keyed(eqx.Module):
    index: eqx.nn.StateIndex
    linear: eqx.nn.Linear

    def __init__(self, in_size, out_size, key):
        self.index = eqx.nn.StateIndex(key)
        self.linear = eqx.nn.Linear(in_size, out_size, key=key)

    def __call__(self, x, state):
        return self.linear(x), state


class Weak(Keyed):
    def __init__(self, in_size, out_size, key):
        self.index = eqx.nn.StateIndex(jnp.asarray(0.0))
        self.linear = eqx.nn.Linear(in_size, out_size, key=key)

    def __call__(self, x, state):
        return self.linear(x), state.set(self.index, 1.0)


class Holding(Net):
    def __init__(self, in_size, out_size, key):
        super().__init__(in_size, out_size, key)
        self.held = eqx.nn.State(self.norm)


def made(kind):
    return lambda in_size, out_size, key: eqx.nn.make_with_state(kind)(in_size, out_size, key)


net, forgetful, partial, old, alone = map(made, (Net, Forgetful, Partial, Old, Alone))
renamed, undrawn, mixed, each = map(made, (Renamed, Undrawn, Mixed, Each))
keyed, holding, weak = map(made, (Keyed, Holding, Weak))
other_axis = made(lambda *given: Net(*given, axis="rows"))


def of_dtype(in_size, out_size, key):
    norm = eqx.nn.BatchNorm(in_size, "batch", mode="batch", dtype=jnp.float16)
    linear = eqx.nn.Linear(in_size, out_size, key=key)
    return eqx.nn.make_with_state(eqx.nn.Sequential)([norm, linear])


def stateless(in_size, out_size, key):
    return Net(in_size, out_size, key)


def by_hand(in_size, out_size, key):
    net = Net(in_size, out_size, key)
    return eqx.nn.delete_init_state(net), eqx.nn.State(net)


def kept(in_size, out_size, key):
    net = Net(in_size, out_size, key)
    return net, eqx.nn.State(net)


def of_another(in_size, out_size, key):
    net, _ = eqx.nn.make_with_state(Net)(in_size, out_size, key)
    return net, eqx.nn.make_with_state(eqx.nn.BatchNorm)(in_size, "batch", mode="batch")[1]


def reversed_pair(in_size, out_size, key):
    return net(in_size, out_size, key)[::-1]


def spectral(in_size, out_size, key):
    linear = eqx.nn.Linear(in_size, out_size, key=key)
    layers = [eqx.nn.Dropout(0.5), eqx.nn.SpectralNorm(linear, "weight", key=key)]
    return eqx.nn.make_with_state(eqx.nn.Sequential)(layers)
"""
PAIR = "return eqx.nn.make_with_state(Net)(...), where Net is the class of the model"
REFUSED = {
    "stateless": (
        "'nets:stateless' returns a model with state that changes in training "
        "(eqx.nn.BatchNorm), but not the state",
        PAIR,
    ),
    "reversed_pair": ("but not the state", PAIR),
    "by_hand": ("returns a state that was not made by eqx.nn.make_with_state", PAIR),
    "kept": ("returns a model and the state of another one, or of a part of it", PAIR),
    "of_another": ("returns a model and the state of another one, or of a part of it", PAIR),
    "holding": ("returns a model that holds an eqx.nn.State", "pass the state to __call__"),
    "forgetful": ("__call__ returned a DynamicJaxprTracer, not (outputs, state)", "write return"),
    "partial": ("KeyError", ""),
    "old": ("Attempted to use old state", ""),
    "alone": ("takes 2 positional arguments", "write __call__(self, x, state, *, key=None)"),
    "renamed": ("draws with 'rng', which is never passed", "rename 'rng' to 'key'"),
    "undrawn": ("__call__ takes no key", "write __call__(self, x, state, *, key=None)"),
    "other_axis": ("unbound axis name: rows", "the axis of the batch is 'batch'"),
    "mixed": ("unbound axis name: batch", "examples are predicted one by one"),
    "each": ("mapped output", "must not differ between the examples of a batch"),
    "of_dtype": ("have different structures/shapes/dtypes", "make layers without dtype, so that"),
    "weak": ("the new value is weak_f64[]", "set arrays in place of Python numbers"),
    "keyed": ("the model holds a random key, which cannot be saved", ""),
}


def check(directory: Path, name: str, *overrides: str) -> tuple[str, ...]:
    (directory / "nets.py").write_text(NETS, encoding="utf-8")
    text = bent(DIGITS, f"model={{kind='python',function='nets:{name}'}}", "search={}")
    return check_model(parse(text, directory / "study.toml", overrides), in_size=4, out_size=3)


@pytest.mark.parametrize("name", ["net", "spectral"])
def test_models_with_state_are_accepted(name: str, tmp_path: Path) -> None:
    assert check(tmp_path, name) == ()


def test_batch_norm_of_single_rows_causes_a_warning(tmp_path: Path) -> None:
    (warning,) = check(tmp_path, "net", "train.batch_size=1")
    assert "in a batch of one row, BatchNorm returns its bias" in warning
    assert check(tmp_path, "spectral", "train.batch_size=1") == ()


@pytest.mark.parametrize("name", REFUSED)
def test_what_equinox_does_not_document_is_refused(name: str, tmp_path: Path) -> None:
    found, hint = REFUSED[name]
    with pytest.raises(StudyError) as refusal:
        check(tmp_path, name)
    (problem,) = refusal.value.problems
    assert found in problem.found
    assert problem.hint is not None and hint in problem.hint


OWN = "train={program='own:Program', task='classes', epochs=2, batch_size=64}"


@pytest.mark.parametrize(
    ("text", "overrides"),
    [
        (PARTS, ("model.a={kind='python', function='nets:net', out_size=4}",)),
        (COUPLED, ("model.generator={kind='python', function='nets:net', in_size=2}",)),
        (DIGITS, ("model={kind='python', function='nets:net'}", "search={}", OWN)),
    ],
    ids=["alternating", "coupled", "user-defined"],
)
def test_only_supervised_programs_train_them(
    text: str, overrides: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "nets.py").write_text(NETS, encoding="utf-8")
    config = parse(text, tmp_path / "study.toml", [*overrides])
    with pytest.raises(StudyError, match="which only the program 'supervised' supports"):
        check_model(config, in_size=4, out_size=3)
