"""Renames folders of a log dir, and moves them out of it: the last steps of a run.

All files are as planned before the first folder is renamed. So a run that was cut short is either before, with all
paths as recorded, or some renames are done. Each rename is one call of the system, and a folder keeps its inode. So the
names show how many are done.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress

from msgspec.structs import replace

from klogtool import interrupts
from klogtool.causes import Text
from klogtool.disk.attributes import attributes_of
from klogtool.disk.causes import FolderRefusal
from klogtool.disk.disk import Disk, keep_time
from klogtool.disk.journal import Entry
from klogtool.disk.manifest import NO_MOVES, FolderBefore, FolderMove, FolderMoves, Home, Manifest, Progress, RunRecord
from klogtool.disk.states import StagedStep
from klogtool.errors import FileCause, Refused
from klogtool.format.names import FileKind
from klogtool.log.log_dirs import is_log_dir
from klogtool.plans.plan import Rename, RenameFolder, may_rename_folder
from klogtool.plans.saved_plan import SavedPlan

NO_FOLDER = 0  # in place of an inode: something that is not a folder


# Before the first step.


def stage_moves(plans: Sequence[SavedPlan], log_dir: str) -> FolderMoves:
    """Return what the plans do to folders of their log dir. Nothing is written. Raises Refused for what cannot be one
    rename on one file system, and if the new name is taken."""
    moves: list[FolderMove] = []
    names: dict[str, int | None] = {}  # by path, once a move has changed it: the folder there
    for plan in plans:
        for step in _checked_steps(plan, log_dir):
            path, to = (os.path.normpath(os.path.join(log_dir, name)) for name in (step.path, step.to))
            ino = names[path] if path in names else _movable_folder(path, log_dir)
            if ino is None:
                raise Refused(FileCause.NO_FOLDER(), path=path)
            if names[to] is not None if to in names else os.path.lexists(to):
                raise Refused(FolderRefusal.TAKEN(), path=to)
            names |= {path: None, to: ino}
            moves.append(FolderMove(path, to, ino))
    return FolderMoves(tuple(moves), _folders_around(moves, log_dir)) if moves else NO_MOVES


def check_no_folders(plans: Iterable[SavedPlan], why: Text) -> None:
    """Raises Refused, with this reason, if a plan renames folders."""
    for plan in plans:
        if plan.renames_folders:
            raise Refused(why, path=plan.path)


def _checked_steps(plan: SavedPlan, log_dir: str) -> Sequence[RenameFolder]:
    steps = [step for step in plan.steps if isinstance(step, RenameFolder)]
    if steps and os.path.realpath(plan.path) != log_dir:
        raise Refused(FolderRefusal.OTHER_PLAN(), path=plan.path)
    if steps != list(plan.steps[len(plan.steps) - len(steps) :]):
        raise Refused(FolderRefusal.NOT_LAST(), path=plan.path)
    for step in steps:
        if not may_rename_folder(step.path, step.to, log_dir):
            raise Refused(FolderRefusal.NOT_THERE(to=step.to), path=os.path.join(log_dir, step.path))
    return steps


def _movable_folder(path: str, log_dir: str) -> int | None:
    """Return the inode of a folder, or None if there is none. Raises Refused for anything else."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return None
    if stat.S_ISLNK(status.st_mode):
        raise Refused(FileCause.LINK(), path=path)
    if not stat.S_ISDIR(status.st_mode):
        raise Refused(FileCause.NOT_A_FOLDER(), path=path)
    if status.st_dev != os.lstat(log_dir).st_dev or os.path.ismount(path):
        raise Refused(FolderRefusal.MOUNT_POINT(), path=path)
    return status.st_ino


def _folders_around(moves: Sequence[FolderMove], log_dir: str) -> dict[str, FolderBefore | None]:
    around: dict[str, FolderBefore | None] = {log_dir: folder_before(log_dir)}
    for folder in {os.path.dirname(move.to) for move in moves} - {log_dir}:
        is_there = os.path.lexists(folder)
        if is_there and (os.path.islink(folder) or not os.path.isdir(folder)):
            raise Refused(FolderRefusal.INTO_NO_FOLDER(), path=folder)
        above = os.path.dirname(folder)
        if os.lstat(folder if is_there else above).st_dev != os.lstat(log_dir).st_dev:
            raise Refused(FolderRefusal.OTHER_FILE_SYSTEM(), path=folder)
        if is_log_dir(above):
            raise Refused(FolderRefusal.INTO_LOG_DIR(above=above), path=folder)
        around[folder] = folder_before(folder) if is_there else None
    return around


def folder_before(folder: str) -> FolderBefore:
    """Return the time of a folder and its names. Raises OSError."""
    return FolderBefore(os.stat(folder).st_mtime_ns, tuple(sorted(os.listdir(folder))))


# How many are done.


def find_moves_done(entry: Entry, manifest: Manifest) -> int | None:
    """Return how many folders have been renamed; None if the folders are where no number of renames leaves them.

    A copy of a log dir has other inodes. Then only the names count, and only for a run that is done.
    """
    moves = manifest.folder_moves.moves
    folders = _current_folders(moves)
    places: dict[int, str] = {}
    for move in moves:
        places.setdefault(move.ino, move.path)
    wrong = {ino for ino, path in places.items() if folders[path] != ino}
    done = None if wrong else 0
    for n, move in enumerate(moves, 1):
        (wrong.discard if folders[move.to] == move.ino else wrong.add)(move.ino)
        if not wrong:
            done = n
    if done is None and manifest.progress is Progress.DONE and entry.is_about_a_copy():
        same = all((folders[path] is None) == (ino is None) for path, ino in _folders_after(moves).items())
        return len(moves) if same else None
    return done


