"""Saved models: a trial's weights, and everything needed to use them, in one safetensors file.

Its header lists every leaf with shape, dtype and digest, so that damage is found; the digest of the
file is that of its header. Reading a file runs nothing in it.
"""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
import optax
from jaxtyping import PyTree
from numpy.typing import NDArray

from sweeper.config import Settings
from sweeper.config.trust import TRUST
from sweeper.data.files import POINTER, is_pointer
from sweeper.errors import Problem, SetupError, did_you_mean_file
from sweeper.models.stateful import StatefulModel, state_of, without_state
from sweeper.programs.checkpoint import (
    CheckpointError,
    Tensors,
    Tree,
    fit_tree,
    name_leaves,
    other_versions,
    pack,
    unpack,
    versions,
)
from sweeper.programs.data_spec import blank_of
from sweeper.programs.optax_state import parameters_of
from sweeper.programs.program import Program, State, judged_state

FORMAT = 1
# name in the directory that `export` writes
MODEL_FILE = "model.safetensors"
_HEADER, _DIGEST = "sweeper", "digest"
_MAX_BYTES, _MAX_HEADER_BYTES = 700_000_000, 32_000_000  # reading takes three times this memory
_MAX_LETTERS = 300
# errors from reading an invalid header
_UNFIT = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
_WRITE_AGAIN = "write it again with `python -m sweeper export`, or use another copy"
_EXPORTED = "use a directory that `python -m sweeper export` wrote"
_AS_MODEL = "export the trial again without --format, or predict as the README there shows"


@dataclass(frozen=True, slots=True)
class SavedFile:
    """A file that was read and is intact; `record` is its header without the tensors."""

    name: str
    record: Mapping[str, Any]
    tensors: Tensors
    digest: str

    @property
    def other_versions(self) -> str:
        """Libraries that wrote it in another version than installed here; empty if none."""
        return other_versions(self.record["versions"])

    def has(self, under: str) -> bool:
        """Whether there are leaves below this path."""
        return any(name.startswith(f"{under}/") for name in self.tensors)

    def tree(self, under: str, like: Tree) -> Tree:
        """The tree below a path, with structure, shapes and dtypes of `like`.

        Raises:
            SetupError: they differ; with the leaf.
        """
        try:
            return fit_tree(self.tensors, like, under)
        except CheckpointError as error:
            by = f" (written by {self.other_versions})" if self.other_versions else ""
            hint = "use the versions and the code that it was written with"
            raise _refusal(self.name, f"{error}{by}", hint) from error


def content_of(
    tensors: Tensors, record: Mapping[str, Any], written_by: Mapping[str, str] | None = None
) -> bytes:
    """The content of a file of `tensors` with the JSON-able header `record`.

    `written_by` are the versions of the libraries that made the tensors, by default those here.
    """
    leaves = {
        name: {"shape": list(leaf.shape), "dtype": str(leaf.dtype), "digest": _digest_of(leaf)}
        for name, leaf in sorted(tensors.items())
    }
    header = {**record, "format": FORMAT, "versions": written_by or versions(), "leaves": leaves}
    text = json.dumps(header, sort_keys=True, allow_nan=False)
    return pack(tensors, {_HEADER: text, _DIGEST: _digest(text.encode())})


