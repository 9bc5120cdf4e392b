"""Ask and tell: the Optuna study of a sweep. Optuna lives here and nowhere else.

Only `ask_tell` and what it needs import it; the options of a study are checked without.
"""
