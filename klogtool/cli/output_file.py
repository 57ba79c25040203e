"""Files named by --output, --plan-out, --html, --write-baseline and --metrics."""

from __future__ import annotations

import os
import stat
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Annotated, BinaryIO, TypeAlias

from klogtool.cli.causes import CommandRefusal
from klogtool.clock import now_ms
from klogtool.disk.disk import not_written
from klogtool.disk.facts import check_replaceable, check_rewritable, check_saving_place
from klogtool.errors import FileCause, Refused
from klogtool.log.file import LogFile
from klogtool.parameters import Unit, parameter
from klogtool.render.metrics import FIRST, Metric, metrics_text, run_metrics

MetricsFile: TypeAlias = Annotated[
    str | None, parameter("Write metrics for Prometheus to this file (textfile collector).", Unit.FILE)
]


@contextmanager
def output_file(path: str, *, replaces: bool = False) -> Iterator[BinaryIO]:
    """Open a new file that appears only when it is complete; after an error nothing stays.

    replaces: take the place of an older file; the caller has looked at it. Raises Refused if the file exists otherwise,
    or would be in a log dir or partition dir; Unreadable if it cannot be created or written.
    """
    if replaces:
        check_replaceable(path)
    else:
        check_saving_place(path)
    part = f"{path}.{uuid.uuid4().hex}.part"  # not by the process id: in a container it comes again
    try:
        with open(part, "xb") as sink:
            yield sink
            if replaces:  # else a power failure may leave neither
                sink.flush()
                os.fsync(sink.fileno())
        if replaces:
            os.replace(part, path)
        else:
            # Publish by a hard link if possible: unlike a rename, it does not replace a file that
            # appeared meanwhile.
            try:
                os.link(part, path)
            except FileExistsError:
                raise
            except OSError:
                os.rename(part, path)
    except FileExistsError:
        raise Refused(FileCause.EXISTS(), path=path) from None
    except OSError as error:
        raise not_written(path, error) from error
    finally:
        with suppress(FileNotFoundError):
            os.unlink(part)


def check_outside(output: str, paths: Sequence[str]) -> None:
    """Raises Refused if a file would lie in a folder that is being read: one of the paths, or that of a file."""
    folder = os.path.realpath(os.path.dirname(os.path.abspath(output)))
    for path in map(os.path.realpath, paths):
        read = path if os.path.isdir(path) else os.path.dirname(path)
        if folder == read or folder.startswith(read + os.sep):
            raise Refused(CommandRefusal.OUTPUT_AMONG_INPUT(read=read), path=output)


@contextmanager
def output_sink(path: str) -> Iterator[BinaryIO]:
    """Open a new file as `output_file` does, or an existing FIFO or device directly."""
    if not _is_sink(path):
        with output_file(path) as sink:
            yield sink
        return
    try:
        with open(path, "wb", buffering=0) as sink:
            yield sink
    except BrokenPipeError:
        raise
    except OSError as error:
        raise not_written(path, error) from error


def _is_sink(path: str) -> bool:
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode)


def check_metrics_place(path: str | None) -> None:
    """Raises KlogError unless metrics can be written there: to a new file, or to one that has klogtool's metrics."""
    if path is None:
        return
    check_rewritable(path)
    if os.path.lexists(path):
        with LogFile(path) as file:
            if file.read(0, len(FIRST)) != FIRST:
                raise Refused(CommandRefusal.NOT_OF_METRICS(), path=path)


def write_metrics(
    path: str | None, command: str, paths: Sequence[str], seconds: float, status: int, metrics: Sequence[Metric]
) -> None:
    """Write the metrics of a run, all at once: whoever reads the file sees the old ones or the new ones. Raises
    KlogError."""
    if path is not None:
        with output_file(path, replaces=True) as sink:
            sink.write(metrics_text(command, paths, [*run_metrics(now_ms(), seconds, status), *metrics]).encode())
