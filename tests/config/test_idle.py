"""A setting that no trial uses is reported; one that some trial uses is not."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeper.config import parse
from sweeper.config.lint import file_warnings, idle_settings
from tests.config.conftest import VALID
from tests.small_studies import COUPLED, PARTS, bent

_NAMES = 'search.optimizer.name={type="categorical",choices=["adam","sgd"]}'
_KINDS = 'search.model.kind={type="categorical",choices='
_FLAG = '{type="categorical",choices=[true,false]}'
_SHARE = '{type="float",low=0.1,high=0.5}'
_SHAPES = 'search.optimizer.schedule.name={type="categorical",choices=["cosine","warmup_cosine"]}'
_DEPTHS = 'type="int",low=0,high=2'
_LINEAR = 'search.model.depth={type="categorical",choices=[0]}'


def _beside(key: str, owner: str, value: str) -> str:
    return f'search.{key}={{type="float",low=0.1,high=0.5,when={{"{owner}"={value}}}}}'


def _idle(*overrides: str) -> list[str]:
    return [*idle_settings(parse(VALID, Path("study.toml"), overrides))]


_SEARCHED: dict[str, list[str]] = {
    "model.layer_norm changes nothing: no trial meets all conditions of its `when`": [
        'search.model.dropout={type="categorical",choices=[0.1,0.2],when={"model.depth"=1}}',
        'search.model.layer_norm={type="categorical",choices=[true,false],'
        'when={"model.depth"=2,"model.dropout"=0.2}}',
    ],
    "model.dropout changes nothing: model.depth is 0 in every trial": [
        *(_LINEAR, f"search.model.dropout={_SHARE}"),
    ],
    "model.width changes nothing: model.depth is 0 in every trial": [
        *(_LINEAR, 'search.model.width={type="int",low=8,high=64}'),
    ],
    "model.dropout changes nothing: trials that draw it never have model.depth = 1 or 2": [
        'search.model.depth={type="int",low=0,high=2}',
        _beside("model.dropout", "model.depth", "0"),
    ],
    "optimizer.momentum changes nothing: trials that draw it never have optimizer.name = 'sgd'": [
        *(_NAMES, _beside("optimizer.momentum", "optimizer.name", '"adam"')),
    ],
    "optimizer.schedule.warmup changes nothing: trials that draw it never have "
    "optimizer.schedule.name = 'warmup_cosine'": [
        *(_SHAPES, _beside("optimizer.schedule.warmup", "optimizer.schedule.name", '"cosine"')),
    ],
    "model.dropout changes nothing: model.depth is 0 in every trial ": [
        *(_LINEAR, f"search.train.ema={_SHARE}", 'search.model.dropout={same_as="train.ema"}'),
    ],
    "optimizer.nesterov changes nothing: optimizer.momentum is 0.0 in every trial": [
        *("optimizer.name=sgd", f"search.optimizer.nesterov={_FLAG}"),
    ],
}


@pytest.mark.parametrize(("said", "overrides"), _SEARCHED.items())
def test_a_searched_setting_that_no_trial_uses_is_reported(said: str, overrides: list[str]) -> None:
    assert _idle(*overrides) == [f"search.{said.strip()}"]


@pytest.mark.parametrize(
    "overrides",
    [
        [],
        ['search.model.depth={type="int",low=0,high=2}', f"search.model.dropout={_SHARE}"],
        [
            'search.model.depth={type="int",low=0,high=2}',
            _beside("model.dropout", "model.depth", "1"),
        ],
        [_NAMES, _beside("optimizer.momentum", "optimizer.name", '"sgd"')],
        [_NAMES, f"search.optimizer.momentum={_SHARE}"],
        [_SHAPES, f"search.optimizer.schedule.warmup={_SHARE}"],
        [
            *("optimizer.name=sgd", f"search.optimizer.nesterov={_FLAG}"),
            'search.optimizer.momentum={type="categorical",choices=[0.0,0.5]}',
        ],
        [
            *("optimizer.name=sgd", f"search.optimizer.nesterov={_FLAG}"),
            f"search.optimizer.momentum={_SHARE}",
        ],
        ["optimizer.name=sgd", "optimizer.nesterov=true", "optimizer.momentum=0.9"],
        ["train.early_stop.patience=2"],
        ["train.early_stop.metric=val_accuracy", "train.early_stop.patience=1"],
        ["train.early_stop.patience=2", "study.value=best"],
        ["model.depth=0", f"search.model.depth={{{_DEPTHS}}}", "model.activation=tanh"],
        ["model={depth=1,width=8,ensemble_size=16}", f"{_KINDS}['mlp','tabm']}}"],
        [_LINEAR, "model.activation=relu"],
        ['optimizer.schedule={name="warmup_cosine",start=0.9}'],
        ['optimizer.schedule={name="warmup_cosine",warmup=0.1,start=0.9}'],
        ["study.folds=3"],
        ["study.folds=3", "data.split.stratify=true", "data.split.seed=1"],
        ["execution.max_failures=7"],
        ['study.constraints=[{metric="val_accuracy",min=0.5},{metric="val_loss",max=1.0}]'],
    ],
)
def test_settings_that_some_trial_uses_are_not_reported(overrides: list[str]) -> None:
    assert _idle(*overrides) == []


_OWN = VALID.replace('kind = "mlp"\ndepth = 1\nwidth = 8', 'kind = "python"\nfunction = "n:f"')


@pytest.mark.parametrize("name", ["embedding_size", "n_bins", "bins", "frequency_scale"])
def test_arguments_of_a_user_defined_model_are_not_taken_for_settings(name: str) -> None:
    """They may have the names of settings of other models, whatever those depend on."""
    own = _OWN.replace("[optimizer]", f"numbers = 'one'\ndepth = 0\n{name} = 4\n\n[optimizer]")
    own = own.replace('model.depth = { type = "int", low = 1, high = 3 }\n', "")
    entry = '{type="int",low=4,high=8}'
    for searched in (f"search.model.{name}={entry}", f"search.model.width={entry}"):
        assert file_warnings(parse(own, Path("study.toml"), [searched])) == ()


_WRITTEN: dict[str, list[str]] = {
    "model.dropout = 0.5 changes nothing: model.depth is 0": [_LINEAR, "model.dropout=0.5"],
    "model.layer_norm = true changes nothing: model.depth is 0": [
        *(_LINEAR, "model.layer_norm=true"),
    ],
    "model.activation = 'tanh' changes nothing: model.depth is 0": [
        *(_LINEAR, "model.activation=tanh"),
    ],
    "model.ensemble_size = 16 changes nothing: model.kind is 'mlp' or 'python' in every trial": [
        *("model={depth=1,width=8,function='n:f',ensemble_size=16}", f"{_KINDS}['mlp','python']}}"),
    ],
    "model.fixed_start = true changes nothing: model.kind is 'mlp' or 'tabm' in every trial": [
        *("model={depth=1,width=8,fixed_start=true}", f"{_KINDS}['mlp','tabm']}}"),
    ],
    "optimizer.nesterov = true changes nothing: optimizer.momentum is 0.0": [
        *("optimizer.name=sgd", "optimizer.nesterov=true"),
    ],
    "optimizer.schedule.start = 0.9 changes nothing: optimizer.schedule.warmup is 0.0": [
        'optimizer.schedule={name="warmup_cosine",warmup=0.0,start=0.9}',
    ],
    "search.optimizer.schedule.start changes nothing: optimizer.schedule.warmup is 0.0": [
        'optimizer.schedule={name="one_cycle",warmup=0.0}',
        f"search.optimizer.schedule.start={_SHARE}",
    ],
    'study.value = "last" changes nothing: with train.early_stop the best epoch counts': [
        *("train.early_stop.patience=2", "study.value=last"),
    ],
    "train.early_stop ends no trial: patience = 3 ": ["train.early_stop.patience=3"],
    "data.target_scale = 'none' changes nothing: the target is classes": [
        "data.target_scale=none",
    ],
    "data.split.val = 0.3 changes nothing: study.folds = 3 ": [
        *("study.folds=3", "data.split.val=0.3"),
    ],
    "data.split.seed = 3 changes nothing: ": ['data.split={time="day",seed=3}'],
    "study.constraints.1: no trial can meet max = -1, since val_loss is never less than 0": [
        'study.constraints=[{metric="val_loss",max=1.0},{metric="val_loss",max=-1.0}]',
    ],
    "study.constraints.0: no trial can meet min = 1.5, since val_accuracy is never more than 1": [
        'study.constraints=[{metric="val_accuracy",min=1.5}]',
        'train.metrics=["accuracy"]',
    ],
    "every trial has the same n_parameters, an objective of the study: no setting is searched "
    "that changes the size of the model; search its depth or width": [
        "study.metric=n_parameters",
        f"search={{model.dropout={_SHARE}}}",
    ],
    "study.constraints.0 changes nothing: val_accuracy is always within it": [
        'study.constraints=[{metric="val_accuracy",min=0.0}]',
    ],
    "execution.max_failures = 8 changes nothing: ": ["execution.max_failures=8"],
    "execution.devices = 4 is more than execution.threads = 1: 1 thread trains on 1 device at "
    "most; write execution.threads = 4 or more, or fewer devices": [
        *("execution.devices=4", "execution.threads=1"),
    ],
    "execution.retries = 3 changes nothing: ": ["execution.workers=0", "execution.retries=3"],
    "results.ensemble = 4 changes nothing: ": ["results.keep_models=1", "results.ensemble=4"],
    "results.save_optimizer changes nothing: ": [
        *("results.keep_models=0", "results.save_optimizer=true"),
    ],
}


@pytest.mark.parametrize(
    "overrides",
    [
        ["execution.devices=2", "execution.threads=2"],
        ["execution.devices=2"],
        ["execution.devices=2", "execution.threads=0"],
        ["execution.devices=2", "execution.threads=1", "execution.strategy=switch"],
        ["execution.devices=2", "execution.threads=1", "execution.strategy=process"],
    ],
)
def test_devices_that_threads_or_workers_use_are_not_reported(overrides: list[str]) -> None:
    assert _idle(*overrides) == []


@pytest.mark.parametrize(("said", "overrides"), _WRITTEN.items())
def test_a_setting_without_effect_is_reported(said: str, overrides: list[str]) -> None:
    (found,) = _idle(*overrides)
    assert found.startswith(said)


@pytest.mark.parametrize(
    ("text", "overrides", "why"),
    [
        (PARTS, [], 'predictions of train.program = "alternating" cannot be'),
        (COUPLED, [], 'predictions of train.program = "coupled" cannot be'),
        (
            VALID,
            ["train={program='own:Program',task='classes',epochs=4,batch_size=8}"],
            'predictions of train.program = "own:Program" cannot be averaged; remove it',
        ),
        (
            VALID,
            [
                "study.metric=['val_loss','n_parameters']",
                "study.direction=['minimize','minimize']",
            ],
            "an ensemble is selected by one metric, and the study has several objectives",
        ),
        (
            VALID,
            ["train.loss='own:loss'", "train.task='classes'"],
            "the loss own:loss is user-defined",
        ),
    ],
)
def test_an_ensemble_that_cannot_be_selected_is_reported(
    text: str, overrides: list[str], why: str
) -> None:
    config = parse(bent(text, *overrides), Path("study.toml"), ["results.ensemble=3"])
    (found,) = [said for said in idle_settings(config) if "ensemble" in said]
    assert found.startswith(f"results.ensemble = 3 changes nothing: {why}")


def test_a_searched_rate_is_reported_if_every_phase_has_its_own() -> None:
    rate = 'search.optimizer.lr={type="float",low=1e-4,high=1e-2}'
    (found,) = idle_settings(parse(PARTS, Path("study.toml"), [rate]))
    assert found == "search.optimizer.lr changes nothing: every phase has its own lr"
    some = PARTS.replace('trains = ["c"]\nlr = 1e-3', 'trains = ["c"]')
    assert [*idle_settings(parse(some, Path("study.toml"), [rate]))] == []


def test_a_written_rate_is_reported_if_every_phase_has_its_own() -> None:
    assert [*idle_settings(parse(PARTS, Path("study.toml")))] == []
    (found,) = idle_settings(parse(PARTS, Path("study.toml"), ["optimizer.lr=0.1"]))
    assert found == "optimizer.lr = 0.1 changes nothing: every phase has its own lr"


def test_a_part_needs_no_rate_if_every_phase_that_trains_it_has_its_own() -> None:
    some = PARTS.replace('trains = ["c"]\nlr = 1e-3', 'trains = ["c"]')
    each = "optimizer={{a={{name='adam'{}}},b={{name='adam'{}}},c={{name='adam',lr=1e-3}}}}"
    assert [*idle_settings(parse(bent(some, each.format("", "")), Path("study.toml")))] == []
    written = parse(bent(some, each.format(",lr=0.1", "")), Path("study.toml"))
    (found,) = idle_settings(written)
    why = "every phase that trains model.a has its own lr"
    assert found == f"optimizer.a.lr = 0.1 changes nothing: {why}"


@pytest.mark.parametrize(
    ("part", "setting", "fit", "why"),
    [
        ("c", "lr", "{epochs=2,loss='data',trains=['a','b']}", "model.c has its own lr"),
        ("c", "lr", "{epochs=2,loss='follow',trains=['c','a']}", None),
        ("c", "weight_decay", "{epochs=2,loss='data',trains=['a','b']}", None),
        ("a", "lr", "{epochs=2,loss='data',trains=['b']}", "no phase trains model.a"),
        ("a", "b1", "{epochs=2,loss='data',trains=['b']}", "no phase trains model.a"),
    ],
)
def test_a_searched_setting_of_an_optimizer_that_no_phase_uses_is_reported(
    part: str, setting: str, fit: str, why: str | None
) -> None:
    each = "a={name='adam',lr=1e-3},b={name='adam',lr=1e-3},c={name='adam'}"
    key = f"search.optimizer.{part}.{setting}"
    drawn = f"{key}={{type='float',low=1e-4,high=1e-2,name='drawn'}}"
    study = bent(PARTS, "optimizer={}", f"optimizer={{{each}}}", f"train.phases.fit={fit}", drawn)
    found = [*idle_settings(parse(study, Path("study.toml")))]
    if why is None:
        assert found == []
    else:
        (said,) = found
        assert said.startswith(f"{key} changes nothing: ") and said.endswith(why)


@pytest.mark.parametrize("objective", ["own:losses", "gan"])
def test_searched_dropout_of_models_that_your_objective_calls_is_reported(objective: str) -> None:
    study = bent(
        COUPLED.replace("clip = 0.05\n", ""),
        f"train.objective={objective}",
        "search={}",
        "search.model.critic.dropout={type='float',low=0.0,high=0.5}",
        "search.model.generator.dropout.same_as='model.critic.dropout'",
    )
    why = "changes nothing: your own objective calls the models without dropout"
    said = [f"search.model.{name}.dropout {why}" for name in ("critic", "generator")]
    found = [*idle_settings(parse(study, Path("study.toml")))]
    assert found == (said if objective == "own:losses" else [])


def test_class_weights_that_a_loss_of_yours_does_not_get_are_reported() -> None:
    losses = "{data={of='b',kind='cross_entropy'},own={of='c',kind='own:loss'}}"
    study = [f"train.losses={losses}", "train.phases.follow.loss=own", "data.name=wine"]
    text = bent(PARTS, *study)
    assert [*idle_settings(parse(text, Path("study.toml")))] == []
    (found,) = idle_settings(parse(text, Path("study.toml"), ["data.class_weights=balanced"]))
    assert found == (
        "data.class_weights changes nothing in train.losses.own: 'own:loss' is user-defined and "
        "gets no weights"
    )


ONE_TO_3 = "{type='int',low=1,high=3}"
LENGTH = "train.phases.warm.epochs"
OF_WARMUP = "the phase warm is only in train.warmup, which has its own number of epochs"


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ([], f"{LENGTH} = 2 changes nothing: {OF_WARMUP}; write {LENGTH} = 3, too"),
        (
            [f"search.{LENGTH}={ONE_TO_3}"],
            f"search.{LENGTH} changes nothing: {OF_WARMUP}; search train.warmup.epochs instead",
        ),
        (
            [f"search.train.epochs={ONE_TO_3}", f"search.{LENGTH}.same_as='train.epochs'"],
            f"search.{LENGTH} changes nothing: {OF_WARMUP}; search train.warmup.epochs instead",
        ),
        ([f"{LENGTH}=3"], None),
        ([f"search.train.warmup.epochs={ONE_TO_3}"], None),
        (["train.cycle=['fit','follow','warm']"], None),
    ],
)
def test_a_length_of_a_phase_that_only_the_warm_up_trains_is_reported(
    overrides: list[str], said: str | None
) -> None:
    phase = "train.phases.warm={epochs=2,loss='data',trains=['b'],lr=1e-3}"
    warm = ["train.warmup.phase=warm", phase]
    found = [*idle_settings(parse(PARTS, Path("study.toml"), [*warm, *overrides]))]
    assert found == ([] if said is None else [said])


def test_a_rate_that_only_the_warm_up_uses_is_not_reported() -> None:
    rate = 'search.optimizer.lr={type="float",low=1e-4,high=1e-2}'
    warm = ["train.warmup.phase=warm", "train.phases.warm={epochs=3,loss='data',trains=['b']}"]
    assert [*idle_settings(parse(PARTS, Path("study.toml"), [rate, *warm]))] == []
    own = [*warm, "train.phases.warm.lr=1e-3"]
    (found,) = idle_settings(parse(PARTS, Path("study.toml"), [rate, *own]))
    assert found == "search.optimizer.lr changes nothing: every phase has its own lr"
