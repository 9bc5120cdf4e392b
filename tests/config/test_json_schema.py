"""The JSON Schema of study files accepts what `load` accepts, and finds what an editor can."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from sweeper.config import parse
from sweeper.config.json_schema import DIALECT, kinds_of, study_schema
from sweeper.config.tables import TABLES, UNDER_NAMES
from tests.command_line import STUDY, CommandLine
from tests.config.conftest import VALID
from tests.config.schema_checker import faults

ROOT = Path(__file__).parents[2]
STUDIES = sorted((ROOT / "studies").glob("*.toml"))
SCHEMA = study_schema()
OWN_OPTIMIZER = 'name = "moves:gentle"\nbeta = 0.9'
COSINE = VALID.replace("lr = 1e-3", 'lr = 1e-3\nschedule.name = "cosine"')
NESTED = '{} = {{ type = "float", low = 0.0, high = 0.5 }}\n'
OWN_MODEL = 'kind = "python"\nfunction = "nets:build"\nlayers = 3'


def said(text: str) -> list[str]:
    return list(faults(tomllib.loads(text), SCHEMA))


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.name)
def test_each_study_of_the_project_is_valid(path: Path) -> None:
    assert said(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.name)
def test_the_line_that_names_the_schema_is_ignored(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    plain, lined = (parse(t, path) for t in (text, f"#:schema ./study.schema.json\n{text}"))
    assert plain.canonical() == lined.canonical()
    for key in ("study.metric", "search.model.depth", "results.keep_models"):
        line = plain.source.line(key)
        assert line is not None
        assert lined.source.line(key) == line + 1


@pytest.mark.parametrize(
    "text",
    [
        VALID,
        STUDY,
        VALID.replace('kind = "mlp"\n', ""),
        VALID.replace("depth = 1\n", ""),
        VALID.replace('kind = "mlp"\ndepth = 1\nwidth = 8', OWN_MODEL),
        VALID.replace('kind = "mlp"', OWN_MODEL)
        + 'model.kind = { type = "categorical", choices = ["mlp", "python"] }\n',
        VALID.replace("model.depth =", '"model.depth" ='),
        VALID.replace('name = "iris"', 'name = "iris"\nsplit.val = 0.5'),
        VALID + '[execution]\nthreads = 0\nworkers = "auto"\n',
        VALID + 'model.width = { same_as = "model.depth" }\n',
        VALID.replace('name = "adamw"', OWN_OPTIMIZER),
        VALID.replace('name = "adamw"', OWN_OPTIMIZER)
        + 'optimizer.beta = { type = "float", low = 0.5, high = 0.9 }\n'
        'optimizer.gamma = { same_as = "optimizer.beta" }\n',
        VALID.replace('name = "adamw"', "")
        + 'optimizer.name = { type = "categorical", choices = ["adam", "sgd"] }\n',
        VALID
        + 'optimizer.schedule.name = { type = "categorical", choices = ["constant", "cosine"] }\n',
        COSINE + NESTED.format("optimizer.schedule.end"),
        COSINE + NESTED.format('"optimizer.schedule.end"'),
        COSINE.replace(
            "[search]", "[search.optimizer]\n" + NESTED.format('"schedule.end"') + "[search]"
        ).replace("optimizer.lr =", "# optimizer.lr ="),
    ],
)
def test_studies_that_load_match_the_schema(text: str) -> None:
    parse(text, Path("study.toml"))
    assert said(text) == []


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("version = 1", "version = 2", ".version: const"),
        ("n_trials = 8", "n_trials = 0", ".study.n_trials: minimum"),
        ("n_trials = 8", "", ".study.n_trials: required"),
        ("n_trials = 8", 'n_trials = "8"', ".study.n_trials: type"),
        ('"minimize"', '"minimise"', ".study.direction: anyOf"),
        ('source = "sklearn"', 'source = "sklaern"', ".data: anyOf"),
        ('name = "iris"', "", ".data: anyOf"),
        ("width = 8", "widht = 8", ".model: anyOf"),
        ("lr = 1e-3", "lr = -1", ".optimizer: anyOf"),
        ("lr = 1e-3", 'lr = 1e-3\ndecay.linear = "yes"', ".optimizer: anyOf"),
        ("epochs = 4", "epochs = 4\nlr = 1", ".train.lr: not allowed"),
        ("[search]", "[serach]", ".serach: not allowed"),
        ("high = 3 }", "high = 3, hihg = 3 }", ".search.model.depth: anyOf"),
        ("high = 3 }", "high = 1001 }", ".search.model.depth: anyOf"),
        ('type = "float"', 'type = "flaot"', ".search.optimizer.lr: anyOf"),
        ("optimizer.lr =", "optimizer.rl =", ".search.optimizer.rl: not allowed"),
        ('"adamw"', '"nets:"', ".optimizer: anyOf"),
        ("high = 3 }", "high = 3 }\nmodel.width = { same_as = 1 }", ".search.model.width: anyOf"),
        (
            "high = 3 }",
            'high = 3 }\nmodel.width = { same_as = "model.depth", low = 1 }',
            ".search.model.width: anyOf",
        ),
        (
            'name = "adamw"\nlr = 1e-3\n\n[train]\nloss = "cross_entropy"\nmetrics = ["accuracy"]\n'
            "epochs = 4\nbatch_size = 16\n\n[search]\n",
            'lr = 1e-3\n[train]\nloss = "cross_entropy"\nepochs = 4\nbatch_size = 16\n[search]\n'
            'optimizer.name = { type = "categorical", choices = ["adam", "sgd"] }\n'
            'optimizer.nonsuch = { type = "categorical", choices = [1] }\n',
            ".search.optimizer.nonsuch: not allowed",
        ),
        (
            'kind = "mlp"\ndepth = 1\nwidth = 8',
            'kind = "python"\nfunction = "nets:build"\ndropout = 1.0\n[search.model.kind]\n'
            'type = "categorical"\nchoices = ["mlp", "python"]',
            ".model.dropout: exclusiveMaximum",
        ),
        (
            "high = 3 }",
            'high = 3 }\noptimizer.schedule.ned = { type = "float", low = 0, high = 1 }',
            ".search.optimizer.schedule.ned: not allowed",
        ),
        (
            "high = 3 }",
            'high = 3 }\noptimizer.schedule.end = { type = "float", low = 0, high = 2 }',
            ".search.optimizer.schedule.end: anyOf",
        ),
        (
            "high = 3 }",
            'high = 3 }\ntrain.early_stop.metric = { type = "categorical", choices = ["a"] }',
            ".search.train.early_stop.metric: not allowed",
        ),
        (
            "high = 3 }",
            'high = 3 }\noptimizer.decay.linear = { type = "categorical", choices = [true] }',
            ".search.optimizer.decay: not allowed",
        ),
        (
            'kind = "mlp"\ndepth = 1\nwidth = 8',
            f'{OWN_MODEL}\n[search.model.function]\ntype = "categorical"\nchoices = ["nets:build"]',
            ".search.model.function: not allowed",
        ),
    ],
)
def test_schema_errors_point_to_the_setting(old: str, new: str, expected: str) -> None:
    assert old in VALID
    assert expected in said(VALID.replace(old, new))


def settings(schema: dict[str, Any], path: str) -> list[tuple[str, dict[str, Any]]]:
    """The schema of each setting in that of a table, also under user-chosen names."""
    found = []
    if "properties" not in schema:
        inner = forms_of(schema["additionalProperties"])
        return [setting for form in inner for setting in settings(form, f"{path}.NAME")]
    for name, inner in schema["properties"].items():
        is_table = "properties" in inner or "properties" in (
            inner.get("additionalProperties") or {}
        )
        found += settings(inner, f"{path}.{name}") if is_table else [(f"{path}.{name}", inner)]
    return found


def forms_of(schema: dict[str, Any]) -> list[dict[str, Any]]:
    """The schemas of the kinds of a table."""
    if "if" in schema:
        return [schema["then"], *forms_of(schema["else"])]
    return schema.get("anyOf", [schema])


@pytest.mark.parametrize("name", TABLES)
def test_every_setting_has_a_type_and_a_description(name: str) -> None:
    forms = forms_of(SCHEMA["properties"][name])
    assert len(forms) == len(kinds_of(name)) + (name in UNDER_NAMES)
    for table in forms:
        for key, schema in settings(table, name):
            assert schema.keys() & {"type", "const", "enum", "anyOf"}, key
            assert schema.get("description"), key


def test_commands_print_the_schemas(command: CommandLine) -> None:
    shown = command("schema", "study")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert json.loads(shown.stdout) == json.loads(json.dumps(SCHEMA))
    assert SCHEMA["$schema"] == DIALECT == "https://json-schema.org/draft/2020-12/schema"

    command.write()
    tables = json.loads(command("schema", "results").stdout)["tables"]
    own = json.loads(command("schema", "results", "study.toml").stdout)["tables"]
    assert [name for name in tables if tables[name] == own[name]] == [
        "metrics/",
        "buckets.parquet",
        "spans.parquet",
        "importance.parquet",
    ]
    names, own_names = (
        [column["name"] for column in found["trials.parquet"]] for found in (tables, own)
    )
    assert [n for n in names if n not in own_names] == [
        *("value_<i>", "params_<name>", "final_<metric>", "test_<metric>", "feasible"),
        *("padded_parts", "test_<metric>_std", "fixed_start"),
    ]
    assert [n for n in own_names if n not in names] == [
        *("params_lr", "params_epochs", "final_train_loss", "final_val_loss", "test_loss")
    ]
    (state,) = (column for column in tables["trials.parquet"] if column["name"] == "state")
    assert state == {
        "name": "state",
        "type": "string",
        "null": False,
        "deterministic": True,
        "unit": None,
        "meaning": "COMPLETE, PRUNED or FAIL",
    }
