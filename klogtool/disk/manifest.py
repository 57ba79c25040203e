"""What a journal's entry records of each file that a run changes: its state before and after, and where it is kept;
and which folders it renames."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from enum import Enum
from functools import partial
from typing import Annotated, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType, field, to_builtins
from msgspec.structs import replace

from klogtool.disk.causes import JournalRefusal, RunRefusal
from klogtool.disk.states import FileState, Names, StagedStep, StagedWrite, names_of, walk_changes
from klogtool.errors import Corrupt, KlogError, Refused
from klogtool.plans.causes import FieldCause
from klogtool.plans.fields import WrongField, inside, read_as
from klogtool.plans.plan import is_plain_name, moved_out_folder
from klogtool.values import Long, Natural

SCHEMA = 2
SCHEMA_WITH_MOVES = 3  # folders are renamed; a version that knows only schema 2 must not undo such a run


_Id: TypeAlias = Annotated[int, Meta(ge=0, le=(1 << 32) - 1)]  # of a user or a group, as Linux has them


class Progress(Enum):
    """How far a run has come. PREPARING: there is no manifest yet, and nothing has been changed."""

    PREPARING = "preparing"
    STAGED = "cut short"  # steps may have been done
    DONE = "done"
    UNDOING = "undo cut short"
    UNDONE = "undone"


class Original(Struct, frozen=True):
    """A file before the run. kept: a file of the entry that is a hard link to it (linked) or a copy of it; or None.

    cut: the size to which it is cut. tail: a file of the entry with the bytes after `cut`, or None. cut_digest: digest
    of the bytes that stay.
    """

    state: FileState
    mode: Annotated[int, Meta(ge=0, le=0o7777)]
    uid: _Id
    gid: _Id
    kept: str | None = None
    linked: bool = False
    tail: str | None = None
    cut: Natural = 0
    cut_digest: str | None = None
    tail_digest: str | None = None


class FolderBefore(Struct, frozen=True):
    """A folder in which names change: its mtime and its names before."""

    mtime_ns: Long
    names: tuple[str, ...]


class RunRecord(Struct, frozen=True, rename={"plan_id": "plan"}):
    """A plan that is being carried out. Names are paths below `path`; paths of folders and staged files are absolute.
    In manifest.json all paths are relative to the log dir or the entry, so both can be moved together.

    after: the state of each name when all steps are done; times that only the system knows are filled in then.
    """

    plan_id: str
    path: str
    folders: Mapping[str, FolderBefore]
    before: Mapping[str, Original | None]
    steps: tuple[StagedStep, ...]
    after: Names

    def at(self, of_log_dir: Callable[[str], str], of_entry: Callable[[str], str] = str) -> RunRecord:
        """Return the record with other paths: those in the log dir and those in the entry, as these functions say."""
        steps = (
            replace(step, staged=step.staged and of_entry(step.staged), waits=step.waits and of_log_dir(step.waits))
            if isinstance(step, StagedWrite)
            else step
            for step in self.steps
        )
        folders = {of_log_dir(folder): before for folder, before in self.folders.items()}
        return replace(self, path=of_log_dir(self.path), folders=folders, steps=tuple(steps))

    @property
    def states_before(self) -> Names:
        """Return the state of each name before the run."""
        return {name: None if file is None else file.state for name, file in self.before.items()}

    def check_folders(self) -> None:
        """Raises Refused if a symbolic link leads to a file that the run changes: a run changes none behind one."""
        staged = (step.place for step in self.steps if isinstance(step, StagedWrite))
        paths = (os.path.join(self.path, name) for name in self.before)
        for folder in {self.path, *self.folders, *map(os.path.dirname, (*paths, *staged))}:
            if os.path.realpath(folder) != folder:
                raise Refused(RunRefusal.LINK_SINCE(), path=folder)

    def possible_states(self) -> dict[str, list[FileState]]:
        """Return, for each name, every state that it may have had during the run."""
        times = {state.ino: state.mtime_ns for state in self.after.values() if state is not None}
        cuts = {(file.state.ino, file.cut): file.cut_digest for file in self.before.values() if file and file.tail}
        states: dict[str, list[FileState]] = {name: [] for name in self.before}
        for changes in (self.states_before, *walk_changes(self.states_before, self.steps), self.after):
            for name, state in changes.items():
                if state is not None:  # the mtime of a cut file was not known in advance
                    mtime_ns = state.mtime_ns if state.mtime_ns is not None else times.get(state.ino)
                    digest = state.digest or cuts.get((state.ino, state.size))
                    states[name].append(replace(state, mtime_ns=mtime_ns, digest=digest))
        return states


class FolderMove(Struct, frozen=True):
    """A folder of the log dir that gets another path. Both paths are absolute. ino: of the folder."""

    path: str
    to: str
    ino: int


class FolderMoves(Struct, frozen=True):
    """The folders that a run renames, in order. around: the folders that contain them, before and after, as they were;
    None for one that the run makes."""

    moves: tuple[FolderMove, ...] = ()
    around: Mapping[str, FolderBefore | None] = field(default_factory=dict)


NO_MOVES = FolderMoves()


class Manifest(Struct, frozen=True):
    """How far a run has come, and the records of its plans, in order. folder_moves: folders that are renamed once all
    files are as planned. Paths of records are those before."""

    progress: Progress
    records: tuple[RunRecord, ...]
    folder_moves: FolderMoves = NO_MOVES

    def to_bytes(self, home: Home) -> bytes:
        """Build the bytes of manifest.json."""
        moves = _moves_row(self.folder_moves, home) if self.folder_moves.moves else UNSET
        schema = SCHEMA if moves is UNSET else SCHEMA_WITH_MOVES
        records = tuple(record.at(home.below, partial(os.path.relpath, start=home.entry)) for record in self.records)
        row = ManifestRow(schema, self.progress.name, records, moves)
        return json.dumps(to_builtins(row)).encode() + b"\n"

    @classmethod
    def of(cls, data: bytes, path: str, home: Home) -> Manifest:
        """Parse the bytes of manifest.json. Raises KlogError if they are not valid."""
        progress, value = progress_of(data, path), _parse(data, path)
        try:
            row = read_as(value, ManifestRow)
            checked = (_checked(record, f"plans[{n}]") for n, record in enumerate(row.plans))
            records = tuple(record.at(home.absolute, partial(os.path.join, home.entry)) for record in checked)
            moves = _moves_of(row.folder_moves, home) if row.folder_moves else NO_MOVES
        except WrongField as error:
            raise _no_manifest(error, path) from None
        return cls(progress, records, moves)


def progress_of(data: bytes, path: str) -> Progress:
    """Return how far a run came, from the bytes of manifest.json. Raises KlogError if they are not valid."""
    try:
        row = read_as(_parse(data, path), ProgressRow)
        if row.schema in (SCHEMA, SCHEMA_WITH_MOVES):
            return Progress[row.progress]
    except (WrongField, KeyError) as error:
        raise _no_manifest(error, path) from None
    raise KlogError(JournalRefusal.OTHER_VERSION(schema=row.schema, known=SCHEMA_WITH_MOVES), path=path)


def _parse(data: bytes, path: str) -> object:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _no_manifest(error, path) from None


def _no_manifest(error: Exception, path: str) -> Corrupt:
    return Corrupt(JournalRefusal.NO_MANIFEST(why=str(error)), path=path)


class Home(Struct, frozen=True):
    """Where the paths of a manifest start: the log dir, and the entry's folder."""

    log_dir: str
    entry: str

    @property
    def moved_out(self) -> str:
        """The folder beside the log dir that takes what is moved out of it."""
        return moved_out_folder(self.log_dir)

    def below(self, path: str) -> str:
        """Return a path in the log dir as the manifest writes it."""
        return os.path.relpath(path, self.log_dir)

    def absolute(self, below: str) -> str:
        """Return the absolute path for a path of the manifest."""
        return os.path.normpath(os.path.join(self.log_dir, below))


