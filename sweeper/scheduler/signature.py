"""What two trials must share to be lanes of one program."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b

from sweeper.config import Settings
from sweeper.config.model import ModelKind, PartsTable
from sweeper.scheduler.parts_lattice import Sizes
from sweeper.trial import Scalar, TrialSpec

# what a padded class has room for: any width up to its own, any depth from 1 up to its own
_PADDED = ("model.width", "model.depth")
# what hidden layers alone have use for
_HIDDEN = ("model.width", "model.activation", "model.layer_norm", "model.dropout")
# the programs that draw random numbers in their models alone
_WITHOUT_DRAWS = ("supervised", "alternating")
# trials whose structure is kept at hand: more than are in training at a time
_MAX_KEPT = 65_536


@dataclass(frozen=True, slots=True)
class Structure:
    """The compiled side of a trial.

    `structure_id` names its structural hyperparameters. `program` is what a program compiles in
    that trains trials of this PyTree alone; two trials can be lanes of it exactly where theirs are
    equal. `family` is the same for every shape that padding can bring together; it is None, as
    `width` and `depth` are, where padding is of no help; of a model of parts `sizes` are those that
    can be padded. `kind` is that of the model. `has_fixed_start` says whether its initial weights
    are the same for every key, None where that is not known.
    """

    structure_id: str
    program: str
    n_parameters: int
    family: str | None = None
    width: int | None = None
    depth: int | None = None
    sizes: Sizes = ()
    kind: ModelKind = "mlp"
    has_fixed_start: bool | None = None


StructureOf = Callable[[TrialSpec], Structure]


def canonical(settings: Mapping[str, object]) -> str:
    """Structural hyperparameters as JSON that is equal where they are equal."""
    return json.dumps(settings, sort_keys=True, separators=(",", ":"))


def short_hash(*parts: object) -> str:
    """Twelve hexadecimal digits that name `parts`."""
    return blake2b(json.dumps(parts).encode(), digest_size=6).hexdigest()


class Structures:
    """The structure of each trial, computed once for each combination of structural settings.

    `traced` are structural settings that a program is told at run time, with all their values:
    they never part two trials. `n_parameters` counts the numbers of a trial's model, and
    `has_fixed_start` says whether its initial weights are the same for every key.
    """

    def __init__(
        self,
        settings_of: Callable[[TrialSpec], Settings],
        n_parameters: Callable[[Settings], int],
        traced: Mapping[str, Sequence[Scalar]],
        has_fixed_start: Callable[[Settings], bool | None] = lambda _: None,
    ) -> None:
        self._settings_of = settings_of
        self._n_parameters = n_parameters
        self._traced = traced
        self._has_fixed_start = has_fixed_start
        self._known: dict[tuple[object, ...], Structure] = {}
        self._of_drawn: dict[tuple[object, ...], Structure] = {}

    def __call__(self, spec: TrialSpec) -> Structure:
        values = spec.params.values()
        drawn = *spec.params, *values, *map(type, values)  # 1 is equal to True, but no such setting
        if drawn not in self._of_drawn:
            if len(self._of_drawn) >= _MAX_KEPT:
                self._of_drawn.clear()  # of trials that have ended, most of them
            self._of_drawn[drawn] = self._of(spec)
        return self._of_drawn[drawn]

    def _of(self, spec: TrialSpec) -> Structure:
        settings = self._settings_of(spec)
        own = settings.structure()
        key = tuple(own.values())
        if key not in self._known:
            self._known[key] = self._structure(settings, own)
        return self._known[key]

    def _structure(self, settings: Settings, own: Mapping[str, object]) -> Structure:
        model = settings.model
        structure = Structure(
            short_hash(canonical(own)),
            canonical(compiled_in(settings, self._traced)),
            self._n_parameters(settings),
            kind=model.kind,
            has_fixed_start=self._has_fixed_start(settings),
        )
        family = family_of(settings, self._traced)
        if family is not None and model.kind == "parts":
            return replace(structure, family=family, sizes=sizes_of(settings))
        if family is None or model.kind != "mlp":
            return structure
        return replace(structure, family=family, width=model.width, depth=model.depth)


def compiled_in(settings: Settings, traced: Mapping[str, Sequence[Scalar]]) -> dict[str, object]:
    """What a program compiles in that trains trials of this PyTree alone, by dotted key."""
    several = {name: list(values) for name, values in traced.items()}
    own = settings.structure()
    everything: dict[str, object] = {**own, **{k: v for k, v in several.items() if k in own}}
    if settings.model.kind == "mlp" and settings.model.depth == 0:
        return {key: value for key, value in everything.items() if key not in _HIDDEN}
    return everything


def family_of(settings: Settings, traced: Mapping[str, Sequence[Scalar]]) -> str | None:
    """What all trials share that padding can bring together: MLPs with hidden layers.

    None where the optimizer looks at whole arrays, or a program of the user's at the model: they
    would see the padding.
    """
    if not (settings.optimizer.elementwise and settings.train.is_padded):
        return None
    if isinstance(settings.model, PartsTable):
        sizes = [f"model.{name}" for name, _, _ in sizes_of(settings)]
        padded = tuple(f"{part}.{name}" for part in sizes for name in ("width", "depth"))
    elif settings.model.kind == "mlp" and settings.model.depth > 0:
        padded = _PADDED
    else:
        return None
    everything = compiled_in(settings, traced)
    room = {key: value for key, value in everything.items() if key not in padded}
    return canonical(room) if padded else None


def may_draw(compiled: str) -> bool:
    """Whether a program may draw random numbers in its steps that compiles in `compiled`.

    For dropout, for what it generates, or in a step or a model of the user's own.
    """
    settings = json.loads(compiled)
    if settings["train.program"] not in _WITHOUT_DRAWS:
        return True
    models = ((key.rpartition(".")[2], value) for key, value in settings.items())
    return any(told in (("dropout", True), ("kind", "python")) for told in models)


def sizes_of(settings: Settings) -> Sizes:
    """The sizes of the parts that can be padded: MLPs with hidden layers."""
    assert isinstance(settings.model, PartsTable)
    sizes = settings.model.with_hidden_layers
    return tuple((name, width, depth) for name, (width, depth) in sizes.items())
