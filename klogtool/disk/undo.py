"""Undoes a run that wrote in place: every file gets its former contents, name, time, owner and mode.

Undo is refused if somebody else has since written to a file that the run had changed, because that would be lost. Files
that are as the run left them, even in the middle, and files that are gone, can be put back without loss. Changes to
other files do not prevent undo. Undo itself may be killed at any call; the next undo continues.

Order of effects: check all files; record in the manifest that undo has begun; give folders their former names; put
names of files back, the last step's first; sync folders and set their times; record in the manifest that all is undone;
delete the entry.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from klogtool import interrupts
from klogtool.broker.content import FileRange
from klogtool.disk.attributes import attributes_of
from klogtool.disk.causes import RunRefusal
from klogtool.disk.digest import digest_of
from klogtool.disk.disk import Disk
from klogtool.disk.facts import Inode
from klogtool.disk.folders import checked_moves_done, give_time_back, record_now, take_moves_back, tidy_folders
from klogtool.disk.journal import Entry, OurLinks, save_manifest
from klogtool.disk.manifest import Manifest, Original, Progress, RunRecord
from klogtool.disk.putting import put
from klogtool.disk.readback import check_written
from klogtool.disk.space import check_space, whole_blocks
from klogtool.disk.states import FileState, StagedWrite, find_state, names_of
from klogtool.errors import Refused
from klogtool.log.file import LogFile

COMPARED_BYTES = 1 << 20


def check_untouched(entry: Entry, manifest: Manifest) -> None:
    """Raises Refused if undo would lose what somebody else has written, or if an original is not kept in full."""
    for record in _records_now(entry, manifest):
        _check_record(entry, record, undoing=manifest.progress is Progress.UNDOING)


def _records_now(entry: Entry, manifest: Manifest) -> Iterator[RunRecord]:
    """Yield the records with the paths that their files have now. Raises Refused if folders were renamed by others."""
    done = checked_moves_done(entry, manifest)
    for record in manifest.records:
        yield record_now(record, manifest.folder_moves.moves[:done])


def _check_record(entry: Entry, record: RunRecord, *, undoing: bool) -> None:
    record.check_folders()
    for folder in (record.path, *record.folders):
        if not os.path.isdir(folder):
            raise Refused(RunRefusal.FOLDER_GONE(), path=folder)
    possible = record.possible_states()
    by_inode: dict[int, list[FileState]] = {}
    for state in (state for states in possible.values() for state in states):
        by_inode.setdefault(state.ino, []).append(state)
    kept = set()
    for name, original in record.before.items():
        if original is not None:
            path = os.path.join(record.path, name)
            kept.add(_check_kept(entry, path, original, by_inode[original.state.ino], undoing=undoing))
    for name, states in possible.items():
        path, original = os.path.join(record.path, name), record.before[name]
        if os.path.islink(path):
            raise _written_to(path, entry.path)
        now = find_state(path)
        if now is None or now.ino in kept or any(_is_still(path, now, state) for state in states):
            continue
        if not (undoing and original is not None and _is_being_mended(entry, path, original)):
            raise _written_to(path, entry.path)


def _written_to(path: str, kept: str = "") -> Refused:
    return Refused(RunRefusal.MODIFIED_KEPT(kept=kept) if kept else RunRefusal.MODIFIED(), path=path)


def _is_still(path: str, state: FileState, known: FileState) -> bool:
    """Return whether a file is as recorded: either nothing of it was changed, or size, mtime and bytes are the same."""
    if state.is_untouched(known):
        return True
    return state.looks_like(known) and known.digest in (None, digest_of(path, known.size))


def _check_kept(
    entry: Entry, path: str, original: Original, states: Sequence[FileState], *, undoing: bool
) -> int | None:
    """Check a kept original; return its inode if it is a hard link in the journal. A broker may have continued with a
    file that was only renamed or cut, and the link is to the same bytes."""
    if original.tail is not None:
        _check_tail(entry.place(original.tail), original)
    if original.kept is None:
        if not os.path.lexists(path):
            raise Refused(RunRefusal.FILE_GONE(), path=path)
        return None
    kept = entry.place(original.kept)
    now = find_state(kept)
    if now is None or os.path.islink(kept):
        raise Refused(RunRefusal.COPY_GONE(), path=kept)
    known = states if original.linked else [original.state]
    is_known = any(_is_still(kept, now, state) for state in known)
    if not is_known and not (undoing and _is_being_mended(entry, kept, original)):
        raise _written_to(path) if original.linked else Refused(RunRefusal.COPY_MODIFIED(), path=path)
    return now.ino if original.linked else None


def _check_tail(path: str, original: Original) -> None:
    size = original.state.size - original.cut
    state = find_state(path)
    if (
        state is None
        or os.path.islink(path)
        or state.size != size
        or original.tail_digest not in (None, digest_of(path, size))
    ):
        raise Refused(RunRefusal.TAIL_NOT_KEPT(), path=path)


def _is_being_mended(entry: Entry, path: str, original: Original) -> bool:
    """Return whether a killed undo left the file like this: with the beginning of its cut-off tail, or zeros for it."""
    state = find_state(path)
    if original.tail is None or state is None or not original.cut <= state.size <= original.state.size:
        return False
    with LogFile(path) as file, LogFile(entry.place(original.tail)) as tail:
        for at in range(original.cut, state.size, COMPARED_BYTES):
            size = min(COMPARED_BYTES, state.size - at)
            data, wanted = file.read(at, size), tail.read(at - original.cut, size)
            if data != wanted and any(byte not in (0, want) for byte, want in zip(data, wanted, strict=True)):
                return False
    return True


def check_room(entry: Entry, manifest: Manifest) -> None:
    """Raises Refused if there is not enough space for cut-off tails, and for originals that are copied back."""
    needed, taken = dict[str, int](), dict[str, int]()  # by folder: at most, and so far
    for record in _records_now(entry, manifest):
        copied = _names_to_copy(entry, record)
        for name in _in_order_of_undo(record):
            if (original := record.before[name]) is not None:
                size = original.state.size if name in copied else _size_put_back(entry, original)
                now = taken.get(record.path, 0) + size
                needed[record.path] = max(needed.get(record.path, 0), now)
                taken[record.path] = now - _size_replaced(os.path.join(record.path, name), original)
    check_space(needed)


def _in_order_of_undo(record: RunRecord) -> Iterator[str]:
    yield from dict.fromkeys(name for step in reversed(record.steps) for name in names_of(step))


def _size_put_back(entry: Entry, original: Original) -> int:
    """Return the extra bytes that an original takes when it is put back, besides those in the journal."""
    copied = original.tail or (original.kept if not original.linked else None)
    return 0 if copied is None else whole_blocks(os.stat(entry.place(copied)).st_blocks * 512)


def _size_replaced(path: str, original: Original) -> int:
    """Return the bytes that become free when a copy of an original replaces the file that has its name now."""
    if original.kept is None or original.linked or not os.path.lexists(path):
        return 0
    status = os.lstat(path)
    return status.st_blocks * 512 if status.st_nlink == 1 else 0


# A file with hard links elsewhere is not changed, because a backup by hard links shares its files with the log dir.


def _names_to_copy(entry: Entry, record: RunRecord) -> set[str]:
    """Return the originals that are put back as copies: they have hard links outside the journal and the run's folders,
    and would have to be changed or are no longer the file that the run had kept."""
    links, here, has_moved = OurLinks(entry.journal), Counter(_inodes_in(record.folders)), entry.has_moved()
    names = set()
    for name, original in record.before.items():
        path = _lies(entry, record, name)
        if original is None or path is None or not os.path.lexists(path):
            continue
        about_it = os.stat(path)
        if about_it.st_nlink <= 1 or about_it.st_nlink <= links.of(about_it) + here[about_it.st_dev, about_it.st_ino]:
            continue
        if has_moved or about_it.st_ino != original.state.ino or _is_to_change(path, original):
            names.add(name)
    return names


def _lies(entry: Entry, record: RunRecord, name: str) -> str | None:
    """Return the path of an original that is put back as the same inode; None if it is copied in any case."""
    original = record.before[name]
    if original is None or (original.kept is not None and not original.linked):
        return None
    return os.path.join(record.path, name) if original.kept is None else entry.place(original.kept)


def _inodes_in(folders: Iterable[str]) -> Iterator[Inode]:
    for folder in folders:
        dev = os.stat(folder).st_dev
        with os.scandir(folder) as entries:
            yield from ((dev, entry.inode()) for entry in entries)


def _is_to_change(path: str, original: Original) -> bool:
    attributes, state = attributes_of(path), original.state
    wanted = (original.mode, original.uid, original.gid, state.mtime_ns, state.size)
    return (attributes.mode, attributes.uid, attributes.gid, attributes.mtime_ns, os.stat(path).st_size) != wanted


# Putting back.


def undo_steps(disk: Disk, entry: Entry, manifest: Manifest) -> None:
    """Put everything back. The caller holds the log dir's lock and has checked that nothing is lost."""
    done = checked_moves_done(entry, manifest)
    save_manifest(disk, entry, replace(manifest, progress=Progress.UNDOING))
    take_moves_back(disk, manifest.folder_moves, done)
    for record in reversed(manifest.records):
        copied = _names_to_copy(entry, record)
        staged = {step.state.ino for step in record.steps if isinstance(step, StagedWrite)}
        for name in _in_order_of_undo(record):
            path = os.path.join(record.path, name)
            with interrupts.held():
                # Left by an undo that was killed. After a power failure the original may have its name beside it, since
                # a lost step gives that back.
                if os.path.lexists(waiting := _waiting(entry, path)):
                    disk.delete(waiting)
                if name in copied:
                    _put_copy(disk, entry, record, name)
                else:
                    _put_back(disk, entry, path, record.before[name], staged)
        _tidy(disk, record)
    tidy_folders(disk, manifest.folder_moves)
    save_manifest(disk, entry, replace(manifest, progress=Progress.UNDONE))


