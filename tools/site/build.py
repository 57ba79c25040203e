#!/usr/bin/env python3
"""Build the site: put the pages together in .work/site/pages, and have mkdocs make .work/site/html of them.

The pages are those of docs/, its notebooks, the changelog and the two pages of the project for those who help, a
reference out of the commands themselves, and the plots of the performance page. A link that leads nowhere ends this.
"""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys

import notebook
import plots
import reference

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PAGES, HTML = ROOT / ".work/site/pages", ROOT / ".work/site/html"
OF_ROOT = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md", "SECURITY.md": "security.md"}
LINK = re.compile(r"\]\(([^)#:\s]+)(#[^)\s]*)?\)")
SHIM = "https://unpkg.com/iframe-worker/shim"
PLOT = re.compile(r"<!-- plot ([a-z-]+): (.*?) -->")
FENCE = re.compile(r"^ *```")
ITEM = re.compile(r"( *)(?:[-*]|\d+\.) ")


def put_together() -> None:
    """Write all pages anew."""
    shutil.rmtree(PAGES, ignore_errors=True)
    shutil.copytree(ROOT / "docs", PAGES)
    for name in ("site.css", "site.js", "iframe-worker.js"):
        shutil.copy(HERE / name, PAGES)
    for source, name in OF_ROOT.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        (PAGES / name).write_text(text.replace("](docs/", "]("), encoding="utf-8")
    plots.write_plots((ROOT / "docs/performance.md").read_text(encoding="utf-8"), PAGES / "plots")
    for path in PAGES.rglob("*.ipynb"):
        path.with_suffix(".md").write_text(notebook.page(path), encoding="utf-8")
    for path in PAGES.rglob("*.md"):
        path.write_text(adapted(path.read_text(encoding="utf-8")), encoding="utf-8")
    (PAGES / "reference").mkdir()
    for name, text in reference.pages().items():
        (PAGES / "reference" / name).write_text(text, encoding="utf-8")


def adapted(text: str) -> str:
    """A page as mkdocs wants it: links out of docs/ are names only, lists stand by themselves, plots are pictures."""
    text = LINK.sub(lambda found: f"]({new_target(found[1])}{found[2] or ''})", text)
    text = re.sub(r"\[([^\]]+)\]\(!\)", r"`\1`", text)
    text = PLOT.sub(r"![\2](plots/\1.svg)", text)
    return "\n".join(with_lists_apart(text.split("\n")))


def new_target(target: str) -> str:
    """Where a link leads in the site; `!` where it leads out of it."""
    if target.endswith(".ipynb"):
        return target.removesuffix(".ipynb") + ".md"
    name = target.removeprefix("../")
    if name in OF_ROOT:
        return OF_ROOT[name]
    return "!" if target.startswith("../") and not target.endswith(".md") else target


def with_lists_apart(lines: list[str]) -> list[str]:
    """Put an empty line before a list that follows a paragraph: mkdocs sees no list without it."""
    out: list[str] = []
    in_code = False
    for line in lines:
        in_code ^= bool(FENCE.match(line))
        item = None if in_code else ITEM.match(line)
        before = out[-1] if out else ""
        if item and not item[1] and before.strip() and not ITEM.match(before) and before[:1] not in " \t":
            out.append("")
        out.append(line)
    return out


def stay_at_home() -> None:
    """Have each page load the shim of the search from this site: the theme's plugin names a server."""
    for path in HTML.rglob("*.html"):
        here = "../" * (len(path.relative_to(HTML).parts) - 1) + "iframe-worker.js"
        path.write_text(path.read_text(encoding="utf-8").replace(SHIM, here), encoding="utf-8")


def main() -> None:
    """Build it."""
    put_together()
    command = [
        sys.executable,
        "-m",
        "mkdocs",
        "build",
        "--strict",
        "--quiet",
        "--config-file",
        str(HERE / "mkdocs.yml"),
    ]
    done = subprocess.run(command, check=False, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})
    if done.returncode:
        sys.exit(done.returncode)
    stay_at_home()
    print(f"{HTML}/index.html")


if __name__ == "__main__":
    main()
