"""Finds run directories, and suggests one if a path is not a run directory."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

from sweeper.errors import Problem, SetupError
from sweeper.rundir import RunDir


def runs_in(directory: Path) -> list[Path]:
    """The directory if it is a run directory with a status, else such directories below it.

    These are at most two levels down, as in `runs/group/study`, and not inside each other.
    """
    if (directory / "status.json").is_file():
        return [directory]
    found: list[Path] = []
    for pattern in ("*/status.json", "*/*/status.json"):
        below = sorted(path.parent for path in directory.glob(pattern))
        # what is half-written is in a hidden directory
        shown = (run for run in below if "/." not in f"/{run.relative_to(directory).as_posix()}")
        found += [run for run in shown if run.parent not in found]
    return found


def newest_run(directory: Path) -> Path:
    """The run directory below `directory` whose status was written last.

    Raises:
        SetupError: there is none.
    """
    written = [(RunDir(run).status.stat().st_mtime_ns, run) for run in runs_in(directory)]
    if not written:
        hint = (
            "name a run directory, start a study with 'python -m sweeper run study.toml', or wait "
            "if one has just been started"
        )
        raise SetupError(Problem(f"{directory}/", "", "no study has been run here", hint))
    return max(written)[1]


def near_run(path: Path) -> str:
    """A question that offers a run directory near `path`, which does not exist, or under runs/.

    Empty if `path` exists, or no name is similar.
    """
    if path.exists():
        return ""
    others = [*runs_in(Path("runs")), *runs_in(path.parent)]
    by_name = {run.name.lower(): run for run in others}
    near = get_close_matches(path.name.lower(), by_name, n=1)
    return f"did you mean '{by_name[near[0]]}'?" if near else ""


def where_to_look(path: Path) -> str:
    """What to write instead of `path`, which is not a run directory with results."""
    return (
        near_run(path) or "name the run directory of a study that was started, such as runs/digits"
    )
