"""Finds user-defined functions, which a study file names as `module:function`."""

from __future__ import annotations

import importlib
import inspect
import io
import re
import sys
import threading
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout, suppress
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from sweeper.config import StudyConfig
from sweeper.config.main_module import MAIN_FILE
from sweeper.config.refusals import missing
from sweeper.config.table import Flaw
from sweeper.config.user_errors import RAISED, describe_error
from sweeper.config.user_source import MAIN, OF_ANOTHER_MAIN, is_of_another_main, source_digests
from sweeper.errors import Problem, StudyError
from sweeper.process import DISTRIBUTION, note_foreign_code

Function = Callable[..., Any]

_ABSENT = object()
# names of arguments that expect arrays, which no function gets from a study file
_ARRAYS = re.compile(
    r"x|inputs|(model_)?params|parameters|weights|models?|net|network|grads|updates"
)
_loaded: dict[tuple[str, Path], _Loaded] = {}
_loading = threading.RLock()
_PATH_LOCK = threading.Lock()
_OF_EXTRA = ("flax", "haiku")  # modules that the extra flax installs


@dataclass(frozen=True, slots=True)
class _Loaded:
    """A module, and the digests of the files that it was loaded from."""

    module: ModuleType
    digests: Mapping[str, str]


class LoadError(StudyError):
    """The function does not exist: `found` says what is wrong, `hint` what to write."""

    def __init__(self, found: str, hint: str) -> None:
        super().__init__(Problem("", "", found, hint))
        self.found = found
        self.hint = hint

    def __reduce__(self) -> Any:
        return type(self), (self.found, self.hint)


def forget_changed(base_dir: Path) -> None:
    """Reload modules in `base_dir` whose files have changed since they were imported.

    In a notebook, users edit them between two studies.
    """
    base_dir = base_dir.resolve()
    with _loading:
        stale, files = _stale(base_dir)
        for name, loaded in stale.items():
            for other in _modules_of(loaded, files):
                del sys.modules[other]
            del _loaded[name, base_dir]


def _stale(base_dir: Path) -> tuple[Mapping[str, _Loaded], Collection[Path]]:
    """The modules to load again, and the files that they are loaded from.

    If two modules import the same file, both are loaded again: otherwise each of them would have
    its own version of the classes in it.
    """
    here = {name: loaded for (name, place), loaded in _loaded.items() if place == base_dir}
    stale: dict[str, _Loaded] = {}
    files: set[Path] = set()
    for name, loaded in here.items():
        digests = source_digests(name, base_dir)
        if digests != loaded.digests:
            stale[name] = loaded
            files |= {base_dir / file for file in (*digests, *loaded.digests)}
    own = {name: {base_dir / file for file in here[name].digests} for name in here}
    own = {name: {file for file in paths if file.is_file()} for name, paths in own.items()}
    while sharing := [name for name in own.keys() - stale.keys() if own[name] & files]:
        stale |= {name: here[name] for name in sharing}
        files |= {file for name in sharing for file in own[name]}
    return stale, files


@contextmanager
def imported_again(name: str, base_dir: Path) -> Generator[None]:
    """Within this block, functions of the module `name` come from a second import of it.

    Modules in `base_dir` that it imports are imported again, too; what they print is discarded.
    """
    base_dir = base_dir.resolve()
    with _loading, redirect_stdout(io.StringIO()):
        _module(name, base_dir)
        loaded = _loaded[name, base_dir]
        files = {base_dir / file for file in loaded.digests}
        first, known = _modules_of(loaded, files), dict(_loaded)
        for other in first:
            del sys.modules[other]
        for key, one in known.items():
            if one is loaded or one.module in first.values():
                del _loaded[key]
        try:
            yield
        finally:
            for other in _modules_of(_loaded.get((name, base_dir), loaded), files):
                del sys.modules[other]
            sys.modules.update(first)
            _loaded.clear()
            _loaded.update(known)


def _modules_of(loaded: _Loaded, files: Collection[Path]) -> dict[str, ModuleType]:
    """The imported modules that are this one or come from these files, by name."""
    found: dict[str, ModuleType] = {}
    names = tuple(file.name for file in files)
    for name, module in [*sys.modules.items()]:
        file = getattr(module, "__file__", None) or ""
        # resolving the paths of all modules takes 0.1 s
        is_one = file.endswith(names) and Path(file).resolve() in files
        if module is loaded.module or is_one:
            found[name] = module
    return found


def load_class(name: str, base_dir: Path) -> Function:
    """The class `module:Class`, found like a function by `load_function`.

    Raises:
        LoadError: as `load_function`.
    """
    return load_function(name, base_dir, "class")


def load_function(name: str, base_dir: Path, noun: str = "function") -> Function:
    """The function `module:function`, from a module in `base_dir` or else an installed one.

    Raises:
        LoadError: the module or function does not exist, or the import fails.
    """
    module_name, _, function_name = name.partition(":")
    module = _module(module_name, base_dir.resolve())
    function = getattr(module, function_name, _ABSENT)
    if callable(function):
        return function
    if is_of_another_main(name):
        raise LoadError(f"this program does not define '{name}'", OF_ANOTHER_MAIN)
    callables = [name for name, value in vars(module).items() if callable(value)]
    near = get_close_matches(function_name, callables, n=1)
    if function is not _ABSENT:
        found = f"'{name}' is {describe_object(function)}, not a {noun}"
        raise LoadError(found, f"write the name of a {noun}")
    hint = f"did you mean '{module_name}:{near[0]}'?" if near else "write the name of one in it"
    raise LoadError(f"no {noun} '{function_name}' in the module '{module_name}'", hint)


