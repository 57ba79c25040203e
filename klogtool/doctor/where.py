"""Where a message of a broker's log is about: the file, the partition dir and the log dir, taken from its text.

The names in a wording come first, then the prefix of Kafka's loggers (`[UnifiedLog partition=t-0, dir=/d0]`), then any
path in the text. Nothing is looked up on a disk: the log may be from another machine.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from klogtool.broker.cluster_config import CLUSTER_METADATA_DIR
from klogtool.errors import Corrupt
from klogtool.escape import quoted
from klogtool.format.names import OFFSET_DIGITS, FileKind, parse_file_name, parse_partition_dir_name

_PREFIX = re.compile(r"\[\w{1,40} partition=(?P<partition>[^,\]\n]{1,260}), dir=(?P<dir>[^\]\n]{1,4096})\]")
_LOG = re.compile(r"Log\(dir=(?P<folder>[^\n,]{1,4096}), topic")
_SEGMENT = re.compile(r"LogSegment\(baseOffset=(?P<base>\d{1,20}),")
_PATH = re.compile(r"(?<![\w./-])/[^\s,;:'\"()\[\]`]{1,4096}")
_PATHS = frozenset({"file", "folder", "dir", "other"})
_PATH_BEGINS = re.compile(r"(?<![^\s'\"(\[`])/")
_RENAMED = " -> "  # FileSystemException: the file, the other file, the reason
_AROUND = {"(": ")", "[": "]", "'": "'", '"': '"', "`": "`"}
_LISTED = re.compile(r"/.*?(?=, /|$)")
_LIST_ENDS = ")]"  # of ArraySeq(/d0, /d1)
_TYPED_IN = {"file": "FILE", "folder": "PARTITION", "dir": "LOGDIR", "other": "OTHER", "offset": "OFFSET"}


class Where(Struct, frozen=True):
    """What a message is about; None for what it does not say.

    partition: as `t-0`. folder: of the partition. dir: the log dir. base: the base offset of a segment. other: a second
    folder of the same kind. dirs: all log dirs, if the message lists them.
    """

    file: str | None = None
    folder: str | None = None
    dir: str | None = None
    partition: str | None = None
    base: int | None = None
    other: str | None = None
    offset: int | None = None
    dirs: tuple[str, ...] = ()

    def filled(self, command: str) -> str:
        """Fill a command's `{names}` in, quoted for a shell. What is not known becomes a word such as LOGDIR."""
        words = {name: _word(getattr(self, name), typed) for name, typed in _TYPED_IN.items()}
        metadata = os.path.join(self.dir, CLUSTER_METADATA_DIR) if self.dir else None
        words["dirs"] = " ".join(map(quoted, self.dirs)) or words["dir"]
        words["metadata"] = _word(metadata, f"LOGDIR/{CLUSTER_METADATA_DIR}")
        return command.format_map(words)


def _word(value: str | int | None, typed: str) -> str:
    return typed if value is None else quoted(str(value))


def where_in(text: str, groups: Mapping[str, str]) -> Where:
    """Return what a message is about. groups: what its wording has by name; text: the lines around it."""
    dirs = tuple(_LISTED.findall(groups.get("dirs", "").rstrip("." + _LIST_ENDS)))
    known = {name: value for name, group in groups.items() if (value := (group or "").strip().rstrip("."))}
    known |= {"dir": dirs[0]} if dirs else {}
    for name in _PATHS & known.keys():
        path, _, other = known[name].partition(_RENAMED)
        known |= {name: _path_in(path)} | ({"other": other} if other else {})
    for name, value in _around(text):
        known.setdefault(name, value)
    return replace(_completed(known), dirs=dirs)


def _path_in(text: str) -> str:
    """Return the path at the end of a text, without what releases and people put before and around it."""
    begins = [match.start() for match in _PATH_BEGINS.finditer(text)]
    if begins and not text.startswith("/"):
        before, text = text[: begins[-1]], text[begins[-1] :]
        return text.removesuffix(_AROUND.get(before[-1], ""))
    return text if begins else text.rpartition(": ")[2]


def _around(text: str) -> Iterator[tuple[str, str]]:
    for pattern in (_PREFIX, _LOG, _SEGMENT):
        if match := pattern.search(text):
            yield from match.groupdict().items()
    for match in _PATH.finditer(text):
        path = match[0].rstrip("./")
        if parse_file_name(name := os.path.basename(path)).kind is not FileKind.FOREIGN:
            yield "file", path
        elif _is_partition(name):
            yield "folder", path


def _is_partition(name: str) -> bool:
    try:
        parse_partition_dir_name(name)
    except Corrupt:
        return False
    return True


def _completed(known: dict[str, str]) -> Where:
    """Add what follows from a path: the partition dir of a file, the log dir of a partition dir."""
    file, folder, log_dir = (known.get(name) for name in ("file", "folder", "dir"))
    if file is not None and _is_partition(parent := os.path.basename(os.path.dirname(file))) and parent:
        folder = folder or os.path.dirname(file)
    elif file is not None and os.path.dirname(file):
        log_dir = log_dir or os.path.dirname(file)
    if folder is None and log_dir is not None and _is_partition(known.get("partition", "")):
        folder = os.path.join(log_dir, known["partition"])
    if folder is not None and log_dir is None:
        log_dir = os.path.dirname(folder) or None
    partition = known.get("partition") or (os.path.basename(folder) if folder else None)
    base = _number(known.get("base"))
    if base is None and file is not None:
        base = parse_file_name(os.path.basename(file)).base_offset
    return Where(file, folder, log_dir, partition, base, known.get("other"), _number(known.get("offset")))


def _number(text: str | None) -> int | None:
    digits = (text or "").removeprefix("-")
    return int(text or "") if digits.isdecimal() and len(digits) <= OFFSET_DIGITS else None
