"""Cures of the files that identify a log dir or a partition, from what other files of the same disk contain."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from klogtool.causes import Reason
from klogtool.errors import KlogError
from klogtool.format.identity import parse_partition_metadata
from klogtool.format.java_numbers import parse_java_int
from klogtool.format.java_text import parse_properties
from klogtool.format.names import FileKind
from klogtool.format.uuids import build_uuid, is_reserved_directory_id, parse_uuid
from klogtool.log.file import read_whole
from klogtool.log.logdir import LogDir
from klogtool.log.partition import Partition
from klogtool.log.side_file import MOST_TEXT_BYTES
from klogtool.verify.causes import CureCause, CureRemark
from klogtool.verify.cures import edit, write_lines
from klogtool.verify.verify_voters import lost_directory_id, metadata_of

NEW_ID = CureRemark.NEW_ID()
NODE_ID_KEYS = {"1": "node.id", "0": "broker.id"}
MOST_PROPERTIES_BYTES = 1 << 20  # of a file that has four lines


def write_meta_properties(path: str, log_dirs: Sequence[LogDir]) -> Reason:
    """Write meta.properties, from its readable part and the broker's other log dirs."""
    lines = meta_properties_lines(path, log_dirs)
    if lines is not None:
        return write_lines(path, lines)
    metadata = metadata_of(os.path.dirname(path))
    voters = () if metadata is None else metadata.quorum.voters or ()
    known = ", ".join(f"node.id={voter.id} directory.id={voter.directory_id}" for voter in voters)
    return CureCause.META_PROPERTIES_OF_VOTER(voters=known) if known else CureCause.META_PROPERTIES()


def meta_properties_lines(path: str, log_dirs: Sequence[LogDir]) -> list[str] | None:
    """Return the lines of a right meta.properties, from its readable part and the broker's other log dirs; None if they
    do not say enough."""
    own = _properties(path)
    values = dict(_identity(own))
    for other in log_dirs:
        for key, value in _identity(_properties(os.path.join(other.path, FileKind.META_PROPERTIES.value))):
            if key != "directory.id":
                values.setdefault(key, value)
    version = "1" if "node.id" in values else "0"
    if "directory.id" not in values and "node.id" in values:
        known = lost_directory_id(os.path.dirname(path), log_dirs, parse_java_int(values["node.id"]))
        values |= {} if known is None else {"directory.id": known}
    wanted = ("cluster.id", NODE_ID_KEYS[version])
    if not all(key in values for key in wanted):
        return None
    present = [key for key in (*wanted, "directory.id") if key in values]
    return [f"version={version}", *(f"{key}={values[key]}" for key in present)]


def drop_directory_id(path: str, why: Reason = NEW_ID) -> Reason:
    """Let a broker create a new directory.id."""
    return edit(path, [r"/^\s*directory\.id\s*[=:]/d"], why)


def _properties(path: str) -> Mapping[str, str]:
    try:
        return parse_properties(read_whole(path, limit=MOST_PROPERTIES_BYTES))
    except KlogError:
        return {}


def _identity(properties: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the properties that can be right."""
    for key in ("cluster.id", "directory.id", *NODE_ID_KEYS.values()):
        value = properties.get(key)
        if value and value.isascii() and value.isprintable() and _is_possible(key, value):
            yield key, value


def _is_possible(key: str, value: str) -> bool:
    try:
        if key == "directory.id":
            return not is_reserved_directory_id(parse_uuid(value))
        return key == "cluster.id" or parse_java_int(value) >= 0
    except KlogError:
        return False


def write_partition_metadata(path: str, topic_id: str | None, remark: Reason | None = None) -> Reason:
    """Write partition.metadata. topic_id: None if unknown."""
    if topic_id is None:
        return CureCause.TOPIC_ID()
    return write_lines(path, ["version: 0", f"topic_id: {topic_id}"], remark)


def find_topic_id(topic: str, partitions: Iterable[Partition]) -> str | None:
    """Return the id that most partitions of a topic have."""
    ids = Counter(topic_id for p in partitions if p.topic == topic and (topic_id := read_topic_id(p)) is not None)
    return ids.most_common(1)[0][0] if ids else None


def read_topic_id(partition: Partition) -> str | None:
    """Return the id in partition.metadata; None if it cannot be read."""
    path = os.path.join(partition.path, FileKind.PARTITION_METADATA.value)
    try:
        return build_uuid(parse_partition_metadata(read_whole(path, limit=MOST_TEXT_BYTES)).topic_id)
    except KlogError:
        return None
