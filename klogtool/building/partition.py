"""One partition: its batches are appended as a follower appends them, and all other files follow from that.

Segments roll as on a broker, batch by batch; or, if the spec lists segments, only where it says. Bytes that the spec
gives raw go into the `.log`, and nothing derived knows of them.
"""

from __future__ import annotations

import hashlib
import os

from msgspec import UNSET, Struct
from msgspec.structs import replace

from klogtool.broker.appending.appender import Appender, Call
from klogtool.broker.circumstances import LoadTerms
from klogtool.broker.config import LogConfig, check_names, log_config
from klogtool.broker.content import joined
from klogtool.broker.draft import Draft
from klogtool.broker.releases import Release, rules_of
from klogtool.broker.unified_log.log_loader import LoadedLog
from klogtool.broker.unified_log.rolling import Incoming, roll, should_roll
from klogtool.building.entries import Course, build_end, build_entries
from klogtool.building.generated import walk_batches
from klogtool.building.places import at_place
from klogtool.building.spec import BATCH_BYTES, File, PartitionSpec, Roll, SegmentSpec, Setting, Spec, StepSpec
from klogtool.building.spec_data import chunk_bytes, content_bytes
from klogtool.errors import KlogError
from klogtool.format.batch import parse_batch
from klogtool.format.control import ControlRecordType
from klogtool.format.framing import walk_frames
from klogtool.format.identity import PartitionMetadata, build_partition_metadata
from klogtool.format.java_numbers import MAX_INT, MAX_LONG
from klogtool.format.names import FileKind, TopicPartition, build_file_name
from klogtool.format.uuids import UUID_SIZE, parse_uuid
from klogtool.log.folder import find_partition_dir_name

MOST_NAME_BYTES = 255  # of one name; the limit of the system
_METADATA = FileKind.PARTITION_METADATA.value
_KEEPS_ALL = MAX_INT  # in place of segment.bytes where a spec lists its segments


class Terms(Struct, frozen=True):
    """What all partitions of a spec share."""

    kafka: Release
    start_ms: int
    step_ms: int
    config: dict[str, Setting]


class BuiltPartition(Struct, frozen=True):
    """A partition dir as made, and what the log dir's checkpoints say of it; None: no line."""

    dir: str
    draft: Draft
    topic_partition: TopicPartition | None
    log_start_offset: int
    log_end_offset: int
    segments: int
    batches: int
    recovery_point: int
    high_watermark: int
    log_start_checkpoint: int | None
    first_dirty_offset: int | None


def dir_name(partition: PartitionSpec) -> str:
    """Return the name of the partition dir. Raises KlogError if the spec does not say it, or says it twice."""
    if (partition.topic is None) == (partition.dir is None):
        raise KlogError("a partition has either a topic or a dir")
    name = partition.dir if partition.topic is None else f"{partition.topic}-{partition.partition}"
    assert name is not None
    if find_partition_dir_name(name) is None or "/" in name:
        raise KlogError(f"not the name of a partition dir: {name[:MOST_NAME_BYTES]!r}")
    check_name(name)
    return name


def build_partition(partition: PartitionSpec, terms: Terms) -> BuiltPartition:
    """Make a partition dir. Raises KlogError, with the place in the partition, for what cannot be."""
    name = dir_name(partition)
    if partition.segments and partition.log:
        raise KlogError("a partition has either a log or segments")
    log = LogInMaking(partition, terms, name)
    if partition.segments:
        log.take_segments(partition.segments)
    else:
        for n, step in enumerate(partition.log):
            with at_place(f"log[{n}]"):
                log.take(StepSpec(roll=Roll()) if step == "roll" else step)
    built = log.finish()
    take_listed_files(built.draft, partition)
    return built


def settings_of(partition: PartitionSpec, terms: Terms) -> LogConfig:
    """Return the settings of a topic. Raises KlogError for an unknown one, and for a wrong value."""
    settings = {name: _setting_text(value) for name, value in {**terms.config, **partition.config}.items()}
    check_names(settings)
    config = log_config(settings)
    return replace(config, segment_bytes=_KEEPS_ALL) if partition.segments else config


