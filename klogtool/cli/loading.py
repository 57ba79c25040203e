"""Loads a partition for commands that only read, and reports what a broker would repair first."""

from __future__ import annotations

from klogtool.broker.circumstances import Checkpoints, Circumstances, fate_of
from klogtool.broker.unified_log.loaded_partition import LoadedPartition, load
from klogtool.cli.output import note
from klogtool.cli.show import ReadingOptions
from klogtool.log.folder import find_partition_dir_name, own_name
from klogtool.plans.recover_reach import find_behind_end


def load_and_tell(
    path: str, circumstances: Circumstances, reading: ReadingOptions, checkpoints: Checkpoints | None = None
) -> LoadedPartition:
    """Load a partition dir as a broker would; write a line on stderr if the result differs from the files. checkpoints:
    as for `load`. Raises as `load`."""
    loaded = load(path, circumstances, reading.jobs, checkpoints)
    report = loaded.log.report
    if reading.quiet:
        return loaded
    name = find_partition_dir_name(own_name(path))
    if name is not None and (fate := fate_of(name)) is not None:
        note(f"klogtool: {path}: {fate}")
    behind = find_behind_end(loaded.log)
    if behind is not None:
        note(f"klogtool: {path}: {behind.sentence(loaded.log_end_offset)} (klogtool recover says more)")
    if report.recovered:
        segments = "1 segment" if len(report.recovered) == 1 else f"{len(report.recovered):,} segments"
        cut = f", and cut the log at offset {loaded.log_end_offset:,}" if report.stopped_by or report.emptied else ""
        note(
            f"klogtool: {path}: a broker would recover {segments} first{cut}; the answer is for the log after that "
            "(--last-stop clean: for the log as it is)"
        )
    return loaded
