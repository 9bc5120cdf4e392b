"""A model of functions in `__main__` predicts in another program, if it is trusted."""

from __future__ import annotations

import linecache
import subprocess
import sys
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

import sweeper
from sweeper.config.main_module import module_of
from sweeper.config.user_source import changed_names, source_digests
from sweeper.errors import SetupError
from tests.in_process import study_in, trained
from tests.small_studies import DIGITS

CELL = """\
from __future__ import annotations
import dataclasses, enum, functools
import equinox as eqx, jax, jax.numpy as jnp, numpy as np, scipy, scipy.special
from equinox import nn
from jax.nn import relu as act

x = object()  # functions have an x of their own
SCALE, SIZES = np.float32(1.5), {"hidden": [12, 2.0, (None, True)]}
cube = lambda x: x**3 / SIZES["hidden"][1]
gelu = functools.partial(jax.nn.gelu, approximate=True)


class Mode(enum.Enum):
    WIDE = 1


@dataclasses.dataclass(frozen=True)
class Config:
    width: int = SIZES["hidden"][0]
    mode: Mode = Mode.WIDE


def unchanged(function):
    @functools.wraps(function)
    def inner(*args, **given):
        return function(*args, **given)

    return inner


@jax.jit
def scaled(x):
    return SCALE * gelu(cube(act(x))) + scipy.special.erf(0.5)


class Net(eqx.Module):
    layers: list[nn.Linear]

    def __init__(self, in_size, out_size, config, *, key):
        first, second = jax.random.split(key)
        width = config.width * config.mode.value
        self.layers = [
            nn.Linear(in_size, width, key=first),
            nn.Linear(width, out_size, key=second),
        ]

    def __call__(self, x: jax.Array) -> jax.Array:
        first, second = self.layers
        return second(scaled(first(x)))


@unchanged
def build(in_size, out_size, key, config=Config()):
    return Net(in_size, out_size, config, key=key)
"""
OWN = DIGITS.partition("[search]")[0].replace(
    'kind = "mlp"\ndepth = 2\nwidth = 16\n', 'kind = "python"\nfunction = "__main__:build"\n'
)
Run = Callable[[str], ModuleType]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run the text of a cell in a `__main__`, as a notebook does."""
    main = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", main)
    monkeypatch.chdir(tmp_path)  # `__main__` is looked up once for each directory

    def run_cell(text: str) -> ModuleType:
        name = f"<cell {len(linecache.cache)}>"
        lines = text.splitlines(keepends=True)
        monkeypatch.setitem(linecache.cache, name, (len(text), None, lines, name))
        exec(compile(text, name, "exec", dont_inherit=True), vars(main))
        return main

    return run_cell


def test_a_trusted_model_predicts_in_another_program(run: Run, tmp_path: Path) -> None:
    main, best = run(CELL), tmp_path / "best"
    trained(study_in(tmp_path, OWN, "study.n_trials=1", "train.epochs=1"))
    sweeper.command("export", str(tmp_path / "run"), "--to", str(best))
    x = load_digits(return_X_y=True)[0][:20]
    expected = sweeper.load(best).predict(x).tolist()

    np.save(tmp_path / "x.npy", x)
    code = (
        "import sys, numpy as np, sweeper; x = np.load('x.npy')\n"
        "print(sweeper.load('best', trust_code=True).predict(x).tolist())\n"
        "sys.path.insert(0, 'best'); import load; print(load.predict(x).tolist())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == [str(expected)] * 2

    run("def build(in_size, out_size, key):\n    return eqx.nn.Linear(in_size, 1, key=key)")
    differs = "which this program defines differently than when the model was trained; define it"
    with pytest.raises(SetupError, match=differs):
        sweeper.load(best)
    assert sweeper.load(best, trust_code=True).predict(x).tolist() == expected
    del main.__dict__["build"]
    with pytest.raises(SetupError, match=r"is not defined in this program; .*add --trust-code"):
        sweeper.load(best)


def test_two_exports_in_one_program_run_their_own_functions(run: Run, tmp_path: Path) -> None:
    x = load_digits(return_X_y=True)[0][:20]
    expected: list[object] = []
    for name, cell in (("first", CELL), ("second", CELL.replace("x**3", "3 - 50 * x"))):
        run(cell)
        trained(study_in(tmp_path, OWN, "study.n_trials=1", "train.epochs=1"))
        sweeper.command("export", str(tmp_path / "run"), "--to", str(tmp_path / name))
        (tmp_path / "run").rename(tmp_path / f"run of {name}")
        expected.append(sweeper.load(tmp_path / name).predict(x).tolist())
    found = [vars(_imported(tmp_path / name))["predict"](x) for name in ("first", "second")]
    assert [one.tolist() for one in found] == expected
    assert expected[0] != expected[1]


def _imported(directory: Path) -> ModuleType:
    """The `load.py` of an export."""
    spec = spec_from_file_location(directory.name, directory / "load.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


UNWRITTEN = {
    "a captured value": "def made(by):\n    return lambda x: by * x\nused = made(2)",
    "an object of a class in it": "class Point:\n    pass\nused = [Point()]",
    "rules of derivatives": "@jax.custom_vjp\ndef used(x):\n    return x",
    "a function of two definitions on a line": "used, other = (lambda x: x), (lambda x: 2 * x)",
    "a large value": "used = np.arange(1_000_000)",
    "what cannot be pickled": "import threading\nused = threading.Lock()",
}


@pytest.mark.parametrize("what", UNWRITTEN)
def test_what_cannot_be_written_as_text_is_named(what: str, run: Run) -> None:
    run(f"import jax, numpy as np\n{UNWRITTEN[what]}\ndef build():\n    return used")
    assert module_of(["build"]) == ("", ["used"])
    assert module_of([]) == ("", [])


def test_functions_that_call_each_other_are_written(run: Run) -> None:
    run(
        "def even(n):\n    return n == 0 or odd(n - 1)\n"
        "def odd(n):\n    return n != 0 and even(n - 1)\n"
    )
    namespace: dict[str, Any] = {}
    exec(module_of(["odd"])[0], namespace)
    assert [namespace["odd"](n) for n in range(4)] == [False, True, False, True]


UNCHANGED_DEFAULTS = {
    "a deque of arrays": "def used(x, by=deque([np.arange(3)])):\n    return by",
    "a set of its own functions": "def one(x): ...\ndef used(x, by={one}):\n    return by",
    "a set of numbers": "def used(x, by={1.0, float('nan')}):\n    return by",
}


@pytest.mark.parametrize("what", UNCHANGED_DEFAULTS)
def test_a_function_whose_defaults_have_not_changed_is_written(what: str, run: Run) -> None:
    main = f"from collections import deque\nimport numpy as np\n{UNCHANGED_DEFAULTS[what]}\n"
    run(f"{main}def build():\n    return used")
    text, unwritten = module_of(["build"])
    assert ("def used" in text, unwritten) == (True, [])


def test_the_current_values_are_written(run: Run) -> None:
    run("import numpy as np\nUSED = {'a': 1}\ndef build():\n    return USED, np.inf, AGAIN")
    run("USED['b'] = float('inf')\nAGAIN = USED['a']")
    namespace: dict[str, Any] = {}
    exec(module_of(["build"])[0], namespace)
    assert namespace["build"]() == ({"a": 1, "b": np.inf}, np.inf, 1)


BY = """\
import functools
def by(size):
    def wrap(function):
        @functools.wraps(function)
        def inner(x):
            return size * function(x)
        return inner
    return wrap
