"""What verify can find: a closed list of ids, each with how grave it is and what mends it."""

from __future__ import annotations

from enum import Enum

from klogtool.lazy_dataclasses import dataclass


class Severity(Enum):
    """How grave: see the contract's words for each."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something found under a path. Fields that do not apply are None and are left out of the JSON.

    start, end: byte positions in the file, end exclusive. first_offset, last_offset: records lost or in doubt.
    field: which field contradicts the others. detail: what is wrong, one sentence. cure: the command that mends it.
    """

    id: str
    path: str
    detail: str
    start: int | None = None
    end: int | None = None
    first_offset: int | None = None
    last_offset: int | None = None
    field: str | None = None
    cure: str | None = None

    @property
    def severity(self) -> Severity:
        """By the id; the contract's table."""
        return SEVERITIES[self.id]


def _of(severity: Severity, *ids: str) -> dict[str, Severity]:
    return dict.fromkeys(ids, severity)


SEVERITIES = {
    **_of(
        Severity.ERROR,
        "batch-crc",
        "batch-header",
        "batch-attributes",
        "torn-batch",
        "foreign-bytes",
        "offset-order",
        "offset-overflow",
        "records-invalid",
        "txnindex-missing",
        "txnindex-size",
        "txnindex-entry",
        "epochs-corrupt",
        "partition-metadata-corrupt",
        "topic-id-mismatch",
        "segment-overlap",
        "segment-name",
        "foreign-folder",
        "duplicate-partition",
        "checkpoint-corrupt",
        "meta-properties-corrupt",
        "meta-properties-conflict",
        "kraft-snapshot-corrupt",
        "quorum-state-corrupt",
        "clean-marker-false",
        "unreadable",
    ),
    **_of(
        Severity.WARNING,
        "zero-tail",
        "epoch-order",
        "sequence-gap",
        "timestamp-implausible",
        "index-missing",
        "index-size",
        "index-order",
        "index-entry",
        "timeindex-missing",
        "timeindex-size",
        "timeindex-order",
        "timeindex-entry",
        "timeindex-max",
        "snapshot-corrupt",
        "snapshot-content",
        "snapshot-stray",
        "epochs-content",
        "epochs-missing",
        "orphan-file",
        "leftover-cleaned",
        "leftover-swap",
        "checkpoint-entry",
    ),
    **_of(
        Severity.INFO,
        "index-untrimmed",
        "snapshot-missing",
        "partition-metadata-missing",
        "segment-gap",
        "leftover-deleted",
        "foreign-file",
        "meta-properties-missing",
        "unclean-shutdown",
    ),
}
