"""klogtool txns --audit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from klogtool.broker.circumstances import Checkpoints, Circumstances
from klogtool.broker.coordinator.audit import audit
from klogtool.broker.coordinator.coordinators import Coordinators, find_coordinators
from klogtool.broker.coordinator.transaction_parts import PartitionParts, read_parts
from klogtool.broker.coordinator.transaction_state import TOPIC
from klogtool.cli.loading import load_and_tell
from klogtool.cli.output import Output, error_lines, note
from klogtool.cli.show import header, is_refusal
from klogtool.cli.status import DONE, FOUND
from klogtool.errors import KlogError
from klogtool.format.names import PartitionDirState
from klogtool.json_rows import row_line
from klogtool.log.logdir import LogDir
from klogtool.log.opened import open_path
from klogtool.render.counts import count_text
from klogtool.render.txns import partition_of
from klogtool.render.txns_audit import audit_closing, audit_row, audit_text

COMMAND = "txns --audit"


def run_audit(paths: Sequence[str], form: str, circumstances: Circumstances, chosen: Mapping[str, Any]) -> int:
    """Show what is wrong with the transactions of the paths. Returns the exit status."""
    out, is_json = Output(), form == "json"
    coordinators = find_coordinators(
        [*paths, *chosen["transaction_state"]], circumstances, chosen["jobs"], with_ends=True
    )
    found, problems = _read_all(paths, circumstances, chosen)
    told = {tuple(error_lines(error)): None for error in (*coordinators.problems, *problems)}
    for lines in told:  # a partition of __transaction_state is read twice
        note(*lines)
    if is_json:
        out.line(row_line(header(COMMAND)))
    count = 0
    for count, one in enumerate(audit(found, coordinators), 1):  # noqa: B007
        out.line(row_line(audit_row(one))) if is_json else out.text(audit_text(one))
    transactions = sum(len(partition.parts) for partition in found)
    if is_json:
        out.line(row_line(_answer(count, len(found), transactions, coordinators, circumstances)))
    else:
        at_hand = f"{count_text(len(coordinators.partitions), 'partition')} of {TOPIC}"
        out.line(audit_closing(count, len(found), transactions, at_hand))
    out.flush()
    return FOUND if count or problems or coordinators.problems else DONE


def _answer(
    findings: int, partitions: int, transactions: int, coordinators: Coordinators, circumstances: Circumstances
) -> dict[str, Any]:
    return {
        "type": "answer",
        "command": COMMAND,
        "findings": findings,
        "partitions": partitions,
        "transactions": transactions,
        "coordinators": sorted(coordinators.partitions),
        "all_coordinators": coordinators.is_whole,
        "kafka": circumstances.kafka,
    }


def _read_all(
    paths: Sequence[str], circumstances: Circumstances, chosen: Mapping[str, Any]
) -> tuple[list[PartitionParts], list[KlogError]]:
    """Read the partitions of all paths; return also what could not be read. Raises KlogError where we could not go
    on."""
    found: list[PartitionParts] = []
    problems: list[KlogError] = []
    for path, checkpoints in _partitions(paths):
        try:
            loaded = load_and_tell(path, circumstances, chosen, checkpoints)
            found.append(read_parts(loaded, partition_of(loaded)))
        except KlogError as error:
            if not is_refusal(error):
                raise
            problems.append(error)
    return found, [*problems, *(one.damage for one in found if one.damage is not None)]


def _partitions(paths: Sequence[str]) -> Iterator[tuple[str, Checkpoints | None]]:
    for path in paths:
        opened = open_path(path)
        if isinstance(opened, LogDir):
            checkpoints = Checkpoints.of(path)
            current = (one for one in opened.partitions if one.state is PartitionDirState.CURRENT)
            yield from ((one.path, checkpoints) for one in current)
        else:
            yield path, None
