"""A study of which one trial does to its process what the variable DEADLY says."""

from __future__ import annotations

from pathlib import Path

OWN = """\
import ctypes
import os
import signal
import time

import jax
import jax.numpy as jnp
import optax

DEEDS = {
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "exit": lambda: os._exit(3),
    "crash": lambda: ctypes.string_at(0),
    "hang": lambda: time.sleep(1000),
}


def strike(poison):
    if poison == 1:
        DEEDS.get(os.environ.get("DEADLY"), lambda: None)()
    return poison


def adam(lr, poison):
    inner = optax.adam(lr)

    def update(gradients, state, parameters=None):
        struck = jax.pure_callback(
            strike, jax.ShapeDtypeStruct((), jnp.float32), poison, vmap_method="sequential"
        )
        updates, state = inner.update(gradients, state, parameters)
        return jax.tree.map(lambda leaf: leaf + 0 * struck.astype(leaf.dtype), updates), state

    return optax.GradientTransformation(inner.init, update)
"""
STUDY = """\
version = 1
[study]
name = "deadly"
metric = "val_loss"
direction = "minimize"
n_trials = 2
sampler = { name = "random" }
enqueue = [{ }, { poison = 1.0 }]
[data]
source = "sklearn"
name = "iris"
[model]
depth = 1
width = 4
[optimizer]
name = "own:adam"
poison = 0.0
[train]
loss = "cross_entropy"
epochs = 2
batch_size = 32
[search]
optimizer.lr = { type = "float", low = 1e-3, high = 1e-1, log = true }
optimizer.poison = { type = "float", low = 0.0, high = 1.0 }
[schedule]
parallel = 64
round_epochs = 1
[execution]
strategy = "exact"
threads = 1
workers = 2
retries = 0
"""
DEADLY = 1  # the trial


def write(directory: Path) -> None:
    """Write the study file and the module that it names."""
    (directory / "own.py").write_text(OWN, encoding="utf-8")
    (directory / "study.toml").write_text(STUDY, encoding="utf-8")
