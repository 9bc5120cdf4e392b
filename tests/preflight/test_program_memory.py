"""The memory that a plan shows is close to what the compiler says."""

from __future__ import annotations

from pathlib import Path

import pytest

from sweeper.config import parse
from sweeper.preflight.program_memory import memory_bytes
from sweeper.scheduler.capacity import LaneLoop
from sweeper.trial import Scalar
from tests.programs.conftest import Bench, spec
from tests.small_studies import DIGITS, bent

KINDS = "search={model={kind={type='categorical',choices=['mlp','tabm']}}}"
BATCHES = "search={train={batch_size={type='categorical',choices=[16,1024]}}}"
FOLDS = ("study.folds=5", "data.split={test=0.1,stratify=true}", "train.epochs=100")
TABM = ("model={kind='tabm',depth=1,width=16}", "train.batch_size=512")
EMBEDDED = "model={numbers='plr',depth=1,width=16}"


@pytest.mark.parametrize(
    ("overrides", "params", "lane_loop", "capacity"),
    [
        ((KINDS,), {"kind": "tabm"}, "map", 4),
        ((BATCHES,), {"batch_size": 1024}, "map", 4),
        (("search={}", "model={depth=1,width=8}", "train.batch_size=1024"), {}, "vmap", 32),
        (("search={}", *FOLDS), {}, "map", 5),
        (("search={}", "model.depth=0"), {}, "map", 4),
        (("search={}", *TABM), {}, "map", 4),
        (("search={}", *TABM), {}, "vmap", 4),
        (("search={}", EMBEDDED, "train.batch_size=512"), {}, "map", 4),
        (("search={}", "train.epochs=500"), {}, "map", 4),
        (("search={}", "train.epochs=500"), {}, "vmap", 16),
    ],
)
def test_the_memory_of_a_program_is_within_a_factor_of_2(
    overrides: tuple[str, ...],
    params: dict[str, Scalar],
    lane_loop: LaneLoop,
    capacity: int,
    tmp_path: Path,
) -> None:
    loop = f"execution.lane_loop='{lane_loop}'"
    config = parse(bent(DIGITS), Path("study.toml"), [loop, *overrides])
    study = Bench(config, tmp_path)
    work = study.work([spec(0, **params)], lane_loop=lane_loop, capacity=capacity)
    needed = study.trainer.classes.compiled(work.program, params).memory_bytes
    found = memory_bytes(config, study.data, work.program, capacity)
    assert found is not None
    assert needed is not None
    assert needed / 2 < found < needed * 2


def test_the_memory_of_models_without_a_formula_is_not_known(tmp_path: Path) -> None:
    (tmp_path / "nets.py").write_text("def build(in_size, out_size, *, key): ...\n", "utf-8")
    own = "model={kind='python',function='nets:build'}"
    config = parse(bent(DIGITS), tmp_path / "study.toml", ["search={}", own])
    study = Bench(config, tmp_path)
    program = study.work([spec(0)]).program
    assert memory_bytes(config, study.data, program, 4) is None
