"""What the machine does to a log: limits of the kernel, mounts, room, and the page cache, judged for these log dirs.

`judge_host` reads /proc and /sys under a root, so that tests and a copy from another machine work as well; everything
that no such file says comes in as a number (`HostDir`). Recommendations are those of Kafka's documents (Hardware and
OS). What depends on no log dir (swapping, when dirty pages are written, schedulers) is not judged: they say it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from msgspec import Struct

from klogtool.doctor.host_files import HostFiles, Mount
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
    """One thing about the machine. name: stable. found, recommended: short texts. why: what it does to a log.

    path: the log dirs or the mount that it is about; None: the whole machine.
    """

    name: str
    found: str
    recommended: str
    why: str
    severity: Severity
    path: str | None = None


def judge_host(dirs: Sequence[HostDir], root: str = "/") -> list[HostPoint]:
    """Return every point, also those without anything wrong (info); the worst first.

    dirs: all log dirs of one broker. root: the folder with `proc` and `sys`.
    """
    files = HostFiles(root)
    points = [*_of_limits(dirs, files), *_of_mounts(dirs, files), *_of_cache(dirs)]
    worst_first = list(Severity)
    return sorted(points, key=lambda point: worst_first.index(point.severity))


def _of_limits(dirs: Sequence[HostDir], files: HostFiles) -> Iterator[HostPoint]:
    segments, active = sum(one.segments for one in dirs), sum(one.active for one in dirs)
    opened = segments + sum(one.txn_indexes for one in dirs)
    yield _maps(segments, active, files)
    yield _open_files(opened, files)
    yield _open_files_of_all(opened + 2 * segments, files)


def _maps(segments: int, active: int, files: HostFiles) -> HostPoint:
    limit = files.number("proc/sys/vm/max_map_count")
    at_once, at_most = 2 * active + JVM_MAPS, 2 * segments + JVM_MAPS
    found = f"{_known(limit)}; these logs need {2 * active:,} at the start, up to {2 * segments:,} in all"
    return HostPoint(
        "vm.max_map_count",
        found,
        f"above {at_most:,}, for example {max(USUAL_MAPS, _next_power(2 * at_most)):,}",
        "Each segment has two indexes, and each is a memory map: those of active segments at the start, the others "
        "when somebody reads there. At the limit a log dir goes offline, or the broker ends ('Map failed').",
        _by_limit(limit, at_once, at_most),
    )


def _open_files(opened: int, files: HostFiles) -> HostPoint:
    limit, need = files.open_files(), opened + OTHER_FILES
    severity = _by_limit(limit, opened, max(need, RECOMMENDED_OPEN_FILES))
    found = f"{_known(limit)} for this process (ulimit -n); these logs need {opened:,}, and each connection one more"
    return HostPoint(
        "open files",
        found,
        f"at least {max(RECOMMENDED_OPEN_FILES, 2 * need):,} (Kafka's documents: 100,000 to start with)",
        "A broker has every .log and every .txnindex open, and its connections. At the limit log dirs go offline. A "
        "broker may have another limit than this process: LimitNOFILE of its service, /proc/PID/limits.",
        severity,
    )


def _open_files_of_all(referenced: int, files: HostFiles) -> HostPoint:
    limit, ceiling = files.number("proc/sys/fs/file-max"), files.number("proc/sys/fs/nr_open")
    need = referenced + OTHER_FILES + (files.number("proc/sys/fs/file-nr") or 0)
    known = [value for value in (limit, ceiling) if value is not None]
    return HostPoint(
        "fs.file-max, fs.nr_open",
        f"{_known(limit)}, {_known(ceiling)}; with these logs {need:,} files are in use",
        f"both above {2 * need:,}",
        "fs.file-max is the limit for all processes together; a mapped index counts, too. fs.nr_open is the highest "
        "limit that one process can be given.",
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
        f"{mount.kind} ({','.join(mount.options)})",
        "xfs or ext4 of a local disk, noatime",
        why,
        severity,
        ", ".join(one.path for one in dirs),
    )


def _worst_option(mount: Mount) -> tuple[Severity, str]:
    if "ro" in mount.options:
        return Severity.ERROR, "It is read-only: a broker takes its log dirs offline, and ends if it is its metadata."
    if mount.kind in _VOLATILE:
        return Severity.ERROR, "It is memory: everything in it is gone when the machine stops."
    if mount.kind in _NETWORK:
        return Severity.WARNING, (
            "It is a network file system. Files that are deleted while they are open keep a name there, so deletions "
            "of partitions fail; a server that is away takes the log dir offline."
        )
    if mount.kind == "overlay":
        return Severity.WARNING, "It is a layer of a container: everything in it is gone with the container."
    if unsafe := sorted(mount.unsafe_options):
        return Severity.WARNING, (
            f"{', '.join(unsafe)}: after a power failure files may hold old or foreign bytes, and the file system may "
            "be damaged. Kafka's documents call these options unsafe for several brokers at once."
        )
    if not {"noatime", "relatime"} & set(mount.options):
        return Severity.WARNING, "Every read writes the access time of a file (strictatime). Kafka does not use it."
    if "noatime" not in mount.options:
        return Severity.INFO, "Access times are written once a day (relatime). Kafka does not use them."
    return Severity.INFO, "Access times are not written. Kafka does not use them."


def _room(dirs: Sequence[HostDir]) -> Iterator[HostPoint]:
    """Judge the room of log dirs that share a file system."""
    place = ", ".join(one.path for one in dirs)
    free = [one.free_bytes for one in dirs if one.free_bytes is not None]
    free_files = [one.free_files for one in dirs if one.free_files is not None]
    if free:
        ahead = sum(one.bytes_ahead for one in dirs)
        severity = _by_limit(min(free), ahead, ahead + ROOM_TO_KEEP_BYTES)
        short = "" if severity is Severity.INFO else " klogtool free says what can be given up, the safest first."
        yield HostPoint(
            "free space",
            f"{min(free):,} bytes; {ahead:,} bytes will be written",
            f"at least {ahead + ROOM_TO_KEEP_BYTES:,} bytes",
            "Recovery, rolls and compaction write before they delete. On a full disk a broker takes the log dir "
            f"offline; a broker that has to recover the log dir cannot start on it.{short}",
            severity,
            place,
        )
    if free_files:
        ahead = sum(one.files_ahead for one in dirs)
        yield HostPoint(
            "free inodes",
            f"{min(free_files):,}; {ahead:,} files will be written",
            f"at least {ahead + FILES_TO_KEEP:,}",
            "Without inodes no file can be created: a broker takes the log dir offline as with a full disk.",
            _by_limit(min(free_files), ahead, ahead + FILES_TO_KEEP),
            place,
        )


def _of_cache(dirs: Sequence[HostDir]) -> Iterator[HostPoint]:
    for one in dirs:
        if one.cached_bytes is not None and one.looked_at_bytes:
            share = 100 * one.cached_bytes // one.looked_at_bytes
            yield HostPoint(
                "page cache",
                f"{one.cached_bytes:,} of {one.looked_at_bytes:,} bytes ({share} %) are in memory",
                "memory for what is written in 30 seconds (Kafka's documents), and for what consumers lag behind",
                "What is in memory is read without the disk. After a restart of the machine nothing is, and the first "
                "consumers and the recovery read from the disk.",
                Severity.INFO,
                one.path,
            )


def _known(number: int | None) -> str:
    return "not known" if number is None else f"{number:,}"


def _next_power(number: int) -> int:
    return 1 << (number - 1).bit_length() if number > 1 else 1


def measure_room(path: str) -> tuple[int, int | None]:
    """Return the free bytes and the free inodes (None: no limit) of the file system of a path, for a user who is not
    root. Raises OSError."""
    found = os.statvfs(path)
    return found.f_bavail * found.f_frsize, found.f_favail if found.f_files else None
