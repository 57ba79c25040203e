"""The doctor's answer, as text for people and as rows of JSON: the verdict first, then troubles, then what is fine."""

from __future__ import annotations

import os
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

import msgspec
from msgspec import Struct

from klogtool.broker.timestamps import duration_text
from klogtool.doctor.answers import (
    GIVING_UP,
    HIDING,
    Ahead,
    Diagnosis,
    Effect,
    Leadership,
    Option,
    Prospect,
    Starts,
    Trouble,
    What,
    Work,
)
from klogtool.doctor.claim_list import walk_claims
from klogtool.doctor.claims import BrokerClaim, Claim, LogDirClaim, OptionClaim, PartitionClaim
from klogtool.doctor.fixes import first_fix
from klogtool.escape import joined, quoted
from klogtool.format.names import PartitionDirState
from klogtool.log.folder import find_partition_dir_name
from klogtool.remote.safe_to_lose import NotSafe, SafePart
from klogtool.render.lookup import exact_time_text
from klogtool.render.plans import wrapped_table
from klogtool.render.retain import size_text
from klogtool.render.terminal import columns
from klogtool.render.words import count_text, in_words, offsets_text, words
from klogtool.verify.findings import Severity

MOST_TROUBLES = 50  # shown in full; the rest is counted
_MARKS = {Severity.ERROR: "!!", Severity.WARNING: "!", Severity.INFO: "."}
_INDENT = "        "
_HOST_FIELDS = ("name", "found", "recommended", "why", "path", "severity")
_ASIDE = {
    PartitionDirState.STRAY: "set aside as -stray, it stays as it is and serves nobody",
    PartitionDirState.FUTURE: "-future, a copy of a move between log dirs, it serves nobody until that is finished",
}


# JSON.


def diagnosis_rows(diagnosis: Diagnosis) -> Iterator[dict[str, object]]:
    """Yield the rows of docs/contract.md: the verdict, each point ahead, each option, each partition."""
    yield verdict_row(diagnosis)
    for trouble in diagnosis.troubles:
        yield from (_ahead_row(point) for point in trouble.ahead)
        yield from (_option_row(option) for option in trouble.options)
    yield from (_prospect_row(prospect) for prospect in diagnosis.prospects)
    yield from (claim_row(claim) for claim in walk_claims(diagnosis))
    yield from map(_tiered_row, diagnosis.tiered)
    yield from ({"type": "host", **_fields(point, *_HOST_FIELDS)} for point in diagnosis.host)


_ABOUT = {BrokerClaim: "broker", LogDirClaim: "log-dir", PartitionClaim: "partition", OptionClaim: "option"}


def claim_row(claim: Claim) -> dict[str, object]:
    """Return the row of a claim: the same fields, of which null is unknown."""
    return {"type": "claim", "about": _ABOUT[type(claim)], **msgspec.to_builtins(claim)}


def verdict_row(diagnosis: Diagnosis) -> dict[str, object]:
    """Return the row of the verdict."""
    as_of = _as_of(diagnosis)
    return {
        "type": "verdict",
        "kafka": diagnosis.kafka,
        "log_dirs": list(diagnosis.log_dirs),
        "starts": diagnosis.starts.value,
        "lost_records": diagnosis.lost_records,
        "all_lost_are_counted": all(_is_counted(point) for point in diagnosis.points if point.is_losing),
        "lost_ms": diagnosis.lost_ms,
        "bytes_to_scan": diagnosis.bytes_to_scan,
        "seconds_estimated": diagnosis.seconds_estimated,
        "as_of": None
        if as_of is None
        else {"path": as_of.path, "next_offset": _end_of(as_of, diagnosis), "timestamp": as_of.kept_timestamp},
        "partitions": len(diagnosis.prospects),
        "is_quick": diagnosis.is_quick,
        "notes": list(map(words, diagnosis.notes)),
    }


def _fields(answer: Struct, *names: str) -> dict[str, object]:
    row: dict[str, object] = in_words({name: getattr(answer, name) for name in names})
    return row


def _ahead_row(point: Ahead) -> dict[str, object]:
    own = _fields(point, "path", "what", "detail", "severity", "first_offset", "last_offset")
    lost = _fields(point, "lost_records", "lost_bytes", "lost_ms")
    stop = point.stop and {"class": point.stop.kafka_class, "message": point.stop.message}
    return {"type": "ahead", **own, **lost, "finding": point.kind, "exception": stop}