"""
BOUND = {
    "a default of a function": "def used(x, by=SIZE):\n    return by * x",
    "a keyword default": "def used(x, *, by=(SIZE, 1)):\n    return by",
    "an attribute of a class": "class used:\n    by = SIZE",
    "a default of a method": "class used:\n    def __init__(self, by=SIZE):\n        self.by = by",
    "a field": "import dataclasses\n@dataclasses.dataclass\nclass used:\n    by: int = SIZE",
    "an array": "import numpy as np\ndef used(x, by=np.arange(SIZE)):\n    return by",
    "a set": "def used(x, by={SIZE}):\n    return by",
    "a deque": "from collections import deque\ndef used(x, by=deque([SIZE])):\n    return by",
    "a path": "from pathlib import Path\ndef used(x, by=Path(str(SIZE))):\n    return by",
    "a slice": "def used(x, by=slice(0, SIZE)):\n    return x[by]",
    "a set of tuples": "def used(x, by={('a', SIZE)}):\n    return by",
    "a decorator": "@by(SIZE)\ndef used(x):\n    return x",
    "an attribute that is a function": "class used:\n    f = by(SIZE)(len)",
    "a default that is a function": "def used(x, f=by(SIZE)(len)):\n    return f(x)",
}


@pytest.mark.parametrize("what", BOUND)
def test_what_depends_on_a_value_that_has_changed_is_named(what: str, run: Run) -> None:
    run(f"{BY}SIZE = 2\n{BOUND[what]}\ndef build():\n    return used")
    assert module_of(["build"])[1] == []
    run("SIZE = 3")
    assert module_of(["build"]) == ("", ["used"])


CHANGED = {
    "a function wrapped by a call": "def used(x):\n    return x\nused = jax.vmap(jax.grad(used))",
    "a function wrapped by another": "def used(x):\n    return x\nused = tripled(used)",
    "a function compiled by a call": "def used(x):\n    return x\nused = jax.jit(used)",
    "a function with an attribute": "def used(x):\n    return x\nused.scale = 3",
    "a wrapped method": "class used:\n    def f(self):\n        pass\nused.f = jax.jit(used.f)",
    "another method": "class used:\n    def f(self):\n        pass\nused.g = used.f",
    "another attribute": "class used:\n    by = 1\nused.by = 2",
    "a field of a network": "class used(eqx.Module):\n    a: int = 1\nused.__call__ = tripled(len)",
}
WRAPPER = """\
import functools, equinox as eqx, jax
def tripled(function):
    @functools.wraps(function)
    def inner(*args):
        return 3 * function(*args)
    return inner
