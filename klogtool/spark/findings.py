"""The table `findings`: what `klogtool verify` finds in log dirs, each by itself, as rows.

The planner reads a log dir as a whole. Tasks read partition dirs, and compare the results with what the log dir says of
them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from msgspec import Struct

from klogtool.broker.circumstances import Circumstances
from klogtool.errors import Refused
from klogtool.format.java_numbers import MAX_LONG
from klogtool.format.names import FileKind
from klogtool.log.cores import usable_cores
from klogtool.log.file import Unreadable
from klogtool.log.folder import find_partition_dir_name, is_file
from klogtool.log.storage import Place, open_place
from klogtool.render.arrow_reference import column_text
from klogtool.spark.causes import LogCause, SparkCure
from klogtool.spark.copies import find_copies
from klogtool.spark.fetching import Mirror, as_user_named, mirrored, verify_anywhere
from klogtool.spark.options import Query
from klogtool.spark.owners import OWNER, Owner, owner_of
from klogtool.spark.reading import spare_collections
from klogtool.spark.tables import FINDINGS, arrow_schema
from klogtool.verify.findings import Finding
from klogtool.verify.verification import Summary, Target, VerifiedPartition, VerifyOptions, verify
from klogtool.verify.verify_checkpoints import PartitionEnds, Stated, read_stated, verify_stated
from klogtool.verify.verify_names import METADATA_PARTITION

if TYPE_CHECKING:
    import pyarrow as pa

OPEN_COST_BYTES = 1 << 20  # added for each partition, beside its bytes
ROWS_AT_ONCE = 1 << 14


class Part(Struct, frozen=True):
    """What one task verifies: partition dirs of one log dir.

    mirror: their mirror, if they are elsewhere; stated: what the log dir says of them; known: findings that exist
    already. owner: of the log dir.
    """

    targets: tuple[Target, ...]
    mirror: Mirror | None = None
    stated: Stated | None = None
    known: tuple[Finding, ...] = ()
    owner: Owner = Owner()


def plan_parts(query: Query) -> list[Part]:
    """Plan which task verifies what. Topics and offsets do not matter: a log dir is verified as a whole.

    Raises KlogError if a place cannot be listed, or has no log.
    """
    with mirrored(query.places) as here:
        return [part for path, mirror in _roots(here) for part in _parts_of(path, mirror, query)]


def _roots(here: Iterable[tuple[str, Mirror | None]]) -> list[tuple[str, Mirror | None]]:
    """Return log dirs, and partition dirs that were given by themselves; none twice, whatever paths lead to it."""
    roots: dict[str, tuple[str, Mirror | None]] = {}
    for root, mirror in here:
        for copy in find_copies([Place(root)]):
            if copy.tiered_id is not None:
                raise Refused(LogCause.NO_LOG_DIR(), path=copy.folder, cure=SparkCure.VERIFY_REMOTE())
            path = root if root.startswith(copy.folder) else os.path.dirname(copy.folder)
            named = path if mirror is None else path.replace(mirror.path, mirror.root)
            roots.setdefault(named, (path, mirror))
    return [root for named, root in roots.items() if not any(named.startswith(other + os.sep) for other in roots)]


def _parts_of(path: str, mirror: Mirror | None, query: Query) -> list[Part]:
    targets: list[Target] = []

    def by_tasks(share: Sequence[Target]) -> Iterator[VerifiedPartition]:
        targets.extend(share)
        return map(_not_yet_verified, share)

    results = verify([path], _options(deep=False), elsewhere=by_tasks)
    known = tuple(as_user_named(one, [mirror]) for one in results if isinstance(one, Finding))
    groups = _together(targets)
    size = sum(size_of(target.partition.path) for target in targets)
    wanted = max(size // query.split_bytes, query.least_splits, usable_cores())
    count = max(1, min(len(groups), wanted))
    stated = read_stated(targets[0].log_dir)[0] if targets and targets[0].log_dir is not None else None
    shares = [[target for group in groups[n::count] for target in group] for n in range(count)]
    owner = _owner_of(targets, mirror)
    return [
        Part(tuple(share), mirror, _stated_of(stated, share), known if n == 0 else (), owner)
        for n, share in enumerate(shares)
    ]


def _owner_of(targets: Sequence[Target], mirror: Mirror | None) -> Owner:
    """Return whose a log dir is; if meta.properties cannot be read, verify reports it."""
    if not targets:
        return Owner()
    folder = targets[0].partition.path
    place = Place(os.path.join(os.path.dirname(folder), FileKind.META_PROPERTIES.value))
    storage, path = open_place(place)
    named = folder if mirror is None else folder.replace(mirror.path, mirror.root)
    try:
        return owner_of(place, storage.list(path)[0], named)
    except Unreadable:
        return owner_of(place, None, named)


def _options(*, deep: bool) -> VerifyOptions:
    return VerifyOptions(Circumstances(now_ms=MAX_LONG), deep=deep)


def _not_yet_verified(target: Target) -> VerifiedPartition:
    """Return what is known of a partition dir by its name."""
    is_metadata = target.partition.topic_partition == METADATA_PARTITION
    return VerifiedPartition((), PartitionEnds(target.partition), Summary(), is_readable=True, is_metadata=is_metadata)


def _together(targets: Iterable[Target]) -> list[list[Target]]:
    """Group the dirs of one partition, of which a second one may be about to replace the first: one task judges them
    together."""
    groups: dict[object, list[Target]] = {}
    for target in targets:
        groups.setdefault(target.partition.topic_partition or target.partition.path, []).append(target)
    return list(groups.values())


def size_of(folder: str) -> int:
    """Return the bytes of the files in a partition dir, as far as they can be listed."""
    try:
        with os.scandir(folder) as entries:
            return OPEN_COST_BYTES + sum(entry.stat().st_size for entry in entries if is_file(entry))
    except (OSError, Unreadable):
        return OPEN_COST_BYTES


def _stated_of(stated: Stated | None, share: Iterable[Target]) -> Stated | None:
    return None if stated is None else stated.of({target.partition.topic_partition for target in share})


# In the tasks.


def read_findings(part: Part, columns: Sequence[str], *, deep: bool) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a part, in record batches."""
    spare_collections()
    import pyarrow as pa

    wanted = arrow_schema("findings", columns)
    of_findings = [name for name in columns if name not in OWNER] or ["id"]
    for batch in finding_batches(find_in(part, deep=deep), arrow_schema("findings", of_findings)):
        arrays = dict(zip(batch.schema.names, batch.columns, strict=True)) | part.owner.arrays(batch.num_rows)
        yield pa.RecordBatch.from_arrays([arrays[name] for name in columns], schema=wanted)


