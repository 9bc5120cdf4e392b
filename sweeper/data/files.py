"""Where the files are that a study names."""

from __future__ import annotations

from pathlib import Path

from sweeper.config import StudyConfig
from sweeper.data.naming import did_you_mean, listed
from sweeper.errors import DataError


def find_file(config: StudyConfig, name: str, key: str, suffix: str) -> Path:
    """The file `name`, looked up beside the study file first, then in the current directory.

    `key` is the setting that names it, `suffix` what such files end with.

    Raises:
        DataError: there is none.
    """
    folders = list(dict.fromkeys([config.base_dir.resolve(), Path.cwd()]))
    for folder in folders:
        if (folder / name).is_file():
            return folder / name
    pattern = f"*{suffix}"
    neighbours = [path.name for folder in folders for path in (folder / name).parent.glob(pattern)]
    found = f"no file '{name}' in {listed([str(folder) for folder in folders], 'or')}"
    mend = (
        did_you_mean(Path(name).name, neighbours)
        or f"write the path of a {suffix[1:].upper()} file"
    )
    raise DataError(config.problem(key, found, mend))
