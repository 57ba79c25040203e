"""Every state of a log dir that a broker was seen to start on, as a wound of the log dirs in `broker/`, and what comes.

A wound takes the folder with d0 and d1. d0 has the cluster's metadata; the patient is t-0 in d1: segments 0, 11, 22 and
32, log end 43. Unless a row says otherwise, the last stop was clean.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from damage import append_bytes, flip_bit, heal_checksums, overwrite, tear_at
from raw_batches import build_batch

from klogtool.doctor.answers import What
from klogtool.format.batch import Record
from klogtool.format.checksums import crc32c
from klogtool.format.internal.records import build_metadata_record
from klogtool.format.producer_snapshot import ProducerStateEntry, build_producer_snapshot

HERE = pathlib.Path(__file__).resolve().parent
Wound = Callable[[pathlib.Path], object]
T, U, TXN = "d1/t-0", "d1/u-0", "d0/__transaction_state-0"
META, METADATA = "meta.properties", "d0/__cluster_metadata-0"
MARKER = ".kafka_cleanshutdown"
POINTS, STARTS, MARKS, CLEANED = (
    f"{kind}-checkpoint"
    for kind in ("recovery-point-offset", "log-start-offset", "replication-offset", "cleaner-offset")
)
HEX = "0123456789abcdef0123456789abcdef"
NO_ID, OTHER_ID, THIRD_ID = "AAAAAAAAAAAAAAAAAAAAAA", "HBkLXiG2TBugyYPqjxOXtQ", "Q4rLFXj5Q1aB3vXnJ0abcQ"
PM = "partition.metadata"
EPOCHS = "leader-epoch-checkpoint"
LATER_MS = 1_900_000_000_000


@dataclass(frozen=True)
class Scenario:
    """starts: the verdict. ahead: pairs of a path below the folder and What; all of them. end: of t-0, afterwards.

    log_dirs: those that are named. told: words of the broker's log.
    """

    wound: Wound
    starts: str
    ahead: tuple[tuple[str, What], ...] = ()
    end: int | None = 43
    log_dirs: tuple[str, ...] = ("d0", "d1")
    told: str = ""


def yes(wound: Wound, *ahead: tuple[str, What], end: int | None = 43, told: str = "") -> Scenario:
    """The broker starts, and loses nothing that is not gone already."""
    return Scenario(wound, "yes", ahead, end, told=told)


def loses(wound: Wound, *ahead: tuple[str, What], end: int | None = 43, told: str = "") -> Scenario:
    """It starts, and loses or hides data."""
    return Scenario(wound, "loses-data", ahead, end, told=told)


def refuses(wound: Wound, path: str, told: str = "", *more: tuple[str, What]) -> Scenario:
    """The process ends because of this path."""
    return Scenario(wound, "refuses", ((path, What.REFUSES), *more), None, told=told)


def offline(wound: Wound, path: str, told: str = "", *, end: int | None = 43) -> Scenario:
    """The log dir of this path is given up."""
    return Scenario(wound, "loses-data", ((path, What.OFFLINE),), end, told=told)


# Wounds of files, by name below the folder.


def put(name: str, data: bytes | str) -> Wound:
    return lambda disks: (disks / name).write_bytes(data if isinstance(data, bytes) else data.encode())


def gone(*names: str) -> Wound:
    def wound(disks: pathlib.Path) -> None:
        for name in names:
            found = list(disks.glob(name))
            assert found, name
            for path in found:
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    return wound


def folder(name: str) -> Wound:
    return lambda disks: (disks / name).mkdir()


def in_place_of(name: str) -> Wound:
    """A folder in place of a file."""

    def wound(disks: pathlib.Path) -> None:
        (disks / name).unlink(missing_ok=True)
        (disks / name).mkdir()

    return wound


def linked_nowhere(name: str) -> Wound:
    return lambda disks: (disks / name).symlink_to("nowhere")


def moved(name: str, to: str) -> Wound:
    return lambda disks: (disks / name).rename(disks / to)


def exchanged(one: str, other: str) -> Wound:
    return both(moved(one, "aside"), moved(other, one), moved("aside", other))


def copied(name: str, to: str) -> Wound:
    def wound(disks: pathlib.Path) -> None:
        copy = shutil.copytree if (disks / name).is_dir() else shutil.copy2
        copy(disks / name, disks / to)

    return wound


def changed(name: str, change: Callable[[bytes], bytes]) -> Wound:
    return lambda disks: (disks / name).write_bytes(change((disks / name).read_bytes()))


def torn(name: str, size: int) -> Wound:
    return lambda disks: tear_at(disks / name, size)


def flipped(name: str, position: int) -> Wound:
    return lambda disks: flip_bit(disks / name, position)


def written(name: str, position: int, data: bytes) -> Wound:
    return lambda disks: overwrite(disks / name, position, data)


def behind(name: str, data: bytes) -> Wound:
    return lambda disks: append_bytes(disks / name, data)


def both(*wounds: Wound) -> Wound:
    def wound(disks: pathlib.Path) -> None:
        for each in wounds:
            each(disks)

    return wound


def nothing(_: pathlib.Path) -> None:
    pass


def properties(log_dir: str, **values: str | None) -> Wound:
    """meta.properties with other values; None: without that line."""

    def wound(disks: pathlib.Path) -> None:
        path = disks / log_dir / META
        lines = dict(line.split("=", 1) for line in path.read_text().splitlines() if "=" in line)
        lines |= {name.replace("_", "."): value or "" for name, value in values.items()}
        path.write_text("".join(f"{key}={value}\n" for key, value in lines.items() if value))

    return wound


def lines(log_dir: str, checkpoint: str, **offsets: int) -> Wound:
    """A checkpoint with these lines in place of those of the same partitions: t_0=5."""

    def wound(disks: pathlib.Path) -> None:
        path = disks / log_dir / checkpoint
        kept = [line.rsplit(" ", 1) for line in path.read_text().splitlines()[2:]]
        found = dict(kept)
        found |= {name.replace("_", " "): str(offset) for name, offset in offsets.items()}
        path.write_text("".join(["0\n", f"{len(found)}\n", *(f"{name} {offset}\n" for name, offset in found.items())]))

    return wound


UNCLEAN = gone(f"d1/{MARKER}")
FROM_ZERO = both(UNCLEAN, gone(f"d1/{POINTS}"))


def unclean(wound: Wound) -> Wound:
    return both(wound, UNCLEAN)


def from_zero(wound: Wound) -> Wound:
    """And recovery begins at offset 0."""
    return both(wound, FROM_ZERO)


def side(base: int, kind: str, partition: str = T) -> str:
    return f"{partition}/{base:020d}.{kind}"


def log(base: int) -> str:
    return side(base, "log")


def segment_gone(base: int, *, snapshot: bool = False) -> Wound:
    kinds = ("log", "index", "timeindex", "txnindex") + (("snapshot",) if snapshot else ())
    return lambda disks: [(disks / side(base, kind)).unlink(missing_ok=True) for kind in kinds]


def segment_renamed(base: int, to: int) -> Wound:
    def wound(disks: pathlib.Path) -> None:
        for kind in ("log", "index", "timeindex", "txnindex"):
            if (disks / side(base, kind)).exists():
                (disks / side(base, kind)).rename(disks / side(to, kind))

    return wound


def beside(*bases: int) -> Wound:
    """Segments with their side files in the log dir itself."""

    def wound(disks: pathlib.Path) -> None:
        for path in [path for base in bases for path in (disks / T).glob(f"{base:020d}.*")]:
            path.rename(path.parent.parent / path.name)

    return wound


def recovered(*bases: int) -> Wound:
    """Logs that fsck put into lost+found of the file system, without names; their side files are gone."""

    def wound(disks: pathlib.Path) -> None:
        (disks / "lost+found").mkdir()
        for base in bases:
            (disks / log(base)).rename(disks / f"lost+found/#{1000 + base}")
            for kind in ("index", "timeindex", "txnindex"):
                (disks / side(base, kind)).unlink(missing_ok=True)

    return wound


def beside_all(disks: pathlib.Path) -> None:
    """`mv t-0/* . && rmdir t-0`."""
    for path in list((disks / T).iterdir()):
        path.rename(path.parent.parent / path.name)
    (disks / T).rmdir()


def swaps(base: int, data: Callable[[bytes], bytes] = lambda data: data, kinds: str = "log index timeindex") -> Wound:
    """Swap files of a segment beside it."""

    def wound(disks: pathlib.Path) -> None:
        for kind in kinds.split():
            content = (disks / side(base, kind)).read_bytes()
            (disks / (side(base, kind) + ".swap")).write_bytes(data(content) if kind == "log" else content)

    return wound


def header(name: str, batch: int, at: int, value: bytes, *, sound: bool = True) -> Wound:
    """A field of the batch at a position, and its checksum made right."""

    def wound(disks: pathlib.Path) -> None:
        path = disks / name
        data = bytearray(path.read_bytes())
        size = 12 + int.from_bytes(data[batch + 8 : batch + 12], "big")
        data[batch + at : batch + at + len(value)] = value
        if sound:
            data[batch + 17 : batch + 21] = crc32c(bytes(data[batch + 21 : batch + size])).to_bytes(4, "big")
        path.write_bytes(data)

    return wound


CLEAN_DIRS: Mapping[str, Scenario] = {
    "2 clean": yes(nothing, told="Skipping recovery of 2 logs from"),
    "2 a marker of 0 bytes": yes(put(f"d1/{MARKER}", b"")),
    "2 a marker that is an empty folder": yes(in_place_of(f"d1/{MARKER}"), told="Skipping recovery of 2 logs from"),
    "2 a marker that is a folder with a file": offline(
        both(in_place_of(f"d1/{MARKER}"), put(f"d1/{MARKER}/x", b"")), f"d1/{MARKER}"
    ),
    "2 no marker": yes(UNCLEAN, told="Recovering 2 logs from"),
    "2 no marker anywhere": yes(gone(f"d0/{MARKER}", f"d1/{MARKER}")),
    "2 no marker, no recovery points": yes(FROM_ZERO, told="Recovering unflushed segment 0."),
}

META_PROPERTIES: Mapping[str, Scenario] = {
    "3 missing in one log dir": refuses(gone(f"d1/{META}"), f"d1/{META}", "No `meta.properties` found in"),
    "3 missing in all": refuses(
        gone(f"d0/{META}", f"d1/{META}"),
        f"d0/{META}",
        "No readable meta.properties files found.",
        (f"d1/{META}", What.REFUSES),
    ),
    "3 another cluster.id in one": refuses(properties("d1", cluster_id=NO_ID), f"d1/{META}", "Invalid cluster.id in:"),
    "3 another cluster.id in all": yes(
        both(properties("d0", cluster_id=OTHER_ID), properties("d1", cluster_id=OTHER_ID))
    ),
    "3 another node.id in one": refuses(
        properties("d1", node_id="2"), f"d1/{META}", "Stored node id 2 doesn't match previous node id 1 in"
    ),
    "3 a directory.id twice": refuses(copied(f"d0/{META}", f"d1/{META}"), f"d1/{META}", "Duplicate directory ID"),
    "3 directory.id missing": yes(properties("d1", directory_id=None)),
    "3 directory.id changed": yes(properties("d1", directory_id=OTHER_ID)),
    "3 directory.id reserved": refuses(
        properties("d1", directory_id=NO_ID), f"d1/{META}", "Invalid reserved directory ID"
    ),
    "3 directory.id unreadable": offline(properties("d1", directory_id="xyz"), f"d1/{META}", "Failed to load"),
    "3 version 7": offline(properties("d1", version="7"), f"d1/{META}", "Unknown meta.properties version number 7"),
    "3 version x": offline(properties("d1", version="x"), f"d1/{META}", "Invalid meta.properties version string"),
    "3 no cluster.id in version 1": offline(
        properties("d1", cluster_id=None), f"d1/{META}", "cluster.id was not found"
    ),
    "3 no properties": offline(put(f"d1/{META}", b"a=\\u12\n"), f"d1/{META}"),
    "3 version 7 in the metadata log dir": refuses(properties("d0", version="7"), f"d0/{META}"),
    "3 0 bytes": refuses(put(f"d1/{META}", b""), f"d1/{META}", "Error: node ID not found in"),
    "3 random bytes": refuses(put(f"d1/{META}", bytes(range(128, 256))), f"d1/{META}", "Error: node ID not found in"),
    "3 version 0 with broker.id": yes(properties("d1", version="0", broker_id="1", node_id=None, directory_id=None)),
    "3 version 0 with node.id only": refuses(
        properties("d1", version="0", cluster_id=None, directory_id=None), f"d1/{META}", "Error: node ID not found in"
    ),
    "3 a folder": offline(in_place_of(f"d1/{META}"), f"d1/{META}", "Is a directory"),
    "3 a folder in the metadata log dir": refuses(
        in_place_of(f"d0/{META}"), f"d0/{META}", "Encountered I/O error in metadata log directory"
    ),
}

STRAY = f"d1/t-0.{HEX}-stray"


BLOCKED = ((T, What.OFFLINE), (T, What.ABSENT))
NOT_MADE = "Error while creating log for t-0 in dir"
ELSEWHERE = both(gone(T), properties("d1", directory_id=OTHER_ID))
NOT_NAMED = ("d0", What.LEFT_OUT)


def in_place(name: str, make: Callable[[pathlib.Path], object]) -> Wound:
    """Something else in place of a file."""

    def wound(disks: pathlib.Path) -> None:
        (disks / name).unlink(missing_ok=True)
        make(disks / name)

    return wound


def bind(path: pathlib.Path) -> None:
    """Make a socket."""
    os.mknod(path, 0o600 | stat.S_IFSOCK)


def to_device(name: str) -> Callable[[pathlib.Path], None]:
    """Make a link to a device."""
    return lambda path: path.symlink_to(f"/dev/{name}")


READ_AT_THE_START = (
    side(43, "snapshot"),
    f"{T}/{EPOCHS}",
    f"{T}/{PM}",
    f"d1/{POINTS}",
    f"d1/{STARTS}",
    f"d1/{META}",
    f"d1/{MARKER}",
)
OPENED_AT_THE_START = (side(32, "index"), side(32, "timeindex"), side(11, "txnindex"))
NO_FILES: Mapping[str, Scenario] = {
    **{f"11 a FIFO, {name}": refuses(in_place(name, os.mkfifo), name) for name in READ_AT_THE_START},
    **{f"11 a FIFO, {name}": offline(in_place(name, os.mkfifo), name, end=None) for name in OPENED_AT_THE_START},
    **{f"11 a socket, {name}": offline(in_place(name, bind), name) for name in READ_AT_THE_START[3:5]},
    **{
        f"11 a socket, {name}": offline(in_place(name, bind), name, end=None)
        for name in (*READ_AT_THE_START[1:3], *OPENED_AT_THE_START)
    },
    "11 a folder where leader epochs are written": offline(in_place_of(f"{T}/{EPOCHS}.tmp"), f"{T}/{EPOCHS}.tmp"),
    "11 a folder where leader epochs are written, beside the metadata": refuses(
        in_place_of(f"d0/t-1/{EPOCHS}.tmp"), f"d0/t-1/{EPOCHS}.tmp"
    ),
    "11 a FIFO, the cleaner's checkpoint": yes(
        in_place(f"d1/{CLEANED}", os.mkfifo), (f"d1/{CLEANED}", What.CLEANER_STOPS)
    ),
    **{
        f"11 {name}, where the cleaner's checkpoint is written": yes(
            in_place(f"d1/{CLEANED}.tmp", make), (f"d1/{CLEANED}.tmp", What.CLEANER_STOPS)
        )
        for name, make in (("a FIFO", os.mkfifo), ("a socket", bind), ("/dev/full", to_device("full")))
    },
    "11 a FIFO, a closed index": yes(in_place(side(11, "index"), os.mkfifo)),
    "11 a socket, a closed index": loses(in_place(side(11, "index"), bind), (side(11, "index"), What.FAILS_AT_READ)),
    # A text without an end: the memory ends.
    **{f"11 /dev/zero, {name}": refuses(in_place(name, to_device("zero")), name) for name in READ_AT_THE_START[1:3]},
    "11 /dev/zero, the high watermarks": loses(
        in_place(f"d1/{MARKS}", to_device("zero")), (f"d1/{MARKS}", What.UNSERVED)
    ),
    f"11 /dev/null, {T}/{PM}": refuses(in_place(f"{T}/{PM}", to_device("null")), f"{T}/{PM}"),
    f"11 /dev/null, {T}/{EPOCHS}": yes(in_place(f"{T}/{EPOCHS}", to_device("null"))),
    **{
        f"11 /dev/{name}, {READ_AT_THE_START[0]}": offline(
            in_place(READ_AT_THE_START[0], to_device(name)), READ_AT_THE_START[0]
        )
        for name in ("null", "zero")
    },
    "11 a FIFO, a log": yes(in_place(log(44), os.mkfifo)),
    "11 a FIFO, an older snapshot": yes(in_place(side(32, "snapshot"), os.mkfifo)),
    "11 a FIFO, a snapshot beyond the end": yes(in_place(side(99, "snapshot"), os.mkfifo)),
    "11 /dev/full, an older snapshot": yes(in_place(side(22, "snapshot"), to_device("full"))),
    **{
        f"11 {name}, a transaction index": yes(in_place(side(11, "txnindex"), to_device(name.removeprefix("/dev/"))))
        for name in ("/dev/full", "/dev/null")
    },
    # What a recovery writes anew: 4.x gives up the segment, and all behind it.
    **{
        f"11 {name}, a snapshot that recovery writes": loses(
            from_zero(in_place(side(11, "snapshot"), make)), (T, What.TRUNCATED), end=0
        )
        for name, make in (("/dev/full", to_device("full")), ("/dev/null", to_device("null")), ("a socket", bind))
    },
    "11 a FIFO, a snapshot that recovery writes": refuses(
        from_zero(in_place(side(11, "snapshot"), os.mkfifo)), side(11, "snapshot")
    ),
    "11 /dev/full, a snapshot behind a segment without its index": offline(
        both(gone(side(11, "index")), in_place(side(22, "snapshot"), to_device("full"))), side(22, "snapshot"), end=None
    ),
    "11 /dev/full, a transaction index that recovery writes": loses(
        from_zero(in_place(side(11, "txnindex"), to_device("full"))), (T, What.TRUNCATED), end=11
    ),
    **{
        f"11 {name}, an index that recovery writes": refuses(
            from_zero(in_place(side(11, index), make)), side(11, index), "NullPointerException"
        )
        for name, make, index in (("a FIFO", os.mkfifo, "index"), ("/dev/null", to_device("null"), "timeindex"))
    },
    "11 a socket, an index that recovery writes": offline(
        from_zero(in_place(side(11, "index"), bind)), side(11, "index")
    ),
    "11 /dev/full, the active time index": offline(
        in_place(side(32, "timeindex"), to_device("full")), side(32, "timeindex"), end=None
    ),
    "11 a FIFO, the only log": offline(both(gone(f"{T}/*.log"), in_place(log(0), os.mkfifo)), log(0), end=None),
    **{
        f"11 {name}, where leader epochs are written": offline(in_place(f"{T}/{EPOCHS}.tmp", make), f"{T}/{EPOCHS}.tmp")
        for name, make in (("/dev/full", to_device("full")), ("/dev/null", to_device("null")), ("a socket", bind))
    },
    **{
        f"11 {name}, where high watermarks are written": offline(in_place(f"d1/{MARKS}.tmp", make), f"d1/{MARKS}.tmp")
        for name, make in (("/dev/full", to_device("full")), ("a socket", bind))
    },
    "11 a FIFO, where leader epochs are written": loses(
        in_place(f"{T}/{EPOCHS}.tmp", os.mkfifo), (f"{T}/{EPOCHS}.tmp", What.LEADER_FAILS)
    ),
    "11 a FIFO, where leader epochs of the metadata are written": refuses(
        in_place(f"d0/__cluster_metadata-0/{EPOCHS}.tmp", os.mkfifo), f"d0/__cluster_metadata-0/{EPOCHS}.tmp"
    ),
    **{
        f"11 a FIFO, {name}.tmp": yes(in_place(f"d1/{name}.tmp", os.mkfifo), (f"d1/{name}.tmp", What.NEVER_STOPS))
        for name in (POINTS, STARTS, MARKS)
    },
    "11 a socket, .lock": offline(in_place("d1/.lock", bind), "d1/.lock"),
    "11 /dev/null, .lock": yes(in_place("d1/.lock", to_device("null"))),
    **{f"11 /dev/zero, {name}": refuses(in_place(name, to_device("zero")), name) for name in READ_AT_THE_START[3:]},
    "11 /dev/null, meta.properties": refuses(
        in_place(f"d1/{META}", to_device("null")), f"d1/{META}", "Error: node ID not found in"
    ),
    "11 /dev/null, the marker of a clean stop": yes(in_place(f"d1/{MARKER}", to_device("null"))),
}


def made_anew(disks: pathlib.Path) -> None:
    """What a broker creates, with the topic id of t, where t-0 was."""
    (disks / T).mkdir()
    shutil.copy2(disks / "d0/t-1" / PM, disks / T / PM)
    for kind in ("log", "index", "timeindex"):
        (disks / side(0, kind)).touch()
    for checkpoint in (POINTS, MARKS):
        lines("d1", checkpoint, t_0=0)(disks)


NO_UTF8 = os.fsdecode(b"\xff\xfe")
UNSEEN = (
    *(copied(T, f"d1/{name}") for name in (f"{NO_UTF8}-0", f"x-0.{NO_UTF8}-delete", f"x-1.{NO_UTF8}-stray")),
    *(folder(f"d1/{name}") for name in (NO_UTF8, f"t-1.{NO_UTF8}-future", f"__cluster_metadata-{NO_UTF8}")),
    *(put(f"{T}/{NO_UTF8}.{end}", b"abc") for end in ("log", "index", "timeindex", "deleted", "cleaned", "log.swap")),
    *(copied(log(11), f"{T}/{base:020d}.{NO_UTF8}.log{end}") for base, end in ((11, ""), (5, ".deleted"))),
    folder(f"{T}/{NO_UTF8}"),
    put(f"{METADATA}/{NO_UTF8}.log", b"abc"),
)
"""Names that are not UTF-8, which a broker lists and does not find."""
FOREIGN = (
    "foo",
    ".hidden",
    "lost+found",
    "foo-bar",
    "t-0.bak",
    "a-99999999999",
    "x-",
    "-0",
    "x-0-delete",
    "x-0.-delete",
)
FOLDERS: Mapping[str, Scenario] = {
    **{f"4 foreign folder {name}": refuses(folder(f"d1/{name}"), f"d1/{name}", "Found directory") for name in FOREIGN},
    "4 names that are not UTF-8": yes(both(*UNSEEN)),
    "4 names that are not UTF-8, unclean": yes(from_zero(both(*UNSEEN))),
    "4 a snapshot's name that is not UTF-8": refuses(
        put(f"{T}/{NO_UTF8}.snapshot", b""), f"{T}/{NO_UTF8}.snapshot", "NumberFormatException: For input string"
    ),
    "4 a snapshot's name that is not UTF-8, and has the newest offset": offline(
        moved(side(43, "snapshot"), f"{T}/{43:020d}.{NO_UTF8}.snapshot"),
        f"{T}/{43:020d}.{NO_UTF8}.snapshot",
        "NoSuchFileException",
        end=None,
    ),
    "4 foreign file": yes(put("d1/bar-0", b"")),
    "4 remote-log-index-cache": yes(folder("d1/remote-log-index-cache")),
    "4 __cluster_metadata-7": yes(folder("d1/__cluster_metadata-7")),
    "4 __cluster_metadata-0 elsewhere, too": refuses(
        copied(METADATA, "d1/__cluster_metadata-0"), "d1/__cluster_metadata-0", "Found unexpected metadata location"
    ),
    "4 without partition.metadata": loses(
        gone(f"{T}/{PM}"), (T, What.STRAY), end=43, told="The topicId does not exist in"
    ),
    "4 without partition.metadata, empty": yes(gone(f"d0/u-1/{PM}"), ("d0/u-1", What.STRAY)),
    "4 topic id of another topic generation": loses(
        put(f"{T}/{PM}", f"version: 0\ntopic_id: {OTHER_ID}"), (T, What.STRAY), end=43, told="Found stray log dir"
    ),
    "4 topic that the cluster does not know": yes(
        both(copied(T, "d1/v-0"), put(f"d1/v-0/{PM}", f"version: 0\ntopic_id: {OTHER_ID}")),
        ("d1/v-0", What.STRAY),
        told="Found stray log dir",
    ),
    "4 named as another topic": loses(moved(T, "d1/v-0"), ("d1/v-0", What.MISNAMED), end=None),
    "4 ids of two topics exchanged": loses(
        exchanged(f"{T}/{PM}", f"{U}/{PM}"), (T, What.MISNAMED), (U, What.MISNAMED), end=43
    ),
    "4 folders of two topics exchanged": loses(
        exchanged(T, U), (T, What.MISNAMED), (U, What.MISNAMED), (T, What.MISSING), end=6
    ),
    "4 a partition of another broker": yes(copied(T, "d1/t-7"), ("d1/t-7", What.STRAY)),
    "4 a name with zeros": yes(
        both(copied(T, "d1/a-007"), put(f"d1/a-007/{PM}", f"version: 0\ntopic_id: {OTHER_ID}")),
        ("d1/a-007", What.STRAY),
    ),
    "4 -stray": yes(copied(T, f"d1/t-0.{HEX}-stray"), told="Loaded stray log"),
    "4 absent": loses(gone(T), (T, What.ABSENT), end=0, told="Created log for partition t-0 in"),
    "4 absent, a file has its name": loses(both(gone(T), put(T, b"x")), *BLOCKED, told=NOT_MADE),
    "4 absent, a link that leads nowhere has its name": loses(
        both(gone(T), linked_nowhere(T)), *BLOCKED, told=NOT_MADE
    ),
    "4 absent, named -stray, a file has its name": loses(
        both(moved(T, STRAY), put(T, b"x")), *BLOCKED, end=None, told=NOT_MADE
    ),
    "4 absent, in no log dir, a file where are fewer": loses(
        both(ELSEWHERE, put(T, b"x")), NOT_NAMED, (T, What.OFFLINE), end=None, told=NOT_MADE
    ),
    "4 absent, in no log dir, a file where are more": loses(
        both(ELSEWHERE, put("d0/t-0", b"x")), NOT_NAMED, end=None, told="Created log for partition t-0 in"
    ),
    "4 absent, in no log dir, a file where are as many": loses(
        both(ELSEWHERE, put(T, b"x"), gone("d0/t-1", "d0/u-1"), lines("d0", POINTS), lines("d0", MARKS)),
        NOT_NAMED,
        (T, What.OFFLINE),
        ("d0/t-1", What.ABSENT),
        end=None,
    ),
    "4 absent, in no log dir, files in all": Scenario(
        both(ELSEWHERE, put(T, b"x"), put("d0/t-0", b"x")),
        "refuses",
        (NOT_NAMED, (T, What.OFFLINE), ("d0/t-0", What.REFUSES)),
        None,
        told=NOT_MADE,
    ),
    "4 absent, a file has its name where it is not": loses(
        both(gone(T), put("d0/t-0", b"x")), (T, What.ABSENT), end=0, told="Created log for partition t-0 in"
    ),
    "4 absent beside the metadata, a file has its name": refuses(
        both(gone("d0/u-1"), put("d0/u-1", b"x")), "d0/u-1", "Error while creating log for u-1 in dir"
    ),
    "4 absent, without records": yes(gone("d0/u-1")),
    "4 absent, named -stray": loses(moved(T, STRAY), (T, What.ABSENT), end=0, told="Loaded stray log"),
    "4 absent, named -stray in another log dir": loses(
        moved(T, f"d0/t-0.{HEX}-stray"), ("d0/t-0", What.ABSENT), end=0, told="Loaded stray log"
    ),
    "4 absent, -stray without an id": loses(both(moved(T, STRAY), gone(f"{STRAY}/{PM}")), (T, What.ABSENT), end=0),
    "4 absent, -stray of an older topic": loses(
        both(moved(T, STRAY), put(f"{STRAY}/{PM}", f"version: 0\ntopic_id: {OTHER_ID}")), (T, What.ABSENT), end=0
    ),
    "4 -stray beside a new one": loses(
        both(moved(T, STRAY), made_anew), (T, What.ABSENT), end=0, told="Loaded stray log"
    ),
    "4 -stray of an older topic beside a new one": yes(
        both(copied(T, STRAY), put(f"{STRAY}/{PM}", f"version: 0\ntopic_id: {OTHER_ID}"))
    ),
    "4 -delete beside a new one": loses(both(moved(T, f"d1/t-0.{HEX}-delete"), made_anew), (T, What.ABSENT), end=0),
    "4 -delete beside a whole one": yes(copied(T, f"d0/t-0.{HEX}-delete")),
    "4 -delete of a deleted topic": yes(
        both(copied(T, f"d1/v-0.{HEX}-delete"), put(f"d1/v-0.{HEX}-delete/{PM}", f"version: 0\ntopic_id: {OTHER_ID}"))
    ),
    "4 -delete of a partition that the cluster has": loses(
        moved(T, f"d1/t-0.{HEX}-delete"), (f"d1/t-0.{HEX}-delete", What.ALL_DELETED), end=0
    ),
    "4 in two log dirs": refuses(copied(T, "d0/t-0"), T, "Duplicate log directories for t-0 are found in both"),
    "4 t-0 beside t-00": refuses(
        copied(T, "d1/t-00"), "d1/t-00", "Duplicate log directories for t-0 are found in both"
    ),
    "4 t-0 beside t-00 without partition.metadata": yes(
        both(copied(T, "d1/t-00"), gone(f"d1/t-00/{PM}")), ("d1/t-00", What.STRAY)
    ),
    "4 in two log dirs, one of an older topic": yes(
        both(copied(T, "d0/t-0"), put(f"d0/t-0/{PM}", f"version: 0\ntopic_id: {OTHER_ID}")), ("d0/t-0", What.STRAY)
    ),
    "4 in two log dirs, one without partition.metadata that has more": loses(
        both(copied(T, "d0/t-0"), gone(f"d0/t-0/{PM}"), gone(side(32, "*"))),
        ("d0/t-0", What.STRAY),
        (T, What.MISSING),
        end=32,
    ),
    "4 three times, one of them without partition.metadata": refuses(
        both(copied(T, "d0/t-0"), copied(T, "d0/t-00"), gone(f"d0/t-0/{PM}")),
        T,
        "Duplicate log directories for t-0",
        ("d0/t-0", What.STRAY),
    ),
    "4 of an older topic, the new one in another log dir": yes(
        both(moved(T, "d0/t-0"), copied("d0/t-0", T), put(f"{T}/{PM}", f"version: 0\ntopic_id: {OTHER_ID}")),
        (T, What.STRAY),
    ),
    "4 two of older topics in two log dirs": loses(
        both(put(f"{T}/{PM}", f"version: 0\ntopic_id: {OTHER_ID}"), copied(T, "d0/t-0")),
        (T, What.STRAY),
        ("d0/t-0", What.STRAY),
    ),
    "4 two of two older topics": loses(
        both(
            put(f"{T}/{PM}", f"version: 0\ntopic_id: {OTHER_ID}"),
            copied(T, "d0/t-00"),
            put(f"d0/t-00/{PM}", f"version: 0\ntopic_id: {THIRD_ID}"),
        ),
        (T, What.STRAY),
        ("d0/t-00", What.STRAY),
    ),
    "4 -future folders of two older topics": yes(
        both(
            copied(T, f"d0/t-0.{HEX}-future"),
            copied(T, f"d1/t-0.{HEX[::-1]}-future"),
            put(f"d0/t-0.{HEX}-future/{PM}", f"version: 0\ntopic_id: {OTHER_ID}"),
            put(f"d1/t-0.{HEX[::-1]}-future/{PM}", f"version: 0\ntopic_id: {THIRD_ID}"),
        ),
        (f"d0/t-0.{HEX}-future", What.STRAY),
        (f"d1/t-0.{HEX[::-1]}-future", What.STRAY),
    ),
    "4 moved to another log dir": yes(moved(T, "d0/t-0")),
    "4 -future beside the current one": yes(copied(T, f"d0/t-0.{HEX}-future")),
    "4 -future, alone, where it is assigned": yes(moved(T, f"d1/t-0.{HEX}-future")),
    "4 -future, alone, elsewhere": loses(
        moved(T, f"d0/t-0.{HEX}-future"), (f"d0/t-0.{HEX}-future", What.FUTURE_EMPTIED), end=0
    ),
    "4 -future, alone, elsewhere, a file has its name": loses(
        both(moved(T, f"d0/t-0.{HEX}-future"), put(T, b"x")), (T, What.OFFLINE), end=None, told=NOT_MADE
    ),
    "4 -future, alone, where it is assigned, a file has its name": yes(
        both(moved(T, f"d1/t-0.{HEX}-future"), put(T, b"x"))
    ),
    "4 -future where it is assigned, the partition beside it": refuses(
        copied(T, f"d1/t-0.{HEX}-future"), f"d1/t-0.{HEX}-future", "Error while renaming dir for t-0 in log dir"
    ),
    "4 -future where it is assigned, the partition elsewhere": yes(
        both(copied(T, f"d1/t-0.{HEX}-future"), moved(T, "d0/t-0")), ("d0/t-0", What.REPLACED)
    ),
    "4 -future that is shorter where it is assigned, the partition elsewhere": loses(
        both(copied(T, f"d1/t-0.{HEX}-future"), moved(T, "d0/t-0"), gone(side(32, "*", f"d1/t-0.{HEX}-future"))),
        ("d0/t-0", What.REPLACED),
        end=32,
    ),
    "4 two -future": refuses(
        both(copied(T, f"d0/t-0.{HEX}-future"), copied(T, f"d1/t-0.{HEX}-future")),
        f"d1/t-0.{HEX}-future",
        "Duplicate log directories found",
    ),
    "4 two -future in one log dir, the partition elsewhere": refuses(
        both(copied(T, f"d0/t-0.{HEX}-future"), copied(T, f"d0/t-0.{HEX[::-1]}-future")),
        f"d0/t-0.{max(HEX, HEX[::-1])}-future",
        "Duplicate log directories",
    ),
    "4 -future without partition.metadata": yes(
        both(copied(T, f"d0/t-0.{HEX}-future"), gone(f"d0/t-0.{HEX}-future/{PM}")), (f"d0/t-0.{HEX}-future", What.STRAY)
    ),
    "4 partition.metadata: hello": offline(
        put(f"{T}/{PM}", "hello"), f"{T}/{PM}", "Malformed line in partition metadata"
    ),
    "4 partition.metadata: zero id": offline(
        put(f"{T}/{PM}", f"version: 0\ntopic_id: {NO_ID}"), f"{T}/{PM}", "Invalid topic ID in partition metadata file"
    ),
    "4 partition.metadata: not UTF-8": offline(put(f"{T}/{PM}", b"\xff\xfe"), f"{T}/{PM}", "MalformedInputException"),
    "4 partition.metadata: 0 bytes": refuses(put(f"{T}/{PM}", b""), f"{T}/{PM}", "NullPointerException"),
    "4 partition.metadata: one line": refuses(put(f"{T}/{PM}", "version: 0\n"), f"{T}/{PM}", "NullPointerException"),
    "4 partition.metadata: an id that is none": refuses(
        put(f"{T}/{PM}", "version: 0\ntopic_id: xyz"), f"{T}/{PM}", "Input string `xyz` decoded as 2 bytes"
    ),
    "4 partition.metadata: 0 bytes, behind a folder": loses(
        both(put(f"{T}/{PM}", b""), in_place_of(side(32, "timeindex"))),
        (side(32, "timeindex"), What.OFFLINE),
        (f"{T}/{PM}", What.OFFLINE),
        end=43,
        told="Is a directory",
    ),
    "4 partition.metadata: hello, behind a foreign name": refuses(
        both(put(f"{T}/{PM}", "hello"), put(f"{T}/foo.log", b"")),
        f"{T}/foo.log",
        "NumberFormatException",
        (f"{T}/{PM}", What.REFUSES),
    ),
    "4 partition.metadata: version 1": yes(
        changed(f"{T}/{PM}", lambda data: data.replace(b"version: 0", b"version: 1"))
    ),
    "4 foreign files and a folder in a partition": yes(
        both(put(f"{T}/{PM}.tmp", b"x"), put(f"{T}/README.txt", b"x"), folder(f"{T}/sub"))
    ),
    "4 partition.metadata only": yes(both(gone(f"{T}/0*", f"{T}/{EPOCHS}")), (T, What.MISSING), end=0),
}

_NAMES = {"recovery-point": POINTS, "log-start": STARTS, "replication": MARKS, "cleaner": CLEANED}
_OTHER_STATES = {
    "garbage": b"hello world\n",
    "other version": b"7\n0\n",
    "wrong count": b"0\n5\nt 0 1\n",
    "not UTF-8": b"0\n1\n\xff 0 1\n",
}
CHECKPOINTS: Mapping[str, Scenario] = {
    **{f"5 {kind}: missing": yes(gone(f"d1/{name}")) for kind, name in _NAMES.items()},
    **{f"5 {kind}: 0 bytes": yes(put(f"d1/{name}", b"")) for kind, name in _NAMES.items()},
    **{f"5 {kind}: only 0": yes(put(f"d1/{name}", b"0\n")) for kind, name in _NAMES.items()},
    **{
        f"5 {kind}: {state}": offline(put(f"d1/{name}", data), f"d1/{name}", "Stopping serving replicas in dir")
        for kind, name in _NAMES.items()
        for state, data in _OTHER_STATES.items()
    },
    "5 recovery-point: garbage in the metadata log dir": refuses(
        put(f"d0/{POINTS}", b"hello world\n"), f"d0/{POINTS}", "Shutdown broker because the metadata log dir"
    ),
    "5 recovery-point: negative count": yes(put(f"d1/{POINTS}", b"0\n-1\n"), (f"d1/{POINTS}", What.RESET)),
    "5 log-start: negative count": yes(put(f"d1/{STARTS}", b"0\n-1\n"), (f"d1/{STARTS}", What.RESET)),
    "5 recovery-point: no number": yes(put(f"d1/{POINTS}", b"0\n1\nt 0 x\n"), (f"d1/{POINTS}", What.RESET)),
    "5 log-start: no number": yes(put(f"d1/{STARTS}", b"0\n1\nt 0 x\n"), (f"d1/{STARTS}", What.RESET)),
    "5 replication: no number": loses(
        put(f"d1/{MARKS}", b"0\n1\nt 0 x\n"), (f"d1/{MARKS}", What.UNSERVED), told="due to NumberFormatException"
    ),
    "5 replication: negative count": loses(
        put(f"d1/{MARKS}", b"0\n-1\n"), (f"d1/{MARKS}", What.UNSERVED), told="due to IllegalArgumentException"
    ),
    "5 cleaner: negative count": yes(put(f"d1/{CLEANED}", b"0\n-1\n"), (f"d1/{CLEANED}", What.CLEANER_STOPS)),
    "5 cleaner: no number": yes(put(f"d1/{CLEANED}", b"0\n1\nt 0 x\n"), (f"d1/{CLEANED}", What.CLEANER_STOPS)),
    "5 cleaner: a partition in two log dirs": yes(
        both(put(f"d0/{CLEANED}", b"0\n1\nu 0 3\n"), put(f"d1/{CLEANED}", b"0\n1\nu 0 3\n")),
        (f"d1/{CLEANED}", What.CLEANER_STOPS),
    ),
    "5 duplicate lines": yes(put(f"d1/{POINTS}", b"0\n2\nt 0 1\nt 0 43\n")),
    "5 recovery point beyond the end": yes(unclean(lines("d1", POINTS, u_0=60)), (U, What.MISSING)),
    "5 log start beyond the end": loses(
        lines("d1", STARTS, t_0=50), (T, What.ALL_DELETED), end=50, told="Deleting all segments because logEndOffset"
    ),
    "5 high watermark beyond the end": yes(lines("d1", MARKS, t_0=50), (T, What.MISSING)),
    "5 cleaner offset beyond the end": yes(lines("d1", CLEANED, t_0=50)),
    "5 log start inside the log": yes(lines("d1", STARTS, t_0=25)),
}

_INDEX_BYTES = bytes(range(10, 90))
SIDE_FILES: Mapping[str, Scenario] = {
    "6 index missing": yes(gone(side(11, "index")), told="Could not find offset index file corresponding to log file"),
    "6 index missing, from 0": yes(from_zero(gone(side(11, "index")))),
    "6 index missing, of a segment renamed too low": yes(both(segment_renamed(11, 5), gone(side(5, "index")))),
    "6 index random, closed": yes(put(side(11, "index"), _INDEX_BYTES[:48])),
    "6 index of zeros, closed": yes(put(side(11, "index"), bytes(48))),
    "6 index of 0 bytes, closed": yes(put(side(11, "index"), b"")),
    "6 index random, closed, from 0": yes(from_zero(put(side(11, "index"), _INDEX_BYTES[:48]))),
    "6 index random, active": loses(put(side(32, "index"), _INDEX_BYTES[:48]), (T, What.ENDS_EARLY), end=32),
    "6 index into a batch, active": refuses(
        put(side(32, "index"), (9).to_bytes(4, "big") + (394).to_bytes(4, "big")), log(32), "size 0 smaller than"
    ),
    "6 index random, active, unclean": yes(unclean(put(side(32, "index"), _INDEX_BYTES[:48]))),
    "6 index of 5 bytes, active": yes(put(side(32, "index"), bytes(5))),
    # The start is fine; later writes fail: the active segment's time index has an offset beyond the log (TimeIndex).
    "6 timeindex random, active": yes(put(side(32, "timeindex"), _INDEX_BYTES[:48]), (T, What.WRITES_FAIL)),
    "6 timeindex missing": yes(gone(side(11, "timeindex"))),
    "6 timeindex of 0 bytes": yes(put(side(11, "timeindex"), b"")),
    "6 txnindex missing": yes(gone(side(11, "txnindex"))),
    "6 txnindex torn": yes(torn(side(11, "txnindex"), 10)),
    "6 txnindex, last offset below the base": yes(
        written(side(11, "txnindex"), 18, (3).to_bytes(8, "big")),
        told="Found a corrupted index file corresponding to log file",
    ),
    "6 txnindex, first byte 1": refuses(
        written(side(11, "txnindex"), 0, b"\1"), side(11, "txnindex"), "Unexpected aborted transaction version 1"
    ),
    "6 orphan index": yes(put(side(7, "index"), b""), told="Found an orphaned index file"),
    "6 orphan txnindex": yes(put(side(7, "txnindex"), b"")),
    "6 only indexes are left": yes(gone(f"{T}/*.log"), (T, What.MISSING), end=0, told="Found an orphaned index file"),
    "6 all snapshots missing": yes(gone(f"{T}/*.snapshot")),
    "6 all snapshots missing, unclean": yes(unclean(gone(f"{T}/*.snapshot"))),
    "6 snapshot at the end missing": yes(gone(side(43, "snapshot"))),
    "6 newest snapshot corrupt": yes(flipped(side(43, "snapshot"), 20), told="Failed to load producer snapshot from"),
    "6 newest snapshot of 0 bytes": yes(put(side(43, "snapshot"), b"")),
    "6 stray snapshot": yes(both(*(copied(side(43, "snapshot"), side(n, "snapshot")) for n in (2, 5, 35)))),
    "6 stray snapshot beyond the end": yes(copied(side(43, "snapshot"), side(99, "snapshot")), (T, What.MISSING)),
    "6 epochs missing": yes(gone(f"{T}/{EPOCHS}")),
    "6 epochs of 0 bytes": yes(put(f"{T}/{EPOCHS}", b"")),
    "6 epochs not ascending": yes(put(f"{T}/{EPOCHS}", "0\n2\n5 10\n2 20\n")),
    "6 epochs beyond the end": yes(put(f"{T}/{EPOCHS}", "0\n2\n0 0\n2 90\n"), (T, What.MISSING)),
    "6 epochs: hello": offline(put(f"{T}/{EPOCHS}", "hello\n"), f"{T}/{EPOCHS}", "Malformed line in checkpoint file"),
    "6 epochs: wrong count": offline(put(f"{T}/{EPOCHS}", "0\n3\n0 0\n"), f"{T}/{EPOCHS}", "Expected [3] entries"),
    "6 epochs: wrong version": offline(put(f"{T}/{EPOCHS}", "7\n1\n0 0\n"), f"{T}/{EPOCHS}", "Unrecognised version:7"),
    "6 epochs: eight zero bytes": offline(put(f"{T}/{EPOCHS}", bytes(8)), f"{T}/{EPOCHS}"),
    "6 epochs: negative": refuses(
        put(f"{T}/{EPOCHS}", "0\n1\n-1 0\n"), f"{T}/{EPOCHS}", "Received invalid partition leader epoch entry"
    ),
    "6 epochs: no number": refuses(put(f"{T}/{EPOCHS}", "0\n1\nx 0\n"), f"{T}/{EPOCHS}", "NumberFormatException"),
    **{
        f"6 foreign {name}": refuses(put(f"{T}/{name}", b""), f"{T}/{name}", "NumberFormatException")
        for name in (
            "foo.log",
            "foo.index",
            "foo.timeindex",
            "foo.swap",
            "x.log.swap",
            "foo.cleaned",
            f"{'9' * 20}.log",
        )
    },
    "6 foreign foo.snapshot": refuses(put(f"{T}/foo.snapshot", b""), f"{T}/foo.snapshot", "NumberFormatException"),
    "6 foo.txt and foo.deleted": yes(both(put(f"{T}/foo.txt", b"x"), put(f"{T}/foo.deleted", b"x"))),
    "6 the last segment in the log dir itself": loses(
        beside(32), (f"d1/{32:020d}.log", What.IGNORED), (T, What.MISSING), end=32
    ),
    "6 a segment in the log dir itself": loses(beside(11), (f"d1/{11:020d}.log", What.IGNORED), (T, What.MISSING)),
    "6 all segments in the log dir itself": loses(
        beside(0, 11, 22, 32), (f"d1/{0:020d}.log", What.IGNORED), (T, What.MISSING), end=0
    ),
    "6 a folder's files in the log dir itself": loses(
        beside_all, (f"d1/{0:020d}.log", What.IGNORED), (T, What.ABSENT), end=None
    ),
    "6 a segment in lost+found": loses(recovered(11), ("lost+found/#1011", What.IGNORED), (T, What.MISSING)),
    "6 the last two segments in lost+found": loses(
        recovered(22, 32), ("lost+found/#1022", What.IGNORED), (T, What.MISSING), end=22
    ),
    "6 copies of segments in the log dir itself": yes(both(*(copied(log(n), f"d1/{n:020d}.log") for n in (0, 32)))),
    "6 another's segment in the log dir itself": yes(
        copied("d0/t-1/" + log(0).split("/")[-1], f"d1/{0:020d}.log"), (f"d1/{0:020d}.log", What.IGNORED)
    ),
    "6 0.log": loses(moved(log(0), f"{T}/0.log"), (f"{T}/0.log", What.IGNORED)),
}

# Where the batches of segments begin: 11 at 0, 201, 332, 533, ...; 32 at 0, 201, 402, 533, 664, 795, 996, 1127.
_SIZE_FIELD, _LEADER_EPOCH, _MAGIC = 8, 12, 16
SEGMENTS: Mapping[str, Scenario] = {
    "7 flipped bit, closed": yes(flipped(log(11), 300), (T, What.DAMAGED)),
    "7 flipped bit, closed, below the recovery point": yes(unclean(flipped(log(11), 300)), (T, What.DAMAGED)),
    "7 flipped bit, closed, from 0": loses(
        from_zero(flipped(log(11), 300)),
        (T, What.TRUNCATED),
        (T, What.MISSING),
        end=13,
        told="Corruption found in segment 11, truncating to offset 13",
    ),
    "7 flipped bit, last batch": yes(flipped(log(32), 1200), (T, What.DAMAGED)),
    "7 flipped bit, last batch, unclean": yes(
        unclean(flipped(log(32), 1200)), (T, What.TRUNCATED), (T, What.MISSING), end=42
    ),
    "7 torn last batch": loses(torn(log(32), 1200), (T, What.ENDS_EARLY), (T, What.MISSING), end=32),
    "7 torn last batch, no index entry": loses(
        both(torn(log(32), 1200), torn(side(32, "index"), 48)), (T, What.ENDS_EARLY), (T, What.MISSING), end=42
    ),
    "7 torn last batch, unclean": yes(unclean(torn(log(32), 1200)), (T, What.TRUNCATED), (T, What.MISSING), end=42),
    "7 torn first segment": yes(torn(log(0), 1000), (T, What.MISSING)),
    "7 torn first segment, from 0": loses(from_zero(torn(log(0), 1000)), (T, What.TRUNCATED), (T, What.MISSING), end=9),
    "7 zeros behind the last batch": refuses(
        behind(log(32), bytes(100)), log(32), "Found record size 0 smaller than minimum record overhead (14) in file"
    ),
    "7 zeros behind the last batch, unclean": yes(unclean(behind(log(32), bytes(100)))),
    "7 garbage behind the last batch": loses(behind(log(32), b"\1" * 100), (T, What.ENDS_EARLY)),
    "7 garbage behind the last batch, unclean": yes(unclean(behind(log(32), b"\1" * 100)), (T, What.TRUNCATED)),
    "7 10 bytes behind the last batch": loses(behind(log(32), b"\1" * 10), (T, What.ENDS_EARLY)),
    "7 10 bytes behind the last batch, unclean": yes(unclean(behind(log(32), b"\1" * 10)), (T, What.TRUNCATED)),
    "7 size field below 14": yes(written(log(32), 402 + _SIZE_FIELD, (3).to_bytes(4, "big")), (T, What.DAMAGED)),
    "7 size field below 14, unclean": loses(
        unclean(written(log(32), 402 + _SIZE_FIELD, (3).to_bytes(4, "big"))),
        (T, What.TRUNCATED),
        (T, What.MISSING),
        end=36,
    ),
    "7 active log of 0 bytes": yes(put(log(32), b""), (T, What.MISSING), (T, What.WRITES_FAIL), end=32),
    "7 active log of 0 bytes, unclean": yes(unclean(put(log(32), b"")), (T, What.MISSING), end=32),
    "7 all logs of 0 bytes": yes(
        both(*(put(log(base), b"") for base in (0, 11, 22, 32))), (T, What.MISSING), (T, What.WRITES_FAIL), end=32
    ),
    "7 active segment gone": yes(segment_gone(32), (T, What.MISSING), end=32),
    "7 active segment gone, unclean": yes(unclean(segment_gone(32)), (T, What.MISSING), end=32),
    "7 middle segment gone": yes(segment_gone(11), (T, What.MISSING)),
    "7 first segment gone": yes(segment_gone(0), (T, What.PERHAPS_MISSING)),
    "7 only a log gone": yes(gone(log(11)), (T, What.MISSING), told="Found an orphaned index file"),
    "7 renamed too high, active": loses(segment_renamed(32, 35), (T, What.ENDS_EARLY), end=35),
    "7 renamed too high, active, unclean": refuses(
        from_zero(segment_renamed(32, 35)), log(35), "Split operation is only permitted for segments with overflow"
    ),
    "7 renamed too high, closed": yes(segment_renamed(22, 26)),
    "7 renamed too high, closed, from 0": refuses(
        from_zero(segment_renamed(22, 26)), log(26), "Split operation is only permitted for segments with overflow"
    ),
    "7 renamed too low": loses(segment_renamed(22, 20), (T, What.HIDDEN)),
    "7 an overlapping copy": yes(  # its index counts from another base offset
        both(*(copied(side(11, kind), side(5, kind)) for kind in ("log", "index", "timeindex"))), (T, What.INDEX_FALSE)
    ),
    "7 an overlapping copy, no index": refuses(
        copied(log(11), side(14, "log")), log(14), "Split operation is only permitted for segments with overflow"
    ),
    "7 base offset far ahead": loses(written(log(22), 996, (3_000_000_000).to_bytes(8, "big")), (T, What.HIDDEN)),
    "7 base offset far ahead, from 0": yes(
        from_zero(written(log(22), 996, (3_000_000_000).to_bytes(8, "big"))), (T, What.MISSING), end=3_000_000_001
    ),
    "7 base offset lower": loses(written(log(22), 332, (23).to_bytes(8, "big")), (T, What.HIDDEN)),
    "7 base offset lower, from 0": loses(
        from_zero(written(log(22), 332, (23).to_bytes(8, "big"))), (T, What.TRUNCATED), (T, What.MISSING), end=22
    ),
    "7 leader epoch 77": yes(written(log(22), 332 + _LEADER_EPOCH, (77).to_bytes(4, "big"))),
    "7 magic 3": yes(written(log(22), 332 + _MAGIC, b"\3"), (T, What.DAMAGED)),
    "7 negative name": yes(put(f"{T}/-0000000000000000005.log", b"")),
    "7 a folder in place of a log": yes(both(segment_gone(32), folder(log(32))), (T, What.MISSING), end=32),
}


def other_records(data: bytes) -> bytes:
    """The log of another time: a byte of the last record of each batch is another one."""
    changed, end = bytearray(data), 0
    while end < len(data):
        end += 12 + int.from_bytes(data[end + 8 : end + 12], "big")
        changed[end - 2] ^= 1
    heal_checksums(changed)
    return bytes(changed)


LEFTOVERS: Mapping[str, Scenario] = {
    "8 .deleted": yes(
        both(copied(log(11), log(11) + ".deleted"), copied(side(43, "snapshot"), side(43, "snapshot") + ".deleted"))
    ),
    "8 .cleaned": yes(
        both(copied(log(11), log(11) + ".cleaned"), copied(side(11, "index"), side(11, "index") + ".cleaned"))
    ),
    "8 swaps": yes(
        swaps(11), told="from interrupted swap operation, which is recoverable from .swap files by renaming"
    ),
    "8 swaps beside .cleaned": yes(both(swaps(11), copied(log(0), log(0) + ".cleaned"))),
    "8 only .log.swap": yes(swaps(11, kinds="log")),
    # Its .index.swap cannot get its name, and nobody looks.
    "8 only .log.swap, a folder in place of the active .index": offline(
        both(swaps(32, kinds="log"), in_place_of(side(32, "index"))), side(32, "index"), "Is a directory", end=None
    ),
    "8 swap of the active segment, shorter": loses(
        both(swaps(32, lambda data: data[:201]), put(side(32, "index") + ".swap", b"")),
        (T, What.TRUNCATED),
        (T, What.WRITES_FAIL),
        end=34,
    ),
    "8 swap of a closed segment, with other records": loses(swaps(11, other_records), (T, What.TRUNCATED)),
    "8 swap of the active segment, with other records": loses(swaps(32, other_records), (T, What.TRUNCATED)),
    "8 index swaps only": yes(
        both(
            moved(side(11, "index"), side(11, "index") + ".swap"),
            moved(side(11, "timeindex"), side(11, "timeindex") + ".swap"),
        )
    ),
}

SNAPSHOT = f"{METADATA}/{49:020d}-0000000001.checkpoint"
METADATA_LOG = f"{METADATA}/{0:020d}.log"
BOOTSTRAP = "d0/bootstrap.checkpoint"


def metadata_level(level: int) -> Wound:
    """The cluster has another metadata.version than 30."""
    name = b"metadata.version\x00"

    def wound(data: bytes) -> bytes:
        healed = bytearray(data.replace(name + bytes([30]), name + bytes([level])))
        heal_checksums(healed)
        return bytes(healed)

    return both(*(changed(path, wound) for path in (BOOTSTRAP, SNAPSHOT, METADATA_LOG)))


def recorded(kind: str, **values: int | str) -> Wound:
    """A record more, at the end of the metadata log."""
    record = build_metadata_record(kind, 0, values)
    return behind(METADATA_LOG, build_batch([Record(62, 0, None, record)], partition_leader_epoch=1))


def topic_setting(name: str, value: str) -> Wound:
    return recorded("ConfigRecord", resourceType=2, resourceName="t", name=name, value=value)


def begins_later(disks: pathlib.Path) -> None:
    """The metadata log begins with its second batch."""
    data = (disks / METADATA_LOG).read_bytes()
    second = 12 + int.from_bytes(data[8:12], "big")
    base = int.from_bytes(data[second : second + 8], "big")
    gone(METADATA_LOG, f"{METADATA}/{0:020d}.*index")(disks)
    put(f"{METADATA}/{base:020d}.log", data[second:])(disks)


KRAFT: Mapping[str, Scenario] = {
    "9 quorum-state missing": yes(gone(f"{METADATA}/quorum-state")),
    "9 quorum-state of another leader": yes(
        changed(f"{METADATA}/quorum-state", lambda data: data.replace(b'"leaderId":1', b'"leaderId":9'))
    ),
    "9 quorum-state of a lower epoch": yes(
        changed(f"{METADATA}/quorum-state", lambda data: data.replace(b'"leaderEpoch":1', b'"leaderEpoch":0'))
    ),
    "9 quorum-state of a higher epoch": yes(
        changed(f"{METADATA}/quorum-state", lambda data: data.replace(b'"leaderEpoch":1', b'"leaderEpoch":9'))
    ),
    "9 quorum-state of 0 bytes": refuses(
        put(f"{METADATA}/quorum-state", b""),
        f"{METADATA}/quorum-state",
        "Error while reading the Quorum status from the file",
    ),
    "9 quorum-state: garbage": refuses(put(f"{METADATA}/quorum-state", b"hello"), f"{METADATA}/quorum-state"),
    "9 quorum-state: data_version 7": refuses(
        changed(f"{METADATA}/quorum-state", lambda data: data.replace(b'"data_version":0', b'"data_version":7')),
        f"{METADATA}/quorum-state",
        "is not within the min",
    ),
    "9 bootstrap.checkpoint missing": yes(gone(BOOTSTRAP)),
    "9 bootstrap.checkpoint of 0 bytes": refuses(
        put(BOOTSTRAP, b""), BOOTSTRAP, "No FeatureLevelRecord for metadata.version was found"
    ),
    "9 metadata.version of 3.3": refuses(metadata_level(4), SNAPSHOT, "No MetadataVersion with feature level"),
    "9 metadata.version of a later release": refuses(
        metadata_level(35), SNAPSHOT, "No MetadataVersion with feature level"
    ),
    "9 share.version of a later release": refuses(
        recorded("FeatureLevelRecord", name="share.version", featureLevel=2),
        METADATA_LOG,
        "but this controller only supports versions 0-1",
    ),
    "9 segment.bytes of a topic of 3.9": refuses(
        topic_setting("segment.bytes", "100000"), METADATA, "Value must be at least 1048576"
    ),
    "9 index missing": yes(gone(f"{METADATA}/{0:020d}.index")),
    "9 leader epochs missing": yes(gone(f"{METADATA}/{EPOCHS}")),
    "9 leader epochs: garbage": refuses(
        put(f"{METADATA}/{EPOCHS}", b"hello\n"), f"{METADATA}/{EPOCHS}", "Got exception while starting SharedServer"
    ),
    "9 partition.metadata missing": yes(gone(f"{METADATA}/{PM}")),
    "9 partition.metadata with another id": refuses(
        put(f"{METADATA}/{PM}", f"version: 0\ntopic_id: {OTHER_ID}"), f"{METADATA}/{PM}", "Tried to assign topic ID"
    ),
    "9 leftovers of snapshots": yes(
        both(copied(SNAPSHOT, f"{SNAPSHOT}.part"), copied(SNAPSHOT, f"{SNAPSHOT}.deleted"))
    ),
    "9 snapshot damaged": refuses(flipped(SNAPSHOT, 100), SNAPSHOT, "CorruptRecordException"),
    "9 snapshot of 0 bytes": refuses(put(SNAPSHOT, b""), SNAPSHOT, "NoSuchElementException"),
    "9 snapshot torn": refuses(
        torn(SNAPSHOT, 900), SNAPSHOT, "NullPointerException", (METADATA_LOG, What.REFUSES)
    ),  # the record of the log that meets what the snapshot lacks
    "9 foo.checkpoint": refuses(
        put(f"{METADATA}/foo.checkpoint", b""), f"{METADATA}/foo.checkpoint", "StringIndexOutOfBoundsException"
    ),
    # The only voter forgets what the producer snapshot of its clean stop shows.
    "9 last batch torn": yes(changed(METADATA_LOG, lambda data: data[:-5]), (METADATA, What.MISSING)),
    "9 half of the log is zeros": yes(
        changed(METADATA_LOG, lambda data: data[: len(data) // 2] + bytes(len(data) - len(data) // 2)),
        (METADATA, What.MISSING),
    ),
    "9 zeros behind the last batch": yes(behind(METADATA_LOG, bytes(100))),
    "9 log missing, with a snapshot": yes(gone(METADATA_LOG), (METADATA, What.MISSING)),
    "9 folder missing": yes(gone(METADATA)),  # a note: the metadata log dir may be one that is not named
    "9 log missing, no snapshot": loses(gone(METADATA_LOG, SNAPSHOT), (METADATA, What.METADATA_LOST), end=43),
    "9 log of 0 bytes, no snapshot": loses(
        both(gone(SNAPSHOT), put(METADATA_LOG, b"")), (METADATA, What.METADATA_LOST), end=43
    ),
    "9 flipped bit in the middle, no snapshot": loses(
        both(gone(SNAPSHOT), flipped(METADATA_LOG, 1400)), (METADATA, What.METADATA_LOST), end=43
    ),
    "9 flipped bit before the snapshot": loses(flipped(METADATA_LOG, 1400), (METADATA, What.TRUNCATED)),
    "9 flipped bit behind the snapshot": loses(flipped(METADATA_LOG, 3700), (METADATA, What.TRUNCATED)),
    "9 log start without a snapshot": refuses(
        both(gone(SNAPSHOT), begins_later), METADATA, "Inconsistent snapshot state"
    ),
}

# Opened when somebody reads: see test_lazy_indexes.py.
LAZY: Mapping[str, Scenario] = {
    f"7 a folder in place of a closed .{kind}": loses(in_place_of(side(11, kind)), (side(11, kind), What.FAILS_AT_READ))
    for kind in ("index", "timeindex")
}

HELLO = b"hello world\n"
OPEN_TXN = put(side(43, "snapshot"), build_producer_snapshot([ProducerStateEntry(7, 0, 0, 38, 0, LATER_MS, 0, 38)]))
# The aborted transaction of offsets 18 to 21 ends after the newest snapshot that is left.
ENDED_TXN = gone(*(side(base, "snapshot") for base in (22, 32, 43)))
NO_ID_FILE = gone(f"{U}/{PM}")
ALREADY = "is already offline due to a previous IO exception"
# A log dir has failed, and one of its partitions needs it while it is loaded: the broker ends.
FAILED: Mapping[str, Scenario] = {
    **{
        f"5 {kind}: garbage, {need}": refuses(both(put(f"d1/{name}", HELLO), wound), f"d1/{name}", ALREADY)
        for kind, name in (("recovery-point", POINTS), ("log-start", STARTS))
        for need, wound in (("an open transaction", OPEN_TXN), ("a transaction ended since", ENDED_TXN))
    },
    "5 recovery-point: garbage, a stray partition": refuses(
        both(put(f"d1/{POINTS}", HELLO), NO_ID_FILE), f"d1/{POINTS}", ALREADY, (U, What.STRAY)
    ),
    "5 recovery-point: garbage, an open transaction in -stray": refuses(
        both(put(f"d1/{POINTS}", HELLO), OPEN_TXN, copied(T, f"d1/t-9.{HEX}-stray"), gone(side(43, "snapshot"))),
        f"d1/{POINTS}",
        ALREADY,
    ),
    "5 replication: garbage, an open transaction": offline(
        both(put(f"d1/{MARKS}", HELLO), OPEN_TXN), f"d1/{MARKS}", "Stopping serving replicas in dir"
    ),
    "5 recovery-point: garbage, cut by recovery": Scenario(
        both(put(f"d1/{POINTS}", HELLO), UNCLEAN, flipped(log(11), 300)),
        "loses-data",
        ((f"d1/{POINTS}", What.OFFLINE), (T, What.TRUNCATED), (T, What.MISSING)),
        13,
    ),
    "10 .lock is a link to nowhere": offline(
        lambda disks: (disks / "d1/.lock").symlink_to("/nowhere/at/all"), "d1/.lock", "Disk error while locking"
    ),
    "10 .lock is a link to nowhere, an open transaction": refuses(
        both(lambda disks: (disks / "d1/.lock").symlink_to("/nowhere/at/all"), OPEN_TXN), "d1/.lock", ALREADY
    ),
}

DISKS: Mapping[str, Scenario] = {
    "10 .lock left over": yes(put("d1/.lock", b"")),
    "10 .lock is a folder": refuses(in_place_of("d1/.lock"), "d1/.lock", "Found directory"),
    "10 log dir missing": refuses(gone("d1"), "d1", "No `meta.properties` found in"),
    "10 log dir is empty": refuses(both(gone("d1"), folder("d1")), "d1", "No `meta.properties` found in"),
    "10 log dir is a file": offline(both(gone("d1"), put("d1", b"")), "d1", "Failed to load"),
    "10 the same log dir twice": Scenario(nothing, "yes", (), 43, ("d0", "d1", "d1")),
    "10 the same log dir under two names": Scenario(
        lambda disks: (disks / "d2").symlink_to(disks / "d1"),
        "refuses",
        (("d2", What.REFUSES),),
        None,
        ("d0", "d1", "d2"),
        "Duplicate directory ID",
    ),
    "10 log dir not named": Scenario(nothing, "loses-data", (("d0", What.LEFT_OUT),), None, ("d0",)),
}

SCENARIOS: Mapping[str, Scenario] = {
    **CLEAN_DIRS,
    **META_PROPERTIES,
    **FOLDERS,
    **CHECKPOINTS,
    **NO_FILES,
    **SIDE_FILES,
    **SEGMENTS,
    **LEFTOVERS,
    **KRAFT,
    **LAZY,
    **FAILED,
    **DISKS,
}

# Rows of what brokers were seen to do that are no scenario here, and why.
LEFT_OUT: Mapping[str, str] = {
    "2 no marker, and the cluster has eligible leader replicas": "nothing on the disks changes; the doctor notes it",
    "2 a crash while loading": "the same disks as after any kill",
    "3 another node.id in all": "the broker's configuration is not on the disks",
    "4 topic known, this broker no replica": "needs a cluster of several brokers",
    "6 indexes below the recovery point": "a start does not look at them, as after a clean stop",
    "7 markers with bad keys, ABORT out of order": "loading is compared with Kafka's own classes, by fuzzing",
    "7 an index too small for the segment": "the same",
    "9 several controllers": "needs a quorum",
    "10 .lock held by another process": "the doctor says that the log dir is in use",
    "10 permissions": "root may read all; tests of permissions run without that power",
    "10 full and read-only disks": "in test_file_systems.py, and with mounts beside the real brokers",
}
