"""Which arrays of a study's models weight decay rules match, before it starts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, product
from math import prod
from typing import Any

from sweeper.config import Settings, StudyConfig
from sweeper.config.decay import DecayTable
from sweeper.config.lint import uncertain_decays
from sweeper.config.model import LAYERED, MlpTable, ModelKind, PartsTable
from sweeper.config.optimizer import UserOptimizerTable, decays_of
from sweeper.config.search import ends
from sweeper.config.table import Flaw
from sweeper.config.user_errors import RAISED
from sweeper.errors import StudyError
from sweeper.models.decay import Decay, Decision, any_decays, decisions
from sweeper.models.decay_rules import check_layers, factors, idle_rules
from sweeper.models.leaves import Leaf, leaves_of
from sweeper.programs.build import Programs
from sweeper.trial import Scalar

# with more models than this, only some are checked
_MAX_MODELS = 64
# MLP settings that only change the sizes of arrays, and settings that follow them
_SIZES = (".width", ".out_size", ".activation")


@dataclass(frozen=True, slots=True)
class ModelLeaves:
    """The arrays of each model that trials may have; all of them if `are_all`."""

    leaves: tuple[tuple[Leaf, ...], ...]
    are_all: bool

    @property
    def together(self) -> tuple[Leaf, ...]:
        """The arrays of all models."""
        return tuple(leaf for leaves in self.leaves for leaf in leaves)


def check_decay(config: StudyConfig, programs: Programs) -> None:
    """Refuse weight decay rules that match nothing in any trial.

    Raises:
        StudyError: with what there is to match.
    """
    problems = [
        config.problem(f"{key}.{flaw.key}", flaw.found, flaw.hint)
        for key, table in decays_of(config.optimizer).items()
        for flaw in _flaws(config, programs, key, table)
    ]
    if problems:
        raise StudyError(problems)


def _flaws(config: StudyConfig, programs: Programs, key: str, table: DecayTable) -> Iterator[Flaw]:
    decay = Decay.of(table, config.base_dir)
    flaws = [*check_layers(decay)]
    if isinstance(config.each("optimizer")[key.removesuffix(".decay")], UserOptimizerTable):
        flaws += factors(decay)
    yield from flaws
    if not flaws and config.trial is None:  # for a single trial, a rule may be about others
        models = models_of(config, programs, part_of(key))
        if models.are_all:
            yield from idle_rules(decay, models.together)


def partly_idle(config: StudyConfig, programs: Programs) -> tuple[str, ...]:
    """The rules that match no array in some trials' models, by key."""
    found = (
        f"{key}.{flaw.key}"
        for key, table in decays_of(config.optimizer).items()
        for leaves in models_of(config, programs, part_of(key)).leaves
        for flaw in idle_rules(Decay.of(table, config.base_dir), leaves)
    )
    return tuple(dict.fromkeys(found))


def doubtful_rules(config: StudyConfig, programs: Programs) -> Iterator[str]:
    """Warnings about rules that match no array of the inspected models, if there may be others."""
    if config.trial is not None or all(_are_few(config, kind) for kind in config.kinds):
        return  # check_decay has refused such rules
    for key, table in decays_of(config.optimizer).items():
        models = models_of(config, programs, part_of(key))
        if models.leaves and not models.are_all:
            for flaw in idle_rules(Decay.of(table, config.base_dir), models.together):
                seen = f"{flaw.found} in the {len(models.leaves)} models looked at"
                yield f"{key}.{flaw.key}: {seen}; {flaw.hint}"


def idle_amounts(config: StudyConfig, programs: Programs) -> Iterator[str]:
    """Warnings about weight decay that is written or searched, but applies to no array."""
    for key in uncertain_decays(config):
        table, part = decays_of(config.optimizer).get(f"{key}.decay"), part_of(f"{key}.decay")
        if _may_decay(config, programs, part, Decay.of(table, config.base_dir)):
            continue
        amount = f"{key}.weight_decay"
        searched = "search." if config.entry(amount) is not None else ""
        model = "the model" if part is None else f"model.{part}"
        why = f"[{key}.decay] excludes all arrays of {model} from decay"
        if table is None:
            why = f"weights of linear and convolution layers decay, but {model} has none"
        yield (
            f"{searched}{amount} changes nothing: {why}; write which arrays decay in "
            f"[{key}.decay], such as other = true"
        )


def _may_decay(config: StudyConfig, programs: Programs, part: str | None, decay: Decay) -> bool:
    """Whether some array of some trial's model decays, as far as all of them are known."""
    try:
        first = _leaves(programs, config.settings_of({}), part)
    except RAISED:  # by user code; reported when the model is checked
        return True
    if any_decays(first, decay):
        return True
    models = models_of(config, programs, part)
    return not models.are_all or any_decays(models.together, decay)


def part_of(key: str) -> str | None:
    """The part whose optimizer has the rules at this key; None if they are for all parts."""
    _, *part, _ = key.split(".")
    return part[0] if part else None


