"""The command line from a user's view: commands, exit codes, messages."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path

import pytest

import sweeper
from sweeper.cli.commands.arguments import refuse_a_file
from sweeper.cli.commands.training import exit_code
from sweeper.cli.main import COMMANDS
from sweeper.errors import StudyError
from sweeper.process import DISTRIBUTION
from sweeper.results.status import Status, write_status
from sweeper.rundir import RunDir
from tests.command_line import STUDY, CommandLine
from tests.live_status import STATUS
from tests.processes import ROOT

ENDED = replace(
    STATUS,
    study="wine",
    host="elsewhere",
    state="finished",
    round=3,
    n_trials=4,
    counts={"RUNNING": 0, "WAITING": 0, "COMPLETE": 3, "PRUNED": 1, "FAIL": 0},
    best={"trial_number": 2, "value": 0.5, "params": {"depth": 2, "width": 16}},
    metric="val_loss",
    trials_per_minute=None,
    eta_s=None,
)


def _written_run(root: Path, status: Status = ENDED) -> RunDir:
    run_dir = RunDir(root)
    run_dir.make()
    write_status(run_dir, status)
    return run_dir


@pytest.mark.parametrize(
    ("state", "complete", "expected"),
    [
        ("finished", 3, 0),
        ("finished", 0, 1),
        ("failed", 3, 1),
        ("interrupted", 3, 130),
        ("interrupted", 0, 130),
    ],
)
def test_the_exit_code_says_how_the_study_ended(state: str, complete: int, expected: int) -> None:
    status = replace(ENDED, state=state, counts={"COMPLETE": complete, "FAIL": 1})
    assert exit_code(status) == expected


def test_status_shows_the_newest_run(command: CommandLine) -> None:
    _written_run(command.directory / "runs" / "wine", replace(ENDED, state="running"))
    done = command("status")
    lines = [line.rstrip() for line in done.stdout.splitlines()]
    assert (done.returncode, done.stderr) == (0, "")
    assert lines == [
        "study     wine (runs/wine)",
        "state     running, round 3",
        "trials    4 of 4 trials",
        "          3 complete, 1 pruned",
        "best      val_loss 0.5 (trial 2): depth=2, width=16",
        "compiled  3 programs in 1.0 s, 1 from the cache; predicted 9.5 s",
        "trained   2.0 s in all threads and workers; predicted 2.5 s",
        "bucket 1  trials 4, 5, thread 0",
    ]


def test_status_shows_no_times_of_rounds_before_one_is_committed(command: CommandLine) -> None:
    begun = replace(ENDED, state="running", round=0, n_compiled=0, compile_s=0.0, train_s=0.0)
    _written_run(command.directory / "runs" / "wine", begun)
    told = command("status").stdout
    assert "round 0" in told
    assert "compiled" not in told
    assert "trained" not in told


def test_status_in_json_is_the_status_file_and_its_directory(command: CommandLine) -> None:
    _written_run(command.directory / "wine")
    done = command("status", "wine", "--json")
    assert json.loads(done.stdout) == {"run_dir": "wine", **asdict(ENDED), "baseline": None}


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ((), 2, "Usage: sweeper"),
        (("sweep",), 2, "No such command 'sweep'"),
        (("run",), 2, "Missing argument 'STUDY'"),
        (("run", "there.toml", "--set"), 2, "--set"),
        *(
            ((name,), 3, "runs/: no study has been run here; name a run directory")
            for name in ("status", "best", "show", "list", "export", "report")
        ),
        (("delete", "there", "--yes"), 3, "there: it does not exist; name the run directory of a"),
        (("status", "[red]there[/red]"), 3, "[red]there[/red]: no study has been run here"),
    ],
)
def test_an_error_prints_its_message_and_sets_the_exit_code(
    arguments: tuple[str, ...], code: int, message: str, command: CommandLine
) -> None:
    done = command(*arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("words", "refused"),
    [
        (("stop", "--no-wait"), ["--no-wait"]),
        (("stop", "--no-wait", "--timeout", "1"), ["--no-wait", "--timeout"]),
        (("stop", "--trial", "3", "--no-wait", "--timeout", "1"), ["--timeout"]),
        (("enqueue", "--no-wait", "--timeout", "1"), ["--timeout"]),
        (("enqueue", "--no-wait", "--timeout", "60"), ["--timeout"]),
    ],
)
def test_options_without_effect_are_refused(words: tuple[str, ...], refused: list[str]) -> None:
    with pytest.raises(StudyError, match="has no effect with") as caught:
        sweeper.command(*words)
    assert [problem.key for problem in caught.value.problems] == refused


def test_status_of_a_study_file_names_its_run_directory(command: CommandLine) -> None:
    command.write()
    done = command("status", "study.toml")
    hint = "name the run directory of the study: runs/wine"
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"study.toml: a file, not a run directory; {hint}\n"


@pytest.mark.parametrize(
    ("name", "content", "meant"),
    [
        ("study.toml", b'[study]\nname = "a"\n[results]\ndir = "there/b"\n', ": there/b"),
        ("study.toml", b'[study]\nname = "a"\n[model]\ndepht = 1\n', ": runs/a"),
        ("study.toml", b"[study]\nname = 3\n[results]\ndir = []\n", ""),
        ("study.toml", b'study = "a"\n', ""),
        ("study.toml", b"[study\n", ""),
        ("rows.parquet", b"PAR1\xff", ""),
        ("runs/c/status.json", b"{}", ": runs/c"),
        ("runs/c/models/trial-000000.eqx", b"", ": runs/c"),
    ],
)
def test_a_file_instead_of_a_run_directory_is_refused_with_its_run_directory(
    name: str, content: bytes, meant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("runs/c/models").mkdir(parents=True)
    Path("runs/c/ledger.db").touch()
    Path(name).write_bytes(content)
    with pytest.raises(StudyError) as refused:
        refuse_a_file(Path(name))
    assert refused.value.problems[0].hint == f"name the run directory of the study{meant}"


def test_the_view_is_shown_before_what_is_slow_to_import(
    command: CommandLine, tmp_path_factory: pytest.TempPathFactory
) -> None:
    command.write()
    hiding = tmp_path_factory.mktemp("hiding")
    (hiding / "jax.py").write_text("raise ImportError('here the imports begin')\n")
    done = subprocess.run(
        [sys.executable, "-m", "sweeper", "run", "study.toml"],
        cwd=command.directory,
        env={**os.environ, "PYTHONPATH": f"{hiding}:{ROOT}", "FORCE_COLOR": "1"},
        capture_output=True,
        text=True,
    )
    before, imports, _ = done.stderr.partition("here the imports begin")
    assert imports
    assert "importing" in before.partition("Traceback")[0]


def test_version_is_printed(command: CommandLine) -> None:
    done = command("--version")
    assert (done.returncode, done.stdout) == (0, f"sweeper {version(DISTRIBUTION)}\n")


@pytest.mark.parametrize("words", [[], ["schema"]])
def test_the_list_of_commands_has_whole_sentences(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    sweeper.command(*words, "--help")
    lines = capsys.readouterr().out.partition("Commands:\n")[2].splitlines()
    assert max(map(len, lines)) <= 60
    sentences = re.split(r"\n  (?=\w)", "\n" + "\n".join(lines))[1:]
    assert len(sentences) == (2 if words else len(COMMANDS))
    assert all(sentence.endswith(".") and "..." not in sentence for sentence in sentences)


def test_public_names_are_imported_on_first_use() -> None:
    fetched = [getattr(sweeper, name).__name__ for name in sweeper.__all__]
    assert fetched == sweeper.__all__
    functions = ["command", "decay_mask", "load", "load_study", "open_results", "run"]
    assert [name for name in fetched if name.islower()] == functions
    with pytest.raises(AttributeError, match="no attribute 'launch'"):
        _ = sweeper.launch


def test_a_study_is_loaded_from_a_path_and_from_a_string(tmp_path: Path) -> None:
    path = tmp_path / "wine.toml"
    path.write_text(STUDY, encoding="utf-8")
    loaded = sweeper.load_study(str(path), ["study.seed=7"])
    assert (loaded.study.seed, sweeper.load_study(path).study.seed) == (7, 0)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["reprot"], "sweeper.command: no command 'reprot'; did you mean 'report'?"),
        (["x"], "sweeper.command: no command 'x'; command('--help') lists the commands"),
        (
            ["show", "--nope"],
            "sweeper.command: show: No such option: --nope; command('show', '--help') lists its "
            "arguments",
        ),
    ],
)
def test_wrong_words_in_python_are_an_error_of_sweeper(words: list[str], message: str) -> None:
    with pytest.raises(StudyError) as refused:
        sweeper.command(*words)
    assert str(refused.value) == message


@pytest.mark.parametrize(
    ("arguments", "option", "why"),
    [
        (("export", "DIR", "ensemble", "--member", "3"), "--member", "for an ensemble"),
        (("plan", "s.toml", "--decay", "--learn-from", "DIR"), "--learn-from", "with --decay"),
        (("trials", "DIR", "--csv", "--json"), "--json", "with --csv"),
        (("trials", "DIR", "--quote-formulas"), "--quote-formulas", "without --csv"),
        (("trials", "DIR", "--quote-formulas", "--json"), "--quote-formulas", "without --csv"),
    ],
)
def test_an_option_without_effect_says_why(
    arguments: tuple[str, ...], option: str, why: str
) -> None:
    with pytest.raises(StudyError, match=f"^{option}: has no effect {why}; remove it$"):
        sweeper.command(*arguments)


@pytest.mark.parametrize("trial", ["13", "best", "ensemble"])
def test_a_trial_after_the_ensemble_is_refused(trial: str) -> None:
    with pytest.raises(StudyError, match=f"^TRIAL: '{trial}' has no effect after 'ensemble'; "):
        sweeper.command("export", "ensemble", trial)


@pytest.mark.parametrize(
    ("command", "option"),
    [
        (("import-optuna", "sqlite:///study.db"), "--metric"),
        (("export-optuna", "DIR", "sqlite:///study.db"), "--name"),
    ],
)
def test_an_empty_name_is_refused(command: tuple[str, ...], option: str) -> None:
    with pytest.raises(StudyError, match=f"^{option}: the name is empty; "):
        sweeper.command(*command, option, "")
