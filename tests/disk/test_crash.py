"""Death at every call and inside of it, with and without the loss of what was not synced: nothing is lost, undo and
resume work. Deaths that leave the same bytes, names, times and inodes are one (crash_states.py); all of them are tried
here. What else a power failure may leave, test_crash_states.py has.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import pytest
from crash_scene import Scene, Work, files, folders, room, told
from crash_states import CrashStates, RecordingDisk
from mortal import Attics

from klogtool.disk.manifest import Progress
from klogtool.disk.writer import resume, undo

BESIDE, ELSEWHERE, BACKED_UP = "beside", "elsewhere", "backed up"
LOSSES = {
    BESIDE: ("nothing", "everything", "mixed 1", "mixed 2"),
    ELSEWHERE: ("everything", "mixed 1"),
    BACKED_UP: ("everything",),  # every file has a second name, which is somebody else's: then none is cut in place
}
STEPS = ("rename", "delete", "truncate", "mkdir", "describe")
every_place = pytest.mark.parametrize("where", LOSSES)
every_kind = pytest.mark.parametrize("make", [files, folders])


@pytest.fixture
def scene(
    request: pytest.FixtureRequest,
    box: pathlib.Path,
    where: str,
    make: Callable[[pathlib.Path], Work],
    monkeypatch: pytest.MonkeyPatch,
) -> Scene:
    monkeypatch.setattr(Attics, "are_ours", where != BACKED_UP)
    if where != ELSEWHERE:
        return Scene(box, make)
    journal = pathlib.Path(request.getfixturevalue("elsewhere")) / "journal"
    journal.mkdir()
    return Scene(box, make, journal)


@pytest.mark.slow
@every_kind
@every_place
def test_whenever_it_died_undo_restores_all_and_resuming_finishes(scene: Scene, where: str) -> None:
    for n, world in scene.states.walk_deaths(*LOSSES[where]):
        for check in (scene.check_undo, scene.check_resume):
            scene.put(world)
            told(check, f"after {n} calls")
    assert len(scene.states.changes) > 80


@pytest.mark.slow
@every_kind
@every_place
def test_an_undo_that_died_can_be_run_again(scene: Scene, where: str) -> None:
    entry = scene.entry()
    assert entry is not None
    recorded = RecordingDisk(scene.stage)
    undo(entry, disk=recorded)
    states = CrashStates(recorded)
    for n, world in states.walk_deaths(*LOSSES[where]):
        scene.put(world)
        told(scene.check_undo, f"after {n} calls")
    assert len(states.changes) > 50


@pytest.mark.parametrize("make", [room])
@every_place
def test_what_is_written_once_there_is_room_is_undone_and_finished(scene: Scene, where: str) -> None:
    for n, world in scene.states.walk_deaths(*LOSSES[where]):
        for check in (scene.check_undo, scene.check_resume):
            scene.put(world)
            told(check, f"after {n} calls")
    scene.put(scene.states.dead(len(scene.states.changes), "nothing"))
    entry = scene.entry()
    assert entry is not None
    recorded = RecordingDisk(scene.stage)
    undo(entry, disk=recorded)
    for n, world in CrashStates(recorded).walk_deaths(*LOSSES[where]):
        scene.put(world)
        told(scene.check_undo, f"in an undo, after {n} calls")


@pytest.mark.slow
@every_kind
@pytest.mark.parametrize("where", [BESIDE])
def test_a_resumed_run_that_died_can_be_resumed_or_undone(scene: Scene) -> None:
    """The run was killed, and lost power, before it changed anything, and at the first and the last step of each
    kind."""
    verbs = [change.verb for change in scene.states.changes]
    staged = verbs.index("rename")  # the manifest gets its name
    steps = [n for n in range(staged + 1, len(verbs)) if verbs[n] in STEPS]
    first_of, last_of = {verbs[n]: n for n in reversed(steps)}, {verbs[n]: n for n in steps}
    kinds: set[tuple[Progress, str]] = set()
    for k, first in enumerate([staged // 2, *sorted({*first_of.values(), *last_of.values()})]):
        scene.put(scene.states.dead(first + 1, ("everything", "mixed 3")[k % 2]))
        entry = scene.entry()
        if entry is None or (progress := entry.progress()) is Progress.DONE:
            continue
        kinds.add((progress, verbs[first] if progress is Progress.STAGED else ""))
        recorded = RecordingDisk(scene.stage)
        resume(entry, disk=recorded)
        states = CrashStates(recorded)
        for n, world in states.walk_deaths("everything", *(["mixed 3"] if progress is Progress.STAGED else [])):
            scene.put(world)
            told(scene.check_resume, f"after {n} calls, resumed after {first + 1}")
            told(scene.check_undo, f"after {n} calls, resumed after {first + 1}")
    assert kinds >= {(Progress.PREPARING, ""), *((Progress.STAGED, verb) for verb in ("rename", "delete", "truncate"))}
