"""The example for notebooks runs from a DataFrame to predictions, and needs no file of the user."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.processes import ROOT

EXAMPLE = ROOT / "studies" / "dataframe.ipynb"


@pytest.mark.integration
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of Jupyter's own packages
def test_the_example_leads_from_a_dataframe_to_predictions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import nbclient
    import nbformat

    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    notebook = nbformat.read(EXAMPLE, as_version=4)
    assert len(notebook.cells) == 12
    client = nbclient.NotebookClient(notebook, resources={"metadata": {"path": str(tmp_path)}})
    done = client.execute()
    shown = [cell["outputs"] for cell in done.cells if cell["cell_type"] == "code"]
    texts = [_shown(outputs, "text/plain") for outputs in shown]
    assert "results of the study diabetes\n  finished, " in texts[2]
    pictures = [_shown(outputs, "image/png") for outputs in shown]
    assert [bool(one) for one in pictures] == [index in (4, 5) for index in range(len(shown))]
    assert "predicted" in texts[-1]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["best", "runs"]


def _shown(outputs: list[Any], kind: str) -> str:
    """What a cell shows of this kind, with what it prints."""
    printed = (one.get("text", "") if kind == "text/plain" else "" for one in outputs)
    return "".join((*printed, *(one.get("data", {}).get(kind, "") for one in outputs)))
