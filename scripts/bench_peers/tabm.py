"""TabM with the defaults of pytabkit (Gorishniy et al. 2024): one model, no search."""

from __future__ import annotations

from pytabkit import TabM_D_Classifier, TabM_D_Regressor
from realmlp import train

if __name__ == "__main__":
    train(TabM_D_Regressor, TabM_D_Classifier)
