"""What of the logs of tiered topics is in remote storage as well, and so safe to lose here; and what is only here."""

from __future__ import annotations

from collections.abc import Iterator

from klogtool.broker.circumstances import terms_of
from klogtool.doctor.patient import Patient
from klogtool.errors import KlogError
from klogtool.format.names import PartitionDirState
from klogtool.remote.local import read_log
from klogtool.remote.metadata import RemoteMetadata
from klogtool.remote.safe_to_lose import SafePart, find_safe_part
from klogtool.remote.store import RemoteStore


def walk_safe_parts(patient: Patient, store: RemoteStore, metadata: RemoteMetadata) -> Iterator[SafePart | KlogError]:
    """Yield the safe part of each log of a tiered topic; an error for one that cannot be read. Reads the segments of
    the store that stand for it."""
    for partition in patient.partitions():
        if partition.state is not PartitionDirState.CURRENT:
            continue
        try:
            checkpoints = patient.checkpoints_of(partition.path)
            terms = terms_of(partition.path, patient.circumstances, checkpoints=checkpoints)
            log = read_log(partition, terms.log_start_offset)
            is_tiered = bool(terms.is_tiered) and not terms.config.remote_log_copy_disable
            if log is not None and (is_tiered or metadata.knows(log.topic_id, log.partition)):
                yield find_safe_part(store, metadata, log, is_tiered=is_tiered)
        except KlogError as error:
            yield error.at_path(partition.path)
