"""User modules that a saved model needs: saved with it as text, and run only when trusted."""

from __future__ import annotations

import atexit
import re
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from sweeper.config import StudyConfig
from sweeper.config.trust import NOWHERE, TRUST, is_at_hand, is_known
from sweeper.config.user_source import OF_ANOTHER_MAIN, is_of_another_main, source_digests
from sweeper.errors import Problem, SetupError

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
        raise SetupError(self._refused(name, *one, places) for one in foreign)

    def _refused(self, name: str, function: str, key: str, places: Sequence[Path]) -> Problem:
        if is_of_another_main(function):
            found = f"names {function}, which is not defined in this program"
            return Problem(name, key, found, OF_ANOTHER_MAIN)
        where = " or ".join(str(place) for place in places)
        there = [place for place in places if any((place / file).exists() for file in self.texts)]
        if there:
            found = f"names {function}, and {there[0]} has different source for it"
        else:
            found = f"names {function}, whose source is not in {where or 'your directory'}"
        hint = (
            "run this in your directory, with the source that the model was trained with; the "
            f"model's own directory does not count. Otherwise, {TRUST}"
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
