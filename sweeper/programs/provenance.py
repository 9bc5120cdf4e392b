"""Records which trial a saved model belongs to, and how its study prepared the data.

The record follows from the study alone, so equal runs write equal files. Files of earlier
versions have none and count as what their names say.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sweeper.data.dataset import Dataset
from sweeper.programs.data_spec import DataSpec
from sweeper.programs.saved_file import MODEL, SavedFile
from sweeper.rundir import read_json

# where the record of a kept model says it; what `export` writes has all of that in plain words
WHOSE = "whose"
# by which a file of Equinox may be larger than what the optimizer trains
_MAX_MORE_BYTES = 700_000_000


def whose(row: Mapping[str, Any], member: int, data_digest: str | None) -> dict[str, Any]:
    """What a model says of its trial, of which `row` is what the ledger or trials.parquet tells.

    `data_digest` is that of the study's data, None where nobody knows it.
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
    """The digest of the data that a kept model was trained on; None where it does not say."""
    return file.record.get(WHOSE, {}).get("data")


def misfits(
    file: SavedFile, beside: Path, expected: Mapping[str, Any]
) -> Iterator[tuple[str, str]]:
    """Each file of a kept model that is not what it should be, by name, and what it is instead.

    `beside` is the same model as Equinox writes leaves, if it is there, `expected` what `whose`
    gives of the trial that both are named for.
    """
    saved = beside.with_suffix(".safetensors").name
    if found := _another(file.record.get(WHOSE), expected):
        yield saved, found
    tensors = [leaf for name, leaf in file.tensors.items() if name.startswith(f"{MODEL}/")]
    if beside.exists() and not _holds(beside, tensors):
        yield beside.name, f"its arrays are not those of {saved}"


def _another(said: Mapping[str, Any] | None, expected: Mapping[str, Any]) -> str:
    """What a model is that is not the expected one; empty where it is, or does not say."""
    if said is None:
        return ""
    if said["trial"] != expected["trial"]:
        return f"it is the model of trial {said['trial']}, not of trial {expected['trial']}"
    if said["member"] != expected["member"]:
        return f"it is the model of member {said['member']}, not of member {expected['member']}"
    if None not in (said["data"], expected["data"]) and said["data"] != expected["data"]:
        return f"it is of a trial {said['trial']} that was trained on other data"
    if said["result"] != expected["result"]:
        return f"it is of another study's trial {said['trial']}"
    return ""


def _holds(model: Path, tensors: list[NDArray[np.generic]]) -> bool:
    """Whether a file of Equinox holds these arrays, in any order.

    It also holds what the optimizer leaves alone: integer arrays, the rate of a Dropout layer.
    """
    missing = Counter(map(_bits, tensors))
    try:
        size = model.stat().st_size
        if size > sum(leaf.nbytes for leaf in tensors) + _MAX_MORE_BYTES:
            return False
        with model.open("rb") as file:
            while file.tell() < size:
                missing[_bits(np.load(file, allow_pickle=False))] -= 1
    except Exception:  # NumPy reads a header as Python text: where it is damaged, it is any
        return False
    return not +missing


def _bits(array: NDArray[np.generic]) -> tuple[str, tuple[int, ...], bytes]:
    content = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
    return array.dtype.str, array.shape, blake2b(content, digest_size=16).digest()


_CHECK = "check"
# what is read of it; notes of earlier versions lack some, or have no digest of their own
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
    """A note that cannot be used; it says why."""


def note_of(data: Dataset, spec: DataSpec) -> str:
    """The text of the note of these data."""
    folds = {"scale": data.fold_scale.tolist(), "shift": data.fold_shift.tolist()}
    note: dict[str, Any] = {
        "spec": asdict(spec),
        "feature_names": data.feature_names,
        "class_names": data.class_names,
        "targets": [one.name for one in data.columns if one.role == "target"],
        "rows": {"train": data.train_rows, "val": data.val_rows, "test": len(data.x_test)},
        "digest": data.digest,
        "one_logit": data.one_logit,
        "transform": data.transform,
        "folds": folds,
    }
    return json.dumps({**note, _CHECK: _check(note)})


def read_note(path: Path, data_digest: str | None) -> dict[str, Any]:
    """The note at `path`, which must be of data of this digest; of any where that is None.

    Raises:
        NoteError: it cannot be read, was changed, or is of other data.
    """
    try:
        note = read_json(path)
    except FileNotFoundError as error:
        raise NoteError("it is not there") from error
    except (OSError, ValueError) as error:
        raise NoteError(f"it cannot be read ({error})") from error
    if not isinstance(note, dict):
        raise NoteError("it cannot be read (it is not a JSON object)")
    check = note.pop(_CHECK, None)
    if check not in (None, _check(note)):
        raise NoteError("it is not what was written")
    if missing := [key for key in _KEYS if key not in note]:
        raise NoteError(f"it does not tell {', '.join(missing)}, as an earlier version wrote it")
    if data_digest not in (None, note["digest"]):
        raise NoteError("it is of other data than the study's")
    return note


def _check(note: Mapping[str, Any]) -> str:
    # as it is read again: without tuples, the keys being texts
    text = json.dumps(json.loads(json.dumps(note)), sort_keys=True)
    return blake2b(text.encode(), digest_size=16).hexdigest()
