"""The plots of the performance page, out of the tables that stand on it. A figure is told once: in its table."""

from __future__ import annotations

import io
import pathlib
import re

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot

KAFKA, OURS, GREY = "#b35900", "#0b5c8a", "#555555"  # they differ in brightness, too
SEPARATOR = re.compile(r"\|[-|]+\|")
Table = list[dict[str, str]]
matplotlib.rcParams.update(
    {"svg.hashsalt": "klogtool", "svg.fonttype": "none", "font.family": "sans-serif", "font.size": 10}
)


def table_after(page: str, heading: str) -> Table:
    """The rows of the first table below a heading, by the names of their columns."""
    _, found, rest = page.partition(f"\n{heading}\n")
    assert found, f"no {heading!r}"
    lines = [line for line in rest[: rest.index("\n\n", rest.index("\n|"))].splitlines() if line.startswith("|")]
    assert SEPARATOR.fullmatch(lines[1].replace(" ", "")), lines[1]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [dict(zip(cells[0], row, strict=True)) for row in cells[2:]]


def beside_kafka(rows: Table, kafka: str, ours: str) -> str:
    """Seconds of each job: Kafka's and klogtool's, with the ratio."""
    names = [" ".join(list(row.values())[:2]) for row in rows]
    figure, axes = pyplot.subplots(figsize=(7.5, 0.42 * len(rows) + 1))
    for n, row in enumerate(rows):
        theirs, own = float(row[kafka]), float(row[ours])
        axes.barh(n - 0.2, theirs, 0.36, color=KAFKA, label="Kafka" if n == 0 else None)
        axes.barh(n + 0.2, own, 0.36, color=OURS, label="klogtool, 1 job" if n == 0 else None)
        axes.text(theirs * 1.06, n - 0.2, f"{theirs:g} s", va="center", fontsize=8)
        axes.text(own * 1.06, n + 0.2, f"{own:g} s  ({theirs / own:.1f} times as fast)", va="center", fontsize=8)
    axes.set_yticks(range(len(rows)), names)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlim(right=max(float(row[kafka]) for row in rows) * 4)
    axes.set_xlabel("seconds, whole processes (logarithmic)")
    return finished(figure, axes)


def over_size(rows: Table) -> str:
    """Processor time of each command with n, 2n and 4n, beside what is proportional."""
    figure, axes = pyplot.subplots(figsize=(7.5, 4.5))
    for row in rows:
        second = float(row["2n / n"])
        axes.plot([1, 2, 4], [1, second, second * float(row["4n / 2n"])], color=OURS, alpha=0.45, linewidth=1)
    axes.plot([], [], color=OURS, label="a command")
    axes.plot([1, 2, 4], [1, 2, 4], color=KAFKA, linestyle="--", label="proportional to the size")
    axes.plot([1, 2, 4], [1, 4, 16], color=GREY, linestyle=":", label="the square of the size")
    axes.set_xscale("log", base=2)
    axes.set_yscale("log", base=2)
    axes.set_xticks([1, 2, 4], ["n", "2n", "4n"])
    axes.set_yticks([1, 2, 4, 8, 16], ["1", "2", "4", "8", "16"])
    axes.set_xlabel("segments, epochs or partitions")
    axes.set_ylabel("processor time, n = 1")
    return finished(figure, axes)


def finished(figure: pyplot.Figure, axes: pyplot.Axes) -> str:
    """The figure as SVG, without a date."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    out = io.StringIO()
    figure.savefig(out, format="svg", bbox_inches="tight", facecolor="white", metadata={"Date": None})
    pyplot.close(figure)
    return out.getvalue()


def plots(page: str) -> dict[str, str]:
    """SVG by name, out of the text of docs/performance.md."""
    return {
        "dump-log": beside_kafka(
            table_after(page, "## dump-log beside kafka-dump-log"), "Kafka s", "klogtool s, 1 job"
        ),
        "large": beside_kafka(table_after(page, "## Large partitions"), "Kafka s", "klogtool s, 1 job"),
        "growth": over_size(table_after(page, "## How work grows")),
    }


def write_plots(page: str, folder: pathlib.Path) -> None:
    """Write them all."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, svg in plots(page).items():
        (folder / f"{name}.svg").write_text(svg, encoding="utf-8")
