"""The commands, a file for each group of them; `cli` puts them together.

What is slow to import (JAX, Optuna, pandas) is imported by the commands that need it, where they
need it: `status` needs none of it.
"""
