"""A searched argument that a user-defined model ignores is reported."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeper.config import parse
from sweeper.preflight.idle_arguments import idle_arguments
from sweeper.programs.build import Programs
from sweeper.programs.data_spec import DataSpec
from tests.config.conftest import VALID

NETS = """\
import equinox as eqx
import jax


class Net(eqx.Module):
    linear: eqx.nn.Linear
    scale: float
    name: str = eqx.field(static=True)
    activation: object

    def __call__(self, x):
        return self.activation(self.linear(x) * self.scale)


def build(*, in_size, out_size, key, scale=1.0, name="", gain=1.0, act="relu", deep=False, **rest):
    linear = eqx.nn.Linear(in_size, out_size, key=key)
    linear = eqx.tree_at(lambda layer: layer.weight, linear, linear.weight * gain)
    if deep and rest.get("often", 0) > 3:
        linear = eqx.tree_at(lambda layer: layer.bias, linear, linear.bias + 1)
    if rest.get("way") == "often":
        scale = scale + rest.get("often", 0)
    return Net(linear, scale, name, getattr(jax.nn, act))
"""
_NAMES = '{type="categorical",choices=["relu","tanh"]}'
_NUMBERS = '{type="float",low=0.5,high=2.0}'
_COUNTS = '{type="int",low=1,high=9}'
SPEC = DataSpec(4, 3, 100, (0.0,), (1.0,), has_test=False, dtype="float32", seed=0)


def _idle(tmp_path: Path, *search: str) -> list[str]:
    (tmp_path / "nets_to_ignore.py").write_text(NETS, encoding="utf-8")
    python = 'kind = "python"\nfunction = "nets_to_ignore:build"\n'
    text = VALID.replace('kind = "mlp"\ndepth = 1\nwidth = 8\n', python)
    entries = ",".join(f"model.{entry}" for entry in search)
    config = parse(text, tmp_path / "study.toml", [f"search={{{entries}}}"])
    return [*idle_arguments(config, Programs(SPEC))]


@pytest.mark.parametrize(
    "entry", [f"scale={_NUMBERS}", f"name={_NAMES}", f"gain={_NUMBERS}", f"act={_NAMES}"]
)
def test_an_argument_that_changes_the_model_is_not_reported(entry: str, tmp_path: Path) -> None:
    assert _idle(tmp_path, entry) == []


def test_an_argument_that_makes_the_same_model_is_reported(tmp_path: Path) -> None:
    assert _idle(tmp_path, f"unheard={_NAMES}", f"act={_NAMES}") == [
        "search.model.unheard changes nothing: the function builds the same model for 'relu' and "
        "'tanh'; use the argument, or remove the entry"
    ]


def test_an_argument_may_matter_for_other_values_of_other_arguments(tmp_path: Path) -> None:
    deep = 'deep={type="categorical",choices=[false,true]}'
    assert _idle(tmp_path, f"often={_COUNTS}", deep) == []


@pytest.mark.parametrize("more", [[], [f"a{place}={_NAMES}" for place in range(3)]])
def test_an_argument_may_matter_for_one_choice_of_another(more: list[str], tmp_path: Path) -> None:
    ways = 'way={type="categorical",choices=["never","often","rarely"]}'
    found = _idle(tmp_path, f"often={_COUNTS}", ways, *more)
    assert [one.partition(" ")[0] for one in found] == [
        f"search.model.{one.partition('=')[0]}" for one in more
    ]


def test_very_many_integers_are_tried_at_both_ends_and_in_the_middle(tmp_path: Path) -> None:
    (told,) = _idle(tmp_path, 'unheard={type="int",low=0,high=2147483647}')
    assert "builds the same model for 0, 1073741823 and 2147483647; use the argument" in told
