"""Files of --metrics."""

from __future__ import annotations

import os
from collections.abc import Sequence

from klogtool.cli.output_file import check_replaceable, output_file
from klogtool.clock import now_ms
from klogtool.errors import KlogError, Refused
from klogtool.log.file import LogFile
from klogtool.render.metrics import FIRST, Metric, metrics_text, run_metrics


def check_metrics_place(path: str | None) -> None:
    """Raises KlogError unless metrics can be written there: to a new file, or to one that has klogtool's metrics."""
    if path is None:
        return
    check_replaceable(path)
    if not os.path.isdir(os.path.dirname(path) or os.curdir):
        raise KlogError("its folder does not exist", path=path)
    if os.path.lexists(path):
        with LogFile(path) as file:
            if file.read(0, len(FIRST)) != FIRST:
                raise Refused("it exists, and is not a file of --metrics", path=path)


def write_metrics(
    path: str | None, command: str, paths: Sequence[str], seconds: float, status: int, metrics: Sequence[Metric]
) -> None:
    """Write the metrics of a run, all at once: whoever reads the file sees the old ones or the new ones. Raises
    KlogError."""
    if path is not None:
        with output_file(path, replaces=True) as sink:
            sink.write(metrics_text(command, paths, [*run_metrics(now_ms(), seconds, status), *metrics]).encode())
