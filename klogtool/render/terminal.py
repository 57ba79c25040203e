"""The terminal: its width, whether it has colours, and the colours. A colour only repeats what the words say."""

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
# _LABELS begin a line, _PHRASES are anywhere in it, _CELLS are table cells that say what happens to a file or segment.
_LABELS = {"error": RED, "warning": YELLOW, "note": CYAN, "refused": RED}
_PHRASES = r"\b(?:LOSES?|LOST|MISSING|REFUSED|REFUSES|FALSE)\b(?: offsets? [\d,]+(?: to [\d,]+)?)?"
_CELLS = r"(?<=  )(?:deleted|delete|truncated|truncate)(?=  |$)"


def columns() -> int:
    """Return the width of text: of COLUMNS or the terminal; a fixed width if stdout is not a terminal."""
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
    """Whether a stream is a terminal with colours and the user did not turn them off (https://no-color.org)."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") in COLOURLESS:
        return False
    return stream is not None and bool(stream.isatty())


def painted(line: str) -> str:
    """Add colours to an escaped line: to labels of findings, to what is lost or refused, to what is deleted."""
    label, blanks, rest = line.partition("  ")
    if blanks and label in _LABELS:
        return f"{_LABELS[label]}{label}{PLAIN}{blanks}{rest}"
    line = re.sub(_PHRASES, lambda found: f"{RED}{found[0]}{PLAIN}", line)
    return re.sub(_CELLS, lambda found: f"{YELLOW}{found[0]}{PLAIN}", line)