def _option_row(option: Option) -> dict[str, object]:
    return {
        "type": "option",
        "number": option.number,
        "for": option.path,
        **_fields(option, "title", "command"),
        "strategy": None if option.promise is None else option.promise.value,
        **_fields(option, "lost_records", "lost_ms"),
        "price": words(option.price) or None,
        "undo": option.is_undone,
        "fix": bool(option.remedies),
    }


def _prospect_row(prospect: Prospect) -> dict[str, object]:
    counts = _fields(prospect, "bytes_to_scan", "log_bytes", "unread_bytes", "log_end_offset", "segments")
    work, state = words(prospect.work()), _state_of(prospect).name.lower()
    return {"type": "partition", "path": prospect.path, "work": work, "state": state, **counts}


def _tiered_row(part: SafePart) -> dict[str, object]:
    """safe_offset: exclusive."""
    log = part.log
    return {
        "type": "tiered",
        "path": log.path,
        "log_start_offset": log.start,
        "local_start_offset": log.local_start,
        "safe_offset": part.end,
        "log_end_offset": log.end,
        "why": part.why.value,
        "detail": words(part.detail),
    }


def _as_of(diagnosis: Diagnosis) -> Ahead | None:
    """Return the point that says up to when data are kept: the one that loses most."""
    losing = [point for point in diagnosis.points if point.kept_timestamp is not None]
    return max(losing, key=lambda point: (point.lost_records, point.lost_bytes), default=None)


def _end_of(point: Ahead, diagnosis: Diagnosis) -> int | None:
    """Return where the log of a point ends after the start; None if unknown."""
    return next((prospect.log_end_offset for prospect in diagnosis.prospects if prospect.path == point.path), None)


# Text.


def diagnosis_text(diagnosis: Diagnosis) -> str:
    """Return the answer for people."""
    return joined(part for line in _lines(diagnosis) for part in _wrapped(line))


def _wrapped(line: str) -> list[str]:
    """Wrap a line for the terminal. Commands stay whole, so that they can be pasted."""
    text = line.lstrip()
    if not text or text.startswith(("→", "run ", "then ")):
        return [line]
    indent = " " * (len(line) - len(text) + 4)
    return textwrap.wrap(line, columns(), subsequent_indent=indent, break_on_hyphens=False, break_long_words=False)


def _lines(diagnosis: Diagnosis) -> Iterator[str]:
    yield headline(diagnosis)
    yield from (f"  {label:<12}{text}" for label, text in verdict_facts(diagnosis))
    for trouble in diagnosis.troubles[:MOST_TROUBLES]:
        yield ""
        yield from trouble_lines(trouble)
    left = len(diagnosis.troubles) - MOST_TROUBLES
    if left > 0:
        yield f"... and {count_text(left, 'more trouble')}: --format json has all."
    yield ""
    yield from _rest_lines(diagnosis)


def headline(diagnosis: Diagnosis) -> str:
    """Return the verdict in one sentence. Names alone (`--quick`) are no promise that nothing is lost."""
    count = len(diagnosis.log_dirs)
    disks = "this log dir" if count == 1 else f"these {count} log dirs"
    disks = "a log dir with these partitions" if diagnosis.may_be_copy else disks
    return f"A broker {diagnosis.kafka} {_fate_on(diagnosis, disks)}{_if_it_looks_there(diagnosis)}."


def _if_it_looks_there(diagnosis: Diagnosis) -> str:
    """Return where the settings have to lead a broker; empty if they do, or if it would not start."""
    path = diagnosis.metadata_log_dir_to_set
    if path is None or diagnosis.starts is Starts.REFUSES:
        return ""
    return f", if log.dirs begins with {quoted(path)}, or metadata.log.dir is that; else it refuses"


