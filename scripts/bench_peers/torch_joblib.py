"""PyTorch: an ordinary training loop, one trial after the other in one process per core."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import problem
import torch
from joblib import Parallel, delayed
from problem import Data, Problem, Result, Trial
from torch import nn


def network(trial: Trial, in_size: int, out_size: int) -> nn.Sequential:
    """A multilayer perceptron; PyTorch initialises linear layers as the project does."""
    sizes = [in_size, *[trial.width] * trial.depth]
    layers: list[nn.Module] = []
    for before, after in pairwise(sizes):
        layers += [nn.Linear(before, after), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(sizes[-1], out_size))


def train(
    task: Problem,
    trial: Trial,
    data: Data,
    number: int,
    watch: Callable[[int, float], object] = lambda epoch, score: None,
) -> Result:
    """The scores after the last epoch; `watch` is called with the validation score of each one."""
    torch.set_num_threads(1)
    torch.manual_seed(number)
    x, x_val, x_test = map(torch.tensor, (data.x, data.x_val, data.x_test))
    y, y_val, y_test = map(torch.tensor, _targets(data))
    model = network(trial, x.shape[1], data.n_outputs)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=trial.lr, weight_decay=trial.weight_decay, fused=True
    )
    is_number = task.score == "r2"
    loss = nn.MSELoss() if is_number else nn.CrossEntropyLoss()
    score = 0.0

    def scored(x: torch.Tensor, y: torch.Tensor) -> float:
        with torch.no_grad():
            outputs = model(x)
        if is_number:
            return 1 - (loss(outputs, y) / y.var(correction=0)).item()
        return (outputs.argmax(1) == y).float().mean().item()

    for epoch in range(task.epochs):
        for rows in torch.randperm(len(x)).split(task.batch_size)[: len(x) // task.batch_size]:
            optimizer.zero_grad()
            loss(model(x[rows]), y[rows]).backward()
            optimizer.step()
        score = scored(x_val, y_val)
        watch(epoch + 1, score)
    return Result(score, scored(x_test, y_test), time.time())


def _targets(data: Data) -> list[np.ndarray]:
    """The targets as losses of PyTorch take them: long integers, or numbers in a column."""
    targets = data.y, data.y_val, data.y_test
    return [y[:, None] if data.n_outputs == 1 else y.astype(np.int64) for y in targets]


def main() -> None:
    """Train every trial."""
    task = problem.read()
    data = task.load()
    jobs = [delayed(train)(task, trial, data, number) for number, trial in enumerate(task.draw())]
    results = Parallel(n_jobs=os.cpu_count())(jobs)
    problem.report([result.score for result in results], results)


if __name__ == "__main__":
    main()
