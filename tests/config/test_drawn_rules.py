"""Settings that only some trials draw are checked against all settings of these trials."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeper.config import StudyConfig, parse
from sweeper.errors import StudyError
from sweeper.scheduler.population import families_of
from tests.config.conftest import VALID
from tests.small_studies import PARTS

NORM = 'model.layer_norm = { type = "categorical", choices = [false, true] }\n'
SOME = 'when = { "model.layer_norm" = true } }\n'
SHARE = '{ type = "float", low = 0.1, high = 0.5'
END = "search.optimizer.schedule.end"
NEVER_0 = "an exponential decay never reaches 0"
EXPONENTIAL = VALID.replace(
    "lr = 1e-3", 'lr = 1e-3\nschedule = { name = "exponential", end = 0.5 }'
)
NUMBERS = VALID.replace('"cross_entropy"', '"mse"').replace('["accuracy"]', "[]")
OWN = VALID.replace('name = "adamw"\nlr = 1e-3', 'name = "nets:moves"').replace(
    "optimizer.lr =", "train.ema ="
)
SOME_SGD = f'optimizer.name = {{ type = "categorical", choices = ["sgd"], {SOME}'

REFUSED = {
    "an end that a range has": (
        EXPONENTIAL + 'optimizer.schedule.end = { type = "float", low = 0, high = 1 }\n',
        (END, NEVER_0),
    ),
    "an end next to the range": (
        EXPONENTIAL + f"optimizer.schedule.end = {SHARE}, or = [0.0] }}\n",
        (END, NEVER_0),
    ),
    "an end of some trials": (
        EXPONENTIAL
        + NORM
        + f'optimizer.schedule.end = {{ type = "categorical", choices = [0.1, 0], {SOME}',
        (END, NEVER_0),
    ),
    "a number of no schedule": (
        VALID + f"optimizer.schedule.end = {SHARE} }}\n",
        (END, "the schedule constant does not use it"),
    ),
    "smoothing of numbers": (
        NUMBERS + f"train.label_smoothing = {SHARE} }}\n",
        ("search.train.label_smoothing", "the loss mse does not use it"),
    ),
    "smoothing of numbers in some trials": (
        NUMBERS + NORM + f"train.label_smoothing = {SHARE}, {SOME}",
        ("search.train.label_smoothing", "the loss mse does not use it"),
    ),
    "a way to stop that others have not": (
        VALID + NORM + f"train.early_stop.min_delta = {SHARE}, {SOME}",
        (
            "search.train.early_stop.min_delta",
            "trials that do not draw it have no [train.early_stop]",
        ),
    ),
    "a way to stop that others have not, with another program": (
        PARTS.partition("[execution]")[0]
        + 'model.a.layer_norm = { type = "categorical", choices = [false, true] }\n'
        + f"train.early_stop.min_delta = {SHARE}, {SOME.replace('layer', 'a.layer')}",
        (
            "search.train.early_stop.min_delta",
            "trials that do not draw it have no [train.early_stop]",
        ),
    ),
    "schedules of nothing": (
        OWN + 'optimizer.schedule.name.type = "categorical"\n'
        'optimizer.schedule.name.choices = ["constant", "cosine"]\n',
        ("optimizer.lr", "missing, but a schedule changes it"),
    ),
    "a learning rate that one searched optimizer lacks": (
        VALID.replace("lr = 1e-3\n", "").replace(
            "log = true }", 'log = true, when = { "optimizer.name" = "adamw" } }'
        )
        + 'optimizer.name = { type = "categorical", choices = ["adamw", "sgd"] }\n',
        ("optimizer.lr", "missing"),
    ),
    "a width that one searched kind lacks": (
        VALID.replace("width = 8\n", "")
        + 'model.kind = { type = "categorical", choices = ["mlp", "tabm"] }\n'
        'model.width = { type = "int", low = 4, high = 8, when = { "model.kind" = "mlp" } }\n',
        ("model.width", "missing"),
    ),
    "an optimizer that some trials lack": (
        VALID.replace('name = "adamw"\nlr = 1e-3', "lr = 1e-3\nb1 = 0.8") + NORM + SOME_SGD,
        ("optimizer.name", "missing"),
    ),
    "whole arrays that some trials keep": (
        VALID.replace('"adamw"', '"adafactor"')
        + NORM
        + SOME_SGD
        + '[execution]\nstrategy = "padded"\n',
        (
            "execution.strategy",
            "padded, but the optimizer adafactor looks at whole arrays, including padding",
        ),
    ),
}


@pytest.mark.parametrize(("text", "expected"), REFUSED.values(), ids=REFUSED)
def test_settings_that_some_trials_cannot_use_are_refused(
    text: str, expected: tuple[str, str]
) -> None:
    with pytest.raises(StudyError) as refusal:
        parse(text, Path("study.toml"))
    (problem,) = refusal.value.problems
    assert (problem.key, problem.found) == expected
    assert problem.hint
    *_, name = problem.key.removeprefix("search.").split(".")
    line = text.splitlines()[int(problem.where.partition(":")[2]) - 1]
    assert name in line or problem.found.startswith("missing")


def test_keys_of_the_optimizer_that_some_trials_keep_are_accepted() -> None:
    text = VALID.replace("lr = 1e-3", "lr = 1e-3\nb1 = 0.8") + NORM + SOME_SGD
    config = parse(text, Path("study.toml"))
    kept, drawn = config.settings_of({"layer_norm": False}), config.settings_of({"name": "sgd"})
    assert (kept.optimizer.name, kept.traced()["optimizer.b1"]) == ("adamw", 0.8)
    assert drawn.optimizer.name == "sgd"


def test_a_setting_that_all_trials_of_its_kinds_draw_needs_no_value() -> None:
    width = 'model.width = {{ type = "int", low = 4, high = 8, when = {{ "model.kind" = {} }} }}\n'
    text = VALID.replace("width = 8\n", 'function = "nets:build"\n')
    kinds = 'model.kind = { type = "categorical", choices = ["mlp", "tabm", "python"] }\n'
    config = parse(text + kinds + width.format('["mlp", "tabm"]'), Path("study.toml"))
    assert config.settings_of({"kind": "python"}).model.kind == "python"
    with pytest.raises(StudyError) as refusal:
        parse(text + kinds + width.format('"mlp"'), Path("study.toml"))
    (problem,) = refusal.value.problems
    assert problem.hint == (
        "write width = ... in [model], for trials that do not draw it "
        "(4 in studies that were begun before this was checked)"
    )


def test_trials_that_draw_no_kind_of_model_have_the_usual_one() -> None:
    text = VALID.replace('kind = "mlp"\n', "")
    kind = f'model.kind = {{ type = "categorical", choices = ["tabm", "mlp"], {SOME}'
    config = parse(text + NORM + kind, Path("study.toml"))
    assert config.settings_of({"layer_norm": False}).model.kind == "mlp"


@pytest.mark.parametrize("written", ["", "momentum = 0.5\n"])
def test_an_optimizer_that_all_trials_draw_under_a_condition_needs_no_name(written: str) -> None:
    text = VALID.replace('name = "adamw"\n', written)
    both = 'when = { "model.layer_norm" = [false, true] } }\n'
    name = f'optimizer.name = {{ type = "categorical", choices = ["adam", "sgd"], {both}'
    more = '[execution]\nstrategy = "padded"\n'
    config = parse(text + NORM + name + more, Path("study.toml"))
    assert config.drawn_values("optimizer.name") == ("adam", "sgd")


def some_of_another_kind(kept: str, drawn: str) -> StudyConfig:
    text = VALID.replace('kind = "mlp"', f'kind = "{kept}"\nfunction = "nets:build"')
    kind = f'model.kind = {{ type = "categorical", choices = ["{drawn}"], {SOME}'
    return parse(text + NORM + kind, Path("study.toml"))


@pytest.mark.parametrize(("kept", "drawn"), [("mlp", "python"), ("python", "mlp")])
def test_trials_that_keep_another_kind_of_model_have_no_family(kept: str, drawn: str) -> None:
    config = some_of_another_kind(kept, drawn)
    ((params, share),) = families_of(config, {})
    assert config.settings_of(params).model.kind == "mlp"
    assert share == 0.5
