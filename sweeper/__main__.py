"""`python -m sweeper`."""

import sys
from contextlib import suppress
from pathlib import Path
from typing import NoReturn


def _search_current_directory_last() -> None:
    """Keep files in the current directory from hiding modules of the same name.

    `python -m` searches it first, so that a file json.py or numpy.py there would be imported. If
    sweeper itself is imported from there, as in a checkout, nothing changes.
    """
    with suppress(OSError):  # it may be gone
        here = Path.cwd()
        is_checkout = Path(__file__).parents[1] == here
        if sys.path[:1] == [str(here)] and not (sys.flags.safe_path or is_checkout):
            sys.path.append(sys.path.pop(0))


def _main() -> NoReturn:
    _search_current_directory_last()
    from sweeper.cli.main import main

    main()


def program() -> NoReturn:
    """The command line, as a process of its own."""
    _search_current_directory_last()
    from sweeper.process import as_program

    as_program(_main)


if __name__ == "__main__":
    # a profiler that runs this module continues after it
    is_the_program = sys.modules["__main__"].__dict__ is globals()
    (program if is_the_program else _main)()
