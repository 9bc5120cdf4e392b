"""A user-defined model that cannot be trained is refused before the start: line, key and fix."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sweeper.config import parse
from sweeper.errors import StudyError
from sweeper.preflight.user_model import check_model
from tests.forking import run_code

pytestmark = pytest.mark.usefixtures("float64")

NETS = """\
import equinox as eqx
import jax


def build(in_size, out_size, *, key, channels, kernel=3):
    if kernel > 5:
        raise ValueError(f"kernel {kernel}\\n  is too large")
    return eqx.nn.MLP(in_size, out_size, channels, kernel, key=key)


def leaves(in_size, out_size, *, key, channels):
    raise SystemExit


def called(in_size, out_size, *, key, channels):
    return eqx.nn.Lambda(lambda x: exit(4))


def open_to_all(in_size, out_size, *, key, **others):
    assert set(others) == {"channels"}
    return eqx.nn.MLP(in_size, out_size, others["channels"], 1, key=key)


def no_key(in_size, out_size, channels):
    return eqx.nn.Identity()


def keyed_by_rng(in_size, out_size, rng, channels):
    return eqx.nn.MLP(in_size, out_size, channels, 1, key=rng)


def keyed_by_prng_key(in_size, out_size, channels, prng_key=None):
    return eqx.nn.MLP(in_size, out_size, channels, 1, key=prng_key)


def keyed_by_rngs_or_others(in_size, out_size, *, rngs, **others):
    return eqx.nn.MLP(in_size, out_size, others["channels"], 1, key=rngs)


def no_model(in_size, out_size, key, channels):
    return lambda x: x


def no_call(in_size, out_size, key, channels):
    return Silent()


def narrow(in_size, out_size, key, channels):
    return eqx.nn.MLP(in_size, out_size + 1, channels, 1, key=key)


def two(in_size, out_size, key, channels):
    return eqx.nn.Lambda(lambda x: (x, x))


def batched(in_size, out_size, key, channels):
    return eqx.nn.Lambda(lambda x: x[:, 0])


def takes_weights(in_size, out_size, key, channels, weights):
    return eqx.nn.MLP(in_size, out_size, channels, 1, key=key)


def depth_too(in_size, out_size, key, depth, channels):
    return eqx.nn.MLP(in_size, out_size, channels, depth, key=key)


def members(in_size, out_size, key, ensemble_size, channels):
    return eqx.nn.MLP(in_size, out_size, channels, 1, key=key)


def of_kind(in_size, out_size, key, kind, channels):
    return eqx.nn.MLP(in_size, out_size, channels, 1, key=key)


def wide(in_size, out_size, key, channels, width=64, activation=jax.nn.relu):
    return eqx.nn.MLP(in_size, out_size, width, 1, activation, key=key)


class Silent(eqx.Module):
    pass


class empty(eqx.Module):
    out_size: int

    def __init__(self, in_size, out_size, key, channels):
        self.out_size = out_size

    def __call__(self, x):
        return x[: self.out_size]


class waves(eqx.Module):
    turn: jax.Array
    linear: eqx.nn.Linear

    def __init__(self, in_size, out_size, key, channels):
        self.turn = jax.numpy.ones(in_size, jax.numpy.complex64)
        self.linear = eqx.nn.Linear(in_size, out_size, key=key)

    def __call__(self, x):
        return self.linear((self.turn * x).real)


def whole(in_size, out_size, key, channels):
    net = build(in_size, out_size, key=key, channels=4)
    return eqx.nn.Sequential([net, eqx.nn.Lambda(jax.numpy.argsort)])


def keyed(in_size, out_size, key, channels):
    return eqx.nn.Sequential([build(in_size, out_size, key=key, channels=4), Keyed(key)])


class Keyed(eqx.Module):
    own: jax.Array

    def __call__(self, x, key=None):
        return x + jax.random.normal(self.own)


