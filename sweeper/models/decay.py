"""Which arrays of a model weight decay applies to: the most specific rule for each decides.

The position of an array counts more than its properties. The order is: a rule with a path, and of
two paths the one with more literal text; a rule with a depth; one with a class, where the array's
own layer counts more than those around it; one with the name of the array; one with its number of
dimensions. Of equally specific rules the later one decides.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
from jaxtyping import PyTree

from sweeper.config.decay import DecayTable, Rule
from sweeper.config.user_code import LoadError, describe_object, load_class
from sweeper.models.adapters import Adapted
from sweeper.models.leaves import Leaf, leaves_of

_ADAPTED, _MATRICES = f"{Adapted.__module__}:{Adapted.__name__}", (2, 3, 4, 5, 6)
# these decide on arrays that no rule of a study matches
_OF_EVERY_STUDY = (
    Rule("default", 0.0),
    *(Rule("default", 1.0, layer, "weight") for layer in ("Linear", "Conv", "ConvTranspose")),
    # of Flax, and of Haiku; vectors with these names are not weights of a layer
    *(Rule("default", 1.0, _ADAPTED, leaf, ndim=_MATRICES) for leaf in ("kernel", "w")),
)


@dataclass(frozen=True, slots=True)
class Decay:
    """The rules of a study; the classes that they name are looked up in `base_dir` first."""

    rules: tuple[Rule, ...]
    base_dir: Path

    @classmethod
    def of(cls, table: DecayTable | None, base_dir: Path) -> Decay:
        """The rules of `[optimizer.decay]`; without that table `DEFAULT`."""
        return DEFAULT if table is None else cls(table.rules_in_order, base_dir)

    @property
    def is_by_place(self) -> bool:
        """Whether some rule depends on the position of an array in the model."""
        return any(rule.path or rule.depth for rule in self.rules)


# the weights of linear and convolution layers decay, nothing else
DEFAULT = Decay((), Path())


@dataclass(frozen=True, slots=True)
class Decision:
    """What happens to an array, and by which rule."""

    leaf: Leaf
    rule: Rule


def decisions(parameters: PyTree, decay: Decay) -> tuple[Decision, ...]:
    """What the rules decide for each array of a model, in the order of its PyTree.

    `parameters` are the parameters of the model, or their shapes; they must not be stacked, because
    a rule may depend on the number of dimensions of an array.

    Raises:
        LoadError: a rule names a class that does not exist.
    """
    class_of = _lookup(decay.base_dir)
    return tuple(Decision(leaf, _deciding(leaf, decay, class_of)) for leaf in leaves_of(parameters))


def amounts(parameters: PyTree, decay: Decay) -> tuple[float, ...]:
    """How much each array decays, as a share of the weight decay."""
    return tuple(decision.rule.amount for decision in decisions(parameters, decay))


def any_decays(leaves: Iterable[Leaf], decay: Decay) -> bool:
    """Whether any of `leaves` decays."""
    class_of = _lookup(decay.base_dir)
    return any(_deciding(leaf, decay, class_of).amount for leaf in leaves)


def matching(leaves: Iterable[Leaf], rule: Rule, base_dir: Path) -> Iterator[Leaf]:
    """Those of `leaves` that a rule matches, whether or not it decides on them."""
    class_of = _lookup(base_dir)
    return (leaf for leaf in leaves if _specificity(leaf, rule, class_of) is not None)


def tree_of(parameters: PyTree, marks: Iterable[Any]) -> PyTree:
    """`parameters` with one of `marks` in place of each array."""
    return jax.tree.unflatten(jax.tree.structure(parameters), marks)


def _lookup(base_dir: Path) -> _ClassOf:
    """`layer_class` for one pass over a model, in which each class is looked up once.

    Between two passes, a user-defined module may be imported again, with new classes.
    """
    return cache(partial(layer_class, base_dir=base_dir))


def layer_class(name: str, base_dir: Path) -> type:
    """The class with this name in `eqx.nn`, in snake_case too, or `module:Class`.

    Raises:
        LoadError: it does not exist.
    """
    if name == _ADAPTED:  # whatever `base_dir` has under this name
        return Adapted
    if ":" in name:
        found = load_class(name, base_dir)
        if not isinstance(found, type):
            raise LoadError(
                f"'{name}' is {describe_object(found)}, not a class", "write module:Class"
            )
        return found
    found = known_layers().get(_plain(name))
    if found is None:
        raise LoadError(f"eqx.nn has no class '{name}'", 'write one that it has, or "module:Class"')
    return found


@cache
def known_layers() -> dict[str, type]:
    """The classes of `eqx.nn` that are layers, by their lower-case names without underscores."""
    everything = vars(eqx.nn).items()
    layers = {n: c for n, c in everything if isinstance(c, type) and issubclass(c, eqx.Module)}
    return {_plain(name): layer for name, layer in layers.items()}


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


def _deciding(leaf: Leaf, decay: Decay, class_of: _ClassOf) -> Rule:
    """The most specific rule for `leaf`; one of the study's own rules if any matches."""
    for rules in (decay.rules, _OF_EVERY_STUDY):
        about = [
            ((*specificity, place), rule)
            for place, rule in enumerate(rules)
            if (specificity := _specificity(leaf, rule, class_of)) is not None
        ]
        if about:
            return max(about, key=lambda one: one[0])[1]
    raise AssertionError("the last default rule matches everything")


# a condition returns how closely it fits an array, or None if it does not fit
_Fit = tuple[int, ...]
# the class that a rule names
_ClassOf = Callable[[str], type]


def _specificity(leaf: Leaf, rule: Rule, class_of: _ClassOf) -> tuple[_Fit, ...] | None:
    """How specific a rule is for an array, to be compared; None if it does not match."""
    fits = [
        fit(leaf, rule, class_of) if getattr(rule, name) else ()
        for name, fit in _CONDITIONS.items()
    ]
    return None if None in fits else tuple(fit for fit in fits if fit is not None)


def _path_fit(leaf: Leaf, rule: Rule, class_of: _ClassOf) -> _Fit | None:
    """The path with more literal text fits more closely."""
    pattern = _pattern(rule.path)
    if not any(pattern.fullmatch(path) for path in leaf.paths):
        return None
    return (len(rule.path.replace("*", "")),)


@cache
def _pattern(path: str) -> re.Pattern[str]:
    """What a path matches: itself and everything in it; a `*` matches any text."""
    text = ".*".join(map(re.escape, path.split("*")))
    return re.compile(rf"{text}([.\[].*)?", re.DOTALL)


def _layer_fit(leaf: Leaf, rule: Rule, class_of: _ClassOf) -> _Fit | None:
    """The closest layer of the class that has the array under the name in the rule."""
    layer = class_of(rule.layer)
    for steps, holder in enumerate(leaf.holders):
        ancestry = holder.layer.__mro__
        if layer in ancestry and (not rule.leaf or rule.leaf in holder.fields):
            return 1, -steps, -ancestry.index(layer)
    return None


def _fit_if(holds: bool) -> _Fit | None:
    return (1,) if holds else None


# the conditions of a rule by the name of their field, in order of importance
_CONDITIONS: Mapping[str, Callable[[Leaf, Rule, _ClassOf], _Fit | None]] = {
    "path": _path_fit,
    "depth": lambda leaf, rule, _: _fit_if(bool({*(leaf.depth or ())} & {*rule.depth})),
    "layer": _layer_fit,
    "leaf": lambda leaf, rule, _: _fit_if(bool(rule.layer) or rule.leaf in leaf.fields),
    "ndim": lambda leaf, rule, _: _fit_if(len(leaf.shape) in rule.ndim),
}
