"""doctor --fix: edits of single files and folders of a log dir, as plans.

The edits are chosen elsewhere, as cures of what is wrong. Here each is checked against the disk, and becomes a step of
the plan for its folder. Folders are renamed last, by the log dir's own plan. So all paths of edits are those before.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Annotated, TypeAlias

from msgspec import Meta, Struct
from msgspec.structs import replace

from klogtool.broker.draft import Draft
from klogtool.broker.file_facts import LOCK, Fact, file_fact, folder_fact, listing_of
from klogtool.errors import FileCause, KlogError, Refused
from klogtool.format.checkpoints import build_offset_checkpoint, parse_offset_checkpoint
from klogtool.format.names import TopicPartition
from klogtool.plans.causes import MendRefusal
from klogtool.plans.plan import (
    Delete,
    FileStep,
    Plan,
    Rename,
    RenameFolder,
    Write,
    is_plain_name,
    may_rename_folder,
    names_of,
)
from klogtool.plans.question import PathText, Question

COMMAND = "doctor --fix"
MOST_TEXT_BYTES = 1 << 20
MOST_EDITS = 100_000
_SURROGATES_OF_NO_BYTE = "\ud800-\udc7f\udd00-\udfff"

# Bytes that are not UTF-8 are surrogates, as in names.
Text: TypeAlias = Annotated[str, Meta(max_length=MOST_TEXT_BYTES, pattern=f"^[^{_SURROGATES_OF_NO_BYTE}]*$")]


class DeleteFile(Struct, frozen=True, forbid_unknown_fields=True, tag_field="edit", tag="delete-file"):
    """Delete a file. path: relative to the log dir, as in all edits: `NAME`, or `FOLDER/NAME` in a partition dir."""

    path: PathText


class WriteFile(Struct, frozen=True, forbid_unknown_fields=True, tag_field="edit", tag="write-file"):
    """Write a file of at most 1 MiB; an existing file of that name is replaced."""

    path: PathText
    text: Text


class RenameFile(Struct, frozen=True, forbid_unknown_fields=True, tag_field="edit", tag="rename-file"):
    """Rename a file within its folder. to: its new path, which no other file has."""

    path: PathText
    to: PathText


class MoveFolder(Struct, frozen=True, forbid_unknown_fields=True, tag_field="edit", tag="move-folder"):
    """Rename a folder of the log dir, or move it out of the log dir. to: as for `RenameFolder`."""

    path: PathText
    to: PathText


class SetOffset(Struct, frozen=True, forbid_unknown_fields=True, tag_field="edit", tag="set-offset"):
    """Change the line of one partition in an offset checkpoint; offset None: drop the line. Other lines stay, so edits
    of several partitions go together."""

    path: PathText
    topic: PathText
    partition: Annotated[int, Meta(ge=0, le=(1 << 31) - 1)]
    offset: Annotated[int, Meta(ge=0, le=(1 << 63) - 1)] | None = None


Edit: TypeAlias = DeleteFile | WriteFile | RenameFile | SetOffset | MoveFolder
_FileEdit: TypeAlias = DeleteFile | WriteFile | RenameFile | SetOffset


class MendQuestion(Question, frozen=True, kw_only=True):
    """edits: what to change, in order. Folders are moved after all files are changed, in their order.

    log_dir: the absolute path of the log dir that the edits are about; None: the path that the command is given. The
    question of a plan has it, and only the edits of that plan: so a plan can be decided again by itself.
    """

    edits: Annotated[tuple[Edit, ...], Meta(max_length=MOST_EDITS)] = ()
    log_dir: PathText | None = None


QUESTION = MendQuestion


class _Folder:
    """What becomes of the files in one folder. edits: those that were added."""

    def __init__(self, path: str) -> None:
        self.draft = Draft.of(path)
        self.edits: list[Edit] = []
        self.steps: list[FileStep] = []
        self._touched: list[str] = []

    def add(self, edit: _FileEdit) -> None:
        """Do it in the draft. Raises Refused if it is done already, or impossible; KlogError for an unreadable file."""
        name = os.path.basename(edit.path)
        match edit:
            case DeleteFile():
                self._check_is_file(name, "delete")
                self.draft.delete(name)
                self._step(Delete(name), name)
            case WriteFile():
                self._write(name, edit.text)
            case RenameFile():
                self._rename(name, os.path.basename(edit.to))
            case SetOffset():
                self._set_offset(name, edit)
        self.edits.append(edit)

    def facts(self) -> Iterator[Fact]:
        """Yield facts about the files that are touched."""
        for name in dict.fromkeys(self._touched):
            if name in self.draft.before:
                yield file_fact(name, self.draft.before[name])

    def _write(self, name: str, text: str) -> None:
        data = text.encode("utf-8", "surrogateescape")
        if len(data) > MOST_TEXT_BYTES:
            raise Refused(MendRefusal.TOO_LONG(size=len(data), most=MOST_TEXT_BYTES), path=self._path(name))
        self._check_no_other(name)
        if name in self.draft and self.draft.size(name) == len(data) and self.draft.read(name) == data:
            raise Refused(MendRefusal.SAME_TEXT(), path=self._path(name))
        self.draft.write(name, data)
        self._step(Write(name, self.draft.files[name].content), name)

    def _rename(self, name: str, to: str) -> None:
        self._check_is_file(name, "rename")
        self._check_no_other(to)
        if to in self.draft:
            raise Refused(MendRefusal.NAME_TAKEN(to=to), path=self._path(name))
        self.draft.move(name, to)
        self._step(Rename(name, to), name, to)

    def _set_offset(self, name: str, edit: SetOffset) -> None:
        self._check_is_file(name, "edit")
        if self.draft.size(name) > MOST_TEXT_BYTES:
            raise Refused(MendRefusal.LONG_CHECKPOINT(most=MOST_TEXT_BYTES), path=self._path(name))
        try:
            offsets = dict(parse_offset_checkpoint(self.draft.read(name)))
        except KlogError as error:
            raise error.at_path(self._path(name)) from None
        key = TopicPartition(edit.topic, edit.partition)
        if offsets.get(key) == edit.offset:
            raise Refused(MendRefusal.SAME_LINE(key=str(key)), path=self._path(name))
        if edit.offset is None:
            del offsets[key]
        else:
            offsets[key] = edit.offset
        self.draft.write(name, build_offset_checkpoint(offsets))
        self._forget_write(name)
        self._step(Write(name, self.draft.files[name].content), name)

    def _forget_write(self, name: str) -> None:
        """Drop the last step if it wrote the same file: the next one has all lines."""
        touching = (n for n in reversed(range(len(self.steps))) if name in names_of(self.steps[n]))
        last = next(touching, None)
        if last is not None and isinstance(self.steps[last], Write):
            del self.steps[last]

    def _step(self, step: FileStep, *names: str) -> None:
        self.steps.append(step)
        self._touched += names

    def _check_is_file(self, name: str, verb: str) -> None:
        self._check_no_other(name)
        if name not in self.draft:
            raise Refused(MendRefusal.NO_FILE(verb=verb), path=self._path(name))

    def _check_no_other(self, name: str) -> None:
        if self.draft.is_folder(name) or name in self.draft.devices:
            raise Refused(MendRefusal.NOT_A_FILE(), path=self._path(name))

    def _path(self, name: str) -> str:
        return os.path.join(self.draft.path, name)


def decide(path: str, question: MendQuestion) -> Iterator[Plan]:
    """Yield a plan for each folder whose files change, sorted by name, and last one for the log dir itself.

    Raises Refused for an edit that leads elsewhere, is done already, or is impossible; KlogError if a folder or file
    cannot be read.
    """
    if question.log_dir is not None and not os.path.isabs(question.log_dir):
        raise Refused(MendRefusal.NOT_ABSOLUTE(), path=question.log_dir)
    base = os.path.realpath(question.log_dir or path)
    if not f"{os.path.realpath(path)}/".startswith(f"{base}/"):  # the edits of another log dir
        return
    folders: dict[str, _Folder] = {}
    for edit in question.edits:
        if not isinstance(edit, MoveFolder):
            _folder_of(base, edit, folders).add(edit)
    for name in sorted(folders.keys() - {""}):
        folder = folders[name]
        draft = folder.draft
        facts = (folder_fact("", draft.listed or listing_of(draft.path)), *folder.facts())
        own = replace(question, log_dir=base, edits=tuple(folder.edits))
        yield Plan(COMMAND, draft.path, own, facts, tuple(folder.steps))
    moves = [edit for edit in question.edits if isinstance(edit, MoveFolder)]
    if moves or "" in folders:
        folder = folders.get("") or _Folder(base)
        own = replace(question, log_dir=base, edits=(*folder.edits, *moves))
        yield _plan_log_dir(base, own, folder, moves)


def _folder_of(base: str, edit: _FileEdit, folders: dict[str, _Folder]) -> _Folder:
    """Return the folder that an edit is about. Raises Refused if the path leads elsewhere, or there is none."""
    paths = (edit.path, edit.to) if isinstance(edit, RenameFile) else (edit.path,)
    for path in paths:
        parts = path.split("/")
        if len(parts) > 2 or not all(map(is_plain_name, parts)):
            raise Refused(MendRefusal.OUTSIDE(), path=os.path.join(base, path))
        if parts[-1] == LOCK:
            raise Refused(MendRefusal.SHOWS_USE(), path=os.path.join(base, path))
    name = os.path.dirname(edit.path)
    if os.path.dirname(paths[-1]) != name:
        raise Refused(MendRefusal.TO_OTHER_FOLDER(to=paths[-1]), path=os.path.join(base, edit.path))
    if name not in folders:
        if not os.path.isdir(os.path.join(base, name)):
            raise Refused(FileCause.NO_FOLDER(), path=os.path.join(base, name))
        folders[name] = _Folder(os.path.join(base, name) if name else base)
    return folders[name]


def _plan_log_dir(base: str, question: MendQuestion, folder: _Folder, moves: list[MoveFolder]) -> Plan:
    """Plan what becomes of the log dir's own files, and then of its folders. The names in the log dir are no fact:
    other files may come and go."""
    now = set(folder.draft.folders)
    for edit in moves:
        _check_move(base, edit, now, folder.draft)
        now.remove(edit.path)
        now.add(edit.to)
    moved = dict.fromkeys(edit.path for edit in moves if edit.path in folder.draft.folders)
    relied = (folder_fact(name, listing_of(os.path.join(base, name))) for name in moved)
    renames = (RenameFolder(edit.path, edit.to) for edit in moves)
    return Plan(COMMAND, base, question, (*folder.facts(), *relied), (*folder.steps, *renames))


def _check_move(base: str, edit: MoveFolder, now: set[str], draft: Draft) -> None:
    """Raises Refused for a move that cannot be done. now: the folders after the moves before."""
    path, to = (os.path.normpath(os.path.join(base, name)) for name in (edit.path, edit.to))
    if not may_rename_folder(edit.path, edit.to, base):
        raise Refused(MendRefusal.NO_MOVE(to=edit.to), path=path)
    if edit.path not in now:
        is_other = os.path.lexists(path) and edit.path not in draft.folders
        raise Refused(FileCause.NOT_A_FOLDER() if is_other else FileCause.NO_FOLDER(), path=path)
    if edit.path in draft.folders and os.path.islink(path):
        raise Refused(FileCause.LINK(), path=path)
    is_free = edit.to in draft.folders or not os.path.lexists(to)
    if edit.to in now or edit.to in draft or not is_free:
        raise Refused(MendRefusal.TAKEN(to=edit.to), path=path)
