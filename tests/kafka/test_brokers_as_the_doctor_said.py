"""A real broker starts on wounded log dirs, and does what `klogtool doctor` said: it ends, gives a log dir up, cuts
logs, sets folders aside, or starts and keeps everything.

The scenarios are those of tests/doctor/startup.py. Six of a sample are started for each change, by chance; all of
the sample and what was mended (tests/judge/mended.py) by `make nightly`; all that there are with
KLOGTOOL_EVERY_START=1.
"""

from __future__ import annotations

import itertools
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import pytest

from .beside import module_beside
from .brokers import a_broker
from .kafka import scratch_folder

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "doctor")]

from asking_doctor import asked  # noqa: E402
from judge.mended import scenarios  # noqa: E402
from make_broker import feed_new_log_dirs  # noqa: E402
from sampling import chance  # noqa: E402
from startup import HERE as DOCTOR  # noqa: E402
from startup import POINTS, SCENARIOS, Scenario  # noqa: E402

from klogtool.doctor.answers import What  # noqa: E402
from klogtool.format.names import parse_partition_dir_name  # noqa: E402

pytestmark = [pytest.mark.kafka, pytest.mark.shared]
Path = pathlib.Path
Rows = list[dict[str, Any]]

SAMPLE = (
    "2 no marker, no recovery points",
    "3 directory.id unreadable",
    "4 foreign folder foo",
    "4 without partition.metadata",
    "4 -future, alone, elsewhere",
    "4 absent",
    "4 absent, in no log dir, a file where are fewer",
    "4 absent, named -stray, a file has its name",
    "4 names that are not UTF-8",
    "4 a snapshot's name that is not UTF-8, and has the newest offset",
    "4 -stray beside a new one",
    "4 ids of two topics exchanged",
    "5 recovery-point: garbage in the metadata log dir",
    "5 recovery-point: garbage, an open transaction",
    "5 log start beyond the end",
    "6 epochs: negative",
    "11 a FIFO, a closed index",
    "11 a socket, d1/t-0/leader-epoch-checkpoint",
    "7 flipped bit, closed, from 0",
    "7 torn last batch",
    "8 swap of the active segment, shorter",
    "9 flipped bit in the middle, no snapshot",
)
# On a log dir that a 3.9.2 wrote. Scenarios of the metadata log depend on its offsets, which are others there.
ON_3_9_2 = (
    "3 0 bytes",
    "4 absent, named -stray",
    "4 -delete of a partition that the cluster has",
    "5 log-start: garbage, a transaction ended since",
    "7 torn last batch, unclean",
)
ON_4_4_0 = (
    "3 version 7",
    "4 topic id of another topic generation",
    "5 recovery-point: garbage, a stray partition",
    "7 flipped bit, closed, from 0",
)
BY_NIGHT = tuple(dict.fromkeys((*SAMPLE, *scenarios())))
SOME = chance("starts").sample(SAMPLE, 6)  # the judge's sample starts brokers on hundreds of states, too
CASES = [
    *(("4.3.1", name) for name in (SCENARIOS if os.environ.get("KLOGTOOL_EVERY_START") == "1" else SOME)),
    *(pytest.param("4.3.1", name, marks=pytest.mark.nightly) for name in BY_NIGHT if name not in SOME),
    *(("3.9.2", name) for name in ON_3_9_2),
    *(("4.4.0", name) for name in ON_4_4_0),
]
# The doctor cannot know these from the disks that it is given.
UNKNOWN = {
    "9 folder missing": "a folder __cluster_metadata-0 that is nowhere may be in a log dir that is not named",
    "4 absent, in no log dir, a file where are as many": "which of these log dirs is tried first",
}
# A thread waits in the opening of the file for ever, and the stop of a broker waits for that thread.
NEVER_STOPS = {"11 a FIFO, the cleaner's checkpoint", "11 a FIFO, where leader epochs are written"}
NEVER_STOPS |= {name for name, scenario in SCENARIOS.items() if What.NEVER_STOPS in dict(scenario.ahead).values()}
WAIT_S = 20.0
STOP_S = 90.0
GIVEN_UP = re.compile(r"Stopping serving replicas in dir (\S+)|Failed to load (\S+) during broker startup")


@dataclass(frozen=True)
class Seen:
    """What a broker did. is_up: it started and stayed. ends: of partitions, after its clean stop. stops: it did so when
    it was told to."""

    said: str
    is_up: bool
    given_up: set[str]
    strays: set[str]
    ends: Mapping[str, int]
    stops: bool = True


