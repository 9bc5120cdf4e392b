"""What data may hold, and hardly anybody means."""

from __future__ import annotations

import numpy as np

from sweeper.data.dataset import Dataset
from sweeper.naming import listed

# of fewer rows a class is more likely a slip of the pen, and is hardly learnt in any case
_FEW_ROWS = 5
_CLASSES_SHOWN = 5


def data_doubts(data: Dataset) -> tuple[str, ...]:
    """What to say of the data of a study before it begins; nothing of most."""
    if not data.class_names:
        return ()
    parts = np.concatenate([data.y_train, data.y_val, data.y_test])
    counts = np.bincount(parts, minlength=len(data.class_names))
    rows_of = dict(zip(data.class_names, counts.tolist(), strict=True))
    rare = {name: rows for name, rows in rows_of.items() if rows < _FEW_ROWS}
    if not rare:
        return ()
    # by what nobody sees in a table
    common = {_bare(name): name for name in rows_of if name not in rare}
    told = [
        f"{name!r} has {rows}{_meant(common.get(_bare(name)))}"
        for name, rows in list(rare.items())[:_CLASSES_SHOWN]
    ]
    more = f" and {len(rare) - _CLASSES_SHOWN} more" if len(rare) > _CLASSES_SHOWN else ""
    what, are = ("a class", "is") if len(rare) == 1 else ("classes", "are")
    few = f"{what} of fewer than {_FEW_ROWS} rows, which {are} hardly learnt"
    return (f"{few}: {listed(told)}{more}; mend the labels, or add rows",)


def _bare(name: str) -> str:
    return " ".join(name.split()).casefold()


def _meant(name: str | None) -> str:
    return "" if name is None else f" (did you mean {name!r}?)"
