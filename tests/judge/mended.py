"""Verdicts that were wrong and are mended, and the scenarios of tests/doctor/startup.py that show each.

By commit. `make nightly` puts them to a broker, as `make interop` does with every scenario there is
(tests/kafka/test_brokers_as_the_doctor_said.py). A mend whose state no scenario can hold (settings, several brokers,
remote storage, a disk that fills) is not here: the random faults of the judge have some of these.
"""

from __future__ import annotations

from collections.abc import Mapping

MENDED: Mapping[str, tuple[str, ...]] = {
    # a device without an end in place of the high watermarks: the broker is up, and leads nothing
    "c1fab798": ("11 /dev/zero, the high watermarks",),
    # folders of two older topics in two log dirs; a .swap that shares no record explains nothing
    "20228bfc": ("4 -future folders of two older topics", "4 two of two older topics"),
    # a file in the way of a partition that has only a -future folder
    "28da067e": (
        "4 -future, alone, elsewhere, a file has its name",
        "4 -future, alone, where it is assigned, a file has its name",
    ),
    # what a start writes anew is a device, a FIFO or a socket
    "967a5fa5": (
        *("11 /dev/full, an older snapshot", "11 /dev/full, a snapshot that recovery writes"),
        *("11 /dev/null, a snapshot that recovery writes", "11 a socket, a snapshot that recovery writes"),
        *("11 a FIFO, a snapshot that recovery writes", "11 a FIFO, a snapshot beyond the end"),
        *("11 /dev/full, a snapshot behind a segment without its index", "11 a FIFO, the only log"),
        *("11 /dev/full, a transaction index that recovery writes", "11 /dev/full, a transaction index"),
        *("11 /dev/null, a transaction index", "11 /dev/full, the active time index"),
        *("11 a FIFO, an index that recovery writes", "11 /dev/null, an index that recovery writes"),
        *("11 a socket, an index that recovery writes", "11 a socket, .lock", "11 /dev/null, .lock"),
        *("11 /dev/full, where leader epochs are written", "11 /dev/null, where leader epochs are written"),
        *("11 a socket, where leader epochs are written", "11 a socket, where high watermarks are written"),
        *("11 /dev/full, where high watermarks are written", "11 /dev/null, meta.properties"),
        "11 /dev/null, the marker of a clean stop",
    ),
    # a folder in place of leader-epoch-checkpoint.tmp, also where the metadata is
    "23f6319b": ("11 a folder where leader epochs are written, beside the metadata",),
    # a folder that a broker sets aside as stray is no duplicate
    "18b7b923": (
        "4 in two log dirs, one without partition.metadata that has more",
        "4 three times, one of them without partition.metadata",
    ),
    # a .swap with other records than the segment that it replaces is no cleaning
    "6b0e929a": (
        "8 swap of a closed segment, with other records",
        "8 swap of the active segment, with other records",
    ),
    # segments in the lost+found of the file system
    "6e35f120": ("6 a segment in lost+found", "6 the last two segments in lost+found"),
    # a marker that is a folder
    "6df52f63": ("2 a marker that is a folder with a file", "2 a marker that is an empty folder"),
    # what is where a checkpoint is written
    "119baef3": ("11 a folder where leader epochs are written",),
    # levels of features, and settings of topics, that a release does not know
    "702cf7e5": ("9 share.version of a later release",),
    "6098f325": (
        "9 metadata.version of 3.3",
        "9 metadata.version of a later release",
        "9 segment.bytes of a topic of 3.9",
    ),
    # a device in place of a file that a start reads
    "7cd5977d": (
        *("11 /dev/zero, d1/t-0/leader-epoch-checkpoint", "11 /dev/zero, d1/t-0/partition.metadata"),
        *("11 /dev/null, d1/t-0/leader-epoch-checkpoint", "11 /dev/null, d1/t-0/partition.metadata"),
        *("11 /dev/null, d1/t-0/00000000000000000043.snapshot", "11 /dev/zero, d1/t-0/00000000000000000043.snapshot"),
        *("11 /dev/zero, d1/recovery-point-offset-checkpoint", "11 /dev/zero, d1/meta.properties"),
    ),
    # a .swap stays where a folder has its name
    "55a94859": ("8 only .log.swap, a folder in place of the active .index",),
    # of a cut metadata log only what no snapshot has is lost
    "01b08e73": (
        "9 flipped bit before the snapshot",
        "9 flipped bit behind the snapshot",
        "9 half of the log is zeros",
    ),
    # segments in the log dir itself
    "d2a9d625": (
        *("6 a segment in the log dir itself", "6 the last segment in the log dir itself"),
        *("6 another's segment in the log dir itself", "6 copies of segments in the log dir itself"),
    ),
    # a -future folder where the metadata assigns it becomes the partition
    "5fcf8016": (
        "4 -future where it is assigned, the partition beside it",
        "4 two -future in one log dir, the partition elsewhere",
        "4 -future where it is assigned, the partition elsewhere",
        "4 -future that is shorter where it is assigned, the partition elsewhere",
    ),
    # names that are not UTF-8
    "419caa17": (
        *("4 names that are not UTF-8", "4 names that are not UTF-8, unclean", "4 a snapshot's name that is not UTF-8"),
        *("4 a snapshot's name that is not UTF-8, and has the newest offset",),
    ),
    # two folders with each other's id are exchanged, or their ids are
    "757167dc": ("4 ids of two topics exchanged", "4 folders of two topics exchanged"),
    # what a shorter .swap file loses
    "48b9ee38": ("8 swap of the active segment, shorter",),
    # a folder in place of an index is moved alone
    "eb400a7d": ("7 a folder in place of a closed .index", "7 a folder in place of a closed .timeindex"),
    # partition.metadata that is not reached
    "ac162e82": (
        "4 partition.metadata: 0 bytes, behind a folder",
        "4 partition.metadata: hello, behind a foreign name",
    ),
    # FIFOs and sockets in place of files; in place of the cleaner's checkpoint a FIFO keeps a broker from stopping
    "43f17abd": (
        *("11 a FIFO, a closed index", "11 a socket, a closed index"),
        *("11 a FIFO, a log", "11 a FIFO, an older snapshot"),
    ),
    # a file in a folder's place: how far the log reached, the -stray beside it, which log dir a broker tries
    "41927294": (
        *("4 absent, named -stray, a file has its name", "4 absent, in no log dir, a file where are fewer"),
        *("4 absent, in no log dir, a file where are more", "4 absent, in no log dir, files in all"),
    ),
    # a file in place of an absent partition's folder takes the log dir offline
    "7afd79bf": (
        *("4 absent, a file has its name", "4 absent, a link that leads nowhere has its name"),
        *("4 absent, a file has its name where it is not", "4 absent beside the metadata, a file has its name"),
    ),
    # a partition whose folder is absent or set aside comes first
    "e2684ed0": (
        *("4 absent", "4 absent, named -stray in another log dir", "4 absent, -stray of an older topic"),
        *("4 -stray beside a new one", "4 -delete beside a new one", "4 -delete beside a whole one"),
    ),
    # a failed log dir ends the broker if a log needs it while it is loaded
    "a40a98dc": (
        *("5 recovery-point: garbage, a stray partition", "5 replication: garbage, an open transaction"),
        *("5 recovery-point: garbage, cut by recovery", "10 .lock is a link to nowhere"),
    ),
    # a damaged last batch under a clean marker is served, not lost; a torn metadata snapshot
    "c1f4e245": ("5 cleaner: negative count", "6 index missing, of a segment renamed too low", "9 snapshot torn"),
    # a second name of a log dir is no copy of it
    "a157973e": ("10 the same log dir twice", "10 the same log dir under two names"),
    # folders that a broker sets aside before it looks for duplicates
    "5230f233": (
        *("4 t-0 beside t-00 without partition.metadata", "4 in two log dirs, one of an older topic"),
        *("4 of an older topic, the new one in another log dir", "4 two of older topics in two log dirs"),
    ),
    # an index that the start believes: verify had only a warning
    "0b3a1c5e": ("6 index into a batch, active", "6 index random, active"),
}


def scenarios() -> tuple[str, ...]:
    """The names of all of them, each once."""
    return tuple(dict.fromkeys(name for names in MENDED.values() for name in names))
