"""What a journal's entry records of each file that a run changes: its state before and after, and where it is kept;
and which folders it renames."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from enum import Enum

from msgspec import UNSET, Struct, UnsetType, field, to_builtins
from msgspec.structs import replace

from klogtool.disk.states import FileState, Names, StagedStep, StagedWrite, names_of, walk_changes
from klogtool.errors import Corrupt, KlogError
from klogtool.plans.fields import WrongField, inside, read_as
from klogtool.plans.plan import Delete, Rename, Truncate, is_plain_name, moved_out_folder
from klogtool.values import Long, Natural

SCHEMA = 2
SCHEMA_WITH_MOVES = 3  # folders are renamed; a version that knows only schema 2 must not undo such a run


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
    mode: Natural
    uid: Natural
    gid: Natural
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


class RunRecord(Struct, frozen=True):
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

    @property
    def states_before(self) -> Names:
        """Return the state of each name before the run."""
        return {name: None if file is None else file.state for name, file in self.before.items()}

    def possible_states(self) -> dict[str, list[FileState]]:
        """Return, for each name, every state that it may have had during the run."""
        times = {state.ino: state.mtime_ns for state in self.after.values() if state is not None}
        cuts = {(file.state.ino, file.cut): file.cut_digest for file in self.before.values() if file and file.tail}
        found: dict[str, list[FileState]] = {name: [] for name in self.before}
        for changes in (self.states_before, *walk_changes(self.states_before, self.steps), self.after):
            for name, state in changes.items():
                if state is not None:  # the mtime of a cut file was not known in advance
                    mtime_ns = state.mtime_ns if state.mtime_ns is not None else times.get(state.ino)
                    digest = state.digest or cuts.get((state.ino, state.size))
                    found[name].append(replace(state, mtime_ns=mtime_ns, digest=digest))
        return found


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
        records = tuple(_record_row(record, home) for record in self.records)
        row = ManifestRow(schema, self.progress.name, records, moves)
        return json.dumps(to_builtins(row)).encode() + b"\n"

    @classmethod
    def of(cls, data: bytes, path: str, home: Home) -> Manifest:
        """Parse the bytes of manifest.json. Raises KlogError if they are not valid."""
        progress, value = progress_of(data, path), _parse(data, path)
        try:
            row = read_as(value, ManifestRow)
            records = tuple(_record_of(one, home, f"plans[{n}]") for n, one in enumerate(row.plans))
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
    raise KlogError(
        f"written by another version of klogtool: its schema is {row.schema}, this version reads up to "
        f"{SCHEMA_WITH_MOVES}",
        path=path,
    )


def _parse(data: bytes, path: str) -> object:
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise _no_manifest(error, path) from None


def _no_manifest(error: Exception, path: str) -> Corrupt:
    return Corrupt(f"not a manifest of klogtool: {error}", path=path)


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

    def found(self, below: str) -> str:
        """Return the absolute path for a path of the manifest."""
        return os.path.normpath(os.path.join(self.log_dir, below))


# As JSON.


class StagedRow(Struct, frozen=True, tag_field="step", tag="write", omit_defaults=True):
    """A StagedWrite: its file is in the entry (staged), or waits in the log dir (waits)."""

    path: str
    staged: str | None = None
    waits: str | None = None
    state: FileState | None = None


class RecordRow(Struct, frozen=True):
    """A RunRecord."""

    plan: str
    path: str
    folders: dict[str, FolderBefore]
    before: dict[str, Original | None]
    steps: tuple[StagedRow | Truncate | Rename | Delete, ...]
    after: dict[str, FileState | None]


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

    plans: tuple[RecordRow, ...]
    folder_moves: MovesRow | UnsetType = UNSET


def _record_row(record: RunRecord, home: Home) -> RecordRow:
    folders = {home.below(path): folder for path, folder in record.folders.items()}
    steps = tuple(_step_row(step, home) for step in record.steps)
    return RecordRow(record.plan_id, home.below(record.path), folders, dict(record.before), steps, record.after)


def _step_row(step: StagedStep, home: Home) -> StagedRow | Truncate | Rename | Delete:
    if not isinstance(step, StagedWrite):
        return step
    if step.staged.startswith(home.entry + os.sep):
        return StagedRow(step.path, staged=os.path.relpath(step.staged, home.entry), state=step.state)
    return StagedRow(step.path, waits=home.below(step.staged), state=step.state)


def _record_of(row: RecordRow, home: Home, at: str) -> RunRecord:
    for name in (*row.folders, *row.before, *row.after, row.path):
        inside(name, at)
    for file in filter(None, row.before.values()):
        inside(file.kept or "", f"{at}.before")
        inside(file.tail or "", f"{at}.before")
    steps = tuple(_step_of(step, home, f"{at}.steps[{n}]") for n, step in enumerate(row.steps))
    if {name for step in steps for name in names_of(step)} - row.before.keys() or row.before.keys() != row.after.keys():
        raise WrongField(f"{at}.steps and {at}.before do not name the same files")
    folders = {home.found(path): folder for path, folder in row.folders.items()}
    return RunRecord(row.plan, home.found(row.path), folders, row.before, steps, row.after)


def _step_of(step: StagedRow | Truncate | Rename | Delete, home: Home, at: str) -> StagedStep:
    inside(step.path, at)
    if isinstance(step, Rename):
        inside(step.to, at)
    if not isinstance(step, StagedRow):
        return step
    name = step.waits or step.staged
    if name is None or step.state is None:
        raise WrongField(f"{at}: staged or state is missing")
    inside(name, at)
    return StagedWrite(step.path, home.found(name) if step.waits else os.path.join(home.entry, name), step.state)


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
        raise WrongField("folder_moves.log_dir is null")
    around: dict[str, FolderBefore | None] = {home.log_dir: row.log_dir}
    if any(os.path.dirname(move.to) == home.moved_out for move in moves):
        around[home.moved_out] = row.moved_out
    return FolderMoves(moves, around)


def _move_of(row: MoveRow, home: Home) -> FolderMove:
    if not (is_plain_name(row.path) and is_plain_name(row.to)):
        raise WrongField("folder_moves: path or to is not a plain name")
    place = home.moved_out if row.out else home.log_dir
    return FolderMove(os.path.join(home.log_dir, row.path), os.path.join(place, row.to), row.ino)
