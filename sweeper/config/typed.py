"""JSON as a dataclass, with every value of the type that is declared."""

from __future__ import annotations

from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

Kind = TypeVar("Kind")


def of_json(kind: type[Kind], text: str) -> Kind:
    """The `kind` that `text` describes.

    Raises:
        ValueError: a value is missing or of another type; the message says where, leaving out keys
            that are JSON themselves.
    """
    try:
        return TypeAdapter(kind).validate_json(text, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
    place = ".".join(str(one) for one in first["loc"] if "{" not in str(one))
    raise ValueError(f"{place}: {first['msg']}")
