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
from klogtool.escape import as_paragraph
from klogtool.format.text import near_names
from klogtool.log.file import read_whole
from klogtool.render.findings import LABELS, meanings
from klogtool.render.terminal import columns
from klogtool.verify.findings import KINDS, Kind, Severity

PAGE = os.path.join(os.path.dirname(__file__), "findings.md")
MOST_PAGE_BYTES = 1 << 20
_SECTION = re.compile(r"^### `([a-z-]+)` \(\w+\)\n(.*?)(?=^##|\Z)", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"\[([^]]*)\]\([^)]*\)")
_SENTENCE = re.compile(r".*?\.(?= |$)")
WIDEST = 100  # longer lines are hard to read


class Explanation(Struct, frozen=True, tag_field="type", tag="explanation"):
    """A kind of finding explained; as JSON it is the row of the contract. text: paragraphs with blank lines between."""

    id: Kind
    severity: Severity
    meaning: str
    text: str


def explain(finding_id: str, cure: str | None = None) -> Explanation:
    """Return the explanation of a finding. Raises KlogError for an unknown id, with similar ids and `cure`."""
    kind = KINDS.get(finding_id)
    if kind is None:
        raise KlogError(f"no finding has the id '{finding_id}'{_nearest(finding_id)}", cure=cure)
    text = _sections().get(finding_id, meanings()[kind].meaning)
    paragraphs = (
        " ".join(_LINK.sub(r"\1", markdown).replace("`", "").split()) for markdown in text.strip().split("\n\n")
    )
    return Explanation(kind, kind.row.severity, meanings()[kind].meaning, "\n\n".join(paragraphs))


def brief(kind: Kind) -> str:
    """Return the first sentence of an explanation: what the finding is."""
    paragraph = explain(kind).text.partition("\n\n")[0]
    sentence = _SENTENCE.match(paragraph)
    return paragraph if sentence is None else sentence[0]


@cache
def _sections() -> dict[str, str]:
    return dict(_SECTION.findall(read_whole(PAGE, limit=MOST_PAGE_BYTES).decode()))


@as_paragraph
def list_text() -> Iterator[str]:
    """Show every id with its meaning in a sentence."""
    width, indent = min(columns(), WIDEST), max(map(len, Kind)) + 11
    for kind in Kind:
        head = f"{LABELS[kind.row.severity]:<9}{kind:<{indent - 9}}"
        yield from textwrap.wrap(meanings()[kind].meaning, width, initial_indent=head, subsequent_indent=" " * indent)


@as_paragraph
def explanation_text(explanation: Explanation) -> Iterator[str]:
    """Show severity and id, then the paragraphs."""
    yield f"{LABELS[explanation.severity]:<9}{explanation.id}"
    for paragraph in explanation.text.split("\n\n"):
        yield ""
        yield from textwrap.wrap(paragraph, min(columns(), WIDEST), break_long_words=False, break_on_hyphens=False)


def _nearest(finding_id: str) -> str:
    near = near_names(finding_id, KINDS)
    return f"; did you mean {' or '.join(near)}?" if near else ""
