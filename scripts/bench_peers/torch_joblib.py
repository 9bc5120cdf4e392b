"""PyTorch: an ordinary training loop, one trial after the other in one process per core."""

from __future__ import annotations

import os
from itertools import pairwise

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


def train(task: Problem, trial: Trial, data: Data, number: int) -> float:
    """The validation accuracy after the last epoch."""
    torch.set_num_threads(1)
    torch.manual_seed(number)
    x, x_val = torch.tensor(data.x), torch.tensor(data.x_val)
    y, y_val = torch.tensor(data.y).long(), torch.tensor(data.y_val).long()
    model = network(trial, x.shape[1], data.n_classes)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=trial.lr, weight_decay=trial.weight_decay, fused=True
    )
    loss = nn.CrossEntropyLoss()
    accuracy = 0.0
    for _ in range(task.epochs):
        for rows in torch.randperm(len(x)).split(task.batch_size)[: len(x) // task.batch_size]:
            optimizer.zero_grad()
            loss(model(x[rows]), y[rows]).backward()
            optimizer.step()
        with torch.no_grad():
            accuracy = (model(x_val).argmax(1) == y_val).float().mean().item()
    return accuracy


def main() -> None:
    """Train every trial."""
    task = problem.read()
    data = task.load()
    jobs = [delayed(train)(task, trial, data, number) for number, trial in enumerate(task.draw())]
    problem.report(Parallel(n_jobs=os.cpu_count())(jobs))


if __name__ == "__main__":
    main()
