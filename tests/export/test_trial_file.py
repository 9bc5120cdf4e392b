"""`sweeper trial` writes a study file that repeats one trial, bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyarrow import parquet

from sweeper import open_results
from sweeper.cli.new_study import begin_again
from sweeper.config import StudyConfig, load, parse
from sweeper.config.lint import file_warnings
from sweeper.config.settings import OPTIONAL_SETTINGS
from sweeper.config.study import EDITION
from sweeper.config.toml import toml_text
from sweeper.errors import StudyError
from sweeper.export import export
from sweeper.export.trial_file import _heading, trial_file, trial_tables, trial_text
from sweeper.rundir import RunDir
from tests.command_line import STUDY, CommandLine, settings
from tests.digest import deterministic_columns
from tests.in_process import study_in, trained
from tests.small_studies import PARTS

# Shapes, a traced part and an activation that a padded class gets at run time: everything that a
# class can compile in because its study searches it.
SPACE = (
    "search.model.depth={type='int', low=1, high=2}",
    "search.model.width={type='int', low=4, high=8, base=2}",
    "search.model.dropout={type='categorical', choices=[0.0, 0.2]}",
    "search.model.activation={type='categorical', choices=['relu', 'tanh']}",
    "search.optimizer.lr.high=1e-2",
    "study.n_trials=8",
    "study.sampler={name='random'}",
    "study.pruner={name='median', n_startup_trials=2, n_warmup_steps=0}",
)
# columns about the study around a trial, not about the trial
AROUND = {"study", "state", "reason", "params_json", "told_through_round"}
AROUND |= {"first_round", "last_round"}


def outcome(run_dir: Path, number: int) -> dict[str, Any]:
    """The deterministic columns of a trial, except those about the study around it."""
    deterministic = deterministic_columns(parquet.read_schema(RunDir(run_dir).trials))
    row = open_results(run_dir).trial(number)
    assert row is not None
    return {
        name: row[name]
        for name in deterministic
        if name not in AROUND and not name.startswith("params_")
    }


def curves(run_dir: Path, number: int) -> pd.DataFrame:
    found = open_results(run_dir).metrics().drop(columns=["study", "elapsed_s"])
    found = found[found["trial_number"] == number]
    order = ["replicate", "fold", "epoch", "metric"]
    return found.sort_values(order).reset_index(drop=True)


STRICT = "study.pruner={name='percentile', percentile=20.0, n_startup_trials=2}"
SMALLER = ("search.model.depth.high=1", "study.n_trials=4")
ENDING = (
    "train.ema=0.9",
    "train.early_stop={patience=1}",
    "optimizer.schedule={name='warmup_cosine'}",
)
CONDITIONAL = (
    "search.model.dropout={type='float', low=0.1, high=0.5, when={'model.depth'=1}}",
    "search.optimizer.weight_decay={same_as='optimizer.lr'}",
    "study.enqueue=[{lr=0.01}]",
    "study.constraints=[{metric='val_loss', max=0.5}]",
)


@pytest.mark.parametrize(
    ("strategy", "state", "more"),
    [
        ("exact", "PRUNED", ("search.model.depth.high=1", STRICT)),
        ("padded", "COMPLETE", (*ENDING, *CONDITIONAL)),
        pytest.param(
            *("exact", "COMPLETE"),
            ("execution.lane_loop=vmap", "study.replicates=2", *SMALLER),
            marks=pytest.mark.slow,
        ),
        pytest.param(
            *("process", "COMPLETE"),
            ("execution.workers=1", *SMALLER),
            marks=pytest.mark.slow,
        ),
        pytest.param("exact", "COMPLETE", ENDING, marks=pytest.mark.slow),
        pytest.param("padded", "PRUNED", ("execution.lane_loop=vmap",), marks=pytest.mark.slow),
        pytest.param("auto", "PRUNED", ("study.folds=2",), marks=pytest.mark.slow),
    ],
)
def test_a_trial_is_run_again_bit_for_bit(
    strategy: str, state: str, more: tuple[str, ...], tmp_path: Path
) -> None:
    forced = (*SPACE, f"execution.strategy={strategy}", *more)
    trials = trained(study_in(tmp_path, STUDY, *forced)).trials().set_index("trial_number")
    number = int(trials.index[trials["state"] == state][-1])
    first, again = tmp_path / "run", tmp_path / "again"

    begin_again(first, number, tmp_path / "again.toml")
    results = trained(load(tmp_path / "again.toml", [f"results.dir={again}"]))

    assert outcome(first, number) == outcome(again, number)
    assert set(results.trials()["state"]) == {"COMPLETE"}
    pd.testing.assert_frame_equal(curves(first, number), curves(again, number), check_exact=True)


def test_the_file_of_a_pruned_trial_states_the_value_that_the_trial_gives_again(
    tmp_path: Path,
) -> None:
    steep = "search.optimizer.lr={type='float', low=0.3, high=1.0}", "train.epochs=6"
    space = (one for one in SPACE if not one.startswith("search.optimizer.lr"))
    late = STRICT.replace("}", ", n_warmup_steps=2}")
    forced = (*space, "search.model.depth.high=1", *steep, late, "study.value=best")
    results = trained(study_in(tmp_path, STUDY, *forced))
    trials = results.trials()
    row = trials[(trials["state"] == "PRUNED") & (trials["value"] != trials["best_value"])].iloc[-1]
    begin_again(tmp_path / "run", int(row["trial_number"]), tmp_path / "again.toml")
    again = trained(load(tmp_path / "again.toml", [f"results.dir={tmp_path / 'again'}"]))
    value = again.trial(int(row["trial_number"]))["value"]
    assert value != row["value"]
    assert f"\n# Expect: a value of {value}, bit" in (tmp_path / "again.toml").read_text("utf-8")


SIZE_AND_LOSS = (
    "study.metric=['n_parameters', 'val_loss']",
    "study.direction=['minimize', 'minimize']",
)


@pytest.mark.parametrize(
    ("state", "reason", "more", "expected"),
    [
        ("COMPLETE", None, [], "Expect: a value of 0.5, bit for bit on the same "),
        ("PRUNED", "pruned", [], "Expect: a value of 0.5, bit for bit on the same "),
        ("PRUNED", "pruned", ["study.value=best"], "Expect: a value of 0.25, bit for bit "),
        (
            *("PRUNED", "pruned", ["study.value=best", "study.folds=2"]),
            "Expect: another value than 0.5, that of its last epoch: a trial that is not pruned "
            "has that of the epoch with the best val_loss.",
        ),
        (
            *("PRUNED", "timeout", ["study.value=best", *SIZE_AND_LOSS]),
            "Expect: a value of 0.5, bit for bit on the same ",
        ),
        ("FAIL", "diverged", [], "Expect: FAIL, diverged again, without a value, "),
        ("FAIL", "oom", [], "It had no value, since it was FAIL, oom; this may not happen again."),
    ],
)
def test_the_file_of_a_trial_states_what_to_expect(
    state: str, reason: str | None, more: list[str], expected: str
) -> None:
    config = parse(STUDY, Path("study.toml"), more)
    row = {"trial_number": 3, "state": state, "reason": reason, "epochs_done": 2, "train_s": 1.0}
    row |= {"value": None if state == "FAIL" else 0.5, "best_value": 0.25}
    assert f"\n# {expected}" in _heading(config, row, "sweeper run x.toml", None)


def test_the_best_trial_can_be_named_as_best(command: CommandLine) -> None:
    command.write()
    assert command("run", "study.toml", "--quiet", *settings("study.n_trials=3")).returncode == 0
    best = int(open_results(command.run_dir.root).best(1)["trial_number"][0])

    done = command("trial", "runs/wine", "best")

    assert (done.returncode, done.stderr) == (0, "")
    config = load(command.directory / "trial.toml")
    assert config.trial is not None
    assert (config.trial.number, config.study.name) == (best, f"wine-trial-{best}")
    again = command("trial", "runs/wine", "best")
    assert again.returncode == 2
    assert again.stderr == (
        "trial.toml: this file already exists; choose another name with -o, or remove it\n"
    )
    nothing = command("trial", "runs/wine", "7", "-o", "other.toml")
    assert nothing.returncode == 2
    assert nothing.stderr == "runs/wine: no trial 7 has ended; use a trained trial: 0 to 2\n"
    assert not (command.directory / "other.toml").exists()


@pytest.mark.slow
def test_a_trial_finds_data_and_model_of_its_study(command: CommandLine) -> None:
    studies, elsewhere = command.directory / "studies", command.directory / "elsewhere"
    studies.mkdir()
    elsewhere.mkdir()
    rows = "\n".join(f"{i},{i % 7},{i % 2}" for i in range(60))
    (studies / "points.csv").write_text(f"a,b,label\n{rows}\n", encoding="utf-8")
    (studies / "nets.py").write_text(
        "import equinox as eqx\n"
        "def build(in_size, out_size, key, width):\n"
        "    return eqx.nn.MLP(in_size, out_size, width, 1, key=key)\n",
        encoding="utf-8",
    )
    text = STUDY.replace('source = "sklearn"\nname = "wine"', 'source = "csv"\npath = "points.csv"')
    text = text.replace("split = {", 'target = "label"\nsplit = {')
    (studies / "mlp.toml").write_text(text, encoding="utf-8")
    own = text.replace('kind = "mlp"\ndepth = 1', 'kind = "python"\nfunction = "nets:build"')
    (studies / "own.toml").write_text(own, encoding="utf-8")
    few = settings("study.n_trials=1", "train.batch_size=8")
    for name in ("mlp", "own"):
        arguments = ("--quiet", *few, *settings(f"results.dir={name}"))
        assert command("run", f"studies/{name}.toml", *arguments).returncode == 0

    far = str(elsewhere / "trial.toml")
    assert command("trial", "mlp", "0", "-o", far).returncode == 0
    assert command("validate", far).returncode == 0

    lost = command("trial", "own", "0", "-o", far.replace("trial", "own"))
    assert lost.returncode == 2
    assert f"write the file there: -o {studies / 'own.toml'}" in lost.stderr
    assert command("trial", "own", "0", "-o", "studies/again.toml").returncode == 0
    assert command("run", "studies/again.toml", "--quiet").returncode == 0
    first, second = (outcome(command.directory / name, 0) for name in ("own", "own-trial-0"))
    assert first == second


TRIAL = """
[trial]
number = 3
epochs = 4