CONSTANT = 3
IDENTITY = eqx.nn.Identity()
wrapped = eqx.filter_jit(build)
"""
STUDY = """\
version = 1
[study]
name = "mine"
metric = "val_loss"
direction = "minimize"
n_trials = 4
[data]
source = "sklearn"
name = "iris"
[model]
kind = "python"
function = "nets:build"
channels = 4
[optimizer]
name = "adamw"
lr = 1e-3
[train]
loss = "cross_entropy"
epochs = 1
batch_size = 8
[search]
model.kernel = { type = "int", low = 1, high = 4 }
"""
FUNCTION, CHANNELS, KERNEL = (
    f"study.toml:{line}: {key}: "
    for line, key in ((12, "model.function"), (13, "model.channels"), (22, "search.model.kernel"))
)
MIXED = (
    "search.model.kind={type='categorical',choices=['mlp','python']}",
    "model.depth=1",
    "model.width=8",
)
TABM = "search.model.kind.choices=['tabm','python']"

# overrides; then the message
REFUSED = {
    "no module": (
        ("model.function=nest:build",),
        "--set: model.function: no module 'nest' in {dir} or installed; write the name of a file "
        "next to this one, without .py",
    ),
    "no module in a package": (
        ("model.function=jax.nest:build",),
        "--set: model.function: no module 'jax.nest' in {dir} or installed; ",
    ),
    "a module that raises": (
        ("model.function=broken:build",),
        "--set: model.function: the module 'broken' cannot be imported "
        "(ModuleNotFoundError: No module named 'not_there' (broken.py, line 1)); ",
    ),
    "a module that ends the program": (
        ("model.function=script:build",),
        "--set: model.function: the module 'script' cannot be imported "
        "(SystemExit: 3 (script.py, line 1)); ",
    ),
    "no function": (
        ("model.function=nets:biuld",),
        "--set: model.function: no function 'biuld' in the module 'nets'; "
        "did you mean 'nets:build'?",
    ),
    "something else": (
        ("model.function=nets:CONSTANT",),
        "--set: model.function: 'nets:CONSTANT' is an int, not a function; ",
    ),
    "a model in place of a function": (
        ("model.function=nets:IDENTITY", "search={}"),
        "--set: model.function: 'nets:IDENTITY' is an Identity, not a function that returns a "
        "model; write the name of a function or a class",
    ),
    "an argument for arrays": (
        ("model.function=nets:takes_weights", "search={}", "model.channels=4"),
        "study.toml:10: model.weights: 'nets:takes_weights' needs 'weights', but only gets the "
        "keys of [model], and no arrays; remove the argument 'weights'",
    ),
    "no key in the signature": (
        ("model.function=nets:no_key", "search={}"),
        "--set: model.function: 'nets:no_key' has no argument 'key'; write def no_key(in_size, "
        "out_size, key, channels)",
    ),
    "a key called rng": (
        ("model.function=nets:keyed_by_rng", "search={}"),
        "--set: model.function: 'nets:keyed_by_rng' has an argument 'rng' instead of 'key'; "
        "rename 'rng' to 'key'",
    ),
    "an optional key called prng_key": (
        ("model.function=nets:keyed_by_prng_key", "search={}"),
        "--set: model.function: 'nets:keyed_by_prng_key' has an argument 'prng_key' instead of "
        "'key'; ",
    ),
    "a key called rngs and any other keyword": (
        ("model.function=nets:keyed_by_rngs_or_others", "search={}"),
        "--set: model.function: 'nets:keyed_by_rngs_or_others' has an argument 'rngs' instead "
        "of 'key'; ",
    ),
    "a setting that it does not take": (
        ("model.chanels=4",),
        "--set: model.chanels: 'nets:build' has no argument 'chanels'; "
        "did you mean 'model.channels'?",
    ),
    "a searched setting that it does not take": (
        ("model.function=nets:narrow",),
        KERNEL + "'nets:narrow' has no argument 'kernel'; its arguments are channels",
    ),
    "a setting that it is given anyway": (
        ("model.in_size=4",),
        "--set: model.in_size: 'nets:build' always gets 'in_size'; give yours another name",
    ),
    "a setting that it lacks": (
        ("model={kind='python',function='nets:build'}",),
        "--set: model.channels: missing, but 'nets:build' needs it; write channels = ...",
    ),
    "a setting of the MLP's": (
        ("model.function=nets:depth_too", "search={}", *MIXED),
        "--set: model.depth: 'nets:depth_too' takes 'depth', but does not get model.depth, a "
        "built-in setting; rename the argument",
    ),
    "a setting of TabM's": (
        ("model.function=nets:members", "search={}", *MIXED, TABM),
        "study.toml:10: model.ensemble_size: 'nets:members' takes 'ensemble_size', but does not "
        "get model.ensemble_size, a built-in setting; rename the argument",
    ),
    "a misspelt setting of TabM's": (
        ("model.ensemble_sise=8", *MIXED, TABM),
        "--set: model.ensemble_sise: 'nets:build' has no argument 'ensemble_sise'; did you mean "
        "'model.ensemble_size'?",
    ),
    "a setting of every kind": (
        ("model.function=nets:of_kind", "search={}"),
        "study.toml:11: model.kind: 'nets:of_kind' takes 'kind', but does not get model.kind, a "
        "built-in setting; rename the argument",
    ),
    "a misspelt setting of the MLP's": (
        ("model.widht=8", *MIXED),
        "--set: model.widht: 'nets:build' has no argument 'widht'; did you mean 'model.width'?",
    ),
    "a function that raises": (
        ("model.kernel=9", "search={}"),
        FUNCTION + "'nets:build' raised ValueError: kernel 9 is too large (nets.py, line 7); "
        "fix the function",
    ),
    "a function that raises for a searched value": (
        ("search.model.kernel.high=9",),
        "--set: search.model.kernel: with kernel = 9, 'nets:build' raised ValueError: "
        "kernel 9 is too large (nets.py, line 7); fix the function",
    ),
    "a function that ends the program": (
        ("model.function=nets:leaves", "search={}"),
        "--set: model.function: 'nets:leaves' raised SystemExit (nets.py, line 12); ",
    ),
    "a model that ends the program": (
        ("model.function=nets:called", "search={}"),
        "--set: model.function: the model raised SystemExit: 4 (nets.py, line 16) for one ",
    ),
    "no model": (
        ("model.function=nets:no_model", "search={}"),
        "--set: model.function: 'nets:no_model' returns a function, not an eqx.Module; "
        "return an eqx.Module",
    ),
    "a model that cannot be called": (
        ("model.function=nets:no_call", "search={}"),
        "--set: model.function: 'nets:no_call' returns a model that cannot be called; ",
    ),
    "outputs of a wrong shape": (
        ("model.function=nets:narrow", "search={}"),
        "--set: model.function: the model returns outputs of shape (4,) for one example, not "
        "(3,); let its last layer have out_size outputs",
    ),
    "outputs that are not an array": (
        ("model.function=nets:two", "search={}"),
        "--set: model.function: the model returns a tuple for one example; return an array "
        "of shape (3,) only",
    ),
    "no parameters": (
        ("model.function=nets:empty", "search={}"),
        "--set: model.function: the model has no parameters to train; give it floating-point "
        "arrays",
    ),
    "complex parameters": (
        ("model.function=nets:waves", "search={}"),
        "--set: model.function: the model has complex parameters; ",
    ),
    "outputs that are integers": (
        ("model.function=nets:whole", "search={}"),
        "--set: model.function: the model returns outputs of type int",
    ),
    "a key in a field": (
        ("model.function=nets:keyed", "search={}"),
        "--set: model.function: the model holds a random key, which cannot be saved; ",
    ),
    "a model of a batch": (
        ("model.function=nets:batched", "search={}"),
        "--set: model.function: the model raised IndexError: ",
    ),
}

Check = Callable[..., tuple[str, ...]]


@pytest.fixture
def check(tmp_path: Path) -> Check:
    (tmp_path / "nets.py").write_text(NETS, encoding="utf-8")
    (tmp_path / "broken.py").write_text("import not_there\n", encoding="utf-8")
    (tmp_path / "script.py").write_text("raise SystemExit(3)\n", encoding="utf-8")

    def check(*overrides: str) -> tuple[str, ...]:
        return check_model(parse(STUDY, tmp_path / "study.toml", overrides), in_size=4, out_size=3)

    return check


@pytest.mark.parametrize("case", REFUSED)
def test_models_that_cannot_be_trained_are_refused(case: str, check: Check, tmp_path: Path) -> None:
    overrides, said = REFUSED[case]

    with pytest.raises(StudyError) as refusal:
        check(*overrides)

    (problem,) = refusal.value.problems
    assert str(problem).startswith(said.format(dir=tmp_path))
    assert problem.hint


def test_a_problem_names_the_line(check: Check, tmp_path: Path) -> None:
    text = STUDY.replace("nets:build", "nets:biuld")
    with pytest.raises(StudyError, match=f"^{FUNCTION}no function 'biuld'"):
        check_model(parse(text, tmp_path / "study.toml"), in_size=4, out_size=3)


@pytest.mark.parametrize(
    "overrides",
    [
        (),
        ("execution.precision=float64",),
        ("model.function=nets:open_to_all", "search={}"),
        MIXED,
        ("model.function=nets:missing", "model.kind=mlp", "model={depth=1,width=8}", "search={}"),
    ],
)
def test_models_that_can_be_trained_are_accepted(overrides: tuple[str, ...], check: Check) -> None:
    check(*overrides)


@pytest.mark.parametrize("others", [(), (TABM,), ("search.model.width={type='int',low=4,high=8}",)])
def test_an_argument_with_the_name_of_a_setting_of_other_kinds_is_reported(
    others: tuple[str, ...], check: Check
) -> None:
    assert check("model.function=nets:wide", "search={}", *MIXED, *others) == (
        "model.function: 'nets:wide' takes 'width', but does not get model.width, a built-in "
        "setting, so it always has its default; rename the argument",
    )


def test_a_check_does_not_use_the_device(tmp_path: Path) -> None:
    """Memory shares are set before JAX opens it."""
    (tmp_path / "nets.py").write_text(NETS, encoding="utf-8")
    (tmp_path / "study.toml").write_text(STUDY, encoding="utf-8")
    code = """if True:
        from pathlib import Path
        from jax._src import xla_bridge
        from sweeper.config import load
        from sweeper.preflight.user_model import check_model
        check_model(load(Path("study.toml")), 4, 3)
        print(len(xla_bridge._backends))"""
    done = run_code(code, directory=tmp_path)
    assert (done.stdout, done.stderr) == ("0\n", "")
