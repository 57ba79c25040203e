"""Log dirs with many closed segments, scrub run over them as a user runs it, and rot that leaves no trace."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
from typing import Any

from running import run_here

Path = pathlib.Path
DAY_MS = 86_400_000
NOW_MS = 1_795_000_000_000  # after the records of the spec, whose clock begins in 2024
EVERYTHING = ("--recovery-point", str(2**63 - 1))  # what is closed is flushed
SPEC = """
kafka: 4.3.1
partitions:
  - topic: orders
    config: {{segment.bytes: {segment_bytes}, index.interval.bytes: 500}}
    log:
      - generate: {{records: {records}, seed: 42, keys: 100, value_bytes: 50..150, batch_bytes: 1024}}
"""


def make_log_dir(folder: Path, *, partitions: int = 2, records: int = 600, segment_bytes: int = 16384) -> Path:
    """A log dir of equal partitions of one topic, all of it flushed."""
    spec = folder.with_name("spec.yaml")
    spec.write_text(SPEC.format(records=records, segment_bytes=segment_bytes))
    done = run_here(["build", str(spec), "--output", str(folder)], folder.parent)
    assert done.status == 0, done.err
    for number in range(1, partitions):
        shutil.copytree(folder / "orders-0", folder / f"orders-{number}")
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        *_, offset = (folder / name).read_text().split()
        lines = [f"orders {number} {offset}\n" for number in range(partitions)]
        (folder / name).write_text(f"0\n{partitions}\n" + "".join(lines))
    return folder


def closed_logs(*log_dirs: Path) -> list[Path]:
    """The logs of all closed segments."""
    partitions = [path for log_dir in log_dirs for path in sorted(log_dir.glob("*-*")) if path.is_dir()]
    return [log for partition in partitions for log in sorted(partition.glob("*.log"))[:-1]]


class Scrubbed:
    """What a run said."""

    def __init__(self, status: int, out: bytes, err: str) -> None:
        self.status, self.err = status, err
        rows = [json.loads(line) for line in out.splitlines()]
        self.findings = [row for row in rows if row["type"] == "finding"]
        self.earlier = [row for row in rows if row["type"] == "earlier"]
        self.summary: dict[str, Any] = rows[-1] if rows and rows[-1]["type"] == "summary" else {}

    @property
    def ids(self) -> list[str]:
        return [row["id"] for row in self.findings]


def scrub(state: Path, *args: str | Path, days: float = 0, now_ms: int = NOW_MS) -> Scrubbed:
    """Scrub with --json, so many days after a time."""
    words = ["scrub", *map(str, args), "--state", str(state), "--json", "--now", str(now_ms + int(days * DAY_MS))]
    done = run_here(words, state.parent)
    return Scrubbed(done.status, done.out, done.err)


def rot(path: Path, position: int, bit: int) -> None:
    """Flip a bit as a disk does: size and time of the file stay."""
    about = path.stat()
    with open(path, "r+b") as file:
        file.seek(position)
        byte = file.read(1)[0] ^ 1 << bit
        file.seek(position)
        file.write(bytes([byte]))
    os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))