def _put_back(disk: Disk, entry: Entry, path: str, original: Original | None, staged: set[int]) -> None:
    state = find_state(path)
    if original is None:
        if state is not None:
            disk.delete(path)
        return
    if original.kept is not None and not _is_back(state, entry, path, original, staged):
        _put_kept(disk, entry, path, original)
    _mend(disk, entry, path, original)
    _describe(disk, path, original)


def _is_back(current: FileState | None, entry: Entry, path: str, original: Original, staged: set[int]) -> bool:
    """Return whether the original, or a copy of it, has its name again. It may still need `_mend`."""
    if current is None:
        return False
    if original.linked:
        return current.ino == os.stat(entry.place(original.kept or "")).st_ino
    return current.ino not in staged and _is_still(path, current, original.state)


def _put_copy(disk: Disk, entry: Entry, record: RunRecord, name: str) -> None:
    """Put the original back as a new file with its full contents."""
    path, original, lies = os.path.join(record.path, name), record.before[name], _lies(entry, record, name)
    if original is None or lies is None:
        return
    stays = original.cut if original.tail else original.state.size
    content = [FileRange(lies, 0, stays)]
    if original.tail:
        content.append(FileRange(entry.place(original.tail), 0, original.state.size - stays))
    waiting = _waiting(entry, path)
    like = replace(attributes_of(lies), mode=original.mode, uid=original.uid, gid=original.gid)
    put(disk, waiting, tuple(content), replace(like, mtime_ns=original.state.mtime_ns))
    disk.rename(waiting, path)


