"""Cures of findings that are commands for a shell. `render/words.json` has the commands: it quotes words, and a remark
begins with `#`.

Each line works if it is pasted into bash in verify's working directory. `DIR` stands for a folder that the user
chooses. If there is no command, the cure is a sentence, which never begins with the name of a command.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from klogtool.causes import Reason
from klogtool.format.names import TopicPartition
from klogtool.verify.causes import CureCause

MOVED_OUT = ".moved-out"  # ends the name of the folder beside a log dir that takes what is moved out of it
_UNPACK = {  # with the first bytes of such files
    ".gz": (b"\x1f\x8b", "gzip -d"),
    ".zst": (b"\x28\xb5\x2f\xfd", "zstd -d --rm"),
    ".xz": (b"\xfd7zXZ\0", "xz -d"),
    ".bz2": (b"BZh", "bzip2 -d"),
    ".lz4": (b"\x04\x22\x4d\x18", "lz4 -d --rm"),
}
MOST_MAGIC_BYTES = max(len(magic) for magic, _ in _UNPACK.values())
_IN_REGEX = frozenset(r".[]*^$\+?(){}|/")

FROM_A_CONTROLLER = CureCause.FROM_A_CONTROLLER()


def rebuild_index(folder: str, only: str, base_offset: int | None = None) -> Reason:
    """Rebuild the side files of one kind (`index`, `snapshot`, ...), of one segment or of all."""
    if base_offset is None:
        return CureCause.REBUILD_INDEX(folder=folder, only=only)
    return CureCause.REBUILD_SEGMENT(folder=folder, segment=base_offset, only=only)


def salvage(folder: str, copied: str | None = None) -> Reason:
    """Keep everything sound of a partition. copied: with what `copying_aside` has made of this file."""
    if copied is None:
        return CureCause.SALVAGE(folder=folder)
    return CureCause.SALVAGE_WITH(folder=folder, copy=_place_of(copied, parent_of(folder)))


def copying_aside(path: str) -> Reason:
    """Make a copy of a partition dir, beside the log dir, out of a log that a start deletes."""
    segment = os.path.splitext(os.path.basename(path))[0]
    return CureCause.COPY_ASIDE(path=path, place=_place_of(path, parent_of(os.path.dirname(path) or ".")), name=segment)


def recover(folder: str, last_stop: str | None = None) -> Reason:
    """Do what a broker's start does to a partition. last_stop: whether to treat the last stop as clean or unclean."""
    return (
        CureCause.RECOVER(folder=folder)
        if last_stop is None
        else CureCause.RECOVER_AS(folder=folder, last_stop=last_stop)
    )


def move_out(path: str, folder: str) -> Reason:
    """Move something out of a broker's way into a folder beside `folder`, which contains it.

    folder: a log dir, or the parent of a partition dir. Nothing there is overwritten.
    """
    return CureCause.MOVE_OUT(path=path, place=_place_of(path, folder))


def _place_of(path: str, folder: str) -> str:
    whole = folder.rstrip("/")
    if os.path.basename(whole) in ("", ".", ".."):
        whole = os.path.abspath(folder)
    place = whole + MOVED_OUT
    inner = os.path.dirname(os.path.relpath(path, folder))
    return os.path.join(place, inner) if inner else place


def move_out_of_partition(path: str) -> Reason:
    """Return the command that moves a file of a partition dir out of the log dir."""
    return move_out(path, parent_of(os.path.dirname(path) or "."))


def parent_of(path: str) -> str:
    """Return the folder that contains a path, also for `.`."""
    whole = path.rstrip("/")
    if os.path.basename(whole) in ("", ".", ".."):
        return os.path.join(path, "..")
    return os.path.dirname(whole) or "."


def renaming(path: str, to: str, *, over_empty: bool = False) -> Reason:
    """Rename a file to its right name, which no other file has, or (over_empty) an empty one."""
    return (CureCause.RENAME_OVER if over_empty else CureCause.RENAME)(path=path, to=to)


