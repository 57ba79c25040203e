#!/usr/bin/env python3
"""Write what docs/ has of the declarations: the tables between these marks, and the headings of docs/findings.md.

    <!-- layout klogtool.format.layouts.BATCH_HEADER --> a construct declaration: byte, field, type, size
    <!-- values klogtool.format.layouts.PARTITION_METADATA -->   the values of a text file: name, type
    <!-- messages klogtool.format.internal -->           the messages of internal topics, from Kafka's schemas
    <!-- releases klogtool.broker.releases -->           what differs between releases, and from which one on
    <!-- findings klogtool.verify.findings -->          the ids of findings, by severity
    <!-- options retain -->                             the options of a command that are its own
    <!-- options dump-log: Selection -->                those under one heading of its help, or those named: --a, --b
    <!-- end -->

A table of options may have a third column, which is written by hand: it stays with its option.

Each kind of finding has a section in docs/findings.md. A new one begins as its meaning, where the table has it;
write its paragraph there.
A test holds the pages to what this writes. Run by `make docs`.
"""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import pathlib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import TypeGuard

import click
import msgspec
from construct import Array, Bytes, Construct, FormatField, IfThenElse, Renamed, SizeofError, Struct
from msgspec.structs import asdict

from klogtool.broker.releases import RELEASES, EmptiedBatch, FeatureLevels, MetadataLevels, Rules, rules_of
from klogtool.cli.commands import Command
from klogtool.format.internal.schema import HIGHEST_VERSION, Field, MessageSchema, Versions, message_names, schema_of
from klogtool.format.java_numbers import MAX_LONG
from klogtool.format.text_values import members_of
from klogtool.format.varint import VARINT_BITS, VarintArray, VarintBytes, ZigZag
from klogtool.render.findings import meanings
from klogtool.verify.findings import Area, Kind, Severity

DOCS = pathlib.Path(__file__).resolve().parent.parent / "docs"
PAGES = (DOCS / "format.md", DOCS / "releases.md", DOCS / "contract.md", DOCS / "findings.md")
OPTIONS = "<!-- options "
SECTION = re.compile(r"^### `([a-z-]+)` \(\w+\)$", re.MULTILINE)
HEADINGS = re.compile(r"^(?=##)", re.MULTILINE)
MARKED = re.compile(
    r"(<!-- (layout|values|messages|releases|findings|options) ([^>]+?) -->\n)(.*?)(<!-- end -->)", re.DOTALL
)
ROW = re.compile(r"^\| `([^`]*)` \| (.*) \|$", re.MULTILINE)
ALL_SHARED = "retain"  # a command with all options that docs/options.md describes
OF_SPARK = ("--master", "--spark-conf")
DEFAULT = re.compile(r"\s+\[default: \(?(.*?)\)?(?:; [^\]]*)?\](?=\s+\[|$)")
RANGE = re.compile(r"\s+\[(?:required|[^\]\s]*x[<>=][^\]\s]*)\]")
HARD_FOR_MARKDOWN = re.compile(r"(--[a-z][a-z-]*|[^\s,(]*[_*\\<][^\s,]*?)(?=[.,:;)]*(?:\s|$))")
NUMBERS = {"B": "uint8", "H": "uint16", "L": "uint32", "Q": "uint64"}


def type_name(declared: Construct) -> str:
    """How a type is called on the page; all numbers are big-endian."""
    match declared:
        case FormatField():
            letter = declared.fmtstr[-1]
            return NUMBERS[letter] if letter.isupper() else NUMBERS[letter.upper()].removeprefix("u")
        case VarintBytes():
            return "varint size, then bytes"
        case ZigZag():
            return "varint" if declared.bits == VARINT_BITS else "varlong"
        case VarintArray():
            return "varint count, then each"
        case Bytes():
            return "bytes"
        case IfThenElse():
            return f"{type_name(declared.thensubcon)}, or nothing"
        case Array():
            return "array"
        case _:
            return type(declared).__name__.lower()


def size_of(declared: Construct) -> int | None:
    """Bytes of a field of fixed size; None where they depend on what was read before."""
    try:
        size: int = declared.sizeof()
    except (SizeofError, KeyError):
        return None
    return size


def fields_of(declaration: Struct, at: int | None = 0) -> Iterator[tuple[int | None, str, Construct]]:
    """(byte or None behind a field of no fixed size, name, type), structs inside opened."""
    for member in declaration.subcons:
        inner = member.subcon if isinstance(member, Renamed) else member
        if isinstance(inner, Struct):
            yield from fields_of(inner, at)
        else:
            yield at, member.name, inner
        size = size_of(inner)
        at = None if at is None or size is None else at + size