def _fate_on(diagnosis: Diagnosis, disks: str) -> str:
    if diagnosis.starts is Starts.REFUSES:
        stopping = [point for point in diagnosis.points if point.what is What.REFUSES]
        if not stopping and diagnosis.lead.elected is False:
            return f"comes up on {disks} and NEVER HAS A CONTROLLER: it serves nothing, and {_end_text(diagnosis.lead)}"
        why = count_text(len(stopping), "reason") if stopping else "all log dirs go offline"
        return f"REFUSES to start on {disks}: {why}"
    if diagnosis.starts is Starts.LOSES_DATA:
        if any(point.may_end for point in diagnosis.points):
            return f"MAY END on {disks}, or {_price_text(diagnosis)}"
        return f"would start on {disks} and {_price_text(diagnosis)}"
    is_gone = any(point.what is What.MISSING for point in diagnosis.points)
    nothing = f"nothing{' more' if is_gone else ''}"
    if diagnosis.is_quick:
        return f"would start on {disks}, as far as names and small files tell (--quick){_condition(diagnosis.lead)}"
    if diagnosis.lead.elected and diagnosis.lead.ends:
        return f"comes up on {disks} and NEVER REACHES THE CONTROLLER: it {_end_text(diagnosis.lead)}"
    condition = _condition(diagnosis.lead)
    if any(point.what is What.METADATA_BEHIND for point in diagnosis.points):
        return f"would start on {disks} and MAY LOSE METADATA{condition}"
    if condition:
        return f"would start on {disks} and lose {nothing}{condition}"
    is_promise = diagnosis.may_be_copy or not diagnosis.lacks_metadata  # a copy is told by itself
    return f"would start on {disks} and lose {nothing}{'' if is_promise else ', if its cluster has these partitions'}"


def _condition(lead: Leadership) -> str:
    """Return on what a leader depends; empty if nothing speaks against one."""
    if not lead.is_open:
        return ""
    if not lead.voters:
        return " if the controllers of its cluster elect a leader, which is not known here"
    voters = ", ".join(map(str, lead.voters))
    return f" if {lead.needed} of the voters {voters} elect a leader, which is not known here"


def _end_text(lead: Leadership) -> str:
    """Return when a process without a controller ends."""
    if lead.ends_after_ms is not None:
        seconds = lead.ends_after_ms // 1000
        return f"ends after about {'a minute' if seconds == 60 else count_text(seconds, 'second')}"
    return "waits for ever" if lead.ends is False else "a broker ends after about a minute"


def _risks_new(point: Ahead) -> bool:
    """Return whether nothing is hidden yet, but what is written next is: it comes behind damaged bytes."""
    return point.what is What.ENDS_EARLY and point.first_offset is None


# What a start does to data, the worst first: the verb of the first line, the label of the line with the numbers, and
# whether a point is about that.
_PRICES: tuple[tuple[str, str, Callable[[Ahead], bool]], ...] = (
    ("LOSE DATA", "lost", lambda point: point.what not in HIDING | GIVING_UP),
    ("HIDE DATA", "hidden", lambda point: point.what in HIDING and not _risks_new(point)),
    ("RISK NEW DATA", "at risk", _risks_new),
    ("NOT SERVE DATA", "not served", lambda point: point.what in GIVING_UP),
)


def _price_text(diagnosis: Diagnosis) -> str:
    """Return which kinds of loss there are, each with its places."""
    prices = []
    for verb, _, is_about in _PRICES:
        losing = _losing(diagnosis, is_about)
        if losing:
            prices.append(f"{verb} in {_places_text(diagnosis, losing)}")
    return ", and ".join(prices)


def _losing(diagnosis: Diagnosis, is_about: Callable[[Ahead], bool]) -> list[Ahead]:
    return [point for point in diagnosis.points if point.is_losing and is_about(point)]


def _places_text(diagnosis: Diagnosis, losing: Sequence[Ahead]) -> str:
    places = {point.path for point in losing}
    partitions = {prospect.path for prospect in diagnosis.prospects}
    if places <= partitions:
        return f"{len(places):,} of {count_text(len(partitions), 'partition')}"
    return count_text(len(places), "place")


def verdict_facts(diagnosis: Diagnosis) -> Iterator[tuple[str, str]]:
    """Yield what follows the verdict, each with its label: as of when, how much is lost, what to run."""
    as_of = _as_of(diagnosis)
    if as_of is not None and as_of.kept_timestamp is not None:
        offset = _end_of(as_of, diagnosis)
        end = "its end" if offset is None else f"offset {offset:,}"
        name = os.path.basename(as_of.path)
        yield "as of", f"{name} would end at {end}, last record of {exact_time_text(as_of.kept_timestamp)}"
    for _, label, is_about in _PRICES:
        if losing := _losing(diagnosis, is_about):
            yield label, _numbers_text(losing)
    for line in _stays(diagnosis):
        yield "stays", line
    if diagnosis.may_be_copy:
        yield "unknown", _COPY_OR_LOG_DIR
    fix = _fix_command(diagnosis)
    if fix is not None:
        yield "run", f"{fix}    # nothing is changed yet"
        yield "then", "klogtool apply plan.json; run klogtool doctor again; start the broker"


_COPY_OR_LOG_DIR = (
    "is this folder a copy of partition dirs, or a broker's log dir that lost meta.properties? On that no broker "
    "starts; name its server.properties (--config-file)"
)


