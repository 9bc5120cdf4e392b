"""The README says what is there: two commands, the tree, links and code."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from sweeper.config.model import MlpTable
from sweeper.config.optimizer import OPTIMIZERS
from sweeper.config.reading import settings_within
from sweeper.config.table import Role, Table, is_fixed, role_of
from sweeper.config.train import SupervisedTable
from sweeper.rundir import RunDir

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def _section(heading: str) -> str:
    return README.split(f"\n## {heading}\n")[1].split("\n## ")[0]


def _blocks(language: str, text: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)


def _without_code(text: str) -> str:
    return re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def test_there_are_exactly_two_commands_of_one_line_each() -> None:
    commands = _blocks("sh", _section("Two commands"))
    assert [command.count("\n") for command in commands] == [1, 1]
    assert _blocks("sh", README) == commands
    run, test = commands
    assert run.endswith("python -m sweeper run studies/digits.toml\n")
    assert test.endswith("python -m pytest\n")


def test_the_tree_names_every_module_and_nothing_else() -> None:
    tree = _section("Architecture").split("\n    sweeper/\n")[1].split("\n\n")[0]
    named = [line.split()[0] for line in tree.splitlines() if line[6] != " "]
    modules = [path.name for path in (ROOT / "sweeper").glob("*.py")]
    rooms = [
        f"{path.name}/"
        for path in (ROOT / "sweeper").iterdir()
        if path.is_dir() and path.name != "__pycache__"
    ]
    assert sorted(named) == sorted(modules + rooms)


def test_the_table_of_settings_is_what_the_script_would_write() -> None:
    script = [sys.executable, "scripts/settings", "--check"]
    done = subprocess.run(script, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("row", "table"),
    [
        ("`model`", MlpTable),
        *((f"`optimizer`, `{name}`", table) for name, table in OPTIMIZERS.items()),
        ("`train`", SupervisedTable),
    ],
)
def test_what_can_be_searched_is_listed_by_its_role(row: str, table: type[Table]) -> None:
    (line,) = (line for line in README.splitlines() if line.startswith(f"| {row} |"))
    structural, traced = (re.findall(r"`([\w.]+)`", cell) for cell in line.split("|")[2:4])
    names = [key.partition(".")[2] for key in settings_within(table, "table")]
    searched = [name for name in names if not is_fixed(table, name)]
    assert structural == [n for n in searched if role_of(table, n) is Role.STRUCTURAL]
    assert traced == [n for n in searched if role_of(table, n) is not Role.STRUCTURAL]


def test_every_entry_of_a_run_directory_is_named() -> None:
    listed = _section("Reading the results").split("runs/digits/\n")[1].split("\n\n")[0]
    run_dir = RunDir(Path("runs/digits"))
    paths = [
        getattr(run_dir, name) for name, it in vars(RunDir).items() if isinstance(it, property)
    ]
    named = [line.split()[0].rstrip("/") for line in listed.splitlines()]
    assert sorted(named) == sorted(path.name for path in paths if path.parent == run_dir.root)


def test_links_inside_the_project_resolve() -> None:
    text = _without_code(README)
    anchors = {_anchor(heading) for heading in re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)}
    targets = [link for link in re.findall(r"\]\(([^)]+)\)", text) if "://" not in link]
    broken = [
        link
        for link in targets
        if (link[1:] not in anchors if link.startswith("#") else not (ROOT / link).exists())
    ]
    assert (broken, bool(targets)) == ([], True)


@pytest.mark.parametrize("block", _blocks("python", README))
def test_python_in_the_readme_compiles(block: str) -> None:
    compile(block, "README.md", "exec")
