"""A model of several parts as programs use it: a vector of parameters for each part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
from jaxtyping import Array, Float, PRNGKeyArray

from sweeper.config import Settings
from sweeper.models.mlp import AnyArray
from sweeper.models.network import Network, Traced, Vector
from sweeper.models.user_network import call_without_key

Vectors = Mapping[str, Vector]
Hparams = Mapping[str, Any]


class PartsModel(eqx.Module):
    """The parts of a model in Equinox, and which part is the input of which."""

    parts: dict[str, eqx.Module]
    inputs: tuple[tuple[str, str | None], ...] = eqx.field(static=True)

    def __call__(self, x: Float[Array, " features"]) -> dict[str, Array]:
        """The outputs of all parts for one example."""
        outputs: dict[str, Array] = {}
        for name, source in self.inputs:
            given = x if source is None else outputs[source]
            outputs[name] = call_without_key(self.parts[name], given)
        return outputs


@dataclass(frozen=True)
class PartNetworks:
    """The networks of all parts by name, and the input of each: a part, or None for the data.

    Both are ordered so that a part comes after its input.
    """

    networks: tuple[tuple[str, Network], ...]
    inputs: tuple[tuple[str, str | None], ...]

    @property
    def by_name(self) -> dict[str, Network]:
        """The networks by the name of their part."""
        return dict(self.networks)

    @property
    def is_plain(self) -> bool:
        """Whether the model is a single network instead of several with names."""
        return "" in self.by_name

    def by_part(self, tree: Any) -> Mapping[str, Any]:
        """The parts of a value of Equinox or Optax, by name."""
        return {"": tree} if self.is_plain else tree

    def joined(self, trees: Mapping[str, Any]) -> Any:
        """The value for Equinox or Optax: a mapping, or the only one of a plain model itself."""
        return trees[""] if self.is_plain else trees

    @property
    def needs_keys(self) -> bool:
        """Whether outputs take keys in training."""
        return any(network.needs_keys for _, network in self.networks)

    def traced(self, settings: Settings) -> dict[str, int]:
        """The parts of the trial's structure that the program gets at run time, as `PART.name`."""
        return {
            (f"{name}.{key}" if name else key): value
            for name, network in self.networks
            for key, value in network.traced(settings.of_part(name)).items()
        }

    def outputs(
        self,
        parameters: Vectors,
        x: Float[AnyArray, "batch features"],
        traced: Traced,
        key: PRNGKeyArray | None = None,
        hparams: Hparams | None = None,
    ) -> dict[str, Float[Array, "batch out"]]:
        """The outputs of every part for each example; `key` is only passed in training."""
        outputs: dict[str, Array] = {}
        for index, (name, source) in enumerate(self.inputs):
            given = x if source is None else outputs[source]
            own = None if key is None else jax.random.fold_in(key, index)
            outputs[name] = self.output(name, parameters[name], given, traced, own, hparams)
        return outputs

    def output(
        self,
        name: str,
        parameters: Vector,
        x: Float[AnyArray, "batch features"],
        traced: Traced,
        key: PRNGKeyArray | None = None,
        hparams: Hparams | None = None,
    ) -> Float[Array, "batch out"]:
        """The output of the part `name` for each example, which is passed to it directly."""
        network, keys = self.by_name[name], None
        if key is not None and network.needs_keys:
            keys = jax.random.split(key, len(x))
        dropout = (hparams or {}).get(f"model.{name}.dropout", 0.0)
        return network.outputs(parameters, x, traced_of(name, traced), keys, dropout)[0]

    def called(self, parameters: Vectors, traced: Traced) -> dict[str, eqx.Module]:
        """Each part as a function from an example to its outputs, for padded models too."""
        return {
            name: network.model(parameters[name], traced_of(name, traced))
            for name, network in self.networks
        }

    def model(self, parameters: Vectors) -> PartsModel:
        """The model in Equinox."""
        parts = {name: network.model(parameters[name]) for name, network in self.networks}
        return PartsModel(parts, self.inputs)


def traced_of(name: str, traced: Traced) -> Traced:
    """The traced values of a part, selected from those of its lane."""
    if not name:
        return traced
    own = f"{name}."
    return {key.removeprefix(own): traced[key] for key in traced if key.startswith(own)}