def _numbers_text(losing: Sequence[Ahead]) -> str:
    """Return how many records points are about, and how much time. Bytes do not always tell how many they were."""
    records = count_text(sum(point.lost_records for point in losing), "record")
    if all(map(_risks_new, losing)):
        return "what is written next: it comes behind damaged bytes"
    if not any(point.lost_records for point in losing):
        text = "records that are not counted"
    else:
        text = records if all(map(_is_counted, losing)) else f"at least {records}, and an unknown number more"
    lost_ms = max(point.lost_ms for point in losing)
    return f"{text}, {duration_text(lost_ms)}" if lost_ms else text


def _is_counted(point: Ahead) -> bool:
    return (bool(point.lost_records) or _risks_new(point)) and not point.is_uncounted


def _stays(diagnosis: Diagnosis) -> Iterator[str]:
    """Yield what stays wrong after the start."""
    counts = Counter(point.what for point in diagnosis.points)
    if counts[What.STRAY]:
        yield f"{count_text(counts[What.STRAY], 'folder')} set aside as -stray, with all data"
    if counts[What.OFFLINE]:
        yield f"{count_text(counts[What.OFFLINE], 'place')} offline"
    if counts[What.CLEANER_STOPS]:
        yield "nothing is compacted"
    if counts[What.NEVER_STOPS]:
        yield "a broker that does not stop when it is told to"
    if counts[What.COORDINATOR_FAILS]:
        yield f"{count_text(counts[What.COORDINATOR_FAILS], 'partition')} that a coordinator cannot load"
    if counts[What.MISSING]:
        yield f"records that are gone already, in {count_text(counts[What.MISSING], 'place')}"
    if counts[What.DAMAGED]:
        yield f"damage at which consumers fail, in {count_text(counts[What.DAMAGED], 'partition')}"
    unread = sum(prospect.unread_bytes for prospect in diagnosis.prospects)
    if unread:
        yield f"{size_text(unread)} that this start does not check: klogtool verify looks for damage there"


def _fix_command(diagnosis: Diagnosis) -> str | None:
    numbers = [first.number for trouble in diagnosis.troubles if (first := first_fix(trouble)) is not None]
    if not numbers:
        return None
    paths = " ".join(map(quoted, diagnosis.log_dirs))
    options = "".join(f"--option {number} " for number in numbers) if len(numbers) <= 8 else ""
    return f"klogtool doctor {paths} --fix {options}--plan-out plan.json"


def trouble_lines(trouble: Trouble) -> Iterator[str]:
    """Yield the lines of a trouble: what is ahead, what to look at first, the options."""
    for point in trouble.ahead:
        yield f"  {_MARKS[point.severity]:2}  {trouble.path}"
        detail = words(point.detail).partition(chr(10))[0]
        yield f"{_INDENT}{detail if detail.startswith(point.what.value) else f'{point.what.value}: {detail}'}"
        if point.stop is not None:
            yield f"{_INDENT}{point.stop.kafka_class}: {point.stop.message.partition(chr(10))[0]}"
    yield from (f"{_INDENT}look first  {words(line)}" for line in trouble.look_first)
    for option in trouble.options:
        yield f"{_INDENT}{option.number:>3}  {words(option.title)}: {price_text(option)}"
        yield f"{_INDENT}     →  {words(option.command)}"


_EFFECTS = {
    Effect.LOOKS: "only looks, and changes nothing",
    Effect.KEEPS_ASIDE: "keeps all its files; a broker serves nobody from it",
}


def price_text(option: Option) -> str:
    """Return what an option costs, in a few words."""
    if option.erases_witness:
        lost = "brings nothing back, and erases what shows that records are missing"
    elif option.effect is not None:
        lost = _EFFECTS[option.effect]
    elif option.lost_records is None:
        lost = "how much it loses is unknown"
    else:
        lost = f"loses {count_text(option.lost_records, 'record')}" if option.lost_records else "loses nothing"
        lost += f", {duration_text(option.lost_ms)}" if option.lost_ms else ""
    diverges = ["may differ from other replicas"] if option.strategy.value == "may-diverge" else []
    undo = [] if not option.remedies else ["can be undone"]
    by_hand = [] if option.remedies else ["by hand"]
    return "; ".join([lost, *([words(option.price)] if option.price else []), *diverges, *undo, *by_hand])


