"""What a journal's entry says of each file that a run changes: how it was, what became of it, and where it is kept."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import Enum
from typing import Any

from klogtool.disk.states import FileState, Names, StagedStep, StagedWrite, walk_changes
from klogtool.errors import Corrupt, KlogError
from klogtool.lazy_dataclasses import dataclass, replace
from klogtool.repair.plan import Delete, Rename, Truncate, step_as_json

SCHEMA = 1


class Progress(Enum):
    """How far a run has come. PREPARING: there is no manifest yet, and nothing has been changed."""

    PREPARING = "preparing"
    STAGED = "cut short"  # from here on steps may have been done
    DONE = "done"
    UNDOING = "undo cut short"
    UNDONE = "undone"


@dataclass(frozen=True, slots=True)
class Original:
    """A file as it was. kept: a file of the entry that is it (linked), or has its bytes (copied), or None.

    tail: a file of the entry with what was cut off behind `cut` bytes, or None.
    """

    state: FileState
    mode: int
    uid: int
    gid: int
    kept: str | None = None
    linked: bool = False
    tail: str | None = None
    cut: int = 0


@dataclass(frozen=True, slots=True)
class FolderBefore:
    """A folder in which names change: its time, and the names that were in it."""

    mtime_ns: int
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Record:
    """A plan that is being carried out. Names are paths below `path`; those of folders, and of staged files, absolute.

    after: what the names mean when all is done; times that only the system knew are filled in then.
    """

    plan_id: str
    path: str
    folders: Mapping[str, FolderBefore]
    before: Mapping[str, Original | None]
    steps: tuple[StagedStep, ...]
    after: Names

    @property
    def states_before(self) -> Names:
        """What the names meant before."""
        return {name: None if file is None else file.state for name, file in self.before.items()}

    def possible_states(self) -> dict[str, list[FileState]]:
        """For each name what it may have meant at any time of the run."""
        times = {state.ino: state.mtime_ns for state in self.after.values() if state is not None}
        found: dict[str, list[FileState]] = {name: [] for name in self.before}
        for changes in (self.states_before, *walk_changes(self.states_before, self.steps)):
            for name, state in changes.items():
                if state is not None:
                    known = state.mtime_ns if state.mtime_ns is not None else times.get(state.ino)
                    found[name].append(replace(state, mtime_ns=known))
        return found


@dataclass(frozen=True, slots=True)
class Manifest:
    """What there is to know about a run: how far it came, and its plans in order."""

    progress: Progress
    records: tuple[Record, ...]

    def to_bytes(self) -> bytes:
        """For manifest.json."""
        rows = [_record_row(record) for record in self.records]
        return json.dumps({"schema": SCHEMA, "progress": self.progress.name, "plans": rows}).encode() + b"\n"

    @classmethod
    def of(cls, data: bytes, path: str) -> Manifest:
        """Of the bytes of manifest.json. Raises KlogError for others."""
        try:
            row = json.loads(data)
            if row["schema"] != SCHEMA:
                raise KlogError(f"made by another klogtool: schema {row['schema']}, not {SCHEMA}", path=path)
            return cls(Progress[row["progress"]], tuple(map(_parse_record, row["plans"])))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise Corrupt(f"not a manifest of klogtool's: {error}", path=path) from None


def _record_row(record: Record) -> dict[str, Any]:
    return {
        "plan": record.plan_id,
        "path": record.path,
        "folders": {path: {"mtime_ns": f.mtime_ns, "names": f.names} for path, f in record.folders.items()},
        "before": {name: _original_row(file) for name, file in record.before.items()},
        "steps": [_step_row(step) for step in record.steps],
        "after": {name: _state_row(state) for name, state in record.after.items()},
    }


def _state_row(state: FileState | None) -> dict[str, Any] | None:
    return None if state is None else {"size": state.size, "mtime_ns": state.mtime_ns, "ino": state.ino}


def _original_row(file: Original | None) -> dict[str, Any] | None:
    if file is None:
        return None
    more = {name: getattr(file, name) for name in ("mode", "uid", "gid", "kept", "linked", "tail", "cut")}
    return {**(_state_row(file.state) or {}), **more}


def _step_row(step: StagedStep) -> dict[str, Any]:
    if isinstance(step, StagedWrite):
        state = _state_row(step.state) or {}
        return {"step": "write", "path": step.path, "staged": step.staged, **state}
    return step_as_json(step)


def _parse_record(row: Mapping[str, Any]) -> Record:
    return Record(
        row["plan"],
        row["path"],
        {path: FolderBefore(f["mtime_ns"], tuple(f["names"])) for path, f in row["folders"].items()},
        {name: _parse_original(file) for name, file in row["before"].items()},
        tuple(map(_parse_step, row["steps"])),
        {name: None if state is None else _parse_state(state) for name, state in row["after"].items()},
    )


def _parse_state(row: Mapping[str, Any]) -> FileState:
    return FileState(row["ino"], row["size"], row["mtime_ns"])


def _parse_original(row: Mapping[str, Any] | None) -> Original | None:
    if row is None:
        return None
    kept = (row["kept"], row["linked"], row["tail"], row["cut"])
    return Original(_parse_state(row), row["mode"], row["uid"], row["gid"], *kept)


def _parse_step(row: Mapping[str, Any]) -> StagedStep:
    match row["step"]:
        case "write":
            return StagedWrite(row["path"], row["staged"], _parse_state(row))
        case "truncate":
            return Truncate(row["path"], row["size"])
        case "rename":
            return Rename(row["path"], row["to"])
        case "delete":
            return Delete(row["path"])
        case other:
            raise ValueError(f"a step called {other}")