def _put_kept(disk: Disk, entry: Entry, path: str, original: Original) -> None:
    """Put the original back, atomically if a file has its name now, through a name that a broker's start would
    unlink."""
    kept, waiting = entry.place(original.kept or ""), _waiting(entry, path)
    if original.linked and not os.path.lexists(path):
        disk.link(kept, path)
        return
    if original.linked:
        disk.link(kept, waiting)
    else:
        put(disk, waiting, (FileRange(kept, 0, original.state.size),), attributes_of(kept))
    disk.rename(waiting, path)


def _waiting(entry: Entry, path: str) -> str:
    return f"{path}.{entry.id}.undo.deleted"


def _mend(disk: Disk, entry: Entry, path: str, original: Original) -> None:
    """Append the tail that was cut off, and set mode, owner and time."""
    state = find_state(path)
    if original.tail is None or (state is not None and state.looks_like(original.state)):
        return
    tail = entry.place(original.tail)
    size = original.state.size - original.cut
    disk.extend(path, original.cut, (FileRange(tail, 0, size),))
    disk.sync(path)
    check_written(path, (FileRange(path, 0, original.cut), FileRange(tail, 0, size)))


def _describe(disk: Disk, path: str, original: Original) -> None:
    attributes = attributes_of(path)
    wanted = replace(
        attributes, mode=original.mode, uid=original.uid, gid=original.gid, mtime_ns=original.state.mtime_ns
    )
    if wanted != attributes:
        disk.describe(path, wanted)
        disk.sync(path)


def _tidy(disk: Disk, record: RunRecord) -> None:
    """Delete our temporary files in the folders, sync the folders, and set their former times if they have the same
    names."""
    for step in record.steps:
        if isinstance(step, StagedWrite) and step.waits and os.path.lexists(step.waits):
            disk.delete(step.waits)
    for folder, before in record.folders.items():
        disk.sync_dir(folder)
        give_time_back(disk, folder, before)
