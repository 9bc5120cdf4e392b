"""What two trials must share to be lanes of one program."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from hashlib import blake2b

from sweeper.config import Settings
from sweeper.trial import TrialSpec


@dataclass(frozen=True, slots=True)
class Structure:
    """The compiled side of a trial.

    `signature` compares equal where one program can train both, in this process only: activation
    functions hash by identity. `structure_id` names the structural hyperparameters for good.
    """

    structure_id: str
    settings: str
    signature: Hashable
    n_parameters: int


StructureOf = Callable[[TrialSpec], Structure]


def canonical(settings: Mapping[str, object]) -> str:
    """Structural hyperparameters as JSON that is equal where they are equal."""
    return json.dumps(settings, sort_keys=True, separators=(",", ":"))


def short_hash(*parts: object) -> str:
    """Twelve hexadecimal digits that name `parts`."""
    return blake2b(json.dumps(parts).encode(), digest_size=6).hexdigest()


class Structures:
    """The structure of each trial, computed once for each combination of structural settings.

    `measure` gives the signature and the number of parameters for the settings of a trial.
    """

    def __init__(
        self,
        settings_of: Callable[[TrialSpec], Settings],
        measure: Callable[[Settings], tuple[Hashable, int]],
    ) -> None:
        self._settings_of = settings_of
        self._measure = measure
        self._known: dict[str, Structure] = {}

    def __call__(self, spec: TrialSpec) -> Structure:
        settings = self._settings_of(spec)
        text = canonical(settings.structure())
        if text not in self._known:
            signature, n_parameters = self._measure(settings)
            self._known[text] = Structure(short_hash(text), text, signature, n_parameters)
        return self._known[text]
