"""`guide` lists the guides, shows one, and explains a setting."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from rich.console import Console

from sweeper.cli.commands.guide import TOPICS, _explain, _rendered, read_guide
from sweeper.config.study import PRUNERS, SAMPLERS
from sweeper.errors import StudyError
from sweeper.study.options import OPTIONS
from tests.command_line import CommandLine
from tests.documents import GUIDES, headings
from tests.processes import environment_of, shown_on_terminal


def rendered(text: str, width: int) -> str:
    """A guide on a terminal of this width, without styles."""
    said = io.StringIO()
    Console(width=width, file=said).print(_rendered(text, styled=False))
    return said.getvalue()


def letters(text: str) -> Counter[str]:
    """How often each character occurs, without spaces and lines."""
    counted = Counter(text)
    return Counter({one: n for one, n in counted.items() if not one.isspace() and one not in "─━═"})


def test_without_a_topic_the_guides_are_listed_one_a_line(command: CommandLine) -> None:
    done = command("guide")
    lines = [line.split() for line in done.stdout.splitlines()]
    assert (done.returncode, done.stderr) == (0, "")
    assert [line[0] for line in lines] == [*TOPICS]
    assert all(len(line) > 4 for line in lines)


@pytest.mark.parametrize("topic", TOPICS)
def test_a_guide_is_rendered_whole(topic: str, command: CommandLine) -> None:
    done = command("guide", topic)
    said = " ".join(done.stdout.split())
    assert (done.returncode, done.stderr) == (0, "")
    assert all(heading in said for heading in headings(GUIDES[topic]))
    assert not re.search(r"^#+ |<!--|\]\((#|[\w./-]+\.md)", done.stdout, re.MULTILINE)
    assert max(map(len, done.stdout.splitlines())) <= 100


def test_a_word_that_is_not_a_guide_leads_to_those_with_a_section_about_it() -> None:
    found = "no guide is named 'optuna'; read `search` (Trials from Optuna) or `results` (Optuna's"
    with pytest.raises(StudyError, match=re.escape(found)):
        read_guide("optuna")
    for other in ("nothing of this", "", " "):
        with pytest.raises(StudyError, match=r"no guide is named"):
            read_guide(other)


def test_a_link_to_another_guide_is_the_command_that_shows_it(command: CommandLine) -> None:
    said = " ".join(command("guide", "study-file").stdout.split())
    assert "All settings (`sweeper guide settings`) lists every setting" in said


@pytest.mark.parametrize(
    ("setting", "first", "lines"),
    [
        ("optimizer.b1", "optimizer.b1", 11),
        ("model.critic.width", "model.width", 5),
        ("model.trunk.input", "model.NAME.input", 5),
        ("search.model.width.low", "search.KEY.low", 5),
        ("schedule", "schedule.parallel", 11),
        ("min_delta", "train.early_stop.min_delta", 5),
        ("optimizer.decay.linear", "optimizer.decay.CLASS", 5),
        ("pruner", "study.pruner.name", 5),
    ],
)
def test_a_setting_is_explained(setting: str, first: str, lines: int, command: CommandLine) -> None:
    said = command("guide", "settings", setting).stdout.splitlines()
    assert said[0] == first
    assert [line.split()[0] for line in said[1:4]] == ["takes", "default", "example"]
    assert len(said) == lines


@pytest.mark.parametrize("topic", TOPICS)
def test_no_word_of_a_guide_is_cut_off(topic: str) -> None:
    """Also on a narrow terminal, where names in tables are folded."""
    whole = letters(rendered(GUIDES[topic], 10_000))
    for width in (60, 80, 100):
        assert letters(rendered(GUIDES[topic], width)) == whole


def test_a_meaning_keeps_its_quotes(command: CommandLine) -> None:
    said = command("guide", "settings", "results.dir").stdout
    assert said.endswith("default: `runs/<study.name>`\n")
    assert 'example  results.dir = "runs/digits"' in said


@pytest.mark.parametrize("table", ["study.sampler", "study.pruner"])
def test_options_of_samplers_and_pruners_are_explained(table: str) -> None:
    for name in SAMPLERS if table == "study.sampler" else PRUNERS:
        for key, option in OPTIONS[name].items():
            said = _explain("settings", f"{table}.{key}")
            (own,) = [part for part in said.split("\n\n") if f"an option of {name}" in part]
            assert own.startswith(f"{table}.{key}\n  takes    {option.wanted}\n  default  ")
            assert option.hint_for(option.example) is None
            assert f'{{ name = "{name}", {key} = ' in own
    assert _explain("settings", "multivariate") == _explain(
        "settings", "study.sampler.multivariate"
    )


def test_all_options_of_a_pruner_are_explained_by_its_name() -> None:
    said = _explain("settings", "halving").split("\n\n")
    keys = [part.partition("\n")[0] for part in said]
    assert keys == [f"study.pruner.{key}" for key in OPTIONS["halving"]]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["result"], "TOPIC: no guide is named 'result'; did you mean 'results'?"),
        (["xyz"], f"TOPIC: no guide is named 'xyz'; the guides are {', '.join(TOPICS)}"),
        (
            ["settings", "optimizer.lrr"],
            "SETTING: no setting is named 'optimizer.lrr'; did you mean 'optimizer.lr'?",
        ),
        (
            ["settings", "xyz"],
            "SETTING: no setting is named 'xyz'; `sweeper guide settings` lists them all",
        ),
        (
            ["settings", "edition"],
            "SETTING: no setting is named 'edition'; read `study-file` (Editions)",
        ),
        (
            ["results", "optimizer.lr"],
            "SETTING: guide 'results' lists no settings; write `sweeper guide settings "
            "optimizer.lr`",
        ),
    ],
)
def test_what_does_not_exist_is_refused(words: list[str], said: str, command: CommandLine) -> None:
    done = command("guide", *words)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"{said}\n")


def test_no_large_library_is_imported(tmp_path: Path) -> None:
    code = (
        "import sys; from sweeper.cli.main import command; command('guide', 'settings')\n"
        "print(sorted({'jax', 'optuna', 'pandas', 'pyarrow', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("streams", [("stdin", "stdout", "stderr"), ("stdin", "stdout")])
def test_a_terminal_gets_a_pager_and_colours(streams: tuple[str, ...], tmp_path: Path) -> None:
    environment = {**environment_of(tmp_path), "PAGER": "sed s/^/paged:/", "TERM": "xterm"}
    words = [sys.executable, "-m", "sweeper", "guide", "winner"]
    shown = shown_on_terminal(words, *streams, directory=tmp_path, environment=environment)
    assert shown.startswith(b"paged:")
    assert b"\x1b[1m" in shown
