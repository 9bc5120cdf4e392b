"""Optax optimizers with traced numbers, so that lanes with different rates share a program.

`weight_decay` is decoupled for every optimizer (Loshchilov & Hutter 2019): the parameters move by
-lr * (update + weight_decay * parameter). The study's rules, which are compiled in, say where it
applies; its strength is a number of the lane. A user-defined optimizer moves the parameters in any
way, and is created in each step.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from inspect import Parameter
from typing import Any

import jax
import jax.numpy as jnp
import optax

from sweeper.config import Settings
from sweeper.config.alternating import AlternatingTable
from sweeper.config.optimizer import AdafactorTable, SgdTable, UserOptimizerTable
from sweeper.config.user_code import keywords_of, load_function
from sweeper.config.user_errors import RAISED
from sweeper.models.decay_masks import Places, amounts_of, mask_of
from sweeper.models.network import Network, Traced
from sweeper.programs.injected import at_rate
from sweeper.programs.schedules import Number, Values, rate_of

Direction = Callable[[Settings, Values], optax.GradientTransformation]


def optimizer_of(
    settings: Settings,
    hparams: Mapping[str, Any],
    traced: Traced,
    network: Network,
    step: Number,
) -> optax.GradientTransformationExtraArgs:
    """The optimizer of a class for the vector of parameters, with the numbers of one lane.

    `traced` is the part of its structure that the lane gets at run time; `step` counts the previous
    updates, for the learning rate. Updates take the loss as `value` and its gradient as `grad`.
    """
    clipping = clipping_of(settings, hparams)
    return optax.chain(*clipping, *moving_of(settings, hparams, traced, network, step))


def moving_of(
    settings: Settings,
    hparams: Mapping[str, Any],
    traced: Traced,
    network: Network,
    step: Number,
    places: Places | None = None,
) -> tuple[optax.GradientTransformation, ...]:
    """The transformations of that optimizer after clipping, in order.

    An elementwise one may be restricted to the parameters in `places` of the vector.
    """
    table = settings.sole_optimizer
    if isinstance(table, UserOptimizerTable):
        users = users_optimizer(settings, hparams, network, step)
        return (_over_leaves(given_the_loss(users), network),)
    direction = direction_of(settings, hparams)
    weight_decay = hparams["optimizer.weight_decay"]
    rate = optax.scale_by_learning_rate(rate_of(settings, hparams, step))
    if table.elementwise:
        decay = optax.add_decayed_weights(weight_decay * network.vector.decayed(traced, places))
        return direction, decay, rate
    decay = decayed_leaves(weight_decay, network)
    return _over_leaves(optax.chain(direction, decay), network), rate


def clipping_of(settings: Settings, hparams: Values) -> list[optax.GradientTransformation]:
    """The transformations of gradients before an optimizer sees them."""
    return [
        transformation(hparams[key])
        for key, transformation in _CLIPPING.items()
        if settings.has(key)
    ]


def direction_of(settings: Settings, hparams: Values) -> optax.GradientTransformation:
    """The direction in which a built-in optimizer moves the parameters."""
    return _DIRECTIONS[settings.sole_optimizer.name](settings, hparams)


def _adam(settings: Settings, hparams: Values) -> optax.GradientTransformation:
    return optax.scale_by_adam(
        b1=hparams["optimizer.b1"],
        b2=hparams["optimizer.b2"],
        eps=hparams["optimizer.eps"],
    )


def _rmsprop(settings: Settings, hparams: Values) -> optax.GradientTransformation:
    # eps outside of the root: inside, 1e-8 would be a floor of 1e-4 under it
    scaled = optax.scale_by_rms(
        decay=hparams["optimizer.b2"], eps=hparams["optimizer.eps"], eps_in_sqrt=False
    )
    return optax.chain(scaled, optax.trace(decay=hparams["optimizer.momentum"]))


def _lion(settings: Settings, hparams: Values) -> optax.GradientTransformation:
    return optax.scale_by_lion(b1=hparams["optimizer.b1"], b2=hparams["optimizer.b2"])


def _sgd(settings: Settings, hparams: Values) -> optax.GradientTransformation:
    assert isinstance(settings.optimizer, SgdTable)
    return optax.trace(decay=hparams["optimizer.momentum"], nesterov=settings.optimizer.nesterov)


def _adafactor(settings: Settings, hparams: Values) -> optax.GradientTransformation:
    table = settings.optimizer
    assert isinstance(table, AdafactorTable)
    steps = [
        optax.scale_by_factored_rms(
            decay_rate=hparams["optimizer.decay_rate"],
            min_dim_size_to_factor=table.min_dim_size_to_factor,
        ),
        optax.clip_by_block_rms(hparams["optimizer.clipping_threshold"]),
    ]
    if table.multiply_by_parameter_scale:
        steps.append(optax.scale_by_param_block_rms())
    return optax.chain(*steps)


# the opposite of the direction in which parameters move
_DIRECTIONS: Mapping[str, Direction] = {
    "adam": _adam,
    "adamw": _adam,
    "rmsprop": _rmsprop,
    "lion": _lion,
    "sgd": _sgd,
    "adafactor": _adafactor,
}
_CLIPPING: Mapping[str, Callable[[Any], optax.GradientTransformation]] = {
    "optimizer.clip_norm": optax.clip_by_global_norm,
    "optimizer.clip_value": optax.clip,
}


def decayed_leaves(weight_decay: Any, network: Network) -> optax.GradientTransformation:
    """Decay of the arrays of a model, each by its own share."""
    shares = amounts_of(network.vector.shapes(), network.vector.decay)
    decays = {
        share: optax.add_decayed_weights(weight_decay * share) if share else optax.identity()
        for share in jax.tree.leaves(shares.tree)
    }
    return optax.partition(decays, shares)


def users_optimizer(
    settings: Settings, hparams: Values, network: Network, step: Number
) -> optax.GradientTransformation:
    """The optimizer that the user's function returns for the keys of a lane; floats are traced."""
    table = settings.optimizer
    assert isinstance(table, UserOptimizerTable)
    # optax.inject_hyperparams does not count those of NumPy as numbers
    hparams = {key: jnp.asarray(value) for key, value in hparams.items()}
    arguments: dict[str, Any] = {
        key: hparams.get(f"optimizer.{key}", own) for key, own in table.arguments.items()
    }
    function = load_function(table.name, settings.base_dir)
    if gets_mask(table, function):
        arguments["mask"] = mask_of(network.vector.shapes(), network.vector.decay)
    if "optimizer.lr" not in hparams:
        return function(**arguments)
    rate = rate_of(settings, hparams, step)
    if _has_one_rate(settings):
        return function(**arguments, lr=rate)
    return at_rate(lambda rate: function(**arguments, lr=rate), rate)


