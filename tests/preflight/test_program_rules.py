"""`check-program` reports which rules a user-defined program breaks, and how to fix it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sweeper.config import load
from sweeper.errors import StudyError
from sweeper.preflight import program_rules
from tests.command_line import CommandLine
from tests.processes import ROOT
from tests.small_studies import bent

PROGRAMS = """\
import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np


class Kept:
    def __init__(self, *, weight=0.1, scale=1):
        self.weight, self.scale = weight, scale

    def init(self, model, optimizer, key):
        return model, optimizer.init(eqx.filter(model, eqx.is_inexact_array))

    def step(self, model, opt_state, batch, optimizer, key):
        def loss(model):
            return jnp.mean(self.errors(model, batch, key) ** 2) + self.weight * self.scale

        value, gradients = eqx.filter_value_and_grad(loss)(model)
        parameters = eqx.filter(model, eqx.is_inexact_array)
        updates, opt_state = optimizer.update(gradients, opt_state, parameters)
        return eqx.apply_updates(model, updates), opt_state, value

    def evaluate(self, model, data):
        return {"loss": jnp.mean(self.errors(model, data, None) ** 2), "first": data.y[0, 0]}

    def errors(self, model, batch, key):
        return jax.vmap(model)(batch.x) - batch.y


class Draws(Kept):
    def errors(self, model, batch, key):
        return super().errors(model, batch, key) + np.random.normal(size=batch.y.shape)


class Prints(Kept):
    def errors(self, model, batch, key):
        jax.debug.callback(lambda _: None, batch.x[0, 0])
        return super().errors(model, batch, key)


class Diverges(Kept):
    def errors(self, model, batch, key):
        return super().errors(model, batch, key) / 0.0


class Counts(Kept):
    calls = [0.0]

    def errors(self, model, batch, key):
        def count(like):
            self.calls[0] += 1e-3
            return np.full(like.shape, self.calls[0], like.dtype)

        shape = jax.ShapeDtypeStruct(batch.y.shape, batch.y.dtype)
        factor = jax.pure_callback(count, shape, batch.y, vmap_method="sequential")
        return super().errors(model, batch, key) * factor


class Chooses(Kept):
    def errors(self, model, batch, key):
        return jax.nn.one_hot(batch.y, 3) - jax.vmap(model)(batch.x)

    def evaluate(self, model, data):
        return {"loss": jnp.mean(self.errors(model, data, None) ** 2)}


class Counted(eqx.Module):
    mlp: eqx.nn.MLP
    seen: jax.Array
    is_begun: jax.Array
    table: np.ndarray

    def __call__(self, x):
        return self.mlp(x)


def build(in_size, out_size, depth, width, key):
    mlp = eqx.nn.MLP(in_size, out_size, width, depth, key=key)
    return Counted(mlp, jnp.zeros(2, jnp.int32), jnp.array(False), np.arange(3))


class Remembers(Kept):
    def init(self, model, optimizer, key):
        model = eqx.tree_at(lambda m: m.is_begun, model, jnp.array(True))
        return super().init(model, optimizer, key)

    def step(self, model, opt_state, batch, optimizer, key):
        model, opt_state, loss = super().step(model, opt_state, batch, optimizer, key)
        return eqx.tree_at(lambda m: m.seen, model, model.seen.at[1].add(1)), opt_state, loss


class Needs(Kept):
    def __init__(self, wait):
        super().__init__()


