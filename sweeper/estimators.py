"""Sweeps behind scikit-learn's interface: estimators whose `fit` runs a whole study."""

from __future__ import annotations

import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from math import ceil
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_float_dtype, is_integer_dtype
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.model_selection import train_test_split
from sklearn.utils import Tags, check_random_state, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    assert_all_finite,
    check_array,
    check_consistent_length,
    check_is_fitted,
    validate_data,
)

from sweeper import api
from sweeper.config.kinds import is_function
from sweeper.config.study import EDITION
from sweeper.config.train import better, column_of
from sweeper.data.columns import as_pandas, with_columns
from sweeper.data.identity import EXACT, written
from sweeper.errors import (
    FitError,
    Problem,
    counted,
    did_you_mean,
    listed,
    warn_caller,
)
from sweeper.files import ScratchDirectory
from sweeper.results.ensemble import MOST_CANDIDATES, USUAL_SIZE
from sweeper.results.events import Event, Observer, RoundClosed, Warned
from sweeper.results.formatting import best_trial, none_feasible, states
from sweeper.results.read import Results
from sweeper.sweep.session import session
from sweeper.templates.arguments import ARGUMENTS, as_value_errors, with_arguments
from sweeper.templates.mapping import load_study

if TYPE_CHECKING:
    from sweeper.config import StudyConfig
    from sweeper.export.saved_model import SavedModel

# the fewest rows: one to train on, one to validate with
_LEAST_ROWS = 2
# how trials end early, as `init` writes it
_PRUNER = {"name": "halving", "min_resource": 4, "reduction_factor": 3}
_CLASS_WEIGHTS = "data.class_weights"
# studies of earlier editions get codes of classes that are not text
_LABELS_SINCE = 5
# the edition since which whole float labels are integers there
_INTEGERS_SINCE = 6
# the settings that `fit` derives from its arguments
_DERIVED = ("data.source", "data.path", "data.target", "data.weight")


class SweepWarning(UserWarning):
    """A warning of the study that an estimator runs."""


