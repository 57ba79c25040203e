"""klogtool append."""

from __future__ import annotations

import base64
import os
import sys
import uuid
from typing import Any

import click

from klogtool.broker.appending.records import BATCH_BYTES
from klogtool.broker.circumstances import Circumstances
from klogtool.cli import circumstance_options, commands, options
from klogtool.cli.status import DONE, FOUND
from klogtool.cli.writing import decide_and_carry_out
from klogtool.cli.writing_options import writing
from klogtool.format.uuids import build_uuid
from klogtool.plans.append import COMMAND, AppendQuestion, refused_calls
from klogtool.render.append import append_text

STDIN = "-"
MOST_STDIN_BYTES = 256 << 20


@commands.command("append")
@click.argument("partition", metavar="PARTITION")
@click.argument("more_files", nargs=-1, metavar="[FILE]...")
@click.option(
    "--batches",
    multiple=True,
    metavar="FILE...",
    help="Append raw batches (the bytes of a fetch, or a .log), one call for each file. Offsets "
    "stay as they are, as on a follower. - is stdin.",
)
@click.option(
    "--fetch-bytes",
    type=options.Number(1, 2**31 - 1),
    default=None,
    metavar="N",
    help="With --batches: append N bytes in one call, as a follower fetches.  [default: the whole file]",
)
@click.option("--records", metavar="FILE", help="Append records in JSON Lines, as dump-log prints them. - is stdin.")
@click.option(
    "--requests",
    metavar="FILE",
    help="Make one append call for each JSON line: hex or file, as, leader_epoch, now_ms, ...",
)
@click.option(
    "--leader-epoch", callback=options.long, metavar="N", help="Append with this leader epoch.  [default: the latest]"
)
@click.option(
    "--codec",
    type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]),
    default=None,
    help="With --records: compress batches with this codec.  [default: none]",
)
@click.option(
    "--magic", type=options.Number(0, 2), default=None, help="With --records: the record format.  [default: 2]"
)
@click.option(
    "--batch-bytes",
    type=options.Number(1, 2**31 - 1),
    default=None,
    metavar="N",
    help=f"With --records: largest size of a batch, before compression.  [default: {BATCH_BYTES}]",
)
@click.option(
    "--batch-records",
    type=options.Number(1, 2**31 - 1),
    default=None,
    metavar="N",
    help="With --records: largest number of records in a batch.",
)
@click.option("--create", is_flag=True, help="Create the partition dir if it does not exist.")
@click.option(
    "--topic-id", metavar="ID", help="With --create: the topic id.  [default: from the log dir, else a new one]"
)
@writing
@options.jobs
@options.quiet
@circumstance_options.circumstances
@options.debug
def command(partition: str, more_files: tuple[str, ...], circumstances: Circumstances, **chosen: Any) -> int:
    """Append to a partition dir. klogtool validates as a broker does: checksums, sizes, offsets, producers,
    timestamps.

    Records get the next offsets and are put into batches, as if a client had sent them to the leader. Batches keep
    their offsets, which must start at the log end offset or above it. Segments are rolled and indexed as on a broker.
    A refused call appends nothing, and the other calls go on. Prints the plan and stops. With --apply or --output,
    carries it out.

    \b
    Examples:
      klogtool append orders-0 --records records.jsonl
      klogtool append orders-0 --batches batches.bin --apply

    Exit status: 0 done; 1 a call was refused and the others are done, or loading the log lost records; 2 wrong usage,
    no such path; 3 refused, nothing written; 4 could not go on.
    """
    ways = [way for way in ("batches", "records", "requests") if chosen[way]]
    if len(ways) != 1:
        raise click.UsageError("Give exactly one of --batches FILE..., --records FILE and --requests FILE.")
    if more_files and ways != ["batches"]:
        raise click.UsageError(f"--{ways[0]} takes only one file: remove {more_files[0]}.")
    _check_goes_with(ways[0], chosen)
    question = AppendQuestion(
        circumstances=circumstances,
        jobs=chosen["jobs"],
        create=chosen["create"],
        topic_id=chosen["topic_id"],
        new_topic_id=build_uuid(uuid.uuid4().bytes) if chosen["create"] else None,
        leader_epoch=chosen["leader_epoch"],
        fetch_bytes=chosen["fetch_bytes"],
        codec=chosen["codec"],
        magic=chosen["magic"],
        batch_bytes=chosen["batch_bytes"],
        batch_records=chosen["batch_records"],
        **_input(ways[0], chosen, more_files),
    )
    return decide_and_carry_out(
        COMMAND,
        [partition],
        question,
        chosen,
        text_of=append_text,
        status_of=lambda plan: FOUND if refused_calls(plan) else DONE,
    )


def _check_goes_with(way: str, chosen: dict[str, Any]) -> None:
    for name in ("codec", "magic", "batch_bytes", "batch_records"):
        if chosen[name] is not None and way != "records":
            raise click.UsageError(f"--{name.replace('_', '-')} needs --records.")
    if chosen["fetch_bytes"] is not None and way != "batches":
        raise click.UsageError("--fetch-bytes needs --batches.")
    if chosen["leader_epoch"] is not None and way == "requests":
        raise click.UsageError("--leader-epoch does not go with --requests: each call has its own.")
    if chosen["topic_id"] is not None and not chosen["create"]:
        raise click.UsageError("--topic-id needs --create.")
    if chosen["magic"] in (0, 1) and chosen["codec"] == "zstd":
        raise click.UsageError(f"zstd does not exist for magic {chosen['magic']}.")


def _input(way: str, chosen: dict[str, Any], more_files: tuple[str, ...]) -> dict[str, Any]:
    """Return files by their paths; standard input, which cannot be read again, with its content."""
    if way == "batches":
        files = [*chosen["batches"], *more_files]
        if STDIN not in files:
            return {"batches": tuple(os.path.abspath(file) for file in files)}
        if len(files) > 1:
            raise click.UsageError("standard input must be the only input: --batches -")
        return {"batches_base64": base64.b64encode(_stdin()).decode()}
    if chosen[way] == STDIN:
        return {f"{way}_text": _stdin().decode(errors="surrogateescape"), "folder": os.getcwd()}
    return {way: os.path.abspath(chosen[way])}


def _stdin() -> bytes:
    data = sys.stdin.buffer.read(MOST_STDIN_BYTES + 1)
    if len(data) > MOST_STDIN_BYTES:
        raise click.UsageError(f"more than {MOST_STDIN_BYTES >> 20} MiB on standard input: name a file.")
    return data
