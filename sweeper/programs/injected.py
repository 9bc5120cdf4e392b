"""The hyperparameters that `optax.inject_hyperparams` keeps in the state of an optimizer.

A user-defined optimizer is created in each step, with the learning rate of that step, but would
continue with the rate in its state, which is that of the first step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import optax
from jax.extend.core import Literal
from jaxtyping import PyTree

from sweeper.programs.schedules import Number

# which of the numbers in a state to replace, in the order of `_injected_states`
Choice = Sequence[dict[str, bool]]


def at_rate(
    made: Callable[[Number], optax.GradientTransformation], rate: Number
) -> optax.GradientTransformationExtraArgs:
    """The optimizer that `made` returns for `rate`, which also replaces older rates in its state.

    Other hyperparameters in the state stay: they are the same in each step, unless the optimizer
    changes them itself.
    """
    optimizer = optax.with_extra_args_support(made(rate))

    def update(updates: Any, state: Any, params: Any = None, **loss: Any) -> tuple[Any, Any]:
        if any(_injected_states(state)):
            like = updates if params is None else params
            choice = _find_rate_dependent(lambda rate: made(rate).init(like), rate)
            state = _replace_hyperparams(state, optimizer.init(like), iter(choice))
        return optimizer.update(updates, state, params, **loss)

    return optax.GradientTransformationExtraArgs(optimizer.init, update)


def with_hyperparams_of(fresh: PyTree, state: PyTree) -> PyTree:
    """The `state` of an optimizer with the hyperparameters in `fresh`, that of a similar one."""
    if not any(_injected_states(state)):
        return state
    every = [dict.fromkeys(one.hyperparams, True) for one in _injected_states(state)]
    return _replace_hyperparams(state, fresh, iter(every))


def _is_injected(node: Any) -> bool:
    kinds = optax.InjectStatefulHyperparamsState, optax.InjectHyperparamsState
    return isinstance(node, kinds)


def _injected_states(state: PyTree) -> Iterator[Any]:
    """The states of `optax.inject_hyperparams` in a state, each before those inside it."""
    for node in filter(_is_injected, jax.tree.leaves(state, is_leaf=_is_injected)):
        yield node
        yield from _injected_states(node.inner_state)


def _replace_hyperparams(state: PyTree, fresh: PyTree, choice: Iterator[dict[str, bool]]) -> PyTree:
    """`state` with the chosen hyperparameters of `fresh`."""

    def replaced(old: Any, new: Any) -> Any:
        if not _is_injected(old):
            return old
        is_new = next(choice)
        numbers = {
            name: new.hyperparams[name] if is_new[name] else number
            for name, number in old.hyperparams.items()
        }
        inner = _replace_hyperparams(old.inner_state, new.inner_state, choice)
        return old._replace(hyperparams=numbers, inner_state=inner)

    return jax.tree.map(replaced, state, fresh, is_leaf=_is_injected)


def _find_rate_dependent(init: Callable[[Number], PyTree], rate: Number) -> Choice:
    """Which hyperparameters in the state that `init` returns depend on the rate."""

    def numbers(rate: Number) -> list[dict[str, Any]]:
        return [one.hyperparams for one in _injected_states(init(rate))]

    closed, shapes = jax.make_jaxpr(numbers, return_shape=True)(rate)
    reached = {*closed.jaxpr.invars}
    for equation in closed.jaxpr.eqns:
        if any(one in reached for one in equation.invars if not isinstance(one, Literal)):
            reached |= {*equation.outvars}
    depends = [not isinstance(one, Literal) and one in reached for one in closed.jaxpr.outvars]
    return jax.tree.unflatten(jax.tree.structure(shapes), depends)
