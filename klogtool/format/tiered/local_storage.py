"""The layout of LocalTieredStorage (test jar of org.apache.kafka:kafka-storage, 3.9 to 4.3) on one page.

    <rsm dir>/kafka-tiered-storage/<topic>-<partition>-<topic id>/<base offset>-<segment id>.<suffix>

Ids are Kafka's base64 of 22 characters, which may contain `-` and `_`, and so may a topic: names are read from the
right, by fixed widths. All objects have the bytes of Kafka's own files, unchanged:

    .log, .index, .timeindex    of the segment; the indexes without preallocated zeros
    .txnindex                   only if the segment had one
    .snapshot                   producers at the end of the segment: locally `<end offset + 1>.snapshot`
    .leader_epoch_checkpoint    all epochs from the start of the log to the end of the segment
"""

from __future__ import annotations

import re

FOLDER = re.compile(r"(?P<topic>.+)-(?P<partition>\d{1,10})-(?P<topic_id>[A-Za-z0-9_-]{22})")
OBJECT = re.compile(r"(?P<start_offset>\d{20})-(?P<segment_id>[A-Za-z0-9_-]{22})\.(?P<suffix>[a-z_-]+)")
LOG, OFFSET_INDEX, TIME_INDEX, TXN_INDEX = "log", "index", "timeindex", "txnindex"
SNAPSHOT, EPOCHS = "snapshot", "leader_epoch_checkpoint"
ALWAYS = (LOG, OFFSET_INDEX, TIME_INDEX, SNAPSHOT, EPOCHS)
SUFFIXES = (*ALWAYS, TXN_INDEX)
