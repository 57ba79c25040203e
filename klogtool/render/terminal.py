"""What the terminal is like: how wide, whether in colour; and the colours, which only repeat what words say."""

from __future__ import annotations

import os
import re
import sys
from typing import Any

WIDTH_WITHOUT_TERMINAL = 110
WIDTH_OF_UNKNOWN_TERMINAL = 80  # one that says it has 0 columns, as over some serial lines and in containers
NARROWEST = 40
COLOURLESS = ("dumb", "unknown")
RED, YELLOW, CYAN, PLAIN = "\x1b[1;31m", "\x1b[1;33m", "\x1b[1;36m", "\x1b[0m"
# Words at the beginning of a line; words anywhere in it; what becomes of a file or segment, a cell of a table.
_LABELS = {"error": RED, "warning": YELLOW, "note": CYAN, "refused": RED}
_PHRASES = r"\b(?:LOSES?|LOST|MISSING|REFUSED|REFUSES|FALSE)\b(?: offsets? [\d,]+(?: to [\d,]+)?)?"
_CELLS = r"(?<=  )(?:deleted|delete|truncated|truncate)(?=  |$)"


def columns() -> int:
    """How wide text may be: as COLUMNS or the terminal says; where stdout is none, the same everywhere."""
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and int(given) > 0:
        return max(int(given), NARROWEST)
    if sys.stdout is None or not sys.stdout.isatty():
        return WIDTH_WITHOUT_TERMINAL
    try:
        found = os.get_terminal_size(sys.stdout.fileno()).columns
    except OSError:
        found = 0
    return max(found or WIDTH_OF_UNKNOWN_TERMINAL, NARROWEST)


def is_in_colour(stream: Any) -> bool:
    """Whether a stream leads to a terminal that has colours, and nobody said no to them (https://no-color.org)."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") in COLOURLESS:
        return False
    return stream is not None and bool(stream.isatty())


def painted(line: str) -> str:
    """An escaped line in colours: labels of findings, what is lost or refused, what is deleted."""
    label, blanks, rest = line.partition("  ")
    if blanks and label in _LABELS:
        return f"{_LABELS[label]}{label}{PLAIN}{blanks}{rest}"
    line = re.sub(_PHRASES, lambda found: f"{RED}{found[0]}{PLAIN}", line)
    return re.sub(_CELLS, lambda found: f"{YELLOW}{found[0]}{PLAIN}", line)
