"""From settings to programs: one a class of the plan, and one a structure for what is exported."""

from __future__ import annotations

import json
from collections.abc import Sequence

from sweeper.config import Settings
from sweeper.config.model import MlpTable, PythonTable
from sweeper.models.mlp import MlpShape
from sweeper.models.network import MlpNetwork, Network
from sweeper.models.user_network import UserNetwork
from sweeper.programs.data_spec import DataSpec
from sweeper.programs.program import Program
from sweeper.programs.supervised import Supervised
from sweeper.scheduler.buckets import ProgramClass


class Programs:
    """The programs of a study, each made once: their abstract states take time to trace."""

    def __init__(self, data: DataSpec) -> None:
        self._data = data
        self._known: dict[str, Program] = {}
        self._users: dict[UserNetwork, UserNetwork] = {}

    def of_class(self, program_class: ProgramClass, settings: Settings) -> Program:
        """The program of a class; `settings` are those of any of its trials."""
        class_id = program_class.class_id
        if class_id not in self._known:
            network = self._network(program_class, settings)
            self._known[class_id] = Supervised(settings, self._data, network)
        return self._known[class_id]

    def exact(self, settings: Settings) -> Program:
        """The program that would train a trial with `settings` alone."""
        return Supervised(settings, self._data, self._exact_network(settings))

    def n_parameters(self, settings: Settings) -> int:
        """How many numbers the model of a trial has, padding left out.

        0 where the user's function raises: what it raised is told where the trial is trained.
        """
        network = self._exact_network(settings)
        if not isinstance(network, UserNetwork):
            return network.n_parameters
        try:
            return network.n_parameters
        except Exception:
            return 0

    def _exact_network(self, settings: Settings) -> Network:
        model = settings.model
        if isinstance(model, PythonTable):
            return self._user_network(settings, model)
        return _mlp_network(settings, model, self._data, (model.activation,))

    def _network(self, program_class: ProgramClass, settings: Settings) -> Network:
        model = settings.model
        if isinstance(model, PythonTable):
            return self._user_network(settings, model)
        compiled_in = json.loads(program_class.settings).get("model.activation")
        traced = isinstance(compiled_in, list)
        activations = compiled_in if traced else (model.activation,)
        size = program_class.padded_width, program_class.padded_depth
        return _mlp_network(settings, model, self._data, activations, size)

    def _user_network(self, settings: Settings, model: PythonTable) -> UserNetwork:
        """The same one for trials of one structure, for it keeps what it has traced."""
        data = self._data
        network = UserNetwork(
            function=model.function,
            base_dir=settings.base_dir,
            arguments=tuple(model.arguments.items()),
            in_size=data.in_size,
            out_size=data.out_size,
            dtype=data.dtype,
        )
        return self._users.setdefault(network, network)


def _mlp_network(
    settings: Settings,
    model: MlpTable,
    data: DataSpec,
    activations: Sequence[str],
    padded_to: tuple[int | None, int | None] = (None, None),
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
    )
