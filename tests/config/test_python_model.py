"""User-defined models take any key, and in a mixed study each kind has its own keys."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeper.config import StudyConfig, parse
from sweeper.errors import StudyError
from tests.config.conftest import VALID

MLP = 'kind = "mlp"\ndepth = 1\nwidth = 8\n'
PYTHON = 'kind = "python"\nfunction = "nets:cnn"\ndropout = 0.25\n'
SEARCH = """[search]
model.depth = { type = "int", low = 1, high = 3 }
model.activation = { type = "categorical", choices = ["relu", "tanh"] }
model.channels = { type = "int", low = 8, high = 32, base = 2 }
optimizer.lr = { type = "float", low = 1e-4, high = 1e-2, log = true }
"""
KIND = 'model.kind = { type = "categorical", choices = ["mlp", "python"] }\n'
OF_BOTH = "depth = 1\nwidth = 8\ndropout = 0.25\nfunction = 'nets:cnn'\nkernel = 3\n"


def study(model: str, search: str) -> StudyConfig:
    text = VALID.partition("[search]")[0].replace(MLP, model) + search
    return parse(text, Path("studies/study.toml"))


PARAMS = {"depth": 2, "activation": "tanh", "channels": 16, "lr": 1e-3}


def test_any_key_is_passed_to_the_function_and_is_structural() -> None:
    config = study(PYTHON, SEARCH)
    settings = config.settings_of(PARAMS)

    assert settings.model.kind == "python"
    assert settings.model.arguments == {
        "depth": 2,
        "activation": "tanh",
        "channels": 16,
        "dropout": 0.25,
    }
    assert settings.base_dir == Path("studies").absolute()
    model = {key: value for key, value in settings.structure().items() if key.startswith("model")}
    assert model == {
        "model.kind": "python",
        "model.function": "nets:cnn",
        **{f"model.{name}": value for name, value in settings.model.arguments.items()},
    }
    assert not any(key.startswith("model") for key in settings.traced())
    assert config.structural == {
        "model.depth": True,
        "model.activation": True,
        "model.channels": True,
        "optimizer.lr": False,
    }
    assert config.n_structures == 3 * 2 * 3


def test_its_arguments_are_not_those_of_networks_that_encode_numbers() -> None:
    own = """[search]
    model.n_bins = { type = "int", low = 4, high = 64 }
    model.bins = { type = "categorical", choices = ["quantile"] }
    model.numbers = { type = "categorical", choices = ["ple", "plr"] }
    """
    config = study(PYTHON, own)
    assert config.settings_of({"numbers": "plr"}).model.arguments["numbers"] == "plr"
    assert (config.number_encodings, config.used_bins) == ((), ())
    mixed = study(OF_BOTH, own.replace("high = 64", "high = 6") + KIND)
    assert mixed.number_encodings == ("ple", "plr")
    with pytest.raises(StudyError, match="61 numbers of bins"):
        study(OF_BOTH, own + KIND)


def test_a_continuous_key_gives_infinitely_many_structures() -> None:
    search = '[search]\nmodel.scale = { type = "float", low = 0.0, high = 1.0 }\n'
    assert study(PYTHON, search).n_structures is None


WIDE = 'model.seed = { type = "int", low = 0, high = 2147483647 }\n'


def test_structures_of_very_many_integers_are_counted_without_a_list_of_them() -> None:
    some = 'model.count = { type = "int", low = 1, high = 4, when = { "model.seed" = [1, 2] } }\n'
    config = study(PYTHON, f"[search]\n{WIDE}{some}")
    assert config.drawn_values("model.seed") is None
    assert config.n_structures == config.n_different == 2**31 - 2 + 2 * 4
    with pytest.raises(StudyError, match="write an integer that it draws, from 0 to 2147483647"):
        study(PYTHON, f"[search]\n{WIDE}{some.replace('[1, 2]', '[-1]')}")


def test_a_trial_of_a_mixed_study_has_the_settings_of_its_kind() -> None:
    config = study(OF_BOTH, SEARCH + KIND)
    alone = study(MLP + "dropout = 0.25\n", SEARCH.replace("model.channels", "model.width"))

    mlp = config.settings_of({**PARAMS, "kind": "mlp"})
    python = config.settings_of({**PARAMS, "kind": "python"})

    expected = alone.settings_of({"depth": 2, "activation": "tanh", "width": 8, "lr": 1e-3})
    assert (mlp.structure(), mlp.traced()) == (expected.structure(), expected.traced())
    assert python.model.kind == "python"
    assert python.model.arguments == {"channels": 16, "kernel": 3}
    assert python.structure().keys() - mlp.structure().keys() == {
        "model.function",
        "model.channels",
        "model.kernel",
    }
    assert not {"model.depth", "model.width", "model.dropout"} & {
        *python.structure(),
        *python.traced(),
    }


def test_settings_that_do_not_apply_split_no_trials() -> None:
    config = study(OF_BOTH, SEARCH + KIND)

    structures = {
        tuple(config.settings_of({**PARAMS, "kind": kind, **other}).structure().items())
        for kind in ("mlp", "python")
        for other in ({}, {"depth": 1 if kind == "python" else 2}, {"channels": 16})
    }

    assert len(structures) == 2
    assert [config.n_structures_of(kind) for kind in config.kinds] == [3 * 2, 3]
    assert config.n_structures == 3 * 2 + 3


def test_a_mixed_study_needs_the_settings_of_both() -> None:
    with pytest.raises(StudyError) as refusal:
        study("channels = 3\n", SEARCH.replace("model.depth", "model.layers") + KIND)

    assert {(problem.key, problem.found) for problem in refusal.value.problems} == {
        ("model.depth", "missing"),
        ("model.width", "missing"),
        ("model.function", "missing"),
    }


def test_an_unknown_kind_cannot_be_drawn() -> None:
    with pytest.raises(StudyError) as refusal:
        study(OF_BOTH, SEARCH + KIND.replace('"mlp"', '"cnn"'))

    (problem,) = refusal.value.problems
    assert problem.key == "search.model.kind.choices"
    assert (problem.found, problem.hint) == ("no kind 'cnn'", "write one of mlp, tabm, python")


TWO_KINDS = 'model.kind = {{ type = "categorical", choices = ["mlp", "{}"] }}\n'


@pytest.mark.parametrize(
    ("other", "more", "found"),
    [
        ("python", "", {"model.function": "missing"}),
        (
            "tabm",
            'function = "nets:build"',
            {"model.function": "no trial has a user-defined model"},
        ),
        ("tabm", "wdith = 3", {"model.wdith": "no such setting"}),
        ("tabm", "", {}),
    ],
)
def test_a_function_and_its_arguments_are_written_if_some_trials_call_it(
    other: str, more: str, found: dict[str, str]
) -> None:
    text = VALID.replace('kind = "mlp"', f'kind = "mlp"\n{more}') + TWO_KINDS.format(other)
    try:
        parse(text, Path("study.toml"))
        problems = {}
    except StudyError as refusal:
        problems = {problem.key: problem.found for problem in refusal.problems}
    assert problems == found
