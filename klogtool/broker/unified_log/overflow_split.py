"""Splits a segment whose offsets do not fit its indexes (LocalLog.splitOverflowedSegment, replaceSegments).

Brokers before Kafka 2.0 could write such segments (KAFKA-6264). A damaged offset looks the same and is treated the
same.
"""

from __future__ import annotations

from collections.abc import Iterator

from klogtool.broker.draft import span_of
from klogtool.broker.unified_log.content_file import ContentFile
from klogtool.broker.unified_log.log_segment import LogSegment, first_inner_offset, walk_entries
from klogtool.broker.unified_log.log_segments import DELETED, LogSegments
from klogtool.errors import Corrupt
from klogtool.format.batch import CODEC_MASK
from klogtool.format.framing import CURRENT_MAGIC
from klogtool.format.indexes import to_relative_offset
from klogtool.format.names import MAPPED_INDEXES, FileKind, build_file_name
from klogtool.log.entries import Entry, Message

CLEANED, SWAP = ".cleaned", ".swap"
_MILLISECOND_NS = 1_000_000


def split_overflowed_segment(segment: LogSegment, segments: LogSegments) -> list[LogSegment]:
    """Replace one segment by several; return the removed ones that have no successor of the same base offset.

    Raises Corrupt if nothing overflows (IllegalArgumentException), or the segment cannot be read to its end.
    """
    if not segment.has_overflow():
        raise Corrupt(
            f"Split operation is only permitted for segments with overflow, and the problem path is {segment.log_name}",
            path=segment.path,
            kafka_class="IllegalArgumentException",
        )
    new = _split(segment)
    total = sum(part.size for part in new)
    if total != segment.size:
        raise _illegal_state(segment, f"Inconsistent segment sizes after split before: {segment.size} after: {total}")
    return replace_segments(segments, new, [segment])


def _split(segment: LogSegment) -> list[LogSegment]:
    new: list[LogSegment] = []
    position = 0
    with segment.open_log() as file:
        while position < file.size:
            base_offset = _base_of_first(file, position)
            # The second part of one base offset would take the first one's files, and Kafka fails to rename them.
            if base_offset in (one.base_offset for one in new):
                name = build_file_name(FileKind.LOG, base_offset, CLEANED)
                raise Corrupt(name, path=segment.path, kafka_class="NoSuchFileException")
            part = LogSegment(segment.draft, base_offset, segment.config, CLEANED, rules=segment.rules)
            new.append(part)
            appended = _append_what_fits(part, segment, file, position)
            if not appended:
                raise _illegal_state(segment, f"Failed to append records from position {position}")
            position += appended
    for part in new:
        part.become_inactive()
        part.write_back()
        copy_mtime(part, segment)
    return new


def _base_of_first(file: ContentFile, position: int) -> int:
    entry = next(walk_entries(file, position), None)
    if entry is None:
        raise Corrupt("no whole batch", path=file.path, position=position, kafka_class="NoSuchElementException")
    if isinstance(entry, Message):
        return first_inner_offset(entry) if entry.attributes & CODEC_MASK else entry.offset
    return entry.base_offset


def _append_what_fits(part: LogSegment, source: LogSegment, file: ContentFile, position: int) -> int:
    """Append batches of the source from a position on, up to one whose offset the part cannot hold; return how many
    bytes."""
    end = position
    for entry in walk_entries(file, position):
        if to_relative_offset(entry.last_offset, part.base_offset) is None:
            break
        end += entry.size
    if end > position:
        content = span_of(source.draft.files[source.log_name].content, position, end - position)
        part.append(content, _checked(walk_entries(file, position, end)))
    return end - position


def _checked(entries: Iterator[Entry]) -> Iterator[Entry]:
    """Check that batches which go through memory have a known magic (ByteBufferLogInputStream)."""
    for entry in entries:
        if not 0 <= entry.magic <= CURRENT_MAGIC:
            raise Corrupt(
                f"Invalid magic found in record: {entry.magic}",
                path=entry.path,
                position=entry.position,
                kafka_class="CorruptRecordException",
            )
        yield entry


def copy_mtime(part: LogSegment, source: LogSegment) -> None:
    """Copy the mtime, which retention, lookup and cleaning use; Kafka sets it in whole milliseconds."""
    draft, mtime_ns = part.draft, part.draft.files[source.log_name].mtime_ns
    if mtime_ns is None:
        return
    for kind in (FileKind.LOG, *MAPPED_INDEXES):
        name = part.name_of(kind)
        draft.write(name, draft.files[name].content, mtime_ns // _MILLISECOND_NS * _MILLISECOND_NS)


def replace_segments(segments: LogSegments, new: list[LogSegment], old: list[LogSegment]) -> list[LogSegment]:
    """Put new segments, named `.cleaned` so far, in place of old ones; return the old ones whose base offsets are gone.

    This is LocalLog.replaceSegments without its crash safety, which the plan's steps provide.
    """
    new, taken = sorted(new, key=lambda segment: segment.base_offset), {segment.base_offset for segment in new}
    # As in Kafka: a segment that is not in the map, because its loading failed, is not renamed. It stays or is
    # replaced.
    known = sorted((part for part in old if part.base_offset in segments), key=lambda segment: segment.base_offset)
    for segment in reversed(new):
        segment.change_suffix(SWAP)
        segments.add(segment)
    for segment in known:
        if segment.base_offset != new[0].base_offset:
            segments.remove(segment.base_offset)
        segment.change_suffix(DELETED)
    for segment in new:
        segment.change_suffix("")
    return [segment for segment in known if segment.base_offset not in taken]


def _illegal_state(segment: LogSegment, reason: str) -> Corrupt:
    return Corrupt(f"{reason} in {segment.log_name}", path=segment.path, kafka_class="IllegalStateException")
