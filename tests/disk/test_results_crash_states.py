"""What Spark's tasks write, and files that replace older ones, and the power fails: in each state that a crash leaves
(crash_states.py) a result is whole or not there. A run can be resumed, or begin anew, and nothing of it is to be seen.
What was said to be finished stays so."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from crash_states import CrashStates, RecordingDisk, Stage
from made import contents

from klogtool.cli.output_file import output_file
from klogtool.disk.assembling import Assembly, write_part
from klogtool.disk.dataset import PLAN, STATE, SUCCESS, Attempt, Dataset
from klogtool.disk.new_log_dir import NewLogDir, TaskPlace

TASKS = {0: ("a/x",), 1: ("a/y", "b/deep/z")}
BYTES = bytes(range(256)) * 3


class Recorder:
    """Tells a recording disk of the calls of the system that dataset.py makes; in the attic of its stage, of none."""

    def __init__(self, disk: RecordingDisk) -> None:
        self.disk, self._is_ours = disk, False

    @contextlib.contextmanager
    def patched(self) -> Iterator[None]:
        """Meanwhile it is told."""
        with pytest.MonkeyPatch.context() as patch:
            for name in ("rename", "replace", "unlink", "mkdir"):
                patch.setattr(os, name, self._noted(getattr(os, name), name))
            patch.setattr(os, "fsync", self._fsync)
            patch.setattr(os, "rmdir", self._rmdir)
            patch.setattr(shutil, "rmtree", self._rmtree)
            yield

    def _quietly(self, work: Callable[[], object]) -> None:
        self._is_ours = True
        try:
            work()
        finally:
            self._is_ours = False

    def _noted(self, call: Callable[..., object], name: str) -> Callable[..., None]:
        def noted(*given: Any, **more: Any) -> None:
            call(*given, **more)
            if not self._is_ours:
                self._quietly(lambda: self.disk.note(name))

        return noted

    def _fsync(self, descriptor: int) -> None:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        self._quietly(lambda: self.disk.note("write"))
        self._quietly(lambda: self.disk.note("sync", path))

    def _rmdir(self, path: str) -> None:
        self._quietly(lambda: self.disk.rmdir(path))
        self._quietly(lambda: self.disk.note("rmdir"))

    def _rmtree(self, path: str, **_: object) -> None:
        for folder, _folders, names in os.walk(path, topdown=False):
            for name in names:
                os.unlink(os.path.join(folder, name))
            os.rmdir(folder)


def attempted(dataset: Dataset, number: int) -> None:
    """A task that is done."""
    attempt = Attempt(dataset.path, number)
    for name in TASKS[number]:
        with attempt.file(name) as sink:
            sink.write(name.encode() + BYTES)
    attempt.finish({"t": number})


def gone_on_with(dataset: Dataset) -> None:
    """What is not done yet is done, and all is committed."""
    for number in TASKS.keys() - dataset.done().keys():
        attempted(dataset, number)
    dataset.commit([message for _, message in sorted(dataset.done().items())])


def found_in(out: pathlib.Path) -> dict[str, bytes]:
    """The files that a reader sees."""
    files = (path for path in out.rglob("*") if path.is_file() and STATE not in path.relative_to(out).parts)
    return {str(path.relative_to(out)): path.read_bytes() for path in files}


def test_whenever_the_power_fails_a_run_is_finished_or_resumed_or_begun_anew(box: pathlib.Path) -> None:
    out = box / "out"
    disk = RecordingDisk(Stage(box), is_killed_inside=False)
    recorder = Recorder(disk)
    with recorder.patched():
        dataset = Dataset.begin(str(out), [], {"what": 1})
        for number in TASKS:
            attempted(dataset, number)
        gone_on_with(dataset)
    whole = {name: name.encode() + BYTES for names in TASKS.values() for name in names}
    assert found_in(out) == {**whole, SUCCESS: b"{}"}
    states, seen = CrashStates(disk), set[str]()
    for n, world in states.walk():
        disk.stage.put(world)
        found = found_in(out)
        assert {name for name, data in found.items() if whole.get(name) != data} <= {SUCCESS}, n
        if SUCCESS in found:
            assert found == {**whole, SUCCESS: b"{}"}, n
            seen.add("finished")
        if (out / STATE / PLAN).exists():
            with quiet(disk):
                gone_on_with(Dataset.resume(str(out), dict[str, int])[0])
            assert found_in(out) == {**whole, SUCCESS: b"{}"}, n
            seen.add("resumed")
        elif SUCCESS not in found:
            assert found == {}, n
            seen.add("begun anew")
        assert SUCCESS in found or n < len(disk.changes), "what was said to be finished is"
    assert seen == {"finished", "resumed", "begun anew"}
    print([len(disk.changes), states.count, len(states.groups)])


@contextlib.contextmanager
def quiet(disk: RecordingDisk) -> Iterator[None]:
    """Folders that are deleted go into the attic."""

    def rmtree(path: str, **_: object) -> None:
        for folder, _folders, names in os.walk(path, topdown=False):
            for name in names:
                os.unlink(os.path.join(folder, name))
            disk.stage.take_away(folder)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shutil, "rmtree", rmtree)
        yield


def made_of_tasks(box: pathlib.Path) -> pathlib.Path:
    """A log dir that Spark writes."""
    log_dir = NewLogDir.at(str(box / "out"))
    log_dir.begin()
    places = {}
    for name in ("t-0", "t-1"):
        with TaskPlace(log_dir) as place:
            places[name] = place.write_partition_dir(name, {"0.log": (BYTES,), "partition.metadata": (b"id",)})
    log_dir.publish(places, {"meta.properties": (b"version=1",)})
    return box / "out"


def assembled(box: pathlib.Path) -> pathlib.Path:
    """Two log dirs that `spark compact` builds of what tasks wrote."""
    sources = {}
    for name in ("d0", "d1"):
        for part in ("t-0", "t-1"):
            (box.parent / name / part).mkdir(parents=True)
            (box.parent / name / part / f"{0:020d}.log").write_bytes(BYTES)
        (box.parent / name / "meta.properties").write_bytes(b"version=1")
        sources[name] = str(box.parent / name)
    assembly = Assembly.begin(str(box / "out"), list(sources.values()))
    for name, source in sources.items():
        places = {part: write_part(assembly.stage, f"{source}/{part}", None) for part in ("t-0", "t-1")}
        assembly.finish_log_dir(name, [], places)
    assembly.publish()
    return box / "out"


@pytest.mark.parametrize("made", [made_of_tasks, assembled])
def test_a_result_of_tasks_is_whole_or_not_there(
    box: pathlib.Path, made: Callable[[pathlib.Path], pathlib.Path]
) -> None:
    disk = RecordingDisk(Stage(box), is_killed_inside=False)
    with Recorder(disk).patched():
        out = made(box)
    whole = contents(out)
    assert len(whole) > 4
    states, seen = CrashStates(disk), set[bool]()
    for n, world in states.walk():
        disk.stage.put(world)
        seen.add(out.exists())
        assert contents(out) == (whole if out.exists() else {}), n
        assert out.exists() or n < len(disk.changes), "what was said to be finished is"
    assert seen == {False, True}
    print([len(disk.changes), states.count, len(states.groups)])


def test_a_file_that_is_replaced_is_the_old_one_or_the_new_one(box: pathlib.Path) -> None:
    """A baseline, or metrics."""
    path = box / "metrics"
    path.write_bytes(b"old")
    disk = RecordingDisk(Stage(box), is_killed_inside=False)
    with Recorder(disk).patched(), output_file(str(path), replaces=True) as sink:
        sink.write(BYTES)
    seen = set()
    for _, world in CrashStates(disk).walk():
        disk.stage.put(world)
        seen.add(path.read_bytes())
    assert seen == {b"old", BYTES}
