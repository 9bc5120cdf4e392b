"""The page of a sweep: read from Parquet and status.json, served live or written as one file.

Neither JAX nor Optuna nor pandas is imported here, so that the page opens quickly.
"""
