"""The digests of a ledger's rows, and the chain of its closed rounds."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b


def digest_of(*values: int | str | bytes) -> bytes:
    """The digest of a row, or of a part of it."""
    hashed = blake2b(digest_size=16)
    for value in values:
        raw = value if isinstance(value, bytes) else str(value).encode()
        hashed.update(len(raw).to_bytes(8, "little") + raw)
    return hashed.digest()


def digests_by_round(db: sqlite3.Connection) -> Mapping[int, Sequence[bytes]]:
    """The digests of what each round added: of its buckets, then of its endings."""
    digests: dict[int, list[bytes]] = {}
    for table, order in (("bucket", "round, bucket"), ("ending", "number")):
        for number, digest in db.execute(f"SELECT round, digest FROM {table} ORDER BY {order}"):
            digests.setdefault(number, []).append(digest)
    return digests


def chain_of(before: bytes, digest: bytes, row_digests: Iterable[bytes]) -> bytes:
    """The chain value of a closed round, from the one `before` and the round's contents."""
    return blake2b(b"".join([before, digest, *row_digests])).digest()
