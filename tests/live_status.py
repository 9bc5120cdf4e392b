"""The status of a study in its first round, to be changed by tests."""

from __future__ import annotations

import os
import socket

from sweeper.results.status import Status

STATUS = Status(
    study="digits",
    run_id="r",
    pid=os.getpid(),
    host=socket.gethostname(),
    state="running",
    started_at=1.5,
    updated_at=2.5,
    round=1,
    n_trials=20,
    counts={"RUNNING": 17, "WAITING": 0, "COMPLETE": 3, "PRUNED": 0, "FAIL": 0},
    best={"trial_number": 2, "value": 0.5, "params": {"depth": 2, "[red]": "[/]"}},
    metric="val_accuracy",
    direction="maximize",
    trials_per_minute=30.0,
    eta_s=34.0,
    running=[{"bucket": 1, "place": "thread 0", "class_id": "c", "trials": [4, 5]}],
    compile_s=1.0,
    train_s=2.0,
    predicted_compile_s=9.5,
    predicted_train_s=2.5,
    n_compiled=3,
    n_cache_hits=1,
    spent_s={},
    committed_at=None,
)
