"""A plan: what to write, in which order, and why; and which facts it relied on. A decision makes it, `disk` carries it
out.

A plan can be printed, saved and carried out later. A saved plan does not contain the bytes to write (the indexes of a
terabyte have gigabytes). To carry it out, klogtool makes the same decision again, from the same question over unchanged
files (`facts`), and compares the two (`id`).
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from msgspec import UNSET, Struct, UnsetType, to_builtins
from msgspec.structs import replace

from klogtool.broker.content import Content, FileRange, Part, Spooled, content_size, crc_of, part_size
from klogtool.broker.draft import Draft, DraftFile
from klogtool.broker.file_facts import Fact
from klogtool.causes import Reason, Say, Text, as_value, named
from klogtool.errors import Corrupt
from klogtool.format.names import FileKind, parse_file_name
from klogtool.log.folder import own_name
from klogtool.plans.causes import PlanRefusal
from klogtool.plans.fields import JsonObject
from klogtool.plans.question import Question
from klogtool.plans.recover_result import LoadingLosses
from klogtool.plans.results import Result
from klogtool.values import Long, Natural
from klogtool.verify.cures import MOVED_OUT

MOST_NAME_BYTES = 255  # of one name; the limit of the system
JOURNAL, REJECTED = ".klogtool", ".rejected"  # ends of names beside a log dir: see disk/journal.py, cli/salvage.py
RUN = re.compile(r"[0-9a-f]{12}-[1-9][0-9]*")  # a run's name in a journal


class Write(Struct, frozen=True, tag_field="step", tag="write"):
    """Write a file with this content; an existing file of that name is replaced."""

    path: str
    content: Content
    mtime_ns: int | None = None

    @property
    def size(self) -> int:
        """Bytes that are written."""
        return content_size(self.content)


class Truncate(Struct, frozen=True, tag_field="step", tag="truncate"):
    """Cut a file to `size` bytes, in place."""

    path: str
    size: Natural


class Rename(Struct, frozen=True, tag_field="step", tag="rename"):
    """Rename a file within its folder; an existing file of the new name is replaced."""

    path: str
    to: str


class Delete(Struct, frozen=True, tag_field="step", tag="delete"):
    """Delete a file."""

    path: str


class RenameFolder(Struct, frozen=True, tag_field="step", tag="rename-folder"):
    """Rename a folder of a log dir, or move it out of the log dir. The plan's path is the log dir, with links resolved.

    path: a name in the log dir. to: another name there, or what `moved_out` gives. Nothing may have that name. These
    steps are the last of a plan, and are carried out once all files of the run are as planned. So all other paths of
    the run are those before.
    """

    path: str
    to: str


class Discard(Struct, frozen=True, tag_field="step", tag="discard"):
    """Delete for good, after all else, a folder of klogtool's own beside the log dir. path: see `may_discard`."""

    path: str


# Paths are relative to the plan's. Steps are carried out in order, once the contents of all Writes are on disk.
FileStep: TypeAlias = Write | Truncate | Rename | Delete
Step: TypeAlias = FileStep | RenameFolder | Discard


def is_plain_name(name: str) -> bool:
    """Return whether this can be the name of a file or folder: one part of a path, and no way out of a folder."""
    if name in ("", os.curdir, os.pardir) or "/" in name or "\0" in name:
        return False
    try:
        return len(os.fsencode(name)) <= MOST_NAME_BYTES
    except UnicodeEncodeError:
        return False


def moved_out_folder(log_dir: str) -> str:
    """Return the path of the folder beside a log dir that takes what is moved out of it."""
    return log_dir + MOVED_OUT


def moved_out(log_dir: str, name: str) -> str:
    """Return the path, relative to the log dir, of a folder that was moved out of it: a name in `<log dir>.moved-out`,
    beside it. The cures of verify use the same place."""
    return os.path.join(os.pardir, moved_out_folder(own_name(log_dir)), name)


def may_rename_folder(path: str, to: str, log_dir: str) -> bool:
    """Return whether `RenameFolder` accepts these: both are names in the log dir, or `to` is what `moved_out` gives."""
    name = os.path.basename(to)
    return is_plain_name(path) and is_plain_name(name) and to in (name, moved_out(log_dir, name))


def is_journal_entry(path: str, log_dir: str) -> bool:
    """Return whether this relative path is that of a run in the journal beside the log dir."""
    *above, name = path.split("/")
    return above == [os.pardir, own_name(log_dir) + JOURNAL] and RUN.fullmatch(name) is not None


def may_discard(path: str, log_dir: str) -> bool:
    """Return whether `Discard` accepts this: a run in the journal beside the log dir, or a folder beside it with the
    bytes that salvage rejected."""
    up, _, name = path.partition("/")
    is_rejected = up == os.pardir and is_plain_name(name) and name.endswith(REJECTED)
    return is_rejected or is_journal_entry(path, log_dir)


