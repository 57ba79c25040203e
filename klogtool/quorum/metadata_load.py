"""Why a start ends while it opens the metadata of a log dir: something is no file, or its user may not open it.

Kafka loads the metadata log as it loads any log, always as after an unclean stop (KafkaRaftLog.createLog, UnifiedLog);
but an exception ends the process. A broker 4.3.1 was started with a FIFO, a socket, a folder, a device and links in
place of each file.
"""

from __future__ import annotations

import os

from msgspec import Struct

from klogtool.broker.circumstances import Checkpoints, Circumstances, terms_of
from klogtool.broker.cluster_config import CLUSTER_METADATA_DIR
from klogtool.broker.draft import Draft
from klogtool.broker.releases import Release
from klogtool.broker.unified_log.log_loader import LoadedLog
from klogtool.errors import AtPath, KlogError
from klogtool.format.names import FileKind, parse_file_name
from klogtool.log.folder import is_device, is_fifo, is_loop, names_in
from klogtool.log.partition import Partition
from klogtool.log.segment import KraftSnapshot
from klogtool.quorum.causes import MetadataCopyCause
from klogtool.verify.openable import (
    find_unreadable,
    find_unwritten,
    may_read,
    why_not_made,
)
from klogtool.verify.verify_kraft import verify_kraft_snapshot

TEMPORARY = ".tmp"


class LoadedEnd(Struct, frozen=True, order=True):
    """Where a metadata log ends as a start loads it: its last epoch, and the offset after its last record."""

    epoch: int = 0
    offset: int = 0


def load_metadata(log_dir: str, release: Release) -> LoadedEnd:
    """Return where the metadata log in a log dir ends as a controller's start loads it. Reads the log.

    Raises KlogError if the start ends at one of the files that it opens, or waits there for ever."""
    if (denied := find_denied(log_dir)) is not None:
        raise KlogError(MetadataCopyCause.NOT_PERMITTED(), path=denied)
    bootstrap = os.path.join(log_dir, FileKind.BOOTSTRAP_SNAPSHOT.value)
    if is_fifo(bootstrap):
        raise KlogError(MetadataCopyCause.WAITS_FOR_WRITER(), path=bootstrap)
    if os.path.lexists(bootstrap):
        for finding in verify_kraft_snapshot(bootstrap):
            if finding.stop is not None:
                raise KlogError(finding.detail, path=bootstrap, kafka_class=finding.stop.kafka_class)
    folder = os.path.join(log_dir, CLUSTER_METADATA_DIR)
    return load_metadata_log(folder, release) if os.path.isdir(folder) else LoadedEnd()


def find_denied(log_dir: str) -> str | None:
    """Return the path of the first file or folder that the start of a controller opens, and that the broker's user may
    not; None if it may open all. A start looks first whether it may read all files of the metadata (LogLoader)."""
    lock = os.path.join(log_dir, FileKind.LOCK.value)
    folder = os.path.join(log_dir, CLUSTER_METADATA_DIR)
    texts = (os.path.join(log_dir, kind.value) for kind in (FileKind.META_PROPERTIES, FileKind.BOOTSTRAP_SNAPSHOT))
    unread = (path for path in texts if os.path.isfile(path) and not may_read(path, log_dir))
    denied = find_unwritten([*filter(os.path.isfile, [lock]), log_dir], log_dir) or next(unread, None)
    if denied is not None or not os.path.isdir(folder):
        return denied
    new_file = os.path.join(folder, FileKind.LEADER_EPOCH_CHECKPOINT.value + TEMPORARY)
    written = [*opened_of(folder), folder, *filter(os.path.isfile, [new_file])]
    return find_unreadable(folder, log_dir) or find_unwritten(written, log_dir)


def opened_of(folder: str) -> list[str]:
    """Return the paths of the files in a partition dir of the metadata that a start opens for writing: those of all its
    segments, which it recovers."""
    kinds = (FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX)
    paths = (segment.side_path(kind) for segment in Partition(folder).segments for kind in kinds)
    return [*filter(os.path.isfile, paths)]


def load_metadata_log(folder: str, release: Release) -> LoadedEnd:
    """Return where the metadata log in a partition dir ends as a start loads it. Links that lead to no file
    are none for a broker, which makes the file anew through them, if it can. Raises KlogError as `load_metadata`."""
    _check_read(folder)
    draft = Draft.of(folder, passes_over_links=True)
    circumstances = Circumstances(now_ms=0, kafka=release)
    terms = terms_of(folder, circumstances, clean_by_default=False, checkpoints=Checkpoints(None))
    with AtPath(folder):
        log = LoadedLog(draft, terms)
        log.stop()
    _check_epochs_written(folder)
    return LoadedEnd(max((line.epoch for line in log.epochs.entries), default=0), log.log_end_offset)


def _check_read(folder: str) -> None:
    """Raises KlogError if one of the texts, or the newest snapshot, is something that can be read for ever, or not at
    all. /dev/null has no epochs."""
    texts = (FileKind.LEADER_EPOCH_CHECKPOINT, FileKind.PARTITION_METADATA, FileKind.QUORUM_STATE)
    epochs, *others = (os.path.join(folder, kind.value) for kind in texts)
    newest = _newest_snapshot(folder)
    for path in (epochs, *others, *filter(None, [newest])):
        if is_fifo(path):
            raise KlogError(MetadataCopyCause.WAITS_FOR_WRITER(), path=path)
        is_empty = path == epochs and is_device(path) and os.path.samefile(path, os.devnull)
        is_no_file = os.path.exists(path) and not os.path.isfile(path) and not is_empty
        if is_no_file or (path == newest and is_loop(path)):
            raise KlogError(MetadataCopyCause.NO_FILE(), path=path)


def _newest_snapshot(folder: str) -> str | None:
    """Return the path of the newest snapshot by its name, whatever has that name; None if there is none. Kafka sees no
    link to no file."""
    names = (name for name in names_in(folder) if parse_file_name(name).kind is FileKind.KRAFT_SNAPSHOT)
    paths = (os.path.join(folder, name) for name in names if not parse_file_name(name).suffix)
    there = [KraftSnapshot(path) for path in paths if os.path.exists(path) or is_loop(path)]
    newest = max(there, key=lambda one: (one.epoch or 0, one.end_offset or 0), default=None)
    return None if newest is None else newest.path


def _check_epochs_written(folder: str) -> None:
    """Raises KlogError if something is in the place of the new file of the leader epochs, which a start writes."""
    path = os.path.join(folder, FileKind.LEADER_EPOCH_CHECKPOINT.value + TEMPORARY)
    if is_fifo(path):
        raise KlogError(MetadataCopyCause.WAITS_FOR_READER(), path=path)
    if (stop := why_not_made(path)) is not None:
        raise KlogError(MetadataCopyCause.NOT_MADE(why=stop.message), path=path, kafka_class=stop.kafka_class)


def find_in_the_way(folder: str) -> str:
    """Return the path of what is no file and has the name of a side file in a partition dir, which a start makes anew;
    that of the folder if there is none."""
    kinds = (FileKind.PRODUCER_SNAPSHOT, FileKind.TXN_INDEX)
    names = (name for name in sorted(names_in(folder)) if parse_file_name(name).kind in kinds)
    paths = (os.path.join(folder, name) for name in names)
    return next((path for path in paths if not os.path.isfile(path)), folder)
