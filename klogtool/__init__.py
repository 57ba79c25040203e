"""The fsck of Apache Kafka: reads partition log dirs on disk, without a broker.

    errors    what can go wrong, as exceptions that say where and why
    format    what bytes mean: batches, messages, indexes, checkpoints, names, internal topics; opens no file
    kernels   the same for the hot loops, compiled; equal to format, and doing without where not built
    log       reading a disk: log dirs, partitions, segments, batches, records; read-only
    repair    decisions: what is wrong, what would mend it; as values
    objects   log's objects with repair's decisions about them: what open() gives
    render    answers as text, JSON lines, Arrow
    cli       the command line

Each imports only from those above it. `klogtool.open(PATH)` is where to begin; docs/python.md shows the rest.
Names are imported when they are first used, so that `import klogtool` costs next to nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False  # not typing's, which takes longer to import than a small file takes to dump
if TYPE_CHECKING:
    from typing import Any

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
    from klogtool.objects import LogDir as LogDir
    from klogtool.objects import Partition as Partition
    from klogtool.objects import Planned as Planned
    from klogtool.objects import open_path
    from klogtool.render.arrow import columns as columns
    from klogtool.repair.findings import Finding as Finding
    from klogtool.repair.findings import Severity as Severity
    from klogtool.repair.unified_log.loaded import FetchedBytes as FetchedBytes
    from klogtool.repair.unified_log.loaded import LoadedPartition as LoadedPartition
    from klogtool.repair.unified_log.lookup import EpochEnd as EpochEnd
    from klogtool.repair.unified_log.lookup import OffsetFound as OffsetFound
    from klogtool.repair.unified_log.lookup import TimestampAndOffset as TimestampAndOffset
    from klogtool.repair.unified_log.lookup import TimestampFound as TimestampFound
    from klogtool.repair.unified_log.reading import Fetched as Fetched

    open = open_path

_WHERE = {
    "open": "objects.open_path",
    "columns": "render.arrow.columns",
    "LogDir": "objects.LogDir",
    "Partition": "objects.Partition",
    "Planned": "objects.Planned",
    "PartitionDirState": "format.names.PartitionDirState",
    "TopicPartition": "format.names.TopicPartition",
    "Segment": "log.segment.Segment",
    "KraftSnapshot": "log.segment.KraftSnapshot",
    "EntriesFile": "log.side_file.EntriesFile",
    "PropertiesFile": "log.side_file.PropertiesFile",
    "FileKind": "format.names.FileKind",
    "RecordBatch": "format.batch.RecordBatch",
    "Message": "format.message.Message",
    "Record": "format.batch.Record",
    "Header": "format.batch.Header",
    "Finding": "repair.findings.Finding",
    "Severity": "repair.findings.Severity",
    "LoadedPartition": "repair.unified_log.loaded.LoadedPartition",
    "OffsetFound": "repair.unified_log.lookup.OffsetFound",
    "TimestampFound": "repair.unified_log.lookup.TimestampFound",
    "TimestampAndOffset": "repair.unified_log.lookup.TimestampAndOffset",
    "EpochEnd": "repair.unified_log.lookup.EpochEnd",
    "FetchedBytes": "repair.unified_log.loaded.FetchedBytes",
    "Fetched": "repair.unified_log.reading.Fetched",
    "KlogError": "errors.KlogError",
    "Corrupt": "errors.Corrupt",
    "Unsupported": "errors.Unsupported",
    "Refused": "errors.Refused",
    "Unreadable": "log.file.Unreadable",
}
__all__ = list(_WHERE)


def __getattr__(name: str) -> Any:
    """A public name, from where it lives; it is then kept here."""
    if name == "__version__":
        from klogtool.cli.version import VERSION

        return VERSION
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    module, _, attribute = _WHERE[name].rpartition(".")
    found = globals()[name] = getattr(import_module(f"{__name__}.{module}"), attribute)
    return found


def __dir__() -> list[str]:
    """What there is to find by tab."""
    return sorted({*globals(), *__all__, "__version__"})
