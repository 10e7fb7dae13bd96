"""The notebook of the documents, run by Jupyter's kernel against a server of the template."""

import pytest

from cog_adapt import write_schema
from tests.cog_adapt.contract.serving import serving
from tests.cog_adapt.sessions import ROOT

jupytext = pytest.importorskip("jupytext", reason="pip install -r requirements-dev.txt")
nbclient = pytest.importorskip("nbclient", reason="pip install -r requirements-dev.txt")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The template, served."""
    pytest.importorskip("task", reason="the notebook adapts the shipped model")
    folder = tmp_path_factory.mktemp("template")
    for name in ("predict.py", "task.py", "encoder.py"):
        (folder / name).symlink_to(ROOT / name)
    write_schema(folder, predict="predict.py:Predictor")
    env = {"DEVICE": "cpu", "SELF_TEST": "off", "WEIGHTS_DIR": str(folder / "weights")}
    with serving("mirror", folder, predict="predict.py:Predictor", env=env) as running:
        yield running


def test_every_cell_of_the_notebook_runs_and_shows_what_it_says(server, monkeypatch, tmp_path):
    monkeypatch.setenv("COG_ADAPT_URL", server.url)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path))
    notebook = jupytext.read(ROOT / "docs" / "notebook.md")
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert len(cells) == 5
    shown = [[output.get("data", {}) for output in cell.outputs] for cell in cells]
    assert sum("image/png" in each for outputs in shown for each in outputs) == 2
    labels = [line.split()[-1] for line in cells[2].outputs[0]["text"].splitlines()]
    assert labels == ["delivery", "refund", "access"]
    assert cells[-1].outputs[0]["data"]["text/plain"] == "'delivery'"
