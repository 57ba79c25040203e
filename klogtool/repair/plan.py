"""A plan: what is to be written, in order, and why; and what it relied on. Made by a decision, carried out by `disk`.

A plan can be printed, saved and carried out later. A saved plan does not hold the bytes it would write (the indexes of
a terabyte have gigabytes): who carries it out makes the same decision again, from the same arguments over files that
are as they were (`facts`), and holds the two together (`id`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from klogtool.lazy_dataclasses import dataclass, field
from klogtool.log.file import unreadable
from klogtool.repair.draft import Content, Draft, Made, Part, Piece, content_size, crc_of, part_size

try:  # all of hashlib brings OpenSSL, which takes longer to load than many a plan to make
    from _blake2 import blake2b
except ImportError:
    from hashlib import blake2b

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeAlias


@dataclass(frozen=True, slots=True)
class Fact:
    """A file or folder that the plan relied on. path: below the plan's (empty: the folder itself). A folder's
    modification time says that no name came or went; its size is 0. `.lock` is no fact: carrying out makes it."""

    path: str
    size: int
    mtime_ns: int


def facts_of(draft: Draft) -> tuple[Fact, ...]:
    """All files of the folder as they were found, and that no name came or went. Raises KlogError if it is gone."""
    try:
        mtime_ns = os.stat(draft.path).st_mtime_ns
    except OSError as error:
        raise unreadable(draft.path, error) from error
    files = (Fact(name, file.size, file.mtime_ns or 0) for name, file in sorted(draft.before.items()))
    return (Fact("", 0, mtime_ns), *files)


@dataclass(frozen=True, slots=True)
class Write:
    """A file comes to be with this content, in place of the one of that name if there is one."""

    path: str
    content: Content
    mtime_ns: int | None = None

    @property
    def size(self) -> int:
        """Bytes that are written."""
        return content_size(self.content)


@dataclass(frozen=True, slots=True)
class Truncate:
    """A file is cut behind `size` bytes, in place."""

    path: str
    size: int


@dataclass(frozen=True, slots=True)
class Rename:
    """A file gets another name in its folder; one of that name is replaced."""

    path: str
    to: str


@dataclass(frozen=True, slots=True)
class Delete:
    """A file goes."""

    path: str


# Paths are below the plan's. Steps are carried out in their order, once the contents of all Writes are safely beside.
Step: TypeAlias = Write | Truncate | Rename | Delete


def names_of(step: Step) -> tuple[str, ...]:
    """Paths of the files that a step changes, below the plan's."""
    return (step.path, step.to) if isinstance(step, Rename) else (step.path,)


@dataclass(frozen=True, slots=True)
class SegmentVerdict:
    """What becomes of a segment, by its base offset, and why. more: further fields of its JSON."""

    segment: int
    action: str
    reason: str
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Plan:
    """What a command would do to one partition dir or log dir (`path`, absolute).

    arguments: what the decision was asked, in JSON's types, so that it can be asked again.
    answer: the contract's, in JSON's types. notes: where values came from that nobody gave, a line each.
    """

    command: str
    path: str
    arguments: Mapping[str, Any]
    facts: tuple[Fact, ...]
    steps: tuple[Step, ...]
    segments: tuple[SegmentVerdict, ...] = ()
    answer: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """Twelve hex digits; the same for the same decision over the same files."""
        return _id_of(self._told())

    @property
    def bytes_held(self) -> int:
        """Bytes that leave the folder and are kept for undo, until `undo --discard`."""
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
    def is_whole(self) -> bool:
        """Whether all that it writes is there; if not, it was made only to be told of."""
        contents = (step.content for step in self.steps if isinstance(step, Write))
        return all(part.path is not None for content in contents for part in content if isinstance(part, Made))

    @property
    def bytes_written(self) -> int:
        """Bytes of new files."""
        return sum(step.size for step in self.steps if isinstance(step, Write))

    @property
    def bytes_freed(self) -> int:
        """Bytes that the folder is smaller by afterwards; below 0 if it grows."""
        return self.bytes_held - self.bytes_written

    def as_json(self) -> dict[str, Any]:
        """The plan as the contract has it, `type` first."""
        told = self._told()  # once: it takes as long as hashing all that is written
        return {"type": "plan", "id": _id_of(told), **told}

    def _told(self) -> dict[str, Any]:
        return {
            "command": self.command,
            "path": self.path,
            "arguments": dict(self.arguments),
            "facts": [
                {"path": os.path.join(self.path, f.path).rstrip("/"), "size": f.size, "mtime_ns": f.mtime_ns}
                for f in self.facts
            ],
            "steps": [step_as_json(step) for step in self.steps],
            "segments": [
                {"segment": s.segment, "action": s.action, "reason": s.reason, **s.more} for s in self.segments
            ],
            "bytes_freed": self.bytes_freed,
            "bytes_held": self.bytes_held,
            "notes": list(self.notes),
            "answer": dict(self.answer),
        }


def _id_of(told: Mapping[str, Any]) -> str:
    return blake2b(ascii(_in_order(told)).encode(), digest_size=6).hexdigest()


def _in_order(value: Any) -> Any:
    """A value of JSON's types so that the same one has the same `ascii`, however its objects and lists came to be."""
    if isinstance(value, Mapping):
        return [(name, _in_order(value[name])) for name in sorted(value)]
    return [_in_order(item) for item in value] if isinstance(value, list | tuple) else value


def step_as_json(step: Step) -> dict[str, Any]:
    """A step in JSON's types; of the bytes that it writes their number and CRC-32C, pieces of files by place."""
    match step:
        case Write():
            return {"step": "write", "path": step.path, "size": step.size, "from": [_part(p) for p in step.content]}
        case Truncate():
            return {"step": "truncate", "path": step.path, "size": step.size}
        case Rename():
            return {"step": "rename", "path": step.path, "to": step.to}
        case Delete():
            return {"step": "delete", "path": step.path}


def _part(part: Part) -> dict[str, Any]:
    if isinstance(part, Piece):
        return {"path": part.path, "start": part.start, "end": part.stop}
    return {"size": part_size(part), "crc32c": f"{crc_of(part):08x}"}
