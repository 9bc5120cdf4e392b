"""Selects trials of a study whose averaged predictions are better than those of the best one.

Greedy forward selection with replacement from the trained models that are kept, as in Caruana et
al. 2004, "Ensemble Selection from Libraries of Models".
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from sweeper.config import StudyConfig
from sweeper.config.comparable import not_averaged
from sweeper.config.load import study_of
from sweeper.data.ahead import preparing
from sweeper.data.dataset import Dataset, SplitName
from sweeper.data.simple_models import Predict, as_outputs, boosted_trees
from sweeper.data.transform import Transform
from sweeper.errors import Problem, StudyError, counted
from sweeper.executors.claims import claim_devices
from sweeper.executors.jax_setup import jax_restored, with_pins
from sweeper.export.directory import refuse_misfit
from sweeper.export.saved_model import in_blocks
from sweeper.models.ensemble import Rescaled
from sweeper.models.user_network import Outputs, each_of
from sweeper.programs.baseline import scoring
from sweeper.programs.build import Programs
from sweeper.programs.data_spec import data_spec
from sweeper.programs.jackknife import GROUPS, grouped_rows, jackknife_error, kept_rows
from sweeper.programs.saved_file import plain_state_of, read_saved
from sweeper.results.ensemble import (
    MOST_CANDIDATES,
    USUAL_SIZE,
    Again,
    EnsembleMember,
    EnsembleRecord,
    Gain,
    write_ensemble,
)
from sweeper.results.listing import Row, TrialRows, read_trials
from sweeper.results.missing_trials import none_complete
from sweeper.results.ranking import gain_sign, is_feasible
from sweeper.rundir import RunDir
from sweeper.sweep.session import backup
from sweeper.sweep.session.ownership import refuse_foreign
from sweeper.sweep.session.reconcile import data_digest
from sweeper.trial import finite

_MOST_ROWS = 1_000_000
_LEAST_ROWS = 20  # in each half of the validation part
_MOST_OF_TREES = 20_000_000  # numbers that boosted trees are fitted to in some seconds
_SHUFFLES, _SHUFFLED_ROWS = 3, 200_000  # of a column, and rows that are predicted in all

# predictions for rows unlike those that a model was trained on may be infinite
_without_warnings = np.errstate(over="ignore", invalid="ignore")

Score = Callable[[NDArray[Any], Any], NDArray[Any]]
"""Of predictions shaped (models, rows, outputs) and targets: shaped (models, 2), a number of each
model to maximise, and one that decides ties; -inf for a model without a value."""


@dataclass(frozen=True, slots=True)
class Targets:
    """The targets of some rows, and the weights of these; None if all count equally."""

    y: NDArray[Any]
    weights: NDArray[Any] | None

    @classmethod
    def of(cls, data: Dataset, split: SplitName) -> Targets:
        """The targets and weights of a split."""
        return cls(data.targets(split), data.weights(split))

    def __getitem__(self, rows: Any) -> Targets:
        return Targets(self.y[rows], None if self.weights is None else self.weights[rows])

    def __len__(self) -> int:
        return len(self.y)

    @property
    def n_counting(self) -> int:
        """How many of the rows count: those whose weight is not 0."""
        return len(self) if self.weights is None else int(np.count_nonzero(self.weights))


@dataclass(frozen=True, slots=True)
class Candidates:
    """The trained models of a study, best first, and their predictions.

    `models` are numbers of trials, each with the indices of members: one, or with folds those of
    all folds, whose mean `predict` returns. Predictions are probabilities or scaled numbers, shaped
    (models, rows, classes or targets); `val` are those for the rows that models are selected by.
    With folds these are the training rows, each predicted by the member that was validated on it.
    `completed` is the number of complete trials of the study, and `best` the best of them.
    """

    models: tuple[tuple[int, tuple[int, ...]], ...]
    predict: tuple[Predict, ...]
    val: NDArray[Any]
    test: NDArray[Any]
    completed: int
    best: int


def select(predictions: NDArray[Any], y: Any, size: int, score: Score) -> list[int]:
    """The indices of the models to average, at most `size`, some perhaps repeated.

    Begins with the best model, and adds the one with which the mean is best, again and again;
    returns the beginning that was best, the shortest of several. `predictions` are shaped
    (models, rows, outputs).
    """
    chosen: list[int] = []
    values: list[tuple[float, float]] = []
    total = np.zeros_like(predictions[0])
    for count in range(1, size + 1):
        found = score((total + predictions) / count, y)
        best = max(range(len(found)), key=lambda index: (*found[index], -index))
        chosen.append(best)
        values.append((float(found[best, 0]), float(found[best, 1])))
        total += predictions[best]
    return chosen[: 1 + max(range(size), key=lambda index: (*map(_rounded, values[index]), -index))]


def _rounded(value: float) -> float:
    """The digits of a score that rounding of sums in single precision does not change."""
    return float(f"{value:.6g}")


def measure_ensemble(
    run_dir: RunDir, size: int | None = None, *, trust_code: bool = False
) -> EnsembleRecord:
    """Select an ensemble of at most `size` of a study's kept models, and measure what it gains.

    Without `size`, as many as the study says in `results.ensemble`, or 20.

    Raises:
        SetupError: nothing was published, kept files are damaged, or code is not trusted.
        StudyError: the study has too few kept models, or none that can be averaged.
        DataError: the data is missing, or has changed.
    """
    with candidates(run_dir, trust_code=trust_code) as (config, data, found):
        most = size or config.results.ensemble or USUAL_SIZE
        return _select_and_measure(config, data, found, most, score_of(config, data))


@contextmanager
def candidates(
    run_dir: RunDir, *, trust_code: bool = False
) -> Iterator[tuple[StudyConfig, Dataset, Candidates]]:
    """The settings and data of a study, and what its kept models predict.

    Raises:
        SetupError, StudyError, DataError: as `measure_ensemble`.
    """
    known = read_trials(run_dir)
    config = study_of(known.study["settings"], Path(known.study["study_file"]), run_dir)
    if not trust_code:
        refuse_foreign(config, run_dir)
    _refuse_unfit(config, run_dir)
    rows = _with_kept_models(config, run_dir, _best(known))
    with preparing(config) as prepared:
        data = prepared()
    _refuse_few(config, run_dir, data)
    _refuse_changed(run_dir, data)
    with jax_restored():
        claim_devices(config)
        yield config, data, _predict_candidates(config, run_dir, data, known, rows, trust_code)


def average(config: StudyConfig, run_dir: RunDir, data: Dataset) -> EnsembleRecord:
    """Select the ensemble of a study that has just ended in this process, and record it.

    Raises:
        StudyError: as `measure_ensemble`.
    """
    _refuse_unfit(config, run_dir)
    known = read_trials(run_dir)
    rows = _with_kept_models(config, run_dir, _best(known))
    _refuse_few(config, run_dir, data)
    found = _predict_candidates(config, run_dir, data, known, rows, trust_code=True)
    size = config.results.ensemble or 1
    record = _select_and_measure(config, data, found, size, score_of(config, data))
    write_ensemble(run_dir, record)
    return record


def not_repeatable(record: EnsembleRecord) -> str:
    """Why fresh seeds cannot show what an ensemble gains; empty if they can."""
    trials = [member.trial for member in record.members]
    if len({*trials}) * record.folds < len(trials):
        return "the ensemble averages replicates of one trial, which fresh seeds do not repeat"
    return f"the ensemble is trial {record.single} alone" if {*trials} == {record.single} else ""


def measure_again(
    again: StudyConfig, record: EnsembleRecord, numbers: Sequence[int], *, trust_code: bool = False
) -> tuple[Again, ...]:
    """Measure an ensemble whose trials were trained again, as `again`, with several seeds.

    `numbers` are those of its trials in the study that it was selected in, in the order of their
    new numbers. Returns what it scores on validation rows, and on test rows if there are any, but
    not on a part on which the metric has no value with some seed.

    Raises:
        StudyError: a trial of the ensemble did not complete with all seeds.
    """
    run_dir = RunDir(again.run_dir)
    known = read_trials(run_dir)
    complete = {*known.best(len(numbers))}
    if failed := [number for new, number in enumerate(numbers) if new not in complete]:
        found = f"trial {failed[0]} did not complete with these seeds, so nothing is averaged"
        hint = "train with fewer seeds (--seeds N --fresh), or select another ensemble"
        raise StudyError(Problem(str(run_dir.root), "", found, f"{hint} (sweeper ensemble)"))
    with preparing(again) as prepared:
        data = prepared()
    with jax_restored():
        claim_devices(again)
        rows = _with_kept_models(again, run_dir, known.of(range(len(numbers))))
        found = _predict_candidates(again, run_dir, data, known, rows, trust_code)
        counts = np.zeros(len(numbers))
        for member in record.members:
            counts[numbers.index(member.trial)] += member.count
        sign = gain_sign(again.study.directions[0])
        score = score_of(again, data)

        @_without_warnings
        def measured(part: str, predictions: NDArray[Any], y: Targets) -> Again:
            of_trial = predictions.reshape(len(numbers), -1, *predictions.shape[1:])
            mean = np.tensordot(counts / counts.sum(), of_trial, axes=1).astype(predictions.dtype)
            pair = of_trial[numbers.index(record.single)], mean
            single, ensemble = ((sign * score(one, y)[:, 0]).tolist() for one in pair)
            return Again(part, y.n_counting, tuple(single), tuple(ensemble))

        judged, test = Targets.of(data, _judged_split(data)), Targets.of(data, "test")
        parts = [measured("validation", found.val, judged)]
        if len(test):
            parts.append(measured("test", found.test, test))
        return tuple(one for one in parts if one.has_values)


def _best(known: TrialRows) -> list[Row]:
    """The best trials, without those that violate a constraint."""
    return [row for row in known.of(known.best(MOST_CANDIDATES)) if is_feasible(row)]


def _with_kept_models(config: StudyConfig, run_dir: RunDir, rows: Sequence[Row]) -> list[Row]:
    met = " and met study.constraints" if config.study.constraints else ""
    if not rows:
        raise none_complete(run_dir, f"no trial completed{met}, and an ensemble needs 2")
    kept = [row for row in rows if run_dir.saved(row["trial_number"]).is_file()]
    if len(kept) * config.study.replicates < 2:
        key = "results.keep_models"
        found = f"the weights of {counted(len(kept), 'trial')} are kept, and an ensemble needs 2"
        hint = f"run it with --set results.keep_models={MOST_CANDIDATES}, for new trials"
        if len(rows) <= len(kept):
            found = f"{counted(len(rows), 'trial')} completed{met}, and an ensemble needs 2"
            key = ""  # no setting alone is at fault
            hint = "let more complete: train more trials, without study.stop, or prune fewer"
        raise StudyError(Problem(str(run_dir.root), key, found, hint))
    return kept


def _refuse_unfit(config: StudyConfig, run_dir: RunDir) -> None:
    """Refuse a study whose models cannot be averaged."""
    if found := not_averaged(config):
        raise StudyError(Problem(str(run_dir.root), "", found, "export a single trial"))


def _refuse_few(config: StudyConfig, run_dir: RunDir, data: Dataset) -> None:
    """Refuse data of too few rows."""
    n_rows = Targets.of(data, _judged_split(data)).n_counting
    if n_rows < 2 * _LEAST_ROWS:
        counting = " whose weight is not 0" if data.is_weighted else ""
        found = f"{n_rows} validation rows{counting} are too few to select by"
        hint = f"use data with at least {2 * _LEAST_ROWS}"
        raise StudyError(Problem(str(run_dir.root), "data.split.val", found, hint))


def _refuse_changed(run_dir: RunDir, data: Dataset) -> None:
    """Refuse data that the study was not trained on."""
    with closing(backup.read(run_dir)) as ledger:
        began = data_digest(ledger.sessions())
    if began not in (None, data.digest):
        found, hint = "the data is not what the study was trained on", "restore it"
        raise StudyError(Problem(str(run_dir.root), "data", found, hint))


def score_of(config: StudyConfig, data: Dataset) -> Score:
    """The study's metric, larger if it is better; ties of classes go to the likelier one."""
    name = config.study.objectives[0].removeprefix("val_")
    sign = gain_sign(config.study.directions[0])
    metrics = scoring(config, data)

    @jax.jit  # also around `metrics`, so that the other metrics are not compiled
    def measured(outputs: Any, y: Any, weights: Any) -> Any:
        return jax.vmap(lambda of_model: metrics(of_model, y, weights)[name])(outputs)

    def score(predictions: NDArray[Any], y: Targets) -> NDArray[Any]:
        found = measured(_outputs(data, predictions), y.y, y.weights)
        value = sign * np.asarray(found, np.float64)
        scores = np.stack([value, _likelihood(data, predictions, y)], axis=1)
        return np.where(np.isnan(scores), -math.inf, scores)  # whichever values are better

    return score


