"""The fsck of Apache Kafka: reads partition log dirs on disk, without a broker.

    escape      text from a disk as a terminal and a shell may see it
    causes      why something is so, as values; render has the sentences
    errors      what can go wrong, as exceptions that say where and why
    json_rows   rows of JSON Lines
    interrupts  signals that ask klogtool to stop
    values      values with fields that do not count when two are compared
    parameters  parameters of questions, each declared once: for the command line, Python, docs and plans
    clock       what time it is

    format/     what bytes mean: batches, messages, indexes, checkpoints, names, internal topics; opens no file
    kernels/    the hot loops, compiled; the same answers as the Python that they stand in for
    log/        reading a disk: log dirs, partitions, segments, batches, records; read-only
    broker/     Kafka's own log, offline: loaded, recovered, appended to, cleaned; over a draft, nothing is written
    building/   log dirs made from a short description, and described
    verify/     every damage found, as findings
    copies/     copies of a partition compared
    scrub/      closed segments, read again and again beside a broker
    salvage/    every sound batch of a damaged partition kept
    remote/     remote storage of tiered topics: its segments, and which of them serves which offset
    quorum/     the controllers of a cluster by their disks: who votes, whether anybody can lead
    plans/      decisions: what a command would write, as values
    doctor/     what a broker says and does when it starts, and what to do first
    fleet/      several brokers after a disaster: the best copy of each partition
    decoding/   keys and values decoded for people
    disk/       carries plans out, and takes them back: the only floor that writes
    render/     answers as text, JSON lines, Arrow
    objects     log's objects with the plans about them: what open() gives
    spark/      log dirs as tables and streams of Spark
    cli/        the command line
    testing/    for tests of other tools: log dirs from records, assertions, wounds, a broker's verdict

Each imports only from those above it. docs/architecture.md has the picture, and the way of a record, a finding and a
plan through it. `klogtool.open(PATH)` is where to begin; docs/python.md shows the rest. Names are imported when they
are first used, so that the command line can set its signal handlers before anything large is imported.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if sys.argv[:1] == ["-m"] or "".join(sys.argv[:1]).endswith("/klogtool"):  # the command line: a signal may come at once
    from klogtool import interrupts

    interrupts.leave_quietly()

if TYPE_CHECKING:
    from klogtool.broker.unified_log.loaded_partition import FetchedBytes as FetchedBytes
    from klogtool.broker.unified_log.loaded_partition import LoadedPartition as LoadedPartition
    from klogtool.broker.unified_log.lookup import EpochEnd as EpochEnd
    from klogtool.broker.unified_log.lookup import OffsetFound as OffsetFound
    from klogtool.broker.unified_log.lookup import TimestampAndOffset as TimestampAndOffset
    from klogtool.broker.unified_log.lookup import TimestampFound as TimestampFound
    from klogtool.broker.unified_log.reading import Fetched as Fetched
    from klogtool.disk.building import build as build
    from klogtool.errors import AboveLimit as AboveLimit
    from klogtool.errors import Corrupt as Corrupt
    from klogtool.errors import KlogError as KlogError
    from klogtool.errors import Refused as Refused
    from klogtool.errors import Unsupported as Unsupported
    from klogtool.format.batch import Header as Header
    from klogtool.format.batch import Record as Record
    from klogtool.format.batch import RecordBatch as RecordBatch
    from klogtool.format.message import Message as Message
    from klogtool.format.names import FileKind as FileKind
    from klogtool.format.names import PartitionDirState as PartitionDirState
    from klogtool.format.names import TopicPartition as TopicPartition
    from klogtool.log.file import Unreadable as Unreadable
    from klogtool.log.segment import KraftSnapshot as KraftSnapshot
    from klogtool.log.segment import Segment as Segment
    from klogtool.log.side_file import EntriesFile as EntriesFile
    from klogtool.log.side_file import PropertiesFile as PropertiesFile
    from klogtool.objects import Findings as Findings
    from klogtool.objects import LogDir as LogDir
    from klogtool.objects import Partition as Partition
    from klogtool.objects import Planned as Planned
    from klogtool.objects import open_log_dir as open_log_dir
    from klogtool.objects import open_partition as open_partition
    from klogtool.objects import open_path
    from klogtool.render.scan import LogScan as LogScan
    from klogtool.render.scan import columns as columns
    from klogtool.render.scan import scan as scan
    from klogtool.verify.findings import Finding as Finding
    from klogtool.verify.findings import Severity as Severity

    open = open_path


_NAMES = {
    "objects": ("open", "open_log_dir", "open_partition", "Findings", "LogDir", "Partition", "Planned"),
    "render.scan": ("scan", "columns", "LogScan"),
    "disk.building": ("build",),
    "format.names": ("FileKind", "PartitionDirState", "TopicPartition"),
    "log.segment": ("Segment", "KraftSnapshot"),
    "log.side_file": ("EntriesFile", "PropertiesFile"),
    "format.batch": ("RecordBatch", "Record", "Header"),
    "format.message": ("Message",),
    "verify.findings": ("Finding", "Severity"),
    "broker.unified_log.loaded_partition": ("LoadedPartition", "FetchedBytes"),
    "broker.unified_log.lookup": ("OffsetFound", "TimestampFound", "TimestampAndOffset", "EpochEnd"),
    "broker.unified_log.reading": ("Fetched",),
    "errors": ("KlogError", "Corrupt", "Unsupported", "AboveLimit", "Refused"),
    "log.file": ("Unreadable",),
}
_WHERE = {name: module for module, names in _NAMES.items() for name in names}
__all__ = list(_WHERE)


def __getattr__(name: str) -> Any:
    """Import a public name from its module, and keep it here."""
    if name == "__version__":
        from klogtool.cli.version import VERSION

        return VERSION
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    module = import_module(f"{__name__}.{_WHERE[name]}")
    value = globals()[name] = getattr(module, "open_path" if name == "open" else name)
    return value


def __dir__() -> list[str]:
    """Return the names for tab completion."""
    return sorted({*globals(), *__all__, "__version__"})
