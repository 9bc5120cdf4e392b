"""Floats of user-defined models are traced where that changes nothing but their value."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeper.config import StudyConfig, parse
from sweeper.errors import StudyError
from sweeper.preflight.traced_arguments import decide_traced_arguments
from tests.small_studies import DIGITS, bent

pytestmark = pytest.mark.usefixtures("compiled_once")
NET = """\
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np


class Net(eqx.Module):
    linear: eqx.nn.Linear
    slope: {field}

    def __call__(self, {arguments}):
        {call}


def build(in_size, out_size, key, slope, other=0.5, width=8):
    {build}
    return Net(eqx.nn.Linear(in_size, out_size, key=key), slope)
"""
CALL = "return self.linear(x) * self.slope"
SLOPE = "search.model.slope={type='float',low=0.1,high=0.9}"
OTHER = "search.model.other={type='float',low=0.1,high=0.9}"


def study(
    directory: Path,
    *changes: str,
    build: str = "",
    call: str = CALL,
    field: str = "float",
    arguments: str = "x",
) -> StudyConfig:
    net = NET.format(build=build or "pass", call=call, field=field, arguments=arguments)
    (directory / "nets.py").write_text(net, encoding="utf-8")
    table = "model={kind='python',function='nets:build'}"
    return parse(bent(DIGITS, table, "search={}", *changes), directory / "study.toml")


def decide(config: StudyConfig) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    config, warnings = decide_traced_arguments(config, 64, 10, lambda: 1.5)
    return config.traced_arguments, warnings


@pytest.mark.parametrize(
    "build",
    [
        "slope = 2 * slope",
        "slope = jnp.asarray(slope)",
        "key = jax.random.fold_in(key, 1); slope = (slope, [slope, 'text'], None)[0]",
        "slope = slope if width > 4 else 0.0",
    ],
)
def test_a_float_that_is_only_computed_with_is_traced(tmp_path: Path, build: str) -> None:
    assert decide(study(tmp_path, SLOPE, build=build)) == (("model.slope",), ())


@pytest.mark.parametrize(
    "call",
    [
        "return jax.nn.leaky_relu(self.linear(x), self.slope)",
        "return jnp.where(self.slope > 0.5, 1.0, -1.0) * self.linear(x) ** self.slope",
        "return self.linear(eqx.nn.Dropout(self.slope, inference=True)(x))",
        "return jax.lax.cond(self.slope > 0, lambda: self.linear(x), lambda: x[:10])",
    ],
)
def test_a_model_may_compute_with_it(tmp_path: Path, call: str) -> None:
    assert decide(study(tmp_path, SLOPE, call=call)) == (("model.slope",), ())


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ({"build": "assert slope > 0"}, "Python code needs its value (nets.py, line 16)"),
        ({"build": "width = int(8 * slope)"}, "Python code needs its value (nets.py, line 16)"),
        ({"build": "slope = float(slope)"}, "Python code needs its value (nets.py, line 16)"),
        ({"build": "slope = np.sqrt(slope)"}, "Python code needs its value (nets.py, line 16)"),
        (
            {"call": "return self.linear(x) if self.slope > 0 else x[:10]"},
            "Python code needs its value (nets.py, line 12)",
        ),
        (
            {"field": "float = eqx.field(static=True)"},
            "it is in the static field Net.slope",
        ),
        ({"build": "slope = str(slope)", "call": "return self.linear(x)"}, "not trained"),
        (
            {"build": "slope = {str(slope): 1.0}", "call": "return self.linear(x)"},
            "the structure of the model depends on it",
        ),
        (
            {
                "build": "slope = (8 * jnp.asarray(slope)).astype(int)",
                "call": "return self.linear(x)",
            },
            "an array of the model that is not trained depends on it",
        ),
        (
            {"call": "y = self.linear(x); return y if isinstance(self.slope, float) else y - y"},
            "the model computes something else with an array",
        ),
        ({"build": "{0.1: 1, 0.5: 2}.get(slope)"}, "raised TypeError"),
    ],
)
def test_any_other_float_is_compiled_in_and_plan_says_why(
    tmp_path: Path, code: dict[str, str], why: str
) -> None:
    traced, (warning,) = decide(study(tmp_path, SLOPE, "study.n_trials=7", **code))

    assert traced == ()
    assert warning.startswith("search.model.slope is continuous, but its value is compiled in: ")
    assert why in warning
    assert "7 trials compile 7 programs, which takes at least 10 s" in warning
    assert warning.endswith("or search few values, with choices or step")


def test_floats_are_tried_together_and_then_alone(tmp_path: Path) -> None:
    build = "assert slope > 0"

    traced, (warning,) = decide(study(tmp_path, SLOPE, OTHER, build=build))

    assert traced == ("model.other",)
    assert warning.startswith("search.model.slope is continuous")


def test_a_float_is_also_tried_with_other_values_of_what_is_compiled_in(tmp_path: Path) -> None:
    widths = "search.model.width={type='categorical',choices=[4,16]}"
    build = "assert width < 16 or slope > 0"

    assert decide(study(tmp_path, SLOPE, build=build))[0] == ("model.slope",)
    assert decide(study(tmp_path, SLOPE, widths, build=build))[0] == ()


@pytest.mark.parametrize("values", ["choices=[0.1,0.5]", "choices=[1,2]", "choices=['a','b']"])
def test_few_values_cause_no_warning(tmp_path: Path, values: str) -> None:
    search = f"search.model.slope={{type='categorical',{values}}}"
    is_float = "0.1" in values

    assert decide(study(tmp_path, search, call="return self.linear(x)")) == (
        (("model.slope",) if is_float else ()),
        (),
    )
    assert decide(study(tmp_path, search, build="str(slope) + repr(float(1))"))[1] == ()


SOME = "search.model.slope={type='float',low=0.1,high=0.9,when={'optimizer.lr'=1e-3}}"
RATES = "search.optimizer.lr={type='categorical',choices=[1e-3,1e-2]}"


def test_a_float_that_some_trials_lack_is_compiled_in(tmp_path: Path) -> None:
    build = "slope = 0.3 if slope is None else slope"
    config = study(tmp_path, SOME, RATES, build=build)
    source = (tmp_path / "nets.py").read_text(encoding="utf-8")
    optional = source.replace("key, slope, other", "key, slope=None, other")
    (tmp_path / "nets.py").write_text(optional, encoding="utf-8")

    traced, (warning,) = decide(config)
    assert traced == ()
    assert "some trials do not draw it, and [model] does not have it" in warning
    assert "write slope = ... in [model]" in warning
    assert decide(study(tmp_path, "model.slope=0.2", SOME, RATES))[0] == ("model.slope",)
    traced, (warning,) = decide(study(tmp_path, "model.slope=1", SOME, RATES))
    assert traced == ()
    assert "[model] has slope = 1, which is not a float" in warning


def test_a_float_that_takes_the_value_of_another_setting_is_traced(tmp_path: Path) -> None:
    rate = "search.optimizer.lr={type='float',low=1e-4,high=1e-3}"
    same = "search.model.slope={same_as='optimizer.lr'}"
    config = study(tmp_path, rate, same)

    decided_ = config.with_traced_arguments(decide(config)[0] or ())

    assert decided_.traced_arguments == ("model.slope",)
    assert not decided_.structural["optimizer.lr"]
    assert config.structural["optimizer.lr"]


def test_what_was_decided_before_stands(tmp_path: Path) -> None:
    config = study(tmp_path, SLOPE)

    assert decide(config.with_traced_arguments(())) == ((), ())
    assert decide(study(tmp_path, SLOPE, "traced_arguments=[]")) == ((), ())


def test_traced_floats_are_not_part_of_the_structure(tmp_path: Path) -> None:
    config = study(tmp_path, SLOPE)
    traced = config.with_traced_arguments(["model.slope"])
    own, other = (traced.settings_of({"slope": value}) for value in (0.2, 0.3))

    assert config.settings_of({"slope": 0.2}).structure()["model.slope"] == 0.2
    assert own.structure() == other.structure()
    assert (own.traced()["model.slope"], other.traced()["model.slope"]) == (0.2, 0.3)
    assert "traced_arguments" not in config.with_traced_arguments(()).canonical()
    assert traced.canonical()["traced_arguments"] == ["model.slope"]


@pytest.mark.parametrize("given", ["true", "['model.width']", "['optimizer.lr']", "[1]"])
def test_only_searched_floats_of_a_model_can_be_named(tmp_path: Path, given: str) -> None:
    with pytest.raises(StudyError, match="is not an array of searched floats"):
        study(tmp_path, SLOPE, f"traced_arguments={given}")


DROPOUT = "return eqx.nn.Dropout(self.slope, key is None)(self.linear(x), key=key)"
FROM_0 = "search.model.slope={type='float',low=0.0,high=0.3}"
TO_1 = "search.model.slope={type='float',low=0.1,high=1.0}"
FEW = "search.model.slope={type='categorical',choices=[0.0,0.1,0.3]}"


@pytest.mark.parametrize(
    ("search", "written"),
    [
        (FROM_0, ("model.slope=0.2",)),
        pytest.param(FEW, ("model.slope=0.0",), marks=pytest.mark.slow),
        (TO_1, ()),
    ],
)
def test_the_value_in_the_file_does_not_decide(
    tmp_path: Path, search: str, written: tuple[str, ...]
) -> None:
    config = study(tmp_path, search, *written, call=DROPOUT, arguments="x, *, key=None")

    assert decide(config) == (("model.slope",), ())


@pytest.mark.parametrize(("at_0", "is_same"), [("y + 0 * y", True), ("2 * y", False)])
def test_a_special_value_may_take_a_branch_that_computes_the_same(
    tmp_path: Path, at_0: str, is_same: bool
) -> None:
    is_0 = "isinstance(self.slope, float) and self.slope == 0"
    call = f"y = self.linear(x); return {at_0} if {is_0} else y + self.slope"

    traced, warnings = decide(study(tmp_path, FROM_0, call=call))

    assert traced == (("model.slope",) if is_same else ())
    found = "with slope = 0.0, the model computes something else with an array"
    assert [found in warning for warning in warnings] == [True] * (not is_same)
    assert decide(study(tmp_path, SLOPE, call=call))[0] == ("model.slope",)