def _likelihood(data: Dataset, predictions: NDArray[Any], y: Targets) -> NDArray[Any]:
    """The mean logarithm of the probability of the class, or 0 for numbers."""
    if not data.class_names:
        return np.zeros(len(predictions))
    of_class = predictions[:, np.arange(len(y)), y.y]
    logarithms = np.log(np.maximum(of_class, np.finfo(predictions.dtype).tiny))
    if y.weights is None:
        return np.mean(logarithms, axis=1)
    return logarithms @ y.weights / (y.weights.sum() or 1.0)


def _outputs(data: Dataset, predictions: NDArray[Any]) -> NDArray[Any]:
    """Predictions as the outputs of a model: scaled numbers, or logits."""
    if not data.class_names:
        return predictions
    logits = np.log(np.maximum(predictions, np.finfo(predictions.dtype).tiny))
    return as_outputs(data, logits)


def _predictions(data: Dataset, outputs: NDArray[Any]) -> NDArray[Any]:
    """The values to average over models: probabilities, or scaled numbers."""
    if not data.class_names:
        return outputs
    if data.one_logit:  # the log-odds of the second class
        outputs = np.concatenate([np.zeros_like(outputs), outputs], axis=-1)
    return softmax(outputs, axis=-1)


def _judged_split(data: Dataset) -> SplitName:
    """The rows that models are selected by: with folds, each is a validation row of one fold."""
    return "train" if data.n_folds else "val"


