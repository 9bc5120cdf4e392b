"""Decay rules that no trial uses are refused; those that only some use are reported."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sweeper.cli import plan_tables
from sweeper.config import StudyConfig, parse
from sweeper.errors import StudyError
from sweeper.preflight.decay import (
    check_decay,
    decay_preview,
    doubtful_rules,
    idle_amounts,
    partly_idle,
)
from sweeper.preflight.user_functions import check_functions
from sweeper.programs.build import Programs
from sweeper.programs.data_spec import DataSpec
from tests.cli.test_tables import shown
from tests.config.conftest import VALID
from tests.small_studies import PARTS, bent

pytestmark = pytest.mark.usefixtures("float64")

NETS = """\
import equinox as eqx
import jax


class Gate(eqx.Module):
    bias: jax.Array

    def __call__(self, x):
        return x + self.bias


class Net(eqx.Module):
    layers: list
    gate: Gate | None

    def __call__(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


def build(*, in_size, out_size, key, n=1, gated=False, kind="linear", scale=1.0):
    keys = jax.random.split(key, n + 1)
    layers = [eqx.nn.Linear(in_size, in_size, key=k) for k in keys[:-1]]
    gate = Gate(jax.numpy.ones(out_size)) if gated else None
    return Net([*layers, eqx.nn.Linear(in_size, out_size, key=keys[-1])], gate)


def sgd(*, lr):
    import optax

    return optax.sgd(lr)


def gate(*, in_size, out_size, key, linear=False):
    layers = [eqx.nn.Linear(in_size, out_size, key=key)] if linear else []
    return Net(layers, Gate(jax.numpy.ones(out_size)))


def masked(*, lr, mask):
    import optax

    return optax.adamw(lr, mask=mask)
"""
PYTHON = 'kind = "python"\nfunction = "nets_to_decay:build"\n'
OWN = VALID.replace('kind = "mlp"\ndepth = 1\nwidth = 8\n', PYTHON).replace(
    "model.depth = { type", "model.n = { type"
)
SPEC = DataSpec(4, 3, 100, (0.0,), (1.0,), has_test=False, dtype="float32", seed=0)
Study = Callable[..., StudyConfig]


@pytest.fixture
def study(tmp_path: Path) -> Study:
    """A study next to a module of models; depths are 1 to 3, or lengths of a list of layers."""
    (tmp_path / "nets_to_decay.py").write_text(NETS, encoding="utf-8")

    def study(*overrides: str, text: str = VALID) -> StudyConfig:
        return parse(text, tmp_path / "study.toml", overrides)

    return study


def refused(config: StudyConfig) -> list[str]:
    with pytest.raises(StudyError) as refusal:
        check_decay(config, Programs(SPEC))
    return [str(problem).removeprefix("--set: optimizer.") for problem in refusal.value.problems]


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ("{linaer=true}", "decay.linaer: eqx.nn has no class 'linaer'; did you mean linear?"),
        (
            "{'nets_to_decay:Gaet'=true}",
            "decay.nets_to_decay:Gaet: no class 'Gaet' in the module 'nets_to_decay'; "
            "did you mean 'nets_to_decay:Gate'?",
        ),
        (
            "{where=[{class='nets_to_decay:build',decay=true}]}",
            "decay.where.0.class: 'nets_to_decay:build' is a function, not a class; "
            "write module:Class",
        ),
        (
            "{layer_norm={bias=true}}",
            "decay.layer_norm.bias: no array is in a layer layer_norm; "
            "the layers of the model are linear, mlp",
        ),
        (
            "{linear={wieght=true}}",
            "decay.linear.wieght: no array is called 'wieght'; did you mean 'weight'?",
        ),
        (
            "{where=[{path='layer[0].*',decay=true}]}",
            "decay.where.0: no array is at 'layer[0].*'; did you mean 'layers[0]'?",
        ),
        (
            "{where=[{path='norms',decay=true}]}",
            "decay.where.0: no array is at 'norms'; the arrays of the model are "
            "layers[0].weight, layers[0].bias, layers[1].weight, layers[1].bias, "
            "layers[2].weight, layers[2].bias, layers[3].weight, layers[3].bias",
        ),
        (
            "{where=[{depth=[4,-5],decay=true}]}",
            "decay.where.0: no array is at depth 4 or -5; the depths of the model are 0, 1, 2, 3",
        ),
        (
            "{where=[{ndim=3,decay=true}]}",
            "decay.where.0: no array has 3 dimensions; "
            "the numbers of dimensions of the model are 2, 1",
        ),
        (
            "{where=[{leaf='bias',ndim=2,depth=0,decay=true}]}",
            "decay.where.0: no array meets all conditions; the arrays of the model are "
            "layers[0].weight, layers[0].bias",
        ),
    ],
)
def test_a_rule_that_matches_nothing_is_refused(rules: str, expected: str, study: Study) -> None:
    assert refused(study(f"optimizer.decay={rules}")) == [expected]


def test_a_rule_for_the_deepest_model_is_accepted_wherever_its_depth_is_written(
    study: Study,
) -> None:
    depths = "search.model.depth={type='categorical', choices=[1, 4, 2]}"
    for rule in ("depth=4", "path='layers[4].*'"):
        config = study(depths, f"optimizer.decay={{where=[{{{rule},decay=true}}]}}")
        check_decay(config, Programs(SPEC))


def test_plan_reports_a_rule_about_some_models_only(study: Study) -> None:
    layer_norm = "search.model.layer_norm={type='categorical',choices=[false,true]}"
    rules = "{layer_norm=true,linear=true,where=[{depth=3,decay=true},{depth=-1,decay=true}]}"
    config = study(layer_norm, f"optimizer.decay={rules}")

    check_decay(config, Programs(SPEC))

    assert partly_idle(config, Programs(SPEC)) == (
        "optimizer.decay.layer_norm",
        "optimizer.decay.where.0",
    )


def test_all_user_defined_models_are_checked(study: Study) -> None:
    gated = "search.model.gated={type='categorical',choices=[false,true]}"
    rules = "{'nets_to_decay:Gate'=true,where=[{path='layers[3].bias',decay=true}]}"
    config = study(gated, f"optimizer.decay={rules}", text=OWN)

    check_decay(config, Programs(SPEC))

    assert partly_idle(config, Programs(SPEC)) == (
        "optimizer.decay.nets_to_decay:Gate",
        "optimizer.decay.where.0",
    )
    fixed = study("model.gated=false", f"optimizer.decay={rules}", text=OWN)
    assert refused(fixed) == [
        "decay.nets_to_decay:Gate: no array is in a layer nets_to_decay:Gate; "
        "the layers of the model are linear, net"
    ]


def test_a_rule_that_matches_no_model_looked_at_is_reported_if_there_are_others(
    study: Study,
) -> None:
    search = (
        "search={optimizer.lr={type='float', low=1e-4, high=1e-2, log=true}, "
        "model.scale={type='float', low=0.1, high=0.9}}"
    )

    def warnings(path: str) -> list[str]:
        config = study(search, f"optimizer.decay.where=[{{path='{path}', decay=false}}]", text=OWN)
        check_decay(config, Programs(SPEC))
        return [*doubtful_rules(config, Programs(SPEC))]

    assert warnings("layers[0]") == []
    (found,) = warnings("first")
    assert "no array is at 'first' in the 2 models looked at; " in found


def test_a_repeated_trial_may_have_rules_about_others(study: Study) -> None:
    head, _, _ = VALID.partition("[search]")
    text = head.replace("n_trials = 8", "n_trials = 1") + (
        "[optimizer.decay]\nlayer_norm = true\n[trial]\nnumber = 3\nepochs = 2\n"
        '[trial.class]\nstrategy = "exact"\nlane_loop = "map"\ncapacity = 1\nepochs = 4\n'
    )

    check_decay(study(text=text), Programs(SPEC))


def test_the_module_of_a_class_is_code_of_the_study(study: Study) -> None:
    config = study("optimizer.decay={'nets_to_decay:Gate'=true}", text=OWN)

    assert config.functions["nets_to_decay:Gate"] == "optimizer.decay"


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        (
            'name="nets_to_decay:sgd",decay={linear=true}',
            "decay: 'nets_to_decay:sgd' has no argument 'mask', which would say what "
            "decays; add the argument, or remove the table",
        ),
        (
            'name="nets_to_decay:masked",mask="all"',
            "mask: 'mask' is determined by [optimizer.decay]; write [optimizer.decay] instead",
        ),
    ],
)
def test_a_mask_of_a_user_defined_optimizer_must_be_passed_and_taken(
    table: str, expected: str, study: Study
) -> None:
    config = study(f"optimizer={{{table},lr=1e-3}}")

    with pytest.raises(StudyError) as refusal:
        check_functions(config, 3)

    told = [str(one).removeprefix("--set: optimizer.") for one in refusal.value.problems]
    assert told == [expected]


def test_a_mask_has_no_factors(study: Study) -> None:
    config = study('optimizer={name="nets_to_decay:masked",lr=1e-3,decay={linear=0.5}}')

    check_functions(config, 3)
    assert refused(config) == [
        "decay.linear: 0.5 is a factor, but a mask can only be true or false; write true or false"
    ]


def test_plan_shows_the_decay_of_each_array_of_the_deepest_model(study: Study) -> None:
    config = study("optimizer.decay={linear={bias=0.5},where=[{depth=-1,decay=false}]}")

    preview = decay_preview(config, Programs(SPEC))

    (model,) = preview["models"]
    assert (model["parameters"], model["decayed_parameters"]) == (211, 184)
    assert model["settings"]["model.depth"] == 3
    assert [tuple(array.values()) for array in model["arrays"]][-4:] == [
        ("layers[2].weight", [8, 8], "Linear", 1.0, "default"),
        ("layers[2].bias", [8], "Linear", 0.5, "linear.bias"),
        ("layers[3].weight", [3, 8], "Linear", 0.0, "where.0"),
        ("layers[3].bias", [3], "Linear", 0.0, "where.0"),
    ]
    (table,) = plan_tables.decay(preview)
    assert shown(table)[-2:] == [
        ["layers[3].weight", "3", "x", "8", "Linear", "no", "where.0"],
        ["layers[3].bias", "3", "Linear", "no", "where.0"],
    ]
    assert ["layers[2].bias", "8", "Linear", "x", "0.5", "linear.bias"] in shown(table)


def test_plan_shows_rules_that_some_trials_do_not_use(study: Study) -> None:
    config = study("optimizer.decay={where=[{depth=3,decay=false}]}")

    *_, told = plan_tables.decay(decay_preview(config, Programs(SPEC)))

    assert told == "in some trials no array matches optimizer.decay.where.0"


TURNS = bent(
    PARTS,
    "model.b.depth=0",
    "model.c.depth=0",
    "search={model={a={depth={type='int',low=1,high=3,name='depth_a'}}}}",
)


def decaying(config: StudyConfig) -> dict[str, list[str]]:
    """The arrays of each part that decay."""
    return {
        model["part"]: [array["path"] for array in model["arrays"] if array["decay"]]
        for model in decay_preview(config, Programs(SPEC))["models"]
    }


def test_rules_of_one_optimizer_apply_to_every_part(study: Study) -> None:
    config = study("optimizer.decay={other=false,linear={bias=true}}", text=TURNS)
    check_decay(config, Programs(SPEC))

    biases = [f"layers[{n}].bias" for n in range(4)]
    assert decaying(config) == {"a": biases, "b": biases[:1], "c": biases[:1]}
    too_deep = "optimizer.decay={other=false,where=[{depth=4,decay=true}]}"
    (problem,) = refused(study(too_deep, text=TURNS))
    assert "no array is at depth 4; the depths of the model are 0, 1, 2, 3" in problem


def test_rules_of_a_parts_optimizer_apply_to_that_part(study: Study) -> None:
    each = "optimizer={a={name='sgd'},b={name='sgd'},c={name='sgd'}}"
    config = study(each, "optimizer.c.decay={linear=true}", text=TURNS)
    check_decay(config, Programs(SPEC))

    weights = [f"layers[{n}].weight" for n in range(4)]
    assert decaying(config) == {
        "a": weights,
        "b": weights[:1],
        "c": ["layers[0].weight", "layers[0].bias"],
    }
    assert (
        config.settings_of({}).structure()["optimizer.c.decay"] == '{"linear": true, "where": []}'
    )
    too_deep = "optimizer.c.decay={where=[{depth=2,decay=true}]}"
    (problem,) = refused(study(each, too_deep, text=TURNS))
    assert "c.decay.where.0: no array is at depth 2; the depths of the model are 0" in problem


_GATE = "model.function=nets_to_decay:gate"
_NO_N = OWN.replace('model.n = { type = "int", low = 1, high = 3 }\n', "")
_LINEAR = 'search.model.linear={type="categorical",choices=[false,true]}'
_AMOUNT = 'search.optimizer.weight_decay={type="float",low=1e-5,high=1e-2}'


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (
            [_GATE, "optimizer.weight_decay=0.1"],
            "optimizer.weight_decay changes nothing: weights of linear and convolution layers "
            "decay, but the model has none; write which arrays decay in [optimizer.decay], such "
            "as other = true",
        ),
        ([_GATE, _AMOUNT], "search.optimizer.weight_decay changes nothing: weights of linear"),
        (
            [_GATE, "optimizer.weight_decay=0.1", "optimizer.decay.other=false"],
            "optimizer.weight_decay changes nothing: [optimizer.decay] excludes all arrays of "
            "the model from decay",
        ),
        ([_GATE, "optimizer.weight_decay=0.1", "optimizer.decay.other=true"], None),
        ([_GATE], None),
        ([_GATE, "optimizer.weight_decay=0.1", _LINEAR], None),
        (["optimizer.weight_decay=0.1"], None),
    ],
)
def test_weight_decay_without_arrays_is_reported(
    overrides: list[str], said: str | None, study: Study
) -> None:
    config = study(*overrides, text=_NO_N)
    found = [*idle_amounts(config, Programs(SPEC))]
    assert [one.startswith(said or "") for one in found] == ([True] if said else [])


def test_weight_decay_that_rules_exclude_everywhere_is_reported(study: Study) -> None:
    config = study("optimizer.weight_decay=0.1", "optimizer.decay.linear=false")
    (found,) = idle_amounts(config, Programs(SPEC))
    assert found.startswith("optimizer.weight_decay changes nothing: [optimizer.decay] excl")
    assert not [*idle_amounts(study("optimizer.decay.linear=false"), Programs(SPEC))]


def test_an_optimizer_that_takes_a_mask_needs_no_rules(study: Study) -> None:
    check_functions(study('optimizer={name="nets_to_decay:masked",lr=1e-3}'), 3)
