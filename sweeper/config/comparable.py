"""Why the models of a study cannot be averaged into an ensemble, or compared with simple models."""

from __future__ import annotations

from sweeper.config.coupled import CoupledTable
from sweeper.config.kinds import is_function
from sweeper.config.study_config import StudyConfig
from sweeper.config.train import SupervisedTable, UserProgramTable, column_of


def not_averaged(config: StudyConfig) -> str:
    """Why the settings allow no ensemble of trials; empty if they do.

    Whether there are enough trials and validation rows is only known after training.
    """
    train, (metric, *others) = config.train, config.study.objectives
    if not isinstance(train, SupervisedTable):
        return f'predictions of train.program = "{train.program}" cannot be averaged'
    if others:
        return "an ensemble is selected by one metric, and the study has several objectives"
    name = metric.removeprefix("val_")
    if metric == name or name not in {"loss", *map(column_of, train.metrics)}:
        return f"{metric} is not measured on validation rows, which select an ensemble"
    if name not in {"loss", *train.metrics}:
        return f"{metric} is user-defined, so means may have another meaning"
    if name == "loss" and config.entry("train.huber_delta") is not None:
        return "val_loss depends on train.huber_delta, which differs between trials"
    return not_comparable(config)


def not_comparable(config: StudyConfig) -> str:
    """Why simple models cannot be compared with the trials of a study; empty if they can.

    Simple models predict the target, and trials must predict the same, on rows unseen by both.
    """
    train = config.train
    if isinstance(train, CoupledTable) and train.target is None:
        return f'train.program = "{train.program}" has no target that they could predict'
    if isinstance(train, CoupledTable):
        return f"the objective {train.objective} is user-defined, so outputs may mean anything"
    if isinstance(train, UserProgramTable):
        return f"the program {train.program} is user-defined, so outputs may mean anything"
    if is_function(train.loss):
        return f"the loss {train.loss} is user-defined, so outputs may mean anything"
    if config.data.split.train_on != "train":
        return "trials train on rows that they are measured on"
    if config.trial is not None:
        return "the study repeats one trial"
    return ""
