"""Opens Optuna's storages: databases that Optuna's own tools, or other programs, may share."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import optuna
from optuna.exceptions import StorageInternalError
from optuna.storages import RDBStorage
from optuna.trial import FrozenTrial
from sqlalchemy import create_engine, inspect, pool
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from sweeper.errors import Problem, SetupError, StudyError, did_you_mean, listed

_HINT = "use a storage URL of Optuna, such as sqlite:///study.db"
_DATABASES = ("sqlite", "mysql", "mariadb", "postgresql", "mssql", "oracle")
# drivers whose package has another name
_PACKAGES = {"MySQLdb": "mysqlclient", "psycopg": "psycopg[binary]", "psycopg2": "psycopg2-binary"}
_ERRORS = (StorageInternalError, SQLAlchemyError, ImportError, ValueError, RuntimeError)


def split_name(source: str, name: str | None = None) -> tuple[str, str | None]:
    """The URL of a storage, and the name of a study there: that after `#`, or else `name`.

    Raises:
        StudyError: there are two names, and they differ.
    """
    url, _, after = source.partition("#")
    if after and name not in (None, after):
        place = f"{without_password(url)}#{after}"
        raise StudyError(Problem(place, "", f"the study is also named '{name}'", "name it once"))
    return url, after or name


def open_storage(url: str, *, to_read: bool = False) -> RDBStorage:
    """The database at `url`, whose connections are closed after each use.

    Optuna creates the tables that it lacks, unless it is only opened `to_read`.
    """
    closing = {"poolclass": pool.NullPool}
    return RDBStorage(url, engine_kwargs=closing, skip_table_creation=to_read)


def without_password(url: str) -> str:
    """The URL as it may be shown and recorded.

    Raises:
        StudyError: it is not a URL of a database.
    """
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError) as error:
        place = url.partition("://")[0]  # without the rest, which may have a password
        raise StudyError(Problem(place, "", "it is not the URL of a database", _HINT)) from error
    shown = parsed.render_as_string(hide_password=True)
    try:
        parsed.get_dialect()
    except NoSuchModuleError as error:
        near = did_you_mean(parsed.get_backend_name(), _DATABASES)
        found = f"no kind of database is called '{parsed.drivername}'"
        raise StudyError(Problem(shown, "", found, near or _HINT)) from error
    except ImportError:
        pass  # reported when it is opened
    return shown


def recorded_url(url: str) -> str:
    """The URL without a password, and with the absolute path of a file, as records have it.

    Raises:
        StudyError: it is not a URL of a database.
    """
    shown = without_password(url)
    parsed = make_url(shown)
    if parsed.get_backend_name() != "sqlite" or not parsed.database:
        return shown
    path = str(Path(parsed.database).resolve())
    return parsed.set(database=path).render_as_string()


@contextmanager
def refusing(place: str, what: str) -> Iterator[None]:
    """Report that a database cannot be read or written, `what`.

    Raises:
        SetupError: it cannot.
    """
    try:
        yield
    except _ERRORS as error:
        reason, hint = str(error).partition("\n")[0], _HINT
        missing = error.__cause__ or error
        if isinstance(missing, ModuleNotFoundError) and missing.name:
            package = _PACKAGES.get(missing.name, missing.name)
            reason, hint = f"it needs {package}", f"install it: python -m pip install '{package}'"
        raise SetupError(Problem(place, "", f"cannot be {what}: {reason}", hint)) from error


def before_first_epoch(trials: Sequence[FrozenTrial]) -> int:
    """The step before epoch 1, for steps of intermediate values that count from 0 or from 1.

    Without a step 0 they are epochs, as in a study that this package exported.
    """
    has_zero = any(0 in trial.intermediate_values for trial in trials)
    return -1 if has_zero else 0


def read_study(url: str, name: str | None) -> optuna.Study:
    """The study `name` of an Optuna storage, or the only one there; nothing is written.

    Raises:
        SetupError: the storage does not exist or cannot be read.
        StudyError: it has no such study, or several.
    """
    place = without_password(url)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with refusing(place, "read"):
        parsed = make_url(url)
        is_file = parsed.get_backend_name() == "sqlite" and parsed.database
        # SQLite would make the file, and Optuna its tables
        if is_file and not Path(parsed.database or "").is_file():
            raise SetupError(Problem(place, "", "the file does not exist", _HINT))
        engine = create_engine(url, poolclass=pool.NullPool)
        if not inspect(engine).has_table("trial_params"):
            raise SetupError(Problem(place, "", "it is not a storage of Optuna", _HINT))
        storage = open_storage(url, to_read=True)
        names = [one.study_name for one in storage.get_all_studies()]
        if name is None and len(names) == 1:
            (name,) = names
        if name not in names:
            found = f"it has no study '{name}'" if name else f"it has {len(names)} studies"
            hint = did_you_mean(name, names) if name else ""
            quoted = listed([shlex.quote(one) for one in names])
            known = f"name one of {quoted} after #" if names else "name another storage"
            raise StudyError(Problem(place, "", found, hint or known))
        return optuna.load_study(study_name=name, storage=storage)