def load_main_from(directory: Path) -> None:
    """Find functions of `__main__` in the file `MAIN_FILE` there, if looked up in `directory`.

    Raises:
        LoadError: importing it failed.
    """
    name, directory = Path(MAIN_FILE).stem, directory.resolve()
    with _loading:
        _module(name, directory)
        _loaded[MAIN, directory] = _loaded[name, directory]


def describe_object(value: Any) -> str:
    """What a value is, such as 'a list', 'a class' or 'an Adam', with its article."""
    if value is None:
        return "None"
    kinds = {
        "a class": inspect.isclass,
        "a module": inspect.ismodule,
        "a function": inspect.isroutine,
    }
    kind = next((kind for kind, is_one in kinds.items() if is_one(value)), None)
    name = type(value).__name__
    return kind or f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


def _module(name: str, base_dir: Path) -> ModuleType:
    """The module, imported once for each directory of studies.

    Raises:
        LoadError: it does not exist, or importing it failed.
    """
    with _loading:
        if (name, base_dir) not in _loaded:
            note_foreign_code()
            try:
                with _import_path(base_dir, name.partition(".")[0]), _jax_settings_kept():
                    digests = source_digests(name, base_dir)
                    _loaded[name, base_dir] = _Loaded(importlib.import_module(name), digests)
            except RAISED as error:
                raise _not_imported(name, base_dir, error) from error
        return _loaded[name, base_dir].module


@contextmanager
def _jax_settings_kept() -> Generator[None]:
    """Undo changes to JAX settings by an import: a running study has set JAX up."""
    jax = sys.modules.get("jax")
    config: Any = getattr(jax, "config", None)
    before = dict(config.values) if config else {}
    try:
        yield
    finally:
        for name, value in before.items():
            if config.values[name] != value:
                config.update(name, value)


def _not_imported(name: str, base_dir: Path, error: BaseException) -> LoadError:
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    if missing is not None and f"{name}.".startswith(f"{missing}."):
        found = f"no module '{missing}' in {base_dir} or installed"
        if not base_dir.is_dir():
            again = "run the study once from its new place, with the same settings"
            return LoadError(found, f"if that directory was moved, {again}")
        return LoadError(found, "write the name of a file next to this one, without .py")
    found = f"the module '{name}' cannot be imported ({describe_error(error)})"
    if missing is not None and missing.partition(".")[0] in _OF_EXTRA:
        return LoadError(found, f"install it: python -m pip install '{DISTRIBUTION}[flax]'")
    return LoadError(found, "fix it; try python -c 'import ...'")


@contextmanager
def first_on_path(directory: Path) -> Generator[None]:
    """`directory` at the front of the import path.

    The list is replaced: an import in another thread that goes through it would miss the next
    entry, such as that of the installed packages, if an earlier one were removed.
    """
    with _PATH_LOCK:
        sys.path = [str(directory), *sys.path]
    try:
        yield
    finally:
        with _PATH_LOCK:
            left = [*sys.path]
            with suppress(ValueError):  # user code has removed it
                left.remove(str(directory))
            sys.path = left


@contextmanager
def _import_path(base_dir: Path, root: str) -> Generator[None]:
    """`base_dir` at the front of the import path.

    If it has the module `root`, other modules with this name are hidden for the duration.
    """
    importlib.invalidate_caches()
    own, there = PathFinder.find_spec(root, [str(base_dir)]), sys.modules.get(root)
    away: dict[str, ModuleType] = {}
    is_ours = own is None or own.origin in (None, getattr(there, "__file__", None))
    if there is not None and not is_ours:
        names = [name for name in sys.modules if f"{name}.".startswith(f"{root}.")]
        away = {name: sys.modules.pop(name) for name in names}
    try:
        with first_on_path(base_dir):
            yield
    finally:
        sys.modules.update(away)


def keywords_of(function: Callable[..., Any]) -> tuple[Mapping[str, inspect.Parameter], bool]:
    """Its arguments by name, and whether it accepts any other name as well.

    For functions written in C, Python may not know; then any name is accepted.
    """
    try:
        taken = inspect.signature(function).parameters.values()
    except ValueError:
        return {}, True
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    named = {one.name: one for one in taken if one.kind in by_name}
    return named, any(one.kind is inspect.Parameter.VAR_KEYWORD for one in taken)


def check_keywords(
    config: StudyConfig,
    table: str,
    name: str,
    function: Callable[..., Any],
    given: Collection[str],
    apart: Collection[str] = (),
) -> Iterator[Problem]:
    """Keys of `[table]` that `function`, called `name`, does not accept, and missing ones.

    Keys in `apart` are checked elsewhere.
    """
    named, is_open = keywords_of(function)
    for key in given:
        if key not in named and key not in apart and not is_open:
            near = get_close_matches(key, named, n=1)
            takes = f"it takes {', '.join(named)}" if named else "remove it"
            hint = f"did you mean '{table}.{near[0]}'?" if near else takes
            place = f"{table}.{key}"
            place = f"search.{place}" if place in config.search else place
            yield config.problem(place, f"'{name}' has no argument '{key}'", hint)
    for key, one in named.items():
        is_needed = one.default is inspect.Parameter.empty
        if is_needed and key not in given and key not in apart:
            yield config.source.problem(missing_argument(name, table, key))


def missing_argument(name: str, table: str, key: str) -> Flaw:
    """The flaw that `[table]` lacks the argument `key`, which the function `name` needs."""
    if _ARRAYS.fullmatch(key):
        found = f"'{name}' needs '{key}', but only gets the keys of [{table}], and no arrays"
        return Flaw(f"{table}.{key}", found, f"remove the argument '{key}'")
    return missing(f"{table}.{key}", f"write {key} = ...", f"but '{name}' needs it")
