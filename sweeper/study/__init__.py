"""Ask and tell: the Optuna study of a sweep. Only this package uses Optuna.

It is imported by `ask_tell` and the modules that it needs, by `importance`, and by modules that
read or write Optuna's own studies; the options of a study are checked without it.
"""

import sys
import warnings

if "ipykernel" in sys.modules:
    # Optuna imports it for a progress bar that is never drawn here; without ipywidgets it warns
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import tqdm.auto  # noqa: F401
