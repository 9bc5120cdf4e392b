"""The commands, in one module per group; `main` puts them together.

Slow modules (JAX, Optuna, pandas) are imported only by the commands that need them: `status` needs
none of them.
"""
