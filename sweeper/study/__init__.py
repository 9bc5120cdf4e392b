"""Ask and tell: the Optuna study of a sweep. Optuna lives here and nowhere else."""

from sweeper.study.ask_tell import PastTrial, Study
from sweeper.study.options import check, n_proposals, rungs

__all__ = ["PastTrial", "Study", "check", "n_proposals", "rungs"]
