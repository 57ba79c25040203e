"""Where log dirs are: on this machine, or in storage that pyarrow.fs or fsspec opens. Listed once, read by ranges.

A local file is a `log.file`, mapped if that helps. A remote file has the same interface, and is fetched in pieces:
large ones if all of it is wanted, small ones if only headers are.
"""

from __future__ import annotations

import glob
import json
import os
import re
import stat
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from functools import lru_cache
from http import HTTPStatus
from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from klogtool.errors import AboveLimit, Refused, Unsupported
from klogtool.log.file import LogFile, ReadErrors, Unreadable, read_whole, unreadable
from klogtool.log.folder import is_file

if TYPE_CHECKING:
    from types import ModuleType

AHEAD_BYTES = 8 << 20  # read ahead in a remote file that is read from one end to the other
MOST_SIDE_BYTES = 1 << 30
WAITS_S = (0.1, 0.5, 2.0)  # before a range is requested again
PATIENCE_S, REFUND_S = 20.0, 1.0  # of a store for requests that fail; what each one that succeeds gives back
MS = 1000
LOG_SUFFIX = ".log"
NS_A_MS = 1_000_000
_MARKS = (b"\xa5", b"\x5a")  # a byte of the file can be one of them, not both
LOCAL_SCHEMES = ("", "file")
HADOOP_S3 = ("s3a", "s3n")
# S3's and Azure's keys stand before the host; a signature is in the query. A host's port is no secret.
_SECRET = re.compile(
    r"(?<=://)[^/@]*:[^@]*(?=@)|(?<=[?&])[^=&]*(?:key|secret|sig|token|pass|cred|auth)[^=&]*=[^&]*", re.IGNORECASE
)
ARROW_SCHEMES = ("s3", "gs", "gcs", "hdfs", "viewfs", "abfs", "abfss")


class Place(Struct, frozen=True):
    """A path that was given: local, or a URI. options: of fsspec, as JSON; then fsspec opens it."""

    uri: str
    options: str = ""

    @property
    def scheme(self) -> str:
        """The part before ://, or nothing for a local path. Hadoop's s3a and s3n are s3."""
        named = self.uri.partition("://")[0] if "://" in self.uri else ""
        return "s3" if named in HADOOP_S3 else named

    @property
    def shown(self) -> str:
        """The URI as it may be shown: without passwords and keys."""
        return _SECRET.sub("***", self.uri) if self.scheme not in LOCAL_SCHEMES else self.uri

    @property
    def home(self) -> tuple[str, str, str]:
        """What the same path has to share to be the same file: scheme, host (or bucket) and query of the URI."""
        if self.scheme in LOCAL_SCHEMES:
            return "", "", ""
        path, _, query = self.uri.partition("://")[2].partition("?")
        return self.scheme, path.partition("/")[0], query


class Stored(Struct, frozen=True):
    """A file as listed. size: bytes; mtime_ms: -1 if unknown; inode: its device and number, if it is a local file."""

    path: str
    size: int
    mtime_ms: int
    inode: tuple[int, int] | None = None

    def is_replaced_by(self, file: LogFile) -> bool:
        """Return whether another file has its name now. Another machine may have it on another device, with other
        numbers: then nobody can tell."""
        listed, opened = self.inode, file.inode
        if listed is None or opened is None:
            return False
        return listed[0] == opened[0] and listed[1] != opened[1]


class Traffic(Struct):
    """What was requested from a remote place: the number of requests for bytes, and of bytes received.

    patience_s: how long requests may go on to fail. Where that is used up, a store is down, and each range is requested
    once, until one comes: a thousand objects would take hours else.
    """

    requests: int = 0
    bytes: int = 0
    patience_s: float = PATIENCE_S


class Storage(Protocol):
    """Access to the files of a place. Paths are URIs, or those of this machine."""

    traffic: Traffic

    def list(self, path: str) -> list[Stored]:
        """Return all files under a folder, by path; a file is its own list. Raises Unreadable if there is nothing."""

    def open(self, stored: Stored, *, ahead_bytes: int = AHEAD_BYTES) -> LogFile:
        """Open a listed file. ahead_bytes: read ahead, if it has to be fetched."""

    def read(self, stored: Stored) -> bytes:
        """All bytes of a small file."""


LONGEST_PATH = 4096  # PATH_MAX; to look for a longer pattern takes time, and finds nothing


def expand(place: Place) -> list[Place]:
    """Return the places that a local path with * ? or [ matches; any other place stands for itself.

    Raises Unreadable if there are none.
    """
    if place.scheme not in LOCAL_SCHEMES:
        return [place]
    path = place.uri.removeprefix("file://")
    if not glob.has_magic(path) or os.path.lexists(path):
        return [Place(os.path.abspath(path))]
    paths = sorted(glob.glob(path)) if len(path) <= LONGEST_PATH else []
    if not paths:
        raise Unreadable("no such file or directory", path=path)
    return [Place(os.path.abspath(name)) for name in paths]