def makes_room(steps: Iterable[Step | SavedWrite]) -> bool:
    """Return whether the steps delete and write files, and begin with a deletion: before it the disk may have no room
    for what is written."""
    kinds = [type(step) for step in steps if not isinstance(step, Discard)]
    return kinds[:1] == [Delete] and len({*kinds}) > 1 and {*kinds} <= {Delete, Write, SavedWrite}


def names_of(step: Step | SavedWrite) -> tuple[str, ...]:
    """Return the paths of the files that a step changes, relative to the plan's. A step about a folder changes none."""
    match step:
        case RenameFolder() | Discard():
            return ()
        case Rename():
            return step.path, step.to
        case _:
            return (step.path,)


def files_after(draft: Draft, steps: Iterable[Step]) -> dict[str, DraftFile]:
    """Return the files of a draft, which is changed, once these steps are done. Contents are those before all steps.
    Raises Corrupt if a step has no file to work on."""
    for step in steps:
        if not isinstance(step, Write | RenameFolder | Discard) and step.path not in draft:
            raise Corrupt(PlanRefusal.NO_FILE_FOR_STEP(path=step.path))
        match step:
            case Write():
                draft.write(step.path, step.content, step.mtime_ns)
            case Truncate():
                draft.truncate(step.path, step.size)
            case Rename():
                draft.move(step.path, step.to)
            case Delete():
                draft.delete(step.path)
    return draft.files


class SegmentVerdict(Struct, frozen=True):
    """What happens to a segment, by its base offset, and why. Commands have their own with further fields."""

    segment: int
    action: str
    reason: Text | None

    @property
    def why(self) -> Text:
        """The reason; "" if there is none."""
        return self.reason or ""

    @property
    def size(self) -> int:
        """Bytes of the segment, 0 where they do not matter."""
        return 0


class SizedVerdict(SegmentVerdict, frozen=True):
    """A verdict about a segment of this many bytes."""

    size: int


class Plan(Struct, frozen=True):
    """What a command would do to one partition dir or log dir (`path`, absolute).

    question: what was asked, so that it can be asked again. result: its answer in docs/contract.md; None for a log
    dir's own files.
    notes: where values came from that nobody gave. on_disk: by how much the disk has more room afterwards, if the
    decision measured that; else sizes of files count. on_disk_discarded: the part of it that is discarded, never kept
    for undo. losses: what a command loses when it loads the log.
    """

    command: str
    path: str
    question: Question
    facts: tuple[Fact, ...]
    steps: tuple[Step, ...]
    segments: tuple[SegmentVerdict, ...] = ()
    result: Result | None = None
    notes: tuple[Text, ...] = ()
    on_disk: int | None = None
    on_disk_discarded: int = 0
    losses: LoadingLosses | None = None

    def __repr__(self) -> str:
        """Return the command, the path and how many steps there are."""
        return f"<Plan {self.command} of {self.path}: {len(self.steps)} steps>"

    @property
    def id(self) -> str:
        """Twelve hex digits; the same for the same decision over the same files, whatever the sentences are."""
        return _id_of(self._row(as_value))

    @property
    def arguments(self) -> JsonObject:
        """The question as JSON types."""
        return self.question.as_arguments()

    @property
    def answer(self) -> JsonObject:
        """The answer as in docs/contract.md, as JSON types, but for the sentences: only their causes are named."""
        return self.answer_in(named)

    def answer_in(self, say: Callable[[Reason], object]) -> JsonObject:
        """Return the answer as in docs/contract.md, as JSON types: the result, and the losses of loading."""
        answers = (to_builtins(part, enc_hook=say) for part in (self.result, self.losses) if part)
        return {name: value for part in answers for name, value in part.items()}

    def released_answer(self, say: Callable[[Reason], object]) -> JsonObject:
        """Return the answer, with the release as which it was decided; empty if there is none."""
        answer = self.answer_in(say)
        return {**answer, "kafka": self.question.circumstances.kafka} if answer else {}

    @property
    def loses(self) -> bool:
        """Whether records are lost without a request, or are gone already: by loading a damaged log (`recover`, and
        every command that loads one), or in the rejected bytes of `salvage`; or whether a broker hides a partition."""
        return any(answer.loses for answer in (self.result, self.losses) if answer is not None)

    @property
    def bytes_held(self) -> int:
        """Bytes that leave the folder and are kept for undo, until `undo --discard`."""
        return 0 if self.question.no_undo else self.bytes_leaving - self.on_disk_discarded

    @property
    def bytes_leaving(self) -> int:
        """Bytes that leave the folder."""
        if self.on_disk is not None:
            return self.on_disk
        sizes = {fact.path: fact.size for fact in self.facts}
        held = 0
        for step in self.steps:
            before = sizes.get(step.path, 0)
            match step:
                case Truncate(size=size):
                    held += max(0, before - size)
                    sizes[step.path] = min(before, size)
                case Rename(to=to):
                    held += sizes.get(to, 0)
                    sizes[to] = sizes.pop(step.path, 0)
                case Write():
                    held += before
                    sizes[step.path] = step.size
                case Delete():
                    held += sizes.pop(step.path, 0)
        return held

    @property
    def log_sizes(self) -> dict[int, int]:
        """The bytes of each segment's `.log` before the plan, by base offset."""
        files = ((parse_file_name(fact.path), fact.size) for fact in self.facts)
        return {
            file.base_offset: size
            for file, size in files
            if file.kind is FileKind.LOG and not file.suffix and file.base_offset is not None
        }

    @property
    def is_whole(self) -> bool:
        """Return whether the plan has all contents that it writes; if not, it was made for display only."""
        contents = (step.content for step in self.steps if isinstance(step, Write))
        return all(part.path is not None for content in contents for part in content if isinstance(part, Spooled))

    @property
    def bytes_written(self) -> int:
        """Bytes of new files."""
        return sum(step.size for step in self.steps if isinstance(step, Write))

    @property
    def bytes_freed(self) -> int:
        """By how many bytes the folder shrinks; below 0 if it grows."""
        return self.bytes_leaving - (self.bytes_written if self.on_disk is None else 0)

    @property
    def bytes_freed_now(self) -> int:
        """How many bytes become free on the disk; what is held for undo still takes space."""
        return max(0, self.bytes_freed - self.bytes_held)

    def as_row(self, say: Say) -> PlanRow:
        """Return the plan as in docs/contract.md. This takes as long as hashing all new contents."""
        row = self._row(as_value)
        segments, notes = to_builtins((self.segments, self.notes), enc_hook=say)
        answer = self.released_answer(say)
        return replace(row, id=_id_of(row), segments=segments, notes=tuple(notes), answer=answer)

    def _row(self, say: Callable[[Reason], object]) -> PlanRow:
        return PlanRow(
            "",
            self.command,
            self.path,
            self.arguments,
            tuple(fact.below(self.path) for fact in self.facts),
            tuple(
                SavedWrite(step.path, step.size, tuple(map(_part, step.content))) if isinstance(step, Write) else step
                for step in self.steps
            ),
            to_builtins(self.segments, enc_hook=say),
            self.bytes_freed,
            self.bytes_held,
            to_builtins(self.notes, enc_hook=say),
            self.released_answer(say),
        )


