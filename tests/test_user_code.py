"""What is told of an error in code of the user's own."""

from __future__ import annotations

from pathlib import Path

import jax.numpy as jnp
import pytest

from sweeper.user_code import LoadError, load_function, told

OWN = """\
import json
import jax


def reads():
    return json.loads("{")


def asks():
    return jax.eval_shape(lambda x: float(x), 1.0)
"""


def said(function: str, directory: Path) -> str:
    (directory / "told_of.py").write_text(OWN, encoding="utf-8")
    with pytest.raises(Exception) as raised:
        load_function(f"told_of:{function}", directory)()
    error = raised.value
    return told(error.with_traceback(error.__traceback__.tb_next))  # type: ignore[union-attr]


def test_the_place_is_the_last_line_of_the_users(tmp_path: Path) -> None:
    assert said("reads", tmp_path).endswith(" (char 1) (told_of.py, line 6)")


def test_what_is_long_is_told_by_its_first_sentence(tmp_path: Path) -> None:
    words = said("asks", tmp_path)
    assert words.startswith("ConcretizationTypeError: Abstract tracer value encountered where")
    assert words.endswith(" (told_of.py, line 10)")
    assert len(words) < 300


def test_a_long_text_without_sentences_is_cut_between_words() -> None:
    words = told(ValueError("word " * 100))
    assert words.endswith("word word ...")
    assert len(words) < 230


def test_what_is_not_of_the_users_has_no_place() -> None:
    with pytest.raises(TypeError) as raised:
        jnp.dot(1, "no")
    error = raised.value
    own = error.__traceback__.tb_next  # type: ignore[union-attr]
    assert "line" not in told(error.with_traceback(own))


def test_an_error_of_syntax_tells_its_place_once(tmp_path: Path) -> None:
    (tmp_path / "misspelt.py").write_text("def f(:\n", encoding="utf-8")
    with pytest.raises(LoadError) as raised:
        load_function("misspelt:f", tmp_path)
    assert raised.value.found.count("misspelt.py, line 1)") == 1