def topic_id_of(name: str) -> bytes:
    """Return an id made from a name: the same for the same name, and none that begins with a hyphen in text."""
    digest = hashlib.sha256(name.encode(errors="surrogateescape")).digest()[:UUID_SIZE]
    return bytes([digest[0] & 0x7F]) + digest[1:]


class LogInMaking:
    """A log that a spec is appended to, step by step."""

    def __init__(self, partition: PartitionSpec, terms: Terms, name: str) -> None:
        """Begin with an empty log. Raises KlogError for wrong settings."""
        self._partition, self._name = partition, name
        config = settings_of(partition, terms)
        start = partition.segments[0].base if partition.segments else partition.start
        # The name of a partition dir without its state: a broker loads no log of a dir that it deletes.
        parsed = find_partition_dir_name(name)
        self.draft = Draft(name if parsed is None else f"{parsed.topic}-{parsed.partition}", {})
        self._add_metadata()
        self.draft.write(build_file_name(FileKind.LOG, start), b"")
        loaded = LoadTerms(config, terms.start_ms, terms.start_ms, is_clean=True, rules=rules_of(terms.kafka))
        self.log = LoadedLog(self.draft, loaded)
        self.course = Course(terms.start_ms, terms.step_ms, partition.leader_epoch, partition.magic, start)
        self._appender = Appender(self.log, rolls=not partition.segments)
        self._takes_many = loaded.rules.index_entry_per_batch
        self.batches = 0

    def take_segments(self, segments: tuple[SegmentSpec, ...]) -> None:
        """Append all steps of segments. Raises KlogError, with the place."""
        for n, segment in enumerate(segments):
            with at_place(f"segments[{n}]"):
                if n:
                    self.roll(segment.base)
                for m, step in enumerate(segment.log):
                    with at_place(f"log[{m}]"):
                        self.take(step)

    def take(self, step: StepSpec) -> None:
        """Do what a step says. Raises KlogError for what cannot be."""
        fields = [name for name in step.__struct_fields__ if getattr(step, name) is not None]
        if len(fields) != 1:
            known = ", ".join(step.__struct_fields__)
            raise KlogError(f"a step is one of {known}; here are {' and '.join(fields) or 'none'}")
        kind = fields[0]
        match kind:
            case "batch":
                assert step.batch is not None
                self.append(build_entries(step.batch, self.course))
            case "generate":
                assert step.generate is not None
                most = min(BATCH_BYTES, self.log.terms.config.segment_bytes)
                for batches in walk_batches(step.generate, self.course, step.generate.batch_bytes or max(1, most)):
                    self._append_many(batches)
            case "commit" | "abort":
                if self.course.magic < 2:
                    raise KlogError(f"magic {self.course.magic} has no transactions")
                if step.commit is not None:
                    self.append(build_end(step.commit, ControlRecordType.COMMIT, self.course))
                elif step.abort is not None:
                    self.append(build_end(step.abort, ControlRecordType.ABORT, self.course))
            case "roll":
                assert step.roll is not None
                self.roll(step.roll.at)
            case "gap":
                self.course.next_offset += step.gap or 0
            case "wait":
                self.course.now_ms = min(self.course.now_ms + (step.wait or 0), MAX_LONG)
            case _:
                assert step.raw is not None
                self.put_raw(content_bytes(step.raw))

    def append(self, data: bytes, batches: int = 1) -> None:
        """Append batches that are one write. Raises KlogError if a broker refuses them."""
        log = self.log
        first_segment, size = log.segments.last, log.segments.last.size
        self._appender.append(Call((data,), True, MAX_INT, max(0, self.course.now_ms)))
        log.update_high_watermark(log.log_end_offset)
        log.run_scheduled()
        last = log.segments.last
        if last.size - (size if last is first_segment else 0) != len(data):
            raise KlogError("a broker would not append all of this: give it as raw")
        self.batches += batches

    def roll(self, at: int | None) -> None:
        """Begin a new segment. Raises KlogError if it cannot begin there."""
        base = max(self.log.log_end_offset if at is None else at, self.course.next_offset)
        if at is not None and at < base:
            raise KlogError(f"a segment cannot begin at {at}: the log ends at {base}")
        if base == self.log.segments.last.base_offset:
            raise KlogError(f"there is a segment that begins at {base} already")
        roll(self.log, base)
        self.log.run_scheduled()
        self.course.next_offset = base

    def put_raw(self, data: bytes) -> None:
        """Put bytes into the `.log` of the active segment."""
        name = self.log.segments.last.log_name
        self.draft.write(name, joined(self.draft.files[name].content, (data,)))

    def finish(self) -> BuiltPartition:
        """Stop the log as a broker does. Raises KlogError for a log start above the log's end."""
        log, wanted = self.log, self._partition
        if wanted.log_start_offset is not None:
            log.maybe_increment_log_start_offset(wanted.log_start_offset)
        log.stop()
        parsed = find_partition_dir_name(self._name)
        assert parsed is not None
        is_held = parsed.state.is_live
        return BuiltPartition(
            self._name,
            self.draft,
            TopicPartition(parsed.topic, parsed.partition) if is_held else None,
            log.log_start_offset,
            log.log_end_offset,
            len(log.segments),
            self.batches,
            log.log_end_offset if wanted.recovery_point is None else wanted.recovery_point,
            log.log_end_offset if wanted.high_watermark is None else wanted.high_watermark,
            log.log_start_checkpoint,
            wanted.first_dirty_offset,
        )

    def _add_metadata(self) -> None:
        """Write partition.metadata, unless the spec says that there is none."""
        topic_id, topic = self._partition.topic_id, self._name.rpartition("-")[0]
        if topic_id is None:
            return
        identity = topic_id_of(topic) if topic_id is UNSET else parse_uuid(str(topic_id))
        self.draft.write(_METADATA, build_partition_metadata(PartitionMetadata(0, identity)))

    def _append_many(self, data: bytes) -> None:
        """Append batches as if each were a write of its own. As long as none of them rolls, that is the same as one
        write."""
        frames = list(walk_frames(data, 0, len(data)))
        pending = [(0, len(frames))]
        while pending:
            first, stop = pending.pop()
            batches = data[frames[first].position : frames[stop - 1].position + frames[stop - 1].size]
            if stop - first == 1 or self._fits(batches, stop - first):
                self.append(batches, stop - first)
            else:
                middle = (first + stop) // 2
                pending += [(middle, stop), (first, middle)]

    def _fits(self, batches: bytes, count: int) -> bool:
        """Whether several batches can be one write: none of them rolls, and releases index each of them."""
        if not self._takes_many:
            return False
        last = parse_batch(batches, list(walk_frames(batches, 0, len(batches)))[-1].position)
        segment, interval = self.log.segments.last, self.log.terms.config.index_interval_bytes
        entries = min(count, len(batches) // max(1, interval) + 1)
        indexes = segment.offset_index, segment.time_index
        has_room = all(index.entries + entries < index.max_entries - 1 for index in indexes)
        if self._partition.segments:
            return has_room
        return has_room and not should_roll(self.log, Incoming(len(batches), last.max_timestamp, last.last_offset)).due


def _setting_text(value: Setting) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def take_listed_files(draft: Draft, listing: PartitionSpec | Spec) -> None:
    """Put files in place that the spec has as they are, and take away those that it does without. Raises KlogError for
    a name that cannot be one."""
    for n, file in enumerate(listing.files):
        with at_place(f"files[{n}]"):
            name = name_of(file)
            check_name(name)
            draft.write(name, content_bytes(file.content))
    for name in listing.absent:
        if name not in draft:
            raise KlogError(f"absent: there would be no file of this name: {name}")
        draft.delete(name)


def name_of(file: File) -> str:
    """Return the name of a file, as Python has names that are not UTF-8."""
    return file.name if isinstance(file.name, str) else os.fsdecode(chunk_bytes(file.name))


def check_name(name: str) -> None:
    """Raises KlogError for a path that is not within its folder."""
    parts = name.split("/")
    if "\0" in name or any(part in ("", ".", "..") or len(_as_bytes(part)) > MOST_NAME_BYTES for part in parts):
        raise KlogError(f"not a name of a file within its folder: {name[:MOST_NAME_BYTES]!r}")


def _as_bytes(name: str) -> bytes:
    """Return a name as the system has it. Raises KlogError for one that it cannot have."""
    try:
        return os.fsencode(name)
    except UnicodeEncodeError:
        raise KlogError(f"not a name of a file: {name!r}") from None