def _rest_lines(diagnosis: Diagnosis) -> Iterator[str]:
    scanned = [prospect for prospect in diagnosis.prospects if prospect.bytes_to_scan]
    if scanned:
        seconds = diagnosis.seconds_estimated
        took = "" if seconds is None else f", {duration_text(round(seconds * 1000))} at the rate of this run"
        size = size_text(diagnosis.bytes_to_scan)
        yield f"  .   {count_text(len(scanned), 'partition')} to recover: {size} to scan{took}"
    troubled = {trouble.path for trouble in diagnosis.troubles}
    fine = [prospect for prospect in diagnosis.prospects if prospect.path not in troubled]
    works = Counter((noun_of(prospect), work_text(prospect)) for prospect in fine)
    yield from (f"  .   {count_text(count, noun)}: {work}" for (noun, work), count in works.most_common())
    yield from map(_tiered_line, diagnosis.tiered)
    yield from (f"  note: {words(note)}" for note in diagnosis.notes)
    for point in diagnosis.host:
        current, recommended = words(point.found), words(point.recommended)
        yield f"  {_MARKS[point.severity]:2}  {point.name}: {current}; recommended: {recommended}"
        if point.severity is not Severity.INFO:
            yield f"{_INDENT}{words(point.why)}"


def _tiered_line(part: SafePart) -> str:
    mark = _MARKS[Severity.INFO if part.why is NotSafe.NOT_SERVED else Severity.WARNING]
    return f"  {mark:2}  {part.log.topic}-{part.log.partition}: {safe_text(part)}"


def safe_text(part: SafePart) -> str:
    """Return which local offsets of a tiered topic are in remote storage as well, and why not more."""
    log = part.log
    text = f"nothing is safe to lose: {words(part.detail)}"
    if part.end > log.local_start:
        text = f"{offsets_text(log.local_start, part.end - 1)} are in remote storage as well, and safe to lose here"
        text += f"; {offsets_text(part.end, log.end - 1)} are not: {words(part.detail)}" if part.end < log.end else ""
    return text


def work_text(prospect: Prospect) -> str:
    """Return what happens to a partition dir. One whose name has a suffix serves nobody: that is not called clean."""
    aside = _ASIDE.get(_state_of(prospect))
    if aside is None:
        return words(prospect.work())
    return aside if prospect.work is Work.CLEAN else f"{aside}; {words(prospect.work())}"


def noun_of(prospect: Prospect) -> str:
    """Return what a partition dir is called: a partition only if the broker serves it."""
    return "folder" if _state_of(prospect) in _ASIDE else "partition"


def _state_of(prospect: Prospect) -> PartitionDirState:
    name = find_partition_dir_name(os.path.basename(prospect.path))
    return PartitionDirState.CURRENT if name is None else name.state


# Several releases.


def matrix_row(diagnosis: Diagnosis) -> dict[str, object]:
    """Return the verdict of one release, with all reasons."""
    why = [f"{os.path.basename(point.path)}: {words(point.detail)}" for point in diagnosis.points]
    return {**verdict_row(diagnosis), "why": "; ".join(why)}


def matrix_text(diagnoses: Sequence[Diagnosis]) -> str:
    """Return a table: releases that do the same share a line."""
    rows = [("release", "starts", "loses", "why")]
    for _, alike in groupby(diagnoses, _fate):
        group = list(alike)
        first, last = group[0], group[-1]
        releases = first.kafka if first is last else f"{first.kafka} - {last.kafka}"
        rows.append((releases, *_fate(first)))
    return joined(wrapped_table(rows))


def _fate(diagnosis: Diagnosis) -> tuple[str, str, str]:
    starts = {Starts.YES: "yes", Starts.LOSES_DATA: "yes, LOSES", Starts.REFUSES: "REFUSES"}[diagnosis.starts]
    loses = "-"
    if diagnosis.starts is Starts.LOSES_DATA:
        loses = "; ".join(text for label, text in verdict_facts(diagnosis) if label in {each[1] for each in _PRICES})
    return starts, loses, _why(diagnosis) or "-"


def _why(diagnosis: Diagnosis) -> str:
    """Return the worst points in a few words, which are the same for many releases."""
    reasons = [f"{os.path.basename(point.path)}: {_in_brief(point)}" for point in diagnosis.points]
    return "; ".join(reasons[:3]) + (f"; {len(reasons) - 3:,} more" if len(reasons) > 3 else "")


def _in_brief(point: Ahead) -> str:
    if point.what is not What.REFUSES:
        return str(point.what.value)
    return words(point.detail).partition(": Kafka ")[0].partition("\n")[0]
