"""A user-defined model that draws in training gets a key, or is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeper.config import parse
from sweeper.errors import StudyError
from sweeper.preflight.user_model import check_model
from tests.preflight.test_check_model import STUDY

pytestmark = pytest.mark.usefixtures("float64")

BASE = """\
import equinox as eqx, functools, jax, jax.numpy as jnp, numpy as np


class Skip(eqx.Module):
    def __call__(self, x, key=None):
        return x if key is None else x * jax.random.bernoulli(key, 0.5, x.shape)


def undeclared(call):
    return lambda *args, **kwargs: call(*args, **kwargs)


class Base(eqx.Module):
    a: eqx.nn.Linear
    drop: eqx.nn.Dropout
    b: eqx.nn.Linear

    def __init__(self, in_size, out_size, key, p=0.5, inference=False):
        a, b = jax.random.split(key)
        self.a = eqx.nn.Linear(in_size, 4, key=a)
        self.drop = eqx.nn.Dropout(p, inference)
        self.b = eqx.nn.Linear(4, out_size, key=b)


class Net(Base):
"""
NO_KEY = "in training, because its __call__ takes no key"

# how a model is called; then the message, None if it trains
CALLS = {
    "no key": ("(self, x): return self.b(self.drop(self.a(x)))", NO_KEY),
    "a key called rng": (
        "(self, x, rng=None): return self.b(self.drop(self.a(x), key=rng))",
        f"{NO_KEY}; rename 'rng' to 'key': it gets",
    ),
    "a layer that skips without rng": (
        "(self, x, rng=None): return self.b(Skip()(self.a(x), rng))",
        "the model draws with 'rng', which is never passed, so it draws nothing; "
        "rename 'rng' to 'key'",
    ),
    "a required key of another name": (
        "(self, x, k): return self.b(self.drop(self.a(x), key=k))",
        "write __call__(self, x, *, key=None): nothing else is passed",
    ),
    "a required key called rng": (
        "(self, x, rng): return self.b(self.drop(self.a(x), key=rng))",
        "rename 'rng' to 'key': it gets a key in training and None in evaluation",
    ),
    "a key by position alone": (
        "(self, x, key=None, /): return self.b(self.drop(self.a(x), key=key))",
        "write __call__(self, x, *, key=None): nothing else is passed",
    ),
    "a key that is not passed on": (
        "(self, x, key=None): return self.b(self.drop(self.a(x)))",
        "Dropout requires a key",
    ),
    "keywords that are not passed on": (
        "(self, x, **kwargs): return self.b(self.drop(self.a(x)))",
        NO_KEY,
    ),
    "a flag that turns dropout on": (
        "(self, x, train=False, key=None): "
        "return self.b(self.drop(self.a(x), inference=not train, key=key))",
        "the model only draws with train = True, which is never passed; remove 'train'",
    ),
    "NumPy's random numbers": (
        "(self, x, key=None): return self.b(self.drop(self.a(x), key=key)) + np.random.randn()",
        "the model gives different results each time",
    ),
    "a key": ("(self, x, key=None): return self.b(self.drop(self.a(x), key=key))", None),
    "a key by keyword alone": (
        "(self, x, *, key): return self.b(self.drop(self.a(x), key=key))",
        None,
    ),
    "a flag that leaves dropout on": (
        "(self, x, train=True, key=None): "
        "return self.b(self.drop(self.a(x), inference=not train or key is None, key=key))",
        None,
    ),
    "keywords": ("(self, x, **kwargs): return self.b(self.drop(self.a(x), **kwargs))", None),
    "keywords that no layer takes": (
        "(self, x, **kwargs): return self.b(jax.nn.relu(self.a(x), **kwargs))",
        None,
    ),
}
DECORATORS = {
    "filter_jit": ("@eqx.filter_jit", None),
    "a named scope": ("@jax.named_scope('net')", None),
    "a decorator that hides the signature": ("@undeclared", None),
}


def check(tmp_path: Path, source: str, *overrides: str) -> tuple[str, ...]:
    """The warnings about the model `nets:build`."""
    (tmp_path / "nets.py").write_text(source, encoding="utf-8")
    own = ("model={kind='python',function='nets:build'}", "search={}", *overrides)
    return check_model(parse(STUDY, tmp_path / "study.toml", own), in_size=4, out_size=3)


def net(call: str, builder: str = "build = Net", decorator: str = "") -> str:
    return f"{BASE}    {decorator}\n    def __call__{call}\n\n\n{builder}\n"


@pytest.mark.parametrize("case", CALLS)
def test_a_model_that_draws_is_passed_a_key_or_refused(case: str, tmp_path: Path) -> None:
    call, said = CALLS[case]
    if said is None:
        assert check(tmp_path, net(call)) == ()
        return
    with pytest.raises(StudyError) as refused:
        check(tmp_path, net(call))
    assert said in str(refused.value)


@pytest.mark.parametrize("decorator", DECORATORS)
def test_a_decorated_call_is_passed_its_key(decorator: str, tmp_path: Path) -> None:
    call, _ = CALLS["a key"]
    assert check(tmp_path, net(call, decorator=DECORATORS[decorator][0])) == ()


@pytest.mark.parametrize("arguments", ["inference=True", "p=0.0"])
def test_dropout_that_its_author_turned_off_needs_no_key(arguments: str, tmp_path: Path) -> None:
    call, _ = CALLS["no key"]
    assert check(tmp_path, net(call, f"build = functools.partial(Net, {arguments})")) == ()


def test_a_study_of_edition_1_gets_a_warning_and_continues(tmp_path: Path) -> None:
    call, said = CALLS["no key"]
    (warning,) = check(tmp_path, net(call), "edition=1")
    assert said is not None and said in warning