@contextmanager
def a_place() -> Iterator[Path]:
    place = scratch_folder("klogtool-doctor-")
    try:
        yield place
    finally:
        shutil.rmtree(place)


def log_dirs_of(version: str, place: Path) -> Path:
    """d0 and d1 in a folder, which the release can read."""
    if version != "3.9.2":
        return Path(shutil.copytree(DOCTOR / "broker", place / "disks"))
    return feed_new_log_dirs(module_beside("brokers/broker.py"), version, place)


def stray_names(disks: Path) -> set[str]:
    return {path.name.rsplit(".", 1)[0] for path in disks.glob("d?/*-stray")}


def ends_after(disks: Path, given_up: set[str]) -> dict[str, int]:
    """The recovery points that a clean stop wrote: log ends."""
    found = {}
    for log_dir in disks.glob("d?"):
        points = log_dir / POINTS
        if log_dir.name not in given_up and points.is_file():
            rows = [line.split() for line in points.read_text().splitlines()[2:]]
            found |= {f"{topic}-{partition}": int(offset) for topic, partition, offset in rows}
    return found


def started(
    broker: Any, disks: Path, scenario: Scenario, wanted: Callable[[str], bool], stop_s: float = STOP_S
) -> Seen:
    """Start it, wait until it ended or what is wanted is in its log, and stop it; kill it if that takes so long."""
    module = sys.modules[type(broker).__module__]
    broker._format = lambda: None
    before = stray_names(disks)
    try:
        broker.start()
    except module.BrokerError:
        return Seen(broker.output, False, set(), set(), {})
    until = time.monotonic() + WAIT_S
    while broker._process.popen.poll() is None and time.monotonic() < until and not wanted(broker.log_text()):
        time.sleep(0.2)
    time.sleep(1)
    is_up = broker._process.popen.poll() is None
    stops = True
    try:
        broker.stop(stop_s)
    except module.BrokerError:
        stops = False
    said = broker.output
    given_up = {Path(next(filter(None, found))).name for found in GIVEN_UP.findall(said)}
    strays = stray_names(disks) - before
    return Seen(said, is_up, given_up, strays, ends_after(disks, given_up) if is_up and stops else {}, stops)


def of_kind(rows: Rows, *whats: str) -> list[dict[str, Any]]:
    return [row for row in rows if row["type"] == "ahead" and row["what"] in whats]


def verdict(rows: Rows) -> str:
    return next(str(row["starts"]) for row in rows if row["type"] == "verdict")


def log_dir_in(path: str) -> str:
    return next(part for part in reversed(Path(path).parts) if part in ("d0", "d1"))


def expected_strays(rows: Rows) -> set[str]:
    named = {_plain_of(row["path"]) for row in of_kind(rows, "stray")}
    if of_kind(rows, "metadata-lost"):  # all of them
        folders = [Path(row["path"]).name for row in rows if row["type"] == "partition"]
        named |= {name for name in folders if not name.startswith("__cluster_metadata")}
    return named


def _plain(name: str) -> str:
    parsed = parse_partition_dir_name(name)
    return f"{parsed.topic}-{parsed.partition}"


def _plain_of(path: str) -> str:
    return _plain(Path(path).name)


def expected_ends(rows: Rows, given_up: set[str]) -> dict[str, int]:
    """Log ends of the partitions of t and u that the broker keeps; 0 for those that it makes anew."""
    if of_kind(rows, "metadata-lost"):  # it knows none of them
        return {}
    anew = {_plain_of(row["path"]) for row in of_kind(rows, "future-emptied")}
    anew |= {_plain_of(row["path"]) for row in of_kind(rows, "all-deleted") if row["path"].endswith("-delete")}
    kept = {row["path"] for row in rows if row["type"] == "partition"}
    absent = [row["path"] for row in of_kind(rows, "absent") if log_dir_in(row["path"]) not in given_up]
    anew |= {Path(path).name for path in absent if path not in kept}
    strays = {row["path"] for row in of_kind(rows, "stray")}
    served = {Path(path).name for path in kept - strays}
    anew |= {name for path in strays if re.fullmatch(r"[tu]-[01]", name := Path(path).name) and name not in served}
    if of_kind(rows, "misnamed") and not any(row.endswith("/t-0") for row in kept):
        anew.add("t-0")
    found = dict.fromkeys(anew, 0)
    replaced = {row["path"] for row in of_kind(rows, "replaced")}
    for row in rows:
        name = Path(row.get("path", "")).name
        if row["type"] == "partition" and name.endswith("-future") and _plain(name) in map(_plain_of, replaced):
            found[_plain(name)] = row["log_end_offset"]
        is_kept = (
            row.get("path") not in replaced | strays
            and re.fullmatch(r"[tu]-[01]", name)
            and name not in anew
            and log_dir_in(row["path"]) not in given_up
        )
        if row["type"] == "partition" and row["log_end_offset"] is not None and is_kept:
            found[name] = row["log_end_offset"]
    return found


