"""Small partition dirs made of batches, and what a broker's start would make of them, as files."""

from __future__ import annotations

import pathlib
import shutil
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from deciding import decided
from raw_batches import build_batch

from klogtool.broker.circumstances import CLEAN, UNCLEAN, Circumstances
from klogtool.broker.content import read_content
from klogtool.broker.draft import Draft
from klogtool.format.batch import Record
from klogtool.format.control import (
    ControlRecordType,
    EndTransactionMarker,
    build_control_key,
    build_end_transaction_marker,
)
from klogtool.plans.plan import Delete, Plan, Rename, Step, Write, files_after

NOW_MS = 1_700_000_000_000
CONFIG = {"index.interval.bytes": "0", "segment.index.bytes": "480"}
EPOCHS = "leader-epoch-checkpoint"

Files = Mapping[str, bytes]


def data(offset: int, *, records: int = 1, epoch: int = 1, time_ms: int | None = None, **header: Any) -> bytes:
    """A batch of data; its records are a second apart, by offset, unless time_ms says otherwise."""
    made = [
        Record(offset + n, NOW_MS + 1000 * (offset + n) if time_ms is None else time_ms, b"k", b"v" * 10)
        for n in range(records)
    ]
    return build_batch(made, partition_leader_epoch=epoch, **header)


def marker(offset: int, producer_id: int, *, aborts: bool = True, epoch: int = 1) -> bytes:
    """The end of a transaction."""
    kind = ControlRecordType.ABORT if aborts else ControlRecordType.COMMIT
    value = build_end_transaction_marker(EndTransactionMarker(kind, 0))
    record = Record(offset, NOW_MS + 1000 * offset, build_control_key(kind), value)
    return build_batch(
        [record],
        partition_leader_epoch=epoch,
        producer_id=producer_id,
        producer_epoch=0,
        is_transactional=True,
        is_control=True,
    )


def segment(base: int, batches: int = 4, *, epoch: int = 1) -> bytes:
    """A segment of batches of one record, without gaps."""
    return b"".join(data(base + n, epoch=epoch) for n in range(batches))


def make(folder: pathlib.Path, logs: Mapping[int, bytes | Sequence[bytes]]) -> pathlib.Path:
    """A partition dir with these segments, by base offset, as a broker leaves it that stopped cleanly."""
    folder.mkdir()
    for base, content in logs.items():
        (folder / f"{base:020d}.log").write_bytes(content if isinstance(content, bytes) else b"".join(content))
    put(folder, result_of(plan(folder)))
    return folder


def put(folder: pathlib.Path, files: Files) -> None:
    """These files, and no others, in the folder."""
    shutil.rmtree(folder)
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)


def plan(folder: pathlib.Path, *, clean: bool = False, config: Mapping[str, str] = CONFIG, **given: Any) -> Plan:
    """What a broker's start would do."""
    circumstances = Circumstances(now_ms=NOW_MS, config=config, last_stop=CLEAN if clean else UNCLEAN, **given)
    (made,) = decided("recover", str(folder), {**circumstances.as_arguments(), "jobs": 1})
    return made


def result_of(made: Plan, steps: Iterable[Step] | None = None) -> dict[str, bytes]:
    """The files behind the plan's steps, or behind these."""
    files = files_after(Draft.of(made.path), made.steps if steps is None else steps)
    return {name: read_content(file.content) for name, file in files.items()}


def times_behind(plan: Plan) -> dict[str, int | None]:
    """When each file was last changed, behind the steps of a plan; None: by them, now."""
    times: dict[str, int | None] = {name: file.mtime_ns for name, file in Draft.of(plan.path).before.items()}
    for step in plan.steps:
        if isinstance(step, Rename):
            times[step.to] = times.pop(step.path)
        elif isinstance(step, Delete):
            del times[step.path]
        else:
            times[step.path] = step.mtime_ns if isinstance(step, Write) else None
    return times


def files_of(folder: pathlib.Path) -> dict[str, bytes]:
    """All files of a folder."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}


def name_of(base: int, kind: str) -> str:
    """Such as 00000000000000000004.log."""
    return f"{base:020d}.{kind}"


def names_of(files: Iterable[str], kind: str) -> list[int]:
    """Base offsets of the files of one kind, such as "log" or "log.deleted"."""
    return [int(name.partition(".")[0]) for name in sorted(files) if name.partition(".")[2] == kind]
