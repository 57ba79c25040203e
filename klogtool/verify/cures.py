"""What mends a finding, as a line for a shell: words are quoted, a remark begins with `#`.

Each line works where it is pasted into bash in the folder that verify ran in. `DIR` stands for a folder that the reader
chooses. What cannot be a command is said in words, which never begin with the name of one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from klogtool.escape import quoted
from klogtool.format.names import TopicPartition

_IN_REGEX = frozenset(r".[]*^$\+?(){}|/")


def rebuild_index(folder: str, only: str, base_offset: int | None = None) -> str:
    """To build the side files of one kind anew (`index`, `snapshot`, ...), of one segment or of all."""
    segment = "" if base_offset is None else f" --segment {base_offset}"
    return f"klogtool rebuild-index {quoted(folder)}{segment} --only {only} --apply"


def salvage(folder: str, *, deep: bool = False) -> str:
    """To keep all that is sound of a partition. deep: without batches whose records cannot be read."""
    return f"klogtool salvage {quoted(folder)} --output DIR{' --deep' if deep else ''}"


def recover(folder: str, last_stop: str | None = None) -> str:
    """To do what a broker's start does to a partition. last_stop: as what it is to take the last one."""
    believed = "" if last_stop is None else f" --last-stop {last_stop}"
    return f"klogtool verify --recover {quoted(folder)}{believed} --apply"


def move_out(path: str, folder: str) -> str:
    """To get something out of a broker's way, and keep it: into a folder beside `folder`, which it lies in.

    folder: a log dir, or what a partition dir lies in. Nothing is overwritten there.
    """
    place = _beside(folder)
    inner = os.path.dirname(os.path.relpath(path, folder))
    place = os.path.join(place, inner) if inner else place
    return f"mkdir -p {quoted(place)} && mv -n {quoted(path)} {quoted(place)}/"


def move_out_of_partition(path: str) -> str:
    """The same with a file of a partition dir: out of the log dir."""
    return move_out(path, parent_of(os.path.dirname(path) or "."))


def parent_of(path: str) -> str:
    """The folder that something lies in, also of `.`."""
    whole = path.rstrip("/")
    if os.path.basename(whole) in ("", ".", ".."):
        return os.path.join(path, "..")
    return os.path.dirname(whole) or "."


def _beside(folder: str) -> str:
    whole = folder.rstrip("/")
    if os.path.basename(whole) in ("", ".", ".."):
        whole = os.path.abspath(folder)
    return whole + ".moved-out"


def renaming(path: str, to: str) -> str:
    """To give a file its right name, where there is none of that name."""
    return f"mv -n {quoted(path)} {quoted(to)}"


def remove(path: str, price: str) -> str:
    """To have a broker begin a file anew. price: what that costs, or why it costs nothing."""
    return f"rm {quoted(path)}  # {price}"


def edit(path: str, commands: Iterable[str], remark: str = "") -> str:
    """To change lines of a text file. commands: those of sed, with extended regular expressions."""
    words = " ".join(f"-e {_one_word(command)}" for command in commands)
    return f"sed -E -i {words} {quoted(path)}" + (f"  # {remark}" if remark else "")


def set_line(key: TopicPartition, offset: int) -> str:
    """For `edit`: another offset in the line of a partition, in a checkpoint of a log dir."""
    return f"s/{_line(key)}.*/{key.topic} {key.partition} {offset}/"


def drop_line(key: TopicPartition) -> str:
    """For `edit`: without the line of a partition. `number_of_lines` has to follow."""
    return f"/{_line(key)}/d"


def number_of_lines(number: int) -> str:
    """For `edit`: so many lines has a checkpoint, by its second line."""
    return f"2s/.*/{number}/"


def _line(key: TopicPartition) -> str:
    return rf"^{_in_regex(key.topic)}\s+{key.partition}\s"


def write_lines(path: str, lines: Iterable[str], remark: str = "") -> str:
    """To write a small text file anew."""
    words = " ".join(_one_word(line) for line in lines)
    return f"printf '%s\\n' {words} > {quoted(path)}" + (f"  # {remark}" if remark else "")


def _in_regex(text: str) -> str:
    """A text as a part of an extended regular expression that means nothing but itself."""
    return "".join("\\" + character if character in _IN_REGEX else character for character in text)


def _one_word(text: str) -> str:
    """A word of a shell that is no path."""
    return quoted(text).removeprefix("./") if text.startswith("-") else quoted(text)
