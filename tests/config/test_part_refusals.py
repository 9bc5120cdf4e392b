"""Errors in parts, their losses, phases and optimizers are named by line and key."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeper.config import parse
from sweeper.errors import Problem, StudyError
from tests.small_studies import PARTS

LOSSES = PARTS[PARTS.index("[train.losses.data]") : PARTS.index("[train.phases.fit]")]
PHASES = PARTS[PARTS.index("[train.phases.fit]") : PARTS.index("[search]")]
OPTIMIZER = '[optimizer]\nname = "adam"\n'
EACH = "".join(f'[optimizer.{part}]\nname = "adam"\n' for part in "abc")
C, THREE = "[model.c]", "[model.c]\nout_size = 3"
SIZES = PARTS[PARTS.index(C) : PARTS.index("[train.phases.fit]")]

# the replaced text, its replacement; then line, key, found and fix of the only problem
BROKEN = {
    "an unknown part that feeds another": (
        ('[model.c]\ninput = "a"', '[model.c]\ninput = "aa"'),
        (22, "model.c.input", "no part 'aa'", "did you mean 'a'?"),
    ),
    "a part that feeds itself": (
        ("out_size = 4", 'out_size = 4\ninput = "a"'),
        (17, "model.a.input", "'a' feeds 'a', which feeds 'a'", "let the data feed one of them"),
    ),
    "a setting next to parts": (
        ("[model.a]", "[model]\nwidth = 4\n[model.a]"),
        (
            14,
            "model.width",
            "a setting next to parts",
            "write it in one of the parts, [model.a]",
        ),
    ),
    "an unknown kind of part": (
        ("[model.a]", '[model.a]\nkind = "mpl"'),
        (14, "model.a.kind", "no model 'mpl'", "did you mean 'mlp'?"),
    ),
    "an unknown setting of a part": (
        ("[model.b]", "[model.b]\nwidht = 4"),
        (18, "model.b.widht", "no such setting", "did you mean 'model.b.width'?"),
    ),
    "a part without a size": (
        ("out_size = 4\n", ""),
        (
            13,
            "model.a.out_size",
            "missing, and no loss determines the size of 'a'",
            "write out_size = ...",
        ),
    ),
    "a part that no loss depends on": (
        ("[model.c]", '[model.d]\ninput = "b"\ndepth = 1\nwidth = 4\n[model.c]'),
        (
            21,
            "model.d",
            "no loss depends on this part, so nothing trains it",
            "remove it, or add a loss that uses it",
        ),
    ),
    "a size that the data determine": (
        ("[model.b]", "[model.b]\nout_size = 4"),
        (
            18,
            "model.b.out_size",
            "4, but the loss data compares 'b' with the data",
            "remove it: the data determines the size",
        ),
    ),
    "a size that the part before tells": (
        ("[model.b]", "[model.b]\nin_size = 4"),
        (18, "model.b.in_size", "4, but the input of 'b' is the output of 'a'", "remove it"),
    ),
    "a size that the data determine in part": (
        (C, THREE),
        (
            22,
            "model.c.out_size",
            "3, but the loss follow compares 'c' with 'b', whose size the data determines",
            "remove it: the data determines the size",
        ),
    ),
    "a size that the data determine twice": (
        (SIZES, f'{SIZES.replace(C, THREE)}[train.losses.hard]\nof = "c"\nkind = "mse"\n'),
        (
            22,
            "model.c.out_size",
            "3, but the loss follow compares 'c' with 'b', whose size the data determines",
            "remove it: the data determines the size",
        ),
    ),
    "sizes that cannot be compared": (
        (SIZES, SIZES.replace(C, THREE).replace('against = "b"', 'against = "a"')),
        (
            40,
            "train.losses.follow",
            "outputs of 'c': 3, of 'a': 4",
            "write the same out_size for both",
        ),
    ),
    "a name of two words": (
        ("[model.c]", '[model."c 1"]'),
        (
            21,
            "model.c 1",
            "'c 1' cannot be a name",
            "write only letters, digits and '_', starting with a letter",
        ),
    ),
    "a name that begins with _": (
        ("[model.c]", "[model._c]"),
        (
            21,
            "model._c",
            "'_c' cannot be a name",
            "write only letters, digits and '_', starting with a letter",
        ),
    ),
    "a part named as the data": (
        ("[model.c]", "[model.y]"),
        (21, "model.y", "'y' is a reserved word", "write another name"),
    ),
    "a part named as what every optimizer has": (
        ("[model.c]", "[model.schedule]"),
        (21, "model.schedule", "'schedule' is a reserved word", "write another name"),
    ),
    "a part named as an attribute": (
        ("[model.c]", "[model.parts]"),
        (21, "model.parts", "'parts' is a reserved word", "write another name"),
    ),
    "a loss named as an attribute": (
        ("[train.losses.follow]", "[train.losses.recipe]"),
        (39, "train.losses.recipe", "'recipe' is a reserved word", "write another name"),
    ),
    "a phase with a dot in its name": (
        ("[train.phases.follow]", '[train.phases."fol.low"]'),
        (
            49,
            "train.phases.fol.low",
            "'fol.low' cannot be a name",
            "write only letters, digits and '_', starting with a letter",
        ),
    ),
    "a loss of an unknown part": (
        ('of = "c"', 'of = "d"'),
        (40, "train.losses.follow.of", "no part 'd'", "the parts are a, b, c"),
    ),
    "a loss against an unknown part": (
        ('against = "b"', 'against = "bb"'),
        (41, "train.losses.follow.against", "no part 'bb'", "did you mean 'b'?"),
    ),
    "a loss that compares a part with itself": (
        ('against = "b"', 'against = "c"'),
        (
            41,
            "train.losses.follow.against",
            "'c' is compared with itself",
            'write "y", or another part',
        ),
    ),
    "a loss of classes against a part": (
        ('against = "b"\nkind = "mse"', 'against = "b"\nkind = "cross_entropy"'),
        (
            42,
            "train.losses.follow.kind",
            "cross_entropy is for classes, but the output of 'b' is numbers",
            "write one of mse, mae, huber",
        ),
    ),
    "an unknown kind of loss": (
        ('against = "b"\nkind = "mse"', 'against = "b"\nkind = "msee"'),
        (
            42,
            "train.losses.follow.kind",
            "no loss 'msee'",
            "did you mean 'mse'?",
        ),
    ),
    "losses of the data that do not agree on it": (
        ('against = "b"\nkind = "mse"', 'against = "y"\nkind = "cross_entropy"'),
        (
            42,
            "train.losses.follow.kind",
            "cross_entropy is for classes, but the loss data is for numbers",
            "write a loss for numbers",
        ),
    ),
    "no losses": (
        (
            LOSSES,
            "",
        ),
        (29, "train.losses", "missing", "write [train.losses.NAME]"),
    ),
    "no loss of the data": (
        ('of = "b"\nkind', 'of = "b"\nagainst = "a"\nkind'),
        (36, "train.losses", 'no loss is against "y"', 'write against = "y" in one of them'),
    ),
    "a loss of your own that does not tell the task": (
        ('of = "b"\nkind = "mse"', 'of = "b"\nkind = "mine:loss"'),
        (
            29,
            "train.task",
            "missing, and 'mine:loss' does not determine what the target is",
            'write task = "classes" or "numbers"',
        ),
    ),
    "a task of another loss": (
        ("cycle =", 'task = "classes"\ncycle ='),
        (34, "train.task", "the loss data is for numbers", 'write "numbers", or another loss'),
    ),
    "no phases": (
        (
            PHASES,
            "",
        ),
        (29, "train.phases", "missing", "write [train.phases.NAME]"),
    ),
    "a phase of an unknown loss": (
        ('loss = "follow"', 'loss = "folow"'),
        (51, "train.phases.follow.loss", "no loss 'folow'", "the losses are data, follow"),
    ),
    "a phase that trains an unknown part": (
        ('trains = ["c"]', 'trains = ["cc"]'),
        (52, "train.phases.follow.trains", "no part 'cc'", "did you mean 'c'?"),
    ),
    "a phase that trains what its loss does not reach": (
        ('trains = ["c"]', 'trains = ["c", "b"]'),
        (
            52,
            "train.phases.follow.trains",
            "the loss follow does not depend on 'b'",
            "write some of a, c",
        ),
    ),
    "a phase that trains nothing": (
        ('trains = ["c"]', "trains = []"),
        (52, "train.phases.follow.trains", "an array is empty", "write 1 or more"),
    ),
    "a phase that trains a part twice": (
        ('trains = ["c"]', 'trains = ["c", "c"]'),
        (52, "train.phases.follow.trains", "a part is named twice", "remove one of the two"),
    ),
    "a phase not in any cycle": (
        ('cycle = ["fit", "follow"]', 'cycle = ["fit"]'),
        (49, "train.phases.follow", "not in any cycle", "add it to train.cycle"),
    ),
    "an unknown phase in the cycle": (
        ('cycle = ["fit", "follow"]', 'cycle = ["fit", "follow", "fitt"]'),
        (34, "train.cycle", "no phase 'fitt'", "the phases are fit, follow"),
    ),
    "a warm-up of an unknown phase": (
        ('phase = "fit"', 'phase = "fitt"'),
        (33, "train.warmup.phase", "no phase 'fitt'", "the phases are fit, follow"),
    ),
    "an unknown setting of a phase": (
        ('trains = ["c"]', 'trains = ["c"]\nepohcs = 3'),
        (
            53,
            "train.phases.follow.epohcs",
            "no such setting",
            "did you mean 'train.phases.follow.epochs'?",
        ),
    ),
    "a phase without a rate": (
        ('trains = ["c"]\nlr = 1e-3', 'trains = ["c"]'),
        (26, "optimizer.lr", "missing", "write lr = ..., or train.phases.follow.lr"),
    ),
    "an unknown way to switch": (
        ("cycle =", 'switching = "switch"\ncycle ='),
        (34, "train.switching", "no switching 'switch'", "write one of cond, flag, separate"),
    ),
    "a metric that is not reported": (
        ('metric = "val_loss_data"', 'metric = "val_loss_fit"'),
        (
            5,
            "study.metric",
            "'val_loss_fit' is not reported",
            "did you mean 'val_loss_data'?",
        ),
    ),
    "an early stop by a metric that is not reported": (
        ("cycle =", 'early_stop = { metric = "val_loss", patience = 2 }\ncycle ='),
        (
            34,
            "train.early_stop.metric",
            "'val_loss' is not reported",
            "did you mean 'val_loss_data'?",
        ),
    ),
    "a metric of classes": (
        ("cycle =", 'metrics = ["accuracy"]\ncycle ='),
        (
            34,
            "train.metrics",
            "accuracy does not fit the loss mse",
            "write some of r2, rmse, mae, mape",
        ),
    ),
    "a metric named twice": (
        ("cycle =", 'metrics = ["r2", "r2"]\ncycle ='),
        (34, "train.metrics", "a metric is named twice", "remove one of the two"),
    ),
    "a metric named as a loss": (
        ("cycle =", 'metrics = ["mine:loss_data"]\ncycle ='),
        (34, "train.metrics", "'loss_data' is always reported", "give the function another name"),
    ),
    "an optimizer of no part": (
        (
            OPTIMIZER,
            '[optimizer.d]\nname = "adam"\n' + EACH,
        ),
        (26, "optimizer.d", "no part 'd'", "the parts are a, b, c"),
    ),
    "a part without an optimizer": (
        (
            OPTIMIZER,
            '[optimizer.a]\nname = "adam"\n[optimizer.b]\nname = "adam"\n',
        ),
        (26, "optimizer", "none for 'c'", "write [optimizer.c]"),
    ),
    "a setting next to optimizers": (
        (
            OPTIMIZER,
            "[optimizer]\nlr = 1e-3\n" + EACH,
        ),
        (
            27,
            "optimizer.lr",
            "a setting next to the optimizers of parts",
            "write it in the table of a part",
        ),
    ),
    "an optimizer without a name": (
        (
            OPTIMIZER,
            EACH.replace('b]\nname = "adam"', "b]\nlr = 1e-3"),
        ),
        (
            28,
            "optimizer.b.name",
            "missing",
            'write one of adam, adamw, rmsprop, lion, sgd, adafactor, or "module:function"',
        ),
    ),
    "an unknown optimizer of a part": (
        (
            OPTIMIZER,
            EACH.replace('b]\nname = "adam"', 'b]\nname = "adm"'),
        ),
        (
            29,
            "optimizer.b.name",
            "no optimizer 'adm'",
            "did you mean 'adam'?",
        ),
    ),
    "a search of what feeds a part": (
        ("[execution]", 'model.b.input = { type = "categorical", choices = ["a"] }\n[execution]'),
        (
            58,
            "search.model.b.input",
            "must be the same for every trial",
            "write it only in [model]",
        ),
    ),
    "a search of a phase's loss": (
        (
            "[execution]",
            'train.phases.fit.loss = { type = "categorical", choices = ["data"] }\n[execution]',
        ),
        (
            58,
            "search.train.phases.fit.loss",
            "must be the same for every trial",
            "write it only in [train]",
        ),
    ),
    "a search of the way to switch": (
        (
            "[execution]",
            'train.switching = { type = "categorical", choices = ["cond", "flag"] }\n[execution]',
        ),
        (
            58,
            "search.train.switching",
            "must be the same for every trial",
            "write it only in [train]",
        ),
    ),
    "a search of an unknown part": (
        ("[execution]", 'model.d.width = { type = "int", low = 1, high = 2 }\n[execution]'),
        (58, "search.model.d.width", "no such setting", "did you mean 'model.a.width'?"),
    ),
}


def refused(old: str, new: str) -> tuple[Problem, ...]:
    """The problems of the valid study after `old` is replaced by `new`."""
    assert old in PARTS
    with pytest.raises(StudyError) as refusal:
        parse(PARTS.replace(old, new, 1), Path("study.toml"))
    return refusal.value.problems


def between(first: str, last: str) -> str:
    """The text of the study from the line `first` up to the line `last`."""
    return PARTS[PARTS.index(first) : PARTS.index(last)]


@pytest.mark.parametrize("what", BROKEN)
def test_settings_that_contradict_each_other_are_refused(what: str) -> None:
    replaced, (line, key, found, hint) = BROKEN[what]
    assert refused(*replaced) == (Problem(f"study.toml:{line}", key, found, hint),)


def test_parts_that_feed_each_other_are_refused() -> None:
    problems = refused("out_size = 4", 'out_size = 4\ninput = "b"')

    assert [str(problem) for problem in problems] == [
        "study.toml:17: model.a.input: 'a' feeds 'b', which feeds 'a'; let the data feed one of "
        "them",
        "study.toml:19: model.b.input: 'b' feeds 'a', which feeds 'b'; let the data feed one of "
        "them",
    ]


def test_phases_need_parts() -> None:
    problems = refused(between("[model.a]", "[optimizer]"), "[model]\ndepth = 1\nwidth = 8\n\n")

    assert str(problems[0]) == (
        "study.toml:13: model: one model, but the program alternating trains parts; write a "
        "table [model.NAME] for each part"
    )


def test_supervised_refuses_parts() -> None:
    tables = between("[train]", "[search]")
    (problem,) = (
        problem
        for problem in refused(tables, '[train]\nloss = "mse"\nepochs = 4\nbatch_size = 64\n\n')
        if problem.key == "model"
    )

    assert str(problem) == (
        "study.toml:13: model: several parts, but the program supervised trains one model; "
        'write train.program = "alternating" or "coupled", or one [model]'
    )


def test_the_study_of_parts_is_valid() -> None:
    train = parse(PARTS, Path("study.toml")).train

    phases = [train.phase_at(epoch) for epoch in range(1, 10)]  # type: ignore[union-attr]
    assert phases == [*["fit"] * 5, "follow", "fit", "fit", "follow"]


def test_arguments_of_a_parts_function_can_be_searched() -> None:
    own = '[model.c]\nkind = "python"\nfunction = "heads:build"\nlayers = 1'
    search = "[search]\nmodel.c.layers = { type = 'int', low = 1, high = 3 }"
    text = PARTS.replace("[model.c]", own).replace("depth = 1\nwidth = 6\n\n[opt", "\n[opt")

    config = parse(text.replace("[search]", search), Path("study.toml"))

    assert config.structural["model.c.layers"]
    assert config.settings_of({"layers": 3}).structure()["model.c.layers"] == 3
    assert config.settings_of({}).structure()["model.c.layers"] == 1


def test_each_part_may_have_an_optimizer_without_a_rate() -> None:
    """If each phase has one."""
    config = parse(PARTS.replace(OPTIMIZER, EACH), Path("study.toml"))
    assert list(config.each("optimizer")) == ["optimizer.a", "optimizer.b", "optimizer.c"]


def test_an_unpadded_class_has_no_sizes_of_parts() -> None:
    room = '[trial]\nnumber = 0\nepochs = 4\n[trial.class]\nstrategy = "exact"\nlane_loop = "map"'
    sizes = "capacity = 1\nepochs = 12\nsizes = { a = [9, 2] }\n"
    text = PARTS.replace("n_trials = 4", "n_trials = 1")
    text = text[: text.index("[search]")] + f"{room}\n{sizes}"
    with pytest.raises(StudyError) as refusal:
        parse(text, Path("study.toml"))

    (problem,) = refusal.value.problems
    assert (problem.key, problem.hint) == ("trial.class.sizes", "remove it")