def models_of(config: StudyConfig, programs: Programs, part: str | None) -> ModelLeaves:
    """The models that trials of a study may have, or one `part` of them."""
    found = [_models_of_kind(config, kind, programs, part) for kind in config.kinds]
    leaves = tuple(leaves for models in found for leaves in models.leaves)
    return ModelLeaves(leaves, all(models.are_all for models in found))


def _models_of_kind(
    config: StudyConfig, kind: ModelKind, programs: Programs, part: str | None
) -> ModelLeaves:
    found: list[tuple[Leaf, ...]] = []
    for several in islice(product(*_options(config, kind)), _MAX_MODELS):
        settings = config.settings_of({key: value for one in several for key, value in one.items()})
        try:
            found.append(_leaves(programs, settings, part))
        except RAISED:  # by user code; reported when the model is checked
            return ModelLeaves(tuple(found), are_all=False)
    return ModelLeaves(tuple(found), _are_few(config, kind))


def _are_few(config: StudyConfig, kind: ModelKind) -> bool:
    """Whether a kind has so few models, none from a continuous range, that all are looked at."""
    is_finite = all(config.search[key].values() for key in _searched(config, kind))
    return is_finite and prod(map(len, _options(config, kind))) <= _MAX_MODELS


def _leaves(programs: Programs, settings: Settings, part: str | None) -> tuple[Leaf, ...]:
    networks = programs.networks(settings).items()
    shapes = [network.vector.shapes() for name, network in networks if part in (None, name)]
    return tuple(leaf for shape in shapes for leaf in leaves_of(shape))


def _options(config: StudyConfig, kind: ModelKind) -> Iterator[list[dict[str, Scalar]]]:
    """For each setting in which models of a kind differ, its values by column.

    For a setting that not every trial draws, one option leaves it as written.
    """
    yield [config.params_of(kind)]
    for key in _searched(config, kind):
        entry = config.search[key]
        values: Sequence[Scalar] = entry.values() or ends(entry)
        # the deepest has the arrays of all others, except for positions counted from the end
        is_depth = key.endswith(".depth") and _is_of_layers(config, key, kind)
        chosen = {min(values, key=int), max(values, key=int)} if is_depth else values
        undrawn: list[dict[str, Scalar]] = [{}] if entry.when else []
        yield [{entry.column(key): value} for value in sorted(chosen, key=str)] + undrawn


def _searched(config: StudyConfig, kind: ModelKind) -> Sequence[str]:
    """The searched settings that change which arrays models of a kind have.

    This includes settings of other tables whose value a setting of the model takes.
    """
    linked = {source for key, source in config.same_as.items() if key.startswith("model.")}
    return [
        key
        for key in config.search
        if (key in linked or key.startswith("model.")) and config.splits(key, kind)
        if key in linked or not (key.endswith(_SIZES) and _is_of_layers(config, key, kind))
    ]


def _is_of_layers(config: StudyConfig, key: str, kind: ModelKind) -> bool:
    """Whether a setting belongs to a network of hidden layers, a whole model or a part."""
    if isinstance(config.model, PartsTable):
        part = config.model.parts.get(key.split(".")[1])
        return isinstance(part, MlpTable)
    return kind in LAYERED


def decay_preview(config: StudyConfig, programs: Programs) -> dict[str, Any]:
    """What weight decay applies to in the deepest MLP, or a user-defined model as written.

    As JSON-able values: each array of one model of each kind, and the rules that match nothing in
    some trials.
    """
    return {
        "study": config.study.name,
        "rules_without_use_in_some_trials": list(partly_idle(config, programs)),
        "models": [
            _treated(
                name,
                settings.of_part(name),
                decisions(network.vector.shapes(), network.vector.decay),
            )
            for kind in config.kinds
            for settings in (config.settings_of(_example(config, kind)),)
            for name, network in programs.networks(settings).items()
        ],
    }


def _treated(part: str, settings: Settings, decided: Sequence[Decision]) -> dict[str, Any]:
    """A model, or a part of one: its settings, and how each of its arrays is treated."""
    sizes = [(prod(one.leaf.shape), one.rule.amount) for one in decided]
    structure = settings.structure().items()
    return {
        "part": part or None,
        "settings": {key: value for key, value in structure if key.startswith("model.")},
        "parameters": sum(size for size, _ in sizes),
        "decayed_parameters": sum(size for size, amount in sizes if amount),
        "arrays": [
            {
                "path": one.leaf.path,
                "shape": list(one.leaf.shape),
                "layer": one.leaf.layer,
                "decay": one.rule.amount,
                "rule": one.rule.key,
            }
            for one in decided
        ],
    }


def _example(config: StudyConfig, kind: ModelKind) -> dict[str, Scalar]:
    """Parameters of the trial whose model is shown."""
    wanted: dict[str, Scalar] = {"model.kind": kind}
    for key in (*config.search, *config.same_as):
        if key.startswith("model.") and key.endswith(".depth") and kind != "python":
            wanted[key] = max(int(depth) for depth in config.drawn_values(key) or (0,))
    drawn = {key: config.same_as.get(key, key) for key in wanted}
    return {
        config.search[source].column(source): wanted[key]
        for key, source in drawn.items()
        if source in config.search
    }
