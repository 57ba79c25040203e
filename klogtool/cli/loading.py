"""Loads a partition for commands that only read, from a disk or from remote storage, and reports what a broker would
repair first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

import click

from klogtool.broker.circumstances import Checkpoints, Circumstances, fate_of
from klogtool.broker.unified_log.loaded_partition import LoadedPartition, load
from klogtool.cli.output import note
from klogtool.cli.remote_options import key_of
from klogtool.cli.show import ReadingOptions
from klogtool.disk.scratch import Scratch
from klogtool.log.folder import find_partition_dir_name, own_name
from klogtool.plans.recover_reach import find_behind_end
from klogtool.remote.loading import NeededOfLog, load_named
from klogtool.remote.named import find_named
from klogtool.render.words import count_text, words


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
        note(f"klogtool: {path}: {words(behind.reason(loaded.log_end_offset))} (klogtool recover says more)")
    if report.recovered:
        segments = count_text(len(report.recovered), "segment")
        cut = f", and cut the log at offset {loaded.log_end_offset:,}" if report.stopped_by or report.emptied else ""
        note(
            f"klogtool: {path}: a broker would recover {segments} first{cut}; the answer is for the log after that "
            "(--last-stop clean: for the log as it is)"
        )
    return loaded


def load_from_anywhere(
    path: str, wanted: NeededOfLog, keys: Sequence[str], circumstances: Circumstances, reading: ReadingOptions
) -> LoadedPartition:
    """Load a partition dir (see `load_and_tell`), or what is wanted of a partition in remote storage. keys: of --key.
    Raises as `load_and_tell` and `load_named`."""
    store = find_named(path, dict(map(key_of, keys)))
    if store is None:
        return load_and_tell(path, circumstances, reading)
    if (wanted.times or wanted.largest_time) and not reading.quiet:
        note(
            f"klogtool: {store.uri}: the times of segments are taken to ascend; if they do not, klogtool remote fetch "
            "brings all of them, and lookup finds what a broker finds"
        )

    @cache
    def scratch() -> Scratch:
        folder = Scratch.make("remote")
        click.get_current_context().call_on_close(folder.remove)
        return folder

    def save(name: str, chunks: Iterator[bytes]) -> str:
        scratch().write(name, chunks)
        return f"{scratch().path}/{name}"

    return load_named(store, wanted, circumstances, save)
