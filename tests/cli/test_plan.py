"""`plan` shows what a study would do and cost, and `run --plan` follows it."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sweeper.cli import plan_tables
from sweeper.results import formatting
from sweeper.scheduler.cost import shipped
from sweeper.scheduler.signature import short_hash
from tests.command_line import CommandLine, settings

SHAPES = settings(
    "execution.strategy=auto",
    "search.model.width={type='int', low=4, high=32, base=2}",
    "search.model.depth={type='int', low=1, high=3}",
)


@pytest.fixture(autouse=True)
def study(command: CommandLine) -> None:
    command.write()


def planned(command: CommandLine, *more: str) -> dict[str, Any]:
    done = command("plan", "study.toml", "--json", *SHAPES, *more)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def test_plan_shows_data_device_space_lattice_costs_and_buckets(command: CommandLine) -> None:
    preview = planned(command)

    assert preview["notes"] == []
    assert preview["trials_outside_lattice"] == 0
    assert preview["data"]["features"] == 13
    assert preview["device"]["threads"] == 1
    assert {entry["setting"]: entry["splits_buckets"] for entry in preview["space"]} == {
        "optimizer.lr": "no",
        "train.epochs": "no",
        "model.width": "padded",
        "model.depth": "padded",
    }
    assert sum(block["trials"] for block in preview["lattice"]) == pytest.approx(12)
    predicted = preview["predicted"]
    assert predicted["compile_s"] == pytest.approx(
        sum(block["compile_s"] for block in preview["lattice"])
    )
    assert predicted["total_s"] < predicted["exact_total_s"]
    assert all(bucket["memory_bytes"] > 0 for bucket in preview["first_round"]["buckets"])


def test_trials_that_the_lattice_leaves_out_are_counted(command: CommandLine) -> None:
    depths = settings("search.model.depth={type='int', low=0, high=3}")
    preview = planned(command, *depths)
    inside = sum(block["trials"] for block in preview["lattice"])
    assert inside == pytest.approx(9)
    assert preview["trials_outside_lattice"] == pytest.approx(12 - inside)
    (note,) = [note for note in preview["notes"] if "lattice" in note]
    assert note.startswith("about 3 trials of 12 will not be part of the lattice, because ")
    shown = command("plan", "study.toml", *SHAPES, *depths).stdout
    assert "lattice: the programs of 9 of 12 trials\n" in shown
    assert "about 3 trials of 12 will not be part of the lattice" in " ".join(shown.split())


def test_one_thread_compiles_a_class_and_all_train_it(command: CommandLine) -> None:
    threads = settings("execution.threads=2", "execution.workers=0")
    preview = planned(command, *threads)
    predicted, start_s = preview["predicted"], shipped("cpu").start_s

    assert [block["strategy"] for block in preview["lattice"]] == ["padded"]
    assert predicted["total_s"] == pytest.approx(
        start_s + predicted["compile_s"] + predicted["train_s"] / 2
    )
    # twelve programs of one trial each keep both threads busy
    both_s = (predicted["exact_compile_s"] + predicted["exact_train_s"]) / 2
    assert predicted["exact_total_s"] == pytest.approx(start_s + both_s)


def test_the_plan_of_a_trial_has_the_class_that_it_names(command: CommandLine) -> None:
    import pandas as pd

    assert command("run", "study.toml", *SHAPES, "--quiet").returncode == 0
    whole = planned(command)
    trials = pd.read_parquet(command.run_dir.trials)
    shallow = str(trials["trial_number"][trials["params_depth"] < 3].iloc[0])
    assert command("trial", str(command.run_dir.root), shallow, "-o", "one.toml").returncode == 0

    preview = json.loads(command("plan", "one.toml", "--json").stdout)

    predicted = preview["predicted"]
    (program,), (bucket,) = (preview["first_round"][name] for name in ("classes", "buckets"))
    assert program["padded_width"] == whole["lattice"][0]["width"]
    assert predicted["compile_s"] == pytest.approx(whole["predicted"]["compile_s"])
    epochs = tomllib.loads((command.directory / "one.toml").read_text())["trial"]["epochs"]
    whole_s = bucket["predicted_train_s"] * epochs / bucket["epoch_to"]
    assert predicted["train_s"] == pytest.approx(whole_s)
    assert predicted["exact_compile_s"] < predicted["compile_s"]
    assert predicted["exact_train_s"] < predicted["train_s"]
    assert predicted["total_s"] > predicted["compile_s"] + predicted["train_s"]
    assert preview["advice"] is None


def test_plan_prints_tables_for_people(command: CommandLine) -> None:
    link = "--set", "search.optimizer.eps={same_as='optimizer.lr'}"
    told = command("plan", "study.toml", *SHAPES, *link).stdout

    for words in (
        "rows for training",
        "as optimizer.lr",
        "lattice",
        "more programs would compile",
        "total time",
    ):
        assert words in told
    preview = planned(command)
    for block in preview["lattice"]:
        spans = [formatting.span(*block[name]) for name in ("for_widths", "for_depths")]
        start = " +".join([block["strategy"], str(block["width"]), str(block["depth"]), *spans])
        assert re.search(f"^{start} ", told, re.MULTILINE)
    assert preview["learning"] == []
    preview |= {"learning": ["learns"], "notes": ["learns", *preview["notes"]]}
    first, *others = plan_tables.plan(preview)
    assert first == "learns" and "learns" not in others, "what it learns from earlier trials"


def test_predicted_memory_is_close_to_the_compilers(command: CommandLine) -> None:
    import pandas as pd

    preview = planned(command)
    assert command("run", "study.toml", *SHAPES, "--quiet").returncode == 0

    buckets = pd.read_parquet(command.run_dir.buckets)
    foreseen = max(bucket["memory_bytes"] for bucket in preview["first_round"]["buckets"])
    assert buckets["memory_predicted_bytes"].max() / 3 < foreseen
    assert foreseen < buckets["memory_predicted_bytes"].max() * 3


def test_a_plan_file_is_followed(command: CommandLine) -> None:
    import pandas as pd

    preview = planned(command)
    (family,) = preview["forecast"]["families"].values()
    family["classes"] = [{**family["classes"][0], "width": 40, "depth": 5, "run_widths": []}]
    preview["digests"]["forecast"] = short_hash(preview["forecast"])
    (command.directory / "plan.json").write_text(json.dumps(preview), encoding="utf-8")

    done = command("run", "study.toml", *SHAPES, "--quiet", "--plan", "plan.json")

    assert (done.returncode, done.stderr) == (0, "")
    trials = pd.read_parquet(command.run_dir.trials)
    assert {*zip(trials["padded_width"], trials["padded_depth"], strict=True)} == {(40, 5)}
    again = command("run", "study.toml", *SHAPES, "--quiet")
    assert again.returncode == 0  # and follows the recorded plan


@pytest.mark.slow
def test_a_lane_of_a_class_of_several_widths_is_reproduced_and_refit(command: CommandLine) -> None:
    import pandas as pd

    several = settings(
        "execution.lane_loop=map",
        "execution.costs=costs.json",
        "search.model.width.high=64",
        "search.model.width.low=8",
    )
    costs = {**shipped("cpu").as_dict(), "compile_width_s": 1e-6, "step_flop_s": 1e-6}
    text = json.dumps({"model": costs})
    (command.directory / "costs.json").write_text(text, encoding="utf-8")
    assert command("run", "study.toml", *SHAPES, *several, "--quiet").returncode == 0

    trials = pd.read_parquet(command.run_dir.trials)
    assert {*trials["class_id"].value_counts()} == {12}
    assert {*trials["run_widths"]} == {"16,32,64"}
    assert {*trials["padded_width"]} == {64}
    of_each_width = trials[trials["params_depth"] > 1].groupby("params_width")["trial_number"].min()
    assert len(of_each_width) >= 3
    for number in of_each_width.iloc[[0, -2]]:
        done = command("reproduce", str(command.run_dir.root), str(number), "--quiet")
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout.endswith("bit-equal\n")
    refitted = command("refit", str(command.run_dir.root), "--to", "refit", "--quiet")
    assert (refitted.returncode, refitted.stderr) == (0, "")


@pytest.mark.parametrize("content", ["", "{}", '{"forecast": {"costs": {}}}'])
def test_a_file_that_is_not_a_plan_is_refused(content: str, command: CommandLine) -> None:
    (command.directory / "plan.json").write_text(content, encoding="utf-8")

    done = command("run", "study.toml", *SHAPES, "--quiet", "--plan", "plan.json")

    assert done.returncode == 2
    assert "not a plan that this version can read" in done.stderr
    assert "plan STUDY --json" in done.stderr


def test_a_plan_of_another_study_is_refused(command: CommandLine) -> None:
    preview = planned(command, *settings("model.layer_norm=true"))
    (command.directory / "plan.json").write_text(json.dumps(preview), encoding="utf-8")

    done = command("run", "study.toml", *SHAPES, "--quiet", "--plan", "plan.json")

    assert done.returncode == 2
    assert "plan.json: study changed since it was written" in done.stderr


def test_constants_of_this_machine_change_the_plan(command: CommandLine) -> None:
    costs = shipped("cpu").as_dict()
    text = json.dumps({"model": {**costs, "compile_base_s": 1e-9, "compile_layer_s": 0.0}})
    (command.directory / "costs.json").write_text(text, encoding="utf-8")

    cheap = planned(command, *settings("execution.costs=costs.json"))

    assert len(cheap["lattice"]) > len(planned(command)["lattice"])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{}", "does not contain a cost model"),
        ('{"model": {"backend": "cpu"}}', "compile_base_s: missing"),
    ],
)
def test_invalid_constants_are_refused(content: str, words: str, command: CommandLine) -> None:
    (command.directory / "costs.json").write_text(content, encoding="utf-8")

    done = command("plan", "study.toml", *settings("execution.costs=costs.json"))

    assert done.returncode == 2
    assert words in done.stderr
    assert "execution.costs" in done.stderr


def test_status_shows_predicted_next_to_measured_times(command: CommandLine) -> None:
    assert command("run", "study.toml", *SHAPES, "--quiet").returncode == 0

    status = command.status()

    assert status["n_compiled"] >= 1
    assert status["predicted_train_s"] > 0
    assert status["predicted_compile_s"] > 0
    told = command("status").stdout
    assert "program" in told
    assert "predicted" in told


def test_calibrate_writes_constants_that_a_study_can_use(
    command: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from typer.testing import CliRunner

    from sweeper.cli import main
    from sweeper.preflight import calibrate
    from sweeper.preflight.calibrate import Case

    monkeypatch.setattr(calibrate, "cases", lambda: (Case(8, 1, 1),))
    monkeypatch.setattr(calibrate, "_TRAIN_S", 0.01)
    costs = tmp_path / "costs.json"

    costs.write_text("{}", encoding="utf-8")  # another file
    refused = CliRunner().invoke(main.app_for([]), ["calibrate", "-o", str(costs)])
    assert "already exists" in str(refused.exception)
    costs.unlink()
    done = CliRunner().invoke(main.app_for([]), ["calibrate", "-o", str(costs)])

    assert done.exit_code == 0
    assert "execution" in done.output
    planned(command, *settings(f"execution.costs={costs}"))


@pytest.mark.parametrize("strategy", ["exact", "process"])
def test_predictions_follow_a_forced_strategy(strategy: str, command: CommandLine) -> None:
    forced = planned(command, *settings(f"execution.strategy={strategy}", "execution.workers=1"))

    assert forced["lattice"] == []
    assert forced["predicted"]["total_s"] == forced["predicted"]["exact_total_s"]


def test_plan_shows_the_branches_of_a_switch_class(command: CommandLine) -> None:
    forced = settings("execution.strategy=switch")

    preview = planned(command, *forced)
    told = command("plan", "study.toml", *SHAPES, *forced).stdout

    (program,) = preview["switch"]
    sizes = {(own["model.depth"], own["model.width"]) for own in program["branches"]}
    assert len(program["branches"]) == len(sizes) == 12  # in the whole space
    assert (program["devices"], program["lanes_per_device"]) == (1, 4)
    assert preview["lattice"] == []
    assert {entry["setting"]: entry["splits_buckets"] for entry in preview["space"]} == {
        "optimizer.lr": "no",
        "train.epochs": "no",
        "model.width": "branches",
        "model.depth": "branches",
    }
    predicted = preview["predicted"]
    at_work_s = predicted["compile_s"] + predicted["train_s"]
    assert predicted["total_s"] == pytest.approx(shipped("cpu").start_s + at_work_s)
    assert all(bucket["memory_bytes"] > 0 for bucket in preview["first_round"]["buckets"])
    assert "takes no less time than" in preview["notes"][0]
    for words in ("a different one on each device", "depth 3, width 32", "4 to 32"):
        assert words in told


def test_plan_says_that_user_defined_models_are_never_padded(command: CommandLine) -> None:
    (command.directory / "nets.py").write_text(
        "import equinox as eqx\n\n\n"
        "def build(in_size, out_size, depth, width, *, key):\n"
        "    return eqx.nn.MLP(in_size, out_size, width, depth, key=key)\n",
        encoding="utf-8",
    )
    own = settings("model.kind=python", "model.function=nets:build")

    (told,) = planned(command, *own)["notes"]

    assert "user-defined models are never padded" in told
    shown = command("plan", "study.toml", *SHAPES, *own).stdout
    assert "the cost model covers MLPs and TabMs with hidden layers" in shown
    assert "compiles a program per structure" in shown
    assert "about 0.0 s" not in shown


def test_plan_says_that_columns_reveal_the_target_together(command: CommandLine) -> None:
    """The target is the mean of two columns, neither of which is a copy of it."""
    draws = np.random.default_rng(0).normal(size=(400, 2))
    lines = [f"{a:.6f},{b:.6f},{(a + b) / 2:.6f}" for a, b in draws]
    rows = "\n".join(["reading,maths,score", *lines])
    (command.directory / "rows.csv").write_text(rows, encoding="utf-8")
    command("init", "--data", "rows.csv", "-o", "rows.toml")

    notes = json.loads(command("plan", "rows.toml", "--json").stdout)["notes"]
    assert [note for note in notes if note.startswith("ridge is almost exact: val_r2 0.9999")]
