"""Which functions named by a file from elsewhere may run without `--trust-code`.

These are functions of known packages, and those whose recorded source the user has locally.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path, PurePosixPath
from typing import Any

from sweeper.config import StudyConfig
from sweeper.config.main_module import MAIN_FILE, module_of
from sweeper.config.source_text import read_source, write_source
from sweeper.config.user_code import LoadError, load_main_from
from sweeper.config.user_source import (
    MAIN,
    is_command_line,
    is_module_in,
    is_of_another_main,
    source_digests,
)
from sweeper.errors import Problem, SetupError, listed

# a base directory without modules, so that only installed modules are imported
NOWHERE = Path(os.devnull)
TRUST = "if you trust where it comes from, add --trust-code (in Python trust_code=True)"
_UNDEFINED = "is not defined in this program"
_AS_TRAINED = "define it in this program as it was when the model was trained"
# modules of known packages whose functions and classes only compute
_KNOWN = {
    "equinox": ("equinox.nn.",),
    "optax": ("optax.",),
    "sweeper": ("sweeper.models.", "sweeper.programs."),
}


def is_known(function: str, base_dir: Path = NOWHERE) -> bool:
    """Whether `module:function` is of Equinox, Optax or sweeper, and only computes.

    These are layers of Equinox, functions of Optax, and models and programs of sweeper. Other
    functions of these packages, some of which write files, do not count, and neither does anything
    that such a module merely imports. No file in `base_dir` may shadow the package.
    """
    module, _, name = function.partition(":")
    root = module.partition(".")[0]
    if root not in _KNOWN or is_module_in(root, base_dir):
        return False
    try:
        found = getattr(import_module(module), name, None)
    except ImportError:
        return False
    if not f"{getattr(found, '__module__', None)}.".startswith(_KNOWN[root]):
        return False
    if root != "sweeper":
        return True
    # a class of a model or of a program
    classes = found.__mro__ if isinstance(found, type) else ()
    return any({"__call__", "step"} & vars(one).keys() for one in classes)


def is_at_hand(function: str, base_dir: Path, digests: Mapping[str, str]) -> bool:
    """Whether the files in `base_dir` that define `function` have the recorded digests.

    Installed modules never count: the author of the record knows their source as well.
    """
    module = function.partition(":")[0]
    if module == MAIN:
        found = {} if is_command_line() else source_digests(function, base_dir)
        # records of earlier versions have no values
        both = found.keys() & digests.keys()
        return function.replace(":", ".") in both and all(
            found[one] == digests[one] for one in both
        )
    if not is_module_in(module.partition(".")[0], base_dir):
        return False
    found = source_digests(function, base_dir)
    return bool(found) and all(digests.get(name) == digest for name, digest in found.items())


# the settings whose functions build a model and its training state
_BUILDING = re.compile(r"(model|optimizer)\..*|train\.program")


@dataclass(frozen=True, slots=True)
class Code:
    """The modules of user functions: the digest of each file, and its text if it was saved.

    Files next to the study are saved as text, and so are functions of `__main__`, unless they refer
    to one of `unwritten`. An installed module has to be installed again.
    """

    functions: tuple[str, ...]
    digests: Mapping[str, str]
    texts: Mapping[str, str]
    unwritten: Sequence[str] = ()

    @staticmethod
    def of(config: StudyConfig) -> Code:
        """The code that the model and the optimizer of a study come from."""
        functions = [*dict(building_functions(config))]
        digests: dict[str, str] = {}
        for function in functions:
            digests |= source_digests(function, config.base_dir)
        texts = texts_of(config, functions)
        main, unwritten = module_of(one.partition(":")[2] for one in functions if _is_in_main(one))
        if main:
            texts[MAIN_FILE] = main
        return Code(tuple(functions), digests, texts, unwritten)

    @staticmethod
    def from_dict(body: Mapping[str, Any]) -> Code:
        """The code from the header of a saved model."""
        return Code(
            tuple(body["functions"]),
            body["digests"],
            body["texts"],
            body.get("unwritten", ()),  # models of earlier versions do not have it
        )

    def place_of(
        self,
        name: str,
        functions: Iterable[tuple[str, str]],
        places: Sequence[Path],
        trusted: bool,
    ) -> Path:
        """The directory to import `functions` from, which are given with the keys that name them.

        This is the first of `places` that has their source as it was when the model was saved, or a
        directory to which the text saved in the file `name` is written, if that is `trusted`.

        Raises:
            SetupError: no place has their source, and the saved text is not trusted, is missing or
            cannot be imported.
        """
        foreign = [(function, key) for function, key in functions if not is_known(function)]
        if not foreign:
            return NOWHERE
        for place in places:
            if all(is_at_hand(function, place, self.digests) for function, _ in foreign):
                return place
        if not trusted:
            raise SetupError(self._refusal(name, foreign, places))
        if MAIN_FILE not in self.texts and any(is_of_another_main(one) for one, _ in foreign):
            raise SetupError(self._without_source(name, foreign))
        place = self._write_texts(name) if self.texts else places[0]
        if MAIN_FILE in self.texts:
            try:
                load_main_from(place)
            except LoadError as error:
                hint = "define the same functions in this program, or export the model again"
                raise SetupError(Problem(name, "", error.found, hint)) from error
        return place

    def _refusal(
        self, name: str, foreign: Sequence[tuple[str, str]], places: Sequence[Path]
    ) -> Problem:
        function, key = (
            ", ".join(dict.fromkeys(several)) for several in zip(*foreign, strict=True)
        )
        if any(_is_in_main(one) for one, _ in foreign):
            is_absent = any(is_of_another_main(one) for one, _ in foreign)
            differs = "this program defines differently than when the model was trained"
            found = f"names {function}, which {_UNDEFINED if is_absent else differs}"
            return Problem(name, key, found, f"{_AS_TRAINED}. Otherwise, {TRUST}")
        where = " or ".join(str(place) for place in places)
        there = [place for place in places if any((place / file).exists() for file in self.texts)]
        if there:
            found = f"names {function}, and {there[0]} has different source for it"
        else:
            found = f"names {function}, whose source is not in {where or 'a directory of yours'}"
        hint = (
            "run this in the directory with your own copy of the source that the model was trained "
            "with: the model's directory, whose files may come from anybody, does not count. "
            f"Otherwise, {TRUST}"
        )
        return Problem(name, key, found, hint)

    def _without_source(self, name: str, foreign: Sequence[tuple[str, str]]) -> Problem:
        """The problem that functions of another `__main__` are not in the file `name` either."""
        function, key = next(each for each in foreign if is_of_another_main(each[0]))
        lacking = listed([f"'{one}'" for one in self.unwritten]) or "it"
        found = f"names {function}, which {_UNDEFINED}, and the file has no source for {lacking}"
        again = "move it to a file that the notebook or script imports, and train the study again"
        if not self.unwritten:  # an earlier version wrote the file
            again = "export the model again in the notebook or script that defines it"
        return Problem(name, key, found, f"{_AS_TRAINED}, or {again}")

    def _write_texts(self, name: str) -> Path:
        for file in self.texts:
            path = PurePosixPath(file)
            if path.is_absolute() or ".." in path.parts or path.suffix != ".py":
                found = f"carries a module under the name {file!r}"
                raise SetupError(Problem(name, "", found, "use a file that `export` wrote"))
        directory = Path(tempfile.mkdtemp(prefix="sweeper-code-"))
        # the directory is kept until this process ends
        atexit.register(shutil.rmtree, directory, ignore_errors=True)
        for file, text in self.texts.items():
            target = directory / file
            target.parent.mkdir(parents=True, exist_ok=True)
            write_source(target, text)
        return directory


def _is_in_main(function: str) -> bool:
    return function.partition(":")[0] == MAIN


def building_functions(config: StudyConfig) -> list[tuple[str, str]]:
    """The functions that build a model and its training state, each with its key."""
    return [(name, key) for name, key in config.function_keys if _BUILDING.fullmatch(key)]


def texts_of(config: StudyConfig, functions: Iterable[str]) -> dict[str, str]:
    """The files next to the study that these functions come from, by relative path."""
    found = (name for one in functions for name in source_digests(one, config.base_dir))
    own_files = [name for name in dict.fromkeys(found) if (config.base_dir / name).is_file()]
    return {name: read_source(config.base_dir / name) for name in own_files}
