"""How to fix a user-defined model that raised an error when it was built or called."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Mapping
from traceback import walk_tb
from typing import Any

from sweeper.config.user_code import keywords_of
from sweeper.errors import listed
from sweeper.models.adapters import MODES, DrawingLinenModel, LinenModel, NnxModel
from sweeper.models.stateful import BATCH, NotPairError, StatefulModel, without_state
from sweeper.models.user_network import takes_key

ONLY_MODES = f"An argument that says whether the model trains must be called {listed(MODES, 'or')}"
_LINEN_DROPOUT = "def __call__(self, x, train=False) and nn.Dropout(rate, deterministic=not train)"
# names of a random key in other libraries and tutorials
_OTHER_KEY = re.compile(
    r"_?(keys|p?rngs?|(p?rng|jax|seed|rand|random|init|dropout)_?keys?)", re.IGNORECASE
)


def hint_about_building(error: BaseException) -> str | None:
    """How to fix a function that raised `error` in a library of its model; else None."""
    modules = [frame.f_globals.get("__name__", "") for frame, _ in walk_tb(error.__traceback__)]
    is_in_nnx = any(name.startswith("flax.nnx.") for name in modules)
    if is_in_nnx and isinstance(error, AttributeError) and "Tracer has no attr" in str(error):
        return "pass nnx.Rngs(key) as rngs"
    is_in_linen = any(name.startswith("flax.linen.") for name in modules)
    if is_in_linen and isinstance(error, ValueError) and '"deterministic" must' in str(error):
        return f"write {_LINEN_DROPOUT}"
    return None


def hint_about_call(model: Any, error: BaseException) -> str | None:
    """How to fix a model that raised `error` when it was called with one example; else None."""
    return (
        state_hint(model, error)
        or _signature_hint(model)
        or _draw_hint(model, error)
        or _parameters_hint(model, error)
    )


def state_hint(model: Any, error: BaseException) -> str | None:
    """How to fix a model that raised `error` because of its state; None if it has none."""
    if not isinstance(model, StatefulModel):
        return None
    if isinstance(error, NotPairError):
        return "write return outputs, state, with the state that the last layer returned"
    if isinstance(error, NameError) and "axis name" in str(error):
        return (
            f"the axis of the batch is '{BATCH}', and only in training: examples are predicted one "
            "by one, with eqx.nn.inference_mode"
        )
    if isinstance(error, ValueError) and "weak_" in str(error):
        return "set arrays in place of Python numbers: jnp.full_like(state.get(index), number)"
    if isinstance(error, ValueError) and "different structures/shapes/dtypes" in str(error):
        return (
            "a state keeps its shapes and dtypes: make layers without dtype, so that they have the "
            "precision of the study"
        )
    if isinstance(error, ValueError) and "out_axes" in str(error):
        return (
            "the next state must not differ between the examples of a batch: combine them with "
            f"jax.lax.pmean(..., '{BATCH}')"
        )
    return None


def _signature_hint(model: Callable[..., Any]) -> str | None:
    """How to write `__call__` if it cannot be called with one example, and a key in training."""
    passed = [None, None] if isinstance(model, StatefulModel) else [None]
    try:
        own = inspect.signature(without_state(model))
        own.bind(*passed, **({"key": None} if takes_key(model) else {}))
    except TypeError:
        return rename_hint(model) or f"write {call_of(model)}: nothing else is passed"
    return None


def rename_hint(model: Callable[..., Any]) -> str | None:
    """How to rename the argument of `__call__` that is a key by its name, if there is one."""
    meant = (
        None
        if takes_key(model)
        else meant_as_key(keywords_of(without_state(model))[0], (), is_open=False)
    )
    if meant is None:
        return None
    return f"rename '{meant}' to 'key': it gets a key in training and None in evaluation"


def call_of(model: Any) -> str:
    """How the call of a model is written."""
    state = "state, " if isinstance(model, StatefulModel) else ""
    return f"__call__(self, x, {state}*, key=None)"


def _draw_hint(model: Any, error: BaseException) -> str | None:
    """How to fix a model of these libraries that raised `error` because it draws; else None."""
    if isinstance(model, NnxModel) and isinstance(error, ValueError) and "`rngs`" in str(error):
        return "give rngs to the layers that draw: nnx.Dropout(rate, rngs=rngs)"
    if type(error).__name__ == "InvalidRngError":
        return f"let it draw in training only, from the stream 'dropout': {_LINEN_DROPOUT}"
    if type(error).__name__ == "MissingRNGError":
        return "use hk.transform, and draw only if hk.maybe_next_rng_key() is not None"
    return None


def _parameters_hint(model: Any, error: BaseException) -> str | None:
    """How to fix a model of Linen or Haiku whose call does not fit `error`; else None."""
    is_of_size = type(error).__name__ == "ScopeParamShapeError"
    if is_of_size or (isinstance(error, ValueError) and "with retrieved shape" in str(error)):
        return "initialize it with an example of this shape: net.init(key, jnp.zeros(in_size))"
    if isinstance(model, LinenModel | DrawingLinenModel) and isinstance(error, TypeError):
        call = inspect.signature(type(model.module).__call__)
        modes = {model.mode: None} if isinstance(model, DrawingLinenModel) else {}
        try:
            call.bind(None, None, **modes)
        except TypeError:
            return f"give it a default. {ONLY_MODES}"
    return None


def meant_as_key(
    named: Mapping[str, inspect.Parameter], given: Collection[str], is_open: bool
) -> str | None:
    """The argument that is a random key by its name, but that nothing passes; else None."""
    defaults = (inspect.Parameter.empty,) if is_open else (inspect.Parameter.empty, None)
    for name, parameter in named.items():
        is_unset = any(parameter.default is default for default in defaults)
        if is_unset and name not in given and _OTHER_KEY.fullmatch(name):
            return name
    return None