[trial.class]
strategy = "padded"
lane_loop = "map"
capacity = 4
epochs = 4
width = 8
depth = 1

[trial.class.traced]
"model.activation" = ["relu", "tanh"]
"""
ALONE = STUDY.partition("[search]")[0].replace("n_trials = 12", "n_trials = 1") + TRIAL


def problems(text: str) -> list[str]:
    with pytest.raises(StudyError) as refusal:
        parse(text, Path("study.toml"))
    return [str(problem) for problem in refusal.value.problems]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "n_trials = 1",
            "n_trials = 2",
            "study.toml:7: study.n_trials: 2 trials, but [trial] is one trial; write 1, or remove "
            "[trial] to make this a study again",
        ),
        (
            "[data]",
            "[study.pruner]\nname = 'median'\n\n[data]",
            "study.toml:10: study.pruner: 'median', but the trial ends after trial.epochs; "
            "remove it, or remove [trial] to make this a study again",
        ),
        (
            "[trial]",
            "[search]\nmodel.width = { type = 'int', low = 4, high = 8 }\n[trial]",
            "study.toml:31: search: searched, but [trial] is one trial; remove [search], or "
            "remove [trial] to make this a study again",
        ),
        (
            "number = 3\nepochs = 4",
            "number = 3\nepochs = 5",
            "study.toml:33: trial.epochs: 5 is more than train.epochs or trial.class.epochs; "
            "write 4 or less",
        ),
        (
            "width = 8\ndepth = 1\n\n[optimizer]",
            "width = 9\ndepth = 1\n\n[optimizer]",
            "study.toml:40: trial.class.width: too small for model.width 9; write 9 or more, or "
            "model.width = 8",
        ),
        (
            'strategy = "padded"',
            'strategy = "padded"\nparts = ["model.depth"]',
            "study.toml:37: trial.class.parts: no part 'model.depth'; "
            f"write some of {', '.join(OPTIONAL_SETTINGS)}",
        ),
        (
            "epochs = 4\nwidth = 8\ndepth = 1\n",
            "epochs = 4\nwidth = 8\n",
            "study.toml:35: trial.class.depth: missing; write the size that the class is padded to",
        ),
        (
            "depth = 1\n\n[trial.class.traced]",
            "depth = 1\nrun_widths = [4, 6]\n\n[trial.class.traced]",
            "study.toml:42: trial.class.run_widths: [4, 6], but width is 8; "
            "write them ascending to width",
        ),
        (
            'lane_loop = "map"',
            'lane_loop = "vmap"\nrun_widths = [4, 8]',
            "study.toml:38: trial.class.run_widths: several widths, but the class runs its lanes "
            "side by side; remove it",
        ),
        (
            'lane_loop = "map"',
            'lane_loop = "map"\nxla_threads = 0',
            "study.toml:38: trial.class.xla_threads: 0 is too small; write 1 or more",
        ),
    ],
)
def test_contradictions_to_the_trial_are_refused(old: str, new: str, expected: str) -> None:
    text = ALONE.replace("depth = 1\nwidth = 8\n", "width = 8\ndepth = 1\n")
    assert old in text
    assert problems(text.replace(old, new)) == [expected]


def test_the_model_of_a_repeated_trial_is_kept(tmp_path: Path) -> None:
    """It is what the export of a trial whose weights were not kept suggests to run."""
    few = "study.n_trials=1", "train.epochs=1", "results={keep_models=0,ensemble=3}"
    study = trained(study_in(tmp_path, STUDY, *few))
    with pytest.raises(StudyError, match="train it again: sweeper trial"):
        export(study.run_dir.root, 0, 0, tmp_path / "best")
    file = tmp_path / "trial.toml"
    file.write_text(trial_file(study.run_dir.root, 0, file), encoding="utf-8")
    again = trained(load(file))
    assert export(again.run_dir.root, None, 0, tmp_path / "best") == 0


def test_a_trial_file_survives_being_read_and_written() -> None:
    config = parse(ALONE, Path("study.toml"))
    again: StudyConfig = parse(toml_text(config.canonical()), Path("study.toml"))
    assert again.canonical() == config.canonical()
    assert again.trial is not None
    assert again.trial.program.traced == {"model.activation": ("relu", "tanh")}


def test_settings_without_effect_are_not_reported_for_the_file_of_a_trial() -> None:
    """It names all settings."""
    for text, is_reported in ((STUDY, True), (ALONE, False)):
        found = file_warnings(
            parse(text, Path("study.toml"), ["model.n_bins=8", "data.scale='none'"])
        )
        assert any("model.n_bins has no effect" in one for one in found) is is_reported


ROW = {
    "params_json": '{"width": 5}',
    "trial_number": 3,
    "state": "COMPLETE",
    "epochs_done": 12,
    "device": "cpu:0",
    "strategy": "exact",
    "lane_loop": "map",
    "capacity": 1,
    "padded_width": None,
    "padded_depth": None,
}


@pytest.mark.parametrize("edition", [1, 2, EDITION])
def test_a_trial_is_repeated_under_the_rules_of_its_study(edition: int) -> None:
    config = parse(PARTS, Path("study.toml")).with_edition(edition)
    again = parse(toml_text(trial_tables(config, ROW)), Path("trial.toml"))
    assert again.edition == edition


def test_a_trial_of_another_kind_has_no_floats_of_a_user_defined_model() -> None:
    """Earlier versions named them among the parts of its class."""
    kinds = "{type='categorical',choices=['mlp','python']}"
    slope = "{type='float',low=0.01,high=0.3}"
    own = ("model.function=nets:build", f"search.model.kind={kinds}", f"search.model.slope={slope}")
    config = parse(STUDY, Path("study.toml"), own).with_traced_arguments(["model.slope"])
    parts: dict[str, list[str]] = {}
    for kind in ("mlp", "python"):
        params = f'{{"kind": "{kind}", "slope": 0.1}}'
        row = {**ROW, "params_json": params, "epochs_done": 4}
        tables = trial_tables(config, row)
        parts[kind] = tables["trial"]["class"]["parts"]
        tables["trial"]["class"]["parts"] = ["model.slope"]
        assert parse(toml_text(tables), Path("trial.toml")).settings_of({}).model.kind == kind
    assert parts == {"mlp": [], "python": ["model.slope"]}


def test_an_unused_learning_rate_is_left_out() -> None:
    config = parse(PARTS, Path("study.toml"))
    tables = trial_tables(config, ROW)

    again = parse(toml_text(tables), Path("trial.toml"))
    assert "lr" not in tables["optimizer"]
    assert again.settings_of({}).optimizer == config.settings_of({"width": 5}).optimizer
    assert tables["train"]["phases"]["fit"]["lr"] == 1e-3


@pytest.mark.parametrize(
    ("data", "exported", "expected"),
    [
        ("rows.csv", "study/best", "../rows.csv"),
        ("{}/study/rows.csv", "study/all/best", "../../rows.csv"),
        ("rows.csv", "best", "rows.csv"),
        ("{}/study/rows.csv", "best", "rows.csv"),
        ("../rows.csv", "study/best", "../rows.csv"),
        ("{}/rows.csv", "study/best", "rows.csv"),
        ("{}/rows/year=*/*.csv", "study/best", "rows/year=*/*.csv"),
    ],
)
def test_an_exported_trial_does_not_say_where_its_data_is(
    data: str, exported: str, expected: str, tmp_path: Path
) -> None:
    study = tmp_path / "study" / "study.toml"
    study.parent.mkdir()
    (study.parent / "rows.csv").touch()
    path = data.format(tmp_path)
    table = f'source = "csv"\npath = "{path}"\ntarget = "y"'
    config = parse(ALONE.replace('source = "sklearn"\nname = "wine"', table), study)
    done = {"epochs_done": 4, "reason": None, "value": 0.5, "train_s": 1.0}
    row = {**ROW, **done, "params_json": "{}"}

    written_to = tmp_path / exported / "trial.toml"
    text = trial_text(tmp_path / "run", config, row, written_to, is_portable=True)

    assert parse(text, written_to).canonical()["data"]["path"] == expected
    assert str(tmp_path) not in text


@pytest.mark.parametrize("lane_loop", ["map", "vmap"])
def test_a_class_gets_at_run_time_what_its_own_lane_loop_allows(lane_loop: str) -> None:
    """The study may have been resumed with the other one."""
    length = "search.train.phases.fit.epochs={type='int',low=1,high=3,name='fit'}"
    other = {"map": "vmap", "vmap": "map"}[lane_loop]
    config = parse(PARTS, Path("study.toml"), [length, f"execution.lane_loop={other}"])
    row = {**ROW, "params_json": '{"width": 5, "fit": 2}', "lane_loop": lane_loop}
    traced = trial_tables(config, row)["trial"]["class"]["traced"]
    assert traced == ({"train.phases.fit.epochs": (1, 2, 3)} if lane_loop == "map" else {})