def layout_table(dotted: str) -> str:
    module, _, name = dotted.rpartition(".")
    declaration = getattr(importlib.import_module(module), name)
    lines = ["| byte | field | type | size |", "|---:|---|---|---:|"]
    for at, field, declared in fields_of(declaration):
        size = size_of(declared)
        cells = ["" if at is None else str(at), f"`{field}`", type_name(declared), "" if size is None else str(size)]
        lines.append("| " + " | ".join(cells) + " |")
    total = size_of(declaration)
    return "\n".join([*lines, f"| {total} | | | |"] if total is not None else lines)


def values_table(dotted: str) -> str:
    module, _, name = dotted.rpartition(".")
    lines = ["| value | type |", "|---|---|"]
    for member in members_of(getattr(importlib.import_module(module), name)):
        lines.append(f"| `{member.name}` | {member.kind}{', or absent' if member.is_optional else ''} |")
    return "\n".join(lines)


def versions_text(versions: Versions) -> str:
    if versions.low > versions.high:
        return ""
    if versions.high == HIGHEST_VERSION:
        return f"{versions.low}+"
    return str(versions.low) if versions.low == versions.high else f"{versions.low}-{versions.high}"


def field_text(field: Field, message: MessageSchema) -> str:
    """`Name type? 2+ tag 0`: may be null, from version 2 on; without what goes without saying."""
    inside = "{" + ", ".join(field_text(f, message) for f in field.struct.fields) + "}" if field.struct else field.type
    versions = "" if field.versions.low <= message.versions.low else " " + versions_text(field.versions)
    tag = f" tag {field.tag}" if field.tagged.low <= field.tagged.high else ""
    null = "?" if field.nullable.low <= field.nullable.high else ""
    return f"{field.name} {'[]' if field.is_array else ''}{inside}{null}{versions}{tag}"


def messages_table(_package: str) -> str:
    lines = ["| message | key | versions | flexible | fields |", "|---|---:|---|---|---|"]
    for message in (schema_of(name, of_4_4=True) for name in message_names(of_4_4=True)):
        fields = ", ".join(field_text(field, message) for field in message.struct.fields)
        key = "" if message.api_key is None else str(message.api_key)
        versions, flexible = versions_text(message.versions), versions_text(message.flexible)
        lines.append(f"| {message.name} | {key} | {versions} | {flexible} | {fields} |")
    return "\n".join(lines)