def check_place(place: Place) -> None:
    """Raises KlogError for a place that cannot be opened, or, on this machine, has no log."""
    storage, path = open_place(place)
    if not isinstance(storage, LocalStorage):
        return  # it is listed when the query is planned
    with ReadErrors(path):
        mode = os.stat(path).st_mode
        if stat.S_ISDIR(mode) and not any(stored.path.endswith(LOG_SUFFIX) for stored in _walk(path)):
            raise Refused("no partition dir with a .log file was found", path=place.shown)


@lru_cache(maxsize=64)
def open_place(place: Place) -> tuple[Storage, str]:
    """Return the storage, and the path in it: a URI without its query, or one of this machine.

    Raises Unsupported for an unknown scheme.
    """
    if place.scheme in LOCAL_SCHEMES:
        return LocalStorage(), os.path.abspath(place.uri.removeprefix("file://"))
    with ReadErrors(place.shown):
        if place.options or place.scheme not in ARROW_SCHEMES:
            return _by_fsspec(place)
        return _by_arrow(place)


class LocalStorage:
    """The storage of this machine: files are mapped, or read."""

    def __init__(self) -> None:
        self.traffic = Traffic()

    def list(self, path: str) -> list[Stored]:
        """See `Storage`."""
        with ReadErrors(path):
            if not os.path.isdir(path):
                return [_stored(path, os.stat(path))]
            return sorted(_walk(path), key=attrgetter("path"))

    def open(self, stored: Stored, *, ahead_bytes: int = AHEAD_BYTES) -> LogFile:
        """See `Storage`."""
        return LogFile(stored.path)

    def read(self, stored: Stored) -> bytes:
        """See `Storage`."""
        return read_whole(stored.path, limit=MOST_SIDE_BYTES)


def _walk(folder: str) -> Iterator[Stored]:
    """Yield the files under a folder. A subfolder that cannot be listed (lost+found) is left out, and so are files that
    disappear meanwhile."""
    folders = []
    with os.scandir(folder) as entries:
        for entry in entries:
            with suppress(FileNotFoundError):
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif is_file(entry):
                    yield _stored(entry.path, entry.stat())
    for inside in folders:
        with suppress(OSError):
            yield from _walk(inside)


