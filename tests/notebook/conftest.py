"""Results of a study that never ran."""

from tests.dashboard.conftest import run_dir

__all__ = ["run_dir"]
