"""A plan: what is to be written, in order, and why; and what it relied on. Made by a decision, carried out by `disk`.

A plan can be printed, saved and carried out later. A saved plan does not hold the bytes it would write (the indexes of
a terabyte have gigabytes): who carries it out makes the same decision again, from the same question over files that
are as they were (`facts`), and holds the two together (`id`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from msgspec import Struct, field

from klogtool.broker.content import Content, FileRange, Made, Part, content_size, crc_of, part_size
from klogtool.broker.file_facts import Fact
from klogtool.plans.question import Question

try:  # all of hashlib brings OpenSSL, which takes longer to load than many a plan to make
    from _blake2 import blake2b
except ImportError:
    from hashlib import blake2b


class Write(Struct, frozen=True):
    """A file comes to be with this content, in place of the one of that name if there is one."""

    path: str
    content: Content
    mtime_ns: int | None = None

    @property
    def size(self) -> int:
        """Bytes that are written."""
        return content_size(self.content)


class Truncate(Struct, frozen=True):
    """A file is cut behind `size` bytes, in place."""

    path: str
    size: int


class Rename(Struct, frozen=True):
    """A file gets another name in its folder; one of that name is replaced."""

    path: str
    to: str


class Delete(Struct, frozen=True):
    """A file goes."""

    path: str


# Paths are below the plan's. Steps are carried out in their order, once the contents of all Writes are safely beside.
Step: TypeAlias = Write | Truncate | Rename | Delete


def tells_of_loss(answer: Mapping[str, Any]) -> bool:
    """Whether an answer of a plan tells of records that go without having been asked for, or are gone already: in
    loading a damaged log (`verify --recover`, and whatever loads one), or in the rejected bytes of `salvage`; or that a
    broker hides a partition."""
    lost = answer.get("lost")
    if isinstance(lost, list):
        return any(loss["first_offset"] is not None for loss in lost)
    return any(answer.get(name) for name in ("loses_records", "behind_end", "missing", "lost_by_recovery", "stray"))


def names_of(step: Step) -> tuple[str, ...]:
    """Paths of the files that a step changes, below the plan's."""
    return (step.path, step.to) if isinstance(step, Rename) else (step.path,)


class SegmentVerdict(Struct, frozen=True):
    """What becomes of a segment, by its base offset, and why. more: further fields of its JSON."""

    segment: int
    action: str
    reason: str
    more: Mapping[str, Any] = field(default_factory=dict)


class Plan(Struct, frozen=True):
    """What a command would do to one partition dir or log dir (`path`, absolute).

    question: what the decision was asked, so that it can be asked again.
    answer: the contract's (docs/contract.md), in JSON's types. notes: where values came from that nobody gave.
    """

    command: str
    path: str
    question: Question
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
    def arguments(self) -> dict[str, Any]:
        """The question in JSON's types."""
        return self.question.as_arguments()

    @property
    def is_for_good(self) -> bool:
        """Whether nothing is to be kept for undo."""
        return self.question.no_undo

    @property
    def bytes_held(self) -> int:
        """Bytes that leave the folder and are kept for undo, until `undo --discard`."""
        return 0 if self.is_for_good else self.bytes_leaving

    @property
    def bytes_leaving(self) -> int:
        """Bytes that leave the folder."""
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
        return self.bytes_leaving - self.bytes_written

    @property
    def bytes_freed_now(self) -> int:
        """Bytes that the disk has more room by afterwards: what is held for undo still takes it."""
        return max(0, self.bytes_freed - self.bytes_held)

    def as_json(self) -> dict[str, Any]:
        """The plan as the contract has it (docs/contract.md), `type` first."""
        told = self._told()  # once: it takes as long as hashing all that is written
        return {"type": "plan", "id": _id_of(told), **told}

    def _told(self) -> dict[str, Any]:
        return {
            "command": self.command,
            "path": self.path,
            "arguments": self.arguments,
            "facts": [fact.as_json(self.path) for fact in self.facts],
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
    """Of the facts only what stays the same when klogtool itself has changed the files and taken that back."""
    facts = [{name: fact[name] for name in ("path", "size", "mtime_ns")} for fact in told["facts"]]
    return blake2b(ascii(_in_order({**told, "facts": facts})).encode(), digest_size=6).hexdigest()


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
    if isinstance(part, FileRange):
        return {"path": part.path, "start": part.start, "end": part.stop}
    return {"size": part_size(part), "crc32c": f"{crc_of(part):08x}"}
