"""A bad user-defined loss, metric or optimizer is refused before anything starts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sweeper.config import parse
from sweeper.data.prepare import prepare
from sweeper.errors import StudyError
from sweeper.preflight.user_functions import check_functions
from sweeper.preflight.user_program import check_program
from tests.config.conftest import VALID
from tests.small_studies import PARTS

pytestmark = pytest.mark.usefixtures("float64")

OWN = """\
import sys

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax


def fine(outputs, y):
    return jnp.mean(outputs[:, 0] * y)


def each(outputs, y):
    return outputs[:, 0] * y


def count(outputs, y):
    return jnp.sum(y)


def twice(outputs, y):
    return fine(outputs, y), 1


def fails(outputs, y):
    raise ValueError("no\\n  such thing")


def leaves(outputs, y):
    raise SystemExit(0)


def leaves_too(*, lr):
    sys.exit(4)


def make(*, lr, cap=1.0, kind="sgd"):
    return optax.sgd(lr * cap)


def branches(*, lr, cap=1.0):
    return optax.sgd(lr) if cap > 0.5 else optax.adam(lr)


def nothing(*, lr):
    return None


def everything(**options):
    return optax.sgd(options["lr"])


def flat(*, lr):
    return optax.GradientTransformation(
        lambda parameters: (), lambda updates, state, parameters=None: (jnp.zeros(3), state)
    )


def turns(outputs, y):
    return fine(outputs, y) * 1j


def keeps(first, next_of):
    return optax.GradientTransformation(
        lambda parameters: first, lambda updates, state, parameters=None: (updates, next_of(state))
    )


def counts(*, lr):
    return keeps(np.zeros((), np.int32), lambda count: count + 1)


def counts_apart(*, lr):
    return keeps(0, lambda count: count + 1)


def halves(*, lr):
    return keeps(jnp.zeros(2, jnp.int32), lambda count: count + 0.5)


def noisy(*, lr):
    return optax.noisy_sgd(lr, key=0)


def searches(*, lr):
    return optax.lbfgs(lr)


def does_not_search(*, lr):
    return optax.lbfgs(lr, linesearch=None)


def accumulates(*, lr):
    return optax.MultiSteps(optax.adam(lr), 4)


def accumulates_gradients(*, lr):
    return optax.MultiSteps(waits(lr=lr), 4).gradient_transformation()


def is_not_called(*, lr):
    return optax.adam


def waits(*, lr):
    return optax.chain(optax.adam(lr), optax.contrib.reduce_on_plateau(patience=3))


def looks_ahead(*, lr):
    return optax.lookahead(optax.adam(lr), 5, 0.5)


class Searches:
    def init(self, model, optimizer, key):
        return model, optimizer.init(eqx.filter(model, eqx.is_inexact_array))

    def step(self, model, opt_state, batch, optimizer, key):
        arrays, rest = eqx.partition(model, eqx.is_inexact_array)

        def loss(arrays):
            return jnp.mean(jax.vmap(eqx.combine(arrays, rest))(batch.x) ** 2)

        value, grad = jax.value_and_grad(loss)(arrays)
        given = {"value": value, "grad": grad, "value_fn": loss}
        updates, opt_state = optimizer.update(grad, opt_state, arrays, **given)
        return eqx.apply_updates(model, updates), opt_state, value

    def evaluate(self, model, data):
        return {"loss": jnp.mean(jax.vmap(model)(data.x) ** 2)}


def gathers(*, lr):
    return keeps((), lambda past: (*past, jnp.zeros(1)))


IDENTITY = eqx.nn.Identity()
OPTIMIZER = optax.sgd(0.1)


def of_params(params, lr):
    return optax.sgd(lr)


def swapped(y_true, y_pred):
    return jnp.mean(y_pred[:, 0] * y_true)


def fixed():
    return optax.sgd(0.1)


def apart(outputs, y):
    return jnp.sum((outputs - y) ** 2) / y.shape[1]