class _Exported:
    """An exported model as the bytes of its files, so that it can be pickled."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self.files = files

    @classmethod
    def of(cls, results: Results, trial: int, n_members: int, *, is_ensemble: bool) -> _Exported:
        """The mean of the trainings of a trial, or the ensemble that was selected in its study."""
        from sweeper.export.directory import export
        from sweeper.export.ensemble_directory import export_ensemble, write_members
        from sweeper.export.members import ENSEMBLE_FILE
        from sweeper.programs.saved_file import MODEL_FILE
        from sweeper.results.ensemble import EnsembleMember

        with tempfile.TemporaryDirectory(prefix="sweeper-") as place:
            output = Path(place) / "model"
            if is_ensemble:
                export_ensemble(results.run_dir.root, output)
            elif n_members > 1:
                members = [EnsembleMember(trial, member, 1) for member in range(n_members)]
                write_members(results.run_dir, members, output, output)
            else:
                export(results.run_dir.root, trial, 0, output)
            paths = [*output.rglob(MODEL_FILE), *output.glob(ENSEMBLE_FILE)]
            return cls({path.relative_to(output).as_posix(): path.read_bytes() for path in paths})

    @cached_property
    def model(self) -> SavedModel:
        """The model; its code is trusted as much as the pickle that it comes from."""
        from sweeper.export.saved_model import in_precision, load
        from sweeper.programs.continued import spec_of
        from sweeper.programs.saved_file import MODEL_FILE, read_saved

        with tempfile.TemporaryDirectory(prefix="sweeper-") as place:
            for name, content in self.files.items():
                path = Path(place) / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            first = next(Path(place).rglob(MODEL_FILE))
            dtype = spec_of(read_saved(first, trusted=True)).dtype
            with in_precision(dtype):  # `load` asks others to set it
                # a column may tell groups apart, of which all are new in cross-validation
                return replace(load(place, trust_code=True), takes_unknown=True)

    def __reduce__(self) -> tuple[type[_Exported], tuple[Mapping[str, bytes]]]:
        return _Exported, (self.files,)


class _Sweep(BaseEstimator, ABC):
    """The base of both estimators."""

    classes_: NDArray[Any]
    feature_names_in_: NDArray[Any]
    n_features_in_: int
    best_params_: dict[str, Any]
    best_score_: float

    def __init__(
        self,
        n_trials: int = 64,
        epochs: int = 50,
        search: Mapping[str, Any] | None = None,
        *,
        settings: Mapping[str, Any] | None = None,
        validation_fraction: float = 0.2,
        metric: str | None = None,
        ensemble: bool | int = False,
        random_state: int | np.random.RandomState | None = None,
        run_dir: Path | str | None = None,
        verbose: bool = False,
    ) -> None:
        """Keep the arguments; `fit` checks them.

        Args:
            n_trials: how many trials to train.
            epochs: how long each may train; most are pruned earlier.
            search: what each trial draws, as in the table `[search]` of a study file. None: what
                `sweeper init` writes for the rows, as it does for all other settings without an
                argument. With `search`, these have the defaults of study files, except that the
                pruner is `halving`, a trial is judged by its best epoch, classes are split in equal
                proportions if possible, missing numbers are filled with the median, and one model
                is kept, or 50 with `ensemble`. No rows are for testing in either case.
            settings: further settings of the study, by dotted key or by table, such as
                `{"train.batch_size": 64}`.
            validation_fraction: the share of the rows by which trials are judged.
            metric: what they are judged by: accuracy (the default), balanced_accuracy, f1, auroc,
                average_precision, log_loss; r2 (the default), rmse, mae, mape; or loss. Without
                enough rows for r2, the default is rmse. A function of your own is named as
                'module:function', and needs a direction:
                `settings={"study.direction": "minimize"}`.
            ensemble: average so many models at most, or 20 if True, instead of using the best one.
                With fewer than 40 validation rows, `fit` warns and uses the best one.
            random_state: the seed of the study; None draws one, but is 0 if `run_dir` is given.
            run_dir: the run directory, to be kept: `fit` resumes the study in it, and refuses
                other rows or settings, except `n_trials`, `ensemble` and what a study file may
                change, such as `execution.threads`. None: a temporary one, removed with this
                estimator and `results_`.
            verbose: whether to write a line after each round.

        A sweep uses all cores: leave `n_jobs` of scikit-learn at 1. To run several in processes
        at a time, give each its share with `settings={"execution.threads": 1}`.
        """
        self.n_trials = n_trials
        self.epochs = epochs
        self.search = search
        self.settings = settings
        self.validation_fraction = validation_fraction
        self.metric = metric
        self.ensemble = ensemble
        self.random_state = random_state
        self.run_dir = run_dir
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:  # noqa: N803
        """Run the study and keep its best model, or its ensemble.

        Args:
            X: a table shaped (rows, features): an array, or a DataFrame of pandas or Polars, whose
                text and categorical columns are encoded. Numbers may be missing.
            y: the targets of the rows.
            sample_weight: the weight of each row, 0 or more. Rows of weight 0 are left out.

        Raises:
            ValueError: the arguments do not make a study; the message says what to change.
            SweeperError: the study cannot run, for example if the disk is full.
        """
        if y is None:
            name = type(self).__name__
            raise ValueError(f"This {name} requires y to be passed, but the target y is None")
        features = self._features(X, reset=True)
        check_consistent_length(features, y)
        targets = self._targets(y)
        weights = _weights(sample_weight, len(features))
        rows = slice(None) if weights is None else weights > 0
        features, targets = features[rows], targets[rows].reset_index(drop=True)
        features = features.reset_index(drop=True)
        self._check_rows(targets, "" if weights is None else " of nonzero sample_weight")
        columns = [*map(str, features.columns)]
        for name in targets.columns:
            columns.append(_unused(str(name), columns))
        names = columns[features.shape[1] :]
        data = pd.concat([features, targets], axis=1).set_axis(columns, axis=1)
        table: dict[str, Any] = {"data.target": names}
        if weights is not None and len({*weights[rows]}) > 1:
            table["data.weight"] = _unused("sample_weight", columns)
            data[table["data.weight"]] = weights[rows]
        directory = ScratchDirectory() if self.run_dir is None else None
        run_dir = self.run_dir if directory is None else directory.path / "run"
        settings = self._checked_settings()
        with as_value_errors(settings):
            self._run(self._study(settings, table, data, names, run_dir), directory)
        self._kept = directory
        return self

    def _run(self, study: StudyConfig, directory: ScratchDirectory | None) -> None:
        # an observer that knew this estimator would keep it, and its directory, alive
        observer = _observer(type(self).__name__ if self.verbose else None)
        # an interrupt while progress is shown would end `fit` with a part of the trials
        results = api.run(study, observer=observer, progress=False)
        best = results.status.best
        if best is None:
            found = f"no trial completed ({states(results.status)})"
            hint = "search other values, or train more trials or epochs"
            if infeasible := none_feasible(results.status):
                found, _, hint = with_arguments(infeasible).partition("; ")
            raise FitError(Problem(str(results.run_dir.root), "", found, hint))
        is_ensemble = bool(self.ensemble) and results.run_dir.ensemble.exists()
        trial, n_members = int(best["trial_number"]), len(study.members)
        self._exported = _Exported.of(results, trial, n_members, is_ensemble=is_ensemble)
        self._results = replace(results, keeps=directory)
        self.best_score_ = float(best["value"])
        self.best_params_ = dict(best["params"])

    @property
    def model_(self) -> SavedModel:
        """The model that predicts, as `sweeper.load` returns it."""
        check_is_fitted(self, "_exported")
        return self._exported.model

    @property
    def results_(self) -> Results:
        """The results of the study, read from its run directory."""
        check_is_fitted(self, "_exported")
        if self._results is None:
            raise AttributeError(
                "results_ was in a temporary run directory, which a copy of the estimator does "
                "not keep: pass run_dir to keep it"
            )
        return self._results

    @property
    def run_dir_(self) -> Path:
        """The run directory of the study."""
        return self.results_.run_dir.root

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = {**super().__getstate__()}  # type: ignore[dict-item]
        if state.get("_kept") is not None:  # a temporary directory may be gone
            state |= {"_kept": None, "_results": None}
        return state

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_exported")

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.target_tags.required = True
        return tags

    def _features(self, X: Any, *, reset: bool) -> pd.DataFrame:  # noqa: N803
        """The features as a table whose columns are those of `feature_names_in_`, or x0, x1, ...

        Raises:
            ValueError: as scikit-learn does, with `reset` also if there are too few rows.
        """
        least = _LEAST_ROWS if reset else 1
        table = _of_polars(X) if hasattr(X, "to_arrow") else X
        if isinstance(table, pd.DataFrame):
            validate_data(self, X, reset=reset, skip_check_array=True)
            # messages are those for an array of this shape
            check_array(np.empty(table.shape), ensure_all_finite=False, ensure_min_samples=least)
        else:
            checks = {"dtype": None, "ensure_all_finite": "allow-nan", "ensure_min_samples": least}
            found = validate_data(self, X, reset=reset, **checks)
            table = pd.DataFrame(found).infer_objects()
        names = getattr(self, "feature_names_in_", None)
        if names is None:
            names = [f"x{place}" for place in range(table.shape[1])]
        return table.set_axis([*names], axis=1).reset_index(drop=True)

    @abstractmethod
    def _targets(self, y: Any) -> pd.DataFrame:
        """The columns to predict, by name; sets what the fitted estimator knows of them."""

    def _check_rows(self, targets: pd.DataFrame, which: str) -> None:
        """Refuse rows that cannot be split into a training and a validation part."""
        if len(targets) < _LEAST_ROWS:
            found = f"{len(targets)} sample(s){which}"
            raise ValueError(f"Found {found} while a minimum of {_LEAST_ROWS} is required.")

    def _study(
        self,
        settings: Mapping[str, Any],
        table: Mapping[str, Any],
        data: pd.DataFrame,
        targets: Sequence[str],
        run_dir: Path | str | None,
    ) -> StudyConfig:
        """The study of the rows of `data`, whose columns `targets` are to be predicted.

        A study that began under an earlier edition gets the targets in the form of that edition.
        """
        given = self._seed(), settings, table, data, targets, run_dir
        study = self._study_of_edition(EDITION, *given)
        edition = session.with_recorded_rules(study).edition
        return study if edition == EDITION else self._study_of_edition(edition, *given)

    def _study_of_edition(
        self,
        edition: int,
        seed: int,
        settings: Mapping[str, Any],
        table: Mapping[str, Any],
        data: pd.DataFrame,
        targets: Sequence[str],
        run_dir: Path | str | None,
    ) -> StudyConfig:
        learnt = self._as_learnt(data[[*targets]], edition)
        settings = self._of_targets(settings, edition)
        own = {
            "study.name": type(self).__name__,
            "study.n_trials": self.n_trials,
            "study.value": "best",
            "study.seed": seed,
            "study.pruner": _PRUNER if self.epochs > _PRUNER["min_resource"] else None,
            "train.epochs": self.epochs,
            "data.split.val": self.validation_fraction,
            "data.split.test": 0.0,
            "data.drop": [],
            "data.impute": "median",
            "data.class_weights": None,
            "results.dir": str(run_dir),
            "results.keep_models": MOST_CANDIDATES if self.ensemble else 1,
            "results.ensemble": (USUAL_SIZE if self.ensemble is True else self.ensemble) or None,
            **table,
            **self._of_task(learnt, settings, None if _changes_split(settings) else seed),
        }
        if self.search is not None:
            own["search"] = self.search
        if any(settings.get(f"data.split.{way}") for way in ("group", "time", "column")):
            own.pop("data.split.stratify", None)
        if settings.get("data.split.column"):  # the column also says which rows are for testing
            own.pop("data.split.test")
        replaced = {key for key in own for other in settings if f"{other}.".startswith(f"{key}.")}
        own = {key: value for key, value in own.items() if key not in replaced}
        return load_study({**own, **settings}, data=with_columns(data, _by_name(learnt)))

    @abstractmethod
    def _of_task(
        self, targets: pd.DataFrame, settings: Mapping[str, Any], seed: int | None
    ) -> dict[str, Any]:
        """The settings that depend on what is predicted.

        `seed` is that of the split, None if `settings` change how the rows are split.
        """

    def _as_learnt(self, targets: pd.DataFrame, edition: int) -> pd.DataFrame:
        """The targets in the form in which a study of this edition gets them."""
        return targets

    def _of_targets(self, settings: Mapping[str, Any], edition: int) -> Mapping[str, Any]:
        """`settings`, by the targets as a study of this edition gets them."""
        return settings

    def _seed(self) -> int:
        """The seed of the study, perhaps drawn; to resume a study, it must be the same again."""
        if isinstance(self.random_state, Integral):
            return int(self.random_state)
        if self.random_state is None and self.run_dir is not None:
            return 0
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _checked_settings(self) -> dict[str, Any]:
        """The settings by key, without any that an argument has; refuses what no study names."""
        if not isinstance(self.settings, Mapping | None):
            found, hint = f"{self.settings!r} is not a mapping", "pass a dict of settings"
            raise FitError(Problem("", "settings", found, hint))
        settings = _by_key(self.settings or {})
        share = self.validation_fraction
        if not (isinstance(share, Real) and 0 < share < 1):
            found, hint = f"{share!r} is not a share of the rows", "pass a number between 0 and 1"
            raise FitError(Problem("", "validation_fraction", found, hint))
        if not (isinstance(self.epochs, Integral) and self.epochs > 0):
            found, hint = f"{self.epochs!r} is not a number of epochs", "pass an integer above 0"
            raise FitError(Problem("", "epochs", found, hint))
        if not isinstance(self.metric, str | None):
            found = f"{self.metric!r} is not the name of a metric"
            raise FitError(Problem("", "metric", found, f"pass {_name_of(self.metric)}"))
        if self._judges_by_function(settings) and "study.direction" not in settings:
            found = f"{self.metric} is a function, so it is not known whether higher is better"
            hint = "pass settings={'study.direction': 'minimize'}, or 'maximize'"
            raise FitError(Problem("", "metric", found, hint))
        for key in settings:
            around = next((one for one in ARGUMENTS if f"{key}.".startswith(f"{one}.")), None)
            if around is not None:
                found, hint = "an argument has this setting", f"pass {ARGUMENTS[around]} instead"
                raise FitError(Problem("settings", key, found, hint))
            if key in _DERIVED:
                found, hint = "fit sets it", "remove it"
                raise FitError(Problem("settings", key, found, hint))
        if settings.get("results.keep_models") == 0:
            found, hint = "0 keeps no model to predict with", "write 1 or more"
            raise FitError(Problem("settings", "results.keep_models", found, hint))
        return settings

    def _judges_by_function(self, settings: Mapping[str, Any]) -> bool:
        """Whether trials are judged by a user-defined metric."""
        name = (self.metric or "").removeprefix("val_")
        reported = settings.get("train.metrics")
        functions = [one for one in reported or () if isinstance(one, str) and ":" in one]
        return ":" in name or name in map(column_of, functions)


def _check_labels(labels: NDArray[Any]) -> None:
    """Refuse objects that cannot be sorted: missing labels, and text among others.

    Raises:
        ValueError: there are such labels.
    """
    gaps = np.flatnonzero(pd.isna(labels))
    if gaps.size:
        found = f"Input y contains {counted(gaps.size, 'missing label')}, such as that of row"
        raise ValueError(f"{found} {gaps[0]} (counted from 0); leave these rows out")
    kinds = sorted({"str" if isinstance(one, str) else type(one).__name__ for one in labels})
    if "str" in kinds and len(kinds) > 1:
        found = f"Input y contains labels of the types {listed(kinds)}"
        raise ValueError(f"{found}; convert them all, for example to str")


class SweepClassifier(ClassifierMixin, _Sweep):
    """A classifier that is the best network of a sweep.

    After `fit`, `classes_`, `n_classes_`, `n_features_in_` and `feature_names_in_` are as in
    scikit-learn; `best_params_` is what the best trial drew, `best_score_` its value of the metric;
    `results_` are the results of the study, `run_dir_` is its run directory, and `model_` the model
    that predicts.
    """

    n_classes_: int

    def _targets(self, y: Any) -> pd.DataFrame:
        name = getattr(y, "name", None)
        y = column_or_1d(y, warn=True)
        if y.dtype == object:
            _check_labels(y)
        assert_all_finite(y, input_name="y")
        check_classification_targets(y)
        return pd.DataFrame({str(name or "target"): y})

    def _check_rows(self, targets: pd.DataFrame, which: str) -> None:
        super()._check_rows(targets, which)
        classes = np.unique(targets.iloc[:, 0].to_numpy())
        if len(classes) < 2:
            raise ValueError(
                f"{type(self).__name__} needs samples of at least 2 classes, but the data "
                f"contains only one class{which}: {classes[0]!r}"
            )
        self.classes_ = classes
        self.n_classes_ = len(classes)

    def _of_task(
        self, targets: pd.DataFrame, settings: Mapping[str, Any], seed: int | None
    ) -> dict[str, Any]:
        counts = targets.iloc[:, 0].value_counts()
        n_val = ceil(self.validation_fraction * len(targets))
        is_even = counts.min() > 1 and len(counts) <= min(n_val, len(targets) - n_val)
        test, folds = (settings.get(key) for key in ("data.split.test", "study.folds"))
        n_test = ceil(test * len(targets)) if isinstance(test, int | float) else 0
        n_splits = (folds if isinstance(folds, int) else 2) + (n_test > 0)
        is_even = is_even and counts.min() >= n_splits and len(counts) <= (n_test or np.inf)
        return {
            "train.loss": "cross_entropy",
            "data.split.stratify": bool(is_even),
            **_judged_by(self.metric or "accuracy", ["accuracy"]),
        }

    @property
    def _is_text(self) -> bool:
        return all(isinstance(name, str) for name in self.classes_)

    def _classes_as_learnt(self, edition: int) -> NDArray[Any]:
        """`classes_` in the form in which a study of this edition gets them."""
        if self._is_text:
            return self.classes_
        kind = self.classes_.dtype.kind
        if edition < _LABELS_SINCE or kind not in "biuf":  # a study refuses days as classes
            return np.arange(self.n_classes_)
        if kind != "f":
            return self.classes_
        # scikit-learn refuses float labels that are not whole numbers
        is_exact = edition >= _INTEGERS_SINCE and (np.abs(self.classes_) < 2**53).all()
        return self.classes_.astype(np.int64 if is_exact else np.float64)

    def _as_learnt(self, targets: pd.DataFrame, edition: int) -> pd.DataFrame:
        if self._is_text:
            return targets
        codes = np.searchsorted(self.classes_, targets.iloc[:, 0].to_numpy())
        return with_columns(targets, {targets.columns[0]: self._classes_as_learnt(edition)[codes]})

    def _of_targets(self, settings: Mapping[str, Any], edition: int) -> Mapping[str, Any]:
        """`settings` with the weights of classes by the names that the study gives them.

        Raises:
            FitError: a weight is that of an unknown class.
        """
        if self._is_text:
            return settings
        names = [*map(written, self._classes_as_learnt(edition).tolist())]
        found: dict[str, Any] = {}
        for key, value in settings.items():
            name = key.removeprefix(f"{_CLASS_WEIGHTS}.")
            if key == _CLASS_WEIGHTS and isinstance(value, Mapping):
                found[key] = {names[self._code_of(name)]: weight for name, weight in value.items()}
            elif name != key:
                found[f"{_CLASS_WEIGHTS}.{names[self._code_of(name)]}"] = value
            else:
                found[key] = value
        return found

    def _code_of(self, name: object) -> int:
        """The code of the class `name`, which is its label or the text of it."""
        labels = self.classes_.tolist()
        texts = [*map(str, labels)]
        if str(name) in texts:
            return texts.index(str(name))
        if not isinstance(name, str) and name in labels:
            return labels.index(name)
        hint = did_you_mean(str(name), texts) or f"the classes are {listed(texts)}"
        raise FitError(Problem("settings", f"{_CLASS_WEIGHTS}.{name}", f"no class '{name}'", hint))

    def predict_proba(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """The probability of each of `classes_`, shaped (rows, classes)."""
        check_is_fitted(self)
        features = self._features(X, reset=False)
        found = self.model_.probabilities(features).astype(np.float64)
        order = [*self.model_.info["data"]["transform"]["classes"]]
        classes = self._classes_as_learnt(EDITION).tolist()
        if {*order} != {*classes}:
            classes = [*range(self.n_classes_)]  # in studies of earlier editions
        found = found[:, [order.index(one) for one in classes]]
        return found / found.sum(axis=1, keepdims=True)

    def predict(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """The likeliest of `classes_` for each row."""
        check_is_fitted(self)
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


class SweepRegressor(RegressorMixin, _Sweep):
    """A regressor of one or several targets that is the best network of a sweep.

    After `fit`, it has `n_outputs_`, and the attributes of `SweepClassifier` without the classes.
    """

    n_outputs_: int

    def _targets(self, y: Any) -> pd.DataFrame:
        names = [*y.columns] if hasattr(y, "columns") else [getattr(y, "name", None) or "target"]
        y = check_array(y, dtype="float64", ensure_2d=False, input_name="y")
        if y.ndim == 1 or y.shape[1] == 1:
            y = column_or_1d(y, warn=True)[:, None]
        if len(names) != y.shape[1]:
            names = [f"target{place}" for place in range(y.shape[1])]
        self.n_outputs_ = y.shape[1]
        return pd.DataFrame(y, columns=[*map(str, names)])

    def _of_task(
        self, targets: pd.DataFrame, settings: Mapping[str, Any], seed: int | None
    ) -> dict[str, Any]:
        has_r2 = seed is None or self._has_r2(targets, seed)
        metrics = ["r2", "rmse"] if has_r2 else ["rmse"]
        return {"train.loss": "mse", **_judged_by(self.metric or metrics[0], metrics)}

    def _has_r2(self, targets: pd.DataFrame, seed: int) -> bool:
        """Whether each target has different values in the validation part."""
        rows = np.arange(len(targets))
        n_val = ceil(self.validation_fraction * len(targets))
        _, val = train_test_split(rows, test_size=n_val, random_state=seed)
        return bool((targets.iloc[val].nunique() > 1).all())

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def predict(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """The targets of the rows, shaped (rows,), or (rows, targets) if there are several."""
        check_is_fitted(self)
        return self.model_.predict(self._features(X, reset=False))


def _name_of(metric: object) -> str:
    """How to name a metric that was passed as a function."""
    module, name = (getattr(metric, key, "") for key in ("__module__", "__qualname__"))
    if not (callable(metric) and is_function(f"{module}:{name}")):
        return "the name of a built-in one, or 'module:function' for your own function"
    return f"'{module}:{name}', and settings={{'study.direction': 'minimize'}} or 'maximize'"


def _of_polars(table: Any) -> pd.DataFrame:
    """A Polars table as a DataFrame; integers next to gaps only become floats that equal them."""
    found, exact = table.to_pandas(), as_pandas(table)
    changed = [
        name
        for name in found
        if is_float_dtype(found[name].dtype)
        and is_integer_dtype(exact[name].dtype)
        and (found[name].abs() >= EXACT).any()
    ]
    return with_columns(found, {name: exact[name] for name in changed})


def _weights(sample_weight: Any, n_rows: int) -> NDArray[np.float64] | None:
    """The weights of the rows as an array; None if there are none."""
    if sample_weight is None:
        return None
    found = check_array(sample_weight, dtype="float64", ensure_2d=False, input_name="sample_weight")
    if found.shape != (n_rows,):
        raise ValueError(f"sample_weight.shape == {found.shape}, expected {(n_rows,)}!")
    if (found < 0).any():
        raise ValueError("Negative values in data passed to `sample_weight`")
    if not found.any():
        raise ValueError("Sample weights must contain at least one non-zero number.")
    return found


def _observer(reports_as: str | None) -> Observer:
    """Raise the warnings of a study as Python's; with a name, also write a line per round."""

    def observe(event: Event) -> None:
        if isinstance(event, Warned) and not event.is_news:
            warn_caller(SweepWarning(with_arguments(event.message)))
        elif isinstance(event, RoundClosed) and reports_as is not None:
            status = event.status
            best = f"; {best_trial(status.metric, status.best)}" if status.best else ""
            sys.stdout.write(f"[{reports_as}] {states(status)}{best}\n")

    return observe


