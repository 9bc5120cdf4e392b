"""The study determines the precision of matrix products, here and in workers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.config.conftest import VALID
from tests.forking import run_code

PRODUCTS = """\
import os, sys
from pathlib import Path
from sweeper.config import parse

config = parse(Path("study.toml").read_text(), Path("study.toml"), sys.argv[2:])
if sys.argv[1] == "here":
    from sweeper.executors.claims import claim_devices
    claim_devices(config)
else:
    from sweeper.executors import worker
    from sweeper.data.prepare import prepare
    prepare(config).save(Path("data.npz"))
    paths = Path("data.npz"), Path()
    worker.start(worker.WorkerSetup(config, *paths, cpus=(), parent=os.getppid()))
import jax, jax.numpy as jnp
text = jax.jit(jnp.matmul).lower(jnp.ones((2, 2)), jnp.ones((2, 2))).as_text()
print(*sorted({word for word in ("DEFAULT", "HIGHEST", "HIGH,") if word in text}))
"""


@pytest.mark.parametrize(
    ("place", "precision", "expected"),
    [
        ("here", None, "DEFAULT"),
        ("here", "high", "HIGH,"),
        ("here", "highest", "HIGHEST"),
        ("worker", "highest", "HIGHEST"),
        pytest.param("worker", None, "DEFAULT", marks=pytest.mark.slow),
        pytest.param("worker", "high", "HIGH,", marks=pytest.mark.slow),
    ],
)
def test_products_have_the_precision_that_the_study_sets(
    precision: str | None, expected: str, place: str, tmp_path: Path
) -> None:
    (tmp_path / "study.toml").write_text(VALID, encoding="utf-8")
    given = [] if precision is None else [f"execution.matmul_precision={precision}"]

    done = run_code(PRODUCTS, place, *given, directory=tmp_path)

    assert (done.stdout.strip(), done.returncode) == (expected, 0), done.stderr
