"""Ask and tell: the Optuna study of a sweep. Only this package uses Optuna.

Only `ask_tell` and what it needs import it; the options of a study are checked without it.
"""
