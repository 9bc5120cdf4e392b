"""What weight decay would apply to in the models of a study."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from sweeper.config import Settings, StudyConfig
from sweeper.config.model import ModelKind
from sweeper.models.decay import Decision, decisions
from sweeper.preflight.decay import partly_idle
from sweeper.programs.build import Programs
from sweeper.trial import Scalar


@dataclass(frozen=True, slots=True)
class Seen:
    """A model, or a part of one: its settings, and how each of its arrays is treated."""

    part: str
    settings: Settings
    decided: tuple[Decision, ...]

    def as_dict(self) -> dict[str, Any]:
        """The same as JSON-able values."""
        sizes = [(prod(one.leaf.shape), one.rule.amount) for one in self.decided]
        structure = self.settings.structure().items()
        return {
            "part": self.part or None,
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
                for one in self.decided
            ],
        }


@dataclass(frozen=True, slots=True)
class DecayPreview:
    """How each array of one model of each kind is treated.

    `idle` are rules that match nothing in some trials.
    """

    study: str
    models: tuple[Seen, ...]
    idle: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """The preview as JSON-able values."""
        return {
            "study": self.study,
            "rules_without_use_in_some_trials": list(self.idle),
            "models": [model.as_dict() for model in self.models],
        }


def decay_preview(config: StudyConfig, programs: Programs) -> DecayPreview:
    """What weight decay would apply to: in the deepest MLP, or a user-defined model as written."""
    models = tuple(
        Seen(
            name,
            settings.of_part(name) if name else settings,
            decisions(network.shapes(), network.decay),
        )
        for kind in config.kinds
        for settings in (config.filled(_example(config, kind)),)
        for name, network in programs.networks(settings).items()
    )
    return DecayPreview(config.study.name, models, partly_idle(config, programs))


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