class ContentRow(Struct, frozen=True):
    """A part of a new file: a range of a file, or new bytes by size and CRC-32C."""

    path: str | UnsetType = UNSET
    start: Natural | UnsetType = UNSET
    end: Natural | UnsetType = UNSET
    size: Natural | UnsetType = UNSET
    crc32c: str | UnsetType = UNSET


class SavedWrite(Struct, frozen=True, tag_field="step", tag="write", rename={"content": "from"}):
    """A Write without its bytes."""

    path: str
    size: Natural
    content: tuple[ContentRow, ...]


SavedStep: TypeAlias = SavedWrite | Truncate | Rename | Delete | RenameFolder | Discard


class PlanRow(Struct, frozen=True, tag_field="type", tag="plan"):
    """A plan as in docs/contract.md, and as it is saved. Paths of facts are absolute."""

    id: str
    command: str
    path: str
    arguments: JsonObject
    facts: tuple[Fact, ...]
    steps: tuple[SavedStep, ...]
    segments: list[JsonObject]
    bytes_freed: Long
    bytes_held: Long
    notes: tuple[str, ...]
    answer: JsonObject


def _id_of(row: PlanRow) -> str:
    """Hash the plan. Of the facts, only what stays the same after klogtool itself has changed the files and undone
    that."""
    fields = {name: value for name, value in to_builtins(row).items() if name not in ("type", "id")}
    facts = [{"path": fact.path, "size": fact.size, "mtime_ns": fact.mtime_ns} for fact in row.facts]
    return hashlib.blake2b(ascii(_in_order({**fields, "facts": facts})).encode(), digest_size=6).hexdigest()


def _in_order(value: Any) -> Any:
    """Sort a JSON value so that equal values have the same `ascii`, whatever the order of their objects."""
    if isinstance(value, Mapping):
        return [(name, _in_order(value[name])) for name in sorted(value)]
    return [_in_order(item) for item in value] if isinstance(value, list | tuple) else value


def kind_of(step: Step | SavedStep) -> str:
    """Return the word for what a step does."""
    return str(type(step).__struct_config__.tag)


def _part(part: Part) -> ContentRow:
    if isinstance(part, FileRange):
        return ContentRow(part.path, part.start, part.stop)
    return ContentRow(size=part_size(part), crc32c=f"{crc_of(part):08x}")
