"""A study only resumes with the user code that it began with."""

from __future__ import annotations

from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import pytest

from sweeper.config.main_source import code_of
from sweeper.config.source_text import read_source, write_source
from sweeper.config.user_source import source_digests
from tests.command_line import STUDY, CommandLine

FILES = {
    "nets.py": "import layers.wide as w\nimport json\ndef build():\n    from extra import f\n",
    "extra.py": "",
    "unused.py": "",
    "layers/__init__.py": "",
    "layers/wide.py": "from . import narrow\nfrom .inner.deep import x\n",
    "layers/narrow.py": "from ..extra import f\n",
    "layers/unused.py": "",
    "layers/inner/__init__.py": "from ..cousin import *\n",
    "layers/inner/deep.py": "import nets\n",
    "layers/cousin.py": "this is not Python\n",
}
USED = {name for name in FILES if "unused" not in name}


@pytest.fixture
def modules(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_every_imported_file_next_to_the_study_has_a_digest(modules: Path) -> None:
    before = source_digests("nets:build", modules)
    assert before.keys() == USED

    for name in FILES:
        (modules / name).write_text(FILES[name] + "# more\n", encoding="utf-8")
        changed = source_digests("nets:build", modules)
        assert [one for one in USED if changed[one] != before[one]] == [name] * (name in USED)
        (modules / name).write_text(FILES[name], encoding="utf-8")


def without_source(text: str, name: str) -> FunctionType:
    """A function as in `python -c`, of which there is only the compiled code."""
    values: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(text, "<none>", "exec"), values)  # Python 3.13 has the source of "<string>"
    return values[name]


def test_the_text_of_compiled_code_does_not_depend_on_the_order_of_a_set() -> None:
    letters = [*"hgfedcba"]
    text = "def build(key, names=frozenset(LETTERS), *, kind=('x', {*LETTERS})):\n"
    text += "    return key in {LETTERS}, key in {('x', 'y'), None}\n"
    text = text.replace("{LETTERS}", f"{{{', '.join(map(repr, letters))}}}")
    found, _ = code_of(without_source(text.replace("LETTERS", repr(letters)), "build"))
    plain = (found or "").replace("\\", "")
    assert plain.count("{'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'}") == 3
    assert "frozenset({('x', 'y'), None})" in plain


@pytest.mark.parametrize(
    "text",
    [
        "def build(key, size=(3,), empty=(), *, depth=2, shape=(1, 'a')):\n"
        "    return [lambda x: x + 1.5, key in (1, 'b'), key in {30, 4, 17}, {'k': b'v'}]\n",
        "def build(key):\n    return key\n",
    ],
)
def test_the_text_of_compiled_code_without_sets_is_that_of_earlier_versions(text: str) -> None:
    def of_code(code: CodeType) -> str:
        inner = (of_code(c) if isinstance(c, CodeType) else repr(c) for c in code.co_consts)
        return repr((code.co_code, code.co_names, code.co_varnames, *inner))

    build = without_source(text, "build")
    earlier = repr((of_code(build.__code__), build.__defaults__, build.__kwdefaults__))
    assert code_of(build)[0] == earlier


def test_an_installed_module_has_one_digest(tmp_path: Path) -> None:
    assert source_digests("json.decoder:JSONDecoder", tmp_path).keys() == {"decoder.py"}
    assert source_digests("no_such_module:f", tmp_path) == {}


NETS = """\
import equinox as eqx

def build(in_size, out_size, key):
    return eqx.nn.MLP(in_size, out_size, WIDTH, 1, key=key)
"""


def test_a_study_is_not_resumed_with_an_edited_model(command: CommandLine) -> None:
    model = 'kind = "mlp"\ndepth = 1\nwidth = 8\n'
    study = STUDY.replace(model, 'kind = "python"\nfunction = "nets:build"\n')
    command.write(study.replace("n_trials = 12", "n_trials = 2"))
    nets = command.directory / "nets.py"
    nets.write_text(NETS.replace("WIDTH", "4"), encoding="utf-8")
    assert command("run", "study.toml", "--quiet").returncode == 0
    command.write(study.replace("n_trials = 12", "n_trials = 3"))

    nets.write_text(NETS.replace("WIDTH", "8"), encoding="utf-8")
    for name in ("run", "validate"):
        refused = command(name, "study.toml")
        *_, last = refused.stderr.splitlines()  # after what takes long, if anything does
        assert (refused.returncode, last) == (
            2,
            "study.toml:17: model.function: nets.py has changed since the study in runs/wine "
            "began; restore it, change study.name (or results.dir if it is set), or start "
            "over with --fresh (in Python fresh=True), which moves the old directory aside",
        )

    nets.write_text(NETS.replace("WIDTH", "4"), encoding="utf-8")
    assert command("run", "study.toml", "--quiet").returncode == 0


def test_a_source_that_was_recorded_with_its_byte_order_mark_is_written_once(
    tmp_path: Path,
) -> None:
    """As earlier versions recorded it."""
    write_source(tmp_path / "nets.py", "\ufeffname = 'ü'\n")
    assert (tmp_path / "nets.py").read_bytes() == "\ufeffname = 'ü'\n".encode()
    assert read_source(tmp_path / "nets.py") == "name = 'ü'\n"
