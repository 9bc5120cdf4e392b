"""`preparation.json`: what a model has to be told of its study's data, for whoever exports one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from hashlib import blake2b
from pathlib import Path
from typing import Any

from sweeper.data.dataset import Dataset
from sweeper.programs.data_spec import DataSpec
from sweeper.small_files import read_json

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
        raise NoteError("it cannot be read (it is no JSON object)")
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
