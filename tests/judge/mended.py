"""Verdicts that were wrong and are mended, and the scenarios of tests/doctor/startup.py that show each.

By commit. `make nightly` puts them to a broker, as `make interop` does with every scenario there is
(tests/kafka/test_brokers_as_the_doctor_said.py). A mend whose state no scenario can hold (settings, several brokers,
remote storage, a disk that fills) is not here: the random faults of the judge have some of these.
"""

from __future__ import annotations

from collections.abc import Mapping

MENDED: Mapping[str, tuple[str, ...]] = {
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
