"""Whether data and code are what they were when a study ran: else its trials cannot be compared."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

from sweeper.config.recorded import study_of
from sweeper.config.toml import Source
from sweeper.data.ahead import preparing
from sweeper.errors import DataError, StudyError
from sweeper.programs.data_spec import DataSpec, data_spec
from sweeper.results.listing import listed
from sweeper.rundir import RunDir
from sweeper.small_files import read_small
from sweeper.sweep.session import backup
from sweeper.sweep.session.ownership import refuse_foreign
from sweeper.sweep.session.reconcile import joined

_MEND = "put it back, or start the study over: python -m sweeper run {file} --fresh"


def refuse_another(run_dir: RunDir, *, trust_code: bool = False) -> DataSpec | None:
    """Refuse to train trials of a study again where its data or code has changed, as `run` does.

    Where only the published tables were kept, nothing is known of its data, and nothing refused.
    Functions that run for it must be known as this user's own, unless `trust_code` is given.
    Returns what programs need to know of the data, None if they were not read.

    Raises:
        StudyError: the data, or a file of the user's own code, is not what it was.
        DataError: the data is not there, or unfit.
        SetupError: nothing was published there, the ledger is damaged, or code is not trusted.
    """
    file = Path(listed(run_dir).study["study_file"])
    if not run_dir.ledger.exists() and not run_dir.backup.exists():
        return None
    with closing(backup.read(run_dir)) as ledger:
        sessions = ledger.sessions()
    began = sessions[0]["study"]
    # wherever it was moved to since
    results = began["results"] | {"dir": str(run_dir.root)}
    config = study_of(began | {"results": results}, file)
    if not trust_code:
        refuse_foreign(config, run_dir)
    with _told_of(file), preparing(config) as prepared:
        data = prepared()
    with _told_of(file, _MEND.format(file=file.name)):
        joined(config, sessions, data.digest, None, asks_start=False)
    return data_spec(config, data)


def _text_of(file: Path) -> str:
    """The text of the study file; empty if it is gone or can no longer be read."""
    try:
        return read_small(file)
    except (OSError, ValueError):
        return ""


@contextmanager
def _told_of(file: Path, mend: str | None = None) -> Iterator[None]:
    """Name the lines of the user's own file, for `config` is of a text that was never written."""
    try:
        yield
    except (StudyError, DataError) as error:
        source = Source(file, _text_of(file))
        raise type(error)(
            replace(one, where=source.where(one.key), mend=mend or one.mend)
            for one in error.problems
        ) from error
