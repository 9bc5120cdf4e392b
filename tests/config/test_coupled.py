"""What `coupled` requires of a study file, and what it reports."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from sweeper.config import StudyConfig, load, parse
from sweeper.config.lint import file_warnings
from sweeper.errors import StudyError

STUDY = (Path(__file__).parents[2] / "studies" / "coupled.toml").read_text(encoding="utf-8")
OWN = ('"wgan_gp" ', '"nets:losses" ')


def read(*replaced: tuple[str, str]) -> StudyConfig:
    text = STUDY
    for old, new in replaced:
        assert old in text
        text = text.replace(old, new, 1)
    return parse(text, Path("study.toml"))


def problem(*replaced: tuple[str, str]) -> tuple[str, str, str]:
    """The only problem of the study with these replacements."""
    with pytest.raises(StudyError) as refusal:
        read(*replaced)
    (found,) = refusal.value.problems
    return found.key, found.found, found.hint


def test_every_loss_and_metrics_of_generated_rows_are_reported() -> None:
    assert read().train.metric_names == (
        *("train_loss_generator", "train_loss_critic"),
        *("val_loss_generator", "val_loss_critic"),
        *("val_sliced_wasserstein", "val_modes_covered"),
    )
    without = read(('mode   = "mode"', ""))
    assert without.train.metric_names[-1] == "val_sliced_wasserstein"
    own = read(OWN, ("in_size = 8", ""), ('mode   = "mode"', ""), PENALTY, METRIC)
    assert own.train.metric_names[-1] == "val_loss_critic"


PENALTY = ("gradient_penalty = 10.0", "")
METRIC = ('"val_sliced_wasserstein"', '"val_loss_critic"')


def test_its_metrics_survive_pickling() -> None:
    config = read()
    copied = pickle.loads(pickle.dumps(config))
    assert copied.train.metric_names == config.train.metric_names
    assert copied.canonical() == config.canonical()


def test_numbers_of_objectives_never_split_trials() -> None:
    searched = 'train.critic_steps = { type = "int", low = 1, high = 5 }'
    config = read(("[search]", f"[search]\n{searched}"))
    assert config.structural["train.critic_steps"] is False
    assert config.settings_of({"critic_steps": 3}).traced()["train.critic_steps"] == 3.0


def test_its_structures_are_counted() -> None:
    assert read().n_structures == 9


@pytest.mark.parametrize("direction", ["minimize", "maximize"])
def test_the_direction_of_metrics_is_known(direction: str) -> None:
    less = read(('"minimize"', f'"{direction}"'))
    more = read(("val_sliced_wasserstein", "val_modes_covered"), ('"minimize"', f'"{direction}"'))
    assert (file_warnings(less) == ()) is (direction == "minimize")
    assert (file_warnings(more) == ()) is (direction == "maximize")


def test_the_study_that_ships_is_read() -> None:
    config = load(Path(__file__).parents[2] / "studies" / "coupled.toml")
    assert config.train.program == "coupled"


REFUSED = {
    "a number of another objective": (
        [("critic_steps = 5", "critic_steps = 5\nclip = 0.01")],
        (
            "train.clip",
            "the objective wgan_gp does not use it",
            'remove it, or write objective = "wgan"',
        ),
    ),
    "a penalty of another objective": (
        [('"wgan_gp" ', '"gan" ')],
        (
            "train.gradient_penalty",
            "the objective gan does not use it",
            'remove it, or write objective = "wgan_gp"',
        ),
    ),
    "a task of a game": (
        [("critic_steps = 5", 'critic_steps = 5\ntask = "numbers"')],
        (
            "train.task",
            "the objective wgan_gp predicts nothing",
            "remove it, or write your own objective",
        ),
    ),
    "an unknown objective": (
        [('"wgan_gp" ', '"wgangp" ')],
        (
            "train.objective",
            "no objective 'wgangp'",
            "did you mean 'wgan_gp'?",
        ),
    ),
    "no latent size": (
        [("in_size = 8 ", "")],
        (
            "model.generator.in_size",
            "missing, so the size of the generator's noise is not known",
            "write the latent size, in_size = 8",
        ),
    ),
    "an input size of a critic": (
        [("[model.critic]", "[model.critic]\nin_size = 2")],
        ("model.critic.in_size", "2, but the input of a critic is a row of the data", "remove it"),
    ),
    "a critic of two numbers": (
        [("out_size = 1", "out_size = 2")],
        ("model.critic.out_size", "2 outputs per row", "write 1"),
    ),
    "data to predict": (
        [('x      = "x"', 'y = "y"')],
        ("data.y", "the objective wgan_gp predicts nothing", "remove it"),
    ),
    "a source with a target": (
        [
            ('source = "npz"', 'source = "sklearn"\nname = "iris"'),
            ('path   = "ring.npz"\nx      = "x"\nmode   = "mode"', "#"),
        ],
        (
            "data.source",
            "rows have a target, but the objective wgan_gp predicts nothing",
            'write source = "npz", whose rows need no target',
        ),
    ),
    "a model too many": (
        [
            ("[optimizer.generator]", "[model.other]\ndepth=1\nwidth=2\n[optimizer.generator]"),
            ("[optimizer.critic]", '[optimizer.other]\nname="sgd"\nlr=1.0\n[optimizer.critic]'),
        ],
        (
            "model.other",
            "the objective wgan_gp only trains 'generator' and 'critic'",
            "remove it, or write your own objective",
        ),
    ),
    "a metric that it has not": (
        [("val_sliced_wasserstein", "val_r2")],
        (
            "study.metric",
            "'val_r2' is not reported",
            "the program reports train_loss_generator, train_loss_critic, val_loss_generator, "
            "val_loss_critic, val_sliced_wasserstein, val_modes_covered, n_parameters",
        ),
    ),
    "modes of what nothing generates": (
        [OWN, PENALTY, METRIC, ("in_size = 8", "")],
        (
            "data.mode",
            "no model generates rows to compare with the modes",
            "remove it",
        ),
    ),
    "dropout that nobody applies": (
        [OWN, PENALTY, ("out_size = 1", "out_size = 1\ndropout = 0.1")],
        (
            "model.critic.dropout",
            "your own objective calls the models without dropout",
            "remove it",
        ),
    ),
    "a missing size": (
        [
            OWN,
            PENALTY,
            ("[optimizer.generator]", "[model.other]\ndepth=1\nwidth=2\n[optimizer.generator]"),
            ("[optimizer.critic]", '[optimizer.other]\nname="sgd"\nlr=1.0\n[optimizer.critic]'),
        ],
        (
            "model.other.out_size",
            "missing, so the size of 'other' is not known",
            "write out_size = ...",
        ),
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_refused_with_a_hint(case: str) -> None:
    replaced, expected = REFUSED[case]
    assert problem(*replaced) == expected


def test_critic_steps_need_a_critic() -> None:
    key, found, _ = problem(
        OWN,
        PENALTY,
        ("[model.critic]", "[model.judge]"),
        ("[optimizer.critic]", "[optimizer.judge]"),
        ("model.critic.depth", "model.judge.depth"),
        ("optimizer.critic.lr", "optimizer.judge.lr"),
        ("out_size = 1", "out_size = 3"),
    )
    assert (key, found) == ("train.critic_steps", "no model is named 'critic'")
