"""The tables of the guide on benchmarks are those of the figures that scripts have recorded."""

from __future__ import annotations

import json
import runpy
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from tests.documents import ROOT

SCRIPTS = {
    "bench_target": "target",
    "bench_winner": "winner",
    "bench_pruning": "pruning",
    "replay_ensembles": "ensembles",
}


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, Any]]:
    monkeypatch.syspath_prepend(str(ROOT / "scripts"))
    return {name: runpy.run_path(str(ROOT / "scripts" / name)) for name in SCRIPTS}


def test_tables_in_the_guide_are_those_of_recorded_figures(
    scripts: dict[str, dict[str, Any]],
) -> None:
    from bench_peers.guide import text_of  # pyright: ignore[reportMissingImports]

    guide = (ROOT / "sweeper" / "guide" / "benchmarks.md").read_text(encoding="utf-8")
    for name, part in SCRIPTS.items():
        script = scripts[name]
        known = json.loads(script["FIGURES"].read_text(encoding="utf-8"))
        lines: Iterable[str] = script["report"](script.get("recorded", lambda of=known: of)())
        begin, end = f"<!-- {part}: written by scripts/{name} -->\n", f"<!-- {part} end -->\n"
        written = guide.partition(begin)[2].partition(end)[0]
        assert written == text_of(lines), name


def test_a_part_of_a_guide_is_replaced(
    scripts: dict[str, dict[str, Any]], tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bench_peers import guide  # pyright: ignore[reportMissingImports]

    monkeypatch.setattr(guide, "GUIDES", tmp_path)
    text = "above\n<!-- a: written by scripts/b -->\n{}<!-- a end -->\nbelow\n"
    (tmp_path / "c.md").write_text(text.format("old\n"), encoding="utf-8")
    guide.write_guide("a", "b", ["first", "second"], "c")
    assert (tmp_path / "c.md").read_text(encoding="utf-8") == text.format("first\nsecond\n")
    with pytest.raises(AssertionError, match="no part 'd'"):
        guide.write_guide("d", "b", [], "c")


def test_ways_to_average_choose_the_models_that_they_say(
    scripts: dict[str, dict[str, Any]],
) -> None:
    ways = scripts["replay_ensembles"]["WAYS"]
    y = np.linspace(-1, 1, 40)[:, None]
    errors = np.array([0.1, -0.2, 0.6, 3.0])  # the mean of the first two is the best of pairs
    predictions = np.stack([y + error for error in errors])

    def score(of_models: Any, of_rows: Any) -> Any:
        squares = ((of_models - of_rows) ** 2).mean(axis=(1, 2))
        return np.stack([-squares, np.zeros(len(squares))], axis=1)

    chosen = {name: way(predictions, y, score) for name, way in ways.items()}
    assert chosen["all kept"] == [0, 1, 2, 3]
    assert chosen["the best 3"] == [0, 1, 2]
    exact = np.mean(errors[chosen["selected, as `ensemble` does"]])
    assert exact == pytest.approx(0, abs=1e-9)
    assert chosen["selected after the best few"][:2] == [0, 1]
    assert len(chosen["selected from halves of the models"]) > 20


def test_the_search_space_of_bench_pruning_is_a_study(
    scripts: dict[str, dict[str, Any]], tmp_path: Any
) -> None:
    import sweeper

    study = tmp_path / "space.toml"
    script = scripts["bench_pruning"]
    study.write_text(script["STUDY"].format(path="housing.parquet"), encoding="utf-8")
    config = sweeper.load_study(study, [script["HALVING"]])
    assert (config.study.n_trials, config.study.pruner.name) == (100, "halving")
    assert {*config.search} == {
        *("model.depth", "model.width", "model.dropout"),
        *("optimizer.lr", "optimizer.weight_decay"),
    }
