"""Which libraries the commands that only read import: each takes time at every start."""

from __future__ import annotations

import subprocess
import sys
import urllib.request
from importlib.util import find_spec
from pathlib import Path

import pytest

from sweeper.rundir import RunDir

# the imports of Typer and Rich differ between their versions
TERMINAL = {"typer", "rich", "click", "shellingham", "annotated_doc", "markdown_it", "mdurl"}
TERMINAL |= {"pygments", "colorama", "typing_extensions"}
CHECKING = {"pydantic", "pydantic_core", "annotated_types", "typing_inspection"}
READING = {"numpy", "pyarrow", "cloudpickle"}  # pyarrow imports cloudpickle if it is installed
SERVING = {"starlette", "uvicorn", "anyio", "sniffio", "idna", "h11", "httptools"}
SERVING |= {"uvloop", "watchfiles", "dotenv", "yaml", "multipart", "python_multipart"}
MAY_BE = {
    "status": TERMINAL | CHECKING,
    "trials": TERMINAL | CHECKING | READING,
    "show": TERMINAL | CHECKING | READING,
    "best": TERMINAL | CHECKING | READING,
    "report": TERMINAL | CHECKING | READING,
    "dashboard": TERMINAL | CHECKING | READING | SERVING,
}
SLOW = {"pandas", "pyarrow.dataset", "pyarrow.compute", "sqlite3", "sweeper.config"}
IMPORTTIME = (sys.executable, "-X", "importtime")


@pytest.mark.parametrize("command", MAY_BE)
def test_commands_that_only_read_import_little(
    command: str, run_dir: RunDir, tmp_path: Path
) -> None:
    told = _told_by(command, run_dir, tmp_path)
    imported = {line.rpartition("|")[2].strip() for line in told.splitlines() if "|" in line}

    assert "sweeper.cli.commands.arguments" in imported
    names = {name.partition(".")[0] for name in imported - _bare()}
    outside = names - sys.stdlib_module_names - {"sweeper"} - MAY_BE[command]
    # failed searches are listed, too
    assert {name for name in outside if find_spec(name) and not name.startswith("_")} == set()
    assert imported & SLOW == set()


def _told_by(command: str, run_dir: RunDir, tmp_path: Path) -> str:
    """What Python reports of the imports of a command; of a server after it has shown its page."""
    words = [*IMPORTTIME, "-m", "sweeper", command, str(run_dir.root)]
    if command == "dashboard":
        return _told_by_server([*words, "--port", "0"])
    if command == "report":
        words += ["-o", str(tmp_path / "report.html")]
    return subprocess.run(words, capture_output=True, text=True, check=True).stderr


def _told_by_server(words: list[str]) -> str:
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdout=pipe, stderr=pipe, text=True) as process:
        assert process.stdout is not None
        address = process.stdout.readline().split("the page is at ")[1].split(" ")[0]
        for path in ("", "studies/0", "studies/0/curves/1"):
            with urllib.request.urlopen(f"{address}{path}", timeout=60) as answer:
                assert answer.status == 200
        process.terminate()
        return process.communicate(timeout=60)[1]


def _bare() -> set[str]:
    """What every Python here imports."""
    done = subprocess.run([*IMPORTTIME, "-c", ""], capture_output=True, text=True, check=True)
    return {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
