"""What the file systems of the log dirs let a broker do: mounted read-only, or without room for a recovery.

A recovery builds indexes, snapshots and checkpoints. Indexes are sparse files that the broker maps: a page of them gets
its room when it is written to, and if there is none, the processor faults, and the whole process ends (InternalError of
the JVM). Any other file that cannot be written is an IOException, which takes the log dir offline.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from klogtool.broker.circumstances import Checkpoints
from klogtool.broker.cluster_config import CLUSTER_METADATA_DIR
from klogtool.causes import Reason
from klogtool.doctor.answers import Ahead, What
from klogtool.doctor.causes import AdviceCause, AheadCause, NoteCause
from klogtool.doctor.exceptions import stop_at
from klogtool.doctor.patient import Cluster
from klogtool.escape import quoted
from klogtool.format.names import MAPPED_INDEXES, FileKind, parse_file_name
from klogtool.plans.plan import Delete, Plan, Rename, Step, Truncate, Write

_FEW_FILES = 8  # checkpoints that a broker writes in its first minute
_FEW_BYTES = 1 << 16  # a block for each of them, and little else
_BLOCK = 4096  # of file systems and of mapped memory
_EPOCHS = FileKind.LEADER_EPOCH_CHECKPOINT.value


class Growth(Struct, frozen=True):
    """By how many bytes of the disk files grow, less what other files give back. indexes: of files that are mapped.
    files: how many more there are."""

    indexes: int = 0
    bytes: int = 0
    files: int = 0

    @classmethod
    def of(cls, plan: Plan) -> Growth:
        """Return what the recovery of a partition needs."""
        grown = {
            step.path: _blocks(step.size) - _allocated(plan, step.path)
            for step in plan.steps
            if isinstance(step, Write)
        }
        # A leader writes its epoch: in place of the file that there is, or into a new one.
        if not os.path.lexists(os.path.join(plan.path, _EPOCHS)):
            grown[_EPOCHS] = _BLOCK
        freed = sum(_given_back(plan, step) for step in plan.steps)
        indexes = sum(size for name, size in grown.items() if parse_file_name(name).kind in MAPPED_INDEXES)
        new = sum(not os.path.lexists(os.path.join(plan.path, name)) for name in grown)
        return cls(indexes, sum(grown.values()) - freed, new - sum(isinstance(step, Delete) for step in plan.steps))

    @classmethod
    def total(cls, parts: Iterable[Growth]) -> Growth:
        """Return the growth of all parts together."""
        whole = list(parts)
        return cls(*(sum(getattr(part, name) for part in whole) for name in cls.__struct_fields__))


NEW_PARTITION = Growth(bytes=2 * _BLOCK, files=6)  # partition.metadata and leader-epoch-checkpoint have bytes


def _given_back(plan: Plan, step: Step) -> int:
    match step:
        case Delete():
            return _allocated(plan, step.path)
        case Rename():
            return _allocated(plan, step.to)
        case Truncate():
            return max(0, _allocated(plan, step.path) - _blocks(step.size))
        case _:
            return 0


def _allocated(plan: Plan, name: str) -> int:
    """Return the room that a file has now: less than its size, if it is sparse."""
    try:
        return os.stat(os.path.join(plan.path, name)).st_blocks * 512
    except OSError:
        return 0


def _blocks(size: int) -> int:
    return -(-size // _BLOCK) * _BLOCK


class Room(Struct, frozen=True):
    """The room of a log dir's file system. left: bytes now; inodes: files that can be made, None where nobody counts
    them; growth: of all log dirs in it, by their recovery."""

    left: int
    inodes: int | None
    growth: Growth

    @property
    def is_full(self) -> bool:
        """Return whether no file can be made, or nothing written to it."""
        return not self.left or self.inodes == 0

    @property
    def is_too_small(self) -> bool:
        """Return whether the recovery needs more."""
        return self.growth.bytes > self.left or (self.inodes is not None and self.growth.files > self.inodes)


def rooms_of(growths: Mapping[str, Growth]) -> dict[str, Room]:
    """Return the room of each log dir. growths: what the recovery of its partitions needs."""
    by_disk: dict[int, list[Growth]] = {}
    for path, growth in growths.items():
        by_disk.setdefault(os.stat(path).st_dev, []).append(growth)
    stats = {path: os.statvfs(path) for path in growths}
    return {
        path: Room(
            stat.f_bavail * stat.f_frsize,
            stat.f_favail if stat.f_files else None,
            Growth.total(by_disk[os.stat(path).st_dev]),
        )
        for path, stat in stats.items()
    }


def walk_file_system_points(log_dirs: Sequence[str], cluster: Cluster, rooms: Mapping[str, Room]) -> Iterator[Ahead]:
    """Yield a point for each log dir in which a broker cannot write what it writes at a start."""
    for path in log_dirs:
        room, has_metadata = rooms[path], path == cluster.metadata_dir
        does, stop = outcome_of(has_metadata=has_metadata), stop_at("no-space", is_fatal=has_metadata)
        if os.statvfs(path).f_flag & os.ST_RDONLY:
            yield _read_only(path, has_metadata=has_metadata)
        elif room.inodes == 0:  # a clean stop deletes .lock, and each checkpoint is written as a new file
            yield replace(_full(path, AheadCause.NO_INODE(does=does), has_metadata=has_metadata), stop=stop)
        elif room.is_full and (has_metadata or not Checkpoints(path).has_clean_marker):
            # Files have to be written, and others may give room back, in an order of partitions that nobody knows.
            is_unsure = not has_metadata and room.growth.bytes < 0
            detail = (AheadCause.NO_SPACE_OR if is_unsure else AheadCause.NO_SPACE)(does=does)
            yield replace(_full(path, detail, has_metadata=has_metadata), stop=stop, is_unsure=is_unsure)
        elif room.is_too_small:
            # Whether an index or another file is the first without room depends on the order of partitions and threads:
            # the process may end, then.
            may_end = room.growth.indexes > 0 and not has_metadata
            does = AheadCause.OR_ENDS() if may_end else does
            if room.growth.bytes > room.left:
                detail = AheadCause.TOO_MANY_BYTES(growth=room.growth.bytes, left=room.left, does=does)
            else:
                detail = AheadCause.TOO_MANY_FILES(growth=room.growth.files, left=room.inodes or 0, does=does)
            yield replace(_full(path, detail, has_metadata=has_metadata), may_end=may_end)


def walk_room_notes(rooms: Mapping[str, Room]) -> Iterator[Reason]:
    """Yield what becomes of log dirs with no room, or next to none, when the start is over."""
    full = [
        path
        for path, room in rooms.items()
        if not room.left and room.inodes != 0 and Checkpoints(path).has_clean_marker
    ]
    if full:
        yield NoteCause.FULL(paths=tuple(full))
    for path, room in rooms.items():
        if path in full or room.is_full or room.is_too_small:
            continue
        left = room.left - max(0, room.growth.bytes)
        files = None if room.inodes is None else room.inodes - max(0, room.growth.files)
        if left < _FEW_BYTES:
            yield NoteCause.FEW_BYTES(left=left, path=path)
        elif files is not None and files < _FEW_FILES:
            yield NoteCause.FEW_FILES(files=files, path=path)


def _read_only(path: str, *, has_metadata: bool) -> Ahead:
    file = f"{CLUSTER_METADATA_DIR}/{0:020d}.log" if has_metadata else ".lock"
    return Ahead(
        path,
        What.REFUSES if has_metadata else What.OFFLINE,
        AheadCause.READ_ONLY(does=outcome_of(has_metadata=has_metadata)),
        stop=stop_at("read-only", is_fatal=has_metadata, path=os.path.join(path, file)),
        cure=AdviceCause.REMOUNT(path=quoted(path)),
    )


def _full(path: str, detail: Reason, *, has_metadata: bool) -> Ahead:
    what = What.REFUSES if has_metadata else What.NO_ROOM
    return Ahead(path, what, detail, cure=AdviceCause.FREE(path=quoted(path)), cure_looks=True)


def outcome_of(*, has_metadata: bool) -> Reason:
    """Return what a broker does that cannot write in a log dir."""
    return AheadCause.NOT_STARTING() if has_metadata else AheadCause.GOING_OFFLINE()
