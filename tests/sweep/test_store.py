"""Files next to the ledger that nothing refers to are removed, even if others remove them too."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from sweeper.config import parse
from sweeper.programs.build import Programs
from sweeper.programs.data_spec import data_spec
from sweeper.rundir import RunDir
from sweeper.sweep.store import RunStore
from tests.in_process import prepared
from tests.small_studies import DIGITS

FILES = 500


def test_files_that_another_process_removes_meanwhile_are_accepted(tmp_path: Path) -> None:
    """For example a worker of a cluster, which renames its file, or a user who cleans up."""
    run_dir = RunDir(tmp_path)
    run_dir.make()
    config = parse(DIGITS, Path("study.toml"))
    data = prepared(config)
    store = RunStore(run_dir, config, Programs(data_spec(config, data)), data.digest)
    names = [f"r1-b{index}.safetensors" for index in range(FILES)]
    for name in names:
        (run_dir.checkpoints / name).touch()
    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(store.tidy, {names[0]}, set[int]()) for _ in range(2)]:
            done.result()
    assert [path.name for path in run_dir.checkpoints.iterdir()] == [names[0]]
