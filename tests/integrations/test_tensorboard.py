"""Event files for TensorBoard have the numbers of the Parquet files, as float32."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from sweeper.cli.main import command
from sweeper.errors import SetupError
from sweeper.rundir import RunDir
from sweeper.trackers.log import connect
from sweeper.trackers.memory import TrackerLog
from sweeper.trackers.tracker import TrackerName
from tests.integrations import published

pytestmark = pytest.mark.integration


def scalars(directory: Path) -> dict[str, list[tuple[int, float]]]:
    """The values in a directory as TensorBoard reads them, as pairs of step and value, by tag."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.util.tensor_util import make_ndarray

    found = EventAccumulator(str(directory), size_guidance={"tensors": 0}).Reload()
    tags = [tag for tag in found.Tags()["tensors"] if not tag.startswith(("_", "study", "outcome"))]
    return {
        tag: [(it.step, make_ndarray(it.tensor_proto).item()) for it in found.Tensors(tag)]
        for tag in tags
    }


def rounded(curves: dict[str, list[tuple[int, float]]]) -> dict[str, list[tuple[int, float]]]:
    """The values as float32."""
    return {
        tag: [(step, float(np.float32(it))) for step, it in curve] for tag, curve in curves.items()
    }


def log(run_dir: RunDir, logdir: Path, *options: str) -> Path:
    """Log to a directory; returns that of the study."""
    command("log", str(run_dir.root), "--to", "tensorboard", "--uri", str(logdir), *options)
    key = json.loads(run_dir.trackers.read_text())["key"]
    return logdir / f"wine-{key[:6]}"


def test_the_best_trials_have_the_curves_and_outcomes_of_the_tables(
    run_dir: RunDir, tmp_path: Path
) -> None:
    root, rows = log(run_dir, tmp_path, "--top", "3"), published.rows(run_dir)
    chosen = published.best(run_dir, 3)
    assert sorted(path.name for path in root.glob("trial-*")) == [
        f"trial-{number:06d}" for number in sorted(chosen)
    ]
    for number in chosen:
        curves = published.curves(run_dir, number)
        last = max(step for curve in curves.values() for step, _ in curve)
        outcome = {n: [(last, it)] for n, it in published.outcome(rows[number]).items()}
        assert scalars(root / f"trial-{number:06d}") == rounded({**curves, **outcome})


def test_the_history_grows_without_repeating_points(run_dir: RunDir, tmp_path: Path) -> None:
    root = log(run_dir, tmp_path, "--top", "0")
    once = scalars(root)
    assert [it for _, it in once["val_loss"]] == [
        float(np.float32(it)) for it in published.history(run_dir)
    ]
    assert [step for step, _ in once["best_val_loss"]] == sorted(
        {step for step, _ in once["best_val_loss"]}
    )
    log(run_dir, tmp_path, "--all")
    log(run_dir, tmp_path, "--all")
    assert scalars(root) == once
    assert len([*root.glob("trial-*/*")]) == len(published.rows(run_dir))


def test_the_tab_of_hyperparameters_has_every_trial(run_dir: RunDir, tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.data_provider import MultiplexerDataProvider
    from tensorboard.backend.event_processing.plugin_event_multiplexer import EventMultiplexer
    from tensorboard.context import RequestContext
    from tensorboard.plugins.base_plugin import TBContext
    from tensorboard.plugins.hparams import api_pb2, backend_context, list_session_groups

    root, rows = log(run_dir, tmp_path, "--all"), published.rows(run_dir)
    multiplexer = EventMultiplexer().AddRunsFromDirectory(str(root)).Reload()
    provider = MultiplexerDataProvider(multiplexer, str(root))
    context = backend_context.Context(TBContext(data_provider=provider))
    experiment = context.experiment_from_metadata(
        RequestContext(), "", True, context.hparams_metadata(RequestContext(), ""), None
    )
    assert {info.name for info in experiment.hparam_infos} == {"lr", "epochs", "activation"}
    request = api_pb2.ListSessionGroupsRequest(
        start_index=0, slice_size=100, allowed_statuses=[*api_pb2.Status.values()]
    )
    groups = (
        list_session_groups.Handler(RequestContext(), context, "", request).run().session_groups
    )
    found = {
        int(group.name.split()[1]): {
            "lr": group.hparams["lr"].number_value,
            "epochs": group.hparams["epochs"].number_value,
            "activation": group.hparams["activation"].string_value,
        }
        for group in groups
    }
    assert found == {number: json.loads(row["params_json"]) for number, row in rows.items()}


def test_a_half_written_file_is_not_seen(run_dir: RunDir, tmp_path: Path) -> None:
    root = log(run_dir, tmp_path, "--top", "1")
    (trial,) = root.glob("trial-*")
    shutil.rmtree(trial)
    trial.mkdir()
    (trial / ".new-events.out..0").write_bytes(b"half")
    log(run_dir, tmp_path, "--top", "1")
    assert scalars(trial)["value"]


def test_a_directory_that_cannot_be_made_is_refused(run_dir: RunDir, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SetupError, match="--uri: the directory cannot be made"):
        log(run_dir, tmp_path / "file")


def test_the_name_of_a_study_names_no_other_directory(tmp_path: Path) -> None:
    tracker = connect(
        TrackerName.TENSORBOARD,
        str(tmp_path),
        None,
        "../a/b",
        TrackerLog(RunDir(tmp_path), "k", {}),
    )
    assert tracker._project == "-a-b"
