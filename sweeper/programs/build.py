"""From settings to programs: one per class of the plan, and one per structure for exports."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

from sweeper.config import Settings
from sweeper.config.alternating import AlternatingTable
from sweeper.config.coupled import CRITIC, CoupledTable, feeds
from sweeper.config.model import MlpTable, PartsTable, PythonTable, in_order
from sweeper.config.rules import inputs_of, sizes_of_parts
from sweeper.config.train import OwnProgramTable
from sweeper.config.user_code import is_raised
from sweeper.models.decay import Decay
from sweeper.models.mlp import MlpShape
from sweeper.models.mlp_network import MlpNetwork
from sweeper.models.network import Network
from sweeper.models.part_networks import PartNetworks
from sweeper.models.user_network import UserNetwork
from sweeper.programs.alternating import Alternating
from sweeper.programs.continued import Continued, SavedStart, spec_of
from sweeper.programs.coupled import Coupled
from sweeper.programs.data_spec import DataSpec
from sweeper.programs.generator_critic import OBJECTIVES
from sweeper.programs.program import Program
from sweeper.programs.supervised import Supervised
from sweeper.programs.switch import Switch
from sweeper.programs.user_program import Own
from sweeper.scheduler.classes import ProgramClass
from sweeper.scheduler.lattice import Sizes, sizes_in
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
        self._users: dict[UserNetwork, UserNetwork] = {}

    def of_class(self, program_class: ProgramClass, settings: Settings) -> Program:
        """The program of a class; `settings` are those of any of its trials."""
        class_id = program_class.class_id
        if class_id not in self._known:
            program = self._of_class(program_class, settings)
            self._known[class_id] = self._continued(program, settings)
        return self._known[class_id]

    def of_branches(self, program_class: ProgramClass, settings: Sequence[Settings]) -> Switch:
        """The programs of a switch class; `settings` are those of a trial of each branch."""
        class_id = program_class.class_id
        if class_id not in self._switches:
            self._switches[class_id] = self._switch(program_class, settings)
        return self._switches[class_id]

    def _of_class(self, program_class: ProgramClass, settings: Settings) -> Program:
        looped = program_class.lane_loop == "map"
        if isinstance(settings.train, AlternatingTable):
            constants, lengths = json.loads(program_class.settings), settings.train.lengths
            traced = (key for key in lengths if isinstance(constants.get(f"train.{key}"), list))
            parts = self._parts(settings, sizes_in(program_class.padded_parts), looped=looped)
            return Alternating(settings, self._data, parts, frozenset(traced))
        if isinstance(settings.train, CoupledTable):
            parts = self._parts(settings, sizes_in(program_class.padded_parts), looped=looped)
            return Coupled(settings, self._data, parts)
        if isinstance(settings.train, OwnProgramTable):
            return self.exact(settings)
        network = self._network(program_class, settings)
        return Supervised(settings, self._data, PartNetworks.plain(network))

    def exact(self, settings: Settings) -> Program:
        """The program that would train a trial with `settings` alone."""
        if isinstance(settings.train, AlternatingTable):
            return Alternating(settings, self._data, self._parts(settings))
        if isinstance(settings.train, CoupledTable):
            return Coupled(settings, self._data, self._parts(settings))
        network = self._exact_network(settings, self._data)
        if isinstance(settings.train, OwnProgramTable):
            return Own(settings, self._data, network)
        return Supervised(settings, self._data, PartNetworks.plain(network))

    def _continued(self, program: Program, settings: Settings) -> Program:
        start = self._start
        if start is None:
            return program
        saved = Programs(spec_of(start.file)).exact(start.settings)
        continued = Continued(program, self.exact(settings), saved, start, settings)
        return cast(Program, continued)

    def n_parameters(self, settings: Settings) -> int:
        """The number of parameters of a trial's model, without padding.

        0 if the user's function raises: the error is reported when the trial is trained.
        """
        networks = self.networks(settings).values()
        try:
            return sum(network.n_parameters for network in networks)
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
        if isinstance(settings.model, PartsTable):
            return self._parts(settings).by_name
        return {"": self._exact_network(settings, self._data)}

    def _switch(self, program_class: ProgramClass, settings: Sequence[Settings]) -> Switch:
        own = branch_settings(program_class)
        told = {
            key: value
            for branch in own
            for key, value in json.loads(branch).items()
            if isinstance(value, list)
        }

        def branch_of(settings: Settings) -> int:
            return own.index(canonical(compiled_in(settings, told)))

        branches = branch_classes(program_class)
        return Switch(tuple(map(self.of_class, branches, settings)), tuple(settings), branch_of)

    def _parts(
        self, settings: Settings, padded_to: Sizes = (), *, looped: bool = False
    ) -> PartNetworks:
        """The networks of a model with parts, with sizes determined by their neighbours."""
        room = {name: (width, depth) for name, width, depth in padded_to}
        model = settings.model
        assert isinstance(model, PartsTable)
        inputs, train = inputs_of(model), settings.train
        assert isinstance(train, AlternatingTable | CoupledTable)
        sizes = sizes_of_parts(model, train, self._data.in_size, self._data.out_size)
        if isinstance(train, CoupledTable):
            inputs = {name: feeds(name, train, inputs) for name in inputs}
        networks: list[tuple[str, Network]] = []
        unlooped = _differentiated_twice(train)
        for name in in_order(inputs):
            in_size, out_size = sizes[name]
            data = replace(self._data, in_size=in_size, out_size=out_size)
            its = settings.of_part(name)
            if name in room and isinstance(its.model, MlpTable):
                activations = (its.model.activation,)
                own_looped = looped and name not in unlooped
                network = _mlp_network(its, its.model, data, activations, room[name], own_looped)
            else:
                network = self._exact_network(its, data)
            networks.append((name, network))
        return PartNetworks(tuple(networks), tuple((name, inputs[name]) for name, _ in networks))

    def _exact_network(self, settings: Settings, data: DataSpec) -> Network:
        model = settings.model
        if isinstance(model, PythonTable):
            return self._user_network(settings, model, data)
        assert isinstance(model, MlpTable)
        return _mlp_network(settings, model, data, (model.activation,))

    def _network(self, program_class: ProgramClass, settings: Settings) -> Network:
        model = settings.model
        if not isinstance(model, MlpTable):
            return self._exact_network(settings, self._data)
        told = json.loads(program_class.settings).get("model.activation")
        activations = told if isinstance(told, list) else (model.activation,)
        size = program_class.padded_width, program_class.padded_depth
        looped = program_class.lane_loop == "map"
        network = _mlp_network(settings, model, self._data, activations, size, looped)
        return replace(network, widths=program_class.run_widths)

    def _user_network(self, settings: Settings, model: PythonTable, data: DataSpec) -> UserNetwork:
        """The same network for all trials of one structure, since it caches what it has traced."""
        network = UserNetwork(
            function=model.function,
            base_dir=settings.base_dir,
            arguments=tuple(model.arguments.items()),
            in_size=data.in_size,
            out_size=data.out_size,
            dtype=data.dtype,
            decay=Decay.of(settings.sole_optimizer.decay, settings.base_dir),
            edition=settings.edition,
        )
        return self._users.setdefault(network, network)


def _differentiated_twice(train: AlternatingTable | CoupledTable) -> frozenset[str]:
    """The models whose gradient is differentiated again, which the loop over layers does not allow.

    User-defined functions get models without that loop.
    """
    objective = OBJECTIVES.get(train.objective) if isinstance(train, CoupledTable) else None
    return frozenset({CRITIC} if objective is not None and objective.penalised else ())


def _mlp_network(
    settings: Settings,
    model: MlpTable,
    data: DataSpec,
    activations: Sequence[str],
    padded_to: tuple[int | None, int | None] = (None, None),
    looped: bool = False,
) -> MlpNetwork:
    width, depth = padded_to
    return MlpNetwork(
        shape=MlpShape(
            data.in_size,
            data.out_size,
            width or model.width,
            depth or model.depth,
            model.layer_norm,
        ),
        activations=tuple(activations),
        has_dropout=settings.has("model.dropout"),
        padded=width is not None,
        dtype=data.dtype,
        decay=Decay.of(settings.sole_optimizer.decay, settings.base_dir),
        looped=looped,
    )
