"""Loading a partition to be asked, for the commands that only look; what a broker would mend first is told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from klogtool.broker.circumstances import Checkpoints, Circumstances
from klogtool.broker.unified_log.loaded_partition import LoadedPartition, load
from klogtool.cli.output import note
from klogtool.plans.recover_reach import find_behind_end


def load_and_tell(
    path: str, circumstances: Circumstances, chosen: Mapping[str, Any], checkpoints: Checkpoints | None = None
) -> LoadedPartition:
    """A partition dir as a broker would have it; a line on stderr if that is not what lies there. chosen: the command's
    parameters, jobs and quiet among them; checkpoints: as for `load`. Raises as `load`."""
    loaded = load(path, circumstances, chosen["jobs"], checkpoints)
    report = loaded.log.report
    if chosen["quiet"]:
        return loaded
    behind = find_behind_end(loaded.log)
    if behind is not None:
        note(f"klogtool: {path}: {behind.sentence} (klogtool verify --recover says more)")
    if report.recovered:
        segments = "1 segment" if len(report.recovered) == 1 else f"{len(report.recovered):,} segments"
        cut = f", and cut the log at offset {loaded.log_end_offset:,}" if report.stopped_by or report.emptied else ""
        note(
            f"klogtool: {path}: a broker would recover {segments} first{cut}; the answer is for the log after that "
            "(--last-stop clean: for the log as it is)"
        )
    return loaded
