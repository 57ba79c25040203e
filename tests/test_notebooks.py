"""The notebooks of docs/ run, and show what is kept in them."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
from running import ROOT, tool

notebook = tool("site/notebook")
NOTEBOOKS = sorted((ROOT / "docs/notebooks").glob("*.ipynb"))


def outputs(cells: list[Any]) -> list[tuple[str, list[str]]]:
    """(source, outputs) of each cell. Of a picture, that there is one: it differs from matplotlib to matplotlib."""
    return [
        (
            "".join(cell["source"]),
            ["a picture" if "image/png" in out.get("data", ()) else notebook.shown(out) for out in cell["outputs"]],
        )
        for cell in cells
        if cell["cell_type"] == "code"
    ]


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_shows_what_it_did(path: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: Any) -> None:
    pytest.importorskip("nbclient")
    pytest.importorskip("matplotlib")
    jupyters = (f"JUPYTER_{kind}_DIR" for kind in ("RUNTIME", "DATA", "CONFIG"))
    for name in (*jupyters, "IPYTHONDIR", "MPLCONFIGDIR", "TMPDIR"):
        monkeypatch.setenv(name, str(tmp_path))
    kept = json.loads(path.read_text(encoding="utf-8"))["cells"]
    assert outputs(notebook.run(path).cells) == outputs(kept), "run `make notebooks`"


def test_a_notebook_is_a_page_with_its_outputs() -> None:
    assert NOTEBOOKS
    for path in NOTEBOOKS:
        page = notebook.page(path)
        assert page.startswith("# ")
        assert "data:image/png;base64," in page
        assert "<table>" in page
