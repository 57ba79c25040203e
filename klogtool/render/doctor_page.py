"""The doctor's answer as one HTML page for a ticket.

The answer is inside once more, for `klogtool doctor --from` (render/kept_answer.py).
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from klogtool.broker.timestamps import duration_text
from klogtool.doctor.answers import Diagnosis, Option, Prospect, SegmentDrawn, Starts, Trouble
from klogtool.render.doctor import (
    MOST_TROUBLES,
    diagnosis_text,
    headline,
    price_text,
    safe_text,
    verdict_facts,
    work_text,
)
from klogtool.render.doctor_drawing import PATTERNS, drawing, merged, torn
from klogtool.render.html_page import CLOSE_TABLE, MOST_ROWS, html_page, minute_text, open_table, shown, table_row
from klogtool.render.kept_answer import answer_block
from klogtool.render.lookup import exact_time_text
from klogtool.render.retain import size_text
from klogtool.render.words import count_text, words
from klogtool.verify.findings import Severity

MOST_SEGMENTS = 300  # drawn on a page
FEWEST_SEGMENTS = 6  # drawn of a partition, if many partitions are in trouble
MOST_BYTES, ROW_BYTES = 250_000, 180  # of troubles in full, less what each partition's row needs
FEWEST_BYTES = 70_000  # of troubles in full, if there are many partitions
_VERDICTS = {
    Starts.YES: ("fine", "✓ Starts"),
    Starts.LOSES_DATA: ("error", "✗ Starts and loses data"),
    Starts.REFUSES: ("error", "✗ Refuses to start"),
}
_SEVERITIES = {
    Severity.ERROR: ("error", "✗ error"),
    Severity.WARNING: ("warning", "! warning"),
    Severity.INFO: ("fine", "· note"),
}


def doctor_page(diagnosis: Diagnosis, rows: Sequence[Mapping[str, object]], status: int, now_ms: int) -> str:
    """Return the page. rows: what `--format json` prints; status: of the exit. Raises AboveLimit if the answer is too
    large for a page."""
    text = diagnosis_text(diagnosis)
    full = _full_troubles(diagnosis)
    body = [
        PATTERNS,
        *_header(diagnosis, now_ms),
        "<main>",
        *_verdict(diagnosis),
        *_troubles(diagnosis, full),
        *_work(diagnosis),
        *_partitions(diagnosis),
        *_remote(diagnosis),
        *_notes(diagnosis),
        "</main>",
        "<footer><p>This page has the whole answer inside: ",
        "<code>klogtool doctor --from FILE</code> prints it, also with <code>--format json</code>.</p></footer>",
        answer_block(text, rows, status),
    ]
    return html_page(shown(f"{_VERDICTS[diagnosis.starts][1][2:]}: klogtool doctor"), body)


def _header(diagnosis: Diagnosis, now_ms: int) -> Iterator[str]:
    kind, word = _VERDICTS[diagnosis.starts]
    if diagnosis.starts is Starts.YES and not diagnosis.is_silent:
        kind, word = "warning", "! Starts, with troubles"
    yield f'<header class="{kind}"><p class="{kind}"><b>{word}</b></p><h1>{shown(headline(diagnosis))}</h1>'
    yield f'<p class="muted">klogtool doctor, Kafka {shown(diagnosis.kafka)}, {minute_text(now_ms)}</p></header>'


def _verdict(diagnosis: Diagnosis) -> Iterator[str]:
    yield '<section aria-labelledby="verdict"><h2 id="verdict">Verdict</h2><dl>'
    dirs = "".join(f"<p><code>{shown(path)}</code></p>" for path in diagnosis.log_dirs)
    yield f"<dt>{'log dir' if len(diagnosis.log_dirs) == 1 else 'log dirs'}</dt><dd>{dirs}</dd>"
    for label, facts in groupby(verdict_facts(diagnosis), key=lambda fact: fact[0]):
        value = (f"<dd>{_command(value) if label == 'run' else shown(value)}</dd>" for _, value in facts)
        yield f"<dt>{shown(label)}</dt>{''.join(value)}"
    yield "</dl></section>"


def _command(text: str) -> str:
    command, _, remark = text.rpartition("    # ")  # the last one: a path may have the same
    return (
        f'<pre>{shown(command)}</pre><p class="muted">{shown(remark)}</p>' if command else f"<pre>{shown(text)}</pre>"
    )


# Troubles.


def _full_troubles(diagnosis: Diagnosis) -> list[str]:
    """Return the troubles that are shown in full: the worst ones, as many as there is room for."""
    prospects = {prospect.path: prospect for prospect in diagnosis.prospects}
    most = max(FEWEST_SEGMENTS, MOST_SEGMENTS // max(1, len(diagnosis.troubles)))
    articles: list[str] = []
    room = max(FEWEST_BYTES, MOST_BYTES - ROW_BYTES * len(diagnosis.prospects))
    for number, trouble in enumerate(diagnosis.troubles[:MOST_TROUBLES], 1):
        name = _name(trouble.path, diagnosis)
        text = "".join(_trouble(trouble, name, _prospect_of(trouble, prospects), number, most))
        room -= len(text)
        if room < 0 and articles:
            break
        articles.append(text)
    return articles


def _prospect_of(trouble: Trouble, prospects: Mapping[str, Prospect]) -> Prospect | None:
    """Return the partition of a trouble; its path may be that of a file in the partition dir."""
    return prospects.get(trouble.path) or prospects.get(os.path.dirname(trouble.path))


def _troubles(diagnosis: Diagnosis, full: Sequence[str]) -> Iterator[str]:
    if diagnosis.is_silent:
        return
    count = count_text(len(diagnosis.troubles), "trouble")
    yield f'<section aria-labelledby="troubles"><h2 id="troubles">{count}, the worst first</h2>'
    if len(diagnosis.troubles) > 1:
        yield from _index(diagnosis, len(full))
    yield from full
    yield "</section>"


def _index(diagnosis: Diagnosis, full: int) -> Iterator[str]:
    listed = diagnosis.troubles[:MOST_ROWS]
    yield open_table("All troubles", ("trouble", "severity", "what", "records lost", "time lost"), words=2)
    for number, trouble in enumerate(listed, 1):
        name = shown(_name(trouble.path, diagnosis))
        linked = f'<a href="#t{number}">{name}</a>' if number <= full else name
        worst = min((point.severity for point in trouble.ahead), key=list(_SEVERITIES).index)
        kind, word = _SEVERITIES[worst]
        what = ", ".join(dict.fromkeys(point.what.value for point in trouble.ahead))
        records = sum(point.lost_records for point in trouble.ahead)
        lost_ms = max(point.lost_ms for point in trouble.ahead)
        time = duration_text(lost_ms) if lost_ms else "0"
        yield table_row(linked, [f"<b class={kind}>{word}</b>", shown(what), f"{records:,}", time], words=2)
    yield CLOSE_TABLE
    if len(diagnosis.troubles) > len(listed):
        yield f"<p>{len(diagnosis.troubles) - len(listed):,} more are only in the answer inside.</p>"
    if len(diagnosis.troubles) > full:
        count = count_text(full, "trouble is", "troubles are")
        yield f"<p>The first {count} shown in full. The answer inside has the options of all.</p>"


def _trouble(trouble: Trouble, name: str, prospect: Prospect | None, number: int, most: int) -> Iterator[str]:
    yield f'<article id="t{number}" aria-labelledby="h{number}"><details open>'
    what = ", ".join(dict.fromkeys(point.what.value for point in trouble.ahead))
    yield f'<summary><h3 id="h{number}">{shown(name)}</h3><span class="muted">{what}</span></summary>'
    yield f'<p class="muted"><code>{shown(trouble.path)}</code></p>'
    for point in trouble.ahead:
        kind, word = _SEVERITIES[point.severity]
        first = next(iter(words(point.detail).splitlines()), "")
        yield f'<p class="{kind}"><b>{word}</b> {shown(first)}</p>'
        if point.stop is not None:
            yield f"<pre>{shown(point.stop.kafka_class)}: {shown(point.stop.message)}</pre>"
    if prospect is not None and prospect.segments_drawn:
        segments = merged(prospect.segments_drawn, most)
        yield drawing(segments, prospect, trouble.ahead, number)
        yield from _segments(segments, trouble, prospect)
    if trouble.look_first:
        yield "<h4>Look first</h4><ul>"
        yield from (f"<li>{shown(words(line))}</li>" for line in trouble.look_first)
        yield "</ul>"
    if trouble.options:
        yield "<h4>Options, the cheapest first</h4><ol>"
        yield from map(_option, trouble.options)
        yield "</ol>"
    yield "</details></article>"


def _name(path: str, diagnosis: Diagnosis) -> str:
    """Return a path without its log dir; that of a log dir as it is."""
    log_dir = next((folder for folder in diagnosis.log_dirs if path.startswith(f"{folder}/")), None)
    return path if log_dir is None else path[len(log_dir) + 1 :]


def _option(option: Option) -> str:
    return (
        f'<li value="{option.number}"><b>{shown(words(option.title))}</b>: {shown(price_text(option))}'
        f"<pre>{shown(words(option.command))}</pre></li>"
    )


def _segments(segments: Sequence[SegmentDrawn], trouble: Trouble, prospect: Prospect) -> Iterator[str]:
    count = count_text(sum(segment.segments for segment in segments), "segment")
    name = f"Segments of {os.path.basename(prospect.path)}, as they are now"
    yield f"<details><summary>{count} as a table</summary>"
    yield open_table(name, ("base offset", "after the start", "segments", "size", "first timestamp"), words=1)
    for segment in segments:
        first = "unknown" if segment.first_timestamp is None else exact_time_text(segment.first_timestamp)
        fate = "damaged end is cut" if segment in torn(segments, trouble.ahead) else _fate(segment, trouble)
        cells = [fate, f"{segment.segments:,}", size_text(segment.bytes), first]
        yield table_row(f"{segment.base_offset:,}", cells, words=1)
    yield f"{CLOSE_TABLE}</details>"


def _fate(segment: SegmentDrawn, trouble: Trouble) -> str:
    """Return what the start does to a segment."""
    end = segment.base_offset + 1 if segment.end_offset is None else max(segment.end_offset, segment.base_offset + 1)
    for point in trouble.ahead:
        if point.is_losing and point.first_offset is not None and point.last_offset is not None:
            if point.first_offset <= segment.base_offset and end <= point.last_offset + 1:
                return "lost"
            if point.first_offset < end and segment.base_offset <= point.last_offset:
                first, last = max(point.first_offset, segment.base_offset), min(point.last_offset, end - 1)
                return f"loses offsets {first:,} to {last:,}"
    return "kept"


# The rest.


def _work(diagnosis: Diagnosis) -> Iterator[str]:
    """Yield what the start does to partitions without trouble."""
    if not diagnosis.prospects:
        return
    yield '<section aria-labelledby="work"><h2 id="work">What the start does</h2>'
    if diagnosis.bytes_to_scan:
        took = diagnosis.seconds_estimated
        duration = "" if took is None else f", {duration_text(round(took * 1000))} at the rate of this machine"
        yield f"<p>{size_text(diagnosis.bytes_to_scan)} to scan{duration}.</p>"
    counts = Counter(work_text(prospect) for prospect in diagnosis.prospects)
    sizes = Counter[str]()
    for prospect in diagnosis.prospects:
        sizes[work_text(prospect)] += prospect.log_bytes
    yield open_table("Partitions by what happens to them", ("what happens", "partitions", "size of logs"))
    for work, count in counts.most_common():
        yield table_row(shown(work), [f"{count:,}", size_text(sizes[work])])
    yield f"{CLOSE_TABLE}</section>"


def _partitions(diagnosis: Diagnosis) -> Iterator[str]:
    """Yield a table of the partitions without trouble for each log dir."""
    troubled = {trouble.path for trouble in diagnosis.troubles}
    troubled |= {os.path.dirname(path) for path in troubled} - set(diagnosis.log_dirs)
    fine = [prospect for prospect in diagnosis.prospects if prospect.path not in troubled]
    if not fine:
        return
    count = count_text(len(fine), "partition")
    yield f'<section aria-labelledby="partitions"><h2 id="partitions">{count} without trouble</h2>'
    listed = fine[:MOST_ROWS]
    by_dir: dict[str, list[Prospect]] = {}
    for prospect in listed:
        by_dir.setdefault(os.path.dirname(prospect.path), []).append(prospect)
    for path, prospects in by_dir.items():
        yield from _partition_table(path, prospects)
    if len(fine) > len(listed):
        yield f"<p>{len(fine) - len(listed):,} more are only in the answer inside.</p>"
    yield "</section>"


_COLUMNS = ("partition", "what happens", "segments", "size", "to scan", "log end offset")


def _partition_table(path: str, prospects: Sequence[Prospect]) -> Iterator[str]:
    yield open_table(f"In {path}", _COLUMNS, words=1)
    for prospect in prospects:
        end = "" if prospect.log_end_offset is None else f"{prospect.log_end_offset:,}"
        scan = size_text(prospect.bytes_to_scan) if prospect.bytes_to_scan else "0"
        cells = [shown(work_text(prospect)), f"{prospect.segments:,}", size_text(prospect.log_bytes), scan, end]
        yield table_row(shown(os.path.basename(prospect.path)), cells, words=1)
    yield CLOSE_TABLE


def _remote(diagnosis: Diagnosis) -> Iterator[str]:
    if not diagnosis.tiered:
        return
    yield '<section aria-labelledby="remote"><h2 id="remote">In remote storage</h2>'
    yield open_table("What is safe to lose here", ("partition", "what", "local from", "safe below"), words=1)
    for part in diagnosis.tiered[:MOST_ROWS]:
        log = part.log
        cells = [shown(safe_text(part)), f"{log.local_start:,}", f"{part.end:,}"]
        yield table_row(shown(f"{log.topic}-{log.partition}"), cells, words=1)
    yield CLOSE_TABLE
    if len(diagnosis.tiered) > MOST_ROWS:
        yield f"<p>{len(diagnosis.tiered) - MOST_ROWS:,} more are only in the answer inside.</p>"
    yield "</section>"


def _notes(diagnosis: Diagnosis) -> Iterator[str]:
    if diagnosis.notes:
        yield '<section aria-labelledby="notes"><h2 id="notes">Notes</h2><ul>'
        yield from (f"<li>{shown(words(note))}</li>" for note in diagnosis.notes)
        yield "</ul></section>"