def _has_one_rate(settings: Settings) -> bool:
    """Whether the learning rate is the same in each step of every trial of the study."""
    train = settings.train
    phases = train.by_phase if isinstance(train, AlternatingTable) else {}
    is_constant = settings.sole_optimizer.schedule.name == "constant"
    return is_constant and not any(
        phase.lr is not None or settings.has(f"train.phases.{name}.lr")  # some trials draw it
        for name, phase in phases.items()
    )


def gets_mask(table: UserOptimizerTable, function: Callable[..., Any]) -> bool:
    """Whether a user-defined optimizer gets `mask`: with `[optimizer.decay]`, or if it must."""
    mask = keywords_of(function)[0].get("mask")
    return table.decay is not None or (mask is not None and mask.default is Parameter.empty)


# in the error of an update that does not get them, such as "missing ... argument: 'value'"
_OF_LOSS = re.compile(r"\b(value|grad)\b")


def given_the_loss(
    optimizer: optax.GradientTransformation,
) -> optax.GradientTransformationExtraArgs:
    """`optimizer`, which gets `value` and `grad`, the loss and its gradient, if it needs them.

    One that takes them but works without them does not, as in studies that began with it.
    """

    def update(updates: Any, state: Any, params: Any = None, **loss: Any) -> tuple[Any, Any]:
        given = updates, state, params
        try:
            jax.eval_shape(optimizer.update, *given)
        except RAISED as error:
            if _OF_LOSS.search(str(error)):
                return optimizer.update(*given, **loss)
        return optimizer.update(*given)

    return optax.GradientTransformationExtraArgs(optimizer.init, update)


def _over_leaves(
    inner: optax.GradientTransformationExtraArgs, network: Network
) -> optax.GradientTransformationExtraArgs:
    """`inner` for the arrays of the model, as a transformation of the vector that contains them."""
    leaves = network.vector.tree

    def init(params: Any) -> Any:
        return inner.init(leaves(params))

    def update(updates: Any, state: Any, params: Any = None, **loss: Any) -> tuple[Any, Any]:
        # the leaves are a rearrangement of the vector, which its transpose undoes
        parameters, back = jax.vjp(leaves, params)
        given = {name: leaves(one) if name == "grad" else one for name, one in loss.items()}
        moved, state = inner.update(leaves(updates), state, parameters, **given)
        return back(moved)[0], state

    return optax.GradientTransformationExtraArgs(init, update)
