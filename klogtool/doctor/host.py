"""What the machine does to a log: limits of the kernel, mounts, room, and the page cache, judged for these log dirs.

`judge_host` reads /proc and /sys under a root, so that tests and a copy from another machine work as well; everything
that no such file says comes in as a number (`HostDir`). Recommendations are those of Kafka's documents (Hardware and
OS). What depends on no log dir (swapping, when dirty pages are written, schedulers) is not judged: they say it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from io import FileIO

from msgspec import Struct

from klogtool.causes import Reason
from klogtool.doctor.causes import HostCause
from klogtool.verify.findings import Severity

JVM_MAPS = 2000  # that a broker needs for itself: libraries, threads, heap
OTHER_FILES = 2000  # that a broker has open beside its logs: jars, connections of a small cluster
RECOMMENDED_OPEN_FILES = 100_000
USUAL_MAPS = 262_144
ROOM_TO_KEEP_BYTES = 1 << 30  # a segment of the default size
FILES_TO_KEEP = 1000
_NETWORK = ("nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "glusterfs", "fuse.sshfs", "fuse.glusterfs")
_VOLATILE = ("tmpfs", "ramfs")


class HostDir(Struct, frozen=True):
    """A log dir, and what is ahead of it.

    path: absolute, links resolved. segments: number of `.log` files; active: of them, those of the last segment of each
    partition. txn_indexes: number of `.txnindex` files. bytes_ahead, files_ahead: what recovery, rolls and compaction
    will write. free_bytes, free_files: of its file system; None if not known, or without a limit. cached_bytes of
    looked_at_bytes: how much of these files is in memory; None if nobody looked.
    """

    path: str
    segments: int = 0
    active: int = 0
    txn_indexes: int = 0
    bytes_ahead: int = 0
    files_ahead: int = 0
    free_bytes: int | None = None
    free_files: int | None = None
    cached_bytes: int | None = None
    looked_at_bytes: int | None = None


class HostPoint(Struct, frozen=True):
    """One thing about the machine. name: stable. found; recommended; why: what it does to a log.

    path: the log dirs or the mount that it is about; None: the whole machine.
    """

    name: str
    found: Reason
    recommended: Reason
    why: Reason
    severity: Severity
    path: str | None = None


def judge_host(dirs: Sequence[HostDir], root: str = "/") -> list[HostPoint]:
    """Return every point, also those without anything wrong (info); the worst first.

    dirs: all log dirs of one broker. root: the folder with `proc` and `sys`.
    """
    files = HostFiles(root)
    segments, active = sum(one.segments for one in dirs), sum(one.active for one in dirs)
    opened = segments + sum(one.txn_indexes for one in dirs)
    limits = [
        _maps(segments, active, files),
        _open_files(opened, files),
        _open_files_of_all(opened + 2 * segments, files),
    ]
    points = [*limits, *_of_mounts(dirs, files), *_of_cache(dirs)]
    worst_first = list(Severity)
    return sorted(points, key=lambda point: worst_first.index(point.severity))


def _maps(segments: int, active: int, files: HostFiles) -> HostPoint:
    limit = files.number("proc/sys/vm/max_map_count")
    at_once, at_most = 2 * active + JVM_MAPS, 2 * segments + JVM_MAPS
    return HostPoint(
        "vm.max_map_count",
        HostCause.MAPS(limit=_known(limit), at_start=2 * active, in_all=2 * segments),
        HostCause.MAPS_WANTED(above=at_most, example=max(USUAL_MAPS, 1 << (2 * at_most - 1).bit_length())),
        HostCause.MAPS_WHY(),
        _by_limit(limit, at_once, at_most),
    )


def _open_files(opened: int, files: HostFiles) -> HostPoint:
    limit, need = files.open_files(), opened + OTHER_FILES
    severity = _by_limit(limit, opened, max(need, RECOMMENDED_OPEN_FILES))
    return HostPoint(
        "open files",
        HostCause.OPEN_FILES(limit=_known(limit), opened=opened),
        HostCause.OPEN_FILES_WANTED(least=max(RECOMMENDED_OPEN_FILES, 2 * need)),
        HostCause.OPEN_FILES_WHY(),
        severity,
    )


def _open_files_of_all(referenced: int, files: HostFiles) -> HostPoint:
    limit, ceiling = files.number("proc/sys/fs/file-max"), files.number("proc/sys/fs/nr_open")
    need = referenced + OTHER_FILES + (files.number("proc/sys/fs/file-nr") or 0)
    known = [value for value in (limit, ceiling) if value is not None]
    return HostPoint(
        "fs.file-max, fs.nr_open",
        HostCause.FILE_MAX(limit=_known(limit), ceiling=_known(ceiling), need=need),
        HostCause.FILE_MAX_WANTED(above=2 * need),
        HostCause.FILE_MAX_WHY(),
        _by_limit(min(known, default=None), need, 2 * need),
    )


def _by_limit(limit: int | None, need: int, wish: int) -> Severity:
    if limit is None or limit >= max(need, wish):
        return Severity.INFO
    return Severity.ERROR if limit < need else Severity.WARNING


def _of_mounts(dirs: Sequence[HostDir], files: HostFiles) -> Iterator[HostPoint]:
    by_mount: dict[Mount | None, list[HostDir]] = {}
    for one in dirs:
        by_mount.setdefault(files.mount_of(one.path), []).append(one)
    for mount, on_it in by_mount.items():
        if mount is not None:
            yield _options(mount, on_it)
        for sharing in [on_it] if mount is not None else [[one] for one in on_it]:
            yield from _room(sharing)


def _options(mount: Mount, dirs: Sequence[HostDir]) -> HostPoint:
    severity, why = _worst_option(mount)
    return HostPoint(
        "mount",
        HostCause.MOUNT(kind=mount.kind, options=",".join(mount.options)),
        HostCause.MOUNT_WANTED(),
        why,
        severity,
        ", ".join(one.path for one in dirs),
    )


def _worst_option(mount: Mount) -> tuple[Severity, Reason]:
    if "ro" in mount.options:
        return Severity.ERROR, HostCause.READ_ONLY()
    if mount.kind in _VOLATILE:
        return Severity.ERROR, HostCause.VOLATILE()
    if mount.kind in _NETWORK:
        return Severity.WARNING, HostCause.NETWORK()
    if mount.kind == "overlay":
        return Severity.WARNING, HostCause.CONTAINER()
    if unsafe := sorted(mount.unsafe_options):
        return Severity.WARNING, HostCause.UNSAFE(options=tuple(unsafe))
    if not {"noatime", "relatime"} & set(mount.options):
        return Severity.WARNING, HostCause.STRICTATIME()
    if "noatime" not in mount.options:
        return Severity.INFO, HostCause.RELATIME()
    return Severity.INFO, HostCause.NOATIME()


def _room(dirs: Sequence[HostDir]) -> Iterator[HostPoint]:
    """Judge the room of log dirs that share a file system."""
    place = ", ".join(one.path for one in dirs)
    free = [one.free_bytes for one in dirs if one.free_bytes is not None]
    free_files = [one.free_files for one in dirs if one.free_files is not None]
    if free:
        ahead = sum(one.bytes_ahead for one in dirs)
        severity = _by_limit(min(free), ahead, ahead + ROOM_TO_KEEP_BYTES)
        yield HostPoint(
            "free space",
            HostCause.ROOM(free=min(free), ahead=ahead),
            HostCause.ROOM_WANTED(least=ahead + ROOM_TO_KEEP_BYTES),
            HostCause.ROOM_WHY() if severity is Severity.INFO else HostCause.ROOM_SHORT(),
            severity,
            place,
        )
    if free_files:
        ahead = sum(one.files_ahead for one in dirs)
        yield HostPoint(
            "free inodes",
            HostCause.INODES(free=min(free_files), ahead=ahead),
            HostCause.INODES_WANTED(least=ahead + FILES_TO_KEEP),
            HostCause.INODES_WHY(),
            _by_limit(min(free_files), ahead, ahead + FILES_TO_KEEP),
            place,
        )


def _of_cache(dirs: Sequence[HostDir]) -> Iterator[HostPoint]:
    for one in dirs:
        if one.cached_bytes is not None and one.looked_at_bytes:
            share = 100 * one.cached_bytes // one.looked_at_bytes
            yield HostPoint(
                "page cache",
                HostCause.CACHE(cached=one.cached_bytes, looked_at=one.looked_at_bytes, share=share),
                HostCause.CACHE_WANTED(),
                HostCause.CACHE_WHY(),
                Severity.INFO,
                one.path,
            )


def _known(number: int | None) -> Reason:
    return HostCause.UNKNOWN() if number is None else HostCause.NUMBER(number=number)


def measure_room(path: str) -> tuple[int, int | None]:
    """Return the free bytes and the free inodes (None: no limit) of the file system of a path, for a user who is not
    root. Raises OSError."""
    stat = os.statvfs(path)
    return stat.f_bavail * stat.f_frsize, stat.f_favail if stat.f_files else None


MOST_BYTES = 1 << 22  # of such a file; a machine with many containers has thousands of mounts
PIECE_BYTES = 1 << 14
_OCTAL = re.compile(r"\\([0-7]{3})")
_UNSAFE = frozenset({"data=writeback", "nobarrier", "barrier=0", "nobh"})


class Mount(Struct, frozen=True):
    """A line of mountinfo. point: where it is mounted. kind: of the file system. options: of the mount and of the file
    system."""

    point: str
    kind: str
    options: tuple[str, ...]

    @property
    def unsafe_options(self) -> frozenset[str]:
        """Return the options that may damage a file system at a power failure."""
        return _UNSAFE.intersection(self.options)


class HostFiles:
    """The files under a root. Each is read when it is asked for."""

    def __init__(self, root: str) -> None:
        self._root = root

    def number(self, name: str) -> int | None:
        """Return the first number of a file."""
        first = next(iter((self._text(name) or "").split()), "")
        return int(first) if first.isascii() and first.isdecimal() and len(first) <= 20 else None

    def open_files(self) -> int | None:
        """Return the soft limit of open files of this process; a very large number if there is no limit."""
        for line in (self._text("proc/self/limits") or "").splitlines():
            if line.startswith("Max open files"):
                soft = line.removeprefix("Max open files").split()[0]
                return 1 << 62 if soft == "unlimited" else int(soft) if soft.isdecimal() else None
        return None

    def mount_of(self, path: str) -> Mount | None:
        """Return the mount that a path is on: the one with the longest mount point, the last one mounted there."""
        on_it = [each for each in self._mounts if f"{path}/".startswith(f"{each.point.rstrip('/')}/")]
        return max(reversed(on_it), key=lambda mount: len(mount.point), default=None)

    @cached_property
    def _mounts(self) -> list[Mount]:
        return list(_mounts_in(self._text("proc/self/mountinfo") or ""))

    def _text(self, name: str) -> str | None:
        try:
            with open(os.path.join(self._root, name), "rb", buffering=0) as file:
                return os.fsdecode(b"".join(_pieces(file)))
        except OSError:
            return None


def _pieces(file: FileIO) -> Iterator[bytes]:
    """Yield what a file has, up to the limit. The kernel refuses to read much of /proc/sys at once."""
    left = MOST_BYTES
    while left > 0 and (chunk := file.read(PIECE_BYTES)):
        left -= len(chunk)
        yield chunk


def _mounts_in(text: str) -> Iterator[Mount]:
    """Parse `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue` (proc(5))."""
    for line in text.split("\n"):
        before, _, after = line.partition(" - ")
        own, system = before.split(" "), after.split(" ")
        if len(own) >= 6 and len(system) >= 3:
            options = dict.fromkeys([*own[5].split(","), *system[2].split(",")])
            yield Mount(_OCTAL.sub(lambda match: chr(int(match[1], 8)), own[4]), system[0], tuple(options))
