"""README and guides say what is there: commands, settings, files and links."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from sweeper.cli.commands.guide import OPENING, TOPICS
from sweeper.cli.main import COMMANDS, app_for
from sweeper.config.model import RowMlpTable
from sweeper.config.optimizer import OPTIMIZERS
from sweeper.config.reading import settings_within
from sweeper.config.table import Role, Table, is_fixed, role_of
from sweeper.config.train import SupervisedTable
from sweeper.errors import SweeperError
from sweeper.rundir import RunDir
from tests.documents import (
    CONTRIBUTING,
    DOCUMENTS,
    GUIDES,
    README,
    ROOT,
    anchor,
    blocks,
    code,
    headings,
    section,
    without_code,
)

LANGUAGES = {"sh", "console", "python", "toml", "text"}
TWO_SCREENS = 80


def test_there_are_exactly_two_commands_of_one_line_each() -> None:
    commands = code("sh", section("Two commands", README))
    assert [command.count("\n") for command in commands] == [1, 1]
    assert [block for text in DOCUMENTS.values() for block in code("sh", text)] == commands
    run, test = commands
    assert run.endswith("python -m sweeper run studies/digits.toml\n")
    assert test.endswith("python -m pytest\n")


def test_the_readme_is_short() -> None:
    assert README.count("\n") <= 250


def test_the_tree_names_every_module_and_nothing_else() -> None:
    (tree,) = code("text", section("The packages", GUIDES["architecture"]))
    named = [line.split()[0] for line in tree.splitlines()[1:] if line[2] != " "]
    modules = [path.name for path in (ROOT / "sweeper").glob("*.py")]
    rooms = [
        f"{path.name}/"
        for path in (ROOT / "sweeper").iterdir()
        if path.is_dir() and path.name != "__pycache__"
    ]
    assert sorted(named) == sorted(modules + rooms)


def test_the_tables_of_settings_are_what_the_script_would_write() -> None:
    script = [sys.executable, "scripts/settings", "--check"]
    done = subprocess.run(script, cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize(
    ("row", "table"),
    [
        ("`model`", RowMlpTable),
        *((f"`optimizer`, `{name}`", table) for name, table in OPTIMIZERS.items()),
        ("`train`", SupervisedTable),
    ],
)
def test_what_can_be_searched_is_listed_by_its_role(row: str, table: type[Table]) -> None:
    lines = GUIDES["placement"].splitlines()
    (line,) = (line for line in lines if line.startswith(f"| {row} |"))
    structural, traced = (re.findall(r"`([\w.]+)`", cell) for cell in line.split("|")[2:4])
    names = [key.partition(".")[2] for key in settings_within(table, "table")]
    searched = [name for name in names if not is_fixed(table, name)]
    assert structural == [n for n in searched if role_of(table, n) is Role.STRUCTURAL]
    assert traced == [n for n in searched if role_of(table, n) is not Role.STRUCTURAL]


def test_every_entry_of_a_run_directory_is_named() -> None:
    (listed,) = code("text", section("The run directory", GUIDES["results"]))
    run_dir = RunDir(Path("runs/digits"))
    paths = [
        getattr(run_dir, name) for name, it in vars(RunDir).items() if isinstance(it, property)
    ]
    named = [line.split()[0].rstrip("/") for line in listed.splitlines()[1:]]
    assert sorted(named) == sorted(path.name for path in paths if path.parent == run_dir.root)


def _commands(name: str) -> list[Any]:
    """A command, or the commands of a group."""
    command: Any = typer.main.get_command(app_for([name]))
    command = command.commands[name] if hasattr(command, "commands") else command
    return [*command.commands.values()] if hasattr(command, "commands") else [command]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_option_is_documented(name: str) -> None:
    guide = section("Commands and options", GUIDES["commands"])
    rows = [line for line in guide.splitlines() if re.match(rf"\| `{name}[ `]", line)]
    assert len(rows) == len(_commands(name))
    for command in _commands(name):
        for parameter in command.params:
            if parameter.opts[0].startswith("-"):
                option = parameter.opts[-1 if "--output" in parameter.opts else 0]
                assert any(f"`{option}" in row for row in rows), option
    assert f"\n| `{name}` | " in section("The commands", README)


def test_the_readme_lists_the_commands_in_order_and_no_other() -> None:
    listed = re.findall(r"^\| `([\w-]+)` \|", section("The commands", README), re.MULTILINE)
    assert set(listed) == set(COMMANDS)
    assert len(listed) == len(COMMANDS)


def test_every_exit_code_is_documented() -> None:
    rows = re.findall(r"^\| (\d+) \|", section("Exit codes", GUIDES["commands"]), re.MULTILINE)
    of_errors = {kind.exit_code for kind in SweeperError.__subclasses__()}
    signals = {128 + number for number in (1, 2, 15)}
    assert {int(row) for row in rows} == {0, 1} | of_errors | signals


def test_every_guide_is_a_topic() -> None:
    assert set(TOPICS) == set(GUIDES)
    linked = re.findall(r"\(sweeper/guide/([\w-]+)\.md\)", section("Guides", README))
    assert linked == [*TOPICS]


@pytest.mark.parametrize("text", GUIDES.values(), ids=GUIDES)
def test_a_guide_opens_with_what_its_reader_can_do_afterwards(text: str) -> None:
    title, opening, *_ = text.split("\n\n")
    assert re.fullmatch("# .+", title)
    assert opening.startswith(OPENING)
    assert "\n" not in opening


@pytest.mark.parametrize("text", [*GUIDES.values(), CONTRIBUTING], ids=[*GUIDES, "contributing"])
def test_a_long_guide_has_a_table_of_its_contents(text: str) -> None:
    titles = headings(text)
    assert "Contents" in titles or text.count("\n") <= TWO_SCREENS
    if "Contents" in titles:
        titles.remove("Contents")
        listed = re.findall(r"^- \[(.+)\]\(#(.+)\)$", section("Contents", text), re.MULTILINE)
        assert listed == [(title, anchor(title)) for title in titles]


@pytest.mark.parametrize("path", DOCUMENTS)
def test_links_inside_the_project_resolve(path: str) -> None:
    text = without_code(DOCUMENTS[path])
    targets = [link for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link]
    assert [link for link in targets if not _resolves(path, link)] == []


def _resolves(path: str, link: str) -> bool:
    file, _, part = link.partition("#")
    target = (ROOT / path).parent / file if file else ROOT / path
    if not part or not target.exists():
        return target.exists()
    found = re.findall(r"^#+ (.+)$", without_code(target.read_text("utf-8")), re.MULTILINE)
    return part in map(anchor, found)


@pytest.mark.parametrize("text", DOCUMENTS.values(), ids=DOCUMENTS)
def test_every_code_block_has_a_language_that_tests_know(text: str) -> None:
    assert {language for language, _ in blocks(text)} <= LANGUAGES
    assert not re.search(r"\n\n {4}\S", without_code(text)), "write a fenced block"


def test_measured_figures_name_their_script() -> None:
    rows = [line for line in section("How fast it is", README).splitlines() if line[:1] == "|"]
    assert all(row.split("|")[4].strip().startswith("`scripts/bench ") for row in rows[2:])
    named = set(re.findall(r"`(scripts/[\w./]+)", "\n".join(DOCUMENTS.values())))
    assert [name for name in named if not (ROOT / name).is_file()] == []


def test_every_script_is_documented() -> None:
    files = {path.name for path in (ROOT / "scripts").iterdir() if path.is_file()}
    named = set(re.findall(r"`scripts/(\w+)", CONTRIBUTING))
    assert files - named == {"environment"}  # which the others read


def test_files_that_contributors_are_sent_to_exist() -> None:
    named = set(re.findall(r"`((?:sweeper|tests|scripts)/[\w./-]+)`", CONTRIBUTING))
    assert len(named) > 20
    assert [name for name in named if "NAME" not in name and not (ROOT / name).exists()] == []
