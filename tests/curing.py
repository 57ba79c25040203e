"""Cures of findings, carried out as a person would who copies them into a shell; and what is left afterwards."""

from __future__ import annotations

import json
import os
import pathlib
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from deciding import decided
from running import path_of_shells, run_here

from klogtool.broker.circumstances import Circumstances
from klogtool.broker.content import read_content
from klogtool.errors import KlogError
from klogtool.format.names import FileKind, FileName, PartitionDirState, parse_file_name
from klogtool.log.folder import find_partition_dir_name, list_folder
from klogtool.log.segment import Segment
from klogtool.plans.plan import Delete, Write

Path = pathlib.Path
COMMANDS = ("klogtool ", "rm ", "mv ", "mkdir ", "sed ", "printf ")
STATUSES = (0, 1)  # 1: a command that mends says that records are lost
MOST_ROUNDS = 40


@dataclass(frozen=True)
class Told:
    """A finding, as `klogtool verify` prints it."""

    id: str
    severity: str
    path: str
    detail: str
    cure: str | None

    @property
    def place(self) -> tuple[str, str]:
        """What stays the same when bytes move."""
        return self.id, self.path

    @property
    def is_command(self) -> bool:
        """Whether the cure can be pasted into a shell."""
        return self.cure is not None and self.cure.startswith(COMMANDS)

    @property
    def needs_a_replica(self) -> bool:
        """Whether only another copy of the partition can mend it."""
        return self.cure is not None and " --replica COPY " in self.cure


def verified(paths: Iterable[str], folder: Path, now_ms: int) -> list[Told]:
    """What `klogtool verify --deep` prints, run in a folder."""
    done = run_here(["verify", *paths, "--deep", "--format", "json", "--now", str(now_ms)], folder)
    assert done.status in STATUSES, done.err
    rows = [json.loads(line) for line in done.out.decode().splitlines()]
    return [
        Told(row["id"], row["severity"], row["path"], row["detail"], row.get("cure"))
        for row in rows
        if row["type"] == "finding"
    ]


def carry_out(cure: str, folder: Path) -> None:
    """Run a cure in a folder, to the letter. What `salvage` writes takes the place of what it was asked about."""
    for command in cure.split(" && "):
        if command.startswith("klogtool "):
            _run_klogtool(shlex.split(command, comments=True), folder)
        else:
            done = subprocess.run(["bash", "-c", command], cwd=folder, check=False, capture_output=True, text=True)
            assert done.returncode == 0, (command, done.stderr)


def paste(cure: str, folder: Path) -> None:
    """Run a cure in a folder by a shell."""
    environment = {**os.environ, "PATH": path_of_shells()}
    done = subprocess.run(["bash", "-c", cure], cwd=folder, env=environment, check=False, capture_output=True)
    assert done.returncode in STATUSES, (cure, done.stderr)


def _run_klogtool(words: list[str], folder: Path) -> None:
    done = run_here(words[1:], folder)
    assert done.status in STATUSES, (words, done.err)
    if words[1] == "salvage":
        _put_in_place(folder / words[2], folder / words[words.index("--output") + 1])


def _put_in_place(old: Path, new: Path) -> None:
    """The salvaged partition dir instead of the damaged one, which is gone then, with the rejected bytes."""
    name = os.path.abspath(old)
    shutil.rmtree(name)
    new.rename(name)
    shutil.rmtree(new.with_name(new.name + ".rejected"), ignore_errors=True)


# What is in the logs.

Record = tuple[object, ...]


def readable_records(root: Path) -> set[Record]:
    """All records that `salvage` would keep of the partition dirs below a folder, wherever they lie."""
    found: set[Record] = set()
    for folder, _, names in os.walk(root):
        name = find_partition_dir_name(os.path.basename(folder))
        is_alive = name is not None and name.state is not PartitionDirState.DELETE
        if is_alive and any(n.endswith(".log") for n in names):
            found.update((name.topic, name.partition, *record) for record in _salvaged_records(folder))
    return found


def _salvaged_records(partition: str) -> Iterator[Record]:
    arguments = Circumstances(now_ms=0).as_arguments() | {"replicas": []}
    try:
        (plan,) = decided("salvage", partition, arguments)
    except KlogError:
        return
    with tempfile.TemporaryDirectory() as folder:
        steps = {step.path: step for step in plan.steps}
        for file in list_folder(partition).files:
            if file.kind is FileKind.LOG and not file.suffix and file.name not in steps and _is_file(partition, file):
                shutil.copy(os.path.join(partition, file.name), folder)
        for name, step in steps.items():
            assert isinstance(step, Write | Delete)
            if isinstance(step, Write) and parse_file_name(name).kind is FileKind.LOG:
                (Path(folder) / name).write_bytes(read_content(step.content))
        for path in sorted(Path(folder).iterdir()):
            yield from _records_of(path)


def _is_file(folder: str, file: FileName) -> bool:
    return os.path.isfile(os.path.join(folder, file.name))


def _records_of(path: Path) -> Iterator[Record]:
    for batch in Segment(str(path)).batches():
        with suppress(KlogError):  # the checksum holds, and the records cannot be read
            yield from [(record.offset, record.timestamp, record.key, record.value) for record in batch.records()]
