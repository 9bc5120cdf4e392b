"""Advice for a study in a mapping, as an estimator gives it."""

from __future__ import annotations

import pytest

from sweeper.config.toml import as_python
from sweeper.templates.arguments import with_arguments


@pytest.mark.parametrize(
    ("of_study_file", "of_estimator"),
    [
        (
            'write data.class_weights = "balanced", or study.metric = "val_auroc" (with '
            'study.direction = "maximize" and train.metrics = ["accuracy", "auroc"])',
            "write settings={'data.class_weights': 'balanced'}, or metric='auroc'",
        ),
        ("or more study.n_trials", "or more n_trials"),
        (
            "results.ensemble = 20 changes nothing; write results.keep_models = 20",
            "ensemble=20 changes nothing; write settings={'results.keep_models': 20}",
        ),
        (
            'write search.optimizer.lr = { type = "float", low = 0.1, high = 1.0 }',
            "write search={'optimizer.lr': {'type': 'float', 'low': 0.1, 'high': 1.0}}",
        ),
        (
            "fix the DataFrame or add 'd' to data.drop",
            "fix the DataFrame or pass settings={'data.drop': ['d']}",
        ),
        (
            "column 'id' counts the rows: add it to data.drop, unless the model should learn",
            "column 'id' counts the rows: pass settings={'data.drop': ['id']}, unless the model "
            "should learn",
        ),
        (
            "add it to data.categorical_columns, or to data.drop",
            "add it to settings['data.categorical_columns'], or to settings['data.drop']",
        ),
        ('write target_transform = "none"', "write settings={'data.target_transform': 'none'}"),
        (
            'write missing_target = "drop" in [data], or { name = "tpe", seed = 1 }',
            "write settings={'data.missing_target': 'drop'}, or {'name': 'tpe', 'seed': 1}",
        ),
        (
            'study.sampler.name = "grid" tries each, study.replicates trains each with several',
            "settings={'study.sampler.name': 'grid'} tries each, settings['study.replicates'] "
            "trains each with several",
        ),
        ("ranges of optimizer.lr, more train.epochs", "ranges of optimizer.lr, more epochs"),
        (
            "column 'drop' has the target 'target': add it to data.drop; column 'drop': 'a'",
            "column 'drop' has the target 'target': pass settings={'data.drop': ['drop']}; column "
            "'drop': 'a'",
        ),
    ],
)
def test_advice_names_the_arguments_of_the_estimator(of_study_file: str, of_estimator: str) -> None:
    assert with_arguments(as_python(of_study_file)) == of_estimator
