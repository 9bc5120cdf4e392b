"""A lane whose values become infinite or NaN ends its trial, without affecting others.

A weight decay far above 1 / lr multiplies the weights in each step; the factor determines when they
overflow.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

import sweeper
from sweeper.errors import NoTrialError, StudyError
from sweeper.export import export
from sweeper.results.read import Results
from tests.crashes import HEAD, SUPERVISED
from tests.in_process import study_in, trained
from tests.small_studies import COUPLED, PARTS, bent, write_mixture

LATE, AT_ONCE = 1e5, 1e14  # times 1e-2, the rate
ENDED = "PRUNED", "diverged"
ONE_ROUND = "schedule={parallel=64,round_epochs=2}"
DECAY = "{type='float',low=0,high=1e15}"
IRIS = bent(
    f'{HEAD}metric = "val_loss"\n{SUPERVISED.partition(chr(10))[2]}',
    "study.pruner={name='none'}",
    "optimizer={name='sgd',lr=1e-2}",
    "search={}",
    f"search.optimizer.weight_decay={DECAY}",
    ONE_ROUND,
    "execution={threads=1,workers=0,strategy='exact'}",
)
WIDTHS = (
    "execution.strategy='padded'",
    "search.model.width={type='categorical',choices=[3,4]}",
    "search.model.depth={type='int',low=1,high=2}",
)
TURNS = bent(
    PARTS,
    "train.warmup={phase='fit',epochs=2}",
    "train.cycle=['follow','fit']",
    "train.epochs=6",
    "search={}",
    "search.train.phases.follow.lr={type='float',low=1e-4,high=1e36}",
    "search.train.phases.fit.lr={type='float',low=1e-4,high=1e36,name='fit_lr'}",
    ONE_ROUND,
    "execution={threads=1,workers=0,strategy='exact'}",
)
GAME = bent(
    COUPLED,
    "train={program='coupled',objective='gan',epochs=4,batch_size=16}",
    "optimizer={generator={name='sgd',lr=1e-2},critic={name='sgd',lr=1e-2}}",
    "search={}",
    f"search.optimizer.generator.weight_decay={DECAY}",
    f"search.optimizer.critic.weight_decay={DECAY[:-1]},name='critic_decay'}}",
    ONE_ROUND,
)
OWN = """
import jax.numpy as jnp
import optax

def right(outputs, y):
    return jnp.mean(jnp.argmax(outputs, 1) == y)

def odd(outputs, y):
    is_large = jnp.max(jnp.abs(outputs)) > 1e5
    return jnp.where(is_large, jnp.nan, jnp.mean(jnp.argmax(outputs, 1) == y))

def kinked(outputs, y):
    largest = jnp.max(jnp.abs(outputs))
    is_large = largest > 1e8
    # the root of a number that is 0: its slope there is not finite
    root = jnp.sqrt(jnp.where(is_large, largest - largest, 1.0))
    plain = optax.softmax_cross_entropy_with_integer_labels(outputs, y).mean()
    return plain + jnp.where(is_large, root, 0.0)
