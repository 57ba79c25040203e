"""What was run, added up over all runs: the table in docs/fuzzing.md, which each fuzzer changes by `--add PAGE`.

A night adds to the page of its checkout. Whoever has it run commits that.
"""

from __future__ import annotations

import argparse
import pathlib
import re
import time

CELL = r"\s*([\d,]+)\s*"


def add_option(parser: argparse.ArgumentParser) -> None:
    """Give a fuzzer the option."""
    parser.add_argument("--add", type=pathlib.Path, metavar="PAGE", help="add what was run to the table of this page")


def add(page: pathlib.Path | None, fuzzer: str, *, inputs: int, batches: int = 0, found: int = 0) -> None:
    """Add one run to the row of a fuzzer, with today's date. Raises ValueError if the page has no such row."""
    if page is None:
        return
    text = page.read_text(encoding="utf-8")
    row = re.compile(rf"^(\| `{re.escape(fuzzer)}` \|){CELL}\|{CELL}\|{CELL}\|{CELL}\|[^|\n]*\|$", re.MULTILINE)
    old = row.search(text)
    if old is None:
        raise ValueError(f"{page} has no row for {fuzzer}")
    sums = [int(cell.replace(",", "")) for cell in old.groups()[1:]]
    cells = [f"{was + more:,}" for was, more in zip(sums, (1, inputs, batches, found), strict=True)]
    today = time.strftime("%Y-%m-%d", time.gmtime())
    page.write_text(row.sub(f"{old[1]} {' | '.join(cells)} | {today} |", text), encoding="utf-8")
