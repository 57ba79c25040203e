"""Reads the files of `fleet collect`: one reader, which checks every field. Never writes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

from msgspec.structs import replace

from klogtool.fleet.checks import wrong_file, wrong_row
from klogtool.fleet.collected import (
    COMMAND,
    FORMAT,
    MOST_EPOCHS,
    BrokerFacts,
    Collected,
    CommitFacts,
    CopyFacts,
    PartitionFacts,
    Row,
    TopicFacts,
    TransactionFacts,
)
from klogtool.fleet.framed import Framed, FramedFiles, LastLine

_FRAME = FramedFiles(COMMAND, Row | LastLine, wrong_row)
_Kind = TypeVar("_Kind", BrokerFacts, TopicFacts, PartitionFacts, CopyFacts, CommitFacts, TransactionFacts)


def read_collected(path: str) -> Collected:
    """Read a file. Raises Refused, which says what is wrong with it: cut short, changed, of another kind or version;
    KlogError if it cannot be read."""
    return _collected(_FRAME.read(path, _with_epochs_once), path)


def parse_collected(lines: Sequence[bytes], path: str) -> Collected:
    """Parse the lines of a file; see read_collected."""
    return _collected(_FRAME.parse(lines, path, _with_epochs_once), path)


def _collected(framed: Framed, path: str) -> Collected:
    rows = framed.rows
    brokers = [row for row in rows if isinstance(row, BrokerFacts)]
    if len(brokers) != 1 or rows[0] is not brokers[0]:
        raise _FRAME.refused(path, "its second line must be the only one about the broker")
    if brokers[0].format != FORMAT:
        raise _FRAME.refused(path, f"its format is {brokers[0].format}, this version reads {FORMAT}")
    file = Collected(
        brokers[0],
        _of(TopicFacts, rows),
        _of(PartitionFacts, rows),
        _of(CopyFacts, rows),
        path,
        framed.version,
        _of(CommitFacts, rows),
        _of(TransactionFacts, rows),
    )
    if (wrong := wrong_file(file)) is not None:
        raise _FRAME.refused(path, wrong)
    return file


def _with_epochs_once(rows: Iterable[Any], path: str) -> Iterator[Any]:
    """Yield the rows; leader epochs that a checkpoint and the batches tell alike are in memory once."""
    left = MOST_EPOCHS
    for row in rows:
        if isinstance(row, CopyFacts):
            left -= len(row.epochs) + len(row.checkpoint_epochs or ())
            if left < 0:
                raise _FRAME.refused(path, f"it has more than {MOST_EPOCHS:,} leader epochs")
            yield replace(row, checkpoint_epochs=row.epochs) if row.epochs == row.checkpoint_epochs else row
        else:
            yield row


def _of(kind: type[_Kind], rows: Sequence[Row]) -> tuple[_Kind, ...]:
    return tuple(row for row in rows if isinstance(row, kind))