"""


@pytest.mark.parametrize("what", CHANGED)
def test_what_was_changed_after_its_definition_is_named(what: str, run: Run) -> None:
    run(f"{WRAPPER}{CHANGED[what]}\ndef build():\n    return used")
    assert module_of(["build"]) == ("", ["used"])


def test_the_last_of_several_classes_of_a_name_in_a_file_is_written(
    run: Run, tmp_path: Path
) -> None:
    main, file = run(""), tmp_path / "script.py"
    classes = (f"class Net:\n    def f(self):\n        return {n}\n" for n in (1, 2, 3))
    file.write_text("\n".join([*classes, "def build():\n    return Net"]))
    vars(main)["__file__"] = str(file)
    exec(compile(file.read_text(), str(file), "exec", dont_inherit=True), vars(main))
    namespace: dict[str, Any] = {"__name__": "anywhere"}
    exec(module_of(["build"])[0], namespace)
    assert namespace["build"]().f(None) == 3


def test_an_attribute_of_a_function_counts_as_its_code(run: Run) -> None:
    main = run("def build():\n    return build.scale\nbuild.scale = 3")
    before = source_digests("__main__:build", Path())
    main.build.scale = 4
    now = source_digests("__main__:build", Path())
    assert changed_names(before, now, 5, in_main=True) == ["__main__.build (attributes)"]
    del before["__main__.build (attributes)"]  # as in records of earlier versions
    assert changed_names(before, now, 5, in_main=True) == []
