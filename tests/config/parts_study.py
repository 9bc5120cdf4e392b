"""A small study of a model of parts, to be bent by a test."""

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
