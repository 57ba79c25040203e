"""klogtool txns --audit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

from msgspec import Struct

from klogtool.broker.circumstances import Checkpoints, Circumstances
from klogtool.broker.coordinator.audit import audit
from klogtool.broker.coordinator.coordinators import find_coordinators
from klogtool.broker.coordinator.transaction_parts import PartitionParts, read_parts
from klogtool.broker.coordinator.transaction_state import TOPIC
from klogtool.cli.loading import load_and_tell
from klogtool.cli.output import error_lines, note
from klogtool.cli.show import ReadingOptions, Show, is_refusal
from klogtool.cli.status import DONE, FOUND
from klogtool.errors import KlogError
from klogtool.format.names import PartitionDirState
from klogtool.log.logdir import LogDir
from klogtool.log.opened import open_path
from klogtool.parameters import Unit, parameter
from klogtool.render.counts import count_text
from klogtool.render.txns import audit_closing, audit_row, audit_text, partition_of

COMMAND = "txns --audit"


class TxnsQuestion(Struct, frozen=True, kw_only=True):
    """Which transactions are looked at, and how."""

    circumstances: Circumstances
    transaction_state: Annotated[
        tuple[str, ...],
        parameter(
            "Also read __transaction_state in this log dir, or this partition dir of it. Repeatable.",
            Unit.FOLDER,
            metavar="PATH",
        ),
    ] = ()
    audit: Annotated[bool, parameter("Find transactions that were torn, lost or wrongly ended.")] = False


def run_audit(paths: Sequence[str], question: TxnsQuestion, reading: ReadingOptions) -> int:
    """Show what is wrong with the transactions of the paths. Returns the exit status."""
    circumstances = question.circumstances
    coordinators = find_coordinators([*paths, *question.transaction_state], circumstances, reading.jobs, with_ends=True)
    partitions, problems = _read_all(paths, circumstances, reading)
    # A partition of __transaction_state is read twice.
    for lines in {tuple(error_lines(error)): None for error in (*coordinators.problems, *problems)}:
        note(*lines)
    show, count = Show(COMMAND, reading, kafka=circumstances.kafka), 0
    for count, finding in enumerate(audit(partitions, coordinators), 1):  # noqa: B007
        show.row(audit_row(finding))
        show.text(audit_text(finding))
    transactions = sum(len(partition.parts) for partition in partitions)
    answer = {"findings": count, "partitions": len(partitions), "transactions": transactions}
    known = {"coordinators": sorted(coordinators.partitions), "all_coordinators": coordinators.is_whole}
    show.answer({**answer, **known})
    at_hand = f"{count_text(len(coordinators.partitions), 'partition')} of {TOPIC}"
    show.line(audit_closing(count, len(partitions), transactions, at_hand))
    show.close()
    return FOUND if count or problems or coordinators.problems else DONE


def _read_all(
    paths: Sequence[str], circumstances: Circumstances, reading: ReadingOptions
) -> tuple[list[PartitionParts], list[KlogError]]:
    """Read the partitions of all paths; return also what could not be read. Raises KlogError where we could not go
    on."""
    results: list[PartitionParts] = []
    problems: list[KlogError] = []
    for path, checkpoints in _partitions(paths):
        try:
            loaded = load_and_tell(path, circumstances, reading, checkpoints)
            results.append(read_parts(loaded, partition_of(loaded)))
        except KlogError as error:
            if not is_refusal(error):
                raise
            problems.append(error)
    return results, [*problems, *(one.damage for one in results if one.damage is not None)]


def _partitions(paths: Sequence[str]) -> Iterator[tuple[str, Checkpoints | None]]:
    for path in paths:
        opened = open_path(path)
        if isinstance(opened, LogDir):
            checkpoints = Checkpoints.of(path)
            current = (one for one in opened.partitions if one.state is PartitionDirState.CURRENT)
            yield from ((one.path, checkpoints) for one in current)
        else:
            yield path, None
