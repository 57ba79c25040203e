"""klogtool remote verify."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Annotated

import click
from msgspec import Struct
from msgspec.structs import replace

from klogtool import clock
from klogtool.broker.circumstances import Circumstances
from klogtool.cli import commands, options
from klogtool.cli.output import note
from klogtool.cli.question_options import question_options
from klogtool.cli.remote_options import StoreQuestion
from klogtool.cli.scrub import KEPT_PERIODS, Duration, period_ms
from klogtool.cli.show import ReadingOptions
from klogtool.cli.status import COULD_NOT, DONE, FOUND
from klogtool.cli.verify import FORMS
from klogtool.cli.verify_faces import CUT_SHORT, make_face
from klogtool.cli.verify_settings import FailOn, VerifyQuestion, is_failed
from klogtool.disk.line_file import open_line_file
from klogtool.errors import KlogError
from klogtool.log.storage import LocalStorage
from klogtool.parameters import Unit, parameter
from klogtool.remote.inventory import JOBS
from klogtool.remote.store import RemoteStore
from klogtool.remote.verification import ReadSegment, StoreState, StoreTerms, verify_store
from klogtool.render.progress_bar import Bar
from klogtool.verify.findings import Finding
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
    every: Annotated[
        float | None,
        parameter(
            "With --state: read each segment once in this time.  [default: 30d]", Unit.TIME, parse=options.duration
        ),
    ] = None
    duration: Duration = None
    state: Annotated[
        str | None,
        parameter("Remember in this file in which segments nothing was found, and read the others first.", Unit.FILE),
    ] = None
    deep: Annotated[bool, parameter("Also decompress and parse every record.")] = False
    notes: Annotated[bool, parameter("Also show notes: things that are normal but worth knowing.")] = False
    fail_on: FailOn = "error"


@commands.command("verify")
@click.argument("store", metavar="STORE")
@question_options(StoreVerifyQuestion)
@options.reading(*FORMS, about="Output format: text, JSON Lines (--json), or a report for a CI system.")
def command(store: str, question: StoreVerifyQuestion, reading: ReadingOptions) -> int:
    """Find all that is wrong in a remote store: every batch of every segment, sizes, objects that are missing, and what
    nobody claims.

    With --metadata, objects and __remote_log_metadata are compared: orphans, copies and deletions that never ended,
    segments that a newer one displaced. With --local as well, the offsets that consumers do not get are named. With
    --state, a run goes on where another one ended: segments in which nothing was found are not read again.

    \b
    Examples:
      klogtool remote verify /mnt/tier --metadata /data/kafka --local /data/kafka
      klogtool remote verify s3://bucket/tier --metadata /data/kafka --format junit
      klogtool remote verify s3://bucket/tier --metadata /data/kafka --state /var/lib/klogtool/tier --for 1h

    Exit status: 0 nothing is wrong, also if more is to be read (--for); 1 an error was found (with --fail-on warning:
    an error or a warning); 2 wrong usage, no such path; 3 refused: the state is another file, in a log dir, or in use;
    4 a segment could not be checked (a key is missing), or klogtool could not go on.
    """
    began = time.monotonic()
    if question.every is not None and question.state is None:
        raise click.UsageError("--every goes with --state.")
    opened = question.beside.open_segments(store)
    metadata, local = question.beside.read_metadata(), question.beside.read_local()
    if metadata is not None and opened.segments.keys().isdisjoint(finished := metadata.finished()) and finished:
        note(f"klogtool: {opened.uri}: it has none of the segments that the metadata names: is it the store?")
    now_ms = clock.now_ms() if question.now_ms is None else question.now_ms
    shown = VerifyQuestion(circumstances=Circumstances(now_ms=now_ms), notes=question.notes, fail_on=question.fail_on)
    face = make_face(shown, reading, [opened.uri], [opened.uri], None, Bar(0, wanted=False), COMMAND)
    # An object store answers late, so many requests are better than many cores.
    jobs = reading.threads if isinstance(opened.storage, LocalStorage) else reading.jobs or JOBS
    time_given = _Clock(began, question.duration)
    terms = StoreTerms(metadata, local, now_ms, question.deep, jobs, face.partition, may_begin=time_given.may_begin)
    status = DONE
    try:
        for item in _verify(opened, terms, question):
            if isinstance(item, Summary):
                item.seconds = time.monotonic() - began
                if is_failed(item, question.fail_on):
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


class _Clock:
    """The time that --for gives. The first segment is read however short it is: else nothing would ever be read."""

    def __init__(self, began: float, seconds: float | None) -> None:
        self._began, self._seconds, self._has_begun = began, seconds, False

    def may_begin(self) -> bool:
        """Return whether one more segment may be begun."""
        is_first, self._has_begun = not self._has_begun, True
        return is_first or self._seconds is None or time.monotonic() - self._began < self._seconds


def _verify(store: RemoteStore, terms: StoreTerms, question: StoreVerifyQuestion) -> Iterator[Finding | Summary]:
    """Verify the store; with --state, go on where an earlier run ended, and remember what was read."""
    if question.state is None:
        yield from verify_store(store, terms)
        return
    every_ms = period_ms(question.every)
    with open_line_file(question.state) as file:
        state = StoreState(ReadSegment, COMMAND, file.path, file.data, terms.now_ms)
        if not file.data.startswith(state.first_line):
            file.add(state.first_line)

        def was_read(segment: str) -> bool:
            known = state.find(segment)
            return known is not None and terms.now_ms - known.checked_ms < every_ms

        def on_sound(segment: str) -> None:
            file.add(state.add(ReadSegment(segment, terms.now_ms)))

        yield from verify_store(store, replace(terms, was_read=was_read, on_sound=on_sound))
        file.replace(state.lines((), since_ms=terms.now_ms - KEPT_PERIODS * every_ms))