def _stored(path: str, status: os.stat_result) -> Stored:
    return Stored(path, status.st_size, status.st_mtime_ns // NS_A_MS, (status.st_dev, status.st_ino))


class StoredFile(LogFile):
    """A remote file. fetch(position, size): its bytes; size: as listed; later bytes are not seen.

    A range that fails, or has another size than was requested, is requested again, and is an error in the end: what
    was listed is there, so fewer bytes are never the end of the file.
    """

    is_mappable = False

    def __init__(
        self,
        path: str,
        size: int,
        fetch: Callable[[int, int], bytes],
        ahead_bytes: int,
        traffic: Traffic | None = None,
    ) -> None:
        self.path, self.size, self._traffic = path, size, traffic or Traffic()
        self._fd, self._fetch, self._ahead_bytes = -1, fetch, ahead_bytes
        self._held = threading.local()  # the last piece: each thread reads a part of its own

    def read(self, position: int, size: int) -> bytes:
        """`size` bytes from byte `position`, fewer where the file ends. Raises KlogError on an I/O error."""
        size = max(0, min(size, self.size - position))
        base, chunk = getattr(self._held, "chunk", (0, b""))
        if not base <= position <= base + len(chunk) - size:
            kept = chunk[position - base :] if base <= position < base + len(chunk) else b""
            base, chunk = self._held.chunk = position, self._fetched(position, size, kept)
        return chunk[position - base : position - base + size]

    def _fetched(self, position: int, size: int, kept: bytes) -> bytes:
        """Fetch only what is not there yet. kept: the first bytes, which are there."""
        wanted = min(max(size, self._ahead_bytes), self.size - position) - len(kept)
        if wanted <= 0:
            return kept
        fetched = self._range(position + len(kept), wanted)
        return kept + fetched if kept else fetched

    def _range(self, position: int, size: int) -> bytes:
        """Return exactly so many bytes. Raises Unreadable if no request gives them."""
        began, tried = time.monotonic(), 0
        for wait_s in (*WAITS_S, None):
            error, data, tried = None, b"", tried + 1
            try:
                data = self._requested(position, size)
            except OSError as failure:
                error = failure
            if error is None and len(data) == size:
                self._traffic.patience_s = min(PATIENCE_S, self._traffic.patience_s + REFUND_S)
                return data
            if wait_s is None or time.monotonic() - began > self._traffic.patience_s:
                break
            time.sleep(wait_s)
        self._traffic.patience_s = max(0.0, self._traffic.patience_s - (time.monotonic() - began))
        if error is not None:
            raise unreadable(self.path, error, position) from error
        raise Unreadable(
            f"{len(data)} bytes came where {size} were requested ({tried} times); {self.size} bytes were listed",
            path=self.path,
            position=position,
        )

    def _requested(self, position: int, size: int) -> bytes:
        """Return what one request gives. Raises Unreadable for a file that is not there or may not be read: requesting
        it again would not help."""
        try:
            return self._fetch(position, size)
        except (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError) as error:
            raise unreadable(self.path, error, position) from error

    def read_into(self, buffer: Any, position: int, size: int) -> memoryview:
        """Read into a buffer, and return the part that was filled; see `LogFile`."""
        data = self.read(position, size)
        view = memoryview(buffer)[: len(data)]
        view[:] = data
        return view

    def map(self, position: int, size: int) -> memoryview:
        """Return what `read` does: nothing can be mapped."""
        return memoryview(self.read(position, size))

    def size_now(self) -> int:
        """Return the listed size: such files do not change under a reader, they are replaced."""
        return self.size


class RemoteStorage(Struct):
    """A remote place. walk: the files under a path; fetch: bytes of a file; prefix: makes a URI of their paths; root:
    what their paths begin with in its stead, if that has a password."""

    prefix: str
    walk: Callable[[str], list[Stored]]
    fetch: Callable[[str, int, int], bytes]
    traffic: Traffic = field(default_factory=Traffic)
    root: str = ""

    def list(self, path: str) -> list[Stored]:
        """See `Storage`."""
        with ReadErrors(path):
            files = self.walk(self._own(path))
        if not files:
            raise Unreadable("no such file or directory", path=path)
        uris = (replace(one, path=self.prefix + one.path.removeprefix(self.root)) for one in files)
        return sorted(uris, key=attrgetter("path"))

    def _own(self, uri: str) -> str:
        return self.root + uri.removeprefix(self.prefix)

    def open(self, stored: Stored, *, ahead_bytes: int = AHEAD_BYTES) -> LogFile:
        """See `Storage`."""

        def fetch(position: int, size: int) -> bytes:
            data = self.fetch(self._own(stored.path), position, size)
            self.traffic.requests += 1
            self.traffic.bytes += len(data)
            return data

        return StoredFile(stored.path, stored.size, fetch, ahead_bytes, self.traffic)

    def read(self, stored: Stored) -> bytes:
        """See `Storage`."""
        if stored.size > MOST_SIDE_BYTES:
            raise AboveLimit(
                f"{stored.size} bytes are too many for an index, snapshot or checkpoint file",
                path=stored.path,
            )
        with self.open(stored, ahead_bytes=stored.size) as file:
            return file.read(0, stored.size)


def file_system(place: Place) -> tuple[Any, str]:
    """Return pyarrow's file system for a URI, and the path in it. Raises Unsupported for an unknown scheme."""
    fs = _imported("pyarrow.fs", "pyarrow", place)
    if place.options or place.scheme not in ARROW_SCHEMES:
        system, path = _fsspec_system(place)
        return fs.PyFileSystem(fs.FSSpecHandler(system)), path.rstrip("/")
    try:
        system, path = fs.FileSystem.from_uri(f"{place.scheme}://{place.uri.partition('://')[2]}")
    except ValueError as error:
        raise Unsupported(
            f"cannot be opened: {str(error).replace(place.uri, place.shown)}", path=place.shown
        ) from error
    return system, path.rstrip("/")


def _by_arrow(place: Place) -> tuple[Storage, str]:
    fs = _imported("pyarrow.fs", "pyarrow", place)
    system, path = file_system(place)

    def walk(path: str) -> list[Stored]:
        with _ErrorsOfStore():
            infos = system.get_file_info(path)
            if infos.type is fs.FileType.NotFound:
                return []
            inside = [infos] if infos.is_file else system.get_file_info(fs.FileSelector(path, recursive=True))
        return [Stored(f.path, f.size, (f.mtime_ns or -NS_A_MS) // NS_A_MS) for f in inside if f.is_file]

    @lru_cache(maxsize=4)  # opening would ask for the size again
    def opened(path: str) -> _ArrowFile:
        return _ArrowFile(system.open_input_file(path))

    def fetch(path: str, position: int, size: int) -> bytes:
        try:
            with _ErrorsOfStore():
                return opened(path).read(position, size)
        except OSError:
            opened.cache_clear()  # its connection may be what failed
            raise

    prefix = f"{place.scheme}://" if place.scheme not in ("hdfs", "viewfs") else ""
    return RemoteStorage(prefix, walk, fetch), prefix + path


class _ArrowFile:
    """A file of pyarrow. Its S3 says that it has read what was requested, also where fewer bytes came, and leaves the
    rest of the buffer as it was: a mark at the end of the buffer shows that."""

    def __init__(self, file: Any) -> None:
        self._file, self._reading = file, threading.Lock()

    def read(self, position: int, size: int) -> bytes:
        """Return so many bytes, fewer at the end of the file. Raises OSError, also for an answer that is too short."""
        for mark in _MARKS:
            buffer = bytearray(size)
            buffer[-1:] = mark
            with self._reading:
                self._file.seek(position)
                count = self._file.readinto(buffer)
            if count < size or buffer[-1:] != mark:
                return bytes(memoryview(buffer)[:count])
        raise OSError(f"the answer is shorter than the {size} bytes that were requested")


def _fsspec_system(place: Place) -> tuple[Any, str]:
    core = _imported("fsspec.core", "fsspec", place)
    try:
        options = json.loads(place.options or "{}")
        system, path = core.url_to_fs(place.uri, **options)
    except (ValueError, ImportError, TypeError) as error:
        raise Unsupported(
            f"cannot be opened: {str(error).replace(place.uri, place.shown)}", path=place.shown
        ) from error
    return system, path


def _by_fsspec(place: Place) -> tuple[Storage, str]:
    system, path = _fsspec_system(place)

    def walk(path: str) -> list[Stored]:
        with _ErrorsOfStore():
            infos = system.find(path, detail=True)
            if not infos:
                _check_presence(system, path)
            sized = {name: info if info.get("size") is not None else system.info(name) for name, info in infos.items()}
        return [_of_info(name, info) for name, info in sized.items()]

    def fetch(path: str, position: int, size: int) -> bytes:
        with _ErrorsOfStore():
            data: bytes = system.cat_file(path, start=position, end=position + size)
        return data

    if not path.startswith(f"{place.scheme}:"):
        prefix = prefix_of(place, path)
        return RemoteStorage(prefix, walk, fetch), prefix + path.rstrip("/")
    # http: paths are URIs already, with the password if there is one.
    has_secret_query = _SECRET.search(path, path.find("?") + 1 or len(path)) is not None
    root = path if has_secret_query else path[: path.find("@") + 1]
    prefix = _SECRET.sub("***", root)
    return RemoteStorage(prefix, walk, fetch, root=root), prefix + path.removeprefix(root).rstrip("/")


def prefix_of(place: Place, path: str) -> str:
    """Return what makes URIs of fsspec's paths: the scheme, and the host where `path`, that of the place, lacks it."""
    named, path = f"{place.scheme}://{place.uri.partition('://')[2].partition('?')[0].rstrip('/')}", path.rstrip("/")
    return _SECRET.sub("***", named.removesuffix(path)) if named.endswith(path) else f"{place.scheme}://"


def _check_presence(system: Any, path: str) -> None:
    """Raises OSError if that is why a walk finds nothing: it leaves out what it cannot list."""
    with suppress(NotImplementedError):
        try:
            system.info(path)
        except FileNotFoundError as error:
            if error.__cause__ is not None and getattr(error.__cause__, "status", None) != HTTPStatus.NOT_FOUND:
                raise error.__cause__ from error


def _of_info(name: str, info: Mapping[str, Any]) -> Stored:
    if info.get("size") is None:
        raise OSError("the server does not say how large it is")
    return Stored(name, int(info["size"]), _mtime_ms(info))


class _ErrorsOfStore:
    """Turns errors into OSError: each file system has kinds of its own for a request that fails (pyarrow's for Azure,
    aiohttp's, botocore's, http.client's)."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, OSError):
            raise OSError(_SECRET.sub("***", f"{type(error).__name__}: {error}")) from error


def _mtime_ms(info: Mapping[str, object]) -> int:
    """Return the mtime: each file system has its own name for it, and some have none."""
    for name in ("mtime", "LastModified", "last_modified", "updated", "created"):
        mtime = info.get(name)
        if isinstance(mtime, datetime):
            return int(mtime.timestamp() * MS)
        if isinstance(mtime, int | float):
            return int(mtime * MS)
    return -1


def _imported(module: str, package: str, place: Place) -> ModuleType:
    try:
        return import_module(module)
    except ImportError as error:
        raise Unsupported(f"{place.scheme}:// needs {package}: pip install {package}", path=place.shown) from error
