#!/usr/bin/env python3
"""Run the notebooks of docs/notebooks, and keep their outputs (`make notebooks`). The site has them as pages."""

from __future__ import annotations

import json
import pathlib
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
NOTEBOOKS = ROOT / "docs/notebooks"
SECONDS = 120  # for a cell


def run(path: pathlib.Path) -> Any:
    """The notebook after all its cells have run, in the folder of the project. Raises if a cell does."""
    import nbclient
    import nbformat

    notebook = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(notebook, timeout=SECONDS, resources={"metadata": {"path": str(ROOT)}}).execute()
    for cell in notebook.cells:
        cell.metadata.clear()  # when it ran
    del notebook.metadata["language_info"]  # which Python it was
    return nbformat.reads(nbformat.writes(notebook).replace(f"{ROOT}/", ""), as_version=4)


def page(path: pathlib.Path) -> str:
    """A notebook with its outputs as a page of the site."""
    parts = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        parts += map(shown, cell.get("outputs", ()))
    return "\n\n".join(parts) + "\n"


def shown(output: dict[str, Any]) -> str:
    """An output: a picture, a table, or text."""
    data = output.get("data", {"text/plain": output.get("text", "")})
    if "image/png" in data:
        return f'<img alt="what the cell drew" src="data:image/png;base64,{"".join(data["image/png"]).strip()}">'
    if "text/html" in data:
        return "".join(data["text/html"])
    return f"```text\n{''.join(data['text/plain']).rstrip()}\n```"


def main() -> None:
    """Write all of them anew."""
    import nbformat

    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        nbformat.write(run(path), path)
        print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
