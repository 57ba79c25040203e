"""klogtool append."""

from __future__ import annotations

import base64
import os
import sys
import uuid
from typing import Any

import click

from klogtool.cli import options
from klogtool.cli.status import DONE, FOUND
from klogtool.cli.writing import decide_and_carry_out
from klogtool.cli.writing_options import writing
from klogtool.format.identity import build_uuid
from klogtool.render.append import append_text
from klogtool.repair.append import COMMAND, refused_calls
from klogtool.repair.appending.records import BATCH_BYTES
from klogtool.repair.circumstances import Circumstances

STDIN = "-"
MOST_STDIN_BYTES = 256 << 20


@click.command("append")
@click.argument("partition", metavar="PARTITION")
@click.argument("more_files", nargs=-1, metavar="[FILE]...")
@click.option(
    "--batches",
    multiple=True,
    metavar="FILE...",
    help="Raw batches (a fetch's bytes, a .log), a call each, offsets as they are: as a follower appends. - is stdin.",
)
@click.option(
    "--fetch-bytes",
    type=click.IntRange(1, 2**31 - 1),
    default=None,
    metavar="N",
    help="Of --batches: so many bytes a call, as a follower fetches.  [default: a file is a call]",
)
@click.option("--records", metavar="FILE", help="Records in JSON lines, as dump-log prints them. - is stdin.")
@click.option("--requests", metavar="FILE", help="A call a line, in JSON: hex or file, as, leader_epoch, now_ms, ...")
@click.option("--leader-epoch", callback=options.long, metavar="N", help="Whose epoch it is.  [default: the latest]")
@click.option(
    "--codec",
    type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]),
    default=None,
    help="Of --records: what they come compressed with.  [default: none]",
)
@click.option("--magic", type=click.IntRange(0, 2), default=None, help="Of --records: the format.  [default: 2]")
@click.option(
    "--batch-bytes",
    type=click.IntRange(1, 2**31 - 1),
    default=None,
    metavar="N",
    help=f"Of --records: how large batches get, before compression.  [default: {BATCH_BYTES}]",
)
@click.option(
    "--batch-records",
    type=click.IntRange(1, 2**31 - 1),
    default=None,
    metavar="N",
    help="Of --records: how many to a batch, at most.",
)
@click.option("--create", is_flag=True, help="Make the partition dir, if it is not there.")
@click.option("--topic-id", metavar="ID", help="With --create.  [default: by the log dir's own files, else a new one]")
@writing
@options.jobs
@options.quiet
@options.circumstances
@options.debug
def command(partition: str, more_files: tuple[str, ...], given: Circumstances, **chosen: Any) -> int:
    """Append to a partition dir, validated as a broker does: checksums, sizes, offsets, producers, timestamps.

    Records get the next offsets and are put into batches, as if a client had sent them to the leader; batches keep
    theirs, and must begin at the log's end or behind it. Segments are rolled and indexed as by a broker. A call that
    is refused appends nothing; the others go on. Prints the plan and stops; with --apply or --output, carries it out.

    Exit status: 0 done; 1 a call was refused, the others are done; 2 wrong usage, no such path; 3 refused, nothing
    written; 4 could not go on.
    """
    ways = [way for way in ("batches", "records", "requests") if chosen[way]]
    if len(ways) != 1:
        raise click.UsageError("--batches FILE..., --records FILE or --requests FILE: one of the three.")
    if more_files and ways != ["batches"]:
        raise click.UsageError(f"--{ways[0]} takes one file, and not {more_files[0]}.")
    _check_goes_with(ways[0], chosen)
    arguments = given.as_arguments() | _input(ways[0], chosen, more_files)
    names = (
        "leader_epoch",
        "fetch_bytes",
        "codec",
        "magic",
        "batch_bytes",
        "batch_records",
        "create",
        "topic_id",
        "jobs",
    )
    arguments |= options.only_given(chosen, names)
    if chosen["create"]:
        arguments["new_topic_id"] = build_uuid(uuid.uuid4().bytes)
    return decide_and_carry_out(
        COMMAND,
        [partition],
        arguments,
        chosen,
        text_of=append_text,
        status_of=lambda plan: FOUND if refused_calls(plan) else DONE,
    )


def _check_goes_with(way: str, chosen: dict[str, Any]) -> None:
    for name in ("codec", "magic", "batch_bytes", "batch_records"):
        if chosen[name] is not None and way != "records":
            raise click.UsageError(f"--{name.replace('_', '-')} goes with --records.")
    if chosen["fetch_bytes"] is not None and way != "batches":
        raise click.UsageError("--fetch-bytes goes with --batches.")
    if chosen["leader_epoch"] is not None and way == "requests":
        raise click.UsageError("--leader-epoch does not go with --requests: each call has its own.")
    if chosen["topic_id"] is not None and not chosen["create"]:
        raise click.UsageError("--topic-id goes with --create.")
    if chosen["magic"] in (0, 1) and chosen["codec"] == "zstd":
        raise click.UsageError(f"zstd is not for magic {chosen['magic']}.")


def _input(way: str, chosen: dict[str, Any], more_files: tuple[str, ...]) -> dict[str, Any]:
    """Files by their paths; standard input, which cannot be read again, with its content."""
    if way == "batches":
        files = [*chosen["batches"], *more_files]
        if STDIN not in files:
            return {"batches": [os.path.abspath(file) for file in files]}
        if len(files) > 1:
            raise click.UsageError("standard input goes alone: --batches -")
        return {"batches_base64": base64.b64encode(_stdin()).decode()}
    if chosen[way] == STDIN:
        return {f"{way}_text": _stdin().decode(errors="surrogateescape"), "folder": os.getcwd()}
    return {way: os.path.abspath(chosen[way])}


def _stdin() -> bytes:
    data = sys.stdin.buffer.read(MOST_STDIN_BYTES + 1)
    if len(data) > MOST_STDIN_BYTES:
        raise click.UsageError(f"more than {MOST_STDIN_BYTES >> 20} MiB on standard input: name a file.")
    return data
