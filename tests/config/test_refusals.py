"""Errors in a study file are named by line and key, with a fix, and all at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeper.config import load, parse
from sweeper.config.toml import COMMAND_LINE, IN_PYTHON
from sweeper.errors import Problem, ProblemKind, StudyError
from tests.config.conftest import VALID, Refused

OPTIMIZER_HAS = "[optimizer] has lr, weight_decay, clip_norm, clip_value, b1, b2, eps, name"
FROM_ZERO = "write a number above 0, and or = [0.0] if 0.0 should be drawn too"

# the replaced text, its replacement; then line, key, found and fix of the only problem
PYTHON = 'kind = "python"\nfunction = "nets:build"'
BROKEN = {
    "a function without its module": (
        ('kind = "mlp"', 'kind = "python"\nfunction = "build"'),
        (15, "model.function", "'build' is not the name of a function", 'write "module:function"'),
    ),
    "your own model without its function": (
        ('kind = "mlp"', 'kind = "python"'),
        (13, "model.function", "missing", "write function = ..."),
    ),
    "a table for a function": (
        ('kind = "mlp"', f"{PYTHON}\nlayers = [8, 8]"),
        (
            16,
            "model.layers",
            "an array cannot be an argument",
            'split text such as "64-32" in your own function',
        ),
    ),
    "no number for a function": (
        ('kind = "mlp"', f"{PYTHON}\nscale = nan"),
        (16, "model.scale", "nan is not a finite number", "write a finite number"),
    ),
    "a search of the function": (
        (
            'kind = "mlp"\ndepth = 1\nwidth = 8',
            f"{PYTHON}\n\n[search.model.function]\n"
            'type = "categorical"\nchoices = ["nets:one", "nets:other"]',
        ),
        (
            17,
            "search.model.function",
            "must be the same for every trial",
            "write it only in [model]",
        ),
    ),
    "an unknown kind of model": (
        ('kind = "mlp"', 'kind = "mpl"'),
        (14, "model.kind", "no model 'mpl'", "did you mean 'mlp'?"),
    ),
    "unknown key": (
        ("width = 8", "width = 8\ndropuot = 0.1"),
        (17, "model.dropuot", "no such setting", "did you mean 'model.dropout'?"),
    ),
    "unknown key of another table": (
        ("epochs = 4", "epochs = 4\nweight_decay = 0.1"),
        (26, "train.weight_decay", "no such setting", "did you mean 'optimizer.weight_decay'?"),
    ),
    "unknown key like no other": (
        ("lr = 1e-3", "lr = 1e-3\nmomentum = 0.9"),
        (21, "optimizer.momentum", "no such setting", OPTIMIZER_HAS),
    ),
    "unknown table": (
        ("[search]", "[serach]"),
        (28, "serach", "no such setting", "did you mean 'search'?"),
    ),
    "missing key": (
        ("batch_size = 16", ""),
        (22, "train.batch_size", "missing", "write batch_size = ..."),
    ),
    "missing kind of table": (
        ('source = "sklearn"', ""),
        (9, "data.source", "missing", "write one of sklearn, csv, parquet, npz, python"),
    ),
    "not a way to fill gaps": (
        ('name = "iris"', 'name = "iris"\nimpute = "meen"'),
        (
            *(12, "data.impute", "'meen' is not a way to fill gaps"),
            'write "none", "mean", "median", "most_frequent" or { constant = 0 }',
        ),
    ),
    "a constant that is not a number": (
        ('name = "iris"', 'name = "iris"\nimpute = { constant = "x" }'),
        (
            *(12, "data.impute", "constant = 'x' is not a finite number"),
            "write a finite number",
        ),
    ),
    "no encoding of categories": (
        ('name = "iris"', 'name = "iris"\ncategorical = "hot"'),
        (12, "data.categorical", "no categorical 'hot'", "did you mean 'onehot'?"),
    ),
    "not weights of classes": (
        ('name = "iris"', 'name = "iris"\nclass_weights = "equal"'),
        (
            *(12, "data.class_weights", "'equal' is not a weighting"),
            'write "none", "balanced" or { CLASS = 2.0 }',
        ),
    ),
    "a class that weighs nothing": (
        ('name = "iris"', 'name = "iris"\nclass_weights = { setosa = 0 }'),
        (
            *(12, "data.class_weights", "a weight is not a number above 0"),
            "write numbers above 0",
        ),
    ),
    "groups and times": (
        ('name = "iris"', 'name = "iris"\nsplit = { group = "a", time = "b" }'),
        (12, "data.split.time", "the rows are already split by group", "remove one of them"),
    ),
    "classes in proportion and groups": (
        ('name = "iris"', 'name = "iris"\nsplit = { stratify = true, group = "a" }'),
        (12, "data.split.group", "the rows are already split by stratify", "remove one of them"),
    ),
    "a column to learn from that splits nothing": (
        ('name = "iris"', 'name = "iris"\nsplit = { as_feature = true }'),
        (
            *(12, "data.split.as_feature", "the rows are not split by a column"),
            "write group or time, or remove it",
        ),
    ),
    "fields between which nothing can stand": (
        (
            'source = "sklearn"\nname = "iris"',
            'source = "csv"\npath = "a"\ntarget = "b"\nseparator = ", "',
        ),
        (
            *(13, "data.separator", "fields cannot be separated by ', '"),
            'write one character, such as ";" or "\\t"',
        ),
    ),
    "a separator that pandas does not read": (
        (
            'source = "sklearn"\nname = "iris"',
            'source = "csv"\npath = "a"\ntarget = "b"\nseparator = "¦"',
        ),
        (
            *(13, "data.separator", "'¦' is not an ASCII character"),
            'write one such as ";" or "\\t", and replace it in the file',
        ),
    ),
    "commas between fields and in numbers": (
        (
            'source = "sklearn"\nname = "iris"',
            'source = "csv"\npath = "a"\ntarget = "b"\ndecimal = ","',
        ),
        (
            *(13, "data.decimal", "',' already separates fields"),
            'write another, or another separator, such as ";"',
        ),
    ),
    "an encoding that nobody knows": (
        (
            'source = "sklearn"\nname = "iris"',
            'source = "csv"\npath = "a"\ntarget = "b"\nencoding = "latin-99"',
        ),
        (
            *(13, "data.encoding", "unknown text encoding 'latin-99'"),
            "write a Python encoding, such as utf-8, latin-1 or cp1252",
        ),
    ),
    "a target that is not a name": (
        ('source = "sklearn"\nname = "iris"', 'source = "parquet"\npath = "a"\ntarget = 3'),
        (
            12,
            "data.target",
            "3 is not the name of a column",
            "write text in quotes, or an array of names",
        ),
    ),
    "a target named twice": (
        ('source = "sklearn"\nname = "iris"', 'source = "csv"\npath = "a"\ntarget = ["a", "a"]'),
        (12, "data.target", "a column is named twice", "remove one of the two"),
    ),
    "data of no function": (
        ('source = "sklearn"\nname = "iris"', 'source = "python"\nfunction = "rows.py"'),
        (11, "data.function", "'rows.py' is not the name of a function", 'write "module:function"'),
    ),
    "a column of an npz file": (
        ('source = "sklearn"\nname = "iris"', 'source = "npz"\npath = "a.npz"\ntarget = "y"'),
        (12, "data.target", "no such setting", "did you mean 'data.y'?"),
    ),
    "wrong version": (
        ("version = 1", "version = 2"),
        (1, "version", "no version 2", "write 1"),
    ),
    "text for a number": (
        ("n_trials = 8", 'n_trials = "8"'),
        (7, "study.n_trials", "'8' is not an integer", "write an integer"),
    ),
    "truth for a number": (
        ("epochs = 4", "epochs = true"),
        (25, "train.epochs", "true is not an integer", "write an integer"),
    ),
    "values for a number that can be searched": (
        ("epochs = 4", "epochs = [4, 8]"),
        (
            *(25, "train.epochs", "an array is not an integer"),
            "write an integer, or search several: "
            'search.train.epochs = { type = "categorical", choices = [4, 8] }',
        ),
    ),
    "values for a name that can be searched": (
        ('name = "adamw"', 'name = ["adam", "sgd"]'),
        (
            *(19, "optimizer.name", "no optimizer an array"),
            'write one of adam, adamw, rmsprop, lion, sgd, adafactor, or "module:function", or '
            'search several: search.optimizer.name = { type = "categorical", choices = '
            '["adam", "sgd"] }',
        ),
    ),
    "values for a name that cannot be searched": (
        ("epochs = 4", 'epochs = 4\nprogram = ["supervised", "coupled"]'),
        (
            *(26, "train.program", "no program an array"),
            'write one of supervised, alternating, coupled, or "module:Class"',
        ),
    ),
    "values for a number that cannot be searched": (
        ("n_trials = 8", "n_trials = [8, 9]"),
        (7, "study.n_trials", "an array is not an integer", "write an integer"),
    ),
    "number out of range": (
        ("n_trials = 8", "n_trials = 0"),
        (7, "study.n_trials", "0 is too small", "write 1 or more"),
    ),
    "not a number": (
        ("lr = 1e-3", "lr = nan"),
        (20, "optimizer.lr", "nan is not a finite number", "write a finite number"),
    ),
    "value for a table": (
        ("n_trials = 8", "n_trials = 8\npruner = 'median'"),
        (8, "study.pruner", "'median' is not a table", 'write { name = "median" }'),
    ),
    "unknown sampler": (
        ("n_trials = 8", "n_trials = 8\n[study.sampler]\nname = 'tep'"),
        (9, "study.sampler.name", "no sampler 'tep'", "did you mean 'tpe'?"),
    ),
    "unknown pruner": (
        ("n_trials = 8", "n_trials = 8\npruner = { name = 'hyperbank' }"),
        (8, "study.pruner.name", "no pruner 'hyperbank'", "did you mean 'hyperband'?"),
    ),
    "unknown optimizer": (
        ('"adamw"', '"AdamW"'),
        (
            19,
            "optimizer.name",
            "no optimizer 'AdamW'",
            "did you mean 'adamw'?",
        ),
    ),
    "unknown metric": (
        ('["accuracy"]', '["acuracy"]'),
        (
            24,
            "train.metrics",
            "no metric 'acuracy'",
            "did you mean 'accuracy'?",
        ),
    ),
    "unknown loss": (
        ('"cross_entropy"', '"cross_entropi"'),
        (
            23,
            "train.loss",
            "no loss 'cross_entropi'",
            "did you mean 'cross_entropy'?",
        ),
    ),
    "user-defined loss without its task": (
        ('"cross_entropy"', '"losses:mine"'),
        (
            22,
            "train.task",
            "missing, and 'losses:mine' does not determine what the target is",
            'write task = "classes" or "numbers"',
        ),
    ),
    "task of another loss": (
        ('"cross_entropy"', '"cross_entropy"\ntask = "numbers"'),
        (
            24,
            "train.task",
            "the loss cross_entropy is for classes",
            'write "classes", or another loss',
        ),
    ),
    "metric of another task": (
        ('"cross_entropy"', '"losses:mine"\ntask = "numbers"'),
        (
            25,
            "train.metrics",
            "accuracy is for classes, but the task is numbers",
            "write one of r2, rmse, mae, mape",
        ),
    ),
    "two metrics of one name": (
        ('["accuracy"]', '["accuracy", "mine:accuracy"]'),
        (24, "train.metrics", "a metric is named twice", "remove one of the two"),
    ),
    "a metric that is called loss": (
        ('["accuracy"]', '["mine:loss"]'),
        (24, "train.metrics", "'loss' is always reported", "give the function another name"),
    ),
    "stopping by a metric that is not reported": (
        ("epochs = 4", "epochs = 4\nearly_stop = { metric = 'val_f1', patience = 2 }"),
        (
            26,
            "train.early_stop.metric",
            "'val_f1' is not reported",
            'write train.metrics = ["f1"]',
        ),
    ),
    "stopping by a metric of unknown direction": (
        (
            'metrics = ["accuracy"]',
            "metrics = ['mine:score']\nearly_stop = { metric = 'val_score', patience = 2 }",
        ),
        (
            25,
            "train.early_stop.metric",
            "it is not known which values of 'val_score' are better",
            "stop by study.metric, or by a built-in metric",
        ),
    ),
    "stopping without patience": (
        ("epochs = 4", "epochs = 4\nearly_stop = {}"),
        (26, "train.early_stop.patience", "missing", "write patience = ..."),
    ),
    "setting of another loss": (
        ("epochs = 4", "epochs = 4\nhuber_delta = 2.0"),
        (
            26,
            "train.huber_delta",
            "the loss cross_entropy does not use it",
            'remove it, or write loss = "huber"',
        ),
    ),
    "number of another schedule": (
        ("lr = 1e-3", 'lr = 1e-3\nschedule = { name = "cosine", warmup = 0.1 }'),
        (
            21,
            "optimizer.schedule.warmup",
            "the schedule cosine does not use it",
            "remove it; it uses end",
        ),
    ),
    "unknown key of a schedule": (
        ("lr = 1e-3", 'lr = 1e-3\nschedule = { name = "cosine", ned = 0.1 }'),
        (
            21,
            "optimizer.schedule.ned",
            "no such setting",
            "did you mean 'optimizer.schedule.end'?",
        ),
    ),
    "exponential decay to nothing": (
        ("lr = 1e-3", 'lr = 1e-3\nschedule = { name = "exponential", end = 0.0 }'),
        (
            21,
            "optimizer.schedule.end",
            "an exponential decay never reaches 0",
            "write a number above 0",
        ),
    ),
    "padding for an optimizer of whole arrays": (
        ('"adamw"\nlr = 1e-3', '"adafactor"\nlr = 1e-3\n[execution]\nstrategy = "padded"'),
        (
            22,
            "execution.strategy",
            "padded, but the optimizer adafactor looks at whole arrays, including padding",
            'write "auto" or "exact", or another optimizer',
        ),
    ),
    "name with a slash": (
        ('"small"', '"a/b"'),
        (
            4,
            "study.name",
            "'a/b' cannot name a directory or a column",
            "write letters, digits, '_' and '-' only, and not '-' first",
        ),
    ),
    "metric that is not reported": (
        ('"val_loss"', '"val_r2"'),
        (
            5,
            "study.metric",
            "'val_r2' is not reported",
            "the program reports train_loss, val_loss, val_accuracy, n_parameters",
        ),
    ),
    "metric of another loss": (
        ('["accuracy"]', '["r2"]'),
        (
            24,
            "train.metrics",
            "r2 does not fit the loss cross_entropy",
            "write one of accuracy, balanced_accuracy, f1, auroc, average_precision, log_loss, "
            'or loss = "mse"',
        ),
    ),
    "parts that leave nothing": (
        ('name = "iris"', 'name = "iris"\nsplit = { val = 0.6, test = 0.4 }'),
        (
            12,
            "data.split",
            "val 0.6 and test 0.4 leave nothing to train on",
            "write parts that sum to less than 1",
        ),
    ),
    "nowhere to train": (
        ("[search]", "[execution]\nthreads = 0\nworkers = 0\n[search]"),
        (
            30,
            "execution.workers",
            "0 workers and 0 threads leave nothing to train with",
            "write at least one of them above 0",
        ),
    ),
    "every structure in every lane": (
        ("[search]", "[execution]\nstrategy = 'switch'\nlane_loop = 'vmap'\n[search]"),
        (
            30,
            "execution.lane_loop",
            "vmap, but with the strategy switch each lane would run every structure",
            'write "map", remove it, or write another strategy',
        ),
    ),
    "neither count nor auto": (
        ("[search]", "[execution]\nthreads = 'all'\n[search]"),
        (
            29,
            "execution.threads",
            "'all' is not a count",
            'write "auto" or an integer from 0 up',
        ),
    ),
}

# the same for one entry of [search], on line 29
BROKEN_SEARCH = {
    "unknown setting": (
        'model.widht = { type = "int", low = 1, high = 4 }',
        ("model.widht", "no such setting", "did you mean 'model.width'?"),
    ),
    "no table named": (
        'width = { type = "int", low = 1, high = 4 }',
        ("width", "not a setting that can be searched", "did you mean 'model.width'?"),
    ),
    "unknown word": (
        'model.width = { type = "int", low = 1, hihg = 4, high = 4 }',
        ("model.width.hihg", "no such setting", "did you mean 'search.model.width.high'?"),
    ),
    "no type": (
        "model.width = { low = 1, high = 4 }",
        ("model.width.type", "missing", "write one of int, float, categorical"),
    ),
    "unknown type": (
        'model.width = { type = "integer", low = 1, high = 4 }',
        ("model.width.type", "no type 'integer'", "did you mean 'int'?"),
    ),
    "no table": (
        "model.width = [1, 4]",
        (
            "model.width",
            "an array is not a table",
            'write { type = "categorical", choices = [1, 4] }, or '
            '{ type = "int", low = 1, high = 4 } for a range',
        ),
    ),
    "low above high": (
        'model.width = { type = "int", low = 9, high = 4 }',
        ("model.width.low", "low 9 is above high 4", "swap the two"),
    ),
    "log from zero": (
        'optimizer.weight_decay = { type = "float", low = 0, high = 1, log = true }',
        ("optimizer.weight_decay.low", "log with low 0.0", FROM_ZERO),
    ),
    "log from zero for what is above zero": (
        'optimizer.eps = { type = "float", low = 0, high = 1, log = true }',
        ("optimizer.eps.low", "log with low 0.0", FROM_ZERO),
    ),
    "column that the results have": (
        'model.width = { type = "int", low = 1, high = 4, name = "JSON" }',
        (
            "model.width",
            "the column 'JSON' already belongs to all parameters",
            'write another, name = "..."',
        ),
    ),
    "log in steps": (
        'optimizer.b1 = { type = "float", low = 0.1, high = 0.9, log = true, step = 0.1 }',
        ("optimizer.b1.step", "log with step 0.1", "remove one of the two"),
    ),
    "log in steps of one": (
        'optimizer.clip_norm = { type = "float", low = 1.0, high = 9.0, log = true, step = 1.0 }',
        ("optimizer.clip_norm.step", "log with step 1.0", "remove one of the two"),
    ),
    "steps finer than floats": (
        'optimizer.b1 = { type = "float", low = 0.1, high = 0.9, step = 1e-300 }',
        ("optimizer.b1.step", "step 1e-300 from 0.1 to 0.9", "write a larger one, or remove it"),
    ),
    "base and log": (
        'model.width = { type = "int", low = 2, high = 4, base = 2, log = true }',
        ("model.width.base", "base with log", "remove one of the two"),
    ),
    "base without a power": (
        'model.width = { type = "int", low = 3, high = 4, base = 2 }',
        ("model.width.low", "3 is not a power of 2", "write 1, 2, 4, 8, ..."),
    ),
    "bound that the setting refuses": (
        'model.dropout = { type = "float", low = 0.0, high = 1.5 }',
        ("model.dropout.high", "1.5 is too large", "write a number below 1.0"),
    ),
    "choice that the setting refuses": (
        'model.activation = { type = "categorical", choices = ["relu", "rleu"] }',
        ("model.activation.choices", "no activation 'rleu'", "did you mean 'relu'?"),
    ),
    "choice of another kind": (
        'model.layer_norm = { type = "categorical", choices = [true, 0] }',
        ("model.layer_norm.choices", "0 is not true or false", "write true or false"),
    ),
    "no choice": (
        'model.activation = { type = "categorical", choices = [] }',
        ("model.activation.choices", "an array is empty", "write 1 or more"),
    ),
    "choice twice": (
        'model.width = { type = "categorical", choices = [8, 16, 8] }',
        ("model.width.choices", "8 occurs twice", "remove one of the two"),
    ),
    "range of numbers that are as good as 0": (
        'optimizer.weight_decay = { type = "float", low = 1e-300, high = 0.1, log = true }',
        (
            "optimizer.weight_decay.low",
            "log with low 1e-300, which 32-bit floats cannot distinguish from 0",
            "write 1.2e-38 or more",
        ),
    ),
    "extra value twice": (
        'model.width = { type = "int", low = 8, high = 16, or = [4, 32, 4] }',
        ("model.width.or", "4 occurs twice", "remove one of the two"),
    ),
    "bound that is too large, of too many values": (
        'model.width = { type = "int", low = 2, high = 20_000_000 }',
        ("model.width.high", "20000000 is too large", "write 10000000 or less"),
    ),
    "float for an integer": (
        'model.width = { type = "float", low = 1, high = 4 }',
        (
            "model.width.type",
            "float, but the setting takes an integer",
            'write type = "int"',
        ),
    ),
    "setting that trials share": (
        'train.loss = { type = "categorical", choices = ["cross_entropy"] }',
        (
            "train.loss",
            "must be the same for every trial",
            "write it only in [train]",
        ),
    ),
    "column of another entry": (
        'model.width = { type = "int", low = 1, high = 4, name = "lr" }',
        (
            "optimizer.lr",
            "the column 'lr' already belongs to model.width",
            'write another, name = "..."',
        ),
    ),
    "column of another entry but for case": (
        'model.width = { type = "int", low = 1, high = 4, name = "LR" }',
        (
            "optimizer.lr",
            "the column 'lr' already belongs to model.width ('LR'; case does not matter)",
            'write another, name = "..."',
        ),
    ),
    "setting twice, once in quotes": (
        '"optimizer.lr" = { type = "float", low = 1e-4, high = 1e-2 }',
        ("optimizer.lr", "given twice", "remove one"),
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_problem_has_its_line_its_key_and_its_hint(name: str, refused: Refused) -> None:
    (old, new), (line, key, found, hint) = BROKEN[name]
    assert refused(old, new) == (Problem(f"study.toml:{line}", key, found, hint),)


@pytest.mark.parametrize("name", BROKEN_SEARCH)
def test_a_search_entry_is_refused_with_its_line(name: str, refused: Refused) -> None:
    entry, (key, found, hint) = BROKEN_SEARCH[name]
    (problem,) = refused("model.depth = { type", f"{entry}\nmodel.depth = {{ type")
    line = 31 if name.startswith("column of another entry") else 29
    assert problem == Problem(f"study.toml:{line}", f"search.{key}", found, hint)


@pytest.mark.parametrize(
    ("loss", "reported", "metric", "expected"),
    [
        (
            "cross_entropy",
            "r2",
            "val_accuracy",
            {
                "study.metric": 'write train.metrics = ["accuracy"]',
                "train.metrics": "write one of accuracy, balanced_accuracy, f1, auroc, "
                'average_precision, log_loss, or loss = "mse"',
            },
        ),
        (
            "mse",
            "accuracy",
            "val_accuracy",
            {"train.metrics": 'write one of r2, rmse, mae, mape, or loss = "cross_entropy"'},
        ),
        (
            "mse",
            "accuracy",
            "val_acuracy",
            {
                "study.metric": "the program reports train_loss, val_loss, n_parameters",
                "train.metrics": 'write one of r2, rmse, mae, mape, or loss = "cross_entropy"',
            },
        ),
    ],
)
def test_hints_of_loss_and_metric_do_not_contradict(
    loss: str, reported: str, metric: str, expected: dict[str, str], refused: Refused
) -> None:
    told = refused(
        "", "", f"train.loss={loss}", f"train.metrics=['{reported}']", f"study.metric={metric}"
    )
    assert {problem.key: problem.hint for problem in told} == expected


def test_a_schedule_needs_a_rate(refused: Refused) -> None:
    optimizer = "optimizer={name='mine:make',schedule={name='cosine'}}"
    (problem,) = refused("", "", "search={}", optimizer)
    assert (problem.key, problem.hint) == ("optimizer.lr", "write lr = ...")


@pytest.mark.parametrize(
    ("choices", "key", "found"),
    [
        (["adam", "lion"], "momentum=0.5", "none of adam, lion uses it"),
        (["adam", "adafactor"], None, "padded, but the optimizer adafactor looks at whole arrays"),
    ],
)
def test_settings_that_no_searched_optimizer_uses_are_refused(
    choices: list[str], key: str | None, found: str, refused: Refused
) -> None:
    entry = f"search.optimizer.name={{type='categorical',choices={choices}}}"
    more = f"optimizer.{key}" if key else "execution.strategy=padded"
    (problem,) = refused("", "", entry, more)
    assert problem.found.startswith(found)


def test_only_built_in_optimizers_can_be_searched(refused: Refused) -> None:
    choices = "['adam', 'mine:make']"
    (problem,) = refused("", "", f"search.optimizer.name={{type='categorical',choices={choices}}}")
    assert problem.hint == "write one of adam, adamw, rmsprop, lion, sgd, adafactor"


RATES = 'optimizer.lr = { type = "float", low = 1e-4, high = 1e-2, log = true }'


@pytest.mark.parametrize(
    ("entry", "found"),
    [
        (RATES, "a continuous range"),
        ('model.seed = { type = "int", low = 0, high = 2147483647 }', "2,147,483,648 integers"),
    ],
)
def test_a_grid_must_be_finite(entry: str, found: str, refused: Refused) -> None:
    expected = Problem(
        "study.toml:30",
        f"search.{entry.partition(' ')[0]}",
        f"{found}, which a grid cannot cover",
        "write step = ..., or choices",
    )
    model = "model={kind='python', function='nets:build'}"
    assert refused(RATES, entry, "study.sampler.name=grid", model) == (expected,)


def test_all_problems_are_reported_in_the_order_of_the_file() -> None:
    text = VALID
    for old, new in (
        ('"val_loss"', '"val_r2"'),
        ("n_trials = 8", "n_trials = 0"),
        ("depth = 1", "dpeth = 1"),
        ('"adamw"', '"lino"'),
        ("epochs = 4", "epochs = 0"),
        ("model.depth = { type", "model.dpeth = { type"),
    ):
        assert old in text
        text = text.replace(old, new, 1)
    with pytest.raises(StudyError) as refusal:
        parse(text, Path("study.toml"))
    assert [problem.key for problem in refusal.value.problems] == [
        "study.metric",
        "study.n_trials",
        "model.dpeth",
        "optimizer.name",
        "train.epochs",
        "search.model.dpeth",
    ]


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        ("epochs = 4", "", ProblemKind.MISSING),
        ('loss = "cross_entropy"', 'loss = "losses:mine"', ProblemKind.MISSING),
        ("width = 8", "width = 8\nsize = 1", ProblemKind.UNKNOWN_SETTING),
        ("n_trials = 8", "n_trials = 0", ProblemKind.TOO_SMALL),
        ('name = "small"', 'name = "a/b"', None),
    ],
)
def test_a_problem_has_the_kind_of_its_flaw(
    old: str, new: str, kind: ProblemKind | None, refused: Refused
) -> None:
    assert [problem.kind for problem in refused(old, new)] == [kind]


def test_a_problem_is_one_line(refused: Refused) -> None:
    (problem,) = refused("width = 8", "width = 0")
    assert str(problem) == "study.toml:16: model.width: 0 is too small; write 1 or more"


@pytest.mark.parametrize(
    ("old", "new", "key", "lines"),
    [
        ("n_trials = 8", "n_trials = 8\nname = 'b'", "study.name", (4, 8)),
        ("[train]", "[data]\nname = 'b'\n[train]", "data", (9, 22)),
        ("epochs = 4", "early_stop = { patience = 1, patience = 2 }", "", (25, 25)),
        ("[search]", "[search]\noptimizer.lr = 2", "search.optimizer.lr", (29, 31)),
    ],
)
def test_repeated_keys_are_refused_with_both_lines(
    old: str, new: str, key: str, lines: tuple[int, int], refused: Refused
) -> None:
    (problem,) = refused(old, new)
    first, second = lines
    assert problem == Problem(
        f"study.toml:{second}",
        key or "train.early_stop.patience",
        f"already given on line {first}",
        "remove one of the two",
    )


def test_invalid_toml_is_refused_with_its_line(refused: Refused) -> None:
    (problem,) = refused('name = "iris"', "name = iris")
    assert (problem.where, problem.found) == ("study.toml:11", "not TOML: Invalid value")


def test_an_unfinished_file_is_refused_at_its_end() -> None:
    with pytest.raises(StudyError, match=r"study\.toml:2: not TOML: "):
        parse("version = 1\nname = [", Path("study.toml"))


def test_a_table_in_place_of_a_study_leads_to_init() -> None:
    found = r"it is a table: `sweeper init --data '/my rows/a\.csv'` writes a study for it"
    with pytest.raises(StudyError, match=found):
        parse("size,kind\n1,2\n", Path("/my rows/a.csv"))


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="no such file"):
        load(tmp_path / "study.toml")


def test_an_unreadable_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_bytes(b"\xff\xfe")
    for path in (tmp_path, tmp_path / "study.toml"):
        with pytest.raises(StudyError, match="cannot be read"):
            load(path)


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ('optimizer.lr = { type = "float", low = 1e-4, high = 1e-2, log = True }', "write true"),
        ("stratify = False  # not", "write false"),
        ("flags = [true, False]", "write false"),
        ("timeout = None", "remove it"),
        ("dropout = .5", "write 0.5"),
        ("lr = 1.e-3  # small", "write 1.0e-3"),
        ("optimizer.lr = { low = -5., high = 1 }", "write -5.0"),
        ("n_trials = 1,000", "write 1000 or 1.000"),
        ("n_parameters = 1,000,000", "write 1000000"),
        ("model.width = { low = 8, high = 1,024 }", "write 1024 or 1.024"),
        ("lr = 0,001", "write 0.001"),
        ("lr = 1,0000", "write 1.0000"),
        ('sampler = { name = "#1", seed = .5 }', "write 0.5"),
        ("choices = [01, 2]", "write 1"),
        ("optimizer.lr = { low = 0,5, high = 1 }", "write 0.5"),
        ("choices = [.1, .5]", "write 0.1"),
        ("choices = [0.1, -1.]", "write -1.0"),
        ("choices = [ .1,\n  .5,\n]", "write 0.1"),
        ("seed = 007", "write 7"),
        ("share = 5 %  # = .5", "write key = value, with text in quotes"),
        ('name = "x = True" y', "write key = value, with text in quotes"),
    ],
)
def test_values_of_other_languages_get_a_hint_for_toml(line: str, hint: str) -> None:
    with pytest.raises(StudyError) as caught:
        parse(f"version = 1\n{line}\n", Path("study.toml"))
    (problem,) = caught.value.problems
    assert (problem.where, problem.hint) == ("study.toml:2", hint)


BRACKETS = "write the name of a table in brackets alone on its line, such as [search]"
QUOTES = "end the text with the quote that it begins with"


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("[search", BRACKETS),
        ("[[study.enqueue]", BRACKETS),
        ("[search]]", BRACKETS),
        ("[search] lr = 1", BRACKETS),
        ("metrics = [1 2]", "write commas between values, and ] after the last one"),
        ("data = { source = 1", "write it on one line, with commas between settings"),
        ('name = "iris', QUOTES),
        ('name = "a=.5', QUOTES),
        ("name = iris", "write key = value, with text in quotes"),
    ],
)
def test_brackets_and_quotes_that_do_not_match_get_their_own_hint(line: str, hint: str) -> None:
    with pytest.raises(StudyError) as caught:
        parse(f"version = 1\n{line}\nepochs = 3\n", Path("study.toml"))
    (problem,) = caught.value.problems
    assert problem.where == "study.toml:2"
    assert problem.hint.startswith(hint)


OPTIMIZERS_DRAWN = """\
optimizer.name = { type = "categorical", choices = ["adam", "sgd", "RAdam"] }
optimizer.momentum = { type = "float", low = 0.0, high = 0.9, when = { "optimizer.name" = "sgd" } }
"""


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ("[search]", f"[search]\n{OPTIMIZERS_DRAWN}", "search.optimizer.name.choices"),
        ("n_trials = 8", "n_trials = 8\nstop.valeu = 0.9", "study.stop.valeu"),
        (
            "[data]",
            '[[study.constraints]]\nmetric = "val_loss"\nmaxx = 1.0\n[data]',
            "study.constraints.0.maxx",
        ),
        ("epochs = 4", "epoch = 4", "train.epoch"),
        ("[train]", "[traning]", "traning"),
        (
            "lr = 1e-3",
            "lr = 1e-3\nschedule = { nam = 'cosine', end = 0.1 }",
            "optimizer.schedule.nam",
        ),
        ("low = 1, high = 3", "low = 1, hihg = 3", "search.model.depth.hihg"),
        ("low = 1, high = 3", "low = 1, high = -3", "search.model.depth.high"),
        ("[search]\nmodel.depth", "[search]\nmodel = 3\n#", "search.model"),
        ("[search]", "[[study.enqueue]]\ndepth = 1\n[serch]", "serch"),
    ],
)
def test_one_mistake_is_one_problem(old: str, new: str, key: str, refused: Refused) -> None:
    assert [problem.key for problem in refused(old, new)] == [key]


@pytest.mark.parametrize(
    ("override", "hint"),
    [
        ("optimizer.lr=1.e-3", "write 1.0e-3"),
        ("optimizer.lr=.5", "write 0.5"),
        ("optimizer.lr=0,5", "write 0.5"),
        ("optimizer.lr=1,000", "write 1000 or 1.000"),
        ("optimizer.lr=[.1]", "write 0.1"),
        ("search.optimizer.lr={type='float',low=.1,high=1.}", "write 0.1"),
        ("study.n_trials=1,000", "write 1000"),
        ("study.n_trials=+010", "write +10"),
        ("study.n_trials=.5", "write an integer"),
        ("optimizer.lr=fast", "write a number"),
    ],
)
def test_an_override_that_is_not_a_toml_number_gets_a_hint(override: str, hint: str) -> None:
    key, _, value = override.partition("=")
    text = 'version = 1\noptimizer.name = "adam"\n'
    for given_by in (COMMAND_LINE, IN_PYTHON):
        with pytest.raises(StudyError) as caught:
            parse(text, Path("study.toml"), [override], given_by)
        (problem,) = (one for one in caught.value.problems if one.key == key)
        assert problem.found.removeprefix("'").startswith(value)
        assert problem.hint == hint
