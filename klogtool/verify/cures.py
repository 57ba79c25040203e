"""Cures of findings, as shell commands: words are quoted, a remark begins with `#`.

Each line works if it is pasted into bash in verify's working directory. `DIR` stands for a folder that the user
chooses. If there is no command, the cure is a sentence, which never begins with the name of a command.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from klogtool.escape import quoted
from klogtool.format.names import TopicPartition

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

FROM_A_CONTROLLER = (
    "stop this controller and another controller of the cluster, and copy its folder __cluster_metadata-0"
)


def rebuild_index(folder: str, only: str, base_offset: int | None = None) -> str:
    """Rebuild the side files of one kind (`index`, `snapshot`, ...), of one segment or of all."""
    segment = "" if base_offset is None else f" --segment {base_offset}"
    return f"klogtool rebuild-index {quoted(folder)}{segment} --only {only} --apply"


def salvage(folder: str) -> str:
    """Keep everything sound of a partition."""
    return f"klogtool salvage {quoted(folder)} --output DIR"


def recover(folder: str, last_stop: str | None = None) -> str:
    """Do what a broker's start does to a partition. last_stop: whether to treat the last stop as clean or unclean."""
    believed = "" if last_stop is None else f" --last-stop {last_stop}"
    return f"klogtool recover {quoted(folder)}{believed} --apply"


def move_out(path: str, folder: str) -> str:
    """Move something out of a broker's way into a folder beside `folder`, which contains it.

    folder: a log dir, or the parent of a partition dir. Nothing there is overwritten.
    """
    whole = folder.rstrip("/")
    if os.path.basename(whole) in ("", ".", ".."):
        whole = os.path.abspath(folder)
    place = whole + MOVED_OUT
    inner = os.path.dirname(os.path.relpath(path, folder))
    place = os.path.join(place, inner) if inner else place
    return f"mkdir -p {quoted(place)} && mv -n {quoted(path)} {quoted(place)}/"


def move_out_of_partition(path: str) -> str:
    """Do the same with a file of a partition dir: move it out of the log dir."""
    return move_out(path, parent_of(os.path.dirname(path) or "."))


def parent_of(path: str) -> str:
    """Return the folder that contains a path, also for `.`."""
    whole = path.rstrip("/")
    if os.path.basename(whole) in ("", ".", ".."):
        return os.path.join(path, "..")
    return os.path.dirname(whole) or "."


def renaming(path: str, to: str) -> str:
    """Rename a file to its right name, which no other file has."""
    return f"mv -n {quoted(path)} {quoted(to)}"


def unpacking(path: str) -> str | None:
    """Unpack a file that somebody compressed, in its place; None if its name does not say so."""
    _, unpack = _UNPACK.get(os.path.splitext(path)[1], (b"", None))
    return None if unpack is None else f"{unpack} {quoted(path)}"


def is_packed(start: bytes) -> bool:
    """Return whether a file is compressed, by its first bytes. No batch begins like that."""
    return start.startswith(tuple(magic for magic, _ in _UNPACK.values()))


def exchanging(path: str, other: str) -> str:
    """Exchange the names of two folders."""
    between = f"{path}{MOVED_OUT}"
    steps = ((path, between), (other, path), (between, other))
    return " && ".join(f"mv -n {quoted(one)} {quoted(to)}" for one, to in steps)


def remove(path: str, price: str) -> str:
    """Delete a file that a broker creates again. price: what that costs, or why it costs nothing."""
    return f"rm {quoted(path)}  # {price}"


def edit(path: str, commands: Iterable[str], remark: str = "") -> str:
    """Change lines of a text file. commands: for sed, with extended regular expressions."""
    words = " ".join(f"-e {_one_word(command)}" for command in commands)
    return f"sed -E -i {words} {quoted(path)}" + (f"  # {remark}" if remark else "")


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


def write_lines(path: str, lines: Iterable[str], remark: str = "") -> str:
    """Write a small text file."""
    words = " ".join(_one_word(line) for line in lines)
    return f"printf '%s\\n' {words} > {quoted(path)}" + (f"  # {remark}" if remark else "")


def _in_regex(text: str) -> str:
    """Escape a text for an extended regular expression."""
    return "".join("\\" + character if character in _IN_REGEX else character for character in text)


def _one_word(text: str) -> str:
    """Quote a word for the shell that is not a path."""
    return quoted(text).removeprefix("./") if text.startswith("-") else quoted(text)
