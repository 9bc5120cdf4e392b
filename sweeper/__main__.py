"""`python -m sweeper`."""

from typing import NoReturn

from sweeper.teardown import as_program


def _main() -> NoReturn:
    from sweeper.cli import main

    main()


def program() -> NoReturn:
    """The command line, as all that a process is for."""
    as_program(_main)


if __name__ == "__main__":
    program()
