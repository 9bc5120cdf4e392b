"""A residual network for images of 8 x 8 pixels: the model of studies/residual.toml.

A model of your own is a function that returns an `eqx.Module`, which maps one example to its
outputs. It need not know about lanes, batches or trials. The study names `build`, at the end.
"""

import equinox as eqx
import jax
import jax.numpy as jnp

SIDE = 8  # pixels of an edge; the data give an image as a row of 64 numbers
GROUPS = 4  # of channels that GroupNorm scales together


class Convolution(eqx.Module):
    """A 3 x 3 `Conv2d`, computed as one matrix product.

    Studies train within compiled loops. On a CPU, XLA is ten or more times slower there for a
    convolution (github.com/jax-ml/jax/issues/12868). On a GPU, call the layer itself.
    """

    layer: eqx.nn.Conv2d  # holds the kernel, so that initialization and decay are those of a Conv2d

    def __init__(self, in_channels, out_channels, key):
        self.layer = eqx.nn.Conv2d(in_channels, out_channels, kernel_size=3, padding=1, key=key)

    def __call__(self, image):
        _, height, width = image.shape
        padded = jnp.pad(image, ((0, 0), (1, 1), (1, 1)))
        shifts = [padded[:, i : i + height, j : j + width] for i in range(3) for j in range(3)]
        kernel = self.layer.weight.reshape(len(self.layer.weight), -1, 9)
        return jnp.einsum("ocs,schw->ohw", kernel, jnp.stack(shifts)) + self.layer.bias


class Block(eqx.Module):
    """A residual block of two convolutions (He et al. 2016)."""

    # GroupNorm sees one example at a time; BatchNorm would need a batch, and a state
    norms: tuple[eqx.nn.GroupNorm, ...]
    convolutions: tuple[Convolution, ...]

    def __init__(self, channels, key):
        self.norms = tuple(eqx.nn.GroupNorm(GROUPS, channels) for _ in range(2))
        self.convolutions = tuple(
            Convolution(channels, channels, key) for key in jax.random.split(key)
        )

    def __call__(self, image):
        change = image
        for norm, convolution in zip(self.norms, self.convolutions, strict=True):
            change = convolution(jax.nn.relu(norm(change)))
        return image + change


class ResidualNet(eqx.Module):
    """Maps the 64 pixels of one image to one output per class."""

    stem: Convolution
    blocks: tuple[Block, ...]
    head: eqx.nn.Linear

    # if it had an argument `key`, it would get one per example in training, for dropout
    def __call__(self, row):
        image = self.stem(row.reshape(1, SIDE, SIDE))
        for block in self.blocks:
            image = block(image)
        return self.head(jax.nn.relu(image).ravel())


def build(in_size, out_size, key, channels, blocks):
    """Builds the model of one trial.

    Every such function gets `in_size`, `out_size` and `key`: the number of columns, the number of
    classes and the randomness of the trial. The others are keys of `[model]` in the study file.
    """
    if in_size != SIDE * SIDE:
        raise ValueError(f"{in_size} columns are not an image of {SIDE} x {SIDE} pixels")
    stem_key, head_key, *block_keys = jax.random.split(key, 2 + blocks)
    return ResidualNet(
        stem=Convolution(1, channels, stem_key),
        blocks=tuple(Block(channels, key) for key in block_keys),
        head=eqx.nn.Linear(channels * in_size, out_size, key=head_key),
    )