@_without_warnings
def _predict_candidates(
    config: StudyConfig,
    run_dir: RunDir,
    data: Dataset,
    known: TrialRows,
    rows: Sequence[Row],
    trust_code: bool,
) -> Candidates:
    """The models of `rows`, which are some of the trials `known`, and their predictions."""
    programs, n_folds = Programs(data_spec(config, data)), data.n_folds or 1
    compiled: dict[Any, Outputs] = {}
    models: list[tuple[int, tuple[int, ...]]] = []
    predict: list[Predict] = []
    predictions: list[tuple[NDArray[Any], NDArray[Any]]] = []
    for row in rows:
        kept = _kept_models(config, run_dir, data, row, programs, trust_code)
        of_members = [_predict(data, model, compiled) for model in kept]
        for first in range(0, len(of_members), n_folds):
            of_folds = of_members[first : first + n_folds]
            models.append((int(row["trial_number"]), (*range(first, first + n_folds),)))
            predict.append(_mean_of(of_folds))
            predictions.append(_of_folds(data, of_folds))
    val, test = map(np.stack, zip(*predictions, strict=True))
    (best,) = known.best(1)
    return Candidates(tuple(models), tuple(predict), val, test, known.n_complete, best)


def _kept_models(
    config: StudyConfig,
    run_dir: RunDir,
    data: Dataset,
    row: Row,
    programs: Programs,
    trust_code: bool,
) -> Iterator[Any]:
    """The kept model of each replicate and fold of a trial."""
    settings, number = config.settings_of(json.loads(row["params_json"])), int(row["trial_number"])
    program = programs.exact(settings)
    for index, member in enumerate(config.members):
        kept = read_saved(run_dir.saved(number, index), trusted=trust_code)
        refuse_misfit(run_dir, kept, row, index, data.digest)
        model = plain_state_of(kept, program, settings).model
        yield _in_fold(data, member.fold, model)


