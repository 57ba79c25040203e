"""Loading a partition to be asked, for the commands that only look; what a broker would mend first is told."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from klogtool.cli.output import note
from klogtool.repair.circumstances import Circumstances
from klogtool.repair.unified_log.loaded import LoadedPartition, load


def load_and_tell(path: str, given: Circumstances, chosen: Mapping[str, Any]) -> LoadedPartition:
    """A partition dir as a broker would have it; a line on stderr if that is not what lies there. chosen: the command's
    parameters, jobs and quiet among them. Raises as `load`."""
    loaded = load(path, given, chosen["jobs"])
    report = loaded.log.report
    if chosen["quiet"]:
        return loaded
    if report.recovered:
        segments = "1 segment" if len(report.recovered) == 1 else f"{len(report.recovered):,} segments"
        cut = f", and cut the log at offset {loaded.log_end_offset:,}" if report.stopped_by or report.emptied else ""
        note(
            f"klogtool: {path}: a broker would recover {segments} first{cut}; answered as it is then "
            "(--last-stop clean: as it lies there)"
        )
    return loaded
