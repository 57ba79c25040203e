"""What is asked of logs that grow: the shapes, and the commands. Tests count work, `make bench` measures time."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from functools import partial

from damage import flip_bit
from growing_logs import RECORDS, make_epochs, make_metadata, make_partitions, make_segments


def damaged_segments(log_dir: pathlib.Path, count: int) -> pathlib.Path:
    """Every other one has a batch whose checksum is wrong."""
    folder = make_segments(log_dir, count, is_clean=False)
    for log in sorted(folder.glob("*.log"))[1::2]:
        flip_bit(log, 90, 0)
    return folder


def orphans(log_dir: pathlib.Path, count: int) -> pathlib.Path:
    """The first half of the segments has lost its `.log`s."""
    folder = make_segments(log_dir, count)
    for log in sorted(folder.glob("*.log"))[: count // 2]:
        log.unlink()
    return folder


def doomed_segments(log_dir: pathlib.Path, count: int) -> pathlib.Path:
    """All but one wait for their deletion."""
    folder = make_segments(log_dir, count)
    keep = f"{(count - 1) * RECORDS:020d}"
    for file in sorted(folder.glob("0*")):
        if not file.name.startswith(keep):
            file.rename(f"{file}.deleted")
    return folder


def renamed_segments(log_dir: pathlib.Path, count: int) -> pathlib.Path:
    """Somebody gave the first half of the segments names that a broker does not read."""
    folder = make_segments(log_dir, count)
    for log in sorted(folder.glob("*.log"))[: count // 2]:
        log.rename(f"{log}.bak")
    return folder


SHAPES: dict[str, tuple[Callable[[pathlib.Path, int], pathlib.Path], int]] = {
    "segments": (make_segments, 8),
    "segments after a kill": (partial(make_segments, is_clean=False), 8),
    "segments without side files": (partial(make_segments, side_files=False), 8),
    "segments of an epoch each": (partial(make_segments, epochs=True), 8),
    "damaged segments": (damaged_segments, 8),
    "side files without segments": (orphans, 8),
    "segments of other names": (renamed_segments, 8),
    "segments that are to be deleted": (doomed_segments, 8),
    "epochs": (make_epochs, 40),
    "partitions": (make_partitions, 6),
    "transactions of metadata": (make_metadata, 12),
}
COMMANDS = {
    "verify": "verify {log_dir}",
    "doctor": "doctor {log_dir}",
    "verify --deep": "verify --deep {log} --format json",
    "recover": "recover {log} --last-stop unclean --recovery-point 0",
    "recover --apply": "recover {log} --last-stop unclean --recovery-point 0 --apply",
    "recover --output": "recover {log} --last-stop unclean --output {out} --format json",
    "salvage": "salvage {log} --output {out}",
    "transplant": "transplant {log} --output {out} --topic-id AAAAAAAAAAAAAAAAAAAAAw --topic t --partition 0",
    "salvage --replica": "salvage {log} --output {out} --replica {log}",
    "lookup --offset": "lookup {log} --offset {middle}",
    "lookup --timestamp": "lookup {log} --timestamp 9700000000000",
    "lookup --timestamp max": "lookup {log} --timestamp max",
    "lookup --leader-epoch": "lookup {log} --leader-epoch 3",
    "read": "read {log} --offset {middle} --max-bytes 1000",
    "rebuild-index": "rebuild-index {log} --apply",
    "rebuild-index --format json": "rebuild-index {log} --format json",
    "rebuild-index --segment": "rebuild-index {log} {segments}",
    "txns": "txns {log}",
    "hash": "hash {log}",
    "diff": "diff {log} {log}",
    "dump-log": "dump-log {log} --deep-iteration",
    "dump-log --format json": "dump-log {log} --format json",
    "truncate --to": "truncate {log} --to {middle} --apply",
    "truncate --start-at": "truncate {log} --start-at 5000000 --apply",
    "roll": "roll {log} --force --apply",
    "retain": "retain {log} --config retention.ms=1 --now 1800000000000 --apply",
    "delete-records": "delete-records {log} --before {middle} --apply",
    "compact": "compact {log} --config cleanup.policy=compact --force --now 1800000000000 --apply",
    "compact into small segments": "compact {log} --config cleanup.policy=compact --config segment.bytes=300 --force",
    "append": "append {log} --records {records} --apply",
}
MAIN = ("verify", "doctor", "recover", "salvage", "rebuild-index")  # of every shape
OF_A_CONTROLLER = {"quorum": "quorum {log}/..", "verify": "verify {log}/..", "doctor": "doctor {log}/.."}
OF_A_LOG_DIR = {
    "verify": "verify {log_dir}",
    "verify --deep": "verify --deep {log_dir} --format json",
    "recover": "recover {log_dir} --last-stop unclean",
    "recover --apply": "recover {log_dir} --last-stop unclean --apply",
    "recover --output": "recover {log_dir} --last-stop unclean --output {out} --format json",
    "txns": "txns {log_dir}",
    "hash": "hash {log_dir}",
    "diff": "diff {log_dir} {log_dir}",
    "fleet check": "fleet check --restored {log_dir}",
    "dump-log": "dump-log {log_dir} --deep-iteration",
    "retain": "retain {log_dir} --config retention.ms=1 --now 1800000000000 --apply",
    "compact": "compact {log_dir} --config cleanup.policy=compact --force --now 1800000000000 --apply",
}


def words_of(command: str, log: pathlib.Path, log_dir: pathlib.Path, n: int, folder: pathlib.Path) -> list[str]:
    """A command over a log of n things; what it reads besides, and makes, lies in the folder."""
    records = folder / "records.jsonl"
    records.write_text('{"key":"a","value":"b"}\n' * n)
    segments = " ".join(f"--segment {int(path.stem)}" for path in sorted(log.glob("*.log")))
    named = {"log": log, "log_dir": log_dir, "out": folder / "out", "records": records, "segments": segments}
    jobs = () if command.startswith("quorum ") else ("--jobs", "1")
    return [*command.format(**named, middle=n // 2 * RECORDS).split(), *jobs]
