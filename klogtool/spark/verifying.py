"""`klogtool verify` as many tasks: each verifies partitions by themselves, as one machine does.

The caller checks what concerns log dirs as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from klogtool.broker.circumstances import Circumstances
from klogtool.disk.dataset import Attempt, Dataset
from klogtool.log.storage import Place
from klogtool.spark.fetching import Mirror, as_user_named, mirror_of, mirrored, verify_anywhere
from klogtool.spark.findings import finding_batches, size_of
from klogtool.spark.spreading import spread_groups
from klogtool.spark.starting import Session
from klogtool.spark.tables import FINDINGS, arrow_schema
from klogtool.verify.findings import Finding
from klogtool.verify.verification import Summary, Target, VerifiedPartition, VerifyOptions, verify

MOST_BYTES = 128 << 20
TASKS_A_SLOT = 4


def verify_with_spark(
    session: Session,
    paths: Sequence[str],
    circumstances: Circumstances,
    *,
    deep: bool = False,
    seconds: Callable[[], float] = lambda: 0.0,
    on_progress: Callable[[int], None] = lambda _: None,
) -> Iterator[Finding | Summary]:
    """The findings of log dirs and partition dirs, in the order of `klogtool verify`, and a summary. paths: absolute,
    the same on every machine, or URIs. Raises as `verify` does, and SparkFailed."""
    with mirrored(Place(path) for path in paths) as here:
        mirrors = [mirror for _, mirror in here if mirror is not None]
        work = partial(_verify_one, circumstances, deep, tuple(mirrors))
        spread_out = partial(_spread_out, session, work, on_progress)
        options = VerifyOptions(circumstances, deep=deep, seconds=seconds)
        for result in verify([path for path, _ in here], options, elsewhere=spread_out):
            yield as_user_named(result, mirrors) if isinstance(result, Finding) else result


def _spread_out(
    session: Session,
    work: Callable[[Target], VerifiedPartition],
    on_progress: Callable[[int], None],
    targets: Sequence[Target],
) -> Iterable[VerifiedPartition]:
    sizes = {target.partition.path: size_of(target.partition.path) for target in targets}
    most = max(1, min(MOST_BYTES, sum(sizes.values()) // (session.slots * TASKS_A_SLOT)))
    return spread_groups(
        session, work, targets, lambda target: sizes[target.partition.path], most, on_progress=on_progress
    )


def _verify_one(
    circumstances: Circumstances, deep: bool, mirrors: Sequence[Mirror], target: Target
) -> VerifiedPartition:
    options = VerifyOptions(circumstances, deep=deep)
    return verify_anywhere(target, options, mirror_of(target.partition.path, mirrors))


def write_findings(dataset: Dataset, findings: Iterable[Finding]) -> int:
    """Write the findings as a Parquet table; return how many there were."""
    import pyarrow.parquet as pq

    schema, rows = arrow_schema("findings", tuple(FINDINGS)), 0
    attempt = Attempt(dataset.path, 0)
    with attempt.file("part-00000.parquet") as sink, pq.ParquetWriter(sink, schema) as writer:
        for batch in finding_batches(findings, schema):
            writer.write_batch(batch)
            rows += batch.num_rows
    dataset.commit([attempt.finish()])
    return rows
