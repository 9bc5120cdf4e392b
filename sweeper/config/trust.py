"""Which functions named by a file from elsewhere may run without `--trust-code`.

These are functions of known packages, and those whose recorded source the user has locally.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path, PurePosixPath
from typing import Any

from sweeper.config import StudyConfig
from sweeper.config.user_source import (
    MAIN,
    OF_ANOTHER_MAIN,
    is_module_in,
    is_of_another_main,
    source_digests,
)
from sweeper.errors import Problem, SetupError

# a base directory without modules, so that only installed modules are imported
NOWHERE = Path(os.devnull)
TRUST = "if you trust where it comes from, add --trust-code (in Python trust_code=True)"
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
        spec = getattr(sys.modules[MAIN], "__spec__", None)
        is_ours = spec is not None and spec.name.partition(".")[0] == "sweeper"
        found = {} if is_ours else source_digests(function, base_dir)
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

    Files next to the study are saved as text; an installed module must be installed again.
    """

    functions: tuple[str, ...]
    digests: Mapping[str, str]
    texts: Mapping[str, str]

    @staticmethod
    def of(config: StudyConfig) -> Code:
        """The code that the model and the optimizer of a study come from."""
        functions = [*dict(building(config))]
        digests: dict[str, str] = {}
        for function in functions:
            digests |= source_digests(function, config.base_dir)
        return Code(tuple(functions), digests, texts_of(config, functions))

    @staticmethod
    def from_dict(body: Mapping[str, Any]) -> Code:
        """The code from the header of a saved model."""
        return Code(tuple(body["functions"]), body["digests"], body["texts"])

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
            SetupError: no place has their source, and the saved text is not trusted.
        """
        foreign = [(function, key) for function, key in functions if not is_known(function)]
        if not foreign:
            return NOWHERE
        for place in places:
            if all(is_at_hand(function, place, self.digests) for function, _ in foreign):
                return place
        if trusted:
            return self._written(name) if self.texts else places[0]
        raise SetupError(self._refused(name, foreign, places))

    def _refused(
        self, name: str, foreign: Sequence[tuple[str, str]], places: Sequence[Path]
    ) -> Problem:
        function, key = (
            ", ".join(dict.fromkeys(several)) for several in zip(*foreign, strict=True)
        )
        if any(is_of_another_main(one) for one, _ in foreign):
            found = f"names {function}, which is not defined in this program"
            return Problem(name, key, found, OF_ANOTHER_MAIN)
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

    def _written(self, name: str) -> Path:
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
            target.write_text(text, encoding="utf-8", newline="")
        return directory


def building(config: StudyConfig) -> list[tuple[str, str]]:
    """The functions that build a model and its training state, each with its key."""
    return [(name, key) for name, key in config.function_keys if _BUILDING.fullmatch(key)]


def texts_of(config: StudyConfig, functions: Iterable[str]) -> dict[str, str]:
    """The files next to the study that these functions come from, by relative path."""
    found = (name for one in functions for name in source_digests(one, config.base_dir))
    own_files = [name for name in dict.fromkeys(found) if (config.base_dir / name).is_file()]
    return {name: (config.base_dir / name).read_text(encoding="utf-8") for name in own_files}
