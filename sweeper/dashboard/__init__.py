"""The page of a sweep: read from Parquet and status.json, shown live or as one file.

Neither JAX nor Optuna nor pandas is imported here, so that the page is there at once.
"""
