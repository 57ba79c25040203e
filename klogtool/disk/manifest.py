"""What a journal's entry records of each file that a run changes: its state before and after, and where it is kept;
and which folders it renames."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from enum import Enum
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from klogtool.disk.states import FileState, Names, StagedStep, StagedWrite, names_of, walk_changes
from klogtool.errors import Corrupt, KlogError
from klogtool.plans.fields import MOST, Fields
from klogtool.plans.plan import Delete, Rename, Truncate, is_plain_name, moved_out_folder, step_as_json

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
    mode: int
    uid: int
    gid: int
    kept: str | None = None
    linked: bool = False
    tail: str | None = None
    cut: int = 0
    cut_digest: str | None = None
    tail_digest: str | None = None

    @property
    def cut_state(self) -> FileState:
        """Return the state of this file after the cut."""
        return FileState(self.state.ino, self.cut, None, digest=self.cut_digest)


class FolderBefore(Struct, frozen=True):
    """A folder in which names change: its mtime and its names before."""

    mtime_ns: int
    names: tuple[str, ...]


class Record(Struct, frozen=True):
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
    records: tuple[Record, ...]
    folder_moves: FolderMoves = NO_MOVES

    def to_bytes(self, home: Home) -> bytes:
        """Build the bytes of manifest.json."""
        rows = [_record_row(record, home) for record in self.records]
        known = {"schema": SCHEMA, "progress": self.progress.name, "plans": rows}
        if self.folder_moves.moves:
            known |= {"schema": SCHEMA_WITH_MOVES, "folder_moves": _moves_row(self.folder_moves, home)}
        return json.dumps(known).encode() + b"\n"

    @classmethod
    def of(cls, data: bytes, path: str, home: Home) -> Manifest:
        """Parse the bytes of manifest.json. Raises KlogError if they are not valid."""
        fields = _fields_of(data, path)
        try:
            records = tuple(_parse_record(record, home) for record in fields.objects("plans"))
            moves = _parse_moves(fields.object("folder_moves"), home) if fields.has("folder_moves") else NO_MOVES
        except (ValueError, KeyError) as error:
            raise _no_manifest(error, path) from None
        return cls(progress_of(data, path), records, moves)


def progress_of(data: bytes, path: str) -> Progress:
    """Return how far a run came, from the bytes of manifest.json. Raises KlogError if they are not valid."""
    try:
        return Progress[_fields_of(data, path).text("progress")]
    except (ValueError, KeyError) as error:
        raise _no_manifest(error, path) from None


def _fields_of(data: bytes, path: str) -> Fields:
    try:
        fields = Fields(json.loads(data))
        schema = fields.number("schema")
    except (ValueError, RecursionError) as error:
        raise _no_manifest(error, path) from None
    if schema not in (SCHEMA, SCHEMA_WITH_MOVES):
        raise KlogError(
            f"written by another version of klogtool: its schema is {schema}, this version reads up to "
            f"{SCHEMA_WITH_MOVES}",
            path=path,
        )
    return fields


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


def _record_row(record: Record, home: Home) -> dict[str, Any]:
    return {
        "plan": record.plan_id,
        "path": home.below(record.path),
        "folders": {home.below(path): _folder_row(folder) for path, folder in record.folders.items()},
        "before": {name: _original_row(file) for name, file in record.before.items()},
        "steps": [_step_row(step, home) for step in record.steps],
        "after": {name: _state_row(state) for name, state in record.after.items()},
    }


def _folder_row(folder: FolderBefore) -> dict[str, Any]:
    return {"mtime_ns": folder.mtime_ns, "names": folder.names}


def _state_row(state: FileState | None) -> dict[str, Any] | None:
    return None if state is None else {name: getattr(state, name) for name in FileState.__struct_fields__}


def _original_row(file: Original | None) -> dict[str, Any] | None:
    if file is None:
        return None
    return {name: getattr(file, name) for name in Original.__struct_fields__} | {"state": _state_row(file.state)}


def _step_row(step: StagedStep, home: Home) -> dict[str, Any]:
    if not isinstance(step, StagedWrite):
        return step_as_json(step)
    is_in_entry = step.staged.startswith(home.entry + os.sep)
    place = {"staged": os.path.relpath(step.staged, home.entry)} if is_in_entry else {"waits": home.below(step.staged)}
    return {"step": "write", "path": step.path, **place, "state": _state_row(step.state)}


def _parse_record(row: Fields, home: Home) -> Record:
    folders = {
        home.found(checked_inside(path)): _parse_folder(fields)
        for path, fields in row.items("folders")
        if fields is not None
    }
    before = {
        checked_inside(name): None if file is None else _parse_original(file) for name, file in row.items("before")
    }
    after = {checked_inside(name): None if state is None else _parse_state(state) for name, state in row.items("after")}
    steps = tuple(_parse_step(step, home) for step in row.objects("steps"))
    if {name for step in steps for name in names_of(step)} - before.keys() or before.keys() != after.keys():
        raise ValueError(f"{row.name_of('steps')} and {row.name_of('before')} do not name the same files")
    return Record(row.text("plan"), home.found(row.inside("path")), folders, before, steps, after)


def _parse_folder(row: Fields) -> FolderBefore:
    return FolderBefore(row.number("mtime_ns", -MOST), row.texts("names"))


def checked_inside(name: str) -> str:
    """Return a path below the log dir. Raises WrongField if it leads elsewhere."""
    return Fields({name: name}).inside(name)


def _parse_state(row: Fields) -> FileState:
    mtime_ns, ctime_ns = (row.number(name, -MOST) if row.has(name) else None for name in ("mtime_ns", "ctime_ns"))
    return FileState(row.number("ino"), row.number("size"), mtime_ns, ctime_ns, _text_if_any(row, "digest"))


def _parse_original(row: Fields) -> Original:
    kept, tail = (row.inside(name) if row.has(name) else None for name in ("kept", "tail"))
    return Original(
        _parse_state(row.object("state")),
        row.number("mode"),
        row.number("uid"),
        row.number("gid"),
        kept,
        row.flag("linked"),
        tail,
        row.number("cut"),
        _text_if_any(row, "cut_digest"),
        _text_if_any(row, "tail_digest"),
    )


def _text_if_any(row: Fields, name: str) -> str | None:
    return row.text(name) if row.has(name) else None


def _parse_step(row: Fields, home: Home) -> StagedStep:
    path = row.inside("path")
    match row.text("step"):
        case "write":
            waits = row.has("waits")
            staged = home.found(row.inside("waits")) if waits else os.path.join(home.entry, row.inside("staged"))
            return StagedWrite(path, staged, _parse_state(row.object("state")))
        case "truncate":
            return Truncate(path, row.number("size"))
        case "rename":
            return Rename(path, row.inside("to"))
        case "delete":
            return Delete(path)
        case other:
            raise ValueError(f"{row.name_of('step')} is not a known step: {other}")


# Folders that are renamed: all paths are plain names, either in the log dir or in the folder beside it.


def _moves_row(folders: FolderMoves, home: Home) -> dict[str, Any]:
    moves = [
        {
            "path": os.path.basename(move.path),
            "to": os.path.basename(move.to),
            "out": os.path.dirname(move.to) != home.log_dir,
            "ino": move.ino,
        }
        for move in folders.moves
    ]
    before = (folders.around.get(place) for place in (home.log_dir, home.moved_out))
    log_dir, moved_out = (None if folder is None else _folder_row(folder) for folder in before)
    return {"moves": moves, "log_dir": log_dir, "moved_out": moved_out}


def _parse_moves(row: Fields, home: Home) -> FolderMoves:
    moves = tuple(_parse_move(move, home) for move in row.objects("moves"))
    around: dict[str, FolderBefore | None] = {home.log_dir: _parse_folder(row.object("log_dir"))}
    if any(os.path.dirname(move.to) == home.moved_out for move in moves):
        around[home.moved_out] = _parse_folder(row.object("moved_out")) if row.has("moved_out") else None
    return FolderMoves(moves, around)


def _parse_move(row: Fields, home: Home) -> FolderMove:
    path, to = row.text("path"), row.text("to")
    if not (is_plain_name(path) and is_plain_name(to)):
        raise ValueError(f"{row.name_of('path')} or {row.name_of('to')} is not a plain name")
    place = home.moved_out if row.flag("out") else home.log_dir
    return FolderMove(os.path.join(home.log_dir, path), os.path.join(place, to), row.number("ino"))
