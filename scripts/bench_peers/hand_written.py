"""The limit: plain JAX for classes known in advance, without study, ledger or files.

A class is one compiled program that trains four networks one after the other. Narrower networks are
padded with zeros, which stay zero; surplus layers are skipped.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import problem
from jax import lax
from jax.flatten_util import ravel_pytree
from problem import Data, Problem, Trial

if TYPE_CHECKING:
    from jaxtyping import Array, Float, Int
    from numpy.typing import NDArray

LANES = 4
B1, B2, EPS = 0.9, 0.999, 1e-8

Parameters = dict[str, Any]


class Lane(NamedTuple):
    """The arguments of a class for one network; for LANES networks, if stacked."""

    parameters: Float[Array, " size"]
    depth: Int[Array, ""]
    lr: Float[Array, ""]
    weight_decay: Float[Array, ""]
    epochs: Int[Array, ""]  # 0 if the lane has no network


@dataclass(frozen=True)
class Class:
    """Networks of up to `depth` hidden layers of up to `width` units, and its trials' numbers."""

    depth: int
    width: int
    numbers: tuple[int, ...]

    def chunks(self) -> Iterator[tuple[int, ...]]:
        """The trials of each call of its program."""
        for first in range(0, len(self.numbers), LANES):
            yield self.numbers[first : first + LANES]


def classes_of(trials: Sequence[Trial]) -> list[Class]:
    """The classes that the project made; one per structure for trials without a class."""
    members: dict[tuple[str, int, int], list[int]] = {}
    for number, trial in enumerate(trials):
        shape = trial.class_depth or trial.depth, trial.class_width or trial.width
        members.setdefault((trial.class_id, *shape), []).append(number)
    return [Class(depth, width, tuple(own)) for (_, depth, width), own in members.items()]


@dataclass(frozen=True)
class Training:
    """The compiled training of a class on given data."""

    of: Class
    task: Problem
    data: Data

    def initial(self, number: int, trial: Trial) -> NDArray[np.float32]:
        """The initial weights of a trial in one vector, zero in the padding."""
        rng = np.random.default_rng((self.task.seed, number))
        ends = self.data.x.shape[1], self.data.n_outputs
        sizes = [ends[0], *[trial.width] * trial.depth, ends[1]]
        names = [*map(str, range(trial.depth)), "out"]
        padded = {name: np.zeros(leaf.shape, np.float32) for name, leaf in self._shapes.items()}
        for name, before, after in zip(names, sizes[:-1], sizes[1:], strict=True):
            bound = 1 / math.sqrt(before)
            padded[f"w{name}"][:after, :before] = rng.uniform(-bound, bound, (after, before))
            padded[f"b{name}"][:after] = rng.uniform(-bound, bound, after)
        return np.concatenate([padded[name].ravel() for name in sorted(padded)])

    def compiled(self) -> jax.stages.Compiled:
        """The program that trains LANES networks and returns their accuracies."""
        size = sum(math.prod(leaf.shape) for leaf in self._shapes.values())
        real, whole = (jax.ShapeDtypeStruct((LANES,), kind) for kind in (np.float32, np.int32))
        vectors = jax.ShapeDtypeStruct((LANES, size), np.float32)
        lanes = Lane(vectors, whole, real, real, whole)
        steps = len(self.data.x) // self.task.batch_size
        order = jax.ShapeDtypeStruct((self.task.epochs, steps, self.task.batch_size), np.int32)

        def train(lanes: Lane, data: Data, order: Array) -> Float[Array, " lane"]:
            return lax.map(lambda lane: self._accuracy(lane, data, order), lanes)

        return jax.jit(train).lower(lanes, self.data, order).compile()

    @cached_property
    def _shapes(self) -> dict[str, jax.ShapeDtypeStruct]:
        depth, width = self.of.depth, self.of.width
        sizes = [self.data.x.shape[1], *[width] * depth, self.data.n_outputs]
        shapes: dict[str, tuple[int, ...]] = {}
        names = [*map(str, range(depth)), "out"]
        for name, before, after in zip(names, sizes[:-1], sizes[1:], strict=True):
            shapes |= {f"w{name}": (after, before), f"b{name}": (after,)}
        return {name: jax.ShapeDtypeStruct(shape, np.float32) for name, shape in shapes.items()}

    def _unravel(self, vector: Float[Array, " size"]) -> Parameters:
        zeros = {name: jnp.zeros(leaf.shape, leaf.dtype) for name, leaf in self._shapes.items()}
        return ravel_pytree(zeros)[1](vector)

    def _outputs(self, vector: Array, x: Array, depth: Array) -> Float[Array, "batch out"]:
        weights = self._unravel(vector)

        def layer(x: Array, w: Array, b: Array) -> Array:
            return jax.nn.relu(x @ w.T + b)

        def passed_over(x: Array, w: Array, b: Array) -> Array:
            return x

        x = layer(x, weights["w0"], weights["b0"])
        for index in range(1, self.of.depth):
            own = weights[f"w{index}"], weights[f"b{index}"]
            x = lax.cond(index < depth, layer, passed_over, x, *own)
        return x @ weights["wout"].T + weights["bout"]

    def _accuracy(self, lane: Lane, data: Data, order: Array) -> Float[Array, ""]:
        def loss(vector: Array, rows: Array) -> Array:
            outputs = self._outputs(vector, _take(data.x, rows), lane.depth)
            return _cross_entropy(outputs, _take(data.y, rows))

        def step(carry: tuple[Array, ...], rows: Array) -> tuple[tuple[Array, ...], Array]:
            value, gradient = jax.value_and_grad(loss)(carry[0], rows)
            return _adamw(lane, gradient, *carry), value

        def epoch(index: Array, carry: tuple[Any, Array]) -> tuple[Any, Array]:
            state, rows = carry
            state, losses = lax.scan(step, state, order[index])
            outputs = self._outputs(state[0], data.x_val, lane.depth)
            accuracy = jnp.mean(outputs.argmax(1) == data.y_val, dtype=np.float32)
            row = jnp.stack([losses.mean(), _cross_entropy(outputs, data.y_val), accuracy])
            return state, rows.at[index].set(row)

        zeros = jnp.zeros_like(lane.parameters)
        state = lane.parameters, zeros, zeros, jnp.float32(0)
        curve = jnp.zeros((self.task.epochs, 3), np.float32)
        return lax.fori_loop(0, lane.epochs, epoch, (state, curve))[1][-1, -1]