def _current_folders(moves: Sequence[FolderMove]) -> dict[str, int | None]:
    """Return which folder has each name now, by its inode; None: nothing has it."""
    return {path: _folder_at(path) for move in moves for path in (move.path, move.to)}


def _folder_at(path: str) -> int | None:
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return None
    return status.st_ino if stat.S_ISDIR(status.st_mode) else NO_FOLDER


def _folders_after(moves: Sequence[FolderMove]) -> dict[str, int | None]:
    """Return which folder has each name when all are renamed."""
    after: dict[str, int | None] = {}
    for move in moves:
        after |= {move.path: None, move.to: move.ino}
    return after


def checked_moves_done(entry: Entry, manifest: Manifest) -> int:
    """Return how many folders have been renamed. Raises Refused, which names a folder, if that is not certain, or if
    something else has a name that is to be put back."""
    moves, done = manifest.folder_moves.moves, find_moves_done(entry, manifest)
    if done is None:
        raise _renamed_by_others(moves)
    taken = {path for path, folder in _current_folders(moves).items() if folder is not None}
    for move in reversed(moves[:done]):
        if move.path in taken:
            raise Refused(FolderRefusal.TAKEN_SINCE(to=move.to), path=move.path)
        taken.remove(move.to)
        taken.add(move.path)
    return done


def _renamed_by_others(moves: Sequence[FolderMove]) -> Refused:
    folders = _current_folders(moves)
    wrong = (path for path, ino in _folders_after(moves).items() if ino is not None and folders[path] != ino)
    path = next(wrong, moves[-1].to)
    return Refused(FolderRefusal.GONE_SINCE() if folders[path] is None else FolderRefusal.OTHER_SINCE(), path=path)


# Where files of a run are.


def record_now(record: RunRecord, moves: Sequence[FolderMove]) -> RunRecord:
    """Return the record with the paths that its files have once these folders are renamed."""
    if not moves:
        return record
    moved = record.at(lambda path: path_now(path, moves))

    def now(name: str) -> str:
        return os.path.relpath(path_now(os.path.join(record.path, name), moves), moved.path)

    def step_now(step: StagedStep) -> StagedStep:
        return Rename(now(step.path), now(step.to)) if isinstance(step, Rename) else replace(step, path=now(step.path))

    return replace(
        moved,
        before={now(name): original for name, original in record.before.items()},
        steps=tuple(map(step_now, moved.steps)),
        after={now(name): state for name, state in record.after.items()},
    )


def path_now(path: str, moves: Sequence[FolderMove]) -> str:
    """Return the path that a file or folder has once these folders are renamed."""
    path = os.path.normpath(path)
    for move in moves:
        if path == move.path or path.startswith(move.path + os.sep):
            path = move.to + path[len(move.path) :]
    return path


# Renaming, and taking it back.


def do_moves(disk: Disk, home: Home, folders: FolderMoves, done: int, tell: Callable[[FolderMove], None]) -> None:
    """Rename all folders that are not renamed yet. Each rename is synced before the next. Raises OSError."""
    for folder in _parents(folders.moves[:done]):  # a killed run may not have synced them
        disk.sync_dir(folder)
    for move in folders.moves[done:]:
        with interrupts.held():
            if os.path.dirname(move.to) == home.moved_out and folders.around.get(home.moved_out) is None:
                _make_moved_out(disk, home)
            _rename(disk, move.path, move.to)
            tell(move)


def _make_moved_out(disk: Disk, home: Home) -> None:
    """Create the folder beside the log dir, with its mode and owner. A killed run may have created it already."""
    if not os.path.lexists(home.moved_out):
        disk.mkdir(home.moved_out)
    wanted = replace(attributes_of(home.log_dir).permitted(), mtime_ns=None)
    if attributes_of(home.moved_out) != replace(wanted, mtime_ns=attributes_of(home.moved_out).mtime_ns):
        disk.describe(home.moved_out, wanted)
        disk.sync_dir(os.path.dirname(home.moved_out))


def _rename(disk: Disk, path: str, to: str) -> None:
    if os.path.lexists(to):  # an empty folder would be replaced
        raise FileExistsError(errno.EEXIST, "something has this name already", to)
    disk.rename(path, to)
    for folder in dict.fromkeys((os.path.dirname(to), os.path.dirname(path))):
        disk.sync_dir(folder)


def take_moves_back(disk: Disk, folders: FolderMoves, done: int) -> None:
    """Give the folders their former names, the last one first. Raises OSError."""
    for move in reversed(folders.moves[:done]):
        with interrupts.held():
            _rename(disk, move.to, move.path)
    for folder in _parents(folders.moves):  # a killed undo may not have synced them
        if os.path.isdir(folder):
            disk.sync_dir(folder)


def tidy_folders(disk: Disk, folders: FolderMoves) -> None:
    """Set the former times of the folders around, if they have the same names. Delete one that the run made, if it is
    empty."""
    for folder, before in folders.around.items():
        if before is None:
            with suppress(OSError):  # somebody put something there, or it does not exist
                disk.rmdir(folder)
                disk.sync_dir(os.path.dirname(folder))
        elif os.path.isdir(folder):
            give_time_back(disk, folder, before)


def give_time_back(disk: Disk, folder: str, before: FolderBefore) -> None:
    """Set the former time of a folder, synced, if it has the same names as before."""
    if set(os.listdir(folder)) ^ set(before.names) <= {FileKind.LOCK.value}:
        keep_time(disk, folder, before.mtime_ns)
        disk.sync_dir(folder)


def _parents(moves: Sequence[FolderMove]) -> Iterator[str]:
    yield from dict.fromkeys(os.path.dirname(path) for move in moves for path in (move.to, move.path))
