"""The full explanation of a finding: its section of docs/findings.md, for a terminal.

The package contains the page as a link to the one in docs/, so that there is one text.
"""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Iterator
from functools import cache

from msgspec import Struct

from klogtool.errors import KlogError
from klogtool.escape import joined
from klogtool.format.text import near_names
from klogtool.log.file import read_whole
from klogtool.render.findings import LABELS, MEANINGS
from klogtool.render.terminal import columns
from klogtool.verify.findings import SEVERITIES

PAGE = os.path.join(os.path.dirname(__file__), "findings.md")
MOST_PAGE_BYTES = 1 << 20
_SECTION = re.compile(r"^### `([a-z-]+)` \(\w+\)\n(.*?)(?=^##|\Z)", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\[([^]]*)\]\([^)]*\)")
_SENTENCE = re.compile(r".*?\.(?= |$)")
WIDEST = 100  # longer lines are hard to read


class Explanation(Struct, frozen=True):
    """An id of a finding: its severity, its meaning in a sentence, and the full explanation in paragraphs."""

    id: str
    severity: str
    meaning: str
    paragraphs: tuple[str, ...]

    def as_json(self) -> dict[str, object]:
        """Return the row of the contract (docs/contract.md)."""
        told = {"id": self.id, "severity": self.severity, "meaning": self.meaning}
        return {"type": "explanation", **told, "text": "\n\n".join(self.paragraphs)}


def explain(finding_id: str, cure: str | None = None) -> Explanation:
    """Return the explanation of a finding. Raises KlogError for an unknown id, with similar ids and `cure`."""
    if finding_id not in SEVERITIES:
        raise KlogError(f"no finding has the id '{finding_id}'{_nearest(finding_id)}", cure=cure)
    text = _sections().get(finding_id, MEANINGS[finding_id])
    paragraphs = (_plain(part) for part in text.strip().split("\n\n"))
    severity = SEVERITIES[finding_id].value
    return Explanation(finding_id, severity, MEANINGS[finding_id], tuple(paragraphs))


def brief(finding_id: str) -> str:
    """Return the first sentence of an explanation: what the finding is."""
    told = explain(finding_id).paragraphs[0]
    found = _SENTENCE.match(told)
    return told if found is None else found[0]


@cache
def _sections() -> dict[str, str]:
    return dict(_SECTION.findall(read_whole(PAGE, limit=MOST_PAGE_BYTES).decode()))


def _plain(markdown: str) -> str:
    """Return a paragraph in one line, without Markdown's marks."""
    return " ".join(_LINK.sub(r"\1", markdown).replace("`", "").split())


def explanation_text(told: Explanation) -> str:
    """Show severity and id, then the paragraphs."""
    return joined(_lines(told))


def list_text() -> str:
    """Show every id with its meaning in a sentence."""
    width = min(columns(), WIDEST)
    indent = max(map(len, SEVERITIES)) + 11
    lines = []
    for finding_id, severity in SEVERITIES.items():
        head = f"{LABELS[severity]:<9}{finding_id:<{indent - 9}}"
        lines += textwrap.wrap(MEANINGS[finding_id], width, initial_indent=head, subsequent_indent=" " * indent)
    return joined(lines)


def _lines(told: Explanation) -> Iterator[str]:
    yield f"{LABELS[SEVERITIES[told.id]]:<9}{told.id}"
    for paragraph in told.paragraphs:
        yield ""
        yield from textwrap.wrap(paragraph, min(columns(), WIDEST), break_long_words=False, break_on_hyphens=False)


def _nearest(finding_id: str) -> str:
    near = near_names(finding_id, SEVERITIES)
    return f"; did you mean {' or '.join(near)}?" if near else ""
