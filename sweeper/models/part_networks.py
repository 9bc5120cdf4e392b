"""A model of several parts as a program sees it: a vector of parameters for each of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree
from numpy.typing import NDArray

from sweeper.config import Settings
from sweeper.models.mlp import AnyArray
from sweeper.models.network import Network, Traced, Vector

Vectors = Mapping[str, Vector]
Outputs = Mapping[str, Float[Array, "batch out"]]
Hparams = Mapping[str, Any]


class PartsModel(eqx.Module):
    """The parts of a model as Equinox has them, and which of them feeds which."""

    parts: dict[str, eqx.Module]
    inputs: tuple[tuple[str, str | None], ...] = eqx.field(static=True)

    def __call__(self, x: Float[Array, " features"]) -> dict[str, Array]:
        """The outputs of all parts for one example."""
        outputs: dict[str, Array] = {}
        for name, source in self.inputs:
            part: Any = self.parts[name]
            outputs[name] = part(x if source is None else outputs[source])
        return outputs


@dataclass(frozen=True)
class PartNetworks:
    """The networks of all parts by name, and what feeds each of them: None is the data.

    Both are in an order in which a part comes after the one that feeds it.
    """

    networks: tuple[tuple[str, Network], ...]
    inputs: tuple[tuple[str, str | None], ...]

    @property
    def by_name(self) -> dict[str, Network]:
        """The networks by the name of their part."""
        return dict(self.networks)

    @staticmethod
    def plain(network: Network) -> PartNetworks:
        """The one part of a plain model, which has no name."""
        return PartNetworks((("", network),), (("", None),))

    @property
    def is_plain(self) -> bool:
        """Whether the model is one network, and not several by name."""
        return "" in self.by_name

    def by_part(self, tree: Any) -> Mapping[str, Any]:
        """What Equinox or Optax has of each part, by its name."""
        return {"": tree} if self.is_plain else tree

    def joined(self, trees: Mapping[str, Any]) -> Any:
        """What Equinox or Optax has: a mapping, or the one of a plain model by itself."""
        return trees[""] if self.is_plain else trees

    @property
    def needs_keys(self) -> bool:
        """Whether outputs take keys in training."""
        return any(network.needs_keys for _, network in self.networks)

    @property
    def n_parameters(self) -> int:
        """The numbers of all parts together."""
        return sum(network.n_parameters for _, network in self.networks)

    def initial(
        self, settings: Settings, generator: Callable[[str], np.random.Generator]
    ) -> dict[str, NDArray[Any]]:
        """The vectors of a trial before it is trained, each drawn with a generator of its own."""
        return {
            name: network.initial(settings.of_part(name), generator(name))
            for name, network in self.networks
        }

    def traced(self, settings: Settings) -> dict[str, int]:
        """What of the trial's structure the compiled program is told, `PART.name` each."""
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
        """The outputs of every part for each example; `key` is given in training alone."""
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
        """What the part `name` gives for each example that it is given itself."""
        network, keys = self.by_name[name], None
        if key is not None and network.needs_keys:
            keys = jax.random.split(key, len(x))
        dropout = (hparams or {}).get(f"model.{name}.dropout", 0.0)
        return network.outputs(parameters, x, traced_of(name, traced), keys, dropout)[0]

    def called(self, parameters: Vectors, traced: Traced) -> dict[str, eqx.Module]:
        """Each part as what maps an example to its outputs, also where it is padded."""
        return {
            name: network.model(parameters[name], traced_of(name, traced))
            for name, network in self.networks
        }

    def model(self, parameters: Vectors) -> PartsModel:
        """The model as Equinox has it."""
        parts = {name: network.model(parameters[name]) for name, network in self.networks}
        return PartsModel(parts, self.inputs)

    def over_parameters(self, function: Callable[[Network, str, Any], Any], tree: PyTree) -> PyTree:
        """`tree` with `function` of every leaf under the name of a part, and of that part."""
        networks = self.by_name

        def mapped(path: tuple[Any, ...], leaf: Any) -> Any:
            names = (key.key for key in path if isinstance(key, jax.tree_util.DictKey))
            name = next((name for name in names if name in networks), None)
            return leaf if name is None else function(networks[name], name, leaf)

        return jax.tree_util.tree_map_with_path(mapped, tree)


def traced_of(name: str, traced: Traced) -> Traced:
    """What of its own structure a part is told, of what its lane is told."""
    if not name:
        return traced
    own = f"{name}."
    return {key.removeprefix(own): traced[key] for key in traced if key.startswith(own)}
