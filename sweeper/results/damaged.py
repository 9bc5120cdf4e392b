"""What a published table that cannot be read is refused with: the command that writes it anew."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote

import pyarrow as pa

from sweeper.errors import Problem, SetupError


@contextmanager
def refusing_damage(path: Path) -> Generator[None]:
    """Say what mends the table at `path`, a file or a directory of parts, if it cannot be read.

    Raises:
        SetupError: it is no Parquet, or ends too early.
        OSError: the system does not let it be read.
    """
    try:
        yield
    except (pa.ArrowException, OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno:
            raise
        root = path.parent.parent if path.match("metrics/part-*") else path.parent
        mend = f"write it anew: python -m sweeper verify {quote(str(root))} --repair"
        raise SetupError(Problem(str(path), "", "it cannot be read", mend)) from error
