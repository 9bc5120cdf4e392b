"""From settings to programs: one per class of the plan, and one per structure for exports."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from sweeper.config import Settings
from sweeper.config.alternating import AlternatingTable
from sweeper.config.coupled import CRITIC, CoupledTable, feeds
from sweeper.config.model import (
    LayersTable,
    MlpTable,
    PartsTable,
    PythonTable,
    RowModelTable,
    TabMTable,
    in_order,
)
from sweeper.config.rules import inputs_of, sizes_of_parts
from sweeper.config.settings import TrainTable, arguments_of
from sweeper.config.train import UserProgramTable
from sweeper.config.user_errors import is_raised
from sweeper.models.decay import Decay
from sweeper.models.encoding import PeriodicShape, PiecewiseLinear
from sweeper.models.layered_network import LayeredNetwork
from sweeper.models.mlp import MlpShape
from sweeper.models.mlp_network import MlpNetwork
from sweeper.models.network import Network
from sweeper.models.part_networks import PartNetworks
from sweeper.models.tabm import TabMShape
from sweeper.models.tabm_network import TabMNetwork
from sweeper.models.user_network import UserNetwork
from sweeper.programs.alternating import Alternating
from sweeper.programs.continued import Continuation, SavedStart, spec_of
from sweeper.programs.coupled import Coupled
from sweeper.programs.data_spec import DataSpec
from sweeper.programs.generator_critic import OBJECTIVES
from sweeper.programs.program import Program
from sweeper.programs.supervised import Supervised
from sweeper.programs.switch import Switch
from sweeper.programs.user_program import UserDefined
from sweeper.scheduler.classes import ProgramClass
from sweeper.scheduler.signature import canonical, compiled_in
from sweeper.scheduler.switching import branch_classes, branch_settings


class Programs:
    """The programs of a study, each made once, since tracing their abstract states takes time.

    Programs of classes start their trials from `start`, if given.
    """

    def __init__(self, data: DataSpec, start: SavedStart | None = None) -> None:
        self._data = data
        self._start = start
        self._known: dict[str, Program] = {}
        self._switches: dict[str, Switch] = {}
        self._networks: dict[Network, Network] = {}
        self._encodings: dict[str, PiecewiseLinear] = {}

    def of_class(self, program_class: ProgramClass, settings: Settings) -> Program:
        """The program of a class; `settings` are those of any of its trials."""
        class_id = program_class.class_id
        if class_id not in self._known:
            program = self._program(settings, program_class)
            self._known[class_id] = replace(program, start=self.continuation(settings))
        return self._known[class_id]

    def of_branches(self, program_class: ProgramClass, settings: Sequence[Settings]) -> Switch:
        """The programs of a switch class; `settings` are those of a trial of each branch."""
        class_id = program_class.class_id
        if class_id not in self._switches:
            self._switches[class_id] = self._switch(program_class, settings)
        return self._switches[class_id]

    def exact(self, settings: Settings) -> Program:
        """The program that would train a trial with `settings` alone."""
        return self._program(settings)

    def n_parameters(self, settings: Settings) -> int:
        """The number of parameters of a trial's model, without padding.

        0 if the user's function raises: the error is reported when the trial is trained.
        """
        networks = self.networks(settings).values()
        try:
            return sum(network.vector.n_parameters for network in networks)
        except BaseException as error:
            if is_raised(error) and any(isinstance(one, UserNetwork) for one in networks):
                return 0
            raise

    def has_fixed_start(self, settings: Settings) -> bool | None:
        """Whether the model, or a part of it, starts from the same weights for every key.

        None if the user's function raises.
        """
        users = [one for one in self.networks(settings).values() if isinstance(one, UserNetwork)]
        try:
            return any(network.has_fixed_start for network in users)
        except BaseException as error:
            if is_raised(error):
                return None
            raise

    def networks(self, settings: Settings) -> Mapping[str, Network]:
        """The model of a single trial: its parts by name, or one part without a name."""
        return self._parts(settings).by_name

    def _program(self, settings: Settings, shared: ProgramClass | None = None) -> AnyProgram:
        """The program of the class `shared`, or that of a trial alone."""
        parts, train = self._parts(settings, shared), settings.train
        if isinstance(train, AlternatingTable):
            traced = [key for key in train.lengths if f"train.{key}" in _traced_in(shared)]
            return Alternating(settings, self._data, parts, frozenset(traced))
        if isinstance(train, CoupledTable):
            return Coupled(settings, self._data, parts)
        if isinstance(train, UserProgramTable):
            return UserDefined(settings, self._data, parts)
        return Supervised(settings, self._data, parts)

    def continuation(self, settings: Settings) -> Continuation | None:
        """How trials with `settings` start from the saved model; None if they do not."""
        start = self._start
        if start is None:
            return None
        saved = Programs(spec_of(start.file)).exact(start.settings)
        return Continuation(self.exact(settings), saved, start, settings)

    def _switch(self, program_class: ProgramClass, settings: Sequence[Settings]) -> Switch:
        own, branches = branch_settings(program_class), branch_classes(program_class)
        traced = {key: values for branch in branches for key, values in _traced_in(branch).items()}

        def branch_of(settings: Settings) -> int:
            return own.index(canonical(compiled_in(settings, traced)))

        return Switch(tuple(map(self.of_class, branches, settings)), tuple(settings), branch_of)

    def _parts(self, settings: Settings, shared: ProgramClass | None = None) -> PartNetworks:
        """The networks of a model's parts, with sizes determined by their neighbours."""
        model, train, data = settings.model, settings.train, self._data
        inputs: Mapping[str, str | None] = {"": None}
        sizes: Mapping[str, tuple[int, int]] = {"": (data.in_size, data.out_size)}
        if isinstance(model, PartsTable):
            assert isinstance(train, AlternatingTable | CoupledTable)
            inputs = inputs_of(model)
            sizes = sizes_of_parts(model, train, data.in_size, data.out_size)
            if isinstance(train, CoupledTable):
                inputs = {name: feeds(name, train, inputs) for name in inputs}
        networks: list[tuple[str, Network]] = []
        for name in in_order(inputs):
            network = self._network(settings.of_part(name), *sizes[name])
            if shared is not None and isinstance(network, LayeredNetwork):
                network = _shared(network, name, train, shared)
            if shared is not None and isinstance(network, UserNetwork):
                network = _with_floats_of_lanes(network, settings.of_part(name))
            networks.append((name, network))
        return PartNetworks(tuple(networks), tuple((name, inputs[name]) for name, _ in networks))

    def _network(self, settings: Settings, in_size: int, out_size: int) -> Network:
        """The model of a trial; the same for all of one structure, since it caches traces."""
        model = settings.model
        decay = Decay.of(settings.sole_optimizer.decay, settings.base_dir)
        if isinstance(model, PythonTable):
            network: Network = UserNetwork(
                function=model.function,
                base_dir=settings.base_dir,
                arguments=tuple(model.arguments.items()),
                in_size=in_size,
                out_size=out_size,
                dtype=self._data.dtype,
                decay=decay,
                edition=settings.edition,
            )
        else:
            network = self._layered_network(settings, in_size, out_size, decay)
        return self._networks.setdefault(network, network)

    def _layered_network(
        self, settings: Settings, in_size: int, out_size: int, decay: Decay
    ) -> LayeredNetwork:
        """The network of a model of hidden layers, which may encode or embed numbers."""
        model = settings.model
        assert isinstance(model, MlpTable | TabMTable)
        size, embedding, encoding = self._taken(model, in_size, settings.edition)
        sizes = size, out_size, model.width, model.depth
        if isinstance(model, TabMTable):
            shape = TabMShape(*sizes, model.ensemble_size, embedding=embedding)
            target = "classes" if settings.train.target == "classes" else "numbers"
            make = partial(TabMNetwork, shape=shape, target=target)
        else:
            make = partial(
                MlpNetwork, shape=MlpShape(*sizes, model.layer_norm, embedding=embedding)
            )
        return make(
            activations=(model.activation,),
            has_dropout=settings.has("model.dropout"),
            padded=False,
            dtype=self._data.dtype,
            decay=decay,
            encoding=encoding,
        )

    def _taken(
        self, model: LayersTable, in_size: int, edition: int
    ) -> tuple[int, PeriodicShape | None, PiecewiseLinear | None]:
        """The input size of the first layer, and how the model embeds or encodes numbers."""
        if not isinstance(model, RowModelTable):
            return in_size, None, None
        if model.numbers == "plr":
            sizes = self._data.n_numbers, model.n_frequencies, model.embedding_size
            embedding = PeriodicShape(*sizes)
            return embedding.size(in_size), embedding, None
        encoding = self._encoding(model, open_ended=edition < 5)
        return in_size if encoding is None else encoding.size(in_size), None, encoding

    def _encoding(self, model: RowModelTable, *, open_ended: bool) -> PiecewiseLinear | None:
        """How a model encodes numbers: the same for all with the same bins."""
        name = model.encoded_by
        if name is not None and name not in self._encodings:
            self._encodings[name] = PiecewiseLinear(dict(self._data.bins)[name], open_ended)
        return None if name is None else self._encodings[name]


