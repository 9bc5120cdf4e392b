"""A wheel contains everything that is here, including pages, templates and tables of costs."""

from __future__ import annotations

from hatchling.builders.wheel import WheelBuilder

from tests.processes import ROOT

# these files, each read from the package where it is installed
NEEDED = (
    "sweeper/dashboard/static/index.html",
    "sweeper/dashboard/static/page.js",
    "sweeper/dashboard/static/vendored/echarts.min.js",
    "sweeper/dashboard/static/vendored/VENDORED",
    "sweeper/scheduler/costs/cpu.json",
    "sweeper/guide/security.md",
    "sweeper/templates/digits.toml",
)


def test_a_wheel_contains_every_file_of_the_package() -> None:
    packed = {file.distribution_path for file in WheelBuilder(str(ROOT)).recurse_included_files()}
    paths = (path.relative_to(ROOT) for path in (ROOT / "sweeper").rglob("*") if path.is_file())
    here = {path.as_posix() for path in paths if "__pycache__" not in path.parts}

    assert packed == here
    assert packed >= {*NEEDED}