def read_saved(path: Path, *, trusted: bool = False) -> SavedFile:
    """The file at `path`, or in a directory that `export` wrote, with every leaf checked.

    A link in such a directory is not followed, and a file of more than 700 MB is only read if it is
    `trusted`.

    Raises:
        SetupError: it cannot be read, is something else, or is damaged; says where.
    """
    if not path.exists() and (near := _near_model(path)):
        raise _refusal(path, "no such file or directory", near)
    path = _model_in(path) if path.is_dir() else path
    if other := _other_format(path):
        raise _refusal(path.parent, f"exported as {other}, without the model", _AS_MODEL)
    if _is_of_ensemble(path):
        hint = f"use one of the models in {path.parent / 'members'}"
        raise _refusal(path.parent, "an ensemble, which is not a model that can be trained", hint)
    if path.suffix == ".eqx" and path.is_file():
        saved = path.with_suffix(".safetensors")
        hint = f"use {saved}" if saved.is_file() else "use a directory that `export` wrote"
        raise _refusal(path, "in Equinox's own format, which only has the weights", hint)
    try:
        if not trusted:
            _check_size(path)
        tensors, metadata = unpack(path.read_bytes())
    except (OSError, CheckpointError) as error:
        if is_pointer(path):
            raise _refusal(path, *POINTER) from None
        reason = error.strerror if isinstance(error, OSError) else f"not a saved model: {error}"
        raise _refusal(path, str(reason), _EXPORTED) from None
    text = metadata.get(_HEADER)
    if text is None:
        raise _refusal(path, "not a saved model of sweeper", _EXPORTED)
    digest = _digest(text.encode())
    if digest != metadata.get(_DIGEST):
        raise _refusal(path, "its header is damaged", _WRITE_AGAIN)
    with as_written(str(path)):
        record = json.loads(text)
        if record["format"] != FORMAT:
            found = f"it has format {record['format']}, but this program reads {FORMAT}"
            raise _refusal(path, found, "use the version of sweeper that wrote it")
        damaged = [*_damaged(tensors, record["leaves"])]
    if damaged:
        raise SetupError([Problem(str(path), leaf, what, _WRITE_AGAIN) for leaf, what in damaged])
    return SavedFile(str(path), record, tensors, digest)


def _near_model(path: Path) -> str:
    """A question that offers an exported model next to `path`; empty if none fits."""
    there = [file.parent.name for file in path.parent.glob(f"*/{MODEL_FILE}")]
    return did_you_mean_file(path, there, path.suffix)


def _refusal(path: Path | str, found: str, hint: str) -> SetupError:
    return SetupError(Problem(str(path), "", found, hint))


@contextmanager
def as_written(name: str) -> Iterator[None]:
    """Refuse the file `name` if its header cannot be used in the block.

    Raises:
        SetupError: with what was raised, or that there is too little memory.
    """
    try:
        yield
    except MemoryError as error:
        hint = "free some memory, or use a machine that has more"
        raise _refusal(name, "there is too little memory for its model", hint) from error
    except _UNFIT as error:
        found = f"its header cannot be used ({type(error).__name__}: {error})"
        raise _refusal(name, found[:_MAX_LETTERS], _WRITE_AGAIN) from error


def _model_in(directory: Path) -> Path:
    path = directory / MODEL_FILE
    if path.is_symlink():
        hint = "put the file itself there, or name the file"
        raise _refusal(path, "a link, which is not followed", hint)
    return path


def _other_format(path: Path) -> str:
    """The format that the model of a directory was exported in, if not in this one; else empty."""
    if path.name != MODEL_FILE or path.exists():
        return ""
    formats = {"model.onnx": "ONNX", "model.stablehlo": "StableHLO"}
    return next((name for file, name in formats.items() if path.with_name(file).exists()), "")


def _is_of_ensemble(path: Path) -> bool:
    """Whether a model that does not exist would be in the directory of an exported ensemble."""
    is_absent = path.name == MODEL_FILE and not path.exists()
    return is_absent and all(path.with_name(name).exists() for name in ("ensemble.json", "members"))


def _check_size(path: Path) -> None:
    """Refuse a file that would take gigabytes of memory, or is endless."""
    there = path.stat()
    if not stat.S_ISREG(there.st_mode):
        raise CheckpointError("not a regular file")
    with path.open("rb") as file:
        header_bytes = int.from_bytes(file.read(8), "little")
    if there.st_size > _MAX_BYTES or (header_bytes > _MAX_HEADER_BYTES <= there.st_size):
        found = f"{there.st_size:,} bytes, with a header of {header_bytes:,}: such a large file "
        raise _refusal(path, f"{found}is only read if it is trusted", TRUST)


