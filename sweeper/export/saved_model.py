"""A trained model outside of its study, as plain Equinox and Optax objects."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from sweeper.config import Settings
from sweeper.config.alternating import AlternatingTable
from sweeper.config.coupled import GENERATOR, CoupledTable
from sweeper.config.model import PartsTable
from sweeper.config.trust import Code, building_functions
from sweeper.config.user_code import LoadError
from sweeper.config.user_errors import describe_error
from sweeper.data.identity import labels_of
from sweeper.data.target import in_unit
from sweeper.data.transform import Transform
from sweeper.errors import (
    Problem,
    SetupError,
    UnfitRowsError,
    UnsupportedError,
    warn_caller,
)
from sweeper.executors.jax_setup import with_pins
from sweeper.executors.open_devices import check_devices
from sweeper.export.members import SavedMember, exported_directory, members_in
from sweeper.models.ensemble import Ensemble, Rescaled
from sweeper.programs.build import Programs
from sweeper.programs.continued import check_sizes, settings_of, spec_of, study_of_model
from sweeper.programs.saved_file import (
    MODEL_FILE,
    PlainState,
    SavedFile,
    as_written,
    plain_state_of,
    read_saved,
)
from sweeper.scheduler.cost import MEASURED_ROWS


class OtherVersionsWarning(UserWarning):
    """A saved model is valid, but was written by other versions of libraries."""


class UnknownCategoryWarning(UserWarning):
    """Rows to predict have a category that no training row had; `rows` are their indices."""

    rows: Sequence[int] = ()


@dataclass(frozen=True, repr=False)
class SavedModel:
    """The result of `load`.

    `model` maps one example, scaled and encoded as in its study, to logits or to scaled targets; a
    model with several parts maps it to the outputs of each, by name, and one with a state is a
    `StatefulModel`, whose fields `model` and `state` are the pair of Equinox. `optimizer` is an
    Optax optimizer for the arrays of the model, with the hyperparameters of the trial; `opt_state`
    is its state, None if the study did not keep it, and belongs to `trained`: this is `model`,
    unless `train.ema` measured its average. `info` is the header of the file: study, trial, params,
    value, settings, versions.
    """

    state: PlainState
    settings: Settings
    info: Mapping[str, Any]
    digest: str
    takes_unknown: bool = False
    """Whether several rows may have only categories that no training row had."""

    def __repr__(self) -> str:
        """One line: which trial's model it is, its inputs and its predictions."""
        info, data = self.info, self.info["data"]
        columns = len(data["transform"]["columns"])
        members = info.get("members")
        what = f"trial {info.get('trial')}" if members is None else f"{len(members)} models"
        whose = f"{what} of the study {info.get('study')!r}"
        gives = f", predicts {', '.join(data['targets'])}" if data.get("targets") else ""
        return f"<SavedModel: {whose}, of {columns} columns{gives}>"

    @property
    def model(self) -> Any:
        """The model with the weights by which its trial was judged."""
        return self.state.model

    @cached_property
    def _of_each(self) -> Callable[[NDArray[Any]], Any]:
        from sweeper.models.user_network import each_of

        return each_of(self.model)

    @property
    def trained(self) -> Any:
        """The model from which training would continue."""
        return self.state.trained

    @property
    def optimizer(self) -> Any:
        """The optimizer of the trial, by part if there are several; its `init` returns a state.

        None for an ensemble.
        """
        return self.state.optimizer

    @property
    def opt_state(self) -> Any:
        """The optimizer state at the epoch of the weights; needs `results.save_optimizer`."""
        return self.state.opt_state

    @property
    def params(self) -> Mapping[str, Any]:
        """The parameters that the trial drew, by column."""
        return self.info["params"]

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of the model inputs, after scaling and encoding."""
        return tuple(self.info["data"]["feature_names"])

    @property
    def class_names(self) -> tuple[str, ...]:
        """The classes by index; empty for regression."""
        return tuple(self.info["data"]["class_names"])

    @property
    def part_of_data(self) -> str | None:
        """The part whose outputs are compared with the data; None if the model has no parts."""
        train = self.settings.train
        if not isinstance(train, AlternatingTable):
            return None
        assert train.of_data is not None, "studies without one are refused"
        return train.by_loss[train.of_data].of

    def features(self, rows: Any) -> NDArray[Any]:
        """The model inputs for rows as the study read them, in the study's precision.

        `rows` are a DataFrame with the columns of the study, or an array of them in order; a dict
        or a Series of single values is one row. Warns with `UnknownCategoryWarning` about each
        column with categories that no training row had.

        Raises:
            UnfitRowsError: a column is missing, or has values that the model cannot use.
        """
        data = self.info["data"]
        dtype = data["spec"]["dtype"]
        try:
            transform = Transform.of_record(self.info)
            x = transform.of(rows, _warn, dtype, takes_unknown=self.takes_unknown)
        except UnfitRowsError as error:
            raise error.with_traceback(None) from None  # the traceback would not help
        scale, shift = self._of_fold(x.dtype)
        return x * scale + shift

    def outputs(self, rows: Any) -> NDArray[Any]:
        """The model outputs for rows as the study read them: logits, or scaled targets.

        Raises:
            UnsupportedError: there are several models, trained by `coupled`.
        """
        if isinstance(self.settings.train, CoupledTable):
            found = "models of `coupled` make no joint predictions"
            hint = "`model` returns the outputs of each for one example, `model.parts[NAME]` is "
            hint += "one of them, `generate` returns rows"
            raise UnsupportedError(Problem("", "", found, hint))
        x = self.features(rows)
        with self._as_trained():
            outputs = in_blocks(self._of_each, x)
        return np.asarray(outputs if self.part_of_data is None else outputs[self.part_of_data])

    def predict(self, rows: Any) -> NDArray[Any]:
        """The class of each row, as in the study's data, or numbers in their own unit.

        The data of scikit-learn has its classes as integers, whose names are `class_names`.
        For one target the shape is (rows,), for several (rows, targets).
        """
        outputs, data = self.outputs(rows), self.info["data"]
        if not data["class_names"]:
            numbers = self.numbers_by(outputs)
            return numbers[:, 0] if numbers.shape[1] == 1 else numbers
        return labels_of(data["transform"]["classes"])[self.classes_by(outputs)]

    def probabilities(self, rows: Any) -> NDArray[Any]:
        """The probability of each class, shaped (rows, classes).

        Raises:
            UnsupportedError: the model predicts numbers.
        """
        if not self.info["data"]["class_names"]:
            found = "the model predicts numbers, which have no probabilities"
            raise UnsupportedError(Problem("", "", found, "use predict"))
        return self.probabilities_by(self.outputs(rows))

    def numbers_by(self, outputs: NDArray[Any]) -> NDArray[Any]:
        """Scaled targets in their own units, shaped (rows, targets)."""
        spec = self.info["data"]["spec"]
        return in_unit(
            outputs,
            np.array(spec["y_scale"]),
            np.array(spec["y_mean"]),
            spec.get("y_transform", "none"),
        )

    def classes_by(self, outputs: NDArray[Any]) -> NDArray[np.int64]:
        """The class that logits indicate, as an index into `class_names`."""
        is_one = self.info["data"]["one_logit"]
        chosen = outputs[:, 0] > 0 if is_one else np.argmax(outputs, axis=1)
        return chosen.astype(np.int64)

    def probabilities_by(self, outputs: NDArray[Any]) -> NDArray[Any]:
        """The probability of each class from logits, shaped (rows, classes)."""
        if self.info["data"]["one_logit"]:  # the log-odds of the second
            outputs = np.concatenate([np.zeros_like(outputs), outputs], axis=1)
        with self._as_trained():
            return np.asarray(jax.nn.softmax(outputs, axis=1))

    def generate(self, count: int, seed: int = 0) -> NDArray[Any]:
        """Return `count` rows, in their own units, that the generator of a `coupled` study makes.

        They are shaped (rows, features), with the names in `feature_names`.

        Raises:
            UnsupportedError: no model generates rows.
        """
        from sweeper.models.user_network import each_of

        train, model = self.settings.train, self.settings.model
        if not (isinstance(train, CoupledTable) and train.generates):
            predicts = not isinstance(train, CoupledTable)
            found = "none of the models generates rows"
            hint = "use predict or model" if predicts else "use model"
            raise UnsupportedError(Problem("", "", found, hint))
        assert isinstance(model, PartsTable)
        spec, generator = self.info["data"]["spec"], self.model.parts[GENERATOR]
        latent_size = model.parts[GENERATOR].in_size
        assert latent_size is not None, "checked in the study file"
        noise = np.random.default_rng(seed).standard_normal((count, latent_size))
        with self._as_trained():
            x = np.asarray(in_blocks(each_of(generator), noise.astype(spec["dtype"])))
        scale, shift = self._of_fold(x.dtype)
        return (x - shift) / scale * np.array(spec["x_scale"]) + np.array(spec["x_mean"])

    @contextmanager
    def _as_trained(self) -> Iterator[None]:
        """Use the settings of JAX that the model was trained with in this block."""
        with with_pins(), in_precision(self.info["data"]["spec"]["dtype"]):
            yield

    def _of_fold(self, dtype: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        """How the fold of its member scaled and then shifted features."""
        fold = self.info["data"]["fold"] or {"scale": 1.0, "shift": 0.0}
        return np.array(fold["scale"], dtype), np.array(fold["shift"], dtype)


def in_precision(dtype: str) -> AbstractContextManager[Any]:
    """Let JAX use float64 in this block, if that is `dtype`."""
    return jax.enable_x64(True) if dtype == "float64" else nullcontext()


def _warn(found: str, rows: Sequence[int]) -> None:
    warning = UnknownCategoryWarning(found)
    warning.rows = rows
    warn_caller(warning)


def in_blocks(of_each: Callable[[NDArray[Any]], Any], x: NDArray[Any]) -> Any:
    """The result of `of_each` for each example.

    JAX compiles for every new number of rows, so all blocks have the same: examples are repeated
    to fill the last one. If there is only one block, its rows are a power of two.
    """
    rows = min(MEASURED_ROWS, 1 << max(0, len(x) - 1).bit_length())
    starts = range(0, max(1, len(x)), rows)
    blocks = (np.resize(x[start : start + rows], (rows, *x.shape[1:])) for start in starts)
    return jax.tree.map(lambda *parts: np.concatenate(parts)[: len(x)], *map(of_each, blocks))


def load(
    path: Path | str, *, base_dir: Path | str | None = None, trust_code: bool = False
) -> SavedModel:
    """The model that `sweeper export` wrote to the directory `path`, with every leaf checked.

    An ensemble is loaded as one model, without an optimizer. Of a single model the file
    `model.safetensors` alone is enough. Functions that its settings name run if they belong to
    Equinox, Optax or sweeper, or if the module in `base_dir` or in the current directory has the
    source that the model was trained with; the exported directory itself does not count, even as
    `base_dir`. With `trust_code`, any function runs, if necessary from the source saved in the
    file: only use it for files that you trust.

    Raises:
        SweeperError: it is damaged, names code that is not trusted, or cannot be built here; or
        JAX can open no device.
    """
    if members := members_in(Path(path)):
        models = [load(one.path, base_dir=base_dir, trust_code=trust_code) for one in members]
        return _together(models, members)
    file = read_saved(Path(path), trusted=trust_code)
    check_devices()
    with as_written(str(path)):
        study, spec = study_of_model(file), spec_of(file)
    if spec.dtype == "float64" and not jax.config.jax_enable_x64:  # type: ignore[attr-defined]
        hint = 'call jax.config.update("jax_enable_x64", True) first'
        raise SetupError(
            Problem(str(path), "", "its numbers are float64, but JAX uses float32", hint)
        )
    if file.other_versions:
        message = f"{path}: every leaf fits, but it was written by {file.other_versions}"
        warnings.warn(message, OtherVersionsWarning, stacklevel=2)
    places = [*_places_of(Path(file.name), base_dir, trust_code)]
    with with_pins(), as_written(str(path)):
        code = Code.from_dict(file.record["code"])
        place = code.place_of(str(path), building_functions(study), places, trust_code)
        if not trust_code:
            check_sizes(file, study)
        settings = settings_of(file, place)
        programs = Programs(spec)
        try:
            _check_parameters(file, programs.n_parameters(settings))
            state = plain_state_of(file, programs.exact(settings), settings)
        except LoadError as error:
            raise SetupError(Problem(str(path), "", error.found, error.hint)) from error
        except OSError as error:
            found = f"its own code cannot read a file here: {describe_error(error)}"
            hint = "an export has no files that code reads: put it where the code looks for it"
            raise SetupError(Problem(str(path), "", found, hint)) from None
    return SavedModel(state, settings, file.record, file.digest)


def _together(models: Sequence[SavedModel], members: Sequence[SavedMember]) -> SavedModel:
    """The mean of the predictions of several models of one study, as one model.

    Raises:
        SetupError: they are not those of the ensemble.
    """
    first = models[0]
    data = _data_of_all_folds(first)
    for model, member in zip(models, members, strict=True):
        if model.digest != member.digest or _data_of_all_folds(model) != data:
            found = "another model than the ensemble was made of"
            raise SetupError(Problem(str(member.path), "", found, "export the ensemble again"))
    target = "classes" if first.class_names else "numbers"
    counts = tuple(member.count for member in members)
    together = Ensemble(tuple(map(_for_all_folds, models)), counts, target)
    trials = [model.info["trial"] for model in models]
    parts = [{"trial": trial, "count": n} for trial, n in zip(trials, counts, strict=True)]
    info = {
        **first.info,
        "data": data,
        "trial": None,
        "params": {},
        "value": None,
        "members": parts,
    }
    digest = blake2b("".join(model.digest for model in models).encode(), digest_size=16)
    state = PlainState(together, together, optimizer=None, opt_state=None)
    return SavedModel(state, first.settings, info, digest.hexdigest())


def _data_of_all_folds(saved: SavedModel) -> dict[str, Any]:
    """What a model records about its data, without what differs between folds."""
    return {**saved.info["data"], "fold": None, "rows": None}


def _for_all_folds(saved: SavedModel) -> Any:
    """The model, for features that were scaled by the rows of all folds."""
    fold = saved.info["data"]["fold"]
    if not fold:
        return saved.model
    dtype = saved.info["data"]["spec"]["dtype"]
    scale, shift = (jnp.asarray(np.array(fold[name], dtype)) for name in ("scale", "shift"))
    return Rescaled(saved.model, scale, shift)


def _check_parameters(file: SavedFile, declared: int) -> None:
    """Refuse a model with more parameters than the file contains, before memory is taken for it."""
    held = sum(leaf.size for leaf in file.tensors.values())
    if declared > held:
        found = f"its settings declare {declared:,} parameters, but it contains {held:,}"
        raise SetupError(Problem(file.name, "", found, "use a file that `export` wrote"))


def _places_of(file: Path, base_dir: Path | str | None, trusted: bool) -> Iterator[Path]:
    """Where the source of a model's functions may be: `base_dir`, then the current directory.

    The directory that was exported with the model, and those in it, only count if it is trusted.
    """
    own = exported_directory(file)
    for place in (base_dir, Path.cwd().resolve()):
        if place is None:
            continue
        resolved = Path(place).resolve()
        is_within = file.name == MODEL_FILE and own in resolved.parents
        if trusted or not (resolved == own or is_within):
            yield Path(place)
    if trusted:
        yield file.parent.resolve()
