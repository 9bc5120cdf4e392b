"""Browses the studies of a directory in Streamlit, also while they run.

pip install "sweeper-jax[apps]"
streamlit run studies/streamlit_app.py
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import plotly.express as px
import plotly.graph_objects as go
import streamlit as st

BEST = 10  # trials whose curves are drawn
FRESH_S = 10  # after which files are read again


@st.cache_data(ttl=FRESH_S)
def read_trials(directories: Mapping[str, Path]) -> pd.DataFrame:
    """The trials of all runs in one table; those of earlier versions have no objective."""
    tables = [
        pd.read_parquet(directory / "trials.parquet").assign(run=run)
        for run, directory in directories.items()
    ]
    every = pd.concat(tables, ignore_index=True)
    return every if "objective" in every else every.assign(objective=None)


@st.cache_data(ttl=FRESH_S)
def read_curves(directory: Path, numbers: Sequence[int]) -> pd.DataFrame:
    """The metrics of some trials by epoch, as means over replicates and folds."""
    rows = pd.read_parquet(directory / "metrics", filters=[("trial_number", "in", numbers)])
    return rows.groupby(["trial_number", "metric", "epoch"], as_index=False)["value"].mean()


def axis(column: pd.Series) -> dict[str, Any]:
    """An axis of the parallel coordinates: choices by name, wide ranges as logarithms."""
    label = column.name.removeprefix("params_")
    if not pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column):
        codes, names = pd.factorize(column.astype(str), sort=True)
        return {
            "label": label,
            "values": codes,
            "tickvals": [*range(len(names))],
            "ticktext": names,
        }
    if column.min() > 0 and column.max() > 100 * column.min():
        return {"label": f"log10 {label}", "values": np.log10(column.astype(float))}
    return {"label": label, "values": column}


st.set_page_config(page_title="sweeper", layout="wide")
root = Path(st.sidebar.text_input("directory of the runs", "runs"))
paths = sorted([*root.glob("trials.parquet"), *root.glob("*/trials.parquet")])
found = {path.parent.resolve().name: path.parent for path in paths}
if not found:
    st.info(f"no study has been run in {root}/")
    st.stop()
trials = read_trials(found)
if trials["objective"].isna().any():
    st.warning("studies of an earlier version are missing: `sweeper verify DIR --repair` adds them")
    trials = trials.dropna(subset=["objective"])
if trials.empty:
    st.info("no trials to show")
    st.stop()

# losses and accuracies are not compared
objective = st.sidebar.selectbox("objective", sorted(trials["objective"].unique()))
trials = trials[trials["objective"] == objective]
runs = st.sidebar.multiselect("runs", [*trials["run"].unique()], default=[*trials["run"].unique()])
trials = trials[trials["run"].isin(runs)].sort_values(["run", "last_round", "trial_number"])
if trials.empty:
    st.info("choose a run")
    st.stop()
falls = trials["direction"].iloc[0].lstrip('["').startswith("minimize")  # of the first objective
# those that violate study.constraints are never the best
trials = trials.assign(violates=trials["feasible"].eq(False) if "feasible" in trials else False)
complete = trials[trials["state"] == "COMPLETE"]
complete = complete.sort_values(["violates", "value"], ascending=[True, falls])
params = [name for name in trials if name.startswith("params_") and name != "params_json"]
params = [name for name in params if complete[name].notna().any()]

st.header("Trials")
shown = ["run", "trial_number", "state", "reason", "value", "best_epoch", *params, "train_s"]
shown += ["feasible"] if "feasible" in trials else []
st.dataframe(pd.concat([complete, trials.drop(complete.index)])[shown], hide_index=True)

st.header("History")
order = trials.groupby("run").cumcount() + 1
history = trials.assign(ended=order).dropna(subset=["value"])
counts = (history["state"] == "COMPLETE") & ~history["violates"]
values = history["value"].where(counts).groupby(history["run"])
history["best"] = (values.cummin() if falls else values.cummax()).groupby(history["run"]).ffill()
figure = px.scatter(
    history, x="ended", y="value", color="run", hover_data=["trial_number", *params]
)
lines = px.line(history, x="ended", y="best", color="run", line_shape="hv")
st.plotly_chart(go.Figure([*figure.data, *lines.data], figure.layout))

st.header("Curves")
run = st.selectbox("run", runs)
best = complete[complete["run"] == run]["trial_number"].head(BEST).tolist()
chosen = st.multiselect("trials", complete[complete["run"] == run]["trial_number"], default=best)
curves = read_curves(found[run], chosen)
metrics = sorted(curves["metric"].unique(), key=lambda name: (name not in objective, name))
metric = st.selectbox("metric", metrics)
drawn = curves[curves["metric"] == metric]
st.plotly_chart(px.line(drawn, x="epoch", y="value", color="trial_number"))

st.header("Parallel coordinates")
axes = [axis(complete[name]) for name in params] + [{"label": "value", "values": complete["value"]}]
line = {"color": complete["value"], "colorscale": "Viridis", "reversescale": falls}
parallel = go.Figure(go.Parcoords(dimensions=axes, line=line))
st.plotly_chart(parallel.update_layout(margin={"l": 60, "r": 60}))