AnyProgram = Supervised | Alternating | Coupled | UserDefined


def _shared(
    network: LayeredNetwork, name: str, train: TrainTable, shared: ProgramClass
) -> LayeredNetwork:
    """A part of the model as all lanes of a class share it."""
    sizes = {part.name: (part.width, part.depth) for part in shared.padded_size.sizes}
    if name and name not in sizes:
        return network
    width, depth = sizes.get(name, (network.shape.width, network.shape.depth))
    # a TabM alone has no loop: studies that began before it could be padded keep their last bits
    can_loop = isinstance(network, MlpNetwork) or name in sizes
    return replace(
        network,
        shape=replace(network.shape, width=width, depth=depth),
        activations=tuple(_traced_in(shared).get("model.activation", network.activations)),
        padded=name in sizes,
        looped=can_loop and shared.lane_loop == "map" and name not in _unlooped(train),
        widths=shared.run_widths,
    )


def _with_floats_of_lanes(network: UserNetwork, settings: Settings) -> UserNetwork:
    """The model of all lanes of a class, each with its own floats."""
    traced = arguments_of("model", settings.model, traced=True, optional=settings.optional)
    return replace(network, at_run_time=tuple(key.removeprefix("model.") for key in traced))


def _traced_in(shared: ProgramClass | None) -> dict[str, Sequence[Any]]:
    """The settings of a class that have several values: lanes get their own at run time."""
    compiled = {} if shared is None else json.loads(shared.settings or "{}")
    return {key: value for key, value in compiled.items() if isinstance(value, list)}


def _unlooped(train: TrainTable) -> frozenset[str]:
    """The parts that cannot have a loop over hidden layers.

    Its gradient cannot be differentiated again, and user-defined functions may do so.
    """
    if isinstance(train, UserProgramTable):
        return frozenset({""})
    objective = OBJECTIVES.get(train.objective) if isinstance(train, CoupledTable) else None
    return frozenset({CRITIC} if objective is not None and objective.penalised else ())
