"""Columns as compact JSON: few digits, each text and each constant once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

DIGITS = 6  # significant digits, enough for charts

Packed = list[Any] | dict[str, Any]


def rounded(
    values: np.ndarray | Sequence[float | None], digits: int = DIGITS
) -> list[float | int | None]:
    """Numbers with this many significant digits; None if not finite.

    Integers stay unchanged, as far as a float can hold them.
    """
    numbers = np.asarray(values, np.float64)
    known = np.where(np.isfinite(numbers), numbers, 0.0)
    size = np.abs(known)
    with np.errstate(divide="ignore"):
        exponent = np.floor(np.log10(np.where(size > 0, size, 1.0)))
    places = np.clip(digits - 1 - exponent, -300, 300)
    up, down = 10.0 ** np.maximum(places, 0), 10.0 ** np.maximum(-places, 0)
    short = np.where(places >= 0, np.round(known * up) / up, np.round(known / down) * down)
    # numbers too small to be scaled, and integers
    whole = (known == np.round(known)) & (size < 2**53)
    return exact(np.where(whole | ~np.isfinite(short) | ~np.isfinite(numbers), numbers, short))


def exact(numbers: np.ndarray) -> list[float | int | None]:
    """Numbers with all their digits, as integers if all of them are; None if not finite."""
    finite = np.isfinite(numbers)
    known = np.where(finite, numbers, 0.0)
    is_whole = bool(((known == np.round(known)) & (np.abs(known) < 2**53)).all())
    listed: list[Any] = (known.astype(np.int64) if is_whole else known).tolist()
    if finite.all():
        return listed
    return [value if is_known else None for value, is_known in zip(listed, finite, strict=True)]


def packed_numbers(values: np.ndarray, digits: int | None = DIGITS) -> Packed:
    """A column of numbers: a list, or under "all" its only value; all digits if None."""
    listed = exact(values) if digits is None else rounded(values, digits)
    if len(listed) > 1 and all(value == listed[0] for value in listed):
        return {"all": listed[0]}
    return listed


def packed_texts(texts: Sequence[str], codes: np.ndarray) -> Packed:
    """A column of text: its different values under "of", each row's index under "at"."""
    used, at = np.unique(codes, return_inverse=True)
    of = [None if code < 0 else texts[code] for code in used.tolist()]
    if len(of) == 1:
        return {"all": of[0]}
    return {"of": of, "at": at.tolist()}


def as_json(record: Any) -> str:
    """`record` as JSON without spaces; it may contain only finite numbers."""
    return json.dumps(record, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
