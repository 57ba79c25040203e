"""Builds, from new segments, a partition that a broker loads, with the side files of a broker's recovery.

It is loaded as after a kill, from the first offset on, so that every batch is checked that a broker might check. A
batch that would stop the load is left out, and everything is loaded again.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from msgspec import Struct
from msgspec.structs import replace

from klogtool.broker.circumstances import LoadTerms
from klogtool.broker.content import read_content
from klogtool.broker.draft import Draft
from klogtool.broker.unified_log.log_loader import LoadedLog
from klogtool.errors import Corrupt, KlogError, Refused
from klogtool.format.indexes import AbortedTxn, parse_txn_index
from klogtool.format.names import MAPPED_INDEXES, FileKind, build_file_name, parse_file_name
from klogtool.log.producer_state import TxnMetadata
from klogtool.salvage.assembly import NewSegment
from klogtool.salvage.holes import RefusedCause
from klogtool.salvage.stretches import Run

_KEPT_KINDS = (FileKind.PARTITION_METADATA, FileKind.QUORUM_STATE, FileKind.KRAFT_SNAPSHOT)
_HARMFUL_ENDS = (".deleted", ".cleaned", ".swap")
# Reasons to refuse a batch that is sound by itself, because of the batches before it.
_OF_A_BATCH = ("InvalidTxnStateException",)


class Unloadable(Struct, frozen=True):
    """A batch that a broker would not load. position: in the file of its run."""

    run: Run
    position: int
    reason: str


class Loadable(Struct, frozen=True):
    """The new partition dir. open_txns: transactions without a marker. aborted_txns: the entries of its indexes."""

    draft: Draft
    log_end_offset: int
    open_txns: Sequence[TxnMetadata]
    aborted_txns: Sequence[AbortedTxn]


def load(
    path: str,
    segments: Sequence[NewSegment],
    small_files: dict[str, bytes | None],
    terms: LoadTerms,
    mtime_of: Callable[[NewSegment], int | None],
) -> Loadable | Unloadable:
    """Return the draft of a partition dir with exactly these segments, after a load and a clean stop.

    small_files: new contents by name; None: the file should not exist. mtime_of: a segment's mtime. Raises KlogError if
    a broker refuses for another reason, such as a setting.
    """
    draft = _draft(path, segments, small_files, mtime_of)
    try:
        log = LoadedLog(draft, replace(terms, recovery_point=0, is_clean=False))
    except KlogError as error:
        result = _find_batch(segments, draft, error)
        if result is None:
            raise
        return result
    for base_offset, stop in log.report.stopped_by.items():
        if (result := _find_batch(segments, draft, stop, base_offset)) is not None:
            return result
        raise Refused(RefusedCause.NOT_WHOLE(why=stop.reason), path=path)
    log.stop()
    _restore_equal(draft)
    return Loadable(draft, log.log_end_offset, log.producers.ongoing_txns, _aborted_txns(draft))


def _aborted_txns(draft: Draft) -> list[AbortedTxn]:
    names = [name for name in draft.names() if parse_file_name(name).kind is FileKind.TXN_INDEX]
    return [entry for name in names for entry in parse_txn_index(draft.read(name))]


def _draft(
    path: str,
    segments: Sequence[NewSegment],
    small_files: dict[str, bytes | None],
    mtime_of: Callable[[NewSegment], int | None],
) -> Draft:
    draft = Draft.of(path)
    draft.folders = draft.devices = frozenset()  # folders in place of files do not matter for the new dir
    for name in draft.names():
        if not _stays(name):
            draft.delete(name)
    for name, data in small_files.items():
        if data is None:
            draft.delete(name)
        else:
            draft.write(name, data)
    for segment in segments:
        draft.write(build_file_name(FileKind.LOG, segment.base_offset), segment.content(), mtime_of(segment))
        # Make empty ones, or a broker would recover the segment twice.
        for kind in MAPPED_INDEXES:
            draft.write(build_file_name(kind, segment.base_offset), b"")
    return draft


def _stays(name: str) -> bool:
    """Return whether a broker neither makes this file again nor stops at it."""
    file = parse_file_name(name)
    if file.kind is FileKind.FOREIGN:
        return not name.endswith(_HARMFUL_ENDS)
    return (file.kind in _KEPT_KINDS and not file.suffix) or file.kind is FileKind.LEADER_EPOCH_CHECKPOINT


def _find_batch(
    segments: Sequence[NewSegment], draft: Draft, error: KlogError, base_offset: int | None = None
) -> Unloadable | None:
    """Return the batch that an error is about, if leaving it out helps."""
    if not isinstance(error, Corrupt) or error.position is None:
        return None
    if base_offset is None and error.kafka_class not in _OF_A_BATCH:
        return None
    for segment in segments:
        path = os.path.join(draft.path, build_file_name(FileKind.LOG, segment.base_offset))
        if segment.base_offset == base_offset or error.path == path:
            run, position = segment.run_at(error.position)
            return Unloadable(run, position, error.reason)
    return None


def _restore_equal(draft: Draft) -> None:
    """Keep the existing files, with their times, where new ones have the same bytes."""
    for name in sorted(draft.changed()):
        before, now = draft.before.get(name), draft.files.get(name)
        if before is None or now is None or before.size != now.size:
            continue
        is_small = all(isinstance(part, bytes) for part in now.content)
        if before.content == now.content or (is_small and read_content(before.content) == draft.read(name)):
            draft.files[name] = before
