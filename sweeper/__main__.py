"""`python -m sweeper`."""

import sys
from typing import NoReturn

from sweeper.teardown import as_program


def _main() -> NoReturn:
    from sweeper.cli import main

    main()


def program() -> NoReturn:
    """The command line, as all that a process is for."""
    as_program(_main)


if __name__ == "__main__":
    # a profiler that runs this module goes on after it
    is_the_program = sys.modules["__main__"].__dict__ is globals()
    (program if is_the_program else _main)()
