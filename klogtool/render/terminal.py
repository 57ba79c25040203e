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
FORCING = ("FORCE_COLOR", "CLICOLOR_FORCE")
_JSON = '{"'  # begins a row of JSON, which no command colours
RED, YELLOW, CYAN, PLAIN = "\x1b[1;31m", "\x1b[1;33m", "\x1b[1;36m", "\x1b[0m"
# _LABELS begin a line, _PHRASES are anywhere in it, _CELLS are table cells that say what happens to a file or segment.
_LABELS = {"error": RED, "warning": YELLOW, "note": CYAN, "refused": RED}
_PHRASES = r"\b(?:LOSES?|LOST|MISSING|REFUSED|REFUSES|FALSE)\b(?: offsets? [\d,]+(?: to [\d,]+)?)?"
_CELLS = r"(?<=  )(?:deleted|delete|truncated|truncate)(?=  |$)"


def columns() -> int:
    """Return the width of text: of COLUMNS or the terminal; a fixed width if stdout is not a terminal."""
    setting = os.environ.get("COLUMNS", "")
    if setting.isdecimal() and int(setting) > 0:
        return max(int(setting), NARROWEST)
    if sys.stdout is None or not sys.stdout.isatty():
        return WIDTH_WITHOUT_TERMINAL
    try:
        result = os.get_terminal_size(sys.stdout.fileno()).columns
    except OSError:
        result = 0
    return max(result or WIDTH_OF_UNKNOWN_TERMINAL, NARROWEST)


def is_in_colour(stream: Any) -> bool:
    """Whether text on a stream is coloured: NO_COLOR says no, FORCE_COLOR and CLICOLOR_FORCE yes, in this order; else
    what the terminal can, if it is one (https://no-color.org, https://force-color.org)."""
    if os.environ.get("NO_COLOR"):
        return False
    if any(os.environ.get(name) not in (None, "", "0") for name in FORCING):
        return True
    return os.environ.get("TERM") not in COLOURLESS and bool(stream.isatty())


def painted(line: str) -> str:
    """Add colours to an escaped line: to labels of findings, to what is lost or refused, to what is deleted."""
    if line.startswith(_JSON):
        return line
    label, blanks, rest = line.partition("  ")
    if blanks and label in _LABELS:
        return f"{_LABELS[label]}{label}{PLAIN}{blanks}{rest}"
    line = re.sub(_PHRASES, lambda match: f"{RED}{match[0]}{PLAIN}", line)
    return re.sub(_CELLS, lambda match: f"{YELLOW}{match[0]}{PLAIN}", line)
