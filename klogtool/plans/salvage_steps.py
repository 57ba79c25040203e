"""The steps from a damaged partition dir to what salvage makes of it, for who does that in place (`klogtool apply`).

A dir that is being salvaged is no worse at any time than the damaged one: an `.index` goes before its `.log` is another
one, so that a broker recovers that segment and does not trust the index; logs that go do so when all that is kept of
them is in others; indexes come when all else is there; and what an interrupted cleaning left goes last.
"""

from __future__ import annotations

from collections.abc import Iterator

from klogtool.broker.draft import Draft
from klogtool.format.names import FileKind, build_file_name, parse_file_name
from klogtool.plans.plan import Delete, Step, Write

_INDEXES = (FileKind.TIME_INDEX, FileKind.TXN_INDEX, FileKind.OFFSET_INDEX)


def order_steps(draft: Draft) -> tuple[Step, ...]:
    """Everything that differs between what the draft was and what it is."""
    return tuple(_steps(draft))


def _steps(draft: Draft) -> Iterator[Step]:
    changed = sorted(draft.changed())
    indexes_gone = []
    for name in _of_kinds(changed, FileKind.LOG):
        if name in draft.files:
            index = build_file_name(FileKind.OFFSET_INDEX, parse_file_name(name).base_offset or 0)
            if index in draft.before:
                indexes_gone.append(index)
                yield Delete(index)
            yield _step(draft, name)
    for name in reversed(_of_kinds(changed, FileKind.LOG)):
        if name not in draft.files:
            yield Delete(name)
    in_use = [name for name in changed if not parse_file_name(name).suffix]
    yield from (_step(draft, name) for name in in_use if parse_file_name(name).kind not in (FileKind.LOG, *_INDEXES))
    for kind in _INDEXES:
        names = {*_of_kinds(changed, kind), *(indexes_gone if kind is FileKind.OFFSET_INDEX else ())}
        yield from (_step(draft, name) for name in sorted(names) if name in draft.files or name not in indexes_gone)
    left_over = [name for name in changed if parse_file_name(name).suffix]
    yield from (_step(draft, name) for name in sorted(left_over, key=lambda name: (not name.endswith(".swap"), name)))


def _of_kinds(names: list[str], *kinds: FileKind) -> list[str]:
    return [name for name in names if parse_file_name(name).kind in kinds and not parse_file_name(name).suffix]


def _step(draft: Draft, name: str) -> Step:
    file = draft.files.get(name)
    return Delete(name) if file is None else Write(name, file.content, file.mtime_ns)