def _changes_split(settings: Mapping[str, Any]) -> bool:
    """Whether the rows are not split as they are by default."""
    return any(
        key.startswith(("data.split", "study.folds"))
        # None is the default of a study, but estimators have another one for `test`
        and (value is not None or key == "data.split.test")
        for key, value in settings.items()
    )


def _by_key(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by dotted key, from tables or dotted keys."""
    found: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, Mapping) and (key.count(".") < 1 or key == "data.split"):
            found |= _by_key({f"{key}.{name}": one for name, one in value.items()})
        else:
            found[key] = value
    return found


def _judged_by(metric: str, reported: Sequence[str]) -> dict[str, Any]:
    """The settings by which trials are compared by `metric`; the others are reported, too."""
    metric = metric.removeprefix("val_")
    column = f"val_{column_of(metric)}"
    metrics = [*reported] if metric == "loss" else [*dict.fromkeys([metric, *reported])]
    return {
        "study.metric": column,
        "study.direction": better(column),
        "train.metrics": metrics,
    }


def _by_name(table: pd.DataFrame) -> dict[str, pd.Series[Any]]:
    return {str(name): column for name, column in table.items()}


def _unused(name: str, taken: Sequence[str]) -> str:
    """`name`, with underscores if a column is called so."""
    while name in taken:
        name += "_"
    return name