class RuleText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A rule of klogtool.broker.releases for people. situation: when it matters; yes, no: what a release does where the
    rule is true or false (a rule with other values names them itself); ticket: of the change."""

    rule: str
    area: str
    situation: str
    ticket: str
    yes: str = ""
    no: str = ""


RULES = msgspec.json.decode(pathlib.Path(__file__).with_name("release_rules.json").read_bytes(), type=list[RuleText])


def value_words(rules: Rules, about: RuleText) -> str:
    """What a release does by one of its rules."""
    value = getattr(rules, about.rule)
    if isinstance(value, bool):
        return about.yes if value else about.no
    if isinstance(value, int):
        return "no limit" if value == MAX_LONG else f"{value:,}{' ms' if '_ms_' in about.rule else ''}"
    if isinstance(value, MetadataLevels):
        return f"{value.lowest} to {value.highest}; {value.production} is the highest for production"
    if isinstance(value, FeatureLevels):
        levels = ((name.replace("_", "."), level) for name, level in asdict(value).items() if name != "known" and level)
        return ", ".join(f"{name} {level}" for name, level in levels) if value.known else "not known to klogtool"
    return EMPTIED[value]


EMPTIED = {
    EmptiedBatch.STAYS: "stays as an empty batch",
    EmptiedBatch.GOES: "goes",
    EmptiedBatch.STAYS_AT_HIGH_WATERMARK: "goes, unless it ends at the high watermark",
}


def spans_text(about: RuleText) -> str:
    """What a rule is in each release, runs of releases together."""
    runs = itertools.groupby(RELEASES, key=lambda release: value_words(rules_of(release), about))
    spans = ((words, list(releases)) for words, releases in runs)
    return "; ".join(f"**{_span(releases)}**: {words}" for words, releases in spans)


def _span(releases: list[str]) -> str:
    return releases[0] if len(releases) == 1 else f"{releases[0]} to {releases[-1]}"


def releases_table(_module: str) -> str:
    lines = ["| | if | then | rule | change |", "|---|---|---|---|---|"]
    for about in RULES:
        lines.append(f"| {about.area} | {about.situation} | {spans_text(about)} | `{about.rule}` | {about.ticket} |")
    return "\n".join(lines)


def findings_table(_module: str) -> str:
    lines = ["| severity | ids |", "|---|---|"]
    for severity in Severity:
        ids = " ".join(f"`{kind}`" for kind in Kind if kind.row.severity is severity)
        lines.append(f"| {severity.value} | {ids} |")
    return "\n".join(lines)


def contexts() -> dict[str, click.Context]:
    """The contexts of the commands, by name."""
    spec = importlib.util.spec_from_file_location(
        "make_man_pages", pathlib.Path(__file__).with_name("make_man_pages.py")
    )
    assert spec is not None
    assert spec.loader is not None
    man_pages = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(man_pages)
    return {context.command_path.partition(" ")[2]: context for context in man_pages.contexts()}


def options_of(context: click.Context) -> dict[str, tuple[str, str]]:
    """The options of a command as its help shows them: what is typed, and what it means."""
    shown = ((option, option.get_help_record(context)) for option in context.command.params if is_shown(option))
    return {option.opts[-1]: record for option, record in shown if record is not None}


def is_shown(option: click.Parameter) -> TypeGuard[click.Option]:
    return isinstance(option, click.Option) and not option.hidden


def options_table(what: str, table: str) -> str:
    """The options of a command: those that are its own, those under a heading, or those named. table: as it is now."""
    name, _, only = what.partition(": ")
    commands = contexts()
    context = commands[name]
    options = options_of(context)
    if only.startswith("--"):
        options = {option: options[option] for option in only.split(", ")}
    else:
        shared = options_of(commands[ALL_SHARED])
        options = {option: record for option, record in options.items() if shared.get(option) != record}
        for option in ("--jobs", *OF_SPARK):
            options.pop(option, None)
    if only and not only.startswith("--"):
        assert isinstance(context.command, Command)
        under = {option.opts[-1] for option in context.command.options_by_heading(context)[only]}
        options = {option: record for option, record in options.items() if option in under}
    more = {typed: cells.partition(" | ")[2] for typed, cells in ROW.findall(table)}
    wide = any(more.values())
    lines = ["| option | meaning | |", "|---|---|---|"] if wide else ["| option | meaning |", "|---|---|"]
    for typed, meaning in options.values():
        typed = typed.replace("|", "\\|")
        meaning = RANGE.sub("", DEFAULT.sub(r" Default: \1.", meaning))
        cells = [f"`{typed}`", HARD_FOR_MARKDOWN.sub(r"`\1`", meaning).replace("|", "\\|")]
        lines.append("| " + " | ".join([*cells, *([more.get(typed, "")] if wide else [])]) + " |")
    return "\n".join(lines)


def heading(kind: Kind) -> str:
    return f"### `{kind}` ({kind.row.severity.value})"


def with_tables(page: str) -> str:
    """The page with every table between marks written anew, and with the severity of each finding in its heading."""
    makers = {"layout": layout_table, "messages": messages_table, "values": values_table, "releases": releases_table}
    makers["findings"] = findings_table
    page = MARKED.sub(lambda found: f"{found[1]}\n{table_of(makers, found[2], found[3], found[4])}\n\n{found[5]}", page)
    return SECTION.sub(lambda found: heading(Kind(found[1])), page)


def table_of(makers: Mapping[str, Callable[[str], str]], kind: str, what: str, table: str) -> str:
    return options_table(what, table) if kind == "options" else makers[kind](what)


def pages_of_options() -> list[pathlib.Path]:
    """The pages with tables of options."""
    return [path for path in sorted(DOCS.glob("*.md")) if OPTIONS in path.read_text(encoding="utf-8")]


def with_sections(page: str) -> str:
    """The page of findings: its chapters are the areas, with a section for each kind, in the order of the table."""
    first, *parts = (part.strip() for part in HEADINGS.split(page))
    written = {part.partition("\n")[0]: part for part in parts}
    for area in Area:
        title = f"## {area.value}"
        sections = ((heading(kind), meanings()[kind].meaning) for kind in Kind if kind.row.area is area)
        texts = [written.get(title, title), *(written.get(head, f"{head}\n\n{text}") for head, text in sections)]
        first = "\n\n".join([first, *texts])
    return first + "\n"


if __name__ == "__main__":
    for path in (*PAGES, *pages_of_options()):
        path.write_text(with_tables(path.read_text(encoding="utf-8")), encoding="utf-8")
    findings = PAGES[-1]
    findings.write_text(with_sections(findings.read_text(encoding="utf-8")), encoding="utf-8")
