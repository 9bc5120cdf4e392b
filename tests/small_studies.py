"""Small studies of each program, to be changed by tests."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np

from sweeper.config.overrides import read_overrides
from sweeper.config.reading import with_value
from sweeper.config.toml import toml_text

DIGITS = """\
version = 1

[study]
name = "digits"
metric = "val_loss"
direction = "minimize"
n_trials = 4

[data]
source = "sklearn"
name = "digits"
split = { val = 0.2, test = 0.1, stratify = true }

[model]
kind = "mlp"
depth = 2
width = 16

[optimizer]
name = "adamw"
lr = 1e-3

[train]
program = "supervised"
loss = "cross_entropy"
metrics = ["accuracy"]
epochs = 6
batch_size = 64

[search]
model.depth = { type = "int", low = 1, high = 3 }
model.width = { type = "int", low = 8, high = 32 }
model.activation = { type = "categorical", choices = ["relu", "tanh"] }
optimizer.lr = { type = "float", low = 1e-5, high = 1e-1, log = true }
optimizer.weight_decay = { type = "float", low = 0.0, high = 0.5 }
"""
PARTS = """\
version = 1

[study]
name = "turns"
metric = "val_loss_data"
direction = "minimize"
n_trials = 4

[data]
source = "sklearn"
name = "diabetes"

[model.a]
depth = 1
width = 8
out_size = 4
[model.b]
input = "a"
depth = 1
width = 6
[model.c]
input = "a"
depth = 1
width = 6

[optimizer]
name = "adam"

[train]
program = "alternating"
epochs = 12
batch_size = 64
warmup = { phase = "fit", epochs = 3 }
cycle = ["fit", "follow"]

[train.losses.data]
of = "b"
kind = "mse"
[train.losses.follow]
of = "c"
against = "b"
kind = "mse"

[train.phases.fit]
epochs = 2
loss = "data"
trains = ["a", "b"]
lr = 1e-3
[train.phases.follow]
epochs = 1
loss = "follow"
trains = ["c"]
lr = 1e-3

[search]
model.b.width = { type = "int", low = 4, high = 6 }

[execution]
threads = 1
"""
COUPLED = """\
version = 1

[study]
name = "game"
metric = "val_sliced_wasserstein"
direction = "minimize"
n_trials = 4

[data]
source = "npz"
path = "rows.npz"
mode = "mode"
split = { val = 0.2, test = 0.1 }

[model.generator]
in_size = 2
depth = 1
width = 8

[model.critic]
depth = 1
width = 8

[optimizer.generator]
name = "adam"
lr = 1e-3

[optimizer.critic]
name = "rmsprop"
lr = 1e-3

[train]
program = "coupled"
objective = "wgan"
clip = 0.05
epochs = 12
batch_size = 16
critic_steps = 2

[search]
optimizer.generator.lr = { type = "float", low = 1e-4, high = 1e-2, log = true, name = "g_lr" }
train.epochs = { type = "int", low = 2, high = 12 }

[schedule]
round_epochs = 1

[execution]
threads = 1
workers = 0
strategy = "exact"
"""


def write_mixture(directory: Path) -> None:
    """Write the data of `COUPLED`, a mixture of two."""
    rng = np.random.default_rng(0)
    mode = rng.integers(2, size=120)
    x = 4.0 * mode[:, None] + rng.normal(size=(120, 2)) * 0.1
    np.savez(directory / "rows.npz", x=x, mode=mode)


def bent(study: str, *settings: str) -> str:
    """The study file `study` with these settings, written as for `--set`."""
    raw = tomllib.loads(study)
    for key, value in read_overrides(settings):
        raw = with_value(raw, key.split("."), value)
    return toml_text(raw)
