"""The steps from a damaged partition dir to the result of salvage, for carrying it out in place (`klogtool apply`).

While it is being salvaged, the dir is never worse than the damaged one. An `.index` is deleted before its `.log`
changes, so that a broker recovers that segment and does not trust the index. Logs are deleted once everything that is
kept of them is in others. Indexes are written when everything else is there. What an interrupted cleaning left is
deleted last.
"""

from __future__ import annotations

from collections.abc import Iterator

from klogtool.broker.draft import Draft
from klogtool.format.names import FileKind, build_file_name, parse_file_name
from klogtool.plans.plan import Delete, Step, Write

_INDEXES = (FileKind.TIME_INDEX, FileKind.TXN_INDEX, FileKind.OFFSET_INDEX)


def order_steps(draft: Draft) -> tuple[Step, ...]:
    """Return the steps for every difference between the draft as found and as it is now."""
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
