"""Browses the studies of a directory in marimo, also while they run.

pip install "sweeper-jax[apps]"
marimo run studies/marimo_app.py
"""

import marimo

app = marimo.App(width="medium", app_title="sweeper")


@app.cell
def _():
    from pathlib import Path

    import marimo as mo
    import numpy as np
    import pandas as pd
    import plotly.express as px
    import plotly.graph_objects as go

    return Path, go, mo, np, pd, px


@app.cell
def _(mo):
    directory = mo.ui.text("runs", label="directory of the runs")
    refresh = mo.ui.refresh(options=["10s", "1m"])  # reads the files again
    kept = {}  # what is selected below, where new files make new controls
    mo.hstack([directory, refresh])
    return directory, kept, refresh


@app.cell
def _(Path, directory, mo, pd, refresh):
    refresh.value
    root = Path(directory.value)
    paths = sorted([*root.glob("trials.parquet"), *root.glob("*/trials.parquet")])
    mo.stop(not paths, mo.md(f"no study has been run in {root}/"))
    folders = {path.parent.resolve().name: path.parent for path in paths}
    tables = [
        pd.read_parquet(folder / "trials.parquet").assign(run=run)
        for run, folder in folders.items()
    ]
    both = pd.concat(tables, ignore_index=True)
    both = both if "objective" in both else both.assign(objective=None)
    every = both.dropna(subset=["objective"])
    earlier = "studies of an earlier version are missing: `sweeper verify DIR --repair` adds them"
    said = mo.md(earlier if len(every) < len(both) else "")
    mo.stop(every.empty, said if len(both) else mo.md("no trials to show"))
    said
    return every, folders


@app.cell
def _(every, kept, mo):
    # losses and accuracies are not compared
    names = sorted(every["objective"].unique())
    objective = mo.ui.dropdown(
        names,
        value=kept["objective"] if kept.get("objective") in names else names[0],
        label="objective",
        on_change=lambda name: kept.update(objective=name),
    )
    objective
    return (objective,)


@app.cell
def _(every, objective):
    trials = every[every["objective"] == objective.value]
    trials = trials.sort_values(["run", "last_round", "trial_number"])
    falls = trials["direction"].iloc[0].lstrip('["').startswith("minimize")  # the first objective
    # those that violate study.constraints are never the best
    trials = trials.assign(violates=trials["feasible"].eq(False) if "feasible" in trials else False)
    complete = trials[trials["state"] == "COMPLETE"]
    complete = complete.sort_values(["violates", "value"], ascending=[True, falls])
    params = [name for name in trials if name.startswith("params_") and name != "params_json"]
    params = [name for name in params if complete[name].notna().any()]
    return complete, falls, params, trials


@app.cell
def _(complete, kept, mo, params):
    def keep(rows):
        kept["trials"] = {*zip(rows["run"], rows["trial_number"], strict=True)}

    pairs = [*zip(complete["run"], complete["trial_number"], strict=True)]
    places = [at for at, pair in enumerate(pairs) if pair in kept.get("trials", ())]
    selected = places or [*range(min(5, len(pairs)))]
    columns = ["run", "trial_number", "value", "best_epoch", *params, "n_parameters", "train_s"]
    columns += ["feasible"] if "feasible" in complete else []
    rows = complete[columns].reset_index(drop=True)
    table = mo.ui.table(rows, initial_selection=selected, on_change=keep)
    mo.vstack([mo.md("## Complete trials, the best first"), table])
    return (table,)


@app.cell
def _(falls, go, mo, params, px, trials):
    history = trials.assign(ended=trials.groupby("run").cumcount() + 1).dropna(subset=["value"])
    counts = (history["state"] == "COMPLETE") & ~history["violates"]
    values = history["value"].where(counts).groupby(history["run"])
    so_far = values.cummin() if falls else values.cummax()
    history["best"] = so_far.groupby(history["run"]).ffill()
    data = ["trial_number", *params]
    points = px.scatter(history, x="ended", y="value", color="run", hover_data=data)
    lines = px.line(history, x="ended", y="best", color="run", line_shape="hv")
    mo.vstack([mo.md("## History"), go.Figure([*points.data, *lines.data], points.layout)])
    return


@app.cell
def _(folders, mo, pd, px, table):
    # of the trials that are selected in the table
    chosen = table.value.groupby("run")["trial_number"].apply(list)
    mo.stop(chosen.empty, mo.md("## Curves\n\nselect trials in the table"))
    parts = [
        pd.read_parquet(folders[run] / "metrics", filters=[("trial_number", "in", numbers)])
        .groupby(["trial_number", "metric", "epoch"], as_index=False)["value"]
        .mean()
        .assign(trial=lambda rows, run=run: run + " " + rows["trial_number"].astype(str))
        for run, numbers in chosen.items()
    ]
    curves = px.line(pd.concat(parts), x="epoch", y="value", color="trial", facet_col="metric")
    mo.vstack([mo.md("## Curves"), curves.update_yaxes(matches=None, showticklabels=True)])
    return


@app.cell
def _(complete, falls, go, mo, np, params, pd):
    def axis(column):
        """An axis of the parallel coordinates: choices by name, wide ranges as logarithms."""
        label = column.name.removeprefix("params_")
        if not pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column):
            codes, texts = pd.factorize(column.astype(str), sort=True)
            ticks = {"tickvals": [*range(len(texts))], "ticktext": texts}
            return {"label": label, "values": codes, **ticks}
        if column.min() > 0 and column.max() > 100 * column.min():
            return {"label": f"log10 {label}", "values": np.log10(column.astype(float))}
        return {"label": label, "values": column}

    axes = [*(axis(complete[name]) for name in params), axis(complete["value"])]
    color = {"color": complete["value"], "colorscale": "Viridis", "reversescale": falls}
    parallel = go.Figure(go.Parcoords(dimensions=axes, line=color))
    mo.vstack([mo.md("## Parallel coordinates"), parallel])
    return


if __name__ == "__main__":
    app.run()
