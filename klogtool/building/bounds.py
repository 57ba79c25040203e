"""How much a spec may ask for: a log dir is made in memory, so its size is known before anything is made."""

from __future__ import annotations

from collections.abc import Iterable

from klogtool.building.generated import value_sizes
from klogtool.building.spec import File, PartitionSpec, Spec, StepSpec
from klogtool.building.spec_data import content_bound
from klogtool.errors import AboveLimit

MOST_BYTES = 1 << 30
RECORD_OVERHEAD_BYTES = 40
ENTRY_BYTES = 128
KEY_BYTES = 16


def check_size(spec: Spec) -> None:
    """Raises AboveLimit if the spec asks for more than a log dir in memory may have; KlogError for a wrong size."""
    size = _files_size(spec.files) + sum(_partition_size(partition) for partition in spec.partitions)
    if size > MOST_BYTES:
        raise AboveLimit(f"this spec makes up to {size:,} bytes: more than klogtool builds ({MOST_BYTES:,})")


def _partition_size(partition: PartitionSpec) -> int:
    steps = [*partition.log, *(step for segment in partition.segments for step in segment.log)]
    return _files_size(partition.files) + sum(_step_size(step) for step in steps if isinstance(step, StepSpec))


def _files_size(files: Iterable[File]) -> int:
    return sum(content_bound(file.content) for file in files)


def _step_size(step: StepSpec) -> int:
    if step.generate is not None:
        return step.generate.records * (value_sizes(step.generate)[1] + KEY_BYTES + RECORD_OVERHEAD_BYTES) + ENTRY_BYTES
    if step.batch is not None:
        data = [
            piece
            for record in step.batch.records
            for piece in (record.key, record.value, *(part for header in record.headers for part in header))
            if piece is not None
        ]
        body = 0 if step.batch.body is None else content_bound(step.batch.body)
        return ENTRY_BYTES + body + RECORD_OVERHEAD_BYTES * len(step.batch.records) + sum(map(content_bound, data))
    return ENTRY_BYTES + (0 if step.raw is None else content_bound(step.raw))
