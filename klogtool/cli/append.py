"""klogtool append."""

from __future__ import annotations

import base64
import os
import uuid

import click
from msgspec.structs import replace

from klogtool.cli import commands
from klogtool.cli.output import read_stdin
from klogtool.cli.question_options import question_options
from klogtool.cli.status import DONE, FOUND
from klogtool.cli.writing import PlanFace, Writing, decide_and_carry_out, writing
from klogtool.format.uuids import build_uuid
from klogtool.plans.append import COMMAND, AppendQuestion, AppendResult
from klogtool.plans.plan import Plan
from klogtool.render.changes import append_text

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
@click.option("--records", metavar="FILE", help="Append records in JSON Lines, as dump-log prints them. - is stdin.")
@click.option(
    "--requests",
    metavar="FILE",
    help="Make one append call for each JSON line: hex or file, as, leader_epoch, now_ms, ...",
)
@question_options(AppendQuestion)
@writing
def command(partition: str, more_files: tuple[str, ...], question: AppendQuestion, writing: Writing) -> int:
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
    ways = [way for way in ("batches", "records", "requests") if getattr(question, way)]
    if len(ways) != 1:
        raise click.UsageError("Give exactly one of --batches FILE..., --records FILE and --requests FILE.")
    if more_files and ways != ["batches"]:
        raise click.UsageError(f"--{ways[0]} takes only one file: remove {more_files[0]}.")
    _check_goes_with(ways[0], question)
    if question.create:
        question = replace(question, new_topic_id=build_uuid(uuid.uuid4().bytes))

    def status_of(plan: Plan) -> int:
        return FOUND if isinstance(plan.result, AppendResult) and plan.result.refused else DONE

    face = PlanFace(text_of=append_text, status_of=status_of)
    return decide_and_carry_out(COMMAND, [partition], _with_input(question, more_files), writing, face)


def _check_goes_with(way: str, question: AppendQuestion) -> None:
    for name in ("codec", "magic", "batch_bytes", "batch_records"):
        if getattr(question, name) is not None and way != "records":
            raise click.UsageError(f"--{name.replace('_', '-')} needs --records.")
    if question.fetch_bytes is not None and way != "batches":
        raise click.UsageError("--fetch-bytes needs --batches.")
    if question.leader_epoch is not None and way == "requests":
        raise click.UsageError("--leader-epoch does not go with --requests: each call has its own.")
    if question.topic_id is not None and not question.create:
        raise click.UsageError("--topic-id needs --create.")
    if question.magic in (0, 1) and question.codec == "zstd":
        raise click.UsageError(f"zstd does not exist for magic {question.magic}.")


def _with_input(question: AppendQuestion, more_files: tuple[str, ...]) -> AppendQuestion:
    """Return the question with files by their paths, and standard input, which cannot be read again, with its
    content."""
    files = [*(question.batches or ()), *more_files]
    if not files:
        question = replace(question, batches=None)
    elif STDIN not in files:
        return replace(question, batches=tuple(map(os.path.abspath, files)))
    elif len(files) > 1:
        raise click.UsageError("standard input must be the only input: --batches -")
    else:
        return replace(question, batches=None, batches_base64=base64.b64encode(_stdin()).decode())
    for way, file in (("records", question.records), ("requests", question.requests)):
        if file == STDIN:
            text = _stdin().decode(errors="surrogateescape")
            question = replace(question, **{way: None, f"{way}_text": text, "folder": os.getcwd()})
        elif file is not None:
            question = replace(question, **{way: os.path.abspath(file)})
    return question


def _stdin() -> bytes:
    data = read_stdin(MOST_STDIN_BYTES + 1)
    if len(data) > MOST_STDIN_BYTES:
        raise click.UsageError(f"more than {MOST_STDIN_BYTES >> 20} MiB on standard input: name a file.")
    return data
