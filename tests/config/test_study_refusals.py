"""Invalid searches and studies are refused with line, key and fix."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeper.config import parse
from sweeper.errors import Problem, StudyError
from tests.config.conftest import VALID, Read, Refused

METRIC = 'metric = "val_loss"\ndirection = "minimize"'
TRIALS = "n_trials = 8"
DEPTH = 'model.depth = { type = "int", low = 1, high = 3 }'
NORM = 'model.layer_norm = { type = "categorical", choices = [true, false]'
REPORTS = "the program reports train_loss, val_loss, val_accuracy, n_parameters"

# the replaced text, its replacement; then line, key, found and fix of the only problem
BROKEN = {
    "an unreported objective of several": (
        (METRIC, 'metric = ["val_loss", "val_lost"]\ndirection = ["minimize", "minimize"]'),
        (5, "study.metric", "'val_lost' is not reported", "did you mean 'val_loss'?"),
    ),
    "no metric": (
        (METRIC, 'metric = []\ndirection = "minimize"'),
        (5, "study.metric", "an array is not a name", "write text in quotes, or an array of names"),
    ),
    "a direction too few": (
        (METRIC, 'metric = ["val_loss", "n_parameters"]\ndirection = "minimize"'),
        (
            *(6, "study.direction", "1, but there are 2 objectives"),
            "write one for each of study.metric, in the same order",
        ),
    ),
    "an objective named twice": (
        (METRIC, 'metric = ["val_loss", "val_loss"]\ndirection = ["minimize", "maximize"]'),
        (5, "study.metric", "an objective is named twice", "remove one of the two"),
    ),
    "not a direction": (
        (METRIC, 'metric = "val_loss"\ndirection = ["down"]'),
        (
            *(6, "study.direction", "an array is not a direction"),
            'write "minimize" or "maximize", one per metric',
        ),
    ),
    "a pruner of several objectives": (
        (
            f"{METRIC}\n{TRIALS}",
            'metric = ["val_loss", "n_parameters"]\ndirection = ["minimize", "minimize"]\n'
            f'{TRIALS}\npruner.name = "median"',
        ),
        (
            *(8, "study.pruner.name", "'median' with 2 objectives, but a pruner needs one"),
            'write name = "none", or one metric',
        ),
    ),
    "CMA-ES of several objectives": (
        (
            f"{METRIC}\n{TRIALS}",
            'metric = ["val_loss", "n_parameters"]\ndirection = ["minimize", "minimize"]\n'
            f'{TRIALS}\nsampler.name = "cmaes"',
        ),
        (
            *(8, "study.sampler.name", "'cmaes' with 2 objectives, but it needs one"),
            'write e.g. name = "nsgaii", or one metric',
        ),
    ),
    "not a duration": (
        (TRIALS, f'{TRIALS}\ntimeout = "10 minutes"'),
        (8, "study.timeout", "'10 minutes' is not a duration", 'write e.g. "90s", "30m" or "2h"'),
    ),
    "a duration of nothing": (
        (TRIALS, f'{TRIALS}\ntimeout = "0s"'),
        (8, "study.timeout", "'0s' is not a duration", 'write e.g. "90s", "30m" or "2h"'),
    ),
    "not an amount of memory": (
        (TRIALS, f'{TRIALS}\n[execution]\nmemory_limit = "2 gigs"'),
        (
            *(9, "execution.memory_limit", "'2 gigs' is not an amount of memory"),
            'write e.g. "2 GiB" or "500 MB"',
        ),
    ),
    "the second constraint's metric": (
        (
            TRIALS,
            f'{TRIALS}\n[[study.constraints]]\nmetric = "val_loss"\nmax = 1\n\n'
            '[[study.constraints]]\nmetric = "val_r2"\nmin = 0',
        ),
        (13, "study.constraints.1.metric", "'val_r2' is not reported", REPORTS),
    ),
    "a constraint without a bound": (
        (TRIALS, f'{TRIALS}\nconstraints = [\n{{ metric = "val_loss" }}]'),
        (9, "study.constraints.0", "without a bound", "write max = ..., or min = ..."),
    ),
    "a constraint that nothing keeps": (
        (TRIALS, f'{TRIALS}\nconstraints = [{{ metric = "val_loss", min = 2, max = 1 }}]'),
        (8, "study.constraints.0.min", "min 2.0 is above max 1.0", "swap the two"),
    ),
    "a setting that constraints have not": (
        (TRIALS, f'{TRIALS}\n[[study.constraints]]\nmetric = "val_loss"\nmax = 1\nmaximum = 1'),
        (
            *(11, "study.constraints.0.maximum", "no such setting"),
            "did you mean 'study.constraints.max'?",
        ),
    ),
    "a queued value out of range": (
        (
            TRIALS,
            f"{TRIALS}\n[[study.enqueue]]\ndepth = 2\n[[study.enqueue]]\nlr = 1e-3\ndepth = 4",
        ),
        (12, "study.enqueue.1.depth", "4 is not one of its values", "write 1 to 3"),
    ),
    "a queued value in a nested table": (
        (TRIALS, f"{TRIALS}\nenqueue = [\n{{ depth = 1 }},\n{{ optimizer.lr = 1 }}]"),
        (10, "study.enqueue.1.optimizer.lr", "1 is not one of its values", "write 0.0001 to 0.01"),
    ),
    "a queued setting that is not searched": (
        (TRIALS, f"{TRIALS}\n[[study.enqueue]]\nmodel.dept = 2"),
        (
            *(9, "study.enqueue.0.model.dept"),
            "not searched, so no trial can be given a value of it",
            "did you mean 'model.depth'?",
        ),
    ),
    "a queued setting of the file": (
        (TRIALS, f"{TRIALS}\n[[study.enqueue]]\ntrain.epochs = 2"),
        (
            *(9, "study.enqueue.0.train.epochs"),
            "not searched, so no trial can be given a value of it",
            "use what is searched, by key or column: model.depth, optimizer.lr, depth, lr",
        ),
    ),
    "a queued setting given twice": (
        (TRIALS, f"{TRIALS}\n[[study.enqueue]]\nmodel.depth = 2\ndepth = 3"),
        (10, "study.enqueue.0.depth", "'model.depth' is given twice", "remove one"),
    ),
    "a queue that is none": (
        (TRIALS, f"{TRIALS}\nenqueue = {{ depth = 2 }}"),
        (
            *(8, "study.enqueue", "a table is not an array of tables"),
            "write [[study.enqueue]] before the values of each trial",
        ),
    ),
    "a condition on what is not searched": (
        (DEPTH, f'{DEPTH}\n{NORM}, when = {{ "model.width" = 8 }} }}'),
        (
            *(30, "search.model.layer_norm.when", "'model.width' is not searched"),
            "did you mean 'model.depth'?",
        ),
    ),
    "a condition that never holds": (
        (DEPTH, f"{DEPTH}\n{NORM}, when = {{ model.depth = [2, 4] }} }}"),
        (
            *(30, "search.model.layer_norm.when", "'model.depth' is never 4"),
            "write one of 1, 2, 3",
        ),
    ),
    "a condition on a continuum": (
        (DEPTH, f'{DEPTH}\n{NORM}, when = {{ "optimizer.lr" = 1e-3 }} }}'),
        (
            *(30, "search.model.layer_norm.when"),
            "'optimizer.lr' is drawn from a continuous range",
            "write a setting with choices, or with integers",
        ),
    ),
    "no condition": (
        (DEPTH, f"{DEPTH}\n{NORM}, when = {{}} }}"),
        (
            *(30, "search.model.layer_norm.when", "a table is not a condition"),
            'write e.g. { "model.layer_norm" = true }, or an array of values',
        ),
    ),
    "a condition on itself": (
        (DEPTH, f"{DEPTH}\n{NORM}, when = {{ model.layer_norm = true }} }}"),
        (
            *(30, "search.model.layer_norm.when"),
            "depends on itself, through model.layer_norm",
            "remove one of the conditions",
        ),
    ),
    "an extra value that the setting does not take": (
        (DEPTH, 'model.dropout = { type = "float", low = 0.1, high = 0.5, or = [1.0] }'),
        (29, "search.model.dropout.or", "1.0 is too large", "write a number below 1.0"),
    ),
    "the same as what is not searched": (
        (DEPTH, f'{DEPTH}\nmodel.width = {{ same_as = "model.dept" }}'),
        (
            *(30, "search.model.width.same_as", "'model.dept' is not searched"),
            "did you mean 'model.depth'?",
        ),
    ),
    "the same as a value that does not fit": (
        (DEPTH, f'{DEPTH}\nmodel.layer_norm = {{ same_as = "model.depth" }}'),
        (
            *(30, "search.model.layer_norm.same_as"),
            "int, but the setting takes true or false",
            "name another setting, or fix search.model.depth",
        ),
    ),
    "a shared value with a range of its own": (
        (DEPTH, f'{DEPTH}\nmodel.width = {{ same_as = "model.depth", low = 1 }}'),
        (30, "search.model.width.low", "no such setting", None),
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_problem_has_its_line_its_key_and_its_hint(name: str, refused: Refused) -> None:
    (old, new), told = BROKEN[name]
    line, key, found, hint = told
    (problem,) = refused(old, new)
    assert (problem.where, problem.key, problem.found) == (f"study.toml:{line}", key, found)
    assert hint in (None, problem.hint)


def test_settings_that_are_the_same_as_each_other_have_no_values(refused: Refused) -> None:
    depth, width = 'model.depth = { same_as = "model.', 'model.width = { same_as = "model.depth" }'
    mutual = refused(DEPTH, f'{depth}width" }}\n{width}')
    assert [problem.found for problem in mutual] == [
        "neither 'model.depth' nor 'model.width' has values of its own",
        "neither 'model.width' nor 'model.depth' has values of its own",
    ]
    (own,) = refused(DEPTH, f'{depth}depth" }}')
    assert own.found == "'model.depth' refers to itself, so it has no values"


def test_a_setting_that_some_trials_do_not_draw_needs_a_value(refused: Refused) -> None:
    text = VALID.replace("depth = 1\n", "", 1)
    conditional = DEPTH.replace(" }", ', when = { "model.layer_norm" = true } }')
    with pytest.raises(Exception) as refusal:
        parse(text.replace(DEPTH, f"{conditional}\n{NORM} }}"), Path("study.toml"))
    assert refusal.value.problems == (  # type: ignore[attr-defined]
        Problem(
            "study.toml:13",
            "model.depth",
            "missing",
            "write depth = ... in [model], for trials that do not draw it",
        ),
    )


def test_a_setting_with_a_default_keeps_it_where_it_is_not_drawn(read: Read) -> None:
    dropout = (
        'model.dropout = { type = "float", low = 0.1, high = 0.5, when = { model.depth = 2 } }'
    )
    config = read(DEPTH, f"{DEPTH}\n{dropout}")
    assert config.settings_of({"depth": 1}).model.dropout == 0.0


def test_a_queued_value_that_its_condition_forbids_is_refused(refused: Refused) -> None:
    norm = f"{DEPTH}\n{NORM}, when = {{ model.depth = 2 }} }}"
    (problem,) = refused(DEPTH, norm, "study.enqueue=[{depth=1,layer_norm=true}]")
    assert (problem.key, problem.found) == (
        "study.enqueue.0.model.layer_norm",
        "not used with model.depth = 1",
    )


def test_a_queue_for_a_grid_is_refused(refused: Refused) -> None:
    lr = "search.optimizer.lr={type='categorical',choices=[1e-3]}"
    (problem,) = refused("", "", "study.sampler.name=grid", "study.enqueue=[{depth=2}]", lr)
    assert problem.found == "trials to start with, but a grid tries all values"


def test_the_number_of_parameters_stops_no_trial_even_as_an_objective(refused: Refused) -> None:
    study = ("study.metric=['val_loss','n_parameters']", "study.direction=['minimize','minimize']")
    stop = "train.early_stop={metric='n_parameters',patience=3}"
    (problem,) = refused("", "", *study, stop)
    assert (problem.key, problem.found, problem.hint) == (
        "train.early_stop.metric",
        "'n_parameters' is not reported",
        REPORTS.removesuffix(", n_parameters"),
    )


def test_circular_conditions_are_refused(refused: Refused) -> None:
    first = f'{NORM}, when = {{ "model.activation" = "relu" }} }}'
    second = (
        'model.activation = { type = "categorical", choices = ["relu"], '
        'when = { "model.layer_norm" = true } }'
    )
    (problem,) = refused(DEPTH, f"{DEPTH}\n{first}\n{second}")
    assert problem.found.startswith("depends on itself, through ")


def test_choices_have_no_extra_values(refused: Refused) -> None:
    (problem,) = refused(DEPTH, f"{DEPTH}\n{NORM}, or = [true] }}")
    assert (problem.key, problem.found) == ("search.model.layer_norm.or", "no such setting")


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("10m", 600), ("2h", 7200), ("1.5h", 5400), ("1d", 86400)]
)
def test_durations_are_numbers_with_a_unit(text: str, seconds: float, read: Read) -> None:
    assert read("", "", f"study.timeout='{text}'").study.timeout_s == seconds


@pytest.mark.parametrize(
    ("text", "n_bytes"),
    [
        ("2 GiB", 2**31),
        ("500 MB", 500_000_000),
        ("1.5KiB", 1536),
        ("0.5 GB", 5 * 10**8),
        ("7 B", 7),
    ],
)
def test_amounts_of_memory_are_numbers_with_a_unit(text: str, n_bytes: int, read: Read) -> None:
    config = read("", "", f"execution.memory_limit='{text}'")
    assert config.execution.memory_limit_bytes == n_bytes


@pytest.mark.parametrize("text", ["0 GiB", "0.0 MB", "-1 GiB", "GiB", "2", "2 gb", "2 GiBs"])
def test_other_text_is_not_an_amount_of_memory(text: str, read: Read) -> None:
    with pytest.raises(StudyError, match="is not an amount of memory"):
        read("", "", f"execution.memory_limit='{text}'")