class Nothing(Kept):
    def step(self, model, opt_state, batch, optimizer, key):
        return model, opt_state, "none"
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module in the current directory, with a new name in each test: it is imported once."""
    monkeypatch.chdir(tmp_path)
    Path("promised.py").write_text(PROGRAMS, encoding="utf-8")
    return "promised"


def broken(program: str, *overrides: str) -> dict[str, str]:
    """The promises that it breaks, and what to change."""
    config = program_rules.study_of(program, overrides)
    found = [*program_rules.findings(config, knows_metrics=False)]
    assert len(found) == 8
    return {finding.promise: finding.hint for finding in found if finding.found is not None}


def test_draws_without_the_key_are_reported(module: str) -> None:
    with pytest.raises(StudyError, match="gives different results each time it is called"):
        broken(f"{module}:Draws")


def test_values_that_are_not_finite_are_reported(module: str) -> None:
    found = broken(f"{module}:Diverges")
    assert [*found] == [
        "its metrics are finite",
        "a trial resumes from its checkpoint as if never stopped",
    ]
    assert "guard divisions" in found[next(iter(found))]


@pytest.mark.slow
def test_lost_changes_to_the_model_are_reported(module: str) -> None:
    model = (f"model.function={module}:build", "model.kind=python")
    changed = (
        "it changes model.is_begun, model.seen, but the next step gets the values that the "
        "model was"
    )
    for program, expected in (("Remembers", f"{changed} built with"), ("Kept", None)):
        config = program_rules.study_of(f"{module}:{program}", model)
        promises = program_rules.findings(config, knows_metrics=False)
        kept = (one for one in promises if one.promise == "its changes to the model are kept")
        assert next(kept).found == expected


def test_a_program_with_hidden_state_is_reported(module: str) -> None:
    found = broken(f"{module}:Counts")
    assert [promise.partition(" ")[2] for promise in found] == [
        "contains no host callbacks",
        "trial alone ends with the same bits as among others",
        "side by side (vmap) end with the same weights",
        "trial resumes from its checkpoint as if never stopped",
    ]
    assert all(found.values())


def test_a_compile_error_is_reported_for_the_program(module: str, command: CommandLine) -> None:
    for arguments, told in (
        (["Nothing"], f"{module}:Nothing: train.program: '{module}:Nothing.step' returns str as"),
        (["Kept", "--set", "train.wait=1.0"], "train.wait: 'promised:Kept' has no argument 'wait'"),
        (
            ["Needs"],
            f"{module}:Needs: train.wait: missing, but '{module}:Needs' needs it; write --set "
            "train.wait=..., or give a study with --study",
        ),
    ):
        done = command("check-program", f"{module}:{arguments[0]}", *arguments[1:])
        assert (done.returncode, done.stdout) == (2, "")
        assert told in done.stderr


def test_a_study_does_not_blame_an_override_for_the_program(
    module: str, command: CommandLine
) -> None:
    study = program_rules.STUDY.replace("[train]", '[train]\nprogram = "promised:Kept"')
    Path("study.toml").write_text(study, encoding="utf-8")
    done = command("check-program", f"{module}:Nothing", "--study", "study.toml")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(
        f"{module}:Nothing: train.program: '{module}:Nothing.step' returns"
    )


@pytest.mark.slow
def test_the_data_and_model_used_are_reported_first(module: str, command: CommandLine) -> None:
    done = command("check-program", f"{module}:Nothing")
    assert done.stderr.startswith(
        "no study given: an MLP on scikit-learn's diabetes, whose target is numbers; name yours "
        "with --study, or write --set train.task=classes --set data.name=iris\n"
    )
    chosen = ("--set", "train.task=classes", "--set", "data.name=iris")
    done = command("check-program", f"{module}:Chooses", *chosen)
    assert done.stderr == (
        "no study given: an MLP on scikit-learn's iris, whose target is classes; name yours with "
        "--study\n"
    )
    assert (done.returncode, done.stdout.count("ok  ")) == (0, 8)


@pytest.mark.slow
def test_a_study_gives_data_model_and_settings(module: str) -> None:
    model = f"model={{kind='python',function='{module}:build',depth=1,width=8}}"
    own = (model, f"train.program={module}:Kept", "train.metrics=['first']")
    Path("study.toml").write_text(bent(program_rules.STUDY, *own), encoding="utf-8")
    assert [finding.found for finding in program_rules.findings(load(Path("study.toml")))] == [
        None
    ] * 8
    with pytest.raises(StudyError, match="a program of this package"):
        next(program_rules.findings(load(ROOT / "studies" / "digits.toml")))


@pytest.mark.slow
def test_the_program_of_a_shipped_study_follows_every_rule() -> None:
    config = load(ROOT / "studies" / "heat.toml", ["train.n_points=4", "model.depth=1"])
    assert [finding.found for finding in program_rules.findings(config)] == [None] * 8


def test_the_command_exits_with_1_if_a_rule_is_broken(module: str, command: CommandLine) -> None:
    done = command("check-program", f"{module}:Prints", "--json")
    assert done.returncode == 1
    record = json.loads(done.stdout)
    assert record["program"] == f"{module}:Prints"
    found = {finding["promise"]: finding["found"] for finding in record["promises"]}
    assert [promise for promise, fault in found.items() if fault] == [
        "it contains no host callbacks"
    ]


def test_a_finding_is_printed_as_one_line() -> None:
    assert str(program_rules.ProgramFinding("it is kept")) == "ok      it is kept"
    assert str(program_rules.ProgramFinding("it is kept", "it is not", "fix it")) == (
        "BROKEN  it is not; fix it"
    )
