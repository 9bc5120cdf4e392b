"""A part in a padded class decays as it does alone, by the rules of its optimizer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import optax

from sweeper.config import parse
from sweeper.config.settings import Settings
from sweeper.programs.alternating import Alternating
from sweeper.programs.build import Programs
from sweeper.scheduler.classes import ProgramClass
from tests.preflight.test_check_decay import SPEC, TURNS
from tests.small_studies import bent

EACH = "{name='sgd',lr=0.1,weight_decay=0.5}"
STUDY = bent(
    TURNS,
    f"optimizer={{a={EACH},b={EACH},c={EACH}}}",
    "optimizer.a.decay={linear={weight=true},other=false,where=[{path='layers[-1]',decay=0.5}]}",
)
PADDED = ProgramClass("id", "{}", "padded", "vmap", 1, "float32", 12, 3, padded_parts="a=12x3")


def shrunk(program: Alternating, settings: Settings) -> Any:
    """The part `a`, without its padding, after one step without a gradient."""
    state, lane = program.layout.init(0, settings), program.lane(0, settings)
    assert isinstance(state.model, dict)
    vector = jnp.asarray(state.model["a"])
    optimizer = program.optimizer_in("a", lane, 0)
    updates, _ = optimizer.update(jnp.zeros_like(vector), optimizer.init(vector), vector)
    network = program.parts.by_name["a"]
    moved = np.asarray(optax.apply_updates(vector, updates))
    padding = network.padding(settings.of_part("a"))
    return moved if padding is None else padding.cut(moved)


def test_the_last_layer_is_that_of_the_trial() -> None:
    config = parse(STUDY, Path("study.toml"))
    programs = Programs(SPEC)
    for depth in (1, 2, 3):
        settings = config.settings_of({"depth_a": depth})
        exact = programs.exact(settings)
        assert isinstance(exact, Alternating)
        padded = programs.of_class(PADDED, settings)
        assert isinstance(padded, Alternating)

        own = exact.parts.by_name["a"].model(shrunk(exact, settings))

        np.testing.assert_array_equal(shrunk(padded, settings), shrunk(exact, settings))
        first: Any = exact.parts.by_name["a"].model(exact.init(0, settings).model["a"])
        for index, (new, old) in enumerate(zip(own.layers, first.layers, strict=True)):
            weight, bias = (0.5, 0.5) if index == depth else (1.0, 0.0)
            np.testing.assert_allclose(new.weight, (1 - 0.05 * weight) * old.weight, rtol=1e-6)
            np.testing.assert_allclose(new.bias, (1 - 0.05 * bias) * old.bias, rtol=1e-6)
