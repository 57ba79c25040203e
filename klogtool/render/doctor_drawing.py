"""Segments of a partition in trouble, drawn along offset and time, as SVG in an HTML figure.

Positions are percentages and heights are pixels: the drawing fits any width, and its text keeps its size. Marks differ
in pattern or outline, not in colour only. Each drawing says in words what it shows.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise

from msgspec import Struct

from klogtool.doctor.answers import Ahead, Prospect, SegmentDrawn, What
from klogtool.format.names import parse_file_name
from klogtool.render.html_page import shown
from klogtool.render.lookup import exact_time_text
from klogtool.render.words import count_text

PATTERNS = (
    '<svg class="defs" aria-hidden="true" focusable="false"><defs>'
    '<pattern id="lost" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect class="tile" width="7" height="7"/><path class="stripe" d="M0 0V7"/></pattern></defs></svg>'
)
_LANE = 22  # pixels
_OFFSETS_TOP, _TIME_TOP = 18, 82
_LEAST_WIDTH = 0.6  # percent
_MARKS = {
    "kept": "a segment",
    "lost": "lost by the start",
    "missing": "missing already",
    "file": "a file with trouble",
}
_KIND_IN_LEGEND = {"time": "lost"}  # time in which all records are lost looks like a lost segment


class _Span(Struct, frozen=True):
    """A range on an axis, from `start` up to `end`, drawn as `kind`."""

    start: int
    end: int
    kind: str = "kept"


class Lane(Struct, frozen=True):
    """What lies along one axis, from `low` to `high`."""

    low: int
    high: int
    spans: tuple[_Span, ...]


def merged(segments: Sequence[SegmentDrawn], most: int) -> tuple[SegmentDrawn, ...]:
    """Return at most so many; neighbours become one."""
    if len(segments) <= most:
        return tuple(segments)
    cuts = [len(segments) * n // most for n in range(most + 1)]
    return tuple(_as_one(segments[start:stop]) for start, stop in pairwise(cuts))


def _as_one(run: Sequence[SegmentDrawn]) -> SegmentDrawn:
    return SegmentDrawn(
        run[0].base_offset,
        sum(segment.bytes for segment in run),
        run[-1].end_offset,
        run[0].first_timestamp,
        run[-1].last_timestamp,
        sum(segment.segments for segment in run),
    )


def drawing(segments: Sequence[SegmentDrawn], prospect: Prospect, points: Sequence[Ahead], number: int) -> str:
    """Return the figure of a partition. number: makes its ids unique. Empty if there is nothing to draw."""
    offsets, times = offset_lane(segments, points), time_lane(segments, points)
    if offsets is None:
        return ""
    end = prospect.log_end_offset if any(point.is_losing for point in points) else None
    height = _TIME_TOP + 42 if times is not None else _OFFSETS_TOP + 42
    parts = [
        f'<figure><svg role="img" aria-labelledby="s{number} d{number}" height="{height}">',
        f'<title id="s{number}">Segments of {shown(os.path.basename(prospect.path))}</title>',
        f'<desc id="d{number}">{shown(described(offsets, times, segments, end))}</desc>',
        *_lane("Offsets", offsets, _OFFSETS_TOP, [f"{offsets.low:,}", f"{offsets.high:,}"]),
        *([] if end is None else [_end_mark(offsets, end)]),
    ]
    if times is not None:
        parts += _lane("Time", times, _TIME_TOP, [_short_time(times.low), _short_time(times.high)])
    return "".join([*parts, "</svg>", *_legend((offsets, times), end), "</figure>"])


# What lies where.


def offset_lane(segments: Sequence[SegmentDrawn], points: Sequence[Ahead]) -> Lane | None:
    """Return segments and damage along offsets; None if nothing is known."""
    ranges = lost_ranges(points)
    parts = [part for one in segments for part in _parts(one.base_offset, _end_of(one), ranges)]
    missing = [
        _Span(point.first_offset, point.last_offset + 1, "missing")
        for point in points
        if point.what is What.MISSING and point.first_offset is not None and point.last_offset is not None
    ]
    covered = max((part.end for part in parts), default=0)
    uncovered = [_Span(max(start, covered), end, "lost") for start, end in ranges if end > covered]
    bad = [one for one in segments if _has_bad_file(one, points)] + torn(segments, points)
    files = [_Span(one.base_offset, _end_of(one), "file") for one in bad]
    return _lane_of([*parts, *uncovered, *missing, *files])


def lost_ranges(points: Iterable[Ahead]) -> list[tuple[int, int]]:
    """Return the ranges of offsets that the start loses or hides: from, up to."""
    return [
        (point.first_offset, point.last_offset + 1)
        for point in points
        if point.is_losing
        and point.first_offset is not None
        and point.last_offset is not None
        and point.last_offset >= point.first_offset
    ]


def _parts(start: int, end: int, ranges: Sequence[tuple[int, int]]) -> Iterator[_Span]:
    """Yield a segment, cut where lost offsets begin and end."""
    cuts = {at for low, high in ranges for at in (low, high) if start < at < end}
    for low, high in pairwise([start, *sorted(cuts), end]):
        yield _Span(low, high, "lost" if any(first <= low < last for first, last in ranges) else "kept")


def time_lane(segments: Sequence[SegmentDrawn], points: Sequence[Ahead]) -> Lane | None:
    """Return segments over the time that is lost; None if no timestamp is known. A segment whose last timestamp is
    unknown ends where the next one begins."""
    lost = [
        _Span(point.kept_timestamp, point.kept_timestamp + point.lost_ms, "time")
        for point in points
        if point.kept_timestamp is not None and point.kept_timestamp >= 0 and point.lost_ms > 0
    ]
    begins = [*(one.first_timestamp for one in segments[1:]), None][: len(segments)]
    spans, ranges = [], lost_ranges(points)
    for one, following in zip(segments, begins, strict=True):
        if one.first_timestamp is not None:
            ends = [at for at in (one.last_timestamp, following) if at is not None and at >= one.first_timestamp]
            kind = "lost" if any(low <= one.base_offset < high for low, high in ranges) else "kept"
            spans.append(_Span(one.first_timestamp, ends[0] if ends else one.first_timestamp, kind))
    return _lane_of([*lost, *spans])


def _end_of(segment: SegmentDrawn) -> int:
    return segment.base_offset if segment.end_offset is None else max(segment.base_offset, segment.end_offset)


def torn(segments: Sequence[SegmentDrawn], points: Iterable[Ahead]) -> list[SegmentDrawn]:
    """Return the last segment if the start cuts bytes at its end that are no record."""
    is_cut = any(point.what is What.TRUNCATED and point.first_offset is None for point in points)
    return list(segments[-1:]) if is_cut else []


def _has_bad_file(segment: SegmentDrawn, points: Sequence[Ahead]) -> bool:
    bases = {parse_file_name(os.path.basename(point.path)).base_offset for point in points}
    begins, ends = segment.base_offset, max(_end_of(segment), segment.base_offset + 1)
    return any(base is not None and begins <= base < ends for base in bases)


def _lane_of(spans: Sequence[_Span]) -> Lane | None:
    if not spans:
        return None
    return Lane(min(span.start for span in spans), max(span.end for span in spans), tuple(spans))


# In words.


def described(offsets: Lane, times: Lane | None, segments: Sequence[SegmentDrawn], end: int | None) -> str:
    """Return what a drawing shows, in sentences."""
    count = count_text(sum(segment.segments for segment in segments), "segment")
    lines = [f"{count}, offsets {offsets.low:,} to {offsets.high:,}"]
    if times is not None:
        lines.append(f"from {exact_time_text(times.low)} to {exact_time_text(times.high)}")
    for kind in ("lost", "missing"):
        ranges = _joined(span for span in offsets.spans if span.kind == kind)
        lines += [_range_text(start, end - 1, _MARKS[kind]) for start, end in ranges]
    if end is not None:
        lines.append(f"after the start the log ends at offset {end:,}")
    return "; ".join(lines) + "."


def _range_text(first: int, last: int, mark: str) -> str:
    return f"offset {first:,} is {mark}" if first == last else f"offsets {first:,} to {last:,} are {mark}"


def _joined(spans: Iterable[_Span]) -> list[tuple[int, int]]:
    """Return where spans lie; those that touch are one."""
    ranges: list[tuple[int, int]] = []
    for span in spans:
        if ranges and ranges[-1][1] >= span.start:
            ranges[-1] = (ranges[-1][0], max(ranges[-1][1], span.end))
        else:
            ranges.append((span.start, span.end))
    return ranges


def _short_time(timestamp: int) -> str:
    return exact_time_text(timestamp)[:19].replace("T", " ")


# SVG.


def _lane(name: str, lane: Lane, top: int, ends: Sequence[str]) -> Iterator[str]:
    yield f'<text y="{top - 6}">{name}</text><svg y="{top}" height="{_LANE}">'
    for kind, spans in groupby(lane.spans, key=lambda span: span.kind):
        yield f'<g class="{kind}">'
        for x, width in (_place(lane, span) for span in spans):
            yield f'<rect x="{x:.4g}%" width="{width:.4g}%" height="{_LANE}"/>'
        yield "</g>"
    low, high = ends
    yield f'</svg><text y="{top + _LANE + 15}">{shown(low)}</text>'
    yield f'<text x="100%" y="{top + _LANE + 15}" text-anchor="end">{shown(high)}</text>'


def _place(lane: Lane, span: _Span) -> tuple[float, float]:
    """Return where a span begins, and its width, in percent. None is too narrow to be seen."""
    room = max(lane.high - lane.low, 1)
    width = min(max(100 * (span.end - span.start) / room, _LEAST_WIDTH), 100.0)
    return min(100 * (span.start - lane.low) / room, 100 - width), width


def _end_mark(lane: Lane, end: int) -> str:
    x = 100 * (min(max(end, lane.low), lane.high) - lane.low) / max(lane.high - lane.low, 1)
    return (
        f'<svg x="{x:.4g}%" y="{_OFFSETS_TOP - 8}" width="1" height="1">'
        f'<path class="end" d="M0 {_LANE + 12}V6L-5 0H5L0 6"/></svg>'
    )


def _legend(lanes: Iterable[Lane | None], end: int | None) -> Iterator[str]:
    kinds = {_KIND_IN_LEGEND.get(span.kind, span.kind) for lane in lanes if lane is not None for span in lane.spans}
    yield "<figcaption><ul>"
    for kind, text in _MARKS.items():
        if kind in kinds:
            yield f'<li><svg aria-hidden="true"><rect class="{kind}" x="1" y="1" width="22" height="12"/></svg>'
            yield f"{text}</li>"
    if end is not None:
        yield '<li><svg aria-hidden="true"><path class="end" d="M12 14V7L7 1h10l-5 6"/></svg>'
        yield f"the log ends here after the start: {end:,}</li>"
    yield "</ul></figcaption>"