def _damaged(tensors: Tensors, leaves: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Each leaf that differs from the header, and what is wrong with it."""
    found: list[tuple[str, str]] = []
    for name, expected in leaves.items():
        leaf = tensors.get(name)
        if leaf is None:
            found.append((name, "the leaf is missing"))
        elif (list(leaf.shape), str(leaf.dtype)) != (expected["shape"], expected["dtype"]):
            what = f"{leaf.dtype}{list(leaf.shape)}, but its header says otherwise"
            found.append((name, what))
        elif _digest_of(leaf) != expected["digest"]:
            found.append((name, "the leaf is damaged"))
    found += [(name, "a leaf that is not in its header") for name in tensors.keys() - leaves]
    return found


def _digest_of(leaf: NDArray[Any]) -> str:
    return _digest(np.ascontiguousarray(leaf).tobytes())


def _digest(content: bytes) -> str:
    return blake2b(content, digest_size=16).hexdigest()


# the model by which the trial is judged, and its untrained arrays; the model that is trained, if an
# average is measured instead; the optimizer state
MODEL, UNTRAINED, TRAINED, OPTIMIZER = "model", "untrained", "trained", "optimizer"


@dataclass(frozen=True, slots=True)
class PlainState:
    """A trial as plain Equinox and Optax objects.

    `opt_state` belongs to `trained`, which is `model` itself unless an average is measured.
    `untrained` is as in `State`.
    """

    model: eqx.Module
    trained: eqx.Module
    optimizer: optax.GradientTransformation | None
    opt_state: PyTree | None
    untrained: PyTree[NDArray[Any]] = None


def tensors_of(program: Program, settings: Settings, state: State) -> dict[str, NDArray[Any]]:
    """The leaves of a trial's own `state`, as returned by `at_its_best` or `only_model`."""
    judged = judged_state(state)
    tensors = name_leaves(parameters_of(program.saver.model(judged)), MODEL)
    tensors |= name_leaves(judged.untrained, UNTRAINED)
    if state.optimizer is not None:
        tensors |= name_leaves(program.saver.opt_state(state, settings), OPTIMIZER)
    if state.average is not None:
        trained_state = State(state.model, state.optimizer, state.step, untrained=state.untrained)
        tensors |= name_leaves(parameters_of(program.saver.model(trained_state)), TRAINED)
    return tensors


def plain_state_of(file: SavedFile, program: Program, settings: Settings) -> PlainState:
    """The content of a saved model whose trial `program` would train.

    Raises:
        SetupError: a leaf is missing, superfluous, or does not fit.
    """
    blank = blank_of(program.layout.abstract())
    whole = program.saver.model(blank)
    like, rest = eqx.partition(without_state(whole), eqx.is_inexact_array)
    untrained = untrained_of(file, blank.untrained)

    def model(under: str) -> eqx.Module:
        own = eqx.combine(_on_device(file.tree(under, like)), rest)
        if not isinstance(whole, StatefulModel):
            return own
        return StatefulModel(own, state_of(_on_device(untrained[""])))

    judged, opt_state = model(MODEL), None
    if file.record["has_optimizer"]:
        opt_state = _on_device(file.tree(OPTIMIZER, program.saver.opt_state(blank, settings)))
    return PlainState(
        model=judged,
        trained=model(TRAINED) if file.has(TRAINED) else judged,
        optimizer=program.saver.optimizer(settings),
        opt_state=opt_state,
        untrained=untrained,
    )


def untrained_of(file: SavedFile, like: PyTree) -> PyTree[NDArray[Any]]:
    """The untrained arrays in a file, structured like `like`, in the file's precision.

    The size of integers and floats depends on the precision of JAX when they were written.

    Raises:
        SetupError: they differ in structure, shape or kind.
    """

    def as_written(name: str, leaf: Any) -> Any:
        found = file.tensors.get(name, leaf).dtype
        is_of_kind = found.kind == np.dtype(leaf.dtype).kind
        return np.zeros(leaf.shape, found) if is_of_kind else leaf

    leaves = [as_written(name, leaf) for name, leaf in name_leaves(like, UNTRAINED).items()]
    return file.tree(UNTRAINED, jax.tree.unflatten(jax.tree.structure(like), leaves))


def _on_device(tree: PyTree) -> PyTree:
    return jax.device_put(tree)  # jnp.asarray would compile for every shape