"""
SLOW_MAP, SLOW_VMAP = (pytest.param(loop, marks=pytest.mark.slow) for loop in ("map", "vmap"))
Params = Mapping[str, float]


def run(directory: Path, text: str, trials: Sequence[Params], *settings: str) -> Results:
    """The results of a study of only these trials."""
    directory.mkdir(exist_ok=True)
    write_mixture(directory)
    (directory / "own.py").write_text(OWN, encoding="utf-8")
    enqueued = ",".join(
        f"{{{','.join(f'{name}={json.dumps(value)}' for name, value in trial.items())}}}"
        for trial in trials
    )
    own = f"study.n_trials={len(trials)}", f"study.enqueue=[{enqueued}]"
    return trained(study_in(directory, bent(text, *own, *settings)))


def decays(count: int, bad: Mapping[int, float]) -> list[Params]:
    return [{"weight_decay": bad.get(number, 1e-3 * number)} for number in range(count)]


def companions(results: Results, but: set[int]) -> list[list[object]]:
    """Every value that the trials except these measured."""
    metrics = results.metrics().drop(columns="elapsed_s")
    kept = metrics[~metrics["trial_number"].isin(but)]
    kept = kept.sort_values(["trial_number", "epoch", "metric"])
    return kept.astype(object).where(kept.notna(), None).to_numpy().tolist()


def ends(results: Results) -> dict[int, tuple[object, ...]]:
    """State, reason and first bad epoch of each trial that is not complete."""
    trials = results.trials().set_index("trial_number")
    trials = trials[trials["state"] != "COMPLETE"]
    columns = trials[["state", "reason", "diverged_epoch"]]
    assert trials["value"].isna().all() and trials["error_type"].isna().all()
    assert (trials["epochs_done"] == trials["diverged_epoch"]).all()
    last = results.metrics().groupby("trial_number")["epoch"].max()
    assert (last[trials.index] == trials["diverged_epoch"]).all()
    assert not set(trials.index) & set(results.best(100)["trial_number"])
    return {
        number: tuple(row) for number, row in zip(trials.index, columns.to_numpy(), strict=True)
    }


def measured(results: Results, number: int, epoch: int) -> dict[str, float | None]:
    """The metrics of a trial after an epoch."""
    metrics = results.metrics()
    its = metrics[(metrics["trial_number"] == number) & (metrics["epoch"] == epoch)]
    values = its["value"].astype(object).where(its["value"].notna(), None)
    return dict(zip(its["metric"], values, strict=True))


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Results]:
    """A study in which nothing diverges, by its settings."""
    known: dict[object, Results] = {}

    def once(text: str, trials: Sequence[Params], *settings: str) -> Results:
        key = text, repr(trials), settings
        if key not in known:
            known[key] = run(tmp_path_factory.mktemp("plain"), text, trials, *settings)
        return known[key]

    return once


@pytest.mark.parametrize("lane_loop", [SLOW_MAP, "vmap"])
def test_two_of_64_lanes_diverge_without_affecting_the_others(
    lane_loop: str, plain: Callable[..., Results], tmp_path: Path
) -> None:
    loop, bad = f"execution.lane_loop='{lane_loop}'", {17: LATE, 40: AT_ONCE}
    results = run(tmp_path, IRIS, decays(64, bad), loop)
    assert ends(results) == {17: (*ENDED, 3), 40: (*ENDED, 1)}
    without = plain(IRIS, decays(64, {}), loop)
    assert companions(results, {17, 40}) == companions(without, {17, 40})


def test_all_lanes_can_diverge(tmp_path: Path) -> None:
    results = run(tmp_path, IRIS, decays(8, dict.fromkeys(range(8), AT_ONCE)))
    assert ends(results) == dict.fromkeys(range(8), (*ENDED, 1))
    assert len(results.best(8)) == 0


@pytest.mark.parametrize("lane_loop", ["map", SLOW_VMAP])
def test_a_padded_lane_diverges_without_the_others(
    lane_loop: str, plain: Callable[..., Results], tmp_path: Path
) -> None:
    def trials(bad: Mapping[int, float]) -> list[Params]:
        sizes = [{"width": 3 + n % 2, "depth": 1 + n // 4} for n in range(8)]
        return [size | decay for size, decay in zip(sizes, decays(8, bad), strict=True)]

    settings, bad = (*WIDTHS, f"execution.lane_loop='{lane_loop}'"), {2: LATE, 7: AT_ONCE}
    results = run(tmp_path, IRIS, trials(bad), *settings)
    assert set(results.trials()["strategy"]) == {"padded"}
    assert ends(results) == {2: (*ENDED, 3), 7: (*ENDED, 1)}
    without = plain(IRIS, trials({}), *settings)
    assert companions(results, {2, 7}) == companions(without, {2, 7})


@pytest.mark.slow
@pytest.mark.parametrize("lane_loop", ["map", "vmap"])
def test_one_phase_diverges(lane_loop: str, plain: Callable[..., Results], tmp_path: Path) -> None:
    good = {"lr": 1e-3, "fit_lr": 1e-3}
    trials = [good, {**good, "lr": 1e35}, good, {**good, "fit_lr": 1e35}]
    loop = f"execution.lane_loop='{lane_loop}'"
    results = run(tmp_path, TURNS, trials, loop)
    assert ends(results) == {1: (*ENDED, 3), 3: (*ENDED, 1)}
    last = measured(results, 1, 3)
    # the trunk and the head of the data do not change in that phase
    assert last["val_loss_data"] == measured(results, 1, 2)["val_loss_data"]
    assert last["val_loss_follow"] is None
    without = plain(TURNS, [good] * 4, loop)
    assert companions(results, {1, 3}) == companions(without, {1, 3})


@pytest.mark.slow
def test_one_model_of_several_diverges(plain: Callable[..., Results], tmp_path: Path) -> None:
    good = {"weight_decay": 1e-3, "critic_decay": 1e-3}
    trials = [good, {**good, "weight_decay": AT_ONCE}, {**good, "critic_decay": AT_ONCE}, good]
    results = run(tmp_path, GAME, trials)
    assert ends(results) == {1: (*ENDED, 1), 2: (*ENDED, 1)}
    assert companions(results, {1, 2}) == companions(plain(GAME, [good] * 4), {1, 2})


def test_an_objective_that_is_not_finite_ends_a_trial_with_finite_losses(
    tmp_path: Path,
) -> None:
    odd = "train.metrics=['own:odd']", "study.direction=maximize"
    trials = decays(4, {2: LATE})
    judged = run(tmp_path / "judged", IRIS, trials, *odd, "study.metric=val_odd")
    assert ends(judged) == {2: (*ENDED, 1)}
    last = measured(judged, 2, 1)
    assert last["val_odd"] is None and None not in (last["train_loss"], last["val_loss"])
    # if it is only reported it ends no trial
    reported = run(tmp_path / "reported", IRIS, trials, odd[0])
    assert ends(reported) == {2: (*ENDED, 3)}
    assert measured(reported, 2, 1)["val_odd"] is None


@pytest.mark.parametrize("metric", ["accuracy", "own:right"])
def test_the_epoch_in_which_a_trial_diverges_is_not_reported(metric: str, tmp_path: Path) -> None:
    """If all outputs are NaN, every example counts as the first class, which is the best here."""
    name = f"val_{metric.removeprefix('own:')}"
    how = (
        f"train.metrics=['{metric}']",
        f"study.metric='{name}'",
        "study.direction='maximize'",
        "study.pruner={name='halving',min_resource=1,reduction_factor=2}",
        "train.epochs=3",
    )
    results = run(tmp_path, IRIS, decays(2, {0: AT_ONCE}), *how)
    assert ends(results) == {0: (*ENDED, 1)}
    assert results.trials()["best_value"].isna().tolist() == [True, False]
    if metric == "accuracy":
        assert measured(results, 0, 1)[name] is None
    # a study continues under the rules that it began with
    earlier = run(tmp_path / "earlier", IRIS, decays(2, {0: AT_ONCE}), *how, "edition=3")
    assert earlier.trials()["reason"].tolist() == ["diverged", "pruned"]
    assert measured(earlier, 0, 1)[name] == earlier.trials()["best_value"][0]


@pytest.mark.slow
def test_a_gradient_that_is_not_finite_ends_a_trial_after_a_finite_loss(
    plain: Callable[..., Results], tmp_path: Path
) -> None:
    # one step per epoch: its loss is computed before the step, those on validation rows after it
    kinked = "train.loss='own:kinked'", "train.task='classes'", "train.batch_size=100"
    how = *kinked, "study.value='best'"
    results = run(tmp_path, IRIS, decays(4, {1: LATE}), *how)
    assert ends(results) == {1: (*ENDED, 3)}
    last = measured(results, 1, 3)
    assert last["train_loss"] is not None and last["val_loss"] is None
    assert companions(results, {1}) == companions(plain(IRIS, decays(4, {}), *how), {1})


def test_no_model_of_a_study_that_only_diverged_is_promised(tmp_path: Path) -> None:
    config = study_in(tmp_path, IRIS, "study.n_trials=2", "search={}", "optimizer.lr=1e30")
    results = trained(config)
    assert {*results.trials()["reason"]} == {"diverged"}
    run_dir = results.run_dir.root
    for number, found in (
        (None, "no trial is complete, so none is the best"),
        (0, "it ended early (diverged), and only those of complete trials are"),
    ):
        with pytest.raises(StudyError) as refusal:
            export(run_dir, number, 0, tmp_path / "best")
        message = str(refusal.value)
        assert found in message
        assert "use a finished trial" not in message and "keep_models" not in message
        assert "change the study, such as its learning rates, or run more trials" in message


def test_without_a_complete_trial_commands_that_need_the_best_end_with_code_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    few = "study.n_trials=2", "search={}", "optimizer.lr=1e30"
    run_dir = trained(study_in(tmp_path, IRIS, *few)).run_dir.root
    for words in (["best"], ["show"], ["confirm"], ["trial"], ["refit"], ["ensemble"]):
        with pytest.raises(NoTrialError, match=r"no trial (is complete|completed), ") as refusal:
            sweeper.command(*words, str(run_dir))
        assert refusal.value.exit_code == 1
        assert f"`python -m sweeper trials {run_dir}` shows why each trial ended" in str(
            refusal.value
        )
    sweeper.command("trials", str(run_dir))
    assert "diverged" in capsys.readouterr().out
