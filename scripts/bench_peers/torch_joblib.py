"""PyTorch: an ordinary training loop, one trial after the other in one process per core."""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import problem
import torch
from joblib import Parallel, delayed
from problem import Data, Problem, Trial
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
) -> float:
    """The validation score after the last epoch; `watch` is called after each one."""
    torch.set_num_threads(1)
    torch.manual_seed(number)
    x, x_val, y, y_val = map(torch.tensor, (data.x, data.x_val, *_targets(data)))
    model = network(trial, x.shape[1], data.n_outputs)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=trial.lr, weight_decay=trial.weight_decay, fused=True
    )
    is_number = task.score == "r2"
    loss = nn.MSELoss() if is_number else nn.CrossEntropyLoss()
    score = 0.0
    for epoch in range(task.epochs):
        for rows in torch.randperm(len(x)).split(task.batch_size)[: len(x) // task.batch_size]:
            optimizer.zero_grad()
            loss(model(x[rows]), y[rows]).backward()
            optimizer.step()
        with torch.no_grad():
            outputs = model(x_val)
        if is_number:
            score = 1 - (loss(outputs, y_val) / y_val.var(correction=0)).item()
        else:
            score = (outputs.argmax(1) == y_val).float().mean().item()
        watch(epoch + 1, score)
    return score


def _targets(data: Data) -> tuple[np.ndarray, np.ndarray]:
    """The targets as losses of PyTorch take them: long integers, or numbers in a column."""
    if data.n_outputs == 1:
        return data.y[:, None], data.y_val[:, None]
    return data.y.astype(np.int64), data.y_val.astype(np.int64)


def main() -> None:
    """Train every trial."""
    task = problem.read()
    data = task.load()
    jobs = [delayed(train)(task, trial, data, number) for number, trial in enumerate(task.draw())]
    problem.report(Parallel(n_jobs=os.cpu_count())(jobs))


if __name__ == "__main__":
    main()
