"""Where a wound goes: which file of a draft, which batch, which byte; and how bytes of a file are replaced.

A wound names a file by its path below the draft. A partition dir's name means its last segment, unless the base offset
of another segment is given.
"""

from __future__ import annotations

from klogtool.broker.content import Content, read_content
from klogtool.broker.draft import Draft, DraftFile, span_of
from klogtool.errors import AboveLimit, KlogError
from klogtool.format.framing import Frame, find_frame
from klogtool.format.names import FileKind, FileName, parse_file_name

MOST_BYTES = 256 << 20  # of a log that is searched for a batch


def path_in(draft: Draft, name: str) -> str:
    """Return the path of a file of the draft, for errors."""
    return f"{draft.path.rstrip('/')}/{name}".rstrip("/")


def wrong(draft: Draft, name: str, reason: str) -> KlogError:
    """Return the error for a wound that does not fit a file."""
    return KlogError(reason, path=path_in(draft, name))


def is_in_folder(draft: Draft, file: str) -> bool:
    """Return whether `file` means a folder: the draft's own, or one below it."""
    return file == "" or any(name.startswith(file + "/") for name in draft.files)


def beside(file: str, name: str) -> str:
    """Return the path of a file `name` in the folder of another file."""
    folder = file.rpartition("/")[0]
    return f"{folder}/{name}" if folder else name


def below(folder: str, name: str) -> str:
    """Return the path of a file `name` in a folder."""
    return f"{folder}/{name}" if folder else name


def parsed(file: str) -> FileName:
    """Return the parsed name of a file, without its folder."""
    return parse_file_name(file.rpartition("/")[2])


def names_below(draft: Draft, folder: str) -> list[str]:
    """Return the files directly in a folder, sorted."""
    return [name for name in draft.names() if name.rpartition("/")[0] == folder]


def find_file(draft: Draft, file: str, segment: int | None = None, kind: FileKind = FileKind.LOG) -> str:
    """Return the existing file that a wound means.

    file: a partition dir, then segment (None: the last one that has such a file) and kind choose the file; or a file
    of a segment, then it is its file of this kind; or any other file. Raises KlogError if there is no such file.
    """
    if is_in_folder(draft, file):
        return _in_partition(draft, file, segment, kind)
    own = parsed(file)
    name = file
    if own.kind.has_base_offset and kind is not FileKind.LOG and own.kind is not kind:
        name = beside(file, own.name.partition(".")[0] + kind.value)
    if name not in draft:
        raise wrong(draft, name, "no such file")
    if segment is not None and own.base_offset != segment:
        raise wrong(draft, name, f"this is not a file of segment {segment}")
    return name


def _in_partition(draft: Draft, folder: str, segment: int | None, kind: FileKind) -> str:
    names = [
        (own.base_offset, name)
        for name in names_below(draft, folder)
        if (own := parsed(name)).kind is kind and own.base_offset is not None and not own.suffix
    ]
    wanted = [name for base, name in sorted(names) if segment in (None, base)]
    if not wanted:
        which = "" if segment is None else f" of segment {segment}"
        raise wrong(draft, folder, f"there is no {kind.value} file{which} here")
    return wanted[-1]


def read_file(draft: Draft, name: str) -> bytes:
    """Return the bytes of a file. Raises AboveLimit if it is too large."""
    if draft.size(name) > MOST_BYTES:
        raise AboveLimit(f"a wound looks at {MOST_BYTES:,} bytes at most: give `at` alone", path=path_in(draft, name))
    return draft.read(name)


def entries_of(data: bytes) -> list[Frame]:
    """Return the batches or messages of a log, up to the first damage."""
    frames, at = [], 0
    while isinstance(frame := find_frame(data, at, len(data)), Frame):
        frames.append(frame)
        at += frame.size
    return frames


def find_entry(draft: Draft, name: str, number: int) -> tuple[Frame, bytes]:
    """Return a batch by its number (-1: the last), and the bytes of the file. Raises KlogError if there is none."""
    data = read_file(draft, name)
    entries = entries_of(data)
    if not -len(entries) <= number < len(entries):
        raise wrong(draft, name, f"there is no batch {number}: the file has {len(entries)}")
    return entries[number], data


def find_byte(draft: Draft, name: str, batch: int | None, at: int | None) -> int:
    """Return a position in a file.

    batch: `at` counts from the start of this batch (-1: the last). at: negative counts from the end of the batch, or of
    the file; None: the middle of the batch, of a log the last. Raises KlogError for a byte that is not there.
    """
    start, room = 0, draft.size(name)
    if batch is not None or (at is None and parsed(name).kind.holds_batches):
        entry, _ = find_entry(draft, name, -1 if batch is None else batch)
        start, room = entry.position, entry.size
    within = room // 2 if at is None else at + room if at < 0 else at
    if not 0 <= within < room:
        what = "the file" if batch is None else f"batch {batch}"
        raise wrong(draft, name, f"there is no byte {at or 0}: {what} has {room}")
    return start + within


def splice(draft: Draft, name: str, start: int, stop: int, new: Content) -> None:
    """Replace bytes [start, stop) of a file. Its time stays: a disk that damages a file does not change it."""
    file = draft.files[name]
    content = (*span_of(file.content, 0, start), *new, *span_of(file.content, stop, max(0, file.size - stop)))
    put(draft, name, content)


def put(draft: Draft, name: str, content: Content | bytes) -> None:
    """Give a file other bytes; the time of an existing file stays."""
    before = draft.files.get(name)
    draft.write(name, content, None if before is None else before.mtime_ns)


def bytes_at(draft: Draft, name: str, at: int, size: int) -> bytes:
    """Return some bytes of a file."""
    return read_content(span_of(draft.files[name].content, at, size))


def copy(draft: Draft, name: str, to: str) -> None:
    """Copy a file within the draft. Raises KlogError if the name is taken."""
    check_new(draft, to)
    draft.files[to] = DraftFile(draft.files[name].content, draft.files[name].mtime_ns)


def check_new(draft: Draft, name: str) -> None:
    """Raises KlogError if the draft has something of this name."""
    if name in draft or draft.is_folder(name) or name in draft.devices:
        raise wrong(draft, name, "this exists already")
