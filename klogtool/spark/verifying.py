"""`klogtool verify` over many tasks: each verifies partitions by themselves, as one machine does.

What is about log dirs as wholes is done by whoever asks.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from klogtool.disk.dataset import Attempt, Dataset
from klogtool.disk.scratch import Scratch
from klogtool.lazy_dataclasses import dataclass, replace
from klogtool.log.folder import find_partition_dir_name
from klogtool.log.partition import Partition
from klogtool.repair.circumstances import Circumstances
from klogtool.repair.findings import Finding
from klogtool.repair.verify import Summary, Target, VerifiedPartition, VerifyOptions, verify, verify_target
from klogtool.spark.fetching import (
    Mirror,
    fetch_folder,
    is_elsewhere,
    make_mirror,
    mirror_of,
    named_as,
    verified_as,
)
from klogtool.spark.session import Session
from klogtool.spark.spreading import packed, spread
from klogtool.spark.tables import FINDINGS, arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa

OPEN_COST_BYTES = 1 << 20  # of a partition, beside its bytes
MOST_BYTES = 128 << 20
TASKS_A_SLOT = 4
ROWS_AT_ONCE = 1 << 14


@dataclass(frozen=True, slots=True)
class HowToVerify:
    """What every task is told."""

    circumstances: Circumstances
    deep: bool = False


def verify_with_spark(
    session: Session,
    paths: Sequence[str],
    how: HowToVerify,
    *,
    seconds: Callable[[], float] = lambda: 0.0,
    on_progress: Callable[[int], None] = lambda _: None,
) -> Iterator[Finding | Summary]:
    """The findings of log dirs and partition dirs, in the order of `klogtool verify`, and a summary. paths: absolute,
    the same on every machine, or URIs. Raises as `verify` does, and SparkFailed."""
    scratch = Scratch.make("verify") if any(map(is_elsewhere, paths)) else None
    try:
        mirrors = [
            make_mirror(path, scratch, n) for n, path in enumerate(paths) if scratch is not None and is_elsewhere(path)
        ]
        left = iter(mirrors)
        here = [next(left).path if is_elsewhere(path) else path for path in paths]
        spread_out = partial(_spread_out, session, how, mirrors, on_progress)
        options = VerifyOptions(how.circumstances, deep=how.deep, seconds=seconds)
        for found in verify(here, options, elsewhere=spread_out):
            yield _as_given(found, mirrors) if isinstance(found, Finding) else found
    finally:
        if scratch is not None:
            scratch.remove()


def _as_given(found: Finding, mirrors: Sequence[Mirror]) -> Finding:
    for mirror in mirrors:
        found = named_as(found, mirror.path, mirror.uri)
    return found


def _spread_out(
    session: Session,
    how: HowToVerify,
    mirrors: Sequence[Mirror],
    on_progress: Callable[[int], None],
    targets: Sequence[Target],
) -> Iterable[VerifiedPartition]:
    sizes = {target.partition.path: size_of(target.partition.path) for target in targets}
    most = max(1, min(MOST_BYTES, sum(sizes.values()) // (session.slots * TASKS_A_SLOT)))
    tasks = list(packed(targets, lambda target: sizes[target.partition.path], most))
    work = partial(verify_targets, how, tuple(mirrors))
    items, bytes_of = [items for items, _ in tasks], [size for _, size in tasks]
    found = spread(session, work, items, sizes=bytes_of, on_progress=on_progress)
    return (one for some in found for one in some)


def verify_targets(how: HowToVerify, mirrors: Sequence[Mirror], targets: Sequence[Target]) -> list[VerifiedPartition]:
    """What one task does."""
    options = VerifyOptions(how.circumstances, deep=how.deep)
    return [_verify_target(target, options, mirror_of(target.partition.path, mirrors)) for target in targets]


def _verify_target(target: Target, options: VerifyOptions, mirror: Mirror | None) -> VerifiedPartition:
    if mirror is None:
        return verify_target(target, options)
    scratch = Scratch.make("partition")
    try:
        path = fetch_folder(mirror, target.partition.path, scratch)
        return verified_as(verify_target(replace(target, partition=Partition(path)), options), target, path)
    finally:
        scratch.remove()


def size_of(folder: str) -> int:
    """Bytes of the files in a partition dir, as far as they can be seen."""
    try:
        with os.scandir(folder) as entries:
            return OPEN_COST_BYTES + sum(entry.stat().st_size for entry in entries if entry.is_file())
    except OSError:
        return OPEN_COST_BYTES


def write_findings(dataset: Dataset, findings: Iterable[Finding]) -> int:
    """The findings as a table of Parquet; how many there were."""
    import pyarrow.parquet as pq

    schema, rows = arrow_schema("findings", tuple(FINDINGS)), 0
    attempt = Attempt(dataset.path, 0)
    with attempt.file("part-00000.parquet") as sink, pq.ParquetWriter(sink, schema) as writer:
        for batch in finding_batches(findings, schema):
            writer.write_batch(batch)
            rows += batch.num_rows
    dataset.commit([attempt.finish({"rows": rows})])
    return rows


def finding_batches(findings: Iterable[Finding], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Findings as rows of the table `findings`."""
    import pyarrow as pa

    rows = map(finding_fields, findings)
    while some := list(islice(rows, ROWS_AT_ONCE)):
        yield pa.RecordBatch.from_pylist(some, schema)


def finding_fields(found: Finding) -> dict[str, Any]:
    """The columns of a finding; topic and partition by the path."""
    row = {name: getattr(found, name) for name in FINDINGS if name not in ("topic", "partition", "severity")}
    row["severity"] = found.severity.value
    row["path"] = os.fsencode(found.path).decode("utf-8", "replace")
    for folder in (os.path.basename(found.path), os.path.basename(os.path.dirname(found.path))):
        name = find_partition_dir_name(folder)
        if name is not None:
            return row | {"topic": name.topic, "partition": name.partition}
    return row
