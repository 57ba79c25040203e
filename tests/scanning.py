"""A segment in memory, wounded as a test likes, and what verify_segment has to say of it."""

from __future__ import annotations

import pathlib
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field

from kafka import layout
from readers import Reader
from running import FIXTURES

from klogtool.format.names import FileKind, build_file_name
from klogtool.log.segment import Segment
from klogtool.verify.findings import Finding
from klogtool.verify.segment_report import SegmentContext, SegmentReport
from klogtool.verify.verify_segment import verify_segment

NOW_MS = 2_000_000_000_000
LOG, INDEX, TIMEINDEX = FileKind.LOG, FileKind.OFFSET_INDEX, FileKind.TIME_INDEX
MEMORY = "/dev/shm" if pathlib.Path("/dev/shm").is_dir() else None


@dataclass(frozen=True)
class Files:
    """A segment's files by kind, and what is known around it."""

    base_offset: int
    files: Mapping[FileKind, bytes]
    context: SegmentContext = field(default_factory=lambda: SegmentContext(NOW_MS, is_active=True))

    @property
    def log(self) -> bytes:
        return self.files[LOG]

    def having(self, kind: FileKind, data: bytes) -> Files:
        """The same with another file."""
        return Files(self.base_offset, {**self.files, kind: data}, self.context)

    def log_alone(self) -> Files:
        """Only the log."""
        return Files(self.base_offset, {LOG: self.log}, self.context)


@dataclass(frozen=True)
class Told:
    """What was found: of the log and of the two indexes, and the report."""

    log: list[Finding]
    index: list[Finding]
    timeindex: list[Finding]
    report: SegmentReport

    @property
    def ids(self) -> set[str]:
        return {finding.id for finding in (*self.log, *self.index, *self.timeindex)}


def scan(files: Files, reader: Reader, *, deep: bool = False, jobs: int = 1) -> Told:
    """All findings of these files by this reader."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder, reader.reading() as native:
        for kind, data in files.files.items():
            (pathlib.Path(folder) / build_file_name(kind, files.base_offset)).write_bytes(data)
        segment = Segment(str(pathlib.Path(folder) / build_file_name(LOG, files.base_offset)))
        findings, report = verify_segment(segment, files.context, deep=deep, jobs=jobs)
    assert native is None or not files.log or native.asked["prove"] > 0

    def of(suffix: str) -> list[Finding]:
        return [finding for finding in findings if finding.path.endswith(suffix)]

    return Told(of(".log"), of(".index"), of(".timeindex"), report)


def segment_of(path: pathlib.Path, *, is_active: bool = True, next_base: int | None = None) -> Files:
    """A segment on disk with its indexes."""
    base_offset = int(path.name.partition(".")[0])
    kinds = {kind: path.with_name(build_file_name(kind, base_offset)) for kind in (LOG, INDEX, TIMEINDEX)}
    files = {kind: place.read_bytes() for kind, place in kinds.items() if place.exists()}
    return Files(base_offset, files, SegmentContext(NOW_MS, next_base, is_active))


def sound_segments() -> dict[str, Files]:
    """One of each magic and codec, transactions, compacted ones; by where they lie in fixtures/."""
    patterns = (
        "magic-0/logdir/create-*/*.log",
        "magic-1/logdir/create-*/*.log",
        "every-codec/logdir/create-*/*.log",
        "transactions/logdir/t-*/*.log",
        "compacted/**/keep-0/*.log",
        "leader-epochs/logdir/*/*.log",
    )
    found = {}
    for pattern in patterns:
        for path in sorted(FIXTURES.glob(pattern)):
            data = path.read_bytes()
            if len(layout.walk(data)) >= 3 and len(data) < 6000:
                found[path.relative_to(FIXTURES).as_posix()] = segment_of(path)
    return found