def swap_bytes(partition: str) -> int:
    """Bytes of logs that take the place of others; what they replace is deleted whole."""
    return sum(path.stat().st_size for path in Path(partition).glob("*.log.swap"))


def log_bytes(partition: str) -> int:
    return sum(path.stat().st_size for path in Path(partition).glob("*.log") if path.is_file())


def batches_in(folder: Path) -> dict[int, bytes]:
    """The batches of the logs in a folder, by lengths alone, by base offset."""
    found: dict[int, bytes] = {}
    for path in sorted(folder.glob("*.log")):
        data, at = path.read_bytes() if path.is_file() else b"", 0
        while (size := 12 + int.from_bytes(data[at + 8 : at + 12], "big")) > 61 and at + size <= len(data):
            found[int.from_bytes(data[at : at + 8], "big")] = data[at : at + size]
            at += size
    return found


def forgotten_records(sound: Iterable[tuple[int, bytes]], folder: Path) -> int:
    """How many records of the metadata log are neither in it afterwards nor in a snapshot, without control records."""
    kept = batches_in(folder)
    end = max((int(path.name[:20]) for path in folder.glob("*.checkpoint")), default=0)
    gone = [batch for base, batch in sound if base >= end and kept.get(base) != batch and not batch[22] & 0x20]
    return sum(int.from_bytes(batch[57:61], "big") for batch in gone)


@contextmanager
def a_disk(at: Path) -> Iterator[None]:
    """A file system of its own in place of a folder, with what was in the folder."""
    kept = Path(shutil.copytree(at, at.with_name(f"{at.name}-kept")))
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m,nr_inodes=400", "tmpfs", str(at)], capture_output=True, check=False
    )
    if done.returncode:
        pytest.skip("a mount is not permitted here")
    try:
        shutil.copytree(kept, at, dirs_exist_ok=True)
        yield
    finally:
        subprocess.run(["umount", str(at)], check=True)


def fill(log_dir: Path) -> None:
    with (log_dir / "filled").open("wb", buffering=0) as file:
        while file.write(bytes(4096)) == 4096 and os.statvfs(log_dir).f_bavail:
            pass


def use_all_inodes(log_dir: Path) -> None:
    with suppress(OSError):
        for n in itertools.count():
            (log_dir / f"filled-{n}").touch()


def lose_and_fill(log_dir: Path) -> None:
    """A partition that is made anew needs room, also after a clean stop."""
    shutil.rmtree(log_dir / "t-0")
    fill(log_dir)


