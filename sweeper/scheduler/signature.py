"""What two trials must have in common to be lanes of one program."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from sweeper.config import Settings
from sweeper.config.model import MlpTable, ModelKind
from sweeper.scheduler.lattice import PartSize, Sizes
from sweeper.trial import Scalar, TrialSpec

# only hidden layers use these
_HIDDEN = ("model.width", "model.activation", "model.layer_norm", "model.dropout")
# only these programs draw random numbers in their models
_WITHOUT_DRAWS = ("supervised", "alternating")
# the structures of this many trials are cached: more than train at a time
_MAX_KEPT = 65_536


@dataclass(frozen=True, slots=True)
class Structure:
    """The compiled side of a trial.

    `structure_id` names its structural hyperparameters. `program` is what is compiled into a
    program for trials of this PyTree only: two trials can be lanes of one program exactly if theirs
    are equal. `family` is the same for all `sizes` that can share a padded class; if padding does
    not help it is None, and `sizes` is empty. `kind` is that of the model. `has_fixed_start` says
    whether its initial weights are the same for every key; None if that is not known.
    """

    structure_id: str
    program: str
    n_parameters: int
    family: str | None = None
    sizes: Sizes = ()
    kind: ModelKind = "mlp"
    has_fixed_start: bool | None = None


StructureOf = Callable[[TrialSpec], Structure]


def canonical(settings: Mapping[str, object]) -> str:
    """Structural hyperparameters as JSON; equal hyperparameters give equal text."""
    return json.dumps(settings, sort_keys=True, separators=(",", ":"))


def short_hash(*parts: object) -> str:
    """Twelve hexadecimal digits that identify `parts`."""
    return blake2b(json.dumps(parts).encode(), digest_size=6).hexdigest()


class Structures:
    """The structure of each trial, computed once per combination of structural settings.

    `traced` are structural settings that are passed to a program at run time, with all their
    values: they never separate two trials. `n_parameters` counts the parameters of a trial's model,
    and `has_fixed_start` says whether its initial weights are the same for every key.
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
        drawn = _key(spec.params)
        if drawn not in self._of_drawn:
            if len(self._of_drawn) >= _MAX_KEPT:
                self._of_drawn.clear()  # most of these trials have ended
            self._of_drawn[drawn] = self._of(spec)
        return self._of_drawn[drawn]

    def _of(self, spec: TrialSpec) -> Structure:
        settings = self._settings_of(spec)
        own = settings.structure()
        key = _key(own)
        if key not in self._known:
            self._known[key] = self._structure(settings, own)
        return self._known[key]

    def _structure(self, settings: Settings, own: Mapping[str, object]) -> Structure:
        family = family_of(settings, self._traced)
        return Structure(
            short_hash(canonical(own)),
            canonical(compiled_in(settings, self._traced)),
            self._n_parameters(settings),
            family=family,
            sizes=() if family is None else sizes_of(settings),
            kind=settings.model.kind,
            has_fixed_start=self._has_fixed_start(settings),
        )


def _key(named: Mapping[str, object]) -> tuple[object, ...]:
    values = named.values()
    return *named, *values, *map(type, values)  # 1 equals True, but not as a setting


def compiled_in(settings: Settings, traced: Mapping[str, Sequence[Scalar]]) -> dict[str, object]:
    """What is compiled into a program for trials of this PyTree only, by dotted key."""
    several = {name: list(values) for name, values in traced.items()}
    own = settings.structure()
    everything: dict[str, object] = {**own, **{k: v for k, v in several.items() if k in own}}
    if isinstance(settings.model, MlpTable) and not settings.model.depth:
        return {key: value for key, value in everything.items() if key not in _HIDDEN}
    return everything


def family_of(settings: Settings, traced: Mapping[str, Sequence[Scalar]]) -> str | None:
    """What trials that can share a padded class have in common: networks with hidden layers.

    None if the optimizer looks at whole arrays, or a user-defined program at the model: they would
    see the padding.
    """
    if not (settings.optimizer.elementwise and settings.train.is_padded):
        return None
    models = [f"model.{part.name}".rstrip(".") for part in sizes_of(settings)]
    if not models:
        return None
    padded = {f"{model}.{size}" for model in models for size in ("width", "depth")}
    everything = compiled_in(settings, traced)
    return canonical({key: value for key, value in everything.items() if key not in padded})


def may_draw(compiled: str) -> bool:
    """Whether a program that compiles in `compiled` may draw random numbers in its steps.

    It may, for dropout, generated data, or a user-defined step or model.
    """
    settings = json.loads(compiled)
    if settings["train.program"] not in _WITHOUT_DRAWS:
        return True
    models = ((key.rpartition(".")[2], value) for key, value in settings.items())
    return any(model in (("dropout", True), ("kind", "python")) for model in models)


def sizes_of(settings: Settings) -> Sizes:
    """The sizes of the parts that can be padded: those with hidden layers."""
    hidden = settings.model.with_hidden_layers
    return tuple(PartSize(name, *size) for name, size in hidden.items())
