"""What verify can find: a closed list of ids, each with its severity.

The steps for a new finding. A test fails for each of 2 to 6 that is missing:

 1. `SEVERITIES` below: the id and its severity.
 2. The check: a module of this package yields `Finding(id, path, detail, ...)`. For bytes in a log that is a `Damage`
    in log_damage.py or log_order.py; for other files see the map in `klogtool.verify`.
 3. Its cure, if it has one: choosing_cures.py for files in a partition dir, else `cure` where it is found.
 4. Its meaning in a sentence: `MEANINGS` in render/findings.py.
 5. Its paragraph in docs/findings.md, and its id in section 3 of docs/contract.md.
 6. Its test: a case in tests/wounded.py, which makes the damage. With it tests/verify/test_verify_every_id.py checks
    that this finding appears and no other, and tests/test_cures.py that the cure mends it (or it is in
    `NOTHING_TO_DO`).
 7. Only if it is worse than others of its severity: its place in render/worst_first.py.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from klogtool.verify.stops import Stop


class Severity(Enum):
    """How bad a finding is; docs/contract.md has the definitions."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class Finding(Struct, frozen=True):
    """Something found under a path. Fields that do not apply are None and are left out of the JSON.

    start, end: byte positions in the file, end exclusive. first_offset, last_offset: records lost or in doubt. field:
    which field contradicts the others. entry: the partition that a line of a checkpoint is about. detail: what is
    wrong, one sentence. cure: the command that mends it. is_normal: something explains it here, so it is only worth
    knowing. stop: how it keeps a broker from its logs, if it does. given_severity: the severity that a user's settings
    give it, unless it is normal here.
    """

    id: str
    path: str
    detail: str
    start: int | None = None
    end: int | None = None
    first_offset: int | None = None
    last_offset: int | None = None
    field: str | None = None
    entry: str | None = None
    cure: str | None = None
    is_normal: bool = False
    stop: Stop | None = None
    given_severity: Severity | None = None

    @property
    def severity(self) -> Severity:
        """The severity by the id, by whether it is normal here, and by settings; see the table in docs/contract.md."""
        return Severity.INFO if self.is_normal else self.given_severity or SEVERITIES[self.id]

    @property
    def is_unchecked(self) -> bool:
        """Return whether the file can be read, but these bytes are more than klogtool takes into memory
        (docs/limits.md)."""
        return self.id == "unreadable" and self.end is not None

    def __repr__(self) -> str:
        """Return the severity and the fields that apply."""
        told = ((name, getattr(self, name)) for name in self.__struct_fields__)
        fields = ", ".join(f"{name}={value!r}" for name, value in told if value is not None and value is not False)
        return f"Finding(severity={self.severity.value!r}, {fields})"


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
        "metadata-replay",
        "quorum-voter",
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
        "segment-gap",
    ),
    **_of(
        Severity.INFO,
        "index-untrimmed",
        "snapshot-missing",
        "partition-metadata-missing",
        "leftover-deleted",
        "foreign-file",
        "meta-properties-missing",
        "unclean-shutdown",
    ),
}
