"""verify, run on a path; and wounds for whole partition dirs and log dirs, by name."""

from __future__ import annotations

import os
import pathlib
import shutil
from collections.abc import Callable
from typing import Any

from raw_batches import build_batch

from klogtool.broker.circumstances import Circumstances
from klogtool.format.batch import Record
from klogtool.format.control import (
    ControlRecordType,
    EndTransactionMarker,
    build_control_key,
    build_end_transaction_marker,
)
from klogtool.format.indexes import AbortedTxn, build_txn_index, parse_txn_index
from klogtool.format.producer_snapshot import ProducerStateEntry, build_producer_snapshot, parse_producer_snapshot
from klogtool.verify.findings import Finding
from klogtool.verify.verification import Summary, VerifyOptions, verify

NOW_MS = 1_893_456_000_000  # 2030: no timestamp of a fixture is in its future
Path = pathlib.Path


def run_verify(*paths: str | os.PathLike[str], now_ms: int = NOW_MS, **options: Any) -> tuple[list[Finding], Summary]:
    """All findings, and the summary."""
    *findings, summary = verify([os.fspath(p) for p in paths], VerifyOptions(Circumstances(now_ms=now_ms), **options))
    assert isinstance(summary, Summary)
    return [finding for finding in findings if isinstance(finding, Finding)], summary


def found(*paths: str | os.PathLike[str], **options: Any) -> list[Finding]:
    """All findings that are no notes."""
    return [finding for finding in run_verify(*paths, **options)[0] if finding.severity.value != "info"]


def ids(findings: list[Finding]) -> set[str]:
    return {finding.id for finding in findings}


def told(findings: list[Finding]) -> list[tuple[str, str]]:
    """(id, file name) of each."""
    return [(finding.id, os.path.basename(finding.path)) for finding in findings]


def rename(old: Path, new: str) -> Path:
    return old.rename(old.with_name(new))


def copy_file(old: Path, new: str) -> Path:
    return Path(shutil.copy2(old, old.with_name(new)))


def edit_txn_index(path: Path, change: Callable[[list[AbortedTxn]], list[AbortedTxn]]) -> None:
    path.write_bytes(build_txn_index(change(parse_txn_index(path.read_bytes()))))


def edit_snapshot(path: Path, change: Callable[[list[ProducerStateEntry]], list[ProducerStateEntry]]) -> None:
    """Other entries, and a checksum that holds."""
    path.write_bytes(build_producer_snapshot(change(parse_producer_snapshot(path.read_bytes()))))


def edit_text(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


# ---------------------------------------------------------------- logs made for a test


def data(
    offset: int, producer_id: int = -1, sequence: int = 0, *, count: int = 1, epoch: int = 0, txn: bool = True
) -> bytes:
    """A batch of so many records from this offset on, of a producer's transaction unless it has none."""
    records = [Record(offset + n, 1_700_000_000_000 + offset + n, b"k", b"v") for n in range(count)]
    if producer_id < 0:
        return build_batch(records, partition_leader_epoch=0)
    return build_batch(
        records,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=txn,
        partition_leader_epoch=0,
    )


def marker(offset: int, producer_id: int, kind: str = "abort", *, epoch: int = 0) -> bytes:
    """The end of a transaction."""
    control = EndTransactionMarker(ControlRecordType[kind.upper()], 0)
    record = Record(
        offset, 1_700_000_000_000 + offset, build_control_key(control.type), build_end_transaction_marker(control)
    )
    return build_batch(
        [record],
        producer_id=producer_id,
        producer_epoch=epoch,
        is_transactional=True,
        is_control=True,
        partition_leader_epoch=0,
    )


def write_log(folder: Path, **segments: list[bytes]) -> Path:
    """A partition dir with these segments, by base offset (`s0=`, `s12=`), and no other file."""
    folder.mkdir(parents=True)
    for name, batches in segments.items():
        (folder / f"{int(name[1:]):020d}.log").write_bytes(b"".join(batches))
    return folder
