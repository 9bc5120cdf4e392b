"""Optuna, Equinox and Optax: one jitted step per trial, a Python loop over its batches."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import optuna
import problem
from jaxtyping import Array, Float, Int
from problem import Data, Problem


def train(task: Problem, data: Data, trial: optuna.Trial) -> float:
    """The validation accuracy after the last epoch."""
    model = eqx.nn.MLP(
        data.x.shape[1],
        data.n_outputs,
        trial.suggest_int("width", *task.width),
        trial.suggest_int("depth", *task.depth),
        key=jax.random.key(trial.number),
    )
    optimizer = optax.adamw(
        trial.suggest_float("lr", *problem.LEARNING_RATES, log=True),
        weight_decay=trial.suggest_float("weight_decay", *problem.WEIGHT_DECAYS, log=True),
    )
    moments = optimizer.init(eqx.filter(model, eqx.is_array))

    def loss(model: eqx.nn.MLP, x: Float[Array, "batch in"], y: Int[Array, " batch"]) -> Array:
        return optax.softmax_cross_entropy_with_integer_labels(jax.vmap(model)(x), y).mean()

    @eqx.filter_jit
    def step(model, moments, x, y):
        gradients = eqx.filter_grad(loss)(model, x, y)
        updates, moments = optimizer.update(gradients, moments, eqx.filter(model, eqx.is_array))
        return eqx.apply_updates(model, updates), moments

    @eqx.filter_jit
    def evaluate(model):
        return jnp.mean(jax.vmap(model)(data.x_val).argmax(1) == data.y_val)

    rng = np.random.default_rng(trial.number)
    steps = len(data.x) // task.batch_size
    accuracy = 0.0
    for _ in range(task.epochs):
        order = rng.permutation(len(data.x))[: steps * task.batch_size].reshape(steps, -1)
        for rows in order:
            model, moments = step(model, moments, data.x[rows], data.y[rows])
        accuracy = float(evaluate(model))
    return accuracy


def main() -> None:
    """Train every trial."""
    task = problem.read()
    data = task.load()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sampler = optuna.samplers.RandomSampler(seed=task.seed)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    for point in task.draw():
        names = ("depth", "width", "lr", "weight_decay")
        study.enqueue_trial({name: getattr(point, name) for name in names})
    study.optimize(lambda trial: train(task, data, trial), n_trials=task.trials)
    problem.report([trial.value for trial in study.trials])


if __name__ == "__main__":
    main()
