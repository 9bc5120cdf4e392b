"""The line of a setting is found in every notation of TOML."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeper.config.toml import Source, as_python

TEXT = '''\
top = 1

# [not.a.table]
[study]
name = "a # b"      # sampler = 1
note = """
seed = 1
"quoted" = 2
"""
path = 'C:\\'
seed = 3
sampler.name = "tpe"

[ study . "pruner" ]
name = "none"

[data]
drop = [
  "a",   # one
  "b = 1",
  { deep = 1 },
]
split = { val = 0.2, test = [1, 2], inner = { x = 1 }, stratify = true }

[search]
model.depth = { type = "int", low = 1 }
"optimizer.lr" = { type = "float" }

[[phase]]
first = 1
'''


@pytest.mark.parametrize(
    ("key", "line"),
    [
        ("top", 1),
        ("study", 4),
        ("study.name", 5),
        ("study.note", 6),
        ("study.path", 10),
        ("study.seed", 11),
        ("study.sampler", 12),
        ("study.sampler.name", 12),
        ("study.pruner", 14),
        ("study.pruner.name", 15),
        ("data.drop", 18),
        ("data.drop.deep", 21),
        ("data.split.val", 23),
        ("data.split.inner.x", 23),
        ("data.split.stratify", 23),
        ("search.model", 26),
        ("search.model.depth.low", 26),
        ("search.optimizer.lr.type", 27),
        ("phase.first", 30),
    ],
)
def test_a_setting_is_found_on_its_line(key: str, line: int) -> None:
    assert Source(Path("study.toml"), TEXT).line(key) == line


@pytest.mark.parametrize(
    ("key", "line"), [("study.metric", 4), ("data.split.vla", 23), ("model.depth", None)]
)
def test_a_missing_setting_is_found_at_the_table_around_it(key: str, line: int | None) -> None:
    assert Source(Path("study.toml"), TEXT).line(key) == line


def test_a_table_without_a_header_is_found_at_that_of_a_table_in_it() -> None:
    source = Source(Path("study.toml"), "[study.sampler]\n[data.split]\n\n[study]\n[search.a.b]\n")
    lines = {
        key: source.line(key) for key in ("study", "data", "data.source", "search", "search.a")
    }
    assert lines == {"study": 4, "data": 2, "data.source": 2, "search": 5, "search.a": 5}


def test_windows_line_ends_count_once() -> None:
    assert Source(Path("study.toml"), TEXT.replace("\n", "\r\n")).line("phase.first") == 30


def test_a_problem_is_in_a_line_of_a_file_or_on_the_command_line() -> None:
    source = Source(Path("runs/study.toml"), TEXT, overrides=("data.split={}",))
    assert source.where("study.seed") == "study.toml:11"
    assert source.where("data.split.val") == "--set"
    assert source.where("model.depth") == "study.toml"


@pytest.mark.parametrize(
    ("toml", "python"),
    [
        ('{ type = "int", low = 1, high = 4 }', "{'type': 'int', 'low': 1, 'high': 4}"),
        ("write e.g. { weight = true, ... }", "write e.g. {'weight': True, ...}"),
        ('write data.class_weights = "balanced"', "write 'data.class_weights': 'balanced'"),
        ('metrics = ["f1", "auroc"] or []', "'metrics': ['f1', 'auroc'] or []"),
        ("write lr = ..., or loss = 'mse'", "write 'lr': ..., or 'loss': 'mse'"),
        ('use pandas: df = pd.read_csv("x.csv")', 'use pandas: df = pd.read_csv("x.csv")'),
        ("write parallel = -1.5", "write 'parallel': -1.5"),
    ],
)
def test_settings_are_written_as_in_a_mapping(toml: str, python: str) -> None:
    assert as_python(toml) == python
