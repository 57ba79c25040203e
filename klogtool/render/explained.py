"""What `klogtool explain` says of a finding, its section of docs/findings.md, and of a message of a broker's log.

The package contains the page as a link to the one in docs/, so that there is one text.
"""

from __future__ import annotations

import os
import re
import textwrap
from collections.abc import Iterable, Iterator
from functools import cache

from msgspec import Struct

from klogtool.doctor.messages import Recognised
from klogtool.doctor.situation import Outcome, Situation
from klogtool.errors import KlogError
from klogtool.escape import as_paragraph, escaped, joined
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


# Messages of brokers.

MOST_OF_A_MESSAGE = 300  # characters of it, in text
OUTCOMES = {
    Outcome.OK: "the broker runs, and nothing is lost",
    Outcome.LOSES: "the broker runs, and LOSES or hides records",
    Outcome.UNSERVED: "the broker runs, and a part of it does not work",
    Outcome.OFFLINE: "the broker takes the log dir OFFLINE",
    Outcome.REFUSES: "the broker REFUSES to start, or ends",
}
_INDENT = 14


def recognised_text(recognised: Iterable[Recognised]) -> str:
    """Show what a message means, a block for each situation."""
    return "\n\n".join(joined(_lines(one)) for one in recognised)


def _lines(one: Recognised) -> Iterator[str]:
    situation, where = one.situation, one.where
    yield f"{situation.name}: {OUTCOMES[situation.outcome]}"
    yield from _paragraph("message", _said(one))
    for label, path in (("file", where.file), ("partition", where.folder or where.partition), ("log dir", where.dir)):
        if path is not None:
            yield f"  {label:<{_INDENT - 2}}{path}"
    yield ""
    yield from _paragraph("", situation.meaning)
    if situation.causes:
        yield ""
        yield from _paragraph("", f"There are {len(situation.causes)} possible causes:")
    for number, cause in enumerate(situation.causes, 1):
        yield from _paragraph(f"  {number}", f"{cause.what}. Sign: {cause.sign}")
    yield ""
    yield from _paragraph("look first", situation.look_first)
    if one.cures or situation.findings:
        yield ""
    for number, command in enumerate(one.cures):
        yield f"  {'' if number else 'run':<{_INDENT - 2}}{command}"
    yield from _paragraph("findings", ", ".join(situation.findings))


def _said(one: Recognised) -> str:
    if not one.said:
        return one.wording.text
    words = escaped(one.said)
    words = words if len(words) <= MOST_OF_A_MESSAGE else words[:MOST_OF_A_MESSAGE] + " ..."
    again = f" (and {one.times - 1:,} more times)" if one.times > 1 else ""
    releases = f" (wording of Kafka {one.wording.releases})" if one.wording.releases else ""
    part = f" (a part of: {one.wording.text})" if not one.is_whole else ""
    return words + again + releases + part


def _paragraph(label: str, text: str) -> Iterator[str]:
    head, rest = f"  {label:<{_INDENT - 2}}" if label else "  ", " " * (_INDENT if label else 2)
    width = min(columns(), WIDEST)
    yield from textwrap.wrap(text, width, initial_indent=head, subsequent_indent=rest, break_on_hyphens=False)


@as_paragraph
def messages_text(situations: Iterable[Situation]) -> Iterator[str]:
    """Show the messages that klogtool knows, under the name and the outcome of each situation."""
    for situation in situations:
        yield f"{situation.name}  ({situation.outcome.value})"
        for wording in situation.wordings:
            yield f"  {wording.text}" + (f"  [{wording.releases}]" if wording.releases else "")


def recognised_row(one: Recognised) -> dict[str, object]:
    """Return a situation in JSON's types; what is not known is absent."""
    situation, where = one.situation, one.where
    row: dict[str, object] = {
        "type": "explanation",
        "situation": situation.name,
        "outcome": situation.outcome.value,
        "meaning": situation.meaning,
        "look_first": situation.look_first,
        "cures": list(one.cures),
        "findings": list(situation.findings),
        "causes": [{"cause": cause.what, "sign": cause.sign} for cause in situation.causes],
        "messages": [wording.text for wording in situation.wordings],
    }
    of_message = {
        "message": one.said or None,
        "is_whole": one.is_whole if one.said else None,
        "times": one.times if one.said else None,
        "releases": one.wording.releases,
        "file": where.file,
        "partition": where.partition,
        "partition_dir": where.folder,
        "log_dir": where.dir,
        "segment": where.base,
    }
    return row | {name: value for name, value in of_message.items() if value is not None}