def moving_in(logs: Sequence[str], path: str, *, is_new: bool, files: Sequence[str] = ()) -> Reason:
    """Move segments with their side files into a partition dir; none is replaced. is_new: it is not there yet. files:
    others that belong there."""
    moves = [CureCause.MOVE_IN(stem=os.path.splitext(log)[0], path=path) for log in logs]
    first = [CureCause.MAKE_FOLDER(path=path)] if is_new else []
    return in_turn(*first, *moves, *([CureCause.MOVE_FILES(files=tuple(files), path=path)] if files else []))


def unpacking_into(copy: str, path: str, *, over: bool = False) -> Reason | None:
    """Unpack a file that somebody compressed into one that is there; None if its name does not say how. over: only the
    beginning of that changes; else it is empty."""
    program = _unpacked_by(copy)
    cause = CureCause.UNPACK_OVER if over else CureCause.UNPACK_TO
    return None if program is None else cause(program=_to_stdout(program), copy=copy, path=path)


def unpacking(path: str) -> Reason | None:
    """Unpack a file that somebody compressed, in its place; None if its name does not say so."""
    program = _unpacked_by(path)
    return None if program is None else CureCause.UNPACK(program=program, path=path)


def filling_from_copy(copy: str, log: str, start: bytes) -> Reason | None:
    """Make a copy of a partition dir, beside the log dir, out of what may be one of its segments (log: its name), and
    fill holes from it; None if the file is compressed, and its name does not say how. start: its first bytes."""
    folder = os.path.dirname(copy)
    place, program = _place_of(copy, parent_of(folder)), _unpacked_by(copy)
    if not is_packed(start):
        aside = CureCause.COPY_ASIDE(path=copy, place=place, name=log)
    elif program is not None:
        aside = CureCause.UNPACK_ASIDE(program=_to_stdout(program), path=copy, place=place, name=log)
    else:
        return None
    return in_turn(aside, CureCause.SALVAGE_WITH(folder=folder, copy=place))


def _unpacked_by(path: str) -> str | None:
    return _UNPACK.get(os.path.splitext(path)[1], (b"", None))[1]


def _to_stdout(program: str) -> str:
    return f"{program.split()[0]} -dc"


def is_packed(start: bytes) -> bool:
    """Return whether a file is compressed, by its first bytes. No batch begins like that."""
    return start.startswith(tuple(magic for magic, _ in _UNPACK.values()))


def exchanging(path: str, other: str) -> Reason:
    """Exchange the names of two folders."""
    return CureCause.EXCHANGE(path=path, other=other, between=f"{path}{MOVED_OUT}")


def remove(path: str, price: Reason) -> Reason:
    """Delete a file that a broker creates again. price: what that costs, or why it costs nothing."""
    return remarked(CureCause.REMOVE(path=path), price)


def edit(path: str, commands: Iterable[str], remark: Reason | None = None) -> Reason:
    """Change lines of a text file. commands: for sed, with extended regular expressions."""
    return remarked(CureCause.EDIT(path=path, commands=tuple(commands)), remark)


def set_line(key: TopicPartition, offset: int) -> str:
    """For `edit`: set another offset in a partition's line in a checkpoint of a log dir."""
    return f"s/{_line(key)}.*/{key.topic} {key.partition} {offset}/"


def drop_line(key: TopicPartition) -> str:
    """For `edit`: delete the line of a partition. `number_of_lines` must follow."""
    return f"/{_line(key)}/d"


def number_of_lines(number: int) -> str:
    """For `edit`: set the number of lines, which is the second line of a checkpoint."""
    return f"2s/.*/{number}/"


def _line(key: TopicPartition) -> str:
    return rf"^{_in_regex(key.topic)}\s+{key.partition}\s"


def write_lines(path: str, lines: Iterable[str], remark: Reason | None = None) -> Reason:
    """Write a small text file."""
    return remarked(CureCause.WRITE_LINES(path=path, lines=tuple(lines)), remark)


def in_turn(*commands: Reason) -> Reason:
    """Do one after the other, as long as none fails."""
    return commands[0] if len(commands) == 1 else CureCause.IN_TURN(steps=commands)


def remarked(command: Reason, remark: Reason | None) -> Reason:
    """Add a remark to a command, if there is one."""
    return command if remark is None else CureCause.REMARKED(command=command, remark=remark)


def _in_regex(text: str) -> str:
    """Escape a text for an extended regular expression."""
    return "".join("\\" + character if character in _IN_REGEX else character for character in text)
