"""Ask and tell: the Optuna study of a sweep. Only this package uses Optuna.

It is imported by `ask_tell` and what that needs, `importance` and `optuna_export`; the options of a
study are checked without it.
"""
