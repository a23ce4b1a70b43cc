"""examples/flights.ipynb is run from top to bottom, as it is stored."""

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests.docs.examples import ROOT

NOTEBOOK = ROOT / "examples" / "flights.ipynb"


def results(notebook: Any) -> str:
    """Return what the cells of *notebook* have printed and shown, as text."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return "\n".join(output.get("text") or output["data"]["text/plain"] for output in outputs)


@pytest.fixture
def notebook() -> Any:
    return nbformat.read(NOTEBOOK, as_version=4)


@pytest.mark.exhaustive
def test_notebook_runs_from_top_to_bottom(notebook: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "MPLCONFIGDIR", "TMPDIR"):
        monkeypatch.setenv(name, str(tmp_path))

    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()

    said = results(notebook)
    assert "Report(batches=1, events=4000" in said
    assert "(2000, 2000, " in said, "the rest of the week"
    assert "FeedSummary(changes=" in said
    assert any("image/png" in output.get("data", {}) for cell in notebook.cells for output in cell.get("outputs", []))
    assert not list(tmp_path.glob("flights-*")), "it has not cleaned up"


def test_notebook_is_stored_without_outputs(notebook: Any) -> None:
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]

    assert [(cell.outputs, cell.execution_count) for cell in cells] == [([], None)] * len(cells)
