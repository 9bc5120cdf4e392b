"""Records which trial a saved model belongs to, and how its study prepared the data.

The record depends only on the study, so equal runs write equal files. Files of earlier versions
have no record, and are identified by their names.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweeper.data.dataset import Dataset
from sweeper.files import read_json
from sweeper.programs.data_spec import DataSpec
from sweeper.programs.saved_file import MODEL, SavedFile

# the key of the record in a kept model; exported models have all of it in plain words
WHOSE = "whose"
# by how much an Equinox file may be larger than what the optimizer trains
_MAX_MORE_BYTES = 700_000_000


def whose(row: Mapping[str, Any], member: int, data_digest: str | None) -> dict[str, Any]:
    """The record of a model's trial; `row` is its row in the ledger or trials.parquet.

    `data_digest` is that of the study's data, or None if unknown.
    """
    came_to = [json.loads(row["params_json"]), row["seed"], row["epochs_done"], row["value"]]
    text = json.dumps(came_to, sort_keys=True)
    return {
        "trial": row["trial_number"],
        "member": member,
        "data": data_digest,
        "result": blake2b(text.encode(), digest_size=16).hexdigest(),
    }


def data_of(file: SavedFile) -> str | None:
    """The digest of the data that a kept model was trained on, or None if not recorded."""
    return file.record.get(WHOSE, {}).get("data")


def misfits(
    file: SavedFile, leaves_path: Path, expected: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    """Each file of a kept model that is not what it should be, by name, and what it is instead.

    `leaves_path` is the same model as serialised Equinox leaves, if it exists; `expected` is the
    result of `whose` for the trial in both names.
    """
    saved = leaves_path.with_suffix(".safetensors").name
    if found := _another(file.record.get(WHOSE), expected):
        yield saved, found
    tensors = [leaf for name, leaf in file.tensors.items() if name.startswith(f"{MODEL}/")]
    if leaves_path.exists() and not _holds(leaves_path, tensors):
        yield leaves_path.name, f"its arrays are not those of {saved}"


def _another(said: Mapping[str, Any] | None, expected: Mapping[str, Any]) -> str:
    """Which model it is instead of the expected one; empty if it is that one, or has no record."""
    if said is None:
        return ""
    if said["trial"] != expected["trial"]:
        return f"it is the model of trial {said['trial']}, not of trial {expected['trial']}"
    if said["member"] != expected["member"]:
        return f"it is the model of member {said['member']}, not of member {expected['member']}"
    if None not in (said["data"], expected["data"]) and said["data"] != expected["data"]:
        return f"it is of a trial {said['trial']} on other data"
    if said["result"] != expected["result"]:
        return f"it is of trial {said['trial']} of another study"
    return ""


def _holds(model: Path, tensors: list[NDArray[np.generic]]) -> bool:
    """Whether an Equinox file contains these arrays, in any order.

    It also contains what the optimizer does not train: integer arrays, the rate of a Dropout layer.
    """
    missing = Counter(map(_bits, tensors))
    try:
        size = model.stat().st_size
        if size > sum(leaf.nbytes for leaf in tensors) + _MAX_MORE_BYTES:
            return False
        with model.open("rb") as file:
            while file.tell() < size:
                missing[_bits(np.load(file, allow_pickle=False))] -= 1
    except Exception:  # NumPy parses headers as Python, so a damaged one may raise anything
        return False
    return not +missing


def _bits(array: NDArray[np.generic]) -> tuple[str, tuple[int, ...], bytes]:
    content = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
    return array.dtype.str, array.shape, blake2b(content, digest_size=16).digest()


_CHECK = "check"
# keys that are read; notes of earlier versions lack some, or their own digest
_KEYS = (
    "spec",
    "feature_names",
    "class_names",
    "targets",
    "rows",
    "digest",
    "one_logit",
    "transform",
    "folds",
)


class NoteError(Exception):
    """A note that cannot be used, and why."""


def note_of(data: Dataset, spec: DataSpec) -> str:
    """The text of the note on this data."""
    folds = {"scale": data.fold_scale.tolist(), "shift": data.fold_shift.tolist()}
    numbers = data.x_train[:, : len(data.transform.get("numbers", ()))]  # as scaled
    of_folds = [{"train": train, "val": val} for train, val in data.rows_of_folds]
    note: dict[str, Any] = {
        "spec": spec.body,
        "feature_names": data.feature_names,
        "class_names": data.class_names,
        "targets": [one.name for one in data.columns if one.role == "target"],
        "rows": {"train": data.train_rows, "val": data.val_rows, "test": len(data.x_test)},
        "digest": data.digest,
        "one_logit": data.one_logit,
        "transform": data.transform,
        "folds": folds,
        "ranges": {"low": numbers.min(axis=0).tolist(), "high": numbers.max(axis=0).tolist()},
        **({"rows_of_folds": of_folds} if data.n_folds else {}),
    }
    return json.dumps({**note, _CHECK: _check(note)})


def read_note(path: Path, data_digest: str | None) -> dict[str, Any]:
    """The note at `path`, which must be for data with this digest, or any data if None.

    Raises:
        NoteError: it cannot be read, was changed, or is for other data.
    """
    try:
        note = read_json(path)
    except FileNotFoundError as error:
        raise NoteError("it is missing") from error
    except (OSError, ValueError) as error:
        raise NoteError(f"it cannot be read ({error})") from error
    if not isinstance(note, dict):
        raise NoteError("it cannot be read (it is not a JSON object)")
    check = note.pop(_CHECK, None)
    if check not in (None, _check(note)):
        raise NoteError("it was changed")
    if missing := [key for key in _KEYS if key not in note]:
        raise NoteError(f"it lacks {', '.join(missing)}, as an earlier version wrote it")
    if data_digest not in (None, note["digest"]):
        raise NoteError("it is for other data than the study's")
    return note


def _check(note: Mapping[str, Any]) -> str:
    # as it will be read again: without tuples, and with strings as keys
    text = json.dumps(json.loads(json.dumps(note)), sort_keys=True)
    return blake2b(text.encode(), digest_size=16).hexdigest()