"""
BY_OWN = "call it in your own train.program"
SAME_STATE = "return a state with the same tree, shapes and types as the one before"
Check = Callable[..., list[tuple[str, str, str]]]


@pytest.fixture
def check(tmp_path: Path) -> Check:
    """The refusals of a study that names functions of a module next to it."""

    def check(*overrides: str) -> list[tuple[str, str, str]]:
        (tmp_path / "own_functions.py").write_text(OWN, encoding="utf-8")
        given = [override.replace("own:", "own_functions:") for override in overrides]
        config = parse(VALID, tmp_path / "study.toml", ["search={}", *given])
        try:
            check_functions(config, 3)
        except StudyError as error:
            return [
                (p.key, p.found.replace("own_functions:", "own:"), p.hint) for p in error.problems
            ]
        return []

    return check


def of(loss: str) -> tuple[str, str]:
    return f"train.loss={loss}", "train.task=classes"


@pytest.mark.parametrize(
    "overrides",
    [
        of("own:fine"),
        ("train.metrics=['own:fine','own:count']",),
        ("optimizer={name='own:make',lr=0.1}",),
        ("optimizer={name='own:make',lr=0.1,cap=2.0,kind='x'}",),
        ("optimizer={name='own:everything',lr=0.1,other=2}",),
        ("optimizer={name='own:branches',lr=0.1,cap=2}",),
        ("optimizer={name='own:counts',lr=0.1}",),
        ("optimizer={name='own:waits',lr=0.1}",),
        ("optimizer={name='own:does_not_search',lr=0.1}",),
        ("optimizer={name='own:accumulates_gradients',lr=0.1}",),
    ],
)
def test_functions_that_compile_are_accepted(overrides: tuple[str, ...], check: Check) -> None:
    assert check(*overrides) == []


@pytest.mark.parametrize(
    ("overrides", "key", "found", "hint"),
    [
        (
            of("own:fin"),
            "train.loss",
            "no function 'fin' in the module 'own_functions'",
            "did you mean 'own_functions:fine'?",
        ),
        (
            of("own:each"),
            "train.loss",
            "'own:each' returns an array of shape (4,) for outputs of shape (4, 3)",
            "return one number, the mean over examples",
        ),
        (
            of("own:twice"),
            "train.loss",
            "'own:twice' returns a tuple for outputs of shape (4, 3)",
            "return one number, the mean over examples",
        ),
        (
            of("own:count"),
            "train.loss",
            "'own:count' returns int64, which has no gradient",
            "return a floating-point number",
        ),
        (
            ("train.metrics=['own:swapped']",),
            "train.metrics",
            "'own:swapped' takes y_true before y_pred, but is called with the outputs of the model "
            "first",
            "swap its first two parameters",
        ),
        (
            ("train.metrics=['own:fails']",),
            "train.metrics",
            "'own:fails' raised ValueError: no such thing (own_functions.py, line 27) for outputs "
            "of shape (4, 3) and y of shape (4,)",
            "fix the function",
        ),
        (
            ("train.metrics=['own:leaves']",),
            "train.metrics",
            "'own:leaves' raised SystemExit: 0 (own_functions.py, line 31) for outputs of shape "
            "(4, 3) and y of shape (4,)",
            "fix the function",
        ),
        (
            ("optimizer={name='own:leaves_too',lr=0.1}",),
            "optimizer.name",
            "'own:leaves_too' raised SystemExit: 4 (own_functions.py, line 35)",
            "fix the function",
        ),
        (
            ("optimizer={name='own:IDENTITY',lr=0.1}",),
            "optimizer.name",
            "'own:IDENTITY' is an Identity, not a function that returns an optimizer",
            "write the name of a function or a class",
        ),
        (
            ("optimizer={name='own:OPTIMIZER',lr=0.1}",),
            "optimizer.name",
            "'own:OPTIMIZER' is a GradientTransformationExtraArgs, not a function",
            "write the name of a function",
        ),
        (
            ("optimizer={name='own:of_params',lr=0.1}",),
            "optimizer.params",
            "'own:of_params' needs 'params', but only gets the keys of [optimizer], and no arrays",
            "remove the argument 'params'",
        ),
        (
            ("optimizer={name='own:maek',lr=0.1}",),
            "optimizer.name",
            "no function 'maek' in the module 'own_functions'",
            "did you mean 'own_functions:make'?",
        ),
        (
            ("optimizer={name='own:make',lr=0.1,cpa=1.0}",),
            "optimizer.cpa",
            "'own:make' has no argument 'cpa'",
            "did you mean 'optimizer.cap'?",
        ),
        (
            ("optimizer={name='own:make'}",),
            "optimizer.lr",
            "missing, but 'own:make' needs it",
            "write lr = ...",
        ),
        (
            ("optimizer={name='own:branches',lr=0.1,cap=2.0}",),
            "optimizer.name",
            "'own:branches' raised TracerBoolConversionError: floats are traced "
            "(own_functions.py, line 43)",
            "choose between them with jnp.where, or write integers",
        ),
        (
            ("optimizer={name='own:nothing',lr=0.1}",),
            "optimizer.name",
            "'own:nothing' returns None, not an optax.GradientTransformation",
            "return one, such as optax.sgd(lr)",
        ),
        (
            ("optimizer={name='own:flat',lr=0.1}",),
            "optimizer.name",
            "'own:flat' returns updates of shapes [(3,)] for one parameter of shape (3, 2)",
            "return one update per parameter",
        ),
        (
            ("train.metrics=['own:turns']",),
            "train.metrics",
            "'own:turns' returns complex64, which has no order",
            "return a real number",
        ),
        (
            ("optimizer={name='own:counts_apart',lr=0.1}",),
            "optimizer.name",
            "'own:counts_apart' keeps int in its state, which is not an array",
            "start with an array, such as jnp.zeros((), jnp.int32)",
        ),
        (
            ("optimizer={name='own:halves',lr=0.1}",),
            "optimizer.name",
            "'own:halves' changes int32[2] to float64[2] in its state",
            SAME_STATE,
        ),
        (
            ("optimizer={name='own:noisy',lr=0.1}",),
            "optimizer.name",
            "'own:noisy' keeps a random key in its state, which cannot be saved",
            "keep jax.random.key_data(key) instead (Optax's add_noise and noisy_sgd cannot)",
        ),
        (
            ("optimizer={name='own:gathers',lr=0.1}",),
            "optimizer.name",
            "'own:gathers' returns a state with a different tree in its first step",
            SAME_STATE,
        ),
        (
            ("optimizer={name='own:searches',lr=0.1}",),
            "optimizer.name",
            "'own:searches' needs value_fn in an update, which gets only value and grad",
            f"use one without a line search, such as optax.lbfgs(lr, linesearch=None), or {BY_OWN}",
        ),
        (
            ("optimizer={name='own:accumulates',lr=0.1}",),
            "optimizer.name",
            "'own:accumulates' returns a MultiSteps, not an optax.GradientTransformation",
            "return MultiSteps(...).gradient_transformation()",
        ),
        (
            ("optimizer={name='own:is_not_called',lr=0.1}",),
            "optimizer.name",
            "'own:is_not_called' returns a function, not an optax.GradientTransformation",
            "return what it gives when it is called, such as optax.sgd(lr)",
        ),
        (
            ("optimizer={name='own:looks_ahead',lr=0.1}",),
            "optimizer.name",
            "'own:looks_ahead' raised AttributeError: 'dict' object has no attribute 'fast'",
            f"let it work with any tree of arrays, value and grad, or {BY_OWN}",
        ),
    ],
)
def test_functions_that_do_not_compile_are_refused(
    overrides: tuple[str, ...], key: str, found: str, hint: str, check: Check
) -> None:
    assert check(*overrides) == [(key, found, hint)]


def test_a_program_may_pass_the_loss_itself_to_a_line_search(tmp_path: Path) -> None:
    (tmp_path / "own_functions.py").write_text(OWN, encoding="utf-8")
    own = "train={program='own_functions:Searches',task='classes',epochs=2,batch_size=8}"
    optimizer = "optimizer={name='own_functions:searches',lr=0.1}"
    study = parse(VALID, tmp_path / "study.toml", ["search={}", own, optimizer])

    check_functions(study, 3)
    check_program(study, prepare(study))


def test_the_optimizer_of_each_part_is_checked(tmp_path: Path) -> None:
    (tmp_path / "own_functions.py").write_text(OWN, encoding="utf-8")
    optimizers = "{a={name='adam'},b={name='own_functions:searches'},c={name='sgd'}}"
    study = parse(PARTS, tmp_path / "study.toml", [f"optimizer={optimizers}"])
    with pytest.raises(StudyError, match=r"optimizer\.b\.name: .* needs value_fn"):
        check_functions(study, 1)


def test_a_loss_between_parts_is_checked_with_the_outputs_of_parts(tmp_path: Path) -> None:
    """Although the target of the data is classes, and the same function is against them, too."""
    (tmp_path / "own_functions.py").write_text(OWN, encoding="utf-8")
    losses = "{of='c',against='b',kind='own_functions:apart'}"
    own = "train.losses.data.kind=cross_entropy", f"train.losses.follow={losses}"
    study = parse(PARTS, tmp_path / "study.toml", own)
    check_functions(study, 3)
    also = "train.losses.more={of='b',kind='own_functions:apart'}"
    study = parse(PARTS, tmp_path / "study.toml", [*own, also])
    with pytest.raises(StudyError) as refusal:
        check_functions(study, 3)
    assert [problem.key for problem in refusal.value.problems] == ["train.losses.more.kind"]


@pytest.mark.parametrize("shared", [True, False])
def test_a_rate_of_a_phase_whose_optimizer_takes_none_is_refused(
    shared: bool, tmp_path: Path
) -> None:
    (tmp_path / "own_functions.py").write_text(OWN, encoding="utf-8")
    own = "{name='own_functions:fixed'}"
    optimizer = own if shared else f"{{a={{name='adam'}},b={{name='adam'}},c={own}}}"
    study = parse(PARTS, tmp_path / "study.toml", [f"optimizer={optimizer}"])
    with pytest.raises(StudyError) as refusal:
        check_functions(study, 1)
    rates = ["train.phases.fit.lr"] * shared + ["train.phases.follow.lr"]
    assert [(problem.key, problem.found, problem.hint) for problem in refusal.value.problems] == [
        (
            rate,
            "'own_functions:fixed', the optimizer in this phase, has no argument 'lr'",
            "remove it, or add the argument",
        )
        for rate in rates
    ]