def _in_fold(data: Dataset, fold: int, model: Any) -> Any:
    """The model of a fold for features as `data` has them."""
    if not data.n_folds:
        return model
    return Rescaled(model, jnp.asarray(data.fold_scale[fold]), jnp.asarray(data.fold_shift[fold]))


def _mean_of(models: Sequence[Predict]) -> Predict:
    return lambda x: np.mean([model(x) for model in models], axis=0)


def _of_folds(data: Dataset, models: Sequence[Predict]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Predictions for the rows that models are selected by, and for test rows.

    `models` are those of the folds, or one if there are none.
    """
    if not data.n_folds:
        found = models[0](np.concatenate([data.x_val, data.x_test]))
        return found[: len(data.x_val)], found[len(data.x_val) :]
    judged, tested = None, []
    for fold, model in enumerate(models):
        own = np.flatnonzero(data.fold_of == fold)
        found = model(np.concatenate([data.x_train[own], data.x_test]))
        if judged is None:
            judged = np.empty((len(data.x_train), *found.shape[1:]), found.dtype)
        judged[own] = found[: len(own)]
        tested.append(found[len(own) :])
    assert judged is not None
    return judged, np.mean(tested, axis=0)


def _predict(data: Dataset, model: Any, compiled: dict[Any, Outputs]) -> Predict:
    of_each = each_of(model, compiled)

    def predictions(x: NDArray[Any]) -> NDArray[Any]:
        with with_pins():
            return _predictions(data, np.asarray(in_blocks(of_each, x)))

    return predictions


@_without_warnings
def _select_and_measure(
    config: StudyConfig, data: Dataset, found: Candidates, size: int, score: Score
) -> EnsembleRecord:
    """The ensemble selected on all validation rows, and its gains on rows that it has not seen."""
    sign = gain_sign(config.study.directions[0])
    known = Targets.of(data, _judged_split(data))
    chosen = select(found.val, known, size, score)
    counts = {index: chosen.count(index) for index in sorted(set(chosen))}
    validation = _gain(_unseen(config, known, found, size, score), known, score, sign)
    if validation is None:
        what = f"{config.study.objectives[0]} has no value on validation rows"
        raise StudyError(Problem("", "data.split", what, "use more rows"))
    test = None
    if len(data.x_test):
        pair = np.stack([found.test[0], found.test[chosen].mean(axis=0)])
        test = _gain(pair, Targets.of(data, "test"), score, sign)
    trees = _trees(config, data)
    if trees is not None:

        def with_trees(gain: Gain, x: NDArray[Any], y: Targets) -> Gain:
            outputs = _predictions(data, trees(x).astype(x.dtype))
            value = sign * float(score(outputs[None], y)[0, 0])
            return replace(gain, trees=finite(value))

        if not data.n_folds:
            validation = with_trees(validation, data.x_val, known)
        if test is not None:
            test = with_trees(test, data.x_test, Targets.of(data, "test"))
    return EnsembleRecord(
        metric=config.study.objectives[0],
        direction=config.study.directions[0],
        candidates=len(found.models),
        members=tuple(
            EnsembleMember(found.models[index][0], member, count)
            for index, count in counts.items()
            for member in found.models[index][1]
        ),
        single=found.models[0][0],
        validation=validation,
        test=test,
        data=data.digest,
        folds=data.n_folds or 1,
        completed=found.completed,
        best=found.best,
        importance={} if test is None else _importance(config, data, found, counts, score),
    )


def _trees(config: StudyConfig, data: Dataset) -> Predict | None:
    """Boosted trees to compare with; None for several targets or many rows, or without a fit."""
    has_one_target = bool(data.class_names) or data.y_train.shape[1] == 1
    if not has_one_target or len(data.x_train) * data.n_features > _MOST_OF_TREES:
        return None
    return boosted_trees(data, config.study.seed)


def _importance(
    config: StudyConfig,
    data: Dataset,
    found: Candidates,
    counts: Mapping[int, int],
    score: Score,
) -> dict[str, float]:
    """How much worse the ensemble is on test rows of which one column was shuffled.

    The mean over some shuffles; as in Breiman 2001, "Random Forests", but on test rows.
    """
    places = Transform.from_dict(data.transform).places()
    n_rows = min(len(data.x_test), _SHUFFLED_ROWS // max(1, _SHUFFLES * len(places)))
    if n_rows < min(len(data.x_test), _LEAST_ROWS) or not n_rows:
        return {}
    rng = np.random.default_rng(config.study.seed)
    rows = np.sort(rng.choice(len(data.x_test), n_rows, replace=False))
    x, y = data.x_test[rows], Targets.of(data, "test")[rows]
    shuffled = [x]
    for of_column in places.values():
        for _ in range(_SHUFFLES):
            other = x.copy()
            other[:, of_column] = x[rng.permutation(n_rows)][:, of_column]
            shuffled.append(other)
    stacked = np.concatenate(shuffled)
    total = sum(count * found.predict[index](stacked) for index, count in counts.items())
    means = np.asarray(total).reshape(len(shuffled), n_rows, -1) / sum(counts.values())
    values = np.concatenate([score(one[None], y)[:, 0] for one in means])
    if not np.isfinite(values).all():
        return {}
    falls = (values[0] - values[1:]).reshape(len(places), _SHUFFLES).mean(axis=1)
    return dict(zip(places, falls.tolist(), strict=True))


def _unseen(
    config: StudyConfig, known: Targets, found: Candidates, size: int, score: Score
) -> NDArray[Any]:
    """Predictions for validation rows of models that were chosen on the other half of them.

    First those of the best single model, then those of the ensemble.
    """
    rows = np.random.default_rng(config.study.seed).permutation(len(known))
    halves = np.sort(rows[: len(rows) // 2]), np.sort(rows[len(rows) // 2 :])
    pair = np.empty((2, *found.val.shape[1:]), found.val.dtype)
    for own, other in (halves, halves[::-1]):
        seen, y = found.val[:, other], known[other]
        pair[0, own] = found.val[select(seen, y, 1, score)[0], own]
        pair[1, own] = found.val[select(seen, y, size, score)][:, own].mean(axis=0)
    return pair


def _gain(pair: NDArray[Any], y: Targets, score: Score, sign: float) -> Gain | None:
    """What the second of two predictions gains, with the error of the delete-a-group jackknife.

    None if the metric has no value on these rows, such as auroc of a single class.
    """
    single, ensemble = (sign * float(value) for value in score(pair, y)[:, 0])
    if not (math.isfinite(single) and math.isfinite(ensemble)):
        return None
    return Gain(y.n_counting, single, ensemble, _error_of_difference(pair, y, score))


def _error_of_difference(pair: NDArray[Any], y: Targets, score: Score) -> float | None:
    if not 0 < grouped_rows(len(y), GROUPS) <= _MOST_ROWS:
        return None
    kept = kept_rows(len(y), GROUPS)
    values = [score(pair[:, rows], y[rows])[:, 0].tolist() for rows in kept]
    return finite(jackknife_error([second - first for first, second in values]))


def not_measured(run_dir: RunDir) -> Problem:
    """What to do if an ensemble is to be exported that was not selected."""
    return Problem(str(run_dir.root), "", "no ensemble was selected", how_to_select(run_dir))


def how_to_select(run_dir: RunDir) -> str:
    """The command that selects an ensemble of this study."""
    return f"select one with: python -m sweeper ensemble {quote(str(run_dir.root))}"
