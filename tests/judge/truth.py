"""What a real broker made of log dirs: what it loaded, set aside, gave up, served, and kept on the disk."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

from kafka.brokers import fetched
from kafka.kafka import cache_folder

from .bases import LOG_DIRS, QUIET, broker_over
from .disks import PARTITION
from .records_on_disk import (
    Batch,
    Found,
    batches_left,
    batches_of,
    batches_set_aside,
    doubtful_of,
    names_and_bytes,
    records_of,
)

PROBE = Path(__file__).with_name("Probe.java")
START_LIMIT_S, PROBE_LIMIT_S, SETTLING_S = 180, 240, 0.7  # a busy machine takes its time

LOADED = re.compile(
    r"Completed load of Log\(dir=([^,]+),.*?logStartOffset=(-?\d+), logEndOffset=(-?\d+)\)? with (\d+) segments"
)
STRAY = re.compile(r"Log in (.+) marked stray")
GIVEN_UP = re.compile(
    r"(?:Stopp(?:ing|ed) serving replicas in dir|Error while loading log dir|Failed to load) "
    r"([^\s,]+?)(?: with| because| during|,|\s|$)"
)
TROUBLE = re.compile(r"^\[[^]]*\] (?:ERROR|FATAL) (.*)", re.MULTILINE)
MENDED = "[LogLoader "
THROWN = re.compile(r"\b([A-Z]\w+(?:Exception|Error))\b")


class Asked(Enum):
    """What the probe is to do: see Probe.java."""

    READ = "read"
    WRITE = "write"
    TRANSACTIONS = "transactions"


class Loaded(NamedTuple):
    """The log start and end that a broker told when it had loaded a partition."""

    log_start_offset: int
    log_end_offset: int


@dataclass(frozen=True)
class Reading:
    """What a consumer got of a partition. stuck: offsets at which it could not go on and had to be helped over.

    is_complete: it came to the end within the time that it has.
    """

    start: int
    end: int
    records: frozenset[Found]
    stuck: tuple[int, ...]
    is_complete: bool
    error: str | None


@dataclass(frozen=True)
class Writing:
    """What a producer was told of its writes."""

    offsets: tuple[int, ...]
    error: str | None


@dataclass
class Truth:
    """Folders are named with their log dir (d0/plain-0), partitions without. kept: of each folder that was there, the
    sound records that it has afterwards, wherever the broker has put it; files: names, and CRCs of bytes;
    files_without_markers: without those that a coordinator appended."""

    is_up: bool = False
    troubles: list[str] = field(default_factory=list)
    thrown: set[str] = field(default_factory=set)
    offline: set[str] = field(default_factory=set)
    strays: set[str] = field(default_factory=set)
    loaded: dict[str, Loaded] = field(default_factory=dict)
    read: dict[str, Reading] = field(default_factory=dict)
    again: dict[str, Reading] = field(default_factory=dict)
    written: dict[str, Writing] = field(default_factory=dict)
    kept: dict[str, set[Found]] = field(default_factory=dict)
    files: dict[str, dict[str, int]] = field(default_factory=dict)
    files_without_markers: dict[str, dict[str, int]] = field(default_factory=dict)
    said: str = ""

    def reading(self, folder: str) -> Reading | None:
        return self.read.get(folder.split("/")[1])


def started(
    version: str, work: Path, asked: Asked, partitions: Iterable[str], *, only_read: Iterable[str] = ()
) -> Truth:
    """Start a broker over d0 and d1 of a folder, ask it, and kill it. partitions: to ask for, of those that it loaded;
    only_read: more of them, to which nothing is written.

    It changes the log dirs: hand in a copy.
    """
    (work / "broker.log").unlink(missing_ok=True)
    folders = [f"{name}/{path.name}" for name in LOG_DIRS for path in sorted((work / name).iterdir()) if path.is_dir()]
    truth = Truth()
    module = fetched(version)
    with broker_over(version, work) as broker:
        broker.config |= QUIET
        broker._format = lambda: None
        try:
            broker.start(timeout=START_LIMIT_S)
            time.sleep(SETTLING_S)
            truth.is_up = _is_alive(broker)
            _note_log(truth, work, broker.log_text())
            if truth.is_up:
                loaded = {name.split("/")[1] for name in truth.loaded if name.split("/")[0] not in truth.offline}
                _ask(version, broker, Asked.READ, sorted(loaded & set(only_read)), truth)
                _ask(version, broker, asked, sorted(loaded & set(partitions)), truth)
                truth.is_up = _is_alive(broker)
        except module.BrokerError:
            truth.is_up = False
        text = broker.output
        with suppress(module.BrokerError):
            text = broker.log_text() or text
            broker.kill()
    _note_log(truth, work, text or broker.output)
    _note_disk(truth, work, folders)
    return truth


def _is_alive(broker: Any) -> bool:
    return broker._process is not None and broker._process.popen.poll() is None


def _note_log(truth: Truth, work: Path, said: str) -> None:
    inside = f"{work}/"
    truth.said = said
    truth.loaded = {
        found[1].removeprefix(inside): Loaded(int(found[2]), int(found[3])) for found in LOADED.finditer(said)
    }
    truth.strays = {name.removeprefix(inside) for name in STRAY.findall(said)}
    truth.offline = {Path(name).name for name in GIVEN_UP.findall(said)} & set(LOG_DIRS)
    troubles = TROUBLE.findall(said)
    truth.troubles = sorted((line[:300] for line in troubles), key=lambda line: MENDED in line)[:6]
    at = TROUBLE.search(said)
    truth.thrown = set(THROWN.findall(said[at.start() :])) if at else set()


def _note_disk(truth: Truth, work: Path, folders: Iterable[str]) -> None:
    """Where each folder is now: under its name, or (since it is a stray) with a suffix."""
    for folder in folders:
        here = work / folder
        # Of two files of one name that counts which is here: the folder may have had a -delete beside it before.
        places = [*here.parent.glob(f"{here.name}.*-stray"), *here.parent.glob(f"{here.name}.*-delete"), here]
        found = [place for place in places if place.is_dir()]
        there = [batch for place in found for batch in _batches_there(place)]
        truth.kept[folder] = records_of(there) | doubtful_of(there)
        loaded = truth.loaded.get(folder)
        end = loaded.log_end_offset if loaded else None
        truth.files[folder] = {name: crc for place in found for name, crc in names_and_bytes(place).items()}
        truth.files_without_markers[folder] = {
            name: crc for place in found for name, crc in names_and_bytes(place, end).items()
        }


def _batches_there(place: Path) -> list[Batch]:
    """What is in segments, in renamed ones, and in those that a start did not put in their place."""
    return [*batches_of(place), *batches_set_aside(place), *batches_left(place, ".log.swap")]


def _ask(version: str, broker: Any, asked: Asked, partitions: list[str], truth: Truth) -> None:
    if not partitions:
        return
    module = fetched(version)
    java = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    logging = module._logging(version, broker.work, "OFF")
    path = ["-cp", f"{_probe(version)}:{module.classpath(version)}"]
    command = [*java, *logging, *path, "Probe", broker.bootstrap, asked.value, *partitions]
    with tempfile.TemporaryFile("w+") as out:
        with suppress(subprocess.TimeoutExpired):  # what was not asked by then is not compared
            subprocess.run(command, stdout=out, stderr=subprocess.DEVNULL, timeout=PROBE_LIMIT_S)
        out.seek(0)
        lines = out.read().splitlines()
    for line in lines:
        row = json.loads(line)
        if row["phase"] == "write":
            truth.written[row["partition"]] = Writing(tuple(row["offsets"]), row["error"])
        else:
            phase = truth.read if row["phase"] == "read" else truth.again
            phase[row["partition"]] = _reading(row)


def _reading(row: Mapping[str, Any]) -> Reading:
    records = frozenset(Found(offset, digest) for offset, digest in row["records"])
    return Reading(row["start"], row["end"], records, tuple(row["stuck"]), row["complete"], row["error"])


def _probe(version: str) -> Path:
    """Probe.java, compiled for the release."""
    home = cache_folder() / "judge" / f"probe-{version}-{PROBE.stat().st_mtime_ns}"
    if not home.is_dir():
        home.parent.mkdir(parents=True, exist_ok=True)
        making = Path(tempfile.mkdtemp(prefix="making-", dir=home.parent))
        classes = fetched(version).classpath(version)
        subprocess.run(["javac", "-nowarn", "-cp", classes, "-d", str(making), str(PROBE)], check=True)
        with suppress(OSError):  # somebody else was faster
            making.rename(home)
    return home


def is_plain(folder: str) -> bool:
    """Whether d0/NAME is a partition of users or of Kafka's own topics, without a suffix."""
    return bool(PARTITION.fullmatch(folder.split("/")[1])) and "__cluster_metadata" not in folder