def make_read_only(log_dir: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", str(log_dir)], check=True)


# A log dir, what happens to its disk, and words of the broker's log.
DISKS: Mapping[str, tuple[str, Callable[[Path], None], str]] = {
    "full, unclean": ("d1", fill, "No space left on device"),
    "full, a partition absent": ("d1", lose_and_fill, "No space left on device"),
    "full, with the metadata": ("d0", fill, "is already offline due to a previous IO exception"),
    "no inode": ("d1", use_all_inodes, "Disk error while locking directory"),
    "no inode, with the metadata": ("d0", use_all_inodes, "No space left on device"),
    "read-only": ("d1", make_read_only, "Read-only file system"),
    "read-only, with the metadata": ("d0", make_read_only, "Read-only file system"),
}


@pytest.mark.slow
@pytest.mark.nightly
def test_a_broker_ends_or_gives_up_a_disk_with_too_little_room_for_its_indexes() -> None:
    """Some room is left, so files can be made; an index gets its room only when a page of it is written."""
    with a_place() as place:
        disks = log_dirs_of("4.3.1", place)
        config = {"log.dirs": f"{disks / 'd0'},{disks / 'd1'}"}
        options = {"log_dir": disks / "d0", "metadata_in_log_dir": True, "config": config}
        with a_broker("4.3.1", place / "work", **options) as broker, a_disk(disks / "d1"):
            for path in ((disks / "d1" / ".kafka_cleanshutdown"), *(disks / "d1").glob("*-[0-9]*/*index")):
                path.unlink()
            fill(disks / "d1")
            with (disks / "d1" / "filled").open("r+b") as file:
                file.truncate(file.seek(0, os.SEEK_END) - 2 * 4096)
            rows = asked(disks, SCENARIOS["2 clean"])
            seen = started(broker, disks, SCENARIOS["2 clean"], lambda said: "Stopped serving" in said)
        assert {log_dir_in(row["path"]) for row in of_kind(rows, "no-room")} == {"d1"}
        assert not seen.is_up or seen.given_up == {"d1"}
        assert "unsafe memory access" in seen.said or "No space left on device" in seen.said


@pytest.mark.slow
@pytest.mark.parametrize("name", DISKS)
def test_a_broker_does_with_a_disk_what_the_doctor_said(name: str) -> None:
    log_dir, change, told = DISKS[name]
    with a_place() as place:
        disks = log_dirs_of("4.3.1", place)
        config = {"log.dirs": f"{disks / 'd0'},{disks / 'd1'}"}
        options = {"log_dir": disks / "d0", "metadata_in_log_dir": True, "config": config}
        with a_broker("4.3.1", place / "work", **options) as broker, a_disk(disks / log_dir):
            if change is fill:
                (disks / log_dir / ".kafka_cleanshutdown").unlink()
            change(disks / log_dir)
            rows = asked(disks, SCENARIOS["2 clean"])
            offline = {log_dir_in(row["path"]) for row in of_kind(rows, "offline", "no-room")}
            seen = started(
                broker, disks, SCENARIOS["2 clean"], lambda said: bool(offline) and "Stopped serving" in said
            )
        assert told in seen.said
        assert seen.is_up is (verdict(rows) != "refuses")
        assert seen.given_up == offline


@pytest.mark.slow
@pytest.mark.parametrize(("version", "name"), CASES)
def test_a_broker_does_what_the_doctor_said(version: str, name: str) -> None:
    scenario = SCENARIOS[name]
    with a_place() as place:
        disks = log_dirs_of(version, place)
        config = {"log.dirs": ",".join(str(disks / log_dir) for log_dir in scenario.log_dirs)}
        options = {"log_dir": disks / "d0", "metadata_in_log_dir": True, "config": config}
        with a_broker(version, place / "work", **options) as broker:
            whole = batches_in(disks / "d0" / "__cluster_metadata-0")
            scenario.wound(disks)
            rows = asked(disks, scenario, "--kafka", version)
            sound = whole.items() & batches_in(disks / "d0" / "__cluster_metadata-0").items()
            cut = {
                row["path"]: (log_bytes(row["path"]) + swap_bytes(row["path"]), row["lost_bytes"])
                for row in of_kind(rows, "truncated")
            }
            offline = {log_dir_in(row["path"]) for row in of_kind(rows, "offline")}

            def is_seen(said: str) -> bool:
                if verdict(rows) == "refuses":
                    return False
                given_up = {Path(next(filter(None, found))).name for found in GIVEN_UP.findall(said)}
                return scenario.told in said and given_up >= offline

            never = name in NEVER_STOPS and version == "4.3.1"
            seen = started(broker, disks, scenario, is_seen, WAIT_S if never else STOP_S)
        assert seen.is_up is (verdict(rows) != "refuses"), seen.said[-3000:]
        assert scenario.told in seen.said or version != "4.3.1", seen.said[-3000:]
        if not seen.is_up or name in UNKNOWN:
            return
        assert seen.given_up == offline
        assert seen.strays == expected_strays(rows)
        assert seen.stops is not never, seen.said[-3000:]
        if never:
            return
        ends = expected_ends(rows, offline)
        assert {partition: seen.ends.get(partition) for partition in ends} == ends
        for path, (size, lost) in cut.items():
            if Path(path).name != "__cluster_metadata-0":
                assert size - log_bytes(path) == lost, path
        for row in of_kind(rows, "truncated"):
            if Path(row["path"]).name == "__cluster_metadata-0":  # it goes on with other records
                assert forgotten_records(sound, Path(row["path"])) == row["lost_records"]