def _take(array: Array, rows: Array) -> Array:
    return jnp.asarray(array).at[rows].get(mode="promise_in_bounds")


def _cross_entropy(outputs: Float[Array, "batch out"], y: Int[Array, " batch"]) -> Array:
    outputs = outputs - lax.stop_gradient(outputs.max(1, keepdims=True))
    own = jnp.where(jnp.arange(outputs.shape[1]) == y[:, None], outputs, 0).sum(1)
    return (jnp.log(jnp.exp(outputs).sum(1)) - own).mean()


def _adamw(
    lane: Lane, gradient: Array, vector: Array, mean: Array, square: Array, count: Array
) -> tuple[Array, ...]:
    """The next vector and moments; Loshchilov & Hutter 2019, alg. 2."""
    count = count + 1
    mean = B1 * mean + (1 - B1) * gradient
    square = B2 * square + (1 - B2) * gradient**2
    move = mean / (1 - B1**count) / (jnp.sqrt(square / (1 - B2**count)) + EPS)
    return vector - lane.lr * (move + lane.weight_decay * vector), mean, square, count


def main() -> None:
    """Compile every class and train every trial, on one thread per core."""
    task = problem.read()
    data, trials = task.load(), task.draw()
    shared = jax.device_put((data, _order(task, len(data.x))))
    accuracies = np.zeros(len(trials))

    def train(training: Training, program: jax.stages.Compiled, numbers: tuple[int, ...]) -> None:
        got = program(_lanes(training, trials, numbers), *shared)
        accuracies[list(numbers)] = got[: len(numbers)]

    with ThreadPoolExecutor(os.cpu_count()) as threads:
        compiling: dict[Future[jax.stages.Compiled], Training] = {}
        for one in sorted(classes_of(trials), key=_compile_work, reverse=True):
            training = Training(one, task, data)
            compiling[threads.submit(training.compiled)] = training
        # a class trains as soon as it is compiled and a thread has nothing left to compile
        chunks = [
            threads.submit(train, compiling[done], done.result(), numbers)
            for done in as_completed(compiling)
            for numbers in compiling[done].of.chunks()
        ]
        for chunk in chunks:
            chunk.result()
    problem.report(accuracies.tolist())


def _compile_work(one: Class) -> tuple[int, int]:
    return one.depth, one.width


def _lanes(training: Training, trials: Sequence[Trial], numbers: Sequence[int]) -> Lane:
    """The arguments of `numbers`; in surplus lanes the last one repeated for 0 epochs."""
    filled = [*numbers, *[numbers[-1]] * (LANES - len(numbers))]
    own = [trials[number] for number in filled]
    epochs = [training.task.epochs] * len(numbers) + [0] * (LANES - len(numbers))
    return Lane(
        np.stack([training.initial(n, trial) for n, trial in zip(filled, own, strict=True)]),
        np.array([trial.depth for trial in own], np.int32),
        np.array([trial.lr for trial in own], np.float32),
        np.array([trial.weight_decay for trial in own], np.float32),
        np.array(epochs, np.int32),
    )


def _order(task: Problem, n_rows: int) -> NDArray[np.int32]:
    """The rows of every batch: epochs, steps, rows of a step."""
    rng = np.random.default_rng(task.seed)
    steps = n_rows // task.batch_size
    rows = [rng.permutation(n_rows)[: steps * task.batch_size] for _ in range(task.epochs)]
    return np.array(rows, np.int32).reshape(task.epochs, steps, task.batch_size)


if __name__ == "__main__":
    jax.config.update("jax_enable_compilation_cache", False)
    main()
