"""Which arrays of a model weight decay touches: the most specific rule about each decides.

Where an array stands counts more than what it is. In this order: a rule with a path, of two the one
with more of it written out; then one with a depth; then one with a class, that of the layer itself
before those around it; then one with the name of the array; then one with its dimensions. Of equal
rules the later one decides.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
from jaxtyping import PyTree

from sweeper.config.decay import DecayTable, Rule
from sweeper.config.user_code import LoadError, load_class
from sweeper.models.leaves import Leaf, leaves_of

# what decides on arrays that no rule of a study is about
_OF_EVERY_STUDY = (
    Rule("default", 0.0),
    *(Rule("default", 1.0, layer, "weight") for layer in ("Linear", "Conv", "ConvTranspose")),
)


@dataclass(frozen=True, slots=True)
class Decay:
    """The rules of a study; the classes that they name are looked up in `base_dir` first."""

    rules: tuple[Rule, ...]
    base_dir: Path

    @classmethod
    def of(cls, table: DecayTable | None, base_dir: Path) -> Decay:
        """What `[optimizer.decay]` says; without it `DEFAULT`."""
        return DEFAULT if table is None else cls(table.rules_in_order, base_dir)

    @property
    def is_by_place(self) -> bool:
        """Whether some rule asks where in the model an array stands."""
        return any(rule.path or rule.depth for rule in self.rules)


# weights of linear and convolution layers decay, nothing else
DEFAULT = Decay((), Path())


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of an array, and by which rule."""

    leaf: Leaf
    rule: Rule


def decisions(parameters: PyTree, decay: Decay) -> tuple[Decision, ...]:
    """What the rules say of each array of a model, in the order of its PyTree.

    `parameters` are the model, or its shapes, without anything else; never stacked: a rule may ask
    for the dimensions of an array.

    Raises:
        LoadError: a rule names a class that there is not.
    """
    return tuple(Decision(leaf, _deciding(leaf, decay)) for leaf in leaves_of(parameters))


def amounts(parameters: PyTree, decay: Decay) -> tuple[float, ...]:
    """By how much each array decays, as a share of the weight decay."""
    return tuple(decision.rule.amount for decision in decisions(parameters, decay))


def any_decays(leaves: Iterable[Leaf], decay: Decay) -> bool:
    """Whether some of `leaves` decays."""
    return any(_deciding(leaf, decay).amount for leaf in leaves)


def matching(leaves: Iterable[Leaf], rule: Rule, base_dir: Path) -> Iterator[Leaf]:
    """Those of `leaves` that a rule is about, whether it decides or not."""
    return (leaf for leaf in leaves if _specificity(leaf, rule, base_dir) is not None)


def tree_of(parameters: PyTree, marks: Iterable[Any]) -> PyTree:
    """`parameters` with one of `marks` in place of each array."""
    return jax.tree.unflatten(jax.tree.structure(parameters), marks)


@cache
def layer_class(name: str, base_dir: Path) -> type:
    """The class of `eqx.nn` that is called so, in snake_case too, or `module:Class`.

    Raises:
        LoadError: there is none.
    """
    if ":" in name:
        found = load_class(name, base_dir)
        if not isinstance(found, type):
            raise LoadError(f"'{name}' is not a class", "write module:Class")
        return found
    found = known_layers().get(_plain(name))
    if found is None:
        raise LoadError(f"no class '{name}' in eqx.nn", 'write one of it, or "module:Class"')
    return found


@cache
def known_layers() -> dict[str, type]:
    """The classes of `eqx.nn` that are layers, by their names without case and underscores."""
    everything = vars(eqx.nn).items()
    layers = {n: c for n, c in everything if isinstance(c, type) and issubclass(c, eqx.Module)}
    return {_plain(name): layer for name, layer in layers.items()}


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


def _deciding(leaf: Leaf, decay: Decay) -> Rule:
    """The most specific rule about `leaf`; of a study's own rules, if there is one among them."""
    for rules in (decay.rules, _OF_EVERY_STUDY):
        about = [
            ((*specificity, place), rule)
            for place, rule in enumerate(rules)
            if (specificity := _specificity(leaf, rule, decay.base_dir)) is not None
        ]
        if about:
            return max(about, key=lambda one: one[0])[1]
    raise AssertionError("the last of the default rules is about everything")


# a condition says how closely it fits an array, and None where it does not
_Fit = tuple[int, ...]
_LOOSE: _Fit = ()


def _specificity(leaf: Leaf, rule: Rule, base_dir: Path) -> tuple[_Fit, ...] | None:
    """How specific a rule is for an array, to be compared; None where it is not about it."""
    fits = [condition(leaf, rule, base_dir) for condition in _CONDITIONS]
    return None if None in fits else tuple(fit for fit in fits if fit is not None)


def _path_fit(leaf: Leaf, rule: Rule, base_dir: Path) -> _Fit | None:
    if not rule.path:
        return _LOOSE
    pattern = _pattern(rule.path)
    if not any(pattern.fullmatch(path) for path in leaf.paths):
        return None
    return (len(rule.path.replace("*", "")),)


@cache
def _pattern(path: str) -> re.Pattern[str]:
    """What a path matches: itself and all that is in it, a `*` standing for any text."""
    text = ".*".join(map(re.escape, path.split("*")))
    return re.compile(rf"{text}([.\[].*)?", re.DOTALL)


def _depth_fit(leaf: Leaf, rule: Rule, base_dir: Path) -> _Fit | None:
    if not rule.depth:
        return _LOOSE
    return (1,) if leaf.depth is not None and {*leaf.depth} & {*rule.depth} else None


def _layer_fit(leaf: Leaf, rule: Rule, base_dir: Path) -> _Fit | None:
    """The closest layer of the class that has the array under the name which the rule says."""
    if not rule.layer:
        return _LOOSE if not rule.leaf or rule.leaf in leaf.fields else None
    layer = layer_class(rule.layer, base_dir)
    for steps, holder in enumerate(leaf.holders):
        ancestry = holder.layer.__mro__
        if layer in ancestry and (not rule.leaf or rule.leaf in holder.fields):
            return 1, -steps, -ancestry.index(layer)
    return None


def _leaf_fit(leaf: Leaf, rule: Rule, base_dir: Path) -> _Fit | None:
    return (1,) if rule.leaf else _LOOSE


def _ndim_fit(leaf: Leaf, rule: Rule, base_dir: Path) -> _Fit | None:
    if not rule.ndim:
        return _LOOSE
    return (1,) if len(leaf.shape) in rule.ndim else None


# in the order in which they count
_CONDITIONS: tuple[Callable[[Leaf, Rule, Path], _Fit | None], ...] = (
    _path_fit,
    _depth_fit,
    _layer_fit,
    _leaf_fit,
    _ndim_fit,
)
