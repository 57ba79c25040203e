"""Names of objects in remote storage, parsed: which layout, which segment, which part of it. Never raises."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum

from msgspec import Struct

from klogtool.format.java_numbers import MAX_INT, MAX_LONG
from klogtool.format.tiered import aiven, local_storage
from klogtool.format.tiered.segments import SegmentKey


class TierLayout(Enum):
    """How objects are called, and what is in them. The last ones are recognised by their names, and not read."""

    LOCAL = "LocalTieredStorage"
    AIVEN = "Aiven"
    ICEBERG = "Aiven, Iceberg"
    PINTEREST = "Pinterest"
    CONFLUENT = "Confluent"
    REDPANDA = "Redpanda"
    AUTOMQ = "AutoMQ"
    WARPSTREAM = "WarpStream"
    INKLESS = "Inkless"
    UNKNOWN = "unknown"


READ = (TierLayout.LOCAL, TierLayout.AIVEN)
_OTHERS = {
    TierLayout.ICEBERG: re.compile(r"(.*/)?metadata/[A-Za-z0-9_-]{22}\.puffin"),
    TierLayout.PINTEREST: re.compile(r"(.*/)?[^/]+-\d{1,10}/\d{20}\.(log|index|timeindex)"),
    # Names of these two are from what is publicly known of them; no store of theirs was tried.
    TierLayout.CONFLUENT: re.compile(
        r"(.*/)?\d{20}_\d+_v\d+\.(segment|segment-with-metadata|offset-index|timestamp-index|transaction-index|"
        r"producer-state|epoch-state)"
    ),
    TierLayout.REDPANDA: re.compile(
        r"(.*/)?[0-9a-f]{8}/([^/]+/)+(\d+_\d+/)?((topic_|partition_)?manifest\.(json|bin)|\d+-\d+-\d+-\d+-v\d+\.log(\.\d+)?)"
    ),
    TierLayout.AUTOMQ: re.compile(r"(.*/)?[0-9a-f]{8}/([^/]+/)?\d{1,19}"),
    # Its files have no public names; its documentation promises that all of them are in this folder.
    TierLayout.WARPSTREAM: re.compile(r"(.*/)?warpstream/.+"),
    # A WAL object has the text of a Kafka Uuid as its whole name, which a word of small letters is not.
    TierLayout.INKLESS: re.compile(r"(.*/)?(?=[^/]*[A-Z])(?=[^/]*[a-z])[A-Za-z0-9_-]{22}"),
}


class ObjectName(Struct, frozen=True):
    """The name of an object. folder: what stands before the last `/`. topic: with Aiven, a key.prefix that does not end
    in `/` is in front of it."""

    layout: TierLayout
    key: SegmentKey
    topic: str
    start_offset: int
    folder: str
    suffix: str


def parse_object_name(path: str) -> ObjectName | None:
    """Parse the path of an object, however much stands before it. None: it is of no layout that klogtool reads."""
    *above, name = path.split("/")
    match = local_storage.OBJECT.fullmatch(name)
    if match is None or not above or int(match["start_offset"]) > MAX_LONG:
        return None
    suffix, start = match["suffix"], int(match["start_offset"])
    folder = "/".join(above)
    place = local_storage.FOLDER.fullmatch(above[-1])
    if place is not None and suffix in local_storage.SUFFIXES and int(place["partition"]) <= MAX_INT:
        key = SegmentKey(place["topic_id"], int(place["partition"]), match["segment_id"])
        return ObjectName(TierLayout.LOCAL, key, place["topic"], start, folder, suffix)
    place = aiven.FOLDER.fullmatch(above[-2]) if len(above) > 1 else None
    if place is None or suffix not in aiven.SUFFIXES or not aiven.PARTITION.fullmatch(above[-1]):
        return None
    if int(above[-1]) > MAX_INT:
        return None
    key = SegmentKey(place["topic_id"], int(above[-1]), match["segment_id"])
    return ObjectName(TierLayout.AIVEN, key, place["topic"], start, folder, suffix)


def recognise(paths: Iterable[str]) -> TierLayout:
    """Return whose objects these are, that `parse_object_name` does not know: the layout of the first one that is
    recognised."""
    for path in paths:
        for layout, pattern in _OTHERS.items():
            if pattern.fullmatch(path):
                return layout
    return TierLayout.UNKNOWN
