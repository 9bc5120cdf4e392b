"""Settings that a user probably did not intend are reported before the study starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeper.config import parse
from sweeper.config.lint import file_warnings, study_hints
from tests.config.conftest import Read
from tests.small_studies import PARTS

CONSTRAINED = "[[study.constraints]]\nmetric = 'n_parameters'\nmax = 100\n\n[data]"


def test_searching_the_worst_end_of_a_metric_is_reported(read: Read) -> None:
    assert file_warnings(read()) == ()
    assert file_warnings(read('"minimize"', '"maximize"')) == (
        "the study is set to maximize val_loss, but the other direction is usual",
    )


def test_overriding_a_searched_setting_is_reported(read: Read) -> None:
    (told,) = file_warnings(read("", "", "model.depth=3"))
    assert told.startswith("--set model.depth changes nothing: every trial draws its own value")
    one = """search.model.depth={type="categorical",choices=[3]}"""
    assert one.replace("[3]", "[VALUE]") in told
    assert file_warnings(read("", "", one)) == ()


NUMBERS = ("data.name=diabetes", "train.metrics=['r2']")
OWN = (*NUMBERS, "train.loss=parts:poisson", "train.task=numbers")


@pytest.mark.parametrize(
    ("overrides", "setting"),
    [
        (OWN, "train.loss = 'parts:poisson'"),
        ((*OWN, "train.metrics=['parts:poisson']"), "train.loss = 'parts:poisson'"),
        ((*OWN, "data.scale=minmax"), "train.loss = 'parts:poisson'"),
        ((*OWN, "data.scale=none"), None),
        ((*OWN, "data.target_scale=none"), None),
        ((*OWN, "data.target_scale=standard"), None),
        ((*NUMBERS, "train.loss=mse", "train.metrics=['parts:deviance']"), None),
        (("train.loss=parts:focal", "train.task=classes"), None),
        (
            ("data.name=diabetes", "train={program='p:Own',task='numbers',epochs=2,batch_size=8}"),
            "train.program = 'p:Own'",
        ),
    ],
)
def test_code_that_gets_standardized_targets_is_reported_unless_the_file_says_so(
    overrides: tuple[str, ...], setting: str | None, read: Read
) -> None:
    config = read("", "", *overrides)
    found = file_warnings(config)
    assert len(found) == (setting is not None)
    if setting:
        assert found[0].startswith(f"{setting} gets targets that are scaled to mean 0 and ")
        assert 'data.target_scale = "none"' in found[0]
    assert file_warnings(config.as_begun(config.with_parallel(4).canonical())) == ()


def test_only_losses_of_parts_that_see_the_data_are_reported(tmp_path: Path) -> None:
    def warnings(*overrides: str) -> tuple[str, ...]:
        return file_warnings(
            parse(PARTS, tmp_path / "study.toml", ["train.task=numbers", *overrides])
        )

    assert warnings("train.losses.follow.kind=parts:far") == ()
    (found,) = warnings("train.losses.data.kind=parts:far")
    assert found.startswith("train.losses.data.kind = 'parts:far' gets targets that are scaled ")


@pytest.mark.parametrize(("sampler", "heeds"), [("tpe", True), ("cmaes", False)])
def test_constraints_that_the_sampler_ignores_are_reported(
    sampler: str, heeds: bool, read: Read
) -> None:
    bounded = read("[data]", CONSTRAINED, f"study.sampler={{name='{sampler}'}}")
    told = file_warnings(bounded)

    assert (told == ()) is heeds
    assert heeds or told[0].startswith("the sampler cmaes ignores study.constraints ")


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("schedule.parallel=8", True),
        ("schedule.parallel=7", False),
        ("study.sampler.name=random", False),
        ("study.n_trials=1", False),
    ],
)
def test_trials_that_all_start_at_once_get_a_hint(override: str, told: bool, read: Read) -> None:
    config = read("", "", override)
    assert file_warnings(config) == ()
    assert bool(study_hints(config)) is told
    if told:
        (hint,) = study_hints(config)
        assert hint.startswith("schedule.parallel = 8 lets all 8 trials start at once, so tpe ")


DECAY = "optimizer.decay={linear={bias=true}}"
RANGE = "type='float',low=1e-4,high=1e-2,or=[0.0]"


@pytest.mark.parametrize(
    ("overrides", "is_idle"),
    [
        ((DECAY,), True),
        ((DECAY, "optimizer.weight_decay=1e-4"), False),
        ((DECAY, f"search.optimizer.weight_decay={{{RANGE}}}"), False),
        ((), False),
    ],
)
def test_rules_for_a_decay_of_0_are_reported(
    overrides: tuple[str, ...], is_idle: bool, read: Read
) -> None:
    told = file_warnings(read("", "", *overrides))
    assert (told != ()) is is_idle
    assert not told or told == (
        "[optimizer.decay] changes nothing, since optimizer.weight_decay is 0; write e.g. "
        "optimizer.weight_decay = 1e-4",
    )


@pytest.mark.parametrize(
    ("trained_on", "rows"),
    [("train", None), ("train+val", "validation"), ("all", "validation and test")],
)
def test_metrics_of_training_rows_are_reported(
    trained_on: str, rows: str | None, read: Read
) -> None:
    told = file_warnings(read("", "", f"data.split.train_on={trained_on}"))
    assert (told == ()) is (rows is None)
    assert rows is None or told[0].startswith(f"trials train on the {rows} rows, too (")


@pytest.mark.parametrize(
    ("overrides", "is_reported"),
    [
        (("study.folds=3", "model.numbers=ple", "model.bins=tree"), True),
        (("model.numbers=ple", "model.bins=tree"), False),
        (("study.folds=3", "model.numbers=ple"), False),
    ],
)
def test_bins_that_see_the_targets_of_a_folds_validation_rows_are_reported(
    overrides: tuple[str, ...], is_reported: bool, read: Read
) -> None:
    found = file_warnings(read("", "", *overrides))
    assert [one.startswith('model.bins = "tree" fits the bins of all folds') for one in found] == (
        [True] * is_reported
    )


def test_a_part_that_no_loss_depends_on_is_reported() -> None:
    idle = PARTS.replace(
        "[model.c]", '[model.d]\ninput = "b"\ndepth = 1\nwidth = 4\nout_size = 2\n[model.c]'
    )

    assert file_warnings(parse(PARTS, Path("study.toml"))) == ()
    assert file_warnings(parse(idle, Path("study.toml"))) == (
        "no loss depends on model.d, so nothing trains it; remove it",
    )


def test_a_queued_value_that_another_one_forbids_is_reported(read: Read) -> None:
    search = (
        "search.model.activation={type='categorical',choices=['relu','tanh']}",
        "search.model.dropout={type='float',low=0.1,high=0.5,"
        "when={model.depth=[2,3],model.activation='relu'}}",
    )
    queue = "study.enqueue=[{depth=2,dropout=0.3},{depth=1,dropout=0.3},{dropout=0.3}]"
    assert file_warnings(read("", "", *search, queue)) == (
        "study.enqueue.1.model.dropout changes nothing: it is not used with model.depth = 1; "
        "remove one of the two",
    )


@pytest.mark.parametrize("n_trials", [1, 2])
def test_a_queue_longer_than_the_study_is_reported(n_trials: int, read: Read) -> None:
    queue = "study.enqueue=[{'model.depth'=1}, {'model.depth'=2}]"
    told = file_warnings(read("", "", queue, f"study.n_trials={n_trials}"))
    assert told == (
        ()
        if n_trials == 2
        else ("study.enqueue has 2 trials, but study.n_trials = 1 leaves out the last ones",)
    )


@pytest.mark.parametrize(
    ("overrides", "epoch"),
    [
        ([], None),
        (["train.epochs=6"], None),
        (["train.epochs=5"], 6),
        (["train.epochs=5", "train.warmup.phase='follow'"], None),
        (["train.epochs=5", "search.train.warmup.epochs={type='int',low=1,high=9}"], None),
        (["search.train.epochs={type='int',low=1,high=5}"], 6),
    ],
)
def test_a_phase_that_no_trial_reaches_is_reported(overrides: list[str], epoch: int | None) -> None:
    config = parse(PARTS, Path("study.toml"), overrides)
    told = file_warnings(config)
    assert (told == ()) is (epoch is None)
    assert epoch is None or told[0].startswith(
        f"no trial reaches the phase follow, which begins in epoch {epoch}: the last is 5; "
    )


DOUBLE, HIGHEST = "execution.precision=float64", "execution.matmul_precision=highest"


@pytest.mark.parametrize(
    ("variable", "overrides", "setting"),
    [
        ("JAX_ENABLE_X64=1", (), 'execution.precision = "float64"'),
        ("JAX_ENABLE_X64=True", (DOUBLE,), None),
        ("JAX_ENABLE_X64=0", (), None),
        ("JAX_ENABLE_X64=0", (DOUBLE,), 'execution.precision = "float32"'),
        ("JAX_ENABLE_X64=", (DOUBLE,), None),
        ("JAX_DEFAULT_MATMUL_PRECISION=highest", (), 'execution.matmul_precision = "highest"'),
        ("JAX_DEFAULT_MATMUL_PRECISION=float32", (), 'execution.matmul_precision = "highest"'),
        ("JAX_DEFAULT_MATMUL_PRECISION=float32", (HIGHEST,), None),
        ("JAX_DEFAULT_MATMUL_PRECISION=default", (), None),
        ("JAX_DEFAULT_MATMUL_PRECISION=", (HIGHEST,), None),
        (
            "JAX_DEFAULT_MATMUL_PRECISION=TF32_TF32_F32",
            (HIGHEST,),
            'execution.matmul_precision = "high"',
        ),
        ("JAX_DEFAULT_MATMUL_PRECISION=F32_F32_F32", (HIGHEST,), None),
    ],
)
def test_a_precision_in_the_environment_that_studies_ignore_is_reported(
    variable: str,
    overrides: tuple[str, ...],
    setting: str | None,
    read: Read,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(*variable.split("=", 1))
    told = file_warnings(read("", "", *overrides))
    expected = f"{variable} does not apply to studies; write {setting} instead"
    assert told == (() if setting is None else (expected,))
