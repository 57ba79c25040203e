"""Salvage in tests: decide, write the result beside, and what must hold of every result."""

from __future__ import annotations

import pathlib
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from deciding import decided
from verifying import found

from klogtool.broker.circumstances import UNCLEAN, Circumstances, terms_of
from klogtool.broker.content import read_content
from klogtool.broker.draft import Draft
from klogtool.broker.unified_log.log_loader import LoadedLog
from klogtool.format.batch import CRC_COVERS_FROM, parse_batch
from klogtool.format.framing import walk_frames
from klogtool.format.message import parse_message
from klogtool.format.names import FileKind, parse_file_name
from klogtool.plans.plan import Delete, Plan, Write

NOW_MS = 1_700_000_000_000
Path = pathlib.Path


def plan_salvage(partition: Path, *replicas: Path, **given: Any) -> Plan:
    """The plan of `klogtool salvage`."""
    arguments = Circumstances(now_ms=NOW_MS, **given).as_arguments() | {
        "replicas": [str(replica) for replica in replicas]
    }
    (plan,) = decided("salvage", partition, arguments)
    return plan


def write_result(plan: Plan, target: Path) -> Path:
    """The partition dir that the plan leads to, in `target`."""
    result = target / Path(plan.path).name
    shutil.copytree(plan.path, result)
    for step in plan.steps:
        if isinstance(step, Delete):
            (result / step.path).unlink()
        else:
            assert isinstance(step, Write)
            (result / step.path).write_bytes(read_content(step.content))
    return result


@dataclass(frozen=True)
class Batch:
    """A batch or message of a partition, as bytes. body: what its checksum covers."""

    name: str
    position: int
    first_offset: int
    last_offset: int
    data: bytes

    @property
    def body(self) -> bytes:
        return self.data[CRC_COVERS_FROM if self.data[16] == 2 else 16 :]

    @property
    def end(self) -> int:
        return self.position + len(self.data)


def logs(partition: Path) -> list[Path]:
    """Its segments, by base offset."""
    files = [(parse_file_name(path.name), path) for path in partition.iterdir()]
    found = [(name.base_offset, path) for name, path in files if name.kind is FileKind.LOG and not name.suffix]
    return [path for _, path in sorted(found)]


def batches(partition: Path) -> Iterator[Batch]:
    """All batches of all segments, by frames alone."""
    for path in logs(partition):
        data = path.read_bytes()
        for frame in walk_frames(data, 0, len(data)):
            part = data[frame.position : frame.position + frame.size]
            if frame.magic == 2:
                batch = parse_batch(part)
                yield Batch(path.name, frame.position, batch.base_offset, batch.last_offset, part)
            else:
                offsets = [record.offset for record in parse_message(part).records()]
                yield Batch(path.name, frame.position, min([*offsets, frame.offset]), frame.offset, part)


def check_laws(plan: Plan, result: Path) -> None:
    """What holds of each salvage, whatever was damaged."""
    source, answer = Path(plan.path), plan.answer
    kept = list(batches(result))
    for batch in kept:
        sound = parse_batch(batch.data) if batch.data[16] == 2 else parse_message(batch.data)
        assert sound.crc_valid, batch
    assert all(a.last_offset < b.first_offset for a, b in pairwise(kept)), "offsets go down"
    assert sum(path.stat().st_size for path in logs(result)) == sum(len(batch.data) for batch in kept)
    check_names(result, kept)
    check_bytes(source, answer, kept)
    check_loads(result)
    # Where batches are lost, sequence numbers do not follow on, nor may segments.
    expected = {"sequence-gap", "timestamp-implausible"} | ({"segment-gap"} if answer["lost"] else set())
    assert [finding for finding in found(result) if finding.id not in expected] == []


def check_names(result: Path, kept: Sequence[Batch]) -> None:
    """Each segment's name lies behind the batches before it, and not behind its own."""
    for path in logs(result):
        base = int(path.name.split(".")[0])
        assert all(batch.last_offset < base for batch in kept if batch.name < path.name)
        assert all(batch.first_offset >= base for batch in kept if batch.name == path.name)


def check_bytes(source: Path, answer: Mapping[str, Any], kept: Sequence[Batch]) -> None:
    """Kept, filled and rejected bytes are all bytes; each loss has a cause, and lies in what is rejected."""
    rejected = [(part["file"], part["start"], part["end"]) for part in answer["rejected"]]
    for name, start, end in rejected:
        assert 0 <= start < end <= (source / name).stat().st_size
    size = sum(path.stat().st_size for path in logs(source))
    from_copies = sum(
        len(b.data)
        for b in kept
        if any(p["first_offset"] <= b.first_offset <= p["last_offset"] for p in answer["filled"])
    )
    assert sum(len(batch.data) for batch in kept) - from_copies + sum(e - s for _, s, e in rejected) == size
    assert answer["kept_batches"] + answer["filled_batches"] == len(kept)
    for loss in answer["lost"]:
        assert loss["cause"]
        inside = [part for part in rejected if int(part[0].split(".")[0]) == loss["segment"]]
        assert (loss["start"], loss["end"]) in [part[1:] for part in inside] or loss["end"] == 0
        if loss["first_offset"] is not None and loss["last_offset"] is not None:
            assert loss["first_offset"] <= loss["last_offset"]
            assert not [
                b for b in kept if b.first_offset <= loss["last_offset"] and b.last_offset >= loss["first_offset"]
            ]


def check_loads(result: Path) -> None:
    """A broker that recovers it from the first offset on finds nothing to do."""
    draft = Draft.of(str(result))
    terms = terms_of(str(result), Circumstances(now_ms=NOW_MS, recovery_point=0, last_stop=UNCLEAN))
    log = LoadedLog(draft, terms)
    assert (log.report.stopped_by, log.report.deleted_segments, log.report.was_split) == ({}, [], False)
    log.stop()
    before = {name: read_content(file.content) for name, file in draft.before.items()}
    assert {name: read_content(file.content) for name, file in draft.files.items()} == before
