"""How errors in user code are described."""

from __future__ import annotations

from pathlib import Path

import jax.numpy as jnp
import pytest

from sweeper.config.user_code import load_function
from sweeper.config.user_errors import describe_error, error_type, full_error_text

OWN = """\
import json
import jax


def reads():
    return json.loads("{")


def asks():
    return jax.eval_shape(lambda x: float(x), 1.0)


def calls_back():
    like = jax.ShapeDtypeStruct((), "float32")
    return jax.jit(lambda x: jax.pure_callback(looks_up, like, x))(1.0).block_until_ready()


def looks_up(x):
    return {"a": 1}[f"b {x}"]


class Mute(Exception):
    def __str__(self):
        return self.text


def mutters():
    raise Mute
"""


def said(function: str, directory: Path) -> str:
    (directory / "told_of.py").write_text(OWN, encoding="utf-8")
    with pytest.raises(Exception) as raised:
        load_function(f"told_of:{function}", directory)()
    error = raised.value
    return describe_error(error.with_traceback(error.__traceback__.tb_next))  # type: ignore[union-attr]


def test_the_place_of_an_error_is_the_last_line_of_user_code(tmp_path: Path) -> None:
    assert said("reads", tmp_path).endswith(" (char 1) (told_of.py, line 6)")


def test_long_errors_are_cut_to_their_first_sentence(tmp_path: Path) -> None:
    words = said("asks", tmp_path)
    assert words.startswith("ConcretizationTypeError: Abstract tracer value encountered where")
    assert words.endswith(" (told_of.py, line 10)")
    assert len(words) < 300


def test_an_error_in_a_callback_is_described_by_itself(tmp_path: Path) -> None:
    assert said("calls_back", tmp_path) == "KeyError: 'b 1.0' (told_of.py, line 19)"


def test_a_quoted_traceback_is_reduced_to_its_last_error() -> None:
    quoted = (
        "INTERNAL: CpuCallback error calling callback: Traceback (most recent call last):\n"
        '  File "/home/me/rows.py", line 3, in rows\n'
        "    return table[at]\n"
        "           ~~~~~^^^^\n"
        "KeyError: 3\n\n"
        "During handling of the above exception, another exception occurred:\n\n"
        "Traceback (most recent call last):\n"
        '  File "/home/me/rows.py", line 5, in rows\n'
        '  File "/venv/lib/python3.11/site-packages/jax/_src/callback.py", line 71, in there\n'
        "rows.Missing: no row\n  3 in it"
    )
    assert describe_error(RuntimeError(quoted)) == "rows.Missing: no row 3 in it (rows.py, line 5)"
    assert error_type(RuntimeError(quoted)) == "Missing"
    cut = "it told: Traceback (most recent call last):"
    assert describe_error(RuntimeError(cut)) == f"RuntimeError: {cut}"
    assert error_type(RuntimeError(cut)) == "RuntimeError"


def test_an_error_that_cannot_be_encoded_is_still_described(tmp_path: Path) -> None:
    told_of = "Mute: its text cannot be shown (told_of.py, line 28)"
    assert said("mutters", tmp_path) == told_of
    whole = full_error_text(FileNotFoundError("no file \udcff"))
    assert whole.encode().startswith(b"FileNotFoundError: no file \\udcff\n\n")


def test_a_traceback_begins_with_the_line_of_user_code_that_failed(tmp_path: Path) -> None:
    (tmp_path / "nested.py").write_text("def inner():\n    int('x')\ndef outer():\n    inner()\n")
    with pytest.raises(ValueError, match="invalid literal") as raised:
        load_function("nested:outer", tmp_path)()
    error = raised.value
    error = error.with_traceback(error.__traceback__.tb_next)  # type: ignore[union-attr]
    first, own, trace = full_error_text(error).split("\n\n", 2)
    assert first.endswith(" (nested.py, line 2)")
    assert [line for line in own.splitlines() if line.startswith("  File")] == [
        f'  File "{tmp_path / "nested.py"}", line 2, in inner',
        f'  File "{tmp_path / "nested.py"}", line 4, in outer',
    ]
    assert trace.startswith("Traceback (most recent call last):\n")


def test_a_long_text_without_sentences_is_cut_between_words() -> None:
    words = describe_error(ValueError("word " * 100))
    assert words.endswith("word word ...")
    assert len(words) < 230


def test_errors_outside_user_code_have_no_place() -> None:
    with pytest.raises(TypeError) as raised:
        jnp.dot(1, "no")
    error = raised.value
    own = error.__traceback__.tb_next  # type: ignore[union-attr]
    assert "line" not in describe_error(error.with_traceback(own))
