"""The second line of an error: what to do about it, if that is known.

An error that has a cure shows it. Otherwise the hint depends on the type of the error, never on its text. An error that
no option and no other spelling helps against has none.
"""

from __future__ import annotations

import errno
import os

from klogtool.cli.status import was_listed
from klogtool.errors import Changed, Corrupt, KlogError
from klogtool.escape import quoted
from klogtool.format.names import FileKind, parse_file_name

BY_KAFKA_CLASS = {
    "OffsetOutOfRangeException": "klogtool lookup PARTITION --timestamp earliest --timestamp latest tells from where "
    "to where it goes.",
    "ClassNotFoundException": "There are StringDecoder, DefaultDecoder, IntegerDecoder, LongDecoder, "
    "with org.apache.kafka.tools.api. before the name.",
    "MultipleArgumentsForOptionException": "Give the option once. --files takes several files, separated by commas.",
}
GONE = (
    "A broker, or something else, changes the files while klogtool reads them. Run the command again; if that happens "
    "often, stop the broker or make a copy first."
)
BY_ERRNO = {
    errno.EACCES: "Read it as the user that the broker runs as, or as root.",
    errno.EPERM: "Read it as the user that the broker runs as, or as root.",
}


def hint_of(error: KlogError, form: str | None, *, resyncs: bool) -> str | None:
    """Return what to do about an error, or None. form: of the output of dump-log; None for other commands. resyncs: a
    dump goes on after damage."""
    from klogtool.log.opened import NoLogDir  # loads much, and most runs have no error

    if isinstance(error, NoLogDir):
        if error.below:
            some = "" if error.is_all else " (there may be more)"
            return f"Log dirs below it{some}: {' '.join(map(quoted, error.below))}"
        return "Name a log dir (a folder with meta.properties), a partition dir such as orders-0, or a file of one."
    if error.cure is not None:
        return error.cure
    if isinstance(error, Changed):
        return GONE
    number = getattr(error, "errno", None)
    if number == errno.ENOENT and was_listed(error.path):
        return GONE
    if number == errno.ENOENT:
        path = error.path or ""
        if path == "-":
            return "Only dump-log, append and explain read standard input. ./- is a file of this name."
        if "," in path and all(map(os.path.exists, path.split(","))):
            return "Separate files with blanks: FILE FILE. Only --files takes commas."
        if os.sep not in path and "." not in path:
            return "Name a file or folder. The files of a topic are in partition dirs such as /var/kafka-logs/orders-0."
        return None
    if number is not None:
        return BY_ERRNO.get(number)
    if isinstance(error, Corrupt) and error.path is not None:
        return _of_damage(error, error.path, form, resyncs=resyncs)
    return BY_KAFKA_CLASS.get(error.kafka_class or "")


def _of_damage(error: Corrupt, path: str, form: str | None, *, resyncs: bool) -> str | None:
    kind = FileKind.LOG if path == "-" else parse_file_name(os.path.basename(path)).kind
    if form is None:
        if kind is FileKind.FOREIGN and not os.path.isdir(path):
            return None
        folder = path if os.path.isdir(path) else os.path.dirname(path) or "."
        return f"klogtool verify {quoted(folder)}  # shows what is wrong, and how to repair it"
    if form == "text" and error.kafka_class == "NoSuchFileException":
        return "--format json prints this file by itself."
    if kind is not FileKind.LOG or form not in ("text", "json"):
        return None
    if form == "text" and error.kafka_class == "NumberFormatException" and error.position is None:
        return "--format json reads it under any name."
    if error.position is not None and not resyncs:
        return "--resync continues after the damage."
    return None