# As JSON.


class MoveRow(Struct, frozen=True):
    """A FolderMove: plain names, in the log dir, or (out) the new one in the folder beside it."""

    path: str
    to: str
    out: bool
    ino: Natural


class MovesRow(Struct, frozen=True):
    """The FolderMoves, with the log dir and the folder beside it as they were before."""

    moves: tuple[MoveRow, ...]
    log_dir: FolderBefore | None
    moved_out: FolderBefore | None


class ProgressRow(Struct, frozen=True):
    """What is read first of a manifest."""

    schema: Natural
    progress: str


class ManifestRow(ProgressRow, frozen=True):
    """A Manifest."""

    plans: tuple[RunRecord, ...]
    folder_moves: MovesRow | UnsetType = UNSET


def _checked(record: RunRecord, at: str) -> RunRecord:
    """Return a record of manifest.json. Raises WrongField for paths that lead elsewhere, or are of other files."""
    for name in (*record.folders, *record.before, *record.after, record.path):
        inside(name, at)
    for file in filter(None, record.before.values()):
        inside(file.kept or "", f"{at}.before")
        inside(file.tail or "", f"{at}.before")
    for n, step in enumerate(record.steps):
        for name in (*names_of(step), *([step.place] if isinstance(step, StagedWrite) else [])):
            inside(name, f"{at}.steps[{n}]")
        if isinstance(step, StagedWrite) and not step.place:
            raise WrongField(FieldCause.MISSING(field=f"{at}.steps[{n}]: staged"))
    changed = {name for step in record.steps for name in names_of(step)}
    if changed - record.before.keys() or record.before.keys() != record.after.keys():
        raise WrongField(FieldCause.OTHER_FILES(field=at))
    return record


# Folders that are renamed: all paths are plain names, either in the log dir or in the folder beside it.


def _moves_row(folders: FolderMoves, home: Home) -> MovesRow:
    moves = tuple(
        MoveRow(
            os.path.basename(move.path), os.path.basename(move.to), os.path.dirname(move.to) != home.log_dir, move.ino
        )
        for move in folders.moves
    )
    return MovesRow(moves, folders.around.get(home.log_dir), folders.around.get(home.moved_out))


def _moves_of(row: MovesRow, home: Home) -> FolderMoves:
    moves = tuple(_move_of(move, home) for move in row.moves)
    if row.log_dir is None:
        raise WrongField(FieldCause.NULL(field="folder_moves.log_dir"))
    around: dict[str, FolderBefore | None] = {home.log_dir: row.log_dir}
    if any(os.path.dirname(move.to) == home.moved_out for move in moves):
        around[home.moved_out] = row.moved_out
    return FolderMoves(moves, around)


def _move_of(row: MoveRow, home: Home) -> FolderMove:
    if not (is_plain_name(row.path) and is_plain_name(row.to)):
        raise WrongField(FieldCause.NO_NAMES())
    place = home.moved_out if row.out else home.log_dir
    return FolderMove(os.path.join(home.log_dir, row.path), os.path.join(place, row.to), row.ino)
