"""klogtool remote verify."""

from __future__ import annotations

import time
from typing import Annotated, Literal

import click
from msgspec import Struct

from klogtool.broker.circumstances import Circumstances
from klogtool.cli import commands, options
from klogtool.cli.question_options import question_options
from klogtool.cli.remote_options import StoreQuestion
from klogtool.cli.show import ReadingOptions
from klogtool.cli.status import COULD_NOT, DONE, FOUND
from klogtool.cli.verify import FORMS
from klogtool.cli.verify_faces import CUT_SHORT, make_face
from klogtool.cli.verify_settings import VerifyQuestion
from klogtool.errors import KlogError
from klogtool.log.storage import LocalStorage
from klogtool.parameters import Unit, parameter
from klogtool.remote.inventory import JOBS
from klogtool.remote.verification import StoreTerms, verify_store
from klogtool.render.progress_bar import Bar
from klogtool.verify.verification import Summary
from klogtool.verify.weighing import NotCounted, Weighed

COMMAND = "remote verify"


class StoreVerifyQuestion(Struct, frozen=True, kw_only=True):
    """How a store is verified, and which findings count."""

    beside: StoreQuestion
    now_ms: Annotated[
        int | None,
        parameter("The current time: epoch ms or ISO 8601 (UTC).  [default: the clock]", Unit.TIME, option="now"),
    ] = None
    deep: Annotated[bool, parameter("Also decompress and parse every record.")] = False
    notes: Annotated[bool, parameter("Also show notes: things that are normal but worth knowing.")] = False
    fail_on: Annotated[Literal["error", "warning"], parameter("Lowest severity that makes the exit status 1.")] = (
        "error"
    )


@commands.command("verify")
@click.argument("store", metavar="STORE")
@question_options(StoreVerifyQuestion)
@options.reading(*FORMS, about="Output format: text, JSON Lines (--json), or a report for a CI system.")
@options.debug
def command(store: str, question: StoreVerifyQuestion, reading: ReadingOptions) -> int:
    """Find all that is wrong in a remote store: every batch of every segment, sizes, objects that are missing, and what
    nobody claims.

    With --metadata, objects and __remote_log_metadata are compared: orphans, copies and deletions that never ended,
    segments that a newer one displaced. With --local as well, the offsets that consumers do not get are named.

    \b
    Examples:
      klogtool remote verify /mnt/tier --metadata /data/kafka --local /data/kafka
      klogtool remote verify s3://bucket/tier --metadata /data/kafka --format junit

    Exit status: 0 nothing is wrong; 1 an error was found (with --fail-on warning: an error or a warning); 2 wrong
    usage, no such path; 4 a segment could not be checked (a key is missing), or klogtool could not go on.
    """
    began = time.monotonic()
    opened = question.beside.open_store(store)
    metadata, local = question.beside.read_metadata(), question.beside.read_local()
    now_ms = time.time_ns() // 1_000_000 if question.now_ms is None else question.now_ms
    shown = VerifyQuestion(circumstances=Circumstances(now_ms), notes=question.notes, fail_on=question.fail_on)
    face = make_face(shown, reading, [store], [store], None, Bar(0, wanted=False), COMMAND)
    # An object store answers late, so many requests are better than many cores.
    jobs = reading.threads if isinstance(opened.storage, LocalStorage) else reading.jobs or JOBS
    terms = StoreTerms(metadata, local, now_ms, question.deep, jobs, face.partition)
    status = DONE
    try:
        for item in verify_store(opened, terms):
            if isinstance(item, Summary):
                item.seconds = time.monotonic() - began
                if item.errors or (question.fail_on == "warning" and item.warnings):
                    status = FOUND
                elif item.was_without_help:
                    status = COULD_NOT
                face.summary(item, NotCounted(), status)
            else:
                face.finding(Weighed(item))
    except (KlogError, OSError, KeyboardInterrupt):
        face.cut_short(CUT_SHORT)
        raise
    face.close()
    return status