def find_in(part: Part, *, deep: bool) -> Iterator[Finding]:
    """Yield all findings of a part. Raises KlogError if a partition dir elsewhere cannot be fetched."""
    yield from part.known
    ends = []
    for target in part.targets:
        verified = verify_anywhere(target, _options(deep=deep), part.mirror)
        ends.append(verified.ends)
        yield from (as_user_named(finding, [part.mirror]) for finding in verified.findings)
    if part.stated is not None:
        before = set(verify_stated(part.stated, [PartitionEnds(end.partition) for end in ends]))
        yield from (as_user_named(f, [part.mirror]) for f in verify_stated(part.stated, ends) if f not in before)


# Rows.


def finding_batches(findings: Iterable[Finding], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield findings as rows of the table `findings`."""
    import pyarrow as pa

    rows = map(finding_fields, findings)
    while some := list(islice(rows, ROWS_AT_ONCE)):
        yield pa.RecordBatch.from_pylist(some, schema)


def finding_fields(finding: Finding) -> dict[str, object]:
    """Return the columns of a finding; topic and partition come from the path."""
    row = {name: getattr(finding, name) for name in FINDINGS if name not in ("topic", "partition", "severity")}
    row["severity"] = finding.severity.value
    row = {name: column_text(value) if isinstance(value, str) else value for name, value in row.items()}
    for folder in (os.path.basename(finding.path), os.path.basename(os.path.dirname(finding.path))):
        name = find_partition_dir_name(folder)
        if name is not None:
            return row | {"topic": column_text(name.topic), "partition": name.partition}
    return row
