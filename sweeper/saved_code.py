"""The user's own modules that a saved model needs: carried in it as text, run only when trusted."""

from __future__ import annotations

import atexit
import re
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sweeper.config import StudyConfig
from sweeper.errors import Problem, SetupError
from sweeper.user_source import source_digests

# the settings whose functions a model and the state of its training are built by
_BUILDING = re.compile(r"(model|optimizer)\..*|train\.program")


@dataclass(frozen=True, slots=True)
class Code:
    """The modules of functions of the user's, each file with its digest, and its text if it has.

    What lies beside the study has a text; an installed module has none, and must be installed.
    """

    functions: tuple[str, ...]
    digests: Mapping[str, str]
    texts: Mapping[str, str]

    @staticmethod
    def of(config: StudyConfig) -> Code:
        """What the model and the optimizer of a study come from."""
        functions = [name for name, key in config.functions.items() if _BUILDING.fullmatch(key)]
        digests: dict[str, str] = {}
        for function in functions:
            digests |= source_digests(function, config.base_dir)
        return Code(tuple(functions), digests, texts_of(config, functions))

    @staticmethod
    def from_dict(body: Mapping[str, Any]) -> Code:
        """The code as a saved model has it."""
        return Code(tuple(body["functions"]), body["digests"], body["texts"])

    def found(self, name: str, places: Sequence[Path], trusted: bool) -> Path:
        """The directory in which the modules are what they were when the model was saved.

        The first of `places`, or, where the text is `trusted`, one that it is written to.

        Raises:
            SetupError: they are in none of them, or are other ones there.
        """
        if not self.functions or not self.texts:
            return places[0]
        for place in places:
            if self._is_in(place):
                return place
        if trusted:
            return self._written()
        files = ", ".join(self.texts)
        there = [place for place in places if any((place / file).exists() for file in self.texts)]
        found = f"its model comes from {files}, "
        found += f"which is another one in {there[0]}" if there else "which is not beside it"
        mend = (
            "put the file there that it was trained with, or run the text that the model carries, "
            "if you trust where it comes from: load(path, trust_code=True)"
        )
        raise SetupError(Problem(name, "", found, mend))

    def _is_in(self, place: Path) -> bool:
        found: dict[str, str] = {}
        for function in self.functions:
            found |= source_digests(function, place)
        return all(found.get(name) == self.digests[name] for name in self.texts)

    def _written(self) -> Path:
        directory = Path(tempfile.mkdtemp(prefix="sweeper-code-"))
        # what it is imported from stays as long as this process
        atexit.register(shutil.rmtree, directory, ignore_errors=True)
        for name, text in self.texts.items():
            target = directory / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8", newline="")
        return directory


def texts_of(config: StudyConfig, functions: Iterable[str]) -> dict[str, str]:
    """The files beside the study that these functions come from, by their paths from there."""
    found = (name for one in functions for name in source_digests(one, config.base_dir))
    beside = [name for name in dict.fromkeys(found) if (config.base_dir / name).is_file()]
    return {name: (config.base_dir / name).read_text(encoding="utf-8") for name in beside}
